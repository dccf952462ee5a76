"""A table whose rows change continuously: only the visible lines are drawn, however many there are.

Textual's DataTable keeps a cell for each value, and each change costs time (with a thousand rows sorted by
CPU, all change every second). Here the rows are the reports themselves, and a line's cells are made when it
is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ..views.columns import TopColumn, matches
from ..views.text import fitted, harmless
from .lines import MOVES, TONE_CLASSES, TONE_CSS, tone_style

_GUTTER = 2
_TELLING = 4
"""The least width, in cells, at which a part of a text is shown."""
CURSOR, MARK = "▸", "●"


class LiveTable(ScrollView, can_focus=True, inherit_bindings=False):
    """Rows of any kind under TopColumns. The cursor and the marks stay with a row's id when it moves.

    The first column stays in place while the others are scrolled sideways.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "live-table--header",
        "live-table--sorted",
        "live-table--cursor",
        *TONE_CLASSES,
    }
    DEFAULT_CSS = """
    LiveTable { height: 1fr; background: $background; color: $foreground; scrollbar-size-horizontal: 1;
                scrollbar-size-vertical: 1; }
    LiveTable .live-table--header { color: $foreground; text-style: bold underline; }
    LiveTable .live-table--sorted { color: $text-primary; text-style: bold underline; }
    LiveTable .live-table--cursor { background: $primary 30%; }
    LiveTable:focus .live-table--cursor { background: $primary 45%; }
    LiveTable:ansi .live-table--cursor { background: ansi_default; text-style: reverse; }
    LiveTable:ansi:focus .live-table--cursor { background: ansi_default; text-style: reverse; }
    """ + TONE_CSS.format(name="LiveTable")
    BINDINGS: ClassVar[list[BindingType]] = [
        *MOVES,
        Binding("left,h", "sideways(-1)", "Left", show=False),
        Binding("right", "sideways(1)", "Right", show=False),
        Binding("space", "mark", "Mark", show=False),
    ]
    stale: reactive[bool] = reactive(False)
    """Whether the data is stale: it is drawn dim and without colours."""

    class Selected(Message):
        """A row was chosen: ``row`` is its object."""

        def __init__(self, row: Any) -> None:
            super().__init__()
            self.row = row

    class Changed(Message):
        """The marks, the order, or the row under the cursor have changed."""

    def __init__(self, *, empty: str = "nothing here", steady: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self.steady = steady
        """New rows are added on top: a cursor at the top stays there; further down the visible rows do not
        move.
        """
        self.columns: tuple[TopColumn[Any], ...] = ()
        self.rows: list[Any] = []
        self.total = 0
        self.cursor = 0
        self.marked: set[str] = set()
        self.sort_key = ""
        self.descending = False
        self.words: tuple[str, ...] = ()
        self.empty = empty
        self._all: Sequence[Any] = ()
        self._identity: Callable[[Any], str] = str
        self._cursor_id = ""

    # ---- contents

    def show(
        self, rows: Sequence[Any], columns: Sequence[TopColumn[Any]], identity: Callable[[Any], str]
    ) -> None:
        """Replace the rows, the columns, and the function that identifies a row."""
        self._all, self.columns, self._identity = rows, tuple(columns), identity
        self._arrange()

    def filter(self, text: str) -> None:
        """Show only the rows that match all words of ``text``."""
        self.words = tuple(text.split())
        self._arrange()

    def sort(self, key: str) -> None:
        """Sort by a column; the same column again reverses the order. An empty key restores the natural
        order.
        """
        column = self._column(key)
        again = key == self.sort_key
        self.descending = not self.descending if again else (column is not None and column.numeric)
        self.sort_key = key
        self._arrange()
        self._put_cursor(0)
        self.post_message(self.Changed())

    def _column(self, key: str) -> TopColumn[Any] | None:
        return next((column for column in self.columns if column.key == key), None)

    def _arrange(self) -> None:
        self.total = len(self._all)
        rows = list(self._all)
        if self.words:
            rows = [row for row in rows if matches(row, self.columns, self.words, self._identity(row))]
        column = self._column(self.sort_key)
        if column is not None:
            rows = sorted(rows, key=column.order, reverse=self.descending)
        self.rows = rows
        ids = {self._identity(row): index for index, row in enumerate(rows)}
        self.marked &= ids.keys() if not self.words else {self._identity(row) for row in self._all}
        was, top = self.cursor, self.scroll_offset.y
        self._measure()
        self._keep_cursor(ids.get(self._cursor_id, -1), was, top)
        self.refresh()

    def _keep_cursor(self, index: int, was: int, top: int) -> None:
        """Place the cursor after rows have moved: its row is at ``index`` now (-1: gone) and was at ``was``,
        with ``top`` the first visible one. The cursor never scrolls out of view by itself, so that the user
        sees the row that an action applies to.
        """
        natural = self._column(self.sort_key) is None
        if index < 0 or (self.steady and natural and was == 0 and top == 0):
            index = was
        elif self.steady and natural:
            self.scroll_to(y=max(0, top + index - was), animate=False, immediate=True)
        elif self._sees(was, top) and not self._sees(index, top):
            if natural:
                height = self._height()
                self.scroll_to(y=index if index < top else index - height + 1, animate=False, immediate=True)
            else:
                index = was  # a sorted table keeps showing its first rows, and the cursor its position
        self.cursor = max(0, min(index, len(self.rows) - 1))
        self._cursor_id = self._identity(self.rows[self.cursor]) if self.rows else ""

    def _height(self) -> int:
        return max(1, self.scrollable_content_region.height - 1)

    def _sees(self, index: int, top: int) -> bool:
        return top <= index < top + self._height()

    def _measure(self) -> None:
        self.virtual_size = Size(self._needed(), len(self.rows) + 1)

    def _needed(self) -> int:
        return _GUTTER + sum(column.width + 1 for column in self.columns)

    def widths(self) -> list[int]:
        """The present widths of the columns: flexible ones share the remaining cells."""
        widths = [column.width for column in self.columns]
        flexible = [index for index, column in enumerate(self.columns) if column.flexible]
        spare = self.scrollable_content_region.width - self._needed()
        for place, index in enumerate(flexible):
            if spare > 0:
                widths[index] += spare // len(flexible) + (1 if place < spare % len(flexible) else 0)
        return widths

    @property
    def current(self) -> Any | None:
        """The row under the cursor."""
        return self.rows[self.cursor] if self.rows else None

    @property
    def current_id(self) -> str:
        """The id of the row under the cursor; empty for none."""
        return self._cursor_id if self.rows else ""

    def chosen(self) -> list[Any]:
        """The marked rows, else the one under the cursor."""
        marked = [row for row in self._all if self._identity(row) in self.marked]
        if marked:
            return marked
        return [self.current] if self.rows else []

    # ---- drawing

    def render_line(self, y: int) -> Strip:
        """Draw one line; line 0 is the header."""
        base = self.rich_style
        if y == 0:
            return self._header(base)
        index = self.scroll_offset.y + y - 1
        if index >= len(self.rows):
            empty = "no row has all of these words" if self.words and self.total else self.empty
            text = f"  {empty}" if not self.rows and y == 1 else ""
            width = self.scrollable_content_region.width
            return Strip([Segment(text, base + tone_style(self, "dim"))]).adjust_cell_length(width, base)
        row = self.rows[index]
        if index == self.cursor:
            base = base + self.get_component_rich_style("live-table--cursor")
        marks = (CURSOR if index == self.cursor else " ") + (
            MARK if self._identity(row) in self.marked else " "
        )
        old = base + Style(dim=True) if self.stale else None
        cells = []
        for column in self.columns:
            cell = column.cell(row)
            cells.append((harmless(cell.text), old or base + tone_style(self, cell.tone)))
        return self._line(Segment(marks, base + tone_style(self, "accent")), cells, base)

    def _header(self, base: Style) -> Strip:
        plain = base + self.get_component_rich_style("live-table--header", partial=True)
        chosen = base + self.get_component_rich_style("live-table--sorted", partial=True)
        titles = []
        for column, room in zip(self.columns, self.widths(), strict=True):
            arrow = ("▾" if self.descending else "▴") if column.key == self.sort_key else ""
            titles.append((column.title[: max(0, room - len(arrow))] + arrow, chosen if arrow else plain))
        return self._line(Segment("  ", base), titles, base)

    def _line(self, gutter: Segment, cells: Sequence[tuple[str, Style]], base: Style) -> Strip:
        """A line with the gutter and the first column in place, the rest shifted by the horizontal offset.

        A column that is only partly visible is not drawn, since a part of a figure would be another figure. A
        text is drawn as far as it fits, and ends in an ellipsis.
        """
        width, offset = self.scrollable_content_region.width, self.scroll_offset.x
        fixed, moved, gap = [gutter], [], Segment(" ", base)
        at = end = 0
        for place, (column, room, (text, style)) in enumerate(
            zip(self.columns, self.widths(), cells, strict=True)
        ):
            text = fitted(text, room, right=column.numeric)
            if place == 0:
                fixed += [Segment(text, style), gap]
                end = offset + max(0, width - _GUTTER - room - 1)
                continue
            if at < offset or (at + room > end and (column.numeric or end - at < _TELLING)):
                text, style = " " * room, base
            elif at + room > end:
                text = fitted(text.rstrip(), end - at)
            moved += [Segment(text, style), gap]
            at += room + 1
        return Strip([*fixed, *Strip(moved).crop(offset, end)]).adjust_cell_length(width, base)

    def watch_stale(self) -> None:
        """Textual's: draw again."""
        self.refresh()

    def on_resize(self) -> None:
        """Textual's: the width of flexible columns has changed."""
        self._measure()
        self.refresh()

    # ---- moving

    def _put_cursor(self, index: int) -> None:
        if not self.rows:
            return
        self.cursor = max(0, min(index, len(self.rows) - 1))
        before, self._cursor_id = self._cursor_id, self._identity(self.rows[self.cursor])
        height = self._height()
        top = self.scroll_offset.y
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, immediate=True)
        elif self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False, immediate=True)
        self.refresh()
        if self._cursor_id != before:
            self.post_message(self.Changed())

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        self._put_cursor(self.cursor + step)

    def action_page(self, direction: int) -> None:
        """Move the cursor by the visible rows."""
        self._put_cursor(self.cursor + direction * max(1, self.scrollable_content_region.height - 2))

    def action_edge(self, direction: int) -> None:
        """Move the cursor to the first or the last row."""
        self._put_cursor(0 if direction < 0 else len(self.rows) - 1)

    def action_sideways(self, direction: int) -> None:
        """Scroll the columns behind the first, one at a time."""
        starts = [0]
        for cells in self.widths()[1:]:
            starts.append(starts[-1] + cells + 1)
        now = self.scroll_offset.x
        if direction > 0:
            self.scroll_to(x=min(x for x in [*starts, now + (1 << 20)] if x > now), animate=False)
        else:
            self.scroll_to(x=max([x for x in starts if x < now], default=0), animate=False)

    def action_select(self) -> None:
        """Open the row under the cursor."""
        if self.rows:
            self.post_message(self.Selected(self.rows[self.cursor]))

    def action_mark(self) -> None:
        """Mark or unmark the row under the cursor, and go to the next row."""
        if self.rows:
            self.marked ^= {self._cursor_id}
            self._put_cursor(self.cursor + 1)
            self.post_message(self.Changed())

    def on_click(self, event: events.Click) -> None:
        """A click on a title sorts by its column, a click on a row moves the cursor there, and a double click
        opens the row.
        """
        if event.y == 0:
            key = self._title_at(event.x)
            if key:
                self.sort(key)
            return
        index = self.scroll_offset.y + event.y - 1
        if index < len(self.rows):
            self._put_cursor(index)
            if event.chain == 2:
                self.action_select()

    def _title_at(self, x: int) -> str:
        widths = self.widths()
        at = _GUTTER
        for place, (column, cells) in enumerate(zip(self.columns, widths, strict=True)):
            if place == 1:
                x += self.scroll_offset.x
            if at <= x <= at + cells:
                return column.key
            at += cells + 1
        return ""
