"""A run of the tests that is told to end leaves nothing behind (``tests/ending.py``)."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tests.ending import Ending
from tests.live.conftest import wait_until

ROOT = Path(__file__).resolve().parent.parent


class Run:
    """A pytest of tests in ``interrupted.py``, whose temporary files have a folder of their own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.tmp = folder / "t"
        self.tmp.mkdir()
        self.tmp.chmod(0o755)
        self._story = folder / "story"
        self._story.touch()
        self.out = (folder / "out").open("w+")
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "pytest",
                "-p",
                "no:cacheprovider",
                "-q",
                f"--basetemp={folder / 'base'}",
                *arguments,
            ],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(self.tmp), "YOPP_TEST_STORY": str(self._story)},
            stdin=subprocess.DEVNULL,
            stdout=self.out,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # nohup has it ignored
        )

    @property
    def story(self) -> list[str]:
        return self._story.read_text().splitlines()

    def ended(self) -> int:
        """Its exit code."""
        return self.process.wait(110)

    def said(self) -> str:
        self.out.seek(0)
        return self.out.read()

    def left(self) -> list[str]:
        """What is left of it: processes that carry its folder, groups of its clusters, files."""
        found = [str(path) for path in self.tmp.rglob("*")]
        for process in psutil.process_iter():
            try:
                text = " ".join([*process.cmdline(), *process.environ().values()])
            except psutil.Error:
                continue
            if f"{self.tmp}/" in text:
                found.append(f"process {process.pid}: {text[:200]}")
        homes = [line.removeprefix("home ") for line in self.story if line.startswith("home ")]
        keys = {hashlib.sha256(f"{home}/run".encode()).hexdigest()[:8] for home in homes}
        for folder, folders, _ in os.walk("/sys/fs/cgroup"):
            found += [f"{folder}/{key}" for key in keys & set(folders)]
        return found


@pytest.fixture
def run() -> Iterator[Callable[..., Run]]:
    """Start such a run; it has ended with the test."""
    folder = Path(tempfile.mkdtemp(prefix="yi"))
    folder.chmod(0o755)
    started: list[Run] = []

    def start(*arguments: str) -> Run:
        started.append(Run(folder, *arguments))
        return started[-1]

    yield start
    for one in started:
        one.process.terminate()
        one.ended()
        one.out.close()
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("test", "story"),
    [
        ("test_setup", ["set up", "inner set up", "inner torn down", "torn down"]),
        ("test_teardown", ["set up", "runs", "inner torn down", "torn down"]),
    ],
)
def test_a_fixture_is_not_interrupted(run: Callable[..., Run], test: str, story: list[str]) -> None:
    child = run(f"tests/interrupted.py::{test}")
    assert (child.ended(), child.story) == (pytest.ExitCode.INTERRUPTED, story), child.said()
    assert "KeyboardInterrupt" in child.said()


def test_a_forked_child_dies_of_its_own_signal(run: Callable[..., Run]) -> None:
    child = run("tests/interrupted.py::test_fork")
    assert (child.ended(), child.story) == (0, ["set up", "runs", "torn down"]), child.said()


class Worker:
    """A worker as the main process of a run has it: a process, here one that ends at SIGTERM or ignores it."""

    def __init__(self, trap: str) -> None:
        self.process = subprocess.Popen(
            ["sh", "-c", f"trap {trap} TERM; echo; while :; do sleep 0.02; done"], stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.process.stdout.readline()  # the trap is set
        self.gateway = SimpleNamespace(id="gw7", _rinfo=lambda: self.process)

    @property
    def _down(self) -> bool:
        return self.process.poll() is not None


@pytest.mark.parametrize(
    ("trap", "seconds", "says"), [("exit", 20.0, ""), ("''", 0.1, "NOT ENDED: gw7 (process {})")]
)
def test_a_worker_that_does_not_end_is_named(
    trap: str, seconds: float, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = Worker(trap)
    ending = Ending.__new__(Ending)  # without its handlers of signals, which this run has
    ending._workers = [worker]
    try:
        ending._end_workers(seconds)
        said = capsys.readouterr().err
        assert said.strip().startswith(says.format(worker.process.pid)) and bool(said) == bool(says)
    finally:
        worker.process.kill()
        worker.process.communicate()


@pytest.mark.live
@pytest.mark.parametrize(
    ("arguments", "clusters", "number"),
    [((), 1, signal.SIGTERM), (("-n", "2"), 2, signal.SIGTERM), ((), 1, signal.SIGHUP)],
    ids=["one process", "workers", "hangup"],
)
def test_clusters_end_with_the_run(
    run: Callable[..., Run], arguments: tuple[str, ...], clusters: int, number: signal.Signals
) -> None:
    child = run("tests/interrupted.py", "-k", "test_cluster", *arguments)
    wait_until(
        lambda: child.story.count("waits") == clusters or child.process.poll() is not None, 90, "it is there"
    )
    assert child.process.poll() is None, child.said()
    assert len([line for line in child.left() if line.startswith("process ")]) >= 4 * clusters
    child.process.send_signal(number)
    child.process.send_signal(number)  # the second changes nothing
    assert child.ended() == pytest.ExitCode.INTERRUPTED, child.said()
    assert child.left() == [], child.said()
