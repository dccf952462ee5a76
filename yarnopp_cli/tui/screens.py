"""The screens with a table: nodes, applications, containers, what waits, and what happens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import ClassVar

from textual.binding import Binding, BindingType

from ..explain.snapshot import Picture
from ..records.history import HistoryEvent
from ..records.reports import FINAL_STATES, ApplicationReport, ContainerReport, NodeReport, NodeState
from ..views.columns import TopColumn
from ..views.events import subject
from ..views.explain.consequences import drain, kill_applications
from ..views.explain.words import short_id
from ..views.top import lines, tables
from .actions import ACTIONS, EXPLAIN, LOG, STEER, ContainerActions, all_of, counted
from .base import ALWAYS, FILTER, ORDER, Row, TableScreen
from .dialogs import Choose

SORT = Binding("s", "sort", "Sort")
KILL = Binding("ctrl+k,f9", "kill", "Kill", key_display="^k")


def _enter(what: str) -> Binding:
    return Binding("enter", "open", what, key_display="enter")


class NodesScreen(TableScreen, inherit_bindings=False):
    """One row a node; compact, or YARN's page."""

    NAME = "Nodes"
    EMPTY = "no node has registered"
    BINDINGS: ClassVar[list[BindingType]] = [
        _enter("Containers"),
        FILTER,
        SORT,
        EXPLAIN,
        Binding("n", "drain", "Drain/use"),
        Binding("w", "wide", "YARN's page"),
        *ORDER[1:],
        *ALWAYS,
    ]
    ROW = Row(attrgetter("node_id"), lines.of_node)

    def rows(self, picture: Picture) -> Sequence[NodeReport]:
        """All nodes."""
        return picture.nodes

    def columns(self, picture: Picture, rows: Sequence[NodeReport]) -> Sequence[TopColumn[NodeReport]]:
        """Ours, or YARN's."""
        return tables.yarn_node_columns(picture.taken_at_ms) if self.wide else tables.node_columns(rows)

    def scope(self) -> str:
        """Says when the columns are YARN's."""
        return "YARN's page: ← → scroll" if self.wide else ""

    def open(self, row: NodeReport) -> None:
        """Its containers."""
        self.top.open_node(row.node_id)

    def action_drain(self) -> None:
        """Drain the node under the cursor, or use it again."""
        node: NodeReport | None = self.table.current
        if node is None:
            return
        source, name = self.top.source, node.node_id
        if node.state in (NodeState.DECOMMISSIONING, NodeState.DECOMMISSIONED):
            self.top.perform(f"use {name}", partial(source.use_again, name))
        elif node.state is not NodeState.RUNNING:
            self.refuse("drain", f"it is {node.state.value}")
        else:
            call = partial(source.drain, name)
            self.confirm(drain(node), partial(self.top.perform, f"drain {name}", call))


class ApplicationsScreen(TableScreen, inherit_bindings=False):
    """One row an application, the newest first; compact with a bar of their containers, or YARN's columns."""

    NAME = "Applications"
    EMPTY = "no application yet"
    BINDINGS: ClassVar[list[BindingType]] = [
        _enter("Containers"),
        FILTER,
        SORT,
        EXPLAIN,
        KILL,
        Binding("w", "wide", "YARN's columns"),
        *ORDER[1:],
        *ALWAYS,
    ]
    ROW = Row(attrgetter("application_id"), lines.of_application)

    def rows(self, picture: Picture) -> Sequence[ApplicationReport]:
        """All that the RM knows, the newest first."""
        return picture.applications[::-1]

    def columns(
        self, picture: Picture, rows: Sequence[ApplicationReport]
    ) -> Sequence[TopColumn[ApplicationReport]]:
        """Ours, or YARN's."""
        now = picture.taken_at_ms
        if self.wide:
            return tables.yarn_application_columns(now)
        return tables.application_columns(now, rows, self.size.width)

    def scope(self) -> str:
        """What the bar's characters mean, or how to scroll."""
        return "← → scroll" if self.wide else "█ run ▒ paused ░ queued · done ✗ preempted ! failed"

    def open(self, row: ApplicationReport) -> None:
        """Its containers."""
        self.top.open_application(row.application_id)

    def action_kill(self) -> None:
        """Kill the marked ones."""
        living = [app for app in self.table.chosen() if app.state not in FINAL_STATES]
        if living:
            kill = self.top.source.kill_application
            calls = [(short_id(app.application_id), partial(kill, app.application_id)) for app in living]
            perform = partial(
                self.top.perform, f"kill {counted(calls, 'applications')}", partial(all_of, calls)
            )
            self.confirm(kill_applications(living), perform)
        elif self.table.rows:
            self.refuse("kill", "it has ended")


class _ContainerTable(TableScreen, ContainerActions, inherit_bindings=False):
    """Containers as rows: actions are for the marked ones."""

    def targets(self) -> list[ContainerReport]:
        """The marked ones, or the one under the cursor."""
        return self.table.chosen()

    def open(self, row: ContainerReport) -> None:
        """Everything about it."""
        self.top.open_container(row)


class ContainersScreen(_ContainerTable, inherit_bindings=False):
    """One row a container: of one node, of one application, or all."""

    NAME = "Containers"
    EMPTY = "no live containers (a shows ended ones)"
    BINDINGS: ClassVar[list[BindingType]] = [
        _enter("Detail"),
        LOG,
        FILTER,
        EXPLAIN,
        *STEER,
        Binding("a", "ended", "Ended too", show=False),
        *ORDER,
        *ALWAYS,
    ]
    ROW = Row(attrgetter("container_id"), lines.of_container)

    def __init__(self, node_id: str = "", application_id: str = "") -> None:
        super().__init__()
        self.node_id, self.application_id = node_id, application_id

    def rows(self, picture: Picture) -> Sequence[ContainerReport]:
        """Those of the node or the application, if it is one's."""
        return [
            one
            for one in picture.containers
            if self.node_id in ("", one.node_id) and self.application_id in ("", one.application_id)
        ]

    def columns(
        self, picture: Picture, rows: Sequence[ContainerReport]
    ) -> Sequence[TopColumn[ContainerReport]]:
        """With as much sparkline as there is room for."""
        spark = max(6, min(60, (self.size.width - 72) // 2 + 6))
        return tables.container_columns(picture, self.top.history, rows, spark)

    def scope(self) -> str:
        """The node or the application."""
        where = self.node_id or (short_id(self.application_id) if self.application_id else "")
        return where + (" with ended ones" if self.top.finished else "")

    def action_ended(self) -> None:
        """Show those that have ended too, or no longer."""
        self.top.finished = not self.top.finished
        self.top.wake()


class QueueScreen(_ContainerTable, inherit_bindings=False):
    """One row a container that is queued or paused: what waits where, and why."""

    NAME = "Queue"
    EMPTY = "nothing is waiting"
    BINDINGS: ClassVar[list[BindingType]] = [
        _enter("Detail"),
        FILTER,
        EXPLAIN,
        ACTIONS["promote"].binding("promote", shown=True),
        ACTIONS["kill"].binding("kill", shown=True, title="Drop"),
        ACTIONS["resume"].binding("resume", shown=True),
        *(ACTIONS[name].binding(name, shown=False) for name in ("pause", "demote")),
        Binding("l", "log", "Log", show=False),
        *ORDER,
        *ALWAYS,
    ]

    ROW = Row(attrgetter("container_id"), lines.of_waiting)

    def rows(self, picture: Picture) -> Sequence[ContainerReport]:
        """What waits, in the order in which it will run."""
        return tables.queue_rows(picture)

    def columns(
        self, picture: Picture, rows: Sequence[ContainerReport]
    ) -> Sequence[TopColumn[ContainerReport]]:
        """With the reason."""
        return tables.queue_columns(picture, rows, self.size.width)


def _number(event: HistoryEvent) -> str:
    """Its number, which begins anew with another ResourceManager, and its time."""
    return f"{event.seq} {event.t}"


class EventsScreen(TableScreen, inherit_bindings=False):
    """One row an event, the newest first; of one kind, if one is chosen."""

    NAME = "Events"
    EMPTY = "nothing has happened yet"
    STEADY = True
    BINDINGS: ClassVar[list[BindingType]] = [
        _enter("Open"),
        FILTER,
        Binding("f", "kind", "Kind"),
        EXPLAIN,
        *ORDER[:1],
        *ALWAYS,
    ]

    ROW = Row(_number, lines.of_event)

    def __init__(self) -> None:
        super().__init__()
        self.kind = ""
        self._frozen: list[HistoryEvent] | None = None

    def rows(self, picture: Picture) -> Sequence[HistoryEvent]:
        """The newest first; as they were when the picture was frozen, while it is."""
        if not self.top.frozen:
            self._frozen = None
        elif self._frozen is None:
            self._frozen = list(self.top.feed.events)
        events = self._frozen if self._frozen is not None else list(self.top.feed.events)
        return [event for event in reversed(events) if self.kind in ("", event.kind.value)]

    def columns(self, picture: Picture, rows: Sequence[HistoryEvent]) -> Sequence[TopColumn[HistoryEvent]]:
        """When, what, to whom, why."""
        return tables.EVENT_COLUMNS

    def identity(self) -> str:
        """What it happened to."""
        event: HistoryEvent | None = self.table.current
        return subject(event) if event is not None else ""

    def open(self, row: HistoryEvent) -> None:
        """What it happened to."""
        self.top.open_subject(row)

    def scope(self) -> str:
        """The kind, and whether any were missed."""
        missed = self.top.feed.forgotten
        return " ".join(part for part in (self.kind, f"{missed} missed" if missed else "") if part)

    def action_kind(self) -> None:
        """Show one kind only."""

        def chosen(kind: str | None) -> None:
            if kind is not None:
                self.kind = kind
                self.update()

        options = [("", "all kinds"), *tables.kinds_of(list(self.top.feed.events))]
        self.app.push_screen(Choose("Show", options, self.kind), chosen)
