"""What a guaranteed job of many short tasks costs opportunistic containers in the queue, and how long it takes.

Opportunistic containers fill one node of two vcores and its queue. Then a guaranteed job runs there, two tasks at a
time: its duration, and how often an opportunistic container was preempted (killed or paused), with freed resources held
for the next guaranteed container and, as in YARN, not held. The floor is the same job alone on the node.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from functools import partial

from executor.records import ExecutionType
from yarnopp_cli.records.client_protocol import GetContainersRequest

from .cluster import Cluster
from .harness import Rounds, Sample, Table, program

PAUSE = "yarn.nodemanager.opportunistic-containers-use-pause-for-preemption"
HOLD = "yopp.nodemanager.opportunistic-queue.hold-for-guaranteed-ms"
QUEUE = "yarn.nodemanager.opportunistic-containers-max-queue-length=100"
CASES: dict[str, tuple[int, tuple[str, ...]]] = {
    "nothing else (floor)": (0, ()),
    "killing, at once (YARN)": (100, (f"{PAUSE}=false", f"{HOLD}=0")),
    "killing, kept": (100, (f"{PAUSE}=false",)),
    "pausing": (100, (f"{PAUSE}=true",)),
}


def preemptions(cluster: Cluster) -> int:
    """How often an opportunistic container was killed or paused for a guaranteed one."""
    found = cluster.call(GetContainersRequest(finished=True)).containers
    return sum(one.preemptions for one in found if one.execution_type is ExecutionType.OPPORTUNISTIC)


def measure(name: str, tasks: int, seconds: float, define: list[str]) -> Sample:
    """Run one guaranteed job in one cluster."""
    others, properties = CASES[name]
    with Cluster(QUEUE, *properties, *define, memory=2048) as cluster:
        job = None
        if others:
            job = cluster.start("run", "-O", "-n", str(others), "--memory", "64", "sleep", "300")
        try:
            cluster.until_running(2 if others else 0)
            begun = time.monotonic()
            cluster.run("run", "-q", "-n", str(tasks), "--memory", "64", "sleep", str(seconds))
            return Sample({"seconds": time.monotonic() - begun, "preempted": preemptions(cluster)})
        finally:
            if job is not None:
                job.kill()
                job.wait()


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program to the common ones."""
    parser.add_argument("--tasks", type=int, help="guaranteed tasks (100; short 30)")
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--rounds", type=int, help="rounds (3; short 1)")


def tables(given: argparse.Namespace) -> Iterable[Table]:
    """Yield one table."""
    tasks = given.tasks or (30 if given.short else 100)
    cases = {name: partial(measure, name, tasks, given.seconds, given.define) for name in CASES}
    rounds = Rounds(cases, given.rounds or (1 if given.short else 3), warm=False)
    table = Table(
        f"A guaranteed job of {tasks} tasks of {given.seconds:g} s beside a queue of opportunistic ones",
        ("preemption", "seconds", "of the floor", "preemptions"),
    )
    floor = next(iter(CASES))
    for name in rounds.samples:
        table.rows.append(
            (name, rounds.median(name, "seconds"), rounds.ratio(name, "seconds", floor),
             f"{rounds.median(name, 'preempted'):.0f}")
        )  # fmt: skip
    yield table


if __name__ == "__main__":
    sys.exit(program(__doc__, tables, options))
