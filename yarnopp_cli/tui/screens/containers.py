"""Containers: of one node, of one application, or all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from ...records.reports import ContainerReport
from ...views.columns import TopColumn
from ...views.consequences import short_id
from ...views.picture import Picture
from ...views.top.lines import Told, of_container
from ...views.top.tables import container_columns
from ..actions import EXPLAIN, LOG, STEER, ContainerActions
from ..base import ALWAYS, FILTER, ORDER, TableScreen
from ..table import LiveTable


class ContainersScreen(TableScreen, ContainerActions, inherit_bindings=False):
    """One row a container."""

    NAME = "Containers"
    EMPTY = "no container lives (a shows ended ones)"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "detail", "Detail", key_display="enter"),
        LOG,
        FILTER,
        EXPLAIN,
        *STEER,
        Binding("a", "ended", "Ended too", show=False),
        *ORDER,
        *ALWAYS,
    ]

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
        return container_columns(picture, self.top.history, rows, spark)

    def note(self, row: ContainerReport, picture: Picture) -> Told:
        """As TableScreen says."""
        return of_container(row, picture)

    def identify(self, row: ContainerReport) -> str:
        """Its id."""
        return row.container_id

    def scope(self) -> str:
        """The node or the application."""
        where = self.node_id or (short_id(self.application_id) if self.application_id else "")
        return where + (" with ended ones" if self.top.finished else "")

    def targets(self) -> list[ContainerReport]:
        """The marked ones, or the one under the cursor."""
        return self.table.chosen()

    def action_ended(self) -> None:
        """Show those that have ended too, or no longer."""
        self.top.finished = not self.top.finished
        self.top.wake()

    def action_detail(self) -> None:
        """Everything about the one under the cursor."""
        self.table.action_select()

    def on_live_table_selected(self, event: LiveTable.Selected) -> None:
        """Textual's: opened."""
        from .detail import DetailScreen

        self.app.push_screen(DetailScreen(event.row))
