"""Nodes: compact, or YARN's page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from ...records.reports import NodeReport
from ...views.cells import TopColumn
from ...views.picture import Picture
from ...views.top_nodes import COMPACT, yarn_columns
from ..base import ALWAYS, FILTER, ORDER, TableScreen
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
        return yarn_columns(picture.taken_at_ms) if self.wide else COMPACT

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

    def action_explain(self) -> None:
        """What the RM says of the node under the cursor."""
        if self.table.current_id:
            self.top.explain(self.table.current_id)

    def on_live_table_selected(self, event: LiveTable.Selected) -> None:
        """Textual's: opened."""
        from .containers import ContainersScreen

        self.app.push_screen(ContainersScreen(node_id=event.row.node_id))
