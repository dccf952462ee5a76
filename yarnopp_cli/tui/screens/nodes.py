"""Nodes: compact, or YARN's page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType

from ...records.reports import NodeReport, NodeState
from ...views.columns import TopColumn
from ...views.consequences import drain
from ...views.picture import Picture
from ...views.top.lines import Told, of_node
from ...views.top.tables import node_columns, yarn_node_columns
from ..actions import STEERING
from ..base import ALWAYS, FILTER, ORDER, TableScreen
from ..dialogs import Confirm
from ..table import LiveTable


class NodesScreen(TableScreen, inherit_bindings=False):
    """One row a node."""

    NAME = "Nodes"
    EMPTY = "no node has registered"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "containers", "Containers", key_display="enter"),
        FILTER,
        Binding("s", "sort", "Sort"),
        Binding("e", "explain", "Explain"),
        Binding("n", "drain", "Drain/use"),
        Binding("w", "wide", "YARN's page"),
        *ORDER[1:],
        *ALWAYS,
    ]

    def __init__(self) -> None:
        super().__init__()
        self.wide = False

    def rows(self, picture: Picture) -> Sequence[NodeReport]:
        """All nodes."""
        return picture.nodes

    def columns(self, picture: Picture, rows: Sequence[NodeReport]) -> Sequence[TopColumn[NodeReport]]:
        """Ours, or YARN's."""
        return yarn_node_columns(picture.taken_at_ms) if self.wide else node_columns(rows)

    def note(self, row: NodeReport, picture: Picture) -> Told:
        """As TableScreen says."""
        return of_node(row, picture)

    def identify(self, row: NodeReport) -> str:
        """Its id."""
        return row.node_id

    def scope(self) -> str:
        """Says when the columns are YARN's."""
        return "YARN's page: ← → scroll" if self.wide else ""

    def action_wide(self) -> None:
        """The other columns."""
        self.wide = not self.wide
        self.table.scroll_to(x=0, animate=False)
        self.update()

    def action_containers(self) -> None:
        """The containers of the node under the cursor."""
        self.table.action_select()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Textual's: what steers is not there for who only looks."""
        if action in STEERING and self.top.readonly:
            return False
        return super().check_action(action, parameters)

    def action_drain(self) -> None:
        """Drain the node under the cursor, or use it again."""
        node: NodeReport | None = self.table.current
        if node is None:
            return
        if node.state in (NodeState.DECOMMISSIONING, NodeState.DECOMMISSIONED):
            self.top.perform(f"use {node.node_id}", partial(self.top.source.use_again, node.node_id))
            return
        if node.state is not NodeState.RUNNING:
            self.notify(f"it is {node.state.value}", title="cannot drain", severity="warning", markup=False)
            return
        node_id = node.node_id

        def answered(yes: bool | None) -> None:
            if yes:
                self.top.perform(f"drain {node_id}", partial(self.top.source.drain, node_id))

        self.app.push_screen(Confirm(drain(node), danger=True), answered)

    def action_explain(self) -> None:
        """What the RM says of the node under the cursor."""
        if self.table.current_id:
            self.top.explain(self.table.current_id)

    def on_live_table_selected(self, event: LiveTable.Selected) -> None:
        """Textual's: opened."""
        from .containers import ContainersScreen

        self.app.push_screen(ContainersScreen(node_id=event.row.node_id))
