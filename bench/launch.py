"""The cost of a container for its node alone: the executor's library, /bin/true on two vcores, without a cluster.

With slots and without, compared with the floor; all take turns. CPU is that of this process and all that it started.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterable
from functools import partial

from executor import Executor, ExecutorSettings, Resource

from .harness import RATES, Rounds, Sample, Table, program
from .machine import Meter
from .native import floor_name
from .rivals import SLOTS, Floor
from .throughput import COMMAND, run

SIZE = Resource(64, 1)


def containers(number: int, pooled: int) -> Sample:
    """Run ``number`` commands as containers of an executor that is warmed up."""

    async def scenario(directory: str) -> Meter:
        settings = ExecutorSettings(
            max_queue_length=number, retain_finished=number + 10, pooled_groups=pooled
        )
        async with Executor(Resource(2048, SLOTS), work_dir=directory, settings=settings) as executor:
            for count in (2 * SLOTS, number):
                with Meter(this=True) as meter:
                    jobs = [executor.submit(COMMAND, resource=SIZE) for _ in range(count)]
                    await asyncio.gather(*(job.wait() for job in jobs))
                if wrong := [job.status.exit_status for job in jobs if job.status.exit_status]:
                    raise RuntimeError(f"containers ended with {wrong}")
        return meter

    with tempfile.TemporaryDirectory(prefix="yobench") as directory:
        meter = asyncio.run(scenario(directory))
    return Sample({"rate": number / meter.seconds, "cpu": 1000 * meter.cpu / number}, meter.others)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program to the common ones."""
    parser.add_argument("--tasks", type=int, help="tasks of a round (500; short 100)")
    parser.add_argument("--rounds", type=int, help="rounds (5; short 2)")


def tables(given: argparse.Namespace) -> Iterable[Table]:
    """Yield one table."""
    number = given.tasks or (100 if given.short else 500)
    cases = {
        floor_name(): partial(run, Floor(), number),
        "without a pool": partial(containers, number, 0),
        "with a pool": partial(containers, number, 16),
    }
    rounds = Rounds(cases, given.rounds or (2 if given.short else 5))
    table = Table(
        f"/bin/true in containers of one node's library, {number} a round",
        ("how", *RATES),
        notes=rounds.notes(),
    )
    table.rows += [rounds.rates(name, floor_name()) for name in cases]
    yield table


if __name__ == "__main__":
    sys.exit(program(__doc__, tables, options))
