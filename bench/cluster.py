"""A cluster with its own run directory, which ends with its program, whatever happens."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from yarnopp_cli.cluster.rundir import RunDir
from yarnopp_cli.records.client_protocol import GetContainersRequest, WaitForApplicationsRequest
from yarnopp_cli.records.history import EventKind, GetEventsRequest
from yarnopp_cli.records.job_protocol import GetApplicationsRequest
from yarnopp_cli.records.methods import Request, ResponseT
from yarnopp_cli.rpc.blocking import Connection

ROOT = Path(__file__).resolve().parent.parent
CALM = "yopp.nodemanager.pressure.enabled=false"
"""Keeps other programs on the host from pausing containers: otherwise a benchmark would measure those."""

LEAST_WEIGHTS = {"cpu.shares": 2, "cpu.weight": 1}


def yopp() -> list[str]:
    """The first words of yopp's command line: the script next to this Python, as a user has it."""
    script = Path(sys.executable).with_name("yopp")
    return [str(script)] if script.exists() else [sys.executable, "-m", "yarnopp_cli"]


class Home:
    """A directory and an environment for yopp's commands, with or without a running cluster. Use it in a
    ``with``."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="yobench"))
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.path),
            "PYTHONPATH": str(ROOT),
            "YOPP_RUN_DIR": str(self.path / "run"),
            "TERM": "xterm-256color",
        }

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def start(self, *words: str, **options: Any) -> subprocess.Popen[Any]:
        """Start a yopp command, without input and, unless ``options`` say otherwise, without output."""
        silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen([*yopp(), *words], env=self.environment, **{**silent, **options})

    def run(self, *words: str) -> str:
        """Run a command that must succeed; return its output."""
        with self.start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            out, err = process.communicate()
        if process.returncode:
            raise RuntimeError(f"yopp {' '.join(words)}: {process.returncode}: {err}")
        return str(out)

    def pids(self) -> list[int]:
        """The pids of the daemons that run in this directory."""
        found = []
        for file in (self.path / "run").glob("*.pid"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                pid = int(file.read_text().split()[0])
                if str(self.path) in Path(f"/proc/{pid}/environ").read_text(errors="replace"):
                    found.append(pid)
        return found

    def close(self) -> None:
        """End the cluster, by signals if it does not answer, and remove the directory."""
        with self.start("down", "-y", "--force") as process:
            process.wait()
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.path, ignore_errors=True)


class Cluster(Home):
    """``nodes`` nodes with ``vcores`` and ``memory`` MB each. Both are numbers for the scheduler: the host
    may have fewer."""

    def __init__(
        self,
        *properties: str,
        vcores: int = 2,
        memory: int = 2048,
        nodes: int = 1,
        words: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        defines = [word for one in (CALM, *properties) for word in ("-D", one)]
        sizes = ["--nodes", str(nodes), "--vcores", str(vcores), "--memory", str(memory)]
        try:
            self.run("up", *sizes, *words, *defines)
            self.rm = Connection(self.socket)
        except BaseException:
            super().close()
            raise

    @property
    def socket(self) -> str:
        """The RM's socket."""
        return str(self.path / "run" / "rm.sock")

    def call(self, request: Request[ResponseT]) -> ResponseT:
        """Call the RM."""
        return self.rm.call(request)

    def running(self) -> int:
        """The number of running containers."""
        found = self.call(GetContainersRequest()).containers
        return sum(one.state == "RUNNING" for one in found)

    def until_running(self, number: int, seconds: float = 60.0) -> None:
        """Wait until ``number`` containers run."""
        deadline = time.monotonic() + seconds
        while self.running() < number:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{number} containers do not run after {seconds:g} s, {self.running()} do")
            time.sleep(0.005)

    def groups(self) -> Iterator[str]:
        """The paths of the cluster's cgroups, parents first."""
        for parent, below, _ in os.walk("/sys/fs/cgroup"):
            if os.path.basename(parent) == RunDir.of(self.environment["YOPP_RUN_DIR"]).key:
                yield from (path for path, _, _ in os.walk(parent))
                below.clear()

    def until_light(self, seconds: float = 10.0) -> None:
        """Wait until the nodes' cgroups have the least CPU weight, which they get some time after the last guaranteed
        container has ended."""
        nodes = [path for path in self.groups() if os.path.basename(path).startswith("nm-")]
        files = [file for path in nodes for name in LEAST_WEIGHTS if (file := Path(path, name)).exists()]
        deadline = time.monotonic() + seconds
        while heavy := [file for file in files if int(file.read_text()) > LEAST_WEIGHTS[file.name]]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{heavy[0]} is not the least weight after {seconds:g} s")
            time.sleep(0.005)

    def last_event(self) -> int:
        """The number of the last event."""
        return self.call(GetEventsRequest(newest=True, limit=1)).next

    def until_submitted(self, since: int, seconds: float = 60.0) -> None:
        """Wait until an application has been submitted after the event ``since``."""
        request = GetEventsRequest(
            since=since, kinds=(EventKind.APPLICATION_SUBMITTED,), wait_ms=round(seconds * 1000)
        )
        if not self.rm.call(request, timeout=seconds + 5).events:
            raise RuntimeError(f"the job is not submitted after {seconds:g} s")

    def until_idle(self, seconds: float = 300.0) -> None:
        """Wait until every submitted application has ended."""
        found = self.call(GetApplicationsRequest()).applications
        self.until_ended([one.application_id for one in found], seconds)

    def until_empty(self, seconds: float = 60.0) -> None:
        """Wait until every application has ended and no node has a container any more: they are cleaned up."""
        self.until_idle(seconds)
        deadline = time.monotonic() + seconds
        while left := self.call(GetContainersRequest()).containers:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(left)} containers are left after {seconds:g} s")
            time.sleep(0.005)

    def until_ended(self, applications: Sequence[str], seconds: float = 120.0) -> None:
        """Wait until these applications have ended."""
        request = WaitForApplicationsRequest(tuple(applications), wait_ms=round(seconds * 1000))
        if not self.rm.call(request, timeout=seconds + 5).satisfied:
            raise RuntimeError(f"the applications have not ended after {seconds:g} s")

    def close(self) -> None:
        """End the cluster."""
        self.rm.close()
        super().close()


def stamps(path: Path) -> list[list[int]]:
    """The complete lines that tasks have written: ns of the first instruction and, if the task writes it, of
    the end."""
    text = path.read_text() if path.exists() else ""
    return [[int(word) for word in line.split()] for line in text[: text.rfind("\n") + 1].splitlines()]


def first_stamp(path: Path, seconds: float = 60.0) -> float:
    """Wait until a task has begun; return when, in seconds of ``time.monotonic``."""
    deadline = time.monotonic() + seconds
    while not (found := stamps(path)):
        if time.monotonic() > deadline:
            raise RuntimeError(f"no task has written to {path}")
        time.sleep(0.001)
    return found[0][0] / 1e9
