"""The columns and fields of one kind of entity, declared once for lists, tables, details, pages and ``yopp top``.
Pure.

A column's value has a kind, which determines its text: in tables of the command line and tsv, and with a tone in
``yopp top``. A tone only repeats the meaning of the text, so that no information is lost without colours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from executor.hints import Any, Generic, TypeVar
from executor.light import Record

from ..records.times import timestamp
from .text import megabytes, short_megabytes, short_span, span

T = TypeVar("T")

GOOD, WARN, BAD, DIM, STRONG, ACCENT, PLAIN = "good", "warn", "bad", "dim", "strong", "accent", ""

_TONED = {
    GOOD: ("RUNNING", "FINISHED", "SUCCEEDED"),
    WARN: ("PAUSED", "PAUSING", "RESUMING", "RUNNING (silent)", "DECOMMISSIONING"),
    BAD: ("KILLED", "KILLING", "FAILED", "LOST", "UNHEALTHY"),
    DIM: ("DONE", "QUEUED", "ALLOCATED", "ACCEPTED", "UNDEFINED", "SHUTDOWN", "DECOMMISSIONED"),
}
STATE_TONES = {state: tone for tone, states in _TONED.items() for state in states}
"""The tone of each state that any table shows."""
HOT = 90.0
"""The percentage from which on a usage is shown as a warning."""


class Cell(Record):
    """A text and its tone."""

    text: str
    tone: str = PLAIN


class ColumnKind(Record):
    """The display of values of one kind: ``text`` in tables, tsv and pages, ``cell`` in ``yopp top``."""

    text: Callable[[Any], str]
    cell: Callable[[Any], Cell]
    numeric: bool = False


def _plain(value: Any) -> str:
    return "" if value is None else str(value)


def state_cell(state: str) -> Cell:
    """A state word in its tone."""
    return Cell(state, STATE_TONES.get(state, PLAIN))


def or_dash(value: Any) -> str:
    """The value as text; "-" for None."""
    return "-" if value is None else str(value)


WORD = ColumnKind(_plain, lambda value: Cell(_plain(value)))
ID = ColumnKind(_plain, lambda value: Cell(value, STRONG))
STATE = ColumnKind(_plain, state_cell)
NUMBER = ColumnKind(_plain, lambda value: Cell(_plain(value)), numeric=True)
COUNT = ColumnKind(_plain, lambda value: Cell(str(value), PLAIN if value else DIM), numeric=True)
MEGABYTES = ColumnKind(megabytes, lambda value: Cell(short_megabytes(value)), numeric=True)
PERCENT = ColumnKind(
    lambda value: f"{value:.0f}",
    lambda value: Cell(f"{value:.0f}", WARN if value >= HOT else PLAIN),
    numeric=True,
)
TENTHS = ColumnKind(lambda value: f"{value:.1f}%", lambda value: Cell(f"{value:.1f}%"), numeric=True)
"""Percent, to the tenth."""
SPAN = ColumnKind(span, lambda value: Cell(short_span(value)), numeric=True)
"""Milliseconds."""
TIME = ColumnKind(timestamp, lambda value: Cell(timestamp(value)))
"""Epoch milliseconds."""


class TopColumn(Record, Generic[T]):
    """A column of ``yopp top``. ``width`` is in terminal cells; ``flexible`` columns share the remaining
    cells. ``order`` gives the sort key; ``numeric`` columns are right-aligned, and sort descending first.
    """

    key: str
    title: str
    width: int
    cell: Callable[[T], Cell]
    order: Callable[[T], Any]
    numeric: bool = False
    flexible: bool = False


class Column(Record, Generic[T]):
    """One column. ``key`` names it in ``--columns``, ``--sort``, tsv and jsonl.

    ``value`` gives the sort key, and the value in jsonl of chosen columns; ``shown`` the text of the cell in tables
    and tsv, if it differs from its kind's. ``flexible`` columns may be shortened on a narrow terminal; ``short`` is
    the text of the cell in a table that is too wide for its terminal, before any column is left out. ``wide`` columns
    appear only with ``-o wide``, or if they are named; columns with a number in ``spare`` are left out if the terminal
    is too narrow: first columns without information, then 1 first. ``ours``: only yopp has the column; lists of a YARN
    cluster lack it.
    """

    key: str
    title: str
    value: Callable[[T], Any]
    shown: Callable[[T], str] | None = None
    short: Callable[[T], str] | None = None
    kind: ColumnKind = WORD
    flexible: bool = False
    wide: bool = False
    spare: int = 0
    ours: bool = False

    @property
    def numeric(self) -> bool:
        """Whether the column is right-aligned."""
        return self.kind.numeric

    def cell(self, row: T) -> str:
        """The cell's text in tables and tsv; empty for no value."""
        return self.shown(row) if self.shown is not None else self.kind.text(self.value(row))

    def top(
        self,
        title: str,
        width: int = 0,
        *,
        key: str = "",
        cell: Callable[[T], Cell] | None = None,
        flexible: bool = False,
    ) -> TopColumn[T]:
        """This column in ``yopp top``, under another title, and at least as wide as the title."""
        value, kind = self.value, self.kind
        drawn = cell or (lambda row: kind.cell(value(row)))
        return TopColumn(key or self.key, title, max(width, len(title)), drawn, value, self.numeric, flexible)


def default_columns(columns: Iterable[Column[T]], *, wide: bool) -> tuple[Column[T], ...]:
    """The columns that are shown if none are named."""
    return tuple(column for column in columns if wide or not column.wide)


NOTHING = frozenset(("", "-", "0"))
"""The cells without information."""


def that_fit(
    columns: Sequence[Column[T]],
    cells: Sequence[Sequence[str]],
    widths: Sequence[int],
    available: int,
    gap: int,
) -> list[int]:
    """The indices of the columns shown in ``available`` cells of the terminal, with their ``widths`` and ``gap`` cells
    between: as many spare columns as necessary are left out. If that is not enough, all the others are still
    shown. ``cells`` are the texts of each column.
    """
    places = list(range(len(columns)))

    def order(one: int) -> tuple[bool, int]:
        return not NOTHING.issuperset(cells[one]), columns[one].spare

    for spared in sorted((one for one in places if columns[one].spare), key=order):
        if sum(widths[one] for one in places) + gap * (len(places) - 1) <= available:
            break
        places.remove(spared)
    return places


def choose(columns: Sequence[Column[T]], keys: str) -> tuple[Column[T], ...]:
    """The columns of ``keys`` ("id,state"), in this order. Raises KeyError with the first unknown key."""
    return tuple(find(columns, key) for key in keys.split(",") if key.strip())


def find(columns: Sequence[Column[T]], key: str) -> Column[T]:
    """The column with this key or title, case-insensitively. Raises KeyError."""
    wanted = key.strip().casefold()
    for column in columns:
        if wanted in (column.key.casefold(), column.title.casefold()):
            return column
    raise KeyError(key.strip())


def sort(rows: Sequence[T], columns: Sequence[Column[T]], keys: str) -> list[T]:
    """``rows`` sorted by ``keys`` ("state,-memory"), the first key is the most important. Raises KeyError as
    ``choose``.
    """
    ordered = list(rows)
    for key in reversed([key.strip() for key in keys.split(",") if key.strip()]):
        column = find(columns, key.removeprefix("-"))
        ordered.sort(key=lambda row: _sortable(column.value(row)), reverse=key.startswith("-"))
    return ordered


def _sortable(value: Any) -> tuple[int, float, str]:
    """None before numbers before texts, so that mixed columns can be sorted, too."""
    if value is None:
        return (0, 0.0, "")
    if isinstance(value, (int, float)):
        return (1, float(value), "")
    return (2, 0.0, str(value))


def matches(row: T, columns: Sequence[TopColumn[T]], words: Sequence[str], identity: str) -> bool:
    """Whether each of ``words`` occurs in the row's texts or its id, case-insensitively; a word that begins
    with ``!`` must not occur.
    """
    text = " ".join([identity, *(column.cell(row).text for column in columns)]).casefold()
    wanted = [word.casefold() for word in words]
    return all(one[1:] not in text if one.startswith("!") and one != "!" else one in text for one in wanted)


Pairs = Sequence[tuple[str, str]]


class Noun(Record, Generic[T]):
    """One kind of entity: its columns, its JSON, the lines of its ``status``, and its identity.

    ``singular`` and ``plural`` are its names in YARN's JSON. ``columns``, ``document`` and ``fields`` take the time,
    in epoch milliseconds, to which durations are counted.
    """

    singular: str
    plural: str
    identity: Callable[[T], str]
    columns: Callable[[int], Sequence[Column[T]]]
    document: Callable[[T, int], Mapping[str, Any]]
    fields: Callable[[T, int], Pairs]
    states: tuple[str, ...] = ()
    """The values of ``--state``."""
    finals: tuple[str, ...] = ()
    """The values of ``--final``."""
    ours: frozenset[str] = frozenset()
    """The names of the ``fields`` that only yopp has; columns have a separate flag."""

    def told(self, pairs: Pairs) -> Pairs:
        """The fields that YARN also has, without empty ones."""
        return [(name, value) for name, value in pairs if name not in self.ours and value]

    def documents(self, listed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The document of a list, from the documents of its entities; as in YARN, null for an empty list."""
        return {self.plural: {self.singular: list(listed)} if listed else None}

    def every(self, rows: Sequence[T], now_ms: int = 0) -> dict[str, Any]:
        """The document of a list of entities at ``now_ms``."""
        return self.documents([self.document(row, now_ms) for row in rows])
