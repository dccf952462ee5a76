"""The screens with a table: nodes, applications, containers, waiting containers, and events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from ..errors import YoppError
from ..explain.snapshot import Picture
from ..records.history import HistoryEvent
from ..records.ids import short_id
from ..records.reports import DRAINED, FINAL_STATES, ApplicationReport, ContainerReport, NodeReport, NodeState
from ..views.columns import Cell, TopColumn
from ..views.events import subject
from ..views.explain.consequences import drain, kill_applications
from ..views.top import lines, tables
from .actions import ACTIONS, EXPLAIN, STEER, ContainerActionScreen, perform_all
from .base import ALWAYS, TypingScreen, failure, typing
from .container import DetailScreen, LogScreen
from .dialogs import Choose
from .lines import Note, TitleLine
from .source import in_thread
from .table import LiveTable

Rows = Sequence[Any]
Columns = Sequence[TopColumn[Any]]
FILTER = typing("Filter")
SORT = Binding("s", "sort", "Sort")
ORDER: list[BindingType] = [
    Binding("C", "sort_by('cpu')", "Sort by CPU", show=False),
    Binding("M", "sort_by('memory')", "Sort by memory", show=False),
]
SORT_UNSEEN = Binding("s", "sort", "Sort", show=False)


def _enter(what: str) -> Binding:
    return Binding("enter", "open", what, key_display="enter")


class Row(NamedTuple):
    """The identity of rows of one kind, and their full description below the table."""

    identify: Callable[[Any], str]
    note: Callable[[Any, Picture], lines.Told]


class TableScreen(TypingScreen):
    """A screen with one table. Each subclass declares how rows are identified and described, and provides the
    rows, their columns, their scope, and the action that opens a row.
    """

    TYPE = "words; !word excludes; enter keeps, esc clears"
    NAME: ClassVar[str] = ""
    EMPTY: ClassVar[str] = "nothing here"
    STEADY: ClassVar[bool] = False
    """Whether new rows are added on top."""
    ROW: ClassVar[Row]
    wide: bool = False
    """Whether the columns are those of YARN's page."""

    def content(self) -> ComposeResult:
        """A table, and the row under the cursor in full."""
        yield LiveTable(empty=self.EMPTY, steady=self.STEADY, id="table")
        yield Note()

    @property
    def table(self) -> LiveTable:
        """The table."""
        return self.query_one(LiveTable)

    def _rows(self, picture: Picture) -> Rows:
        raise NotImplementedError

    def _columns(self, picture: Picture, rows: Rows) -> Columns:
        raise NotImplementedError

    def _open(self, row: Any) -> None:
        raise NotImplementedError

    def _scope(self) -> str:
        return ""

    def identity(self) -> str:
        """Do as in TopScreen."""
        return self.table.current_id

    def show(self, picture: Picture) -> None:
        """Do as in TopScreen."""
        rows = self._rows(picture)
        table = self.table
        table.show(rows, self._columns(picture, rows), self.ROW.identify)
        table.stale = self.top.lost_since is not None
        self._title()

    def _title(self) -> None:
        table, scope = self.table, self._scope()
        count = str(table.total) if len(table.rows) == table.total else f"{len(table.rows)} of {table.total}"
        left = [Cell(self.NAME, "strong"), Cell(f" ({count})"), Cell(f"  {scope}" if scope else "", "accent")]
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
        known = picture is not None and row is not None
        self.query_one(Note).show(self.ROW.note(row, picture) if known and picture else ())

    def on_live_table_changed(self) -> None:
        """Textual's: the marks, the order, or the row under the cursor have changed."""
        self._title()

    def action_open(self) -> None:
        """Open the row under the cursor."""
        self.table.action_select()

    def on_live_table_selected(self, event: LiveTable.Selected) -> None:
        """Textual's: a row was opened."""
        self._open(event.row)

    def action_wide(self) -> None:
        """Switch between compact and YARN's columns."""
        self.wide = not self.wide
        self.table.scroll_to(x=0, animate=False)
        self.update()

    # ---- filter and order

    def on_input_changed(self, event: Input.Changed) -> None:
        """Textual's: filter while the user types."""
        self.table.filter(event.value)
        self._title()

    def on_input_submitted(self) -> None:
        """Textual's: keep the filter."""
        self.leave_line(keep=True)

    def action_back(self) -> None:
        """Drop the filter if it is open, else the marks, else leave the screen."""
        if self.line.display:
            self.line.value = ""
            self.leave_line()
        elif self.table.marked:
            self.table.marked = set()
            self.table.refresh()
            self._title()
        else:
            super().action_back()

    def action_sort(self) -> None:
        """Ask which column to sort by."""
        options = [("", "as they come")]
        options += [(column.key, column.title) for column in self.table.columns if column.title]

        def chosen(key: str | None) -> None:
            if key is not None:
                self.action_sort_by(key)

        self.app.push_screen(Choose("Sort by", options, self.table.sort_key), chosen)

    def action_sort_by(self, key: str) -> None:
        """Sort by a column of this name, if there is one."""
        if not key or any(column.key == key for column in self.table.columns):
            self.table.sort(key)
            self._title()


class NodesScreen(TableScreen, inherit_bindings=False):
    """One row per node; with compact columns, or those of YARN's page."""

    NAME = "Nodes"
    EMPTY = "no node has registered"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(_enter("Containers"), FILTER, SORT, EXPLAIN),
        Binding("n", "drain", "Drain/resume"),
        Binding("w", "wide", "YARN's page"),
        *ORDER,
        *ALWAYS,
    ]
    ROW = Row(attrgetter("node_id"), lines.of_node)

    def _rows(self, picture: Picture) -> Rows:
        return picture.nodes

    def _columns(self, picture: Picture, rows: Rows) -> Columns:
        return tables.yarn_node_columns(picture.taken_at_ms) if self.wide else tables.node_columns(rows)

    def _scope(self) -> str:
        return "YARN's page: ← → scroll" if self.wide else ""

    def _open(self, row: NodeReport) -> None:
        self.app.push_screen(ContainersScreen(node_id=row.node_id))

    def action_drain(self) -> None:
        """Drain the node under the cursor, or put a drained one back into use."""
        node: NodeReport | None = self.table.current
        if node is None:
            return
        source, name = self.top.source, node.node_id
        if node.state in DRAINED:
            self.top.perform(f"use {name}", partial(source.use_again, name))
        elif node.state is not NodeState.RUNNING:
            self.refuse("drain", f"it is {node.state.value}")
        else:
            call = partial(source.drain, name)
            self.confirm(drain(node), partial(self.top.perform, f"drain {name}", call))


class ApplicationsScreen(TableScreen, inherit_bindings=False):
    """One row per application, the newest first; with compact columns and a bar of its containers, or YARN's
    columns.
    """

    NAME = "Applications"
    EMPTY = "no application yet"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(_enter("Containers"), FILTER, SORT, EXPLAIN),
        Binding("ctrl+k,f9", "kill", "Kill", key_display="^k"),
        Binding("w", "wide", "YARN's columns"),
        *ORDER,
        *ALWAYS,
    ]
    ROW = Row(attrgetter("application_id"), lines.of_application)

    def _rows(self, picture: Picture) -> Rows:
        return picture.applications[::-1]

    def _columns(self, picture: Picture, rows: Rows) -> Columns:
        now = picture.taken_at_ms
        if self.wide:
            return tables.yarn_application_columns(now)
        return tables.application_columns(now, rows, self.size.width)

    def _scope(self) -> str:
        return "← → scroll" if self.wide else "█run ▒paused ░queued ·done -killed ✗preempted !failed"

    def _open(self, row: ApplicationReport) -> None:
        self.app.push_screen(ContainersScreen(application_id=row.application_id))

    def action_kill(self) -> None:
        """Kill the marked applications, or the one under the cursor."""
        living = [app for app in self.table.chosen() if app.state not in FINAL_STATES]
        if living:
            kill = self.top.source.kill_application
            calls = [(short_id(app.application_id), partial(kill, app.application_id)) for app in living]
            perform = partial(perform_all, self.top, "kill", "applications", calls)
            self.confirm(kill_applications(living), perform)
        elif self.table.rows:
            self.refuse("kill", "it has ended")


class _ContainerTable(TableScreen, ContainerActionScreen, inherit_bindings=False):
    """Containers as rows: actions apply to the marked ones, or the one under the cursor."""

    def targets(self) -> list[ContainerReport]:
        return self.table.chosen()

    def _open(self, row: ContainerReport) -> None:
        self.app.push_screen(DetailScreen(row))

    def action_log(self) -> None:
        """Open the output of the container under the cursor, regardless of marks."""
        if (report := self.table.current) is not None:
            self.app.push_screen(LogScreen(report))


class ContainersScreen(_ContainerTable, inherit_bindings=False):
    """One row per container: of one node, of one application, or all."""

    NAME = "Containers"
    EMPTY = "no live containers (a shows ended ones)"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(_enter("Detail"), Binding("l", "log", "Log"), FILTER, EXPLAIN, *STEER),
        Binding("a", "ended", "Show ended", show=False),
        *(SORT_UNSEEN, *ORDER, *ALWAYS),
    ]
    ROW = Row(attrgetter("container_id"), lines.of_container)

    def __init__(self, node_id: str = "", application_id: str = "") -> None:
        super().__init__()
        self.node_id, self.application_id = node_id, application_id

    def _rows(self, picture: Picture) -> Rows:
        return [
            one
            for one in picture.containers
            if self.node_id in ("", one.node_id) and self.application_id in ("", one.application_id)
        ]

    def _columns(self, picture: Picture, rows: Rows) -> Columns:
        """The columns, with the sparkline as wide as the screen allows."""
        spark = max(6, min(60, (self.size.width - 72) // 2 + 6))
        return tables.container_columns(picture, self.top.history, rows, spark)

    def _scope(self) -> str:
        where = self.node_id or (short_id(self.application_id) if self.application_id else "")
        return where + (" with ended ones" if self.top.finished else "")

    def action_ended(self) -> None:
        """Show ended containers too, or hide them again."""
        self.top.finished = not self.top.finished
        self.top.wake()


class QueueScreen(_ContainerTable, inherit_bindings=False):
    """One row per queued or paused container, in the order in which they will run, with the reason of the wait."""

    NAME = "Queue"
    EMPTY = "nothing is waiting"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(_enter("Detail"), FILTER, EXPLAIN),
        ACTIONS["promote"].binding("promote", shown=True),
        ACTIONS["kill"].binding("kill", shown=True, title="Drop"),
        ACTIONS["resume"].binding("resume", shown=True),
        *(ACTIONS[name].binding(name, shown=False) for name in ("pause", "demote")),
        Binding("l", "log", "Log", show=False),
        *(SORT_UNSEEN, *ORDER, *ALWAYS),
    ]
    ROW = Row(attrgetter("container_id"), lines.of_waiting)

    def _rows(self, picture: Picture) -> Rows:
        return tables.queue_rows(picture)

    def _columns(self, picture: Picture, rows: Rows) -> Columns:
        return tables.queue_columns(picture, rows, self.size.width)


class EventsScreen(TableScreen, inherit_bindings=False):
    """One row per event, the newest first; only those of one kind, if one is chosen."""

    NAME = "Events"
    EMPTY = "nothing has happened yet"
    STEADY = True
    SHOWS_EVENTS = True
    BINDINGS: ClassVar[list[BindingType]] = [
        *(_enter("Open"), FILTER, Binding("f", "kind", "Kind"), EXPLAIN, SORT_UNSEEN, *ALWAYS)
    ]
    # Event numbers begin anew with a new cluster.
    ROW = Row(lambda event: f"{event.seq} {event.t}", lines.of_event)

    def __init__(self) -> None:
        super().__init__()
        self.kind = ""
        self._frozen: list[HistoryEvent] | None = None

    def _rows(self, picture: Picture) -> Rows:
        """The events; while the display is frozen, those at the time of freezing."""
        if not self.top.frozen:
            self._frozen = None
        elif self._frozen is None:
            self._frozen = list(self.top.feed.events)
        events = self._frozen if self._frozen is not None else list(self.top.feed.events)
        return [event for event in reversed(events) if self.kind in ("", event.kind.value)]

    def _columns(self, picture: Picture, rows: Rows) -> Columns:
        return tables.EVENT_COLUMNS

    def identity(self) -> str:
        """The id of the subject of the event under the cursor."""
        event: HistoryEvent | None = self.table.current
        return subject(event) if event is not None else ""

    def _open(self, row: HistoryEvent) -> None:
        if row.container:
            self.run_worker(self._open_container(row.container), group="open", exclusive=True)
        elif row.app or row.node:
            self.app.push_screen(ContainersScreen("" if row.app else row.node, row.app))

    async def _open_container(self, container_id: str) -> None:
        """Open a container's screen, even if the container ended long ago."""
        picture = self.top.picture
        found = picture.container(container_id) if picture is not None else None
        if found is None:
            try:
                found = await in_thread(partial(self.top.source.container, container_id))
            except (YoppError, OSError) as error:
                self.notify(failure(error), severity="error")
                return
        self.app.push_screen(DetailScreen(found))

    def _scope(self) -> str:
        missed = self.top.feed.forgotten
        return " ".join(part for part in (self.kind, f"{missed} missed" if missed else "") if part)

    def action_kind(self) -> None:
        """Choose the kind of events to show."""

        def chosen(kind: str | None) -> None:
            if kind is not None:
                self.kind = kind
                self.update()

        options = [("", "all kinds"), *tables.kinds_of(list(self.top.feed.events))]
        self.app.push_screen(Choose("Show", options, self.kind), chosen)


SCREENS: dict[str, type[TableScreen]] = {
    "nodes": NodesScreen,
    "containers": ContainersScreen,
    "applications": ApplicationsScreen,
    "queue": QueueScreen,
    "events": EventsScreen,
}
"""The numbered screens, in the order of their numbers."""
