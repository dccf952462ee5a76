"""Tables that are looked at again and again: columns of fixed width whose cells have a tone. Pure.

A tone only repeats what the text says, so that nothing is lost without colours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from .text import shorten, width

T = TypeVar("T")

GOOD, WARN, BAD, DIM, STRONG, ACCENT, PLAIN = "good", "warn", "bad", "dim", "strong", "accent", ""

STATE_TONES = {
    "RUNNING": GOOD,
    "FINISHED": GOOD,
    "SUCCEEDED": GOOD,
    "DONE": DIM,
    "PAUSED": WARN,
    "PAUSING": WARN,
    "RESUMING": WARN,
    "RUNNING (silent)": WARN,
    "DECOMMISSIONING": WARN,
    "KILLED": BAD,
    "KILLING": BAD,
    "FAILED": BAD,
    "LOST": BAD,
    "UNHEALTHY": BAD,
    "QUEUED": DIM,
    "ALLOCATED": DIM,
    "ACCEPTED": DIM,
    "UNDEFINED": DIM,
    "SHUTDOWN": DIM,
    "DECOMMISSIONED": DIM,
}
"""The tone of each state that any table shows."""


class Cell(NamedTuple):
    """A text and its tone."""

    text: str
    tone: str = PLAIN


@dataclass(frozen=True, slots=True)
class TopColumn(Generic[T]):
    """One column. ``width`` in terminal cells; ``flexible`` ones share what is left over. ``order`` gives what is
    sorted by; ``numeric`` ones stand at the right, and sort descending first.
    """

    key: str
    title: str
    width: int
    cell: Callable[[T], Cell]
    order: Callable[[T], Any]
    numeric: bool = False
    flexible: bool = False


def state_cell(state: str) -> Cell:
    """A state word in its tone."""
    return Cell(state, STATE_TONES.get(state, PLAIN))


def sorted_rows(rows: Sequence[T], column: TopColumn[T], *, descending: bool) -> list[T]:
    """``rows`` in the order of one column; equal ones as they were."""
    return sorted(rows, key=column.order, reverse=descending)


def matches(row: T, columns: Sequence[TopColumn[T]], words: Sequence[str], identity: str) -> bool:
    """Whether each of ``words`` is somewhere in the row's texts or its id, whatever its case; one that begins with
    ``!`` must not be.
    """
    text = " ".join([identity, *(column.cell(row).text for column in columns)]).casefold()
    for word in words:
        wanted = word.casefold()
        if wanted.startswith("!") and len(wanted) > 1:
            if wanted[1:] in text:
                return False
        elif wanted not in text:
            return False
    return True


def fitted(text: str, cells: int, *, right: bool = False) -> str:
    """``text`` in exactly ``cells`` terminal cells: cut with an ellipsis, or filled with blanks."""
    if cells <= 0:
        return ""
    shown = shorten(text, cells)
    blank = " " * (cells - width(shown))
    return blank + shown if right else shown + blank


def short_span(milliseconds: float) -> str:
    """A duration in at most five cells: ``0s``, ``119s``, ``9m``, ``23h``, ``400d``; "-" if negative.

    A unit begins at two of it, so that 118 s and 61 s are not told as ``1m`` both.
    """
    if milliseconds < 0:
        return "-"
    seconds = int(milliseconds // 1000)
    for limit, unit, letter in ((120, 1, "s"), (7200, 60, "m"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds // unit}{letter}"
    return f"{seconds // 86400}d"


def short_megabytes(amount: float) -> str:
    """MB in at most five cells: ``0.4M``, ``512M``, ``8.0G``, ``120G``."""
    if amount < 9.95 and amount != int(amount):
        return f"{amount:.1f}M"
    if amount < 1000:
        return f"{amount:.0f}M"
    gigabytes = amount / 1024
    return f"{gigabytes:.1f}G" if gigabytes < 99.95 else f"{gigabytes:.0f}G"
