#!/usr/bin/env python3
"""What the pure core costs a container, and whether that grows with the cluster, the queues or the jobs.

    bench/core.py [nodes] [queued] [asked] [jobs] [--guaranteed] [--large] [--budget SECONDS] [--profile FILE]

One ResourceManager, its NodeManagers and its masters run in virtual time without any I/O (``world.py``). Prints a table
of CPU microseconds a container: of all nodes' machines, the RM's, the masters', and together; and the ratio to the
first row of each part. A loop beside the work measures how fast this host is at that moment, and figures are given at
the speed of the first row. The goal: within 1.5 of the first row from 1 to 10,000 nodes, from 10 to 50,000 queued
containers (in a node's queue, or as asks at the RM) and from 1 to 1,000 jobs. A row that takes more than ``--budget``
CPU seconds is cut short, and marked: its queues were not emptied.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from world import Cluster, World, reading_ns  # first: it finds the project

from executor.records import ExecutionType, Resource
from executor.settings import ExecutorSettings
from yarnopp_cli.records.jobs import TaskSpec
from yarnopp_cli.settings.declarations import ResourceManagerSettings

TASK = Resource(1024, 1)
VCORES = 4
GOAL = 1.5
SLICE = 0.1
"""CPU seconds after which the speed of the host is measured again."""


@dataclass(frozen=True)
class Case:
    """One row: so many nodes and jobs, so many containers in all, and what the queue of a node holds."""

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
"""The rows of each part, and the one that is only made with ``--large``."""


def spin() -> int:
    """The loop whose time is the unit of speed: calls, attributes and dictionaries, as the machines use them."""
    table: dict[int, Case] = {}
    total = 0
    for number in range(1500):
        table[number & 63] = Case(nodes=number)
        total += table[number & 63].nodes
    return total


def unit() -> float:
    """CPU seconds of the loop."""
    began = time.process_time()
    spin()
    return time.process_time() - began


@dataclass
class Measured:
    """CPU microseconds a container by machine, calls by machine, the speed's unit in seconds, and whether all ended."""

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


def main() -> None:
    """Measure the parts asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument(
        "--guaranteed", action="store_true", help="guaranteed containers instead of opportunistic"
    )
    parser.add_argument(
        "--large", action="store_true", help="with the largest row of each part, some minutes"
    )
    parser.add_argument("--row", type=int, help="only this row of the parts")
    parser.add_argument("--budget", type=float, default=60.0, help="CPU seconds a row, at most")
    parser.add_argument("--profile", help="write a profile of everything to this file")
    options = parser.parse_args()
    if unknown := set(options.parts) - PARTS.keys():
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    kind = ExecutionType.GUARANTEED if options.guaranteed else ExecutionType.OPPORTUNISTIC
    profile = None
    if options.profile:
        import cProfile

        profile = cProfile.Profile()
    reading = reading_ns()
    print(f"CPU µs a container, {kind.value.lower()}; {VCORES} a node run at once, 0.5 to 1.5 s each")
    print(f"{'':10}{'':>8}{'nodes':>8}{'RM':>8}{'masters':>9}{'all':>8}{'ratio':>7}{'calls':>7}{'RSS MB':>8}")
    reference = None
    for part in options.parts or PARTS:
        rows, largest = PARTS[part]
        first = None
        for number, case in [*rows, *([largest] if options.large or options.row == largest[0] else [])]:
            if options.row is not None and number != options.row:
                continue
            if profile is not None:
                profile.enable()
            found = measure(case, kind, options.budget, reading)
            if profile is not None:
                profile.disable()
            reference = reference or found.unit
            cost = {name: one * reference / found.unit for name, one in found.cpu.items()}
            total = sum(cost.values())
            first = first or total
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            print(
                f"{part:10}{number:8}{cost['nm']:8.0f}{cost['rm']:8.0f}{cost['master']:9.0f}{total:8.0f}"
                f"{total / first:7.2f}{sum(found.calls.values()):7.1f}{memory:8}"
                + ("" if found.whole else f"  cut short after {found.launched}"),
                flush=True,
            )
    if profile is not None:
        profile.dump_stats(options.profile)


if __name__ == "__main__":
    main()
