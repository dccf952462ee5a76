"""How many containers a second two slots run, and what one costs: /bin/true, which does nothing.

All runners take turns in each round. The ratio to the floor, in the same round, is what may be compared between
machines and days. CPU is that of the runner, its daemons and the commands themselves, per task. yopp's own client is
started in each run, and every container has its limits and its usage.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial

from .cluster import Cluster
from .harness import Rounds, Sample, Table, program, spread
from .machine import Meter
from .native import floor_name
from .rivals import Runner, TaskSpooler, Yopp, missing, rivals

COMMAND = (shutil.which("true") or "/bin/true",)


def run(runner: Runner, number: int) -> Sample:
    """One batch."""
    with Meter(runner.roots) as meter:
        seconds = runner.batch(number, COMMAND)
    return Sample({"rate": number / seconds, "cpu": 1000 * meter.cpu / number}, meter.others)


def options(parser: argparse.ArgumentParser) -> None:
    """What this program takes besides what all do."""
    parser.add_argument("--tasks", type=int, help="tasks of a round (1,000; short 150)")
    parser.add_argument("--rounds", type=int, help="rounds (5; short 2)")
    parser.add_argument(
        "--submitters", type=int, nargs="*", default=None, help="jobs at once (10 100; short none)"
    )


def tables(given: argparse.Namespace) -> Iterable[Table]:
    """One table."""
    number = given.tasks or (150 if given.short else 1000)
    submitters = given.submitters if given.submitters is not None else [] if given.short else [10, 100]
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(*given.define))
        runners = [*rivals(stack), Yopp(cluster, "-O"), Yopp(cluster, "-G")]
        for jobs in submitters:
            runners += [Yopp(cluster, "-O", jobs), Yopp(cluster, "-O", jobs, detached=True)]
            if shutil.which("tsp") and jobs == submitters[0]:
                spooler = TaskSpooler(jobs)
                stack.callback(spooler.close)
                spooler.name = f"task-spooler, {jobs} submitters"
                runners.append(spooler)
        cases = {one.name: partial(run, one, number) for one in runners}
        rounds = Rounds(cases, given.rounds or (2 if given.short else 5), warm=not given.short)
    table = Table(
        f"/bin/true per second on two slots, {number} a run",
        ("runner", "a second", "smallest-largest", "of the floor", "CPU ms a task"),
        notes=[*missing(), *rounds.notes()],
    )
    for name in sorted(cases, key=lambda name: -(rounds.median(name, "rate") or 0)):
        rates = rounds.values(name, "rate")
        table.rows.append(
            (rounds.label(name), rounds.median(name, "rate"), spread(rates),
             rounds.ratio(name, "rate", floor_name()), rounds.median(name, "cpu"))
        )  # fmt: skip
    yield table


def main() -> int:
    """Measure and print."""
    return program(__doc__, tables, options)


if __name__ == "__main__":
    sys.exit(main())
