"""What all screens have in common: the summary above, the footer below, and for tables a filter and an order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Input

from ..explain.snapshot import Picture
from ..records.history import HistoryEvent
from ..records.reports import ContainerReport
from ..views.columns import Cell, TopColumn
from ..views.top.lines import Told
from ..views.top.sampling import History
from .dialogs import Choose, Confirm
from .feed import EventFeed
from .lines import Note, Summary, TitleLine
from .source import Source
from .table import LiveTable

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


STEERING = frozenset({"steer", "kill", "drain"})
"""Actions that change the cluster: none of them with ``--readonly``."""


class Top(Protocol):
    """What screens use of the app: the pictures, calls of the cluster, and the way to other screens."""

    PLACES: ClassVar[Mapping[str, str]]
    source: Source
    feed: EventFeed
    history: History
    picture: Picture | None
    """The newest."""
    shown: Picture | None
    """The one that is shown: older than the newest while it is frozen."""
    readonly: bool
    frozen: bool
    finished: bool
    """Whether ended containers are asked for, too."""
    lost_since: float | None

    def status(self) -> list[Cell]:
        """The right end of the first line."""

    def wake(self) -> None:
        """Take the next picture now."""

    def perform(self, what: str, call: Callable[[], str]) -> None:
        """Make a call that changes something, tell how it went, and look at once."""

    def explain(self, identifier: str) -> None:
        """Show why a container, an application or a node waits."""

    def action_place(self, name: str) -> None:
        """Go to one of ``PLACES``."""

    def open_node(self, node_id: str) -> None:
        """The containers of a node."""

    def open_application(self, application_id: str) -> None:
        """The containers of an application."""

    def open_container(self, report: ContainerReport) -> None:
        """Everything about a container."""

    def open_log(self, report: ContainerReport, stream: str = ...) -> None:
        """A container's output."""

    def open_subject(self, event: HistoryEvent) -> None:
        """What an event happened to."""


class TopScreen(Screen[None]):
    """A screen that shows the app's picture, each new one while it is in front."""

    @property
    def top(self) -> Top:
        """The app."""
        return cast("Top", self.app)

    def compose(self) -> ComposeResult:
        """Textual's."""
        yield Summary()
        yield TitleLine()
        yield from self.body()
        yield Footer(show_command_palette=False, compact=True)

    def body(self) -> ComposeResult:
        """The widgets between the summary and the footer."""
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
        """Textual's: in a line of text its own key is a character; with --readonly nothing can be changed."""
        if action in ("filter", "search") and isinstance(self.focused, Input):
            return False
        if action in STEERING and self.top.readonly:
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

    def action_explain(self) -> None:
        """How it is with what is looked at, and why it waits."""
        if identity := self.identity():
            self.top.explain(identity)

    def refuse(self, action: str, why: str) -> None:
        """Say why an action cannot be."""
        self.notify(why, title=f"cannot {action}", severity="warning", markup=False)

    def confirm(self, text: str, call: Callable[[], None], *, danger: bool = True) -> None:
        """Ask, and make the call if the answer is yes."""

        def answered(yes: bool | None) -> None:
            if yes:
                call()

        self.app.push_screen(Confirm(text, danger=danger), answered)

    def action_back(self) -> None:
        """To where one came from."""
        if len(self.app.screen_stack) > 1:
            self.app.pop_screen()


class Row(NamedTuple):
    """How rows of one kind are identified, and described in full below the table."""

    identify: Callable[[Any], str]
    note: Callable[[Any, Picture], Told]


class TableScreen(TopScreen):
    """A screen with one table. Each subclass declares its rows and how they are described."""

    NAME: ClassVar[str] = ""
    EMPTY: ClassVar[str] = "nothing here"
    STEADY: ClassVar[bool] = False
    """Whether new rows come on top."""
    ROW: ClassVar[Row]
    wide: bool = False
    """Whether the columns are those of YARN's page."""

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

    def open(self, row: Any) -> None:
        """Go on from a row."""
        raise NotImplementedError

    def scope(self) -> str:
        """What the rows are restricted to; empty for nothing."""
        return ""

    def identity(self) -> str:
        """As TopScreen says."""
        return self.table.current_id

    def show(self, picture: Picture) -> None:
        """As TopScreen says."""
        rows = self.rows(picture)
        table = self.table
        table.show(rows, self.columns(picture, rows), self.ROW.identify)
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
        self.query_one(Note).show(
            self.ROW.note(row, picture) if picture is not None and row is not None else ()
        )

    def on_live_table_changed(self) -> None:
        """Textual's: other marks, another order, or another row under the cursor."""
        self._title()

    def action_open(self) -> None:
        """Go on from the row under the cursor."""
        self.table.action_select()

    def on_live_table_selected(self, event: LiveTable.Selected) -> None:
        """Textual's: opened."""
        self.open(event.row)

    def action_wide(self) -> None:
        """The other columns."""
        self.wide = not self.wide
        self.table.scroll_to(x=0, animate=False)
        self.update()

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
