"""What all screens have in common: the summary above, the footer below, and for tables a filter and an order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Input

from ..views.columns import Cell, TopColumn
from ..views.picture import Picture
from ..views.top.lines import Told
from .dialogs import Choose
from .note import Note
from .summary import Summary, TitleLine
from .table import LiveTable

if TYPE_CHECKING:
    from .app import YoppTop

_SHORT, _LOW, _NARROW = 10, 16, 72

ALWAYS: list[BindingType] = [
    Binding("escape", "back", "Back", show=False),
    Binding("y", "copy", "Copy id", show=False),
]
FILTER = Binding("slash", "filter", "Filter", key_display="/", priority=True)
"""It is dealt with before the next key is looked at, which may be here already: ``/`` and words may be pasted."""

ORDER: list[BindingType] = [
    Binding("s", "sort", "Sort", show=False),
    Binding("C", "sort_by('cpu')", "Sort by CPU", show=False),
    Binding("M", "sort_by('memory')", "Sort by memory", show=False),
]
"""Each screen names all of its keys itself, so that the footer has them in the order of their use."""


class TopScreen(Screen[None]):
    """A screen that shows the app's picture, each new one while it is in front."""

    @property
    def top(self) -> YoppTop:
        """The app."""
        return cast("YoppTop", self.app)

    def compose(self) -> ComposeResult:
        """Textual's."""
        yield Summary()
        yield TitleLine()
        yield from self.body()
        yield Footer(show_command_palette=False, compact=True)

    def body(self) -> ComposeResult:
        """What stands between the summary and the footer."""
        yield Widget()

    def on_screen_resume(self) -> None:
        """Textual's: what was missed meanwhile."""
        self.update()

    def on_resize(self) -> None:
        """Textual's: a screen of few lines has no second line of summary, and no note."""
        self.query_one(Summary).set_class(self.size.height < _SHORT, "-short")
        self.set_class(self.size.width < _NARROW, "-narrow")
        self.set_class(self.size.height < _SHORT, "-low")
        self.set_class(self.size.height < _LOW, "-noteless")
        self.update()  # columns are as wide as the screen lets them be

    def update(self) -> None:
        """Show the app's picture and whether it is live."""
        if not self.is_mounted or not self.query(Summary):
            return
        top = self.top
        stale = top.lost_since is not None
        self.set_class(stale, "-stale")
        self.query_one(Summary).show(top.source.where, top.shown, top.history, top.status(), stale=stale)
        if top.shown is not None:
            self.show(top.shown)

    def show(self, picture: Picture) -> None:
        """Show this picture."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Textual's: in a line of text a key that would open it is a character."""
        if action in ("filter", "search") and isinstance(self.focused, Input):
            return False
        return super().check_action(action, parameters)

    def identity(self) -> str:
        """The id of what is looked at, to be copied."""
        return ""

    def action_copy(self) -> None:
        """Copy the id into the terminal's clipboard (OSC 52)."""
        identity = self.identity()
        if identity:
            self.app.copy_to_clipboard(identity)
            self.notify(identity, title="copied", timeout=3, markup=False)

    def action_back(self) -> None:
        """To where one came from."""
        if len(self.app.screen_stack) > 1:
            self.app.pop_screen()


class TableScreen(TopScreen):
    """A screen with one table."""

    NAME: ClassVar[str] = ""
    EMPTY: ClassVar[str] = "nothing here"
    STEADY: ClassVar[bool] = False

    def body(self) -> ComposeResult:
        """A table, its row under the cursor in full, and the filter's line when it is wanted."""
        yield LiveTable(empty=self.EMPTY, steady=self.STEADY, id="table")
        yield Note()
        yield Input(placeholder="words; !word excludes; enter keeps, esc clears", id="filter", compact=True)

    def on_mount(self) -> None:
        """Textual's: the table has the keys."""
        self.query_one("#filter").display = False
        self.set_focus(self.table)

    @property
    def table(self) -> LiveTable:
        """The table."""
        return self.query_one(LiveTable)

    def rows(self, picture: Picture) -> Sequence[Any]:
        """What the table shows."""
        raise NotImplementedError

    def columns(self, picture: Picture, rows: Sequence[Any]) -> Sequence[TopColumn[Any]]:
        """How it shows it."""
        raise NotImplementedError

    def identify(self, row: Any) -> str:
        """A row's id."""
        raise NotImplementedError

    def scope(self) -> str:
        """What the rows are restricted to; empty for nothing."""
        return ""

    def note(self, row: Any, picture: Picture) -> Told:
        """A row in full."""
        raise NotImplementedError

    def identity(self) -> str:
        """As TopScreen says."""
        return self.table.current_id

    def show(self, picture: Picture) -> None:
        """As TopScreen says."""
        rows = self.rows(picture)
        table = self.table
        table.show(rows, self.columns(picture, rows), self.identify)
        table.stale = self.top.lost_since is not None
        self._title()

    def _title(self) -> None:
        table = self.table
        count = str(table.total) if len(table.rows) == table.total else f"{len(table.rows)} of {table.total}"
        left = [Cell(self.NAME, "strong"), Cell(f" ({count})")]
        if self.scope():
            left.append(Cell(f"  {self.scope()}", "accent"))
        right = []
        if table.marked:
            right.append(f"{len(table.marked)} marked")
        if table.words:
            right.append("filter: " + " ".join(table.words))
        if table.sort_key:
            titles = {column.key: column.title for column in table.columns}
            right.append(f"by {titles.get(table.sort_key, table.sort_key)}")
        self.query_one(TitleLine).show(left, "  ".join(right))

        picture, row = self.top.shown, table.current
        self.query_one(Note).show(self.note(row, picture) if picture is not None and row is not None else ())

    def on_live_table_changed(self) -> None:
        """Textual's: other marks, another order, or another row under the cursor."""
        self._title()

    # ---- filter and order

    def action_filter(self) -> None:
        """Ask for words."""
        line = self.query_one("#filter", Input)
        line.display = True
        self.set_focus(line)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Textual's: filter while one types."""
        self.table.filter(event.value)
        self._title()

    def on_input_submitted(self) -> None:
        """Textual's: keep the filter."""
        line = self.query_one("#filter", Input)
        line.display = bool(line.value)
        self.set_focus(self.table)

    def action_back(self) -> None:
        """Out of the filter first, then out of the marks, then out of the screen."""
        line = self.query_one("#filter", Input)
        if line.display:
            line.value = ""
            line.display = False
            self.set_focus(self.table)
        elif self.table.marked:
            self.table.marked = set()
            self.table.refresh()
            self._title()
        else:
            super().action_back()

    def action_sort(self) -> None:
        """Ask for the column."""
        options = [("", "as they come")]
        options += [(column.key, column.title) for column in self.table.columns if column.title]

        def chosen(key: str | None) -> None:
            if key is not None:
                self.action_sort_by(key)

        self.app.push_screen(Choose("Sort by", options, self.table.sort_key), chosen)

    def action_sort_by(self, key: str) -> None:
        """Sort by a column of this name, if there is one."""
        table = self.table
        if not key or any(column.key == key for column in table.columns):
            table.sort(key)
            self._title()
