"""What all programs here share: rounds in which the cases take turns, medians, tables, the command line."""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .machine import NOISY, QUIET, busy_share

Cell = str | float | None
Tables = Callable[[argparse.Namespace], Iterable["Table"]]
Options = Callable[[argparse.ArgumentParser], None]


@dataclass
class Sample:
    """One run of one case: its figures, and the cores that other programs used meanwhile."""

    figures: Mapping[str, float]
    others: float = 0.0


@dataclass
class Table:
    """The answer to one question. A cell is a text, a number, or None for no value; notes are printed below."""

    question: str
    columns: Sequence[str]
    rows: list[Sequence[Cell]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    interrupted: BaseException | None = None
    """What ends the program after this table, which shows what was measured until then."""

    def __str__(self) -> str:
        """The table as Markdown with aligned columns."""
        cells = [list(self.columns)] + [
            [*map(shown, row), *[""] * (len(self.columns) - len(row))] for row in self.rows
        ]
        widths = [max(len(row[index]) for row in cells) for index in range(len(self.columns))]
        first, *rest = (
            "| "
            + " | ".join(
                cell.ljust(width) if index == 0 else cell.rjust(width)
                for index, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            + " |"
            for row in cells
        )
        rule = (
            "|"
            + "|".join("-" * (width + 1) + ("-" if not index else ":") for index, width in enumerate(widths))
            + "|"
        )
        notes = [f"\n{note[0].upper()}{note[1:]}." for note in self.notes]
        return "\n".join([f"{self.question}\n", first, rule, *rest, *notes])

    def document(self) -> dict[str, object]:
        """The table as a document for programs."""
        rows = [dict(zip(self.columns, row, strict=False)) for row in self.rows]
        return {"question": self.question, "rows": rows, "notes": self.notes}


def shown(cell: Cell) -> str:
    """A cell's text: about three digits of a number."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    size = abs(cell)
    return f"{cell:,.0f}" if size >= 100 else f"{cell:.1f}" if size >= 10 else f"{cell:.2f}"


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, -int(-len(ordered) * share // 1) - 1))]


def spread(values: Sequence[float]) -> str:
    """The smallest and the largest value."""
    return f"{shown(min(values))}-{shown(max(values))}"


RATES = ("a second", "smallest-largest", "of the floor", "CPU ms a task")
"""The columns after the name in a table of rates."""


class Rounds:
    """The samples of cases that took turns: A B C A B C …"""

    def __init__(
        self,
        cases: Mapping[str, Callable[[], Sample | None]],
        rounds: int,
        *,
        warm: bool = True,
        shows: bool = False,
    ) -> None:
        """Run every case once in each round; with ``warm``, one uncounted round before, to fill caches.

        A case that returns None cannot run here, and is left out. With ``shows``, each sample is reported on standard
        error, and Ctrl-C and SIGTERM end the rounds: then ``interrupted`` is set, and some cases may have no sample.
        """
        self.samples: dict[str, list[Sample]] = {}
        self.interrupted: BaseException | None = None
        try:
            self._run(dict(cases), rounds, warm, shows)
        except (KeyboardInterrupt, SystemExit) as end:
            if not shows:
                raise
            self.interrupted = end

    def _run(
        self, able: dict[str, Callable[[], Sample | None]], rounds: int, warm: bool, shows: bool
    ) -> None:
        for turn in range(rounds + warm):
            for name, case in list(able.items()):
                begun = time.monotonic()
                sample = case()
                if sample is None:
                    del able[name]
                elif turn or not warm:
                    self.samples.setdefault(name, []).append(sample)
                    if shows:
                        figures = ", ".join(f"{key} {shown(value)}" for key, value in sample.figures.items())
                        tell(
                            f"round {turn + 1 - warm} of {rounds}: {name}: {figures} ({time.monotonic() - begun:.1f} s)"
                        )

    def values(self, name: str, figure: str) -> list[float]:
        """One figure of one case in each round."""
        return [sample.figures[figure] for sample in self.samples[name] if figure in sample.figures]

    def median(self, name: str, figure: str) -> float | None:
        """The median over the rounds; None if the case has no such figure."""
        values = self.values(name, figure) if name in self.samples else []
        return statistics.median(values) if values else None

    def ratio(self, name: str, figure: str, floor: str) -> float | None:
        """The median of the ratios to another case in the same round, which can be compared between hosts and
        days."""
        pairs = list(zip(self.values(name, figure), self.values(floor, figure), strict=False))
        return statistics.median([one / other for one, other in pairs if other]) if pairs else None

    def rates(self, name: str, floor: str) -> Sequence[Cell]:
        """A row of a table of ``RATES``, from the figures ``rate`` and ``cpu``."""
        rates = self.values(name, "rate")
        over = self.ratio(name, "rate", floor)
        return self.label(name), self.median(name, "rate"), spread(rates), over, self.median(name, "cpu")

    def label(self, name: str) -> str:
        """The case's name, with a tilde if other programs disturbed most of its rounds."""
        return f"{name} ~" if self._others(name) > NOISY else name

    def notes(self) -> list[str]:
        """Notes about the noise on the host."""
        disturbed = [self._others(name) for name in self.samples if self._others(name) > NOISY]
        found = [f"interrupted after {sum(map(len, self.samples.values()))} runs"] if self.interrupted else []
        if disturbed:
            found.append(f"~ noisy: other programs used up to {max(disturbed):.1f} cores meanwhile")
        return found

    def _others(self, name: str) -> float:
        return statistics.median([sample.others for sample in self.samples[name]])


def tell(line: str) -> None:
    """Report progress, on standard error."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def program(
    description: str | None, tables: Tables, options: Options | None = None, argv: Sequence[str] | None = None
) -> int:
    """The ``main`` of every program: parses options, prints tables, and ends in order at SIGTERM."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--short", action="store_true", help="few and small rounds: seconds instead of minutes"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document a table and line")
    parser.add_argument(
        "-D",
        dest="define",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a property of the clusters",
    )
    if options is not None:
        options(parser)
    given = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    before = busy_share()
    try:
        for table in tables(given):
            before = max(before, after := busy_share())
            if before > QUIET:
                table.notes.append(f"noisy: {before:.0%} of the machine was busy before or after")
            before = after
            sys.stdout.write(json.dumps(table.document()) + "\n" if given.json else f"{table}\n\n")
            sys.stdout.flush()
            if table.interrupted is not None:
                raise table.interrupted
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0
