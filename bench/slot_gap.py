"""How long a slot is idle between two tasks: 200 tasks of 0.1 s on two slots.

The gap of a task is (makespan - ideal) x slots / tasks. With the client, the makespan is from before the first command
of the batch to its end. Without, it is from the first task's first instruction to the last task's end, which the tasks
record themselves.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from .cluster import Cluster, stamps
from .harness import Rounds, Sample, Table, program, spread
from .machine import Meter
from .native import floor_name, tool
from .rivals import SLOTS, Runner, Yopp, missing, rivals

SECONDS = 0.1
SHORT_SECONDS = 0.05


def gap_ms(makespan: float, number: int, seconds: float, slots: int = SLOTS) -> float:
    """The ms that a slot was idle for each task; a last turn that does not fill all slots counts as a full
    one in the ideal."""
    ideal = -(-number // slots) * seconds
    return 1000 * (makespan - ideal) * slots / number


def run(runner: Runner, number: int, seconds: float, files: Iterator[Path]) -> Sample:
    """Run one batch."""
    file = next(files)
    with Meter(runner.roots) as meter:
        makespan = runner.batch(number, [*tool("task"), str(file), str(seconds)])
    seen = stamps(file)
    if len(seen) != number:
        raise RuntimeError(f"{runner.name}: {len(seen)} of {number} tasks have run")
    inner = (max(ended for _, ended in seen) - min(begun for begun, _ in seen)) / 1e9
    figures = {"with": gap_ms(makespan, number, seconds), "without": gap_ms(inner, number, seconds)}
    return Sample({**figures, "cpu": 1000 * meter.cpu / number}, meter.others)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program to the common ones."""
    parser.add_argument("--tasks", type=int, help="tasks of a round (200; short 30)")
    parser.add_argument("--rounds", type=int, help="rounds (3; short 1)")


def tables(given: argparse.Namespace) -> Iterable[Table]:
    """Yield one table."""
    number = given.tasks or (30 if given.short else 200)
    seconds = SHORT_SECONDS if given.short else SECONDS
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="yobench")))
        cluster = stack.enter_context(Cluster(*given.define))
        files = (folder / str(turn) for turn in itertools.count())
        runners = [*rivals(stack), Yopp(cluster, "-O"), Yopp(cluster, "-G")]
        cases = {one.name: partial(run, one, number, seconds, files) for one in runners}
        rounds = Rounds(cases, given.rounds or (1 if given.short else 3), warm=False)
    table = Table(
        f"Idle time of a slot for each of {number} tasks of {seconds:g} s on two slots, ms",
        ("runner", "gap", "smallest-largest", "more than the floor", "with its client's start", "CPU ms a task"),
        notes=[*missing(), *rounds.notes()],
    )  # fmt: skip
    floor = rounds.median(floor_name(), "without") or 0.0
    for name in sorted(cases, key=lambda name: rounds.median(name, "without") or 0.0):
        gap = rounds.median(name, "without") or 0.0
        table.rows.append(
            (rounds.label(name), gap, spread(rounds.values(name, "without")), gap - floor,
             rounds.median(name, "with"), rounds.median(name, "cpu"))
        )  # fmt: skip
    yield table


if __name__ == "__main__":
    sys.exit(program(__doc__, tables, options))
