"""The CPU of the pure core per container, and whether it grows with the cluster, the queues or the jobs.

One ResourceManager, its NodeManagers and its masters run in virtual time without any I/O (``world.py``). The tables
have the CPU microseconds per container of the nodes' machines, the RM's, the masters' and of all, and the ratio to the
first row of each part. A loop beside the work measures the speed of this host at that moment; figures are corrected to
the speed of the first row. The goal: within 1.5 of the first row from 1 to 10,000 nodes, from 10 to 50,000 queued
containers (in a node's queue, or as asks at the RM) and from 1 to 1,000 jobs. A row that takes more than ``--budget``
CPU seconds is cut short: its queues were not emptied.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import resource
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass

from executor.records import ExecutionType, Resource
from executor.settings import ExecutorSettings
from yarnopp_cli.records.jobs import TaskSpec
from yarnopp_cli.settings.declarations import ResourceManagerSettings

from .harness import Table, program
from .world import Cluster, World, reading_ns

TASK = Resource(1024, 1)
VCORES = 4
SHORT_TASKS = 4000
"""The most tasks in a row of the short form."""
SLICE = 0.1
"""The CPU seconds after which the speed of the host is measured again."""


@dataclass(frozen=True)
class Case:
    """One row: the number of nodes, jobs, and containers in all, and the capacity of a node's queue."""

    nodes: int = 1
    jobs: int = 1
    tasks: int = 2000
    queue: int = 10


PARTS: dict[str, tuple[list[tuple[int, Case]], tuple[int, Case]]] = {
    "nodes": (
        [(n, Case(nodes=n, tasks=max(2000, 20 * n))) for n in (1, 10, 100, 1000)],
        (10_000, Case(nodes=10_000, tasks=80_000)),
    ),
    "queued": (
        [(n, Case(tasks=max(2000, n), queue=n)) for n in (10, 100, 1000, 10_000)],
        (50_000, Case(tasks=50_000, queue=50_000)),
    ),
    "asked": ([(n, Case(tasks=n)) for n in (1000, 10_000)], (50_000, Case(tasks=50_000))),
    "jobs": (
        [(n, Case(nodes=10, jobs=n, tasks=max(4000, 20 * n))) for n in (1, 10, 100)],
        (1000, Case(nodes=10, jobs=1000, tasks=20_000)),
    ),
}
"""The rows of each part, and the one that is only run with ``--large``."""


def spin() -> int:
    """The loop whose time is the unit of speed: calls, attributes and dictionaries, as the machines use them."""
    table: dict[int, Case] = {}
    total = 0
    for number in range(1500):
        table[number & 63] = Case(nodes=number)
        total += table[number & 63].nodes
    return total


def unit() -> float:
    """The CPU seconds of the loop."""
    began = time.process_time()
    spin()
    return time.process_time() - began


@dataclass
class Measured:
    """For each container, CPU microseconds and calls by machine; the speed's unit in seconds, and whether all
    jobs ended."""

    cpu: dict[str, float]
    calls: dict[str, float]
    unit: float
    whole: bool
    launched: int


def measure(case: Case, kind: ExecutionType, budget: float, reading: float) -> Measured:
    """Run one case to its end, or for ``budget`` CPU seconds."""
    world = World()
    settings = ResourceManagerSettings(
        opportunistic_enabled=True, minimum_allocation_mb=1, minimum_allocation_vcores=0
    )
    cluster = Cluster(world, settings, seconds=lambda: world.random.uniform(0.5, 1.5))
    executor = ExecutorSettings(max_queue_length=case.queue)
    cluster.add_nodes(case.nodes, TASK * VCORES, executor)
    for meter in cluster.meters.values():
        meter.reset()
    for _ in range(case.jobs):
        cluster.submit(case.tasks // case.jobs, TaskSpec(1, TASK, kind))
    units = [unit()]
    began = looked = time.process_time()
    steps = 0
    while cluster.jobs_ended < case.jobs:
        world.step()
        steps += 1
        if steps & 255 == 0 and (now := time.process_time()) - looked > SLICE:
            units.append(unit())
            looked = time.process_time()
            if now - began > budget:
                break
    number = max(1, cluster.exited)
    return Measured(
        {
            name: max(0.0, meter.ns - 2 * meter.calls * reading) / 1000 / number
            for name, meter in cluster.meters.items()
        },
        {name: meter.calls / number for name, meter in cluster.meters.items()},
        sum(units) / len(units),
        cluster.jobs_ended == case.jobs,
        cluster.exited,
    )


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program to the common ones."""
    parser.add_argument(
        "parts", nargs="*", choices=[[], *PARTS], help="nodes, queued, asked, jobs; all by default"
    )
    parser.add_argument("--guaranteed", action="store_true", help="instead of opportunistic containers")
    parser.add_argument(
        "--large", action="store_true", help="with the largest row of each part, some minutes"
    )
    parser.add_argument("--row", type=int, help="only this row of the parts")
    parser.add_argument("--budget", type=float, help="CPU seconds a row, at most (60; short 2)")
    parser.add_argument("--profile", help="write a profile of everything to this file")


def tables(given: argparse.Namespace) -> Iterable[Table]:
    """Yield one table."""
    profile = cProfile.Profile() if given.profile else None
    kind = ExecutionType.GUARANTEED if given.guaranteed else ExecutionType.OPPORTUNISTIC
    table = Table(
        f"CPU of the pure core, us a container, {kind.value.lower()}; {VCORES} a node at once, 0.5 to 1.5 s each",
        ("by", "number", "nodes", "RM", "masters", "all", "of the first", "calls", "RSS MB"),
    )
    reading, reference, cut = reading_ns(), None, []
    for part in given.parts or PARTS:
        rows, largest = PARTS[part]
        first = None
        for number, case in [*rows, *([largest] if given.large or given.row == largest[0] else [])]:
            if (given.row or number) != number or (given.short and case.tasks > SHORT_TASKS):
                continue
            with profile or contextlib.nullcontext():
                found = measure(case, kind, given.budget or (2.0 if given.short else 60.0), reading)
            reference = reference or found.unit
            cost = {name: one * reference / found.unit for name, one in found.cpu.items()}
            total = sum(cost.values())
            first = first or total
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            calls = sum(found.calls.values())
            table.rows.append(
                (
                    part,
                    f"{number:,}",
                    cost["nm"],
                    cost["rm"],
                    cost["master"],
                    total,
                    total / first,
                    calls,
                    str(memory),
                )
            )
            if not found.whole:
                cut.append(f"{part} {number:,} after {found.launched:,} containers")
    if cut:
        table.notes.append(f"cut short: {', '.join(cut)}")
    if profile is not None:
        profile.dump_stats(given.profile)
    yield table


if __name__ == "__main__":
    sys.exit(program(__doc__, tables, options))
