"""Other runners of programs on one host, each with two slots, and yopp with the same interface.

A runner runs ``batch(number, command)``: ``number`` runs of one command. It returns the seconds from before
the first submission to the end of the last run. None of the others limits what a command may use, counts what
it has used, or could preempt it for a more important one.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from .cluster import Cluster
from .native import floor_name, tool

SLOTS = 2
PYTHON_OF_HYPERQUEUE = "HYPERQUEUE_PYTHON"
HOW_TO_GET = {
    "task-spooler": "apt-get install task-spooler",
    "GNU parallel": "apt-get install parallel",
    "HyperQueue": f"pip install hyperqueue into a virtual environment, and name its Python in {PYTHON_OF_HYPERQUEUE}",
}


class Runner(ABC):
    """One of the runners. ``roots`` are the daemons whose processes count."""

    name = ""

    def roots(self) -> Iterable[int]:
        """The processes whose trees do its work, besides those that ``batch`` starts and waits for."""
        return ()

    @abstractmethod
    def batch(self, number: int, command: Sequence[str]) -> float:
        """Run ``command`` ``number`` times; return the seconds that it took."""


class Awaited(Runner):
    """A runner that can be waited for: ``run`` returns at the end of the last run."""

    def batch(self, number: int, command: Sequence[str]) -> float:
        """As for all."""
        begun = time.monotonic()
        self.run(number, command)
        return time.monotonic() - begun

    @abstractmethod
    def run(self, number: int, command: Sequence[str]) -> None:
        """Run ``command`` ``number`` times, and wait for the end of the last run."""


class Floor(Awaited):
    """The bare loop."""

    name = floor_name()

    def run(self, number: int, command: Sequence[str]) -> None:
        """As for all."""
        subprocess.run([*tool("floor"), str(number), str(SLOTS), *command], check=True)


class Xargs(Awaited):
    """``xargs -P2``."""

    name = "xargs -P2"

    def run(self, number: int, command: Sequence[str]) -> None:
        """As for all; each run gets a number as an additional argument."""
        numbers = "\n".join(map(str, range(number))).encode()
        subprocess.run(["xargs", f"-P{SLOTS}", "-n1", *command], input=numbers, check=True)


class Parallel(Awaited):
    """GNU parallel."""

    name = "GNU parallel"

    def run(self, number: int, command: Sequence[str]) -> None:
        """As for all."""
        numbers = "\n".join(map(str, range(number))).encode()
        words = ["parallel", "--will-cite", f"-j{SLOTS}", "-N0", *command]
        subprocess.run(words, input=numbers, check=True, stdout=subprocess.DEVNULL)


class TaskSpooler(Awaited):
    """task-spooler: a daemon, and a client for each task."""

    name = "task-spooler"
    LOOP = 'n=$1; shift; while [ $n -gt 0 ]; do tsp -n "$@" >/dev/null; n=$((n-1)); done'

    def __init__(self, submitters: int = 1) -> None:
        if submitters > 1:
            self.name = f"task-spooler, {submitters} shells at once"
        self._home = tempfile.TemporaryDirectory(prefix="yobench")
        self._submitters = submitters
        self._socket = f"{self._home.name}/socket"
        settings = {"TS_SOCKET": self._socket, "TMPDIR": self._home.name, "TS_MAXFINISHED": "100000"}
        self.environment = {**os.environ, **settings}
        subprocess.run(["tsp", "-S", str(SLOTS)], env=self.environment, check=True)
        with socket.socket(socket.AF_UNIX) as client:  # the daemon is whoever made the socket
            client.connect(self._socket)
            peer = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        self._daemon = struct.unpack("iII", peer)[0]

    def roots(self) -> Iterable[int]:
        """The daemon."""
        return (self._daemon,)

    def run(self, number: int, command: Sequence[str]) -> None:
        """As for all: by a shell loop, or several at once, as a user would. Each task's client outlives the loop."""
        jobs, each = str(self._submitters), str(number // self._submitters)
        words = [*tool("floor"), jobs, jobs, "/bin/sh", "-c", self.LOOP, "sh", each, *command]
        subprocess.run(words, env=self.environment, check=True)

    def close(self) -> None:
        """End the daemon."""
        subprocess.run(["tsp", "-K"], env=self.environment, check=False)
        self._home.cleanup()


class HyperQueue(Runner):
    """HyperQueue's server and one worker, with its Python client, in a process of its own."""

    name = "HyperQueue"

    def __init__(self) -> None:
        driver = str(Path(__file__).with_name("hyperqueue_driver.py"))
        self.home = tempfile.TemporaryDirectory(prefix="yobench")
        words = [os.environ[PYTHON_OF_HYPERQUEUE], driver, "serve", self.home.name, str(SLOTS), *tool("task")]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.server = self._answer()

    def roots(self) -> Iterable[int]:
        """Server, worker and client: one process."""
        return (self._process.pid,)

    def batch(self, number: int, command: Sequence[str]) -> float:
        """As for all. Its client polls once a second for the end, so a last task that depends on all others
        reports it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([number, list(command)]) + "\n")
        self._process.stdin.flush()
        return float(self._answer())

    def cold(self, command: Sequence[str]) -> list[str]:
        """A command line that submits one task, from a new client, and waits for its end."""
        driver = str(Path(__file__).with_name("hyperqueue_driver.py"))
        return [os.environ[PYTHON_OF_HYPERQUEUE], driver, "submit", self.server, *command]

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self.home.cleanup()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("HyperQueue's driver has ended")
        return str(json.loads(line))


class Yopp(Awaited):
    """yopp with limits on, in a cluster that is already running; ``jobs`` jobs run at once, each with its share."""

    def __init__(self, cluster: Cluster, kind: str = "-O", jobs: int = 1, detached: bool = False) -> None:
        self._cluster, self._kind, self._jobs, self._detached = cluster, kind, jobs, detached
        many = f", {jobs} {'detached' if detached else 'foreground'} jobs at once" if jobs > 1 else ""
        self.name = f"yopp run {kind}{many}"

    def roots(self) -> Iterable[int]:
        """The daemons."""
        return self._cluster.pids()

    def run(self, number: int, command: Sequence[str]) -> None:
        """As for all, including the client's own start."""
        words = ["run", "-q", self._kind, "-n", str(max(1, number // self._jobs)), "--memory", "32"]
        options = {"stdout": subprocess.PIPE} if self._detached else {}
        words += [*(["-d"] if self._detached else []), "--", *command]
        processes = [self._cluster.start(*words, **options) for _ in range(self._jobs)]
        told = [process.communicate()[0] for process in processes]
        if any(process.returncode for process in processes):
            raise RuntimeError(f"{self.name} failed")
        if self._detached:
            self._cluster.until_ended([one.decode().strip() for one in told])


def missing() -> list[str]:
    """The runners that are not installed here, and how to install them."""
    there = {
        "task-spooler": shutil.which("tsp"),
        "GNU parallel": shutil.which("parallel"),
        "HyperQueue": os.environ.get(PYTHON_OF_HYPERQUEUE),
    }
    return [f"SKIPPED {name}: {HOW_TO_GET[name]}" for name, path in there.items() if not path]


def rivals(stack: ExitStack) -> list[Runner]:
    """The floor, and every runner that is installed; ``stack`` ends their daemons. ``missing`` lists the others."""
    tool("floor"), tool("task")  # compiled before anything is timed
    found: list[Runner] = [Floor(), Xargs()]
    if shutil.which("tsp"):
        spooler = TaskSpooler()
        stack.callback(spooler.close)
        found.append(spooler)
    if shutil.which("parallel"):
        found.append(Parallel())
    if os.environ.get(PYTHON_OF_HYPERQUEUE):
        queue = HyperQueue()
        stack.callback(queue.close)
        found.append(queue)
    return found
