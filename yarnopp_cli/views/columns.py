"""Columns of tables: a title and a function each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column. ``key`` names it in ``--columns``, ``--sort``, tsv and jsonl.

    ``value`` gives what is sorted by, and what jsonl has of chosen columns; ``shown`` the text of the cell, in a
    table as in tsv, where it differs. ``flexible`` columns may be shortened on a narrow terminal; ``wide`` ones
    appear only with ``-o wide``, or when they are asked for by name; those with a number in ``spare`` are left out
    where a terminal is too narrow, 1 first. ``ours``: only yopp tells it, and a YARN cluster's list is without it.
    """

    key: str
    title: str
    value: Callable[[T], Any]
    shown: Callable[[T], str] | None = None
    numeric: bool = False
    flexible: bool = False
    wide: bool = False
    spare: int = 0
    ours: bool = False

    def cell(self, row: T) -> str:
        """The text in a table and in tsv; empty for no value."""
        if self.shown is not None:
            return self.shown(row)
        value = self.value(row)
        return "" if value is None else str(value)


def default_columns(columns: Iterable[Column[T]], *, wide: bool) -> tuple[Column[T], ...]:
    """Those shown when none are named."""
    return tuple(column for column in columns if wide or not column.wide)


def that_fit(columns: Sequence[Column[T]], widths: Sequence[int], available: int, gap: int) -> list[int]:
    """The places of the columns that are shown in ``available`` cells, each as wide as ``widths`` says, with ``gap``
    cells between: of those that can be spared as many are left out as it takes. If that is not enough, all are there
    that cannot be spared."""
    places = list(range(len(columns)))
    for spared in sorted((one for one in places if columns[one].spare), key=lambda one: columns[one].spare):
        if sum(widths[one] for one in places) + gap * (len(places) - 1) <= available:
            break
        places.remove(spared)
    return places


def choose(columns: Sequence[Column[T]], keys: str) -> tuple[Column[T], ...]:
    """The columns that ``keys`` ("id,state") names, in its order. Raises KeyError with the first unknown one."""
    return tuple(find(columns, key) for key in keys.split(",") if key.strip())


def find(columns: Sequence[Column[T]], key: str) -> Column[T]:
    """The column that a key or a title names, whatever its case. Raises KeyError."""
    wanted = key.strip().casefold()
    for column in columns:
        if wanted in (column.key.casefold(), column.title.casefold()):
            return column
    raise KeyError(key.strip())


def sort(rows: Sequence[T], columns: Sequence[Column[T]], keys: str) -> list[T]:
    """``rows`` sorted by ``keys`` ("state,-memory"), the first the most important. Raises KeyError as
    ``choose``.
    """
    ordered = list(rows)
    for key in reversed([key.strip() for key in keys.split(",") if key.strip()]):
        column = find(columns, key.removeprefix("-"))
        ordered.sort(key=lambda row: _sortable(column.value(row)), reverse=key.startswith("-"))
    return ordered


def _sortable(value: Any) -> tuple[int, float, str]:
    """Numbers before texts, nothing before both, so that mixed columns sort too."""
    if value is None:
        return (0, 0.0, "")
    if isinstance(value, (int, float)):
        return (1, float(value), "")
    return (2, 0.0, str(value))
