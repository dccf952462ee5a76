"""How much many callers slow a job down: clients, followers of logs, readers that read nothing, REST at full speed,
connections to the REST API that are silent and come again whenever they are closed.

The same job runs alone, beside each kind of crowd, and beside all of them, in turns. The table also has the number of
answers: a daemon that answers nobody is fast. The programs of the crowd share the CPUs with the daemons, so they run at
the lowest priority: the measurement shows what the daemons do for them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from yarnopp_cli.records.client_protocol import GetContainersRequest
from yarnopp_cli.records.job_protocol import GetApplicationsRequest
from yarnopp_cli.rpc.plain import encode_call

from .cluster import ROOT, Cluster
from .harness import Rounds, Sample, Table, program
from .machine import pss_mb

CLIENTS, FOLLOWERS, READERS, REST, SILENT = 200, 50, 20, 20, 1500
MOST = 1.3
"""A job may become slower by at most this factor."""
PAUSE_SECONDS = 1.0
"""The pause between two calls of a client, as in `top` or `wait`."""
PATHS = ("/ws/v1/cluster/apps", "/ws/v1/cluster/metrics", "/ws/v1/cluster/nodes")
WORD = "/bin/sh", "-c", "while :; do date; sleep 0.5; done"


class Crowd:
    """Programs of one kind that send requests to the daemons."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.processes: list[subprocess.Popen[bytes]] = []
        self._answered = cluster.path / f"answered-{id(self)}"

    def clients(self) -> None:
        """Connections that ask for all applications and containers in turn."""
        self._child("clients", self.cluster.socket, CLIENTS)

    def rest(self) -> None:
        """Connections to the REST API that ask again as soon as they are answered."""
        self._child("rest", (self.cluster.path / "run" / "rm.http").read_text().strip(), REST)

    def readers(self) -> None:
        """Connections that ask for much and read nothing."""
        self._child("readers", self.cluster.socket, READERS)

    def followers(self) -> None:
        """`yopp logs -f` of a job that writes twice a second."""
        job = self.cluster.run("run", "-q", "-d", "--memory", "16", "--vcores", "0", "--", *WORD).strip()
        self.cluster.until_running(1)
        for _ in range(FOLLOWERS):
            self.processes.append(self.cluster.start("logs", "-f", job, preexec_fn=partial(os.nice, 19)))

    def silent(self) -> None:
        """Connections to the REST API that say nothing, and come again as soon as they are closed."""
        self._child("silent", (self.cluster.path / "run" / "rm.http").read_text().strip(), SILENT)

    def all(self) -> None:
        """All of these kinds but the silent ones."""
        for one in (self.clients, self.followers, self.readers, self.rest):
            one()

    def _child(self, kind: str, where: str, number: int) -> None:
        words = [sys.executable, "-m", "bench.crowd", "--as", kind, where, str(number), str(self._answered)]
        self.processes.append(subprocess.Popen(words, cwd=ROOT, preexec_fn=partial(os.nice, 19)))

    def pause(self, on: bool) -> None:
        """Stop the programs, or continue them. Stopped programs send no requests."""
        for process in self.processes:
            process.send_signal(signal.SIGSTOP if on else signal.SIGCONT)

    def answered(self) -> int:
        """The number of answers that the programs have had so far."""
        found = self._answered.read_text().split() if self._answered.exists() else []
        return sum(map(int, found[-1:]))

    def close(self) -> None:
        """End the programs."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


# -- what runs in the crowd's own processes ----------------------------------------------------------------------------


class Asking:
    """Counts answers, and writes the number to a file regularly."""

    def __init__(self, file: str) -> None:
        self._file = Path(file)
        self.answers = 0

    async def tell(self) -> None:
        """Write the number until the process ends."""
        while True:
            await asyncio.sleep(0.1)
            self._file.write_text(f"{self.answers}\n")

    async def client(self, path: str) -> None:
        """Ask, wait, and ask again."""
        reader, writer = await asyncio.open_unix_connection(path, limit=64 << 20)
        lines = [encode_call(1, GetApplicationsRequest()), encode_call(2, GetContainersRequest())]
        while True:
            for line in lines:
                writer.write(line)
                await reader.readline()
                self.answers += 1
                await asyncio.sleep(PAUSE_SECONDS)

    async def rest(self, address: str, number: int) -> None:
        """Ask again as soon as the answer is there."""
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        request = f"GET {PATHS[number % len(PATHS)]} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        while True:
            writer.write(request)
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (
                asyncio.IncompleteReadError,
                ConnectionError,
            ):  # it was stopped for so long that the connection was closed
                reader, writer = await asyncio.open_connection(host, int(port))
                continue
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
            self.answers += 1

    async def reader(self, path: str) -> None:
        """Ask for more than the kernel buffers, and read nothing."""
        _, writer = await asyncio.open_unix_connection(path)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(encode_call(1, GetContainersRequest(finished=True)) * 2000)
        await asyncio.Event().wait()

    async def silent(self, address: str) -> None:
        """Connect, wait for the end, and connect again."""
        host, _, port = address.rpartition(":")
        while True:
            try:
                reader, writer = await asyncio.open_connection(host, int(port))
                await reader.read()
                writer.close()
            except OSError:
                await asyncio.sleep(0.1)


async def ask(kind: str, where: str, number: int, file: str) -> None:
    """Run one of the crowd's processes."""
    asking = Asking(file)
    one: Callable[[int], object] = {
        "clients": lambda _: asking.client(where),
        "rest": lambda place: asking.rest(where, place),
        "silent": lambda _: asking.silent(where),
        "readers": lambda _: asking.reader(where),
    }[kind]
    await asyncio.gather(asking.tell(), *(one(place) for place in range(number)))


# -- what is measured --------------------------------------------------------------------------------------------------


def job(cluster: Cluster, tasks: int, crowd: Crowd | None) -> Sample:
    """Run one job; measure its seconds, and how many answers a second the crowd had meanwhile."""
    if crowd is not None:
        crowd.pause(False)
    before = crowd.answered() if crowd is not None else 0
    begun = time.monotonic()
    cluster.run("run", "-q", "-O", "--memory", "32", "-n", str(tasks), "--", "sleep", "0.02")
    seconds = time.monotonic() - begun
    answers = (crowd.answered() if crowd is not None else 0) - before
    if crowd is not None:
        crowd.pause(True)
    return Sample({"seconds": seconds, "answers": answers / seconds, "memory": pss_mb(cluster.pids())})


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program to the common ones."""
    parser.add_argument("--tasks", type=int, help="tasks of the job (400; short 100)")
    parser.add_argument("--rounds", type=int, help="rounds (5; short 2)")
    parser.add_argument("--kinds", nargs="*", help="of clients followers readers rest silent all")


def tables(given: argparse.Namespace) -> Iterable[Table]:
    """Yield one table."""
    tasks = given.tasks or (100 if given.short else 400)
    kinds = given.kinds or ["clients", "followers", "readers", "rest", "silent", "all"]
    with Cluster(*given.define) as cluster, ExitStack() as stack:
        crowds: dict[str, Crowd] = {}
        for kind in kinds:
            crowd = crowds[kind] = Crowd(cluster)
            stack.callback(crowd.close)
            getattr(crowd, kind)()
            crowd.pause(True)
        cases: dict[str, Callable[[], Sample | None]] = {"alone": partial(job, cluster, tasks, None)}
        cases |= {kind: partial(job, cluster, tasks, crowd) for kind, crowd in crowds.items()}
        rounds = Rounds(cases, given.rounds or (2 if given.short else 5))
    table = Table(
        f"A job of {tasks} tasks of 20 ms beside a crowd",
        ("crowd", "seconds", "alone = 1", "answers a second", "daemons, MB"),
    )
    for name in cases:
        ratio = rounds.ratio(name, "seconds", "alone")
        figures = (rounds.median(name, figure) for figure in ("answers", "memory"))
        table.rows.append((name, rounds.median(name, "seconds"), ratio, *figures))
        if name == "all" and ratio is not None and ratio > MOST:
            table.notes.append(f"more than {MOST:g} times as slow beside all of them")
    table.notes.append(
        f"{CLIENTS} clients, {FOLLOWERS} `logs -f`, {READERS} stopped readers, {REST} REST connections, "
        f"{SILENT} silent ones"
    )
    yield table


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as"]:
        sys.exit(asyncio.run(ask(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])))
    sys.exit(program(__doc__, tables, options))
