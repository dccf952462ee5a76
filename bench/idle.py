"""Memory and CPU of the daemons while nothing happens, and while many containers run and wait.

Memory is PSS: shared pages are divided among the processes that share them. First an idle cluster that has run a job;
then a node with 200 sleeping and 1,000 queued containers, without and with `yopp top`. CPU is in % of one core.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import sys
import termios
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack

from executor.records import ContainerState
from yarnopp_cli.records.client_protocol import GetContainersRequest

from .cluster import Cluster
from .harness import Cell, Table, program
from .machine import own_seconds, processes, pss_mb, tree
from .rivals import missing, rivals


def daemons(cluster: Cluster) -> dict[str, set[int]]:
    """The pids of the daemons themselves."""
    return {
        name: {int(file.read_text().split()[0]) for file in (cluster.path / "run").glob(f"{start}*")}
        for name, start in (("ResourceManager", "rm.pid"), ("NodeManager", "nm-*.pid"))
    }


def rows(groups: Mapping[str, set[int]], seconds: float) -> Iterator[Sequence[Cell]]:
    """A row for each group of processes, and one for all."""
    begun = time.monotonic()
    before = {name: own_seconds(pids) for name, pids in groups.items()}
    time.sleep(seconds)
    share = 100 / (time.monotonic() - begun)
    used = {name: max(0.0, own_seconds(pids) - before[name]) * share for name, pids in groups.items()}
    memory = {name: pss_mb(pids) for name, pids in groups.items()}
    for name, pids in groups.items():
        yield name, str(len(pids)), memory[name], used[name]
    yield "together", str(sum(map(len, groups.values()))), sum(memory.values()), sum(used.values())


@contextlib.contextmanager
def top(cluster: Cluster, shows: bytes) -> Iterator[int]:
    """The pid of a `yopp top` that has drawn ``shows`` on a terminal of its own."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(ours, (40, 120))
    process = cluster.start("top", stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)

    drawn = threading.Event()

    def drain() -> None:
        picture = b""
        with contextlib.suppress(OSError):  # when the terminal's other end is closed
            while piece := os.read(ours, 65536):
                picture = b"" if drawn.is_set() else picture + piece
                if shows in picture:
                    drawn.set()

    reader = threading.Thread(target=drain, daemon=True)
    reader.start()
    try:
        if not drawn.wait(60):
            raise RuntimeError(f"yopp top does not show {shows.decode()!r}")
        yield process.pid
    finally:
        process.terminate()
        process.wait()
        os.close(ours)


def idle(seconds: float, define: Sequence[str]) -> Table:
    """Measure a cluster in which nothing happens, and the daemons of other runners."""
    table = Table(
        f"Idle daemons over {seconds:g} s",
        ("daemons", "processes", "PSS, MB", "CPU, % of a core"),
        notes=missing(),
    )
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(*define))
        cluster.run("run", "-q", "-O", "-n", "10", "--memory", "32", "true")
        others = [one for one in rivals(stack) if one.roots()]
        for one in others:
            one.batch(10, ["/bin/true"])
        cluster.until_empty()
        cluster.rm.close()  # no client is connected
        parents = {pid: found[0] for pid, found in processes().items()}
        groups = {one.name: tree(parents, one.roots()) for one in others}
        whole = tree(parents, cluster.pids())
        ours = daemons(cluster)
        helpers = whole - set().union(*ours.values())
        if helpers:
            ours["what they keep ready"] = helpers
        found = list(rows({**ours, **groups}, seconds))
    yopps, theirs = found[: len(ours)], found[len(ours) : -1]
    table.rows += yopps
    table.rows.append(
        ("yopp together", str(len(whole)), *(sum(float(row[at] or 0) for row in yopps) for at in (2, 3)))
    )
    table.rows += theirs
    return table


def crowd(running: int, queued: int, seconds: float, define: Sequence[str]) -> Table:
    """Measure many containers that sleep and wait."""
    table = Table(
        f"{running:,} containers run and {queued:,} wait at one node, over {seconds:g} s",
        ("process", "processes", "PSS, MB", "CPU, % of a core"),
    )
    queue = f"yarn.nodemanager.opportunistic-containers-max-queue-length={queued + running}"
    with Cluster(queue, *define, vcores=running, memory=8 * running + 512) as cluster:
        words = ["run", "-q", "-O", "-n", str(running + queued), "--memory", "8", "sleep", "600"]
        with cluster.start(*words) as job:
            try:
                cluster.until_running(running, seconds=120)
                until_queued(cluster, queued)
                groups = {**daemons(cluster), "yopp run, which waits": {job.pid}}
                *one, together = rows(groups, seconds)
                table.rows += [*one, together]
                with top(cluster, b"RUNNING") as looker:  # drawing its first picture is not measured
                    found = list(rows({**groups, "yopp top": {looker}}, seconds))
                table.rows += [
                    (f"{row[0]}, with yopp top", *row[1:]) if row[0] != "yopp top" else row for row in found
                ]
            finally:
                job.kill()
    return table


def until_queued(cluster: Cluster, number: int) -> None:
    """Wait until ``number`` containers are in the queue of the node."""
    deadline = time.monotonic() + 120
    while True:
        found = cluster.call(GetContainersRequest()).containers
        there = sum(one.state is ContainerState.SCHEDULED for one in found)
        if there >= number:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"{number} containers do not queue, {there} do")
        time.sleep(0.1)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program to the common ones."""
    parser.add_argument("--seconds", type=float, help="how long to look (60; short 5)")
    parser.add_argument("--running", type=int, default=200)
    parser.add_argument("--queued", type=int, default=1000)


def tables(given: argparse.Namespace) -> Iterable[Table]:
    """Yield two tables."""
    seconds = given.seconds or (5 if given.short else 60)
    yield idle(seconds, given.define)
    yield crowd(given.running, given.queued, seconds / 3, given.define)


if __name__ == "__main__":
    sys.exit(program(__doc__, tables, options))
