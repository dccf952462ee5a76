"""Real daemons for tests: a `yopp` of its own run directory, that must leave nothing behind.

``yopp(*args)`` runs the command line as a new user would, in a clean environment, and returns the finished process.
What else this machine does is no part of most tests: nodes watch no pressure of it, and make room by killing, unless
``yopp.watch_pressure()``.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import psutil
import pytest

from executor.linux.procfs import read_bytes
from yarnopp_cli.settings.files import SHIPPED_SITE

from ..patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent.parent
DEEPEST = 12
"""No node makes its groups further down."""
DOWN_SECONDS = 20
"""What does not end within this time is killed, at the end of a test."""
LOOKS = {
    ("status",),
    *(
        (noun, verb)
        for noun in ("app", "attempt", "container", "node", "queue")
        for verb in ("list", "status")
    ),
}
"""Commands that only look."""


def processes_of(group: str) -> list[int]:
    """The processes of a container in that cgroup: the launcher that lives in a slot's is not the container's."""
    found = Path(group, "cgroup.procs").read_text().split()
    return [int(pid) for pid in found if b"/launcher." not in read_bytes(f"/proc/{pid}/cmdline")]


def wait_until(condition: Callable[[], Any], timeout: float = 20.0, what: str = "") -> Any:
    """The first true value of ``condition``; fails the test when ``timeout`` seconds pass without one."""
    deadline = time.monotonic() + timeout * PATIENCE
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            pytest.fail(f"not within {timeout} s: {what or condition}")
        time.sleep(0.02)


class Yopp:
    """The command line with a run directory and a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.run_dir = home / "run"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "YOPP_RUN_DIR": str(self.run_dir),
            "YOPP_PORTS": "auto",  # several of these run at once
        }
        self.calm = home / "calm.toml"
        self.calm.write_text(
            "[yopp.nodemanager]\npressure.enabled = false\ngroup-weights = false\n"
            "[yopp.daemons]\nrestart.enabled = false\n"
            "[yarn.nodemanager]\nopportunistic-containers-use-pause-for-preemption = false\n"
        )
        self.environment["YOPP_CONF"] = f"{SHIPPED_SITE}:{self.calm}"
        self.started: list[subprocess.Popen[Any]] = []

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "yarnopp_cli"]

    def watch_pressure(self) -> None:
        """From now on use the shipped site as it is: opportunistic containers give way to this machine's load."""
        self.environment.pop("YOPP_CONF", None)

    def __call__(
        self,
        *args: str | bytes,
        timeout: float = 60,
        code: int | None = 0,
        env: dict[str, str] | None = None,
        **more: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end; ``code`` is the exit code it must have, None for any."""
        if args[:1] == ("up",) and "--conf" in args and "YOPP_CONF" in self.environment:
            args = (*args, "--conf", str(self.calm))
        if args[:1] == ("up",) and PATIENCE > 1 and "--timeout" not in args:
            args = (*args, "--timeout", f"{30 * PATIENCE:.0f}s")
        if "input" not in more:
            more.setdefault("stdin", subprocess.DEVNULL)
        ended = subprocess.run(
            [*self.command, *args], env=self.environment | (env or {}), cwd=more.pop("cwd", self.home),
            timeout=timeout * PATIENCE, capture_output=True, text=True, errors="replace", **more,
        )  # fmt: skip
        assert "Traceback" not in ended.stderr, ended.stderr
        if code is not None:
            assert ended.returncode == code, f"{args}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        return ended

    def json(self, *args: str, **more: Any) -> Any:
        """The document that a command prints with --json. Mere looks, which tests repeat, run in this process: a start
        of Python takes most of the time of a process of its own."""
        looks = args[:2] in LOOKS and not more
        return json.loads(self.look(*args, "--json") if looks else self(*args, "--json", **more).stdout)

    def look(self, *args: str) -> str:
        """What a command prints that succeeds, run by the same command line in this process."""
        code, printed, errors = self.within(*args)
        assert code == 0, f"{args}: {code}\n{printed}\n{errors}"
        return printed

    def within(self, *args: str) -> tuple[int, str, str]:
        """Run in this process, by the same command line, to the end: its exit code, its output, its errors."""
        from yarnopp_cli.cli.app import run

        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        clean = mock.patch.dict(os.environ, self.environment, clear=True)
        with clean, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(args)
        printed, errors = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
        assert "Traceback" not in errors, f"{args}: {code}\n{printed}\n{errors}"
        return code, printed, errors

    def start(self, *args: str, **more: Any) -> subprocess.Popen[str]:
        """Start it and go on; it is ended with the test."""
        process = subprocess.Popen(
            [*self.command, *args], env=self.environment, cwd=self.home, text=True, errors="replace",
            stdin=more.pop("stdin", subprocess.DEVNULL), stdout=more.pop("stdout", subprocess.PIPE),
            stderr=more.pop("stderr", subprocess.PIPE), **more,
        )  # fmt: skip
        self.started.append(process)
        return process

    def containers(self, *args: str) -> list[dict[str, Any]]:
        """The documents of `yopp container list`."""
        found = self.json("container", "list", *args)["containers"]
        return list(found["container"]) if found else []

    def leftovers(self) -> list[str]:
        """Processes that carry this run directory in their environment, and cgroups of it."""
        left = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                line = " ".join(process.cmdline())
                ours = process.environ().get("YOPP_RUN_DIR") == str(self.run_dir) or str(self.run_dir) in line
                if ours and process.pid != os.getpid():
                    left.append(f"process {process.pid}: {line}")
        tag = hashlib.sha256(str(self.run_dir).encode()).hexdigest()[:8]
        for folder, folders, _ in os.walk("/sys/fs/cgroup"):  # which takes it well when others remove theirs
            left += [f"cgroup {folder}/{tag}"] if tag in folders else []
            if folder.count("/") > DEEPEST:  # containers of tests make a thousand levels, and os.walk recurs
                folders.clear()
        return left

    def close(self) -> list[str]:
        """End everything; what was still there although it should not be."""
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.communicate()
        said = ""
        if self.run_dir.exists():  # else nothing was ever started
            # in this process: nearly every test ends so, and to start Python takes longer than to end its cluster
            _, *both = self.within("down", "-y", "--force", "--timeout", f"{DOWN_SECONDS * PATIENCE:.0f}s")
            said = f"down said: {''.join(both)}"
        deadline = time.monotonic() + 10
        while (left := self.leftovers()) and time.monotonic() < deadline:
            time.sleep(0.05)
        for line in left:
            if line.startswith("process "):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(line.split()[1].rstrip(":")), signal.SIGKILL)
        return [*left, said] if left else []


YoppT = TypeVar("YoppT", bound=Yopp)


@contextlib.contextmanager
def a_yopp(kind: Callable[[Path], YoppT]) -> Iterator[YoppT]:
    """One in a home of its own, with nothing running; whatever it starts must be gone at the end."""
    home = Path(tempfile.mkdtemp(prefix="yo"))
    home.chmod(0o755)
    program = kind(home)
    try:
        yield program
    finally:
        left = program.close()
        shutil.rmtree(home, ignore_errors=True)
    assert not left, left


@pytest.fixture
def yopp() -> Iterator[Yopp]:
    """A `yopp` with nothing running; whatever it starts must be gone with the test."""
    with a_yopp(Yopp) as program:
        yield program


@pytest.fixture
def place(yopp: Yopp) -> Path:
    """Where containers of all users can work, as below /var/lib/yopp; removed when the daemons that write there have
    ended."""
    made = yopp.home / "place"
    made.mkdir()
    return made


@pytest.fixture
def cluster(yopp: Yopp) -> Yopp:
    """A running cluster: one RM, one NM of 2 vcores and 1024 MB, queue length 10."""
    yopp("up", "--vcores", "2", "--memory", "1024")
    return yopp


@pytest.fixture(scope="module")
def _shared() -> Iterator[Yopp]:
    with a_yopp(Yopp) as program:
        program("up", "--vcores", "2", "--memory", "1024")
        yield program


@pytest.fixture
def shared(_shared: Yopp) -> Iterator[Yopp]:
    """The same for all tests of a module that ask for it: nothing runs there, but applications have ended."""
    yield _shared
    empty(_shared)


def empty(yopp: Yopp) -> None:
    """End all that runs in the cluster: the next test finds nothing of this one's but its ended applications."""
    yopp.within("app", "kill", "all", "-y")
    wait_until(lambda: not yopp.containers(), what="nothing runs")
