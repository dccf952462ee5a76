#!/usr/bin/env python3
"""What a container costs its node alone: the executor's library, /bin/true N times on two vcores.

    bench/launch.py [-n N] [--rounds R]

Prints containers a second and CPU milliseconds a container (this process and all that it started), for a pool of slots
and without one, beside a bare loop of ``posix_spawn``. All take turns, because machines are noisy.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from executor import Executor, ExecutorSettings, Resource

SLOTS = 2


def cpu() -> float:
    """Seconds of CPU of this process and of all its descendants that have ended."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def bare(number: int, command: list[str]) -> tuple[float, float]:
    """So many commands, two at a time, without anything else: seconds and CPU seconds."""
    begun, used, running = time.perf_counter(), cpu(), 0
    for _ in range(number):
        if running == SLOTS:
            os.wait()
            running -= 1
        os.posix_spawn(command[0], command, os.environ)
        running += 1
    for _ in range(running):
        os.wait()
    return time.perf_counter() - begun, cpu() - used


def containers(number: int, command: list[str], settings: ExecutorSettings) -> tuple[float, float]:
    """The same as containers of an executor."""

    async def scenario() -> tuple[float, float]:
        directory = tempfile.mkdtemp(prefix="yopp-bench-")
        used = cpu()
        try:
            async with Executor(Resource(2048, SLOTS), work_dir=directory, settings=settings) as executor:
                warm = [executor.submit(command, resource=Resource(64, 1)) for _ in range(2 * SLOTS)]
                await asyncio.gather(*(job.wait() for job in warm))
                begun = time.perf_counter()
                jobs = [executor.submit(command, resource=Resource(64, 1)) for _ in range(number)]
                await asyncio.gather(*(job.wait() for job in jobs))
                took = time.perf_counter() - begun
                wrong = [job.status.exit_status for job in jobs if job.status.exit_status]
                assert not wrong, wrong
        finally:
            shutil.rmtree(directory)
        return took, cpu() - used

    return asyncio.run(scenario())


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=500, metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="R")
    parser.add_argument("--sleep", type=float, default=0.0, help="sleep so long instead of /bin/true")
    arguments = parser.parse_args()
    command = ["/bin/sleep", str(arguments.sleep)] if arguments.sleep else ["/bin/true"]
    queued = {"max_queue_length": arguments.n, "retain_finished": arguments.n + 10}
    ways: dict[str, Callable[[], tuple[float, float]]] = {
        "bare posix_spawn": lambda: bare(arguments.n, command),
        "without a pool": lambda: containers(
            arguments.n, command, ExecutorSettings(pooled_groups=0, **queued)
        ),
        "with a pool": lambda: containers(arguments.n, command, ExecutorSettings(pooled_groups=16, **queued)),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name, way in ways.items():
            found[name].append(way())
    print(f"{'':20}{'per second':>12}{'ms CPU each':>14}{'gap ms':>10}")
    for name, runs in found.items():
        took, used = (statistics.median(values) for values in zip(*runs, strict=True))
        gap = (took - arguments.n / SLOTS * arguments.sleep) / (arguments.n / SLOTS) * 1000
        print(f"{name:20}{arguments.n / took:12.0f}{used / arguments.n * 1000:14.2f}{gap:10.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
