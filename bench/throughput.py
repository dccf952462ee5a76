"""How many containers a second two slots run, and what one costs: /bin/true, which does nothing.

All runners take turns in each round. Compare ratios to the floor of the same round between machines and days, not
rates. CPU is per task, of the runner, its daemons and the commands themselves. The start of yopp's client counts in
each run, and every container has limits and measured usage.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial

from .cluster import Cluster
from .harness import RATES, Rounds, Sample, Table, program
from .machine import Meter
from .native import floor_name
from .rivals import Floor, Runner, TaskSpooler, Yopp, missing, rivals

COMMAND = (shutil.which("true") or "/bin/true",)
ROOM_FOR_TASKS = "yarn.scheduler.capacity.maximum-am-resource-percent=0.5"
"""Each detached job has a master in a container; masters must not take all the memory."""


def run(runner: Runner, number: int) -> Sample:
    """Run one batch."""
    with Meter(runner.roots) as meter:
        seconds = runner.batch(number, COMMAND)
    return Sample({"rate": number / seconds, "cpu": 1000 * meter.cpu / number}, meter.others)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program to the common ones."""
    parser.add_argument("--tasks", type=int, help="tasks of a round (1,000; short 100)")
    parser.add_argument("--rounds", type=int, help="rounds (5; short 2)")
    parser.add_argument("--submitters", type=int, nargs="*", help="jobs at once (10 100; short none)")


def table(question: str, runners: Sequence[Runner], number: int, rounds: Rounds) -> Table:
    """The table of these runners, the fastest first."""
    made = Table(
        f"{question}, {number} tasks a round",
        ("runner", *RATES),
        notes=[*missing(), *rounds.notes()],
    )
    names = sorted((one.name for one in runners), key=lambda name: -(rounds.median(name, "rate") or 0))
    made.rows += [rounds.rates(name, floor_name()) for name in names]
    return made


def tables(given: argparse.Namespace) -> Iterable[Table]:
    """Yield a table for one submitter and, without ``--short``, one for many."""
    number = given.tasks or (100 if given.short else 1000)
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(*given.define))
        runners = [*rivals(stack), Yopp(cluster, "-O"), Yopp(cluster, "-G")]
        cases = {one.name: partial(run, one, number) for one in runners}
        rounds = Rounds(cases, given.rounds or (2 if given.short else 5), warm=not given.short)
        yield table("/bin/true per second on two slots", runners, number, rounds)
    submitters = given.submitters if given.submitters is not None else () if given.short else (10, 100)
    if not submitters:
        return
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(ROOM_FOR_TASKS, *given.define, memory=4096))
        runners = [Floor()]
        for jobs in submitters:
            runners += [Yopp(cluster, "-O", jobs), Yopp(cluster, "-O", jobs, detached=True)]
            if shutil.which("tsp"):
                spooler = TaskSpooler(jobs)
                stack.callback(spooler.close)
                runners.append(spooler)
        cases = {one.name: partial(run, one, number) for one in runners}
        rounds = Rounds(cases, min(2, given.rounds or 2), warm=False)
        yield table("The same handed in by many jobs at once", runners, number, rounds)


if __name__ == "__main__":
    sys.exit(program(__doc__, tables, options))
