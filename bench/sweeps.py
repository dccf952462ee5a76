"""How long many different command lines take as one job: yopp, GNU parallel and xargs, on two slots.

The lines are the same for all, each with its own argument; the start of yopp's client counts in each run. One row adds
what people add to a sweep: a log of the tasks, and their output in files.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from .cluster import Cluster
from .harness import Rounds, Sample, Table, program, spread
from .machine import Meter
from .rivals import SLOTS, missing

KINDS = {"true": ("true",), "sleep 0.03": ("sh", "-c", "sleep 0.03")}
"""The command of each line, to which its number is appended: nothing, and something short."""


def xargs(command: tuple[str, ...], values: Path) -> None:
    """Run ``xargs -P2``, the simplest runner."""
    with values.open() as lines:
        subprocess.run(["xargs", f"-P{SLOTS}", "-n1", *command], stdin=lines, check=True)


def parallel(command: tuple[str, ...], values: Path, *more: str) -> None:
    """Run GNU parallel."""
    quoted = ["--quote"] if command[0] == "sh" else []
    words = ["parallel", "--will-cite", f"-j{SLOTS}", *quoted, *more, *command, "{}", "::::", str(values)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def yopp(cluster: Cluster, command: tuple[str, ...], values: Path, *more: str) -> None:
    """Run one yopp job."""
    words = ["run", "-q", "-O", "--memory", "32", *more, *command, "{}", "::::", str(values)]
    with cluster.start(*words) as process:
        if process.wait():
            raise RuntimeError(f"yopp {' '.join(words)}: {process.returncode}")


def run(case: Callable[[], None], roots: Callable[[], Iterable[int]], number: int) -> Sample:
    """Run one sweep."""
    with Meter(roots) as meter:
        begun = time.monotonic()
        case()
        seconds = time.monotonic() - begun
    return Sample({"seconds": seconds, "cpu": 1000 * meter.cpu / number}, meter.others)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program to the common ones."""
    parser.add_argument("--tasks", type=int, help="lines of a sweep (300; short 100)")
    parser.add_argument("--rounds", type=int, help="rounds (5; short 2)")


def table(kind: str, number: int, rounds: int, define: Iterable[str]) -> Table:
    """The table of all runners for one kind of line."""
    command = KINDS[kind]
    with tempfile.TemporaryDirectory(prefix="yobench") as directory, Cluster(*define) as cluster:
        values = Path(directory) / "values"
        values.write_text("".join(f"{one}\n" for one in range(number)))
        kept = ("--joblog", f"{directory}/log", "--results", f"{directory}/out")
        cases: dict[str, Callable[[], None]] = {
            f"xargs -P{SLOTS}": partial(xargs, command, values),
            "yopp run -O": partial(yopp, cluster, command, values),
            "yopp run -O --joblog --results": partial(yopp, cluster, command, values, *kept),
        }
        if shutil.which("parallel"):
            cases[f"parallel -j{SLOTS}"] = partial(parallel, command, values)
            cases[f"parallel -j{SLOTS} --joblog --results"] = partial(parallel, command, values, *kept)
        measured = {
            name: partial(run, case, cluster.pids if name.startswith("yopp") else tuple, number)
            for name, case in cases.items()
        }
        found = Rounds(measured, rounds)
        made = Table(
            f"{number} different lines of `{kind}`, seconds",
            ("runner", "median", "smallest-largest", "of parallel's", "CPU ms a line"),
            notes=[*missing(), *found.notes()],
        )
        for name in sorted(measured, key=lambda one: found.median(one, "seconds") or 0):
            rival = f"parallel -j{SLOTS}" + (" --joblog --results" if name.endswith("--results") else "")
            over = found.ratio(name, "seconds", rival) if rival in cases else None
            seconds = found.values(name, "seconds")
            made.rows.append(
                (
                    found.label(name),
                    found.median(name, "seconds"),
                    spread(seconds),
                    over,
                    found.median(name, "cpu"),
                )
            )
    return made


def tables(given: argparse.Namespace) -> Iterable[Table]:
    """Yield a table for each kind of line."""
    for kind in KINDS:
        yield table(
            kind,
            given.tasks or (100 if given.short else 300),
            given.rounds or (2 if given.short else 5),
            given.define,
        )


if __name__ == "__main__":
    sys.exit(program(__doc__, tables, options))
