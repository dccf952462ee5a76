"""Queue: what waits where, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from ...records.reports import ContainerReport
from ...views.columns import TopColumn
from ...views.picture import Picture
from ...views.top.lines import Told, of_waiting
from ...views.top.tables import queue_columns, queue_rows
from ..actions import EXPLAIN, STEER_UNSEEN, ContainerActions
from ..base import ALWAYS, FILTER, ORDER, TableScreen
from ..table import LiveTable


class QueueScreen(TableScreen, ContainerActions, inherit_bindings=False):
    """One row a container that is queued or paused."""

    NAME = "Queue"
    EMPTY = "nothing waits"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "detail", "Detail", key_display="enter"),
        FILTER,
        EXPLAIN,
        Binding("P", "promote", "Promote"),
        Binding("ctrl+k,f9", "kill", "Drop", key_display="^k"),
        Binding("r", "resume", "Resume"),
        *(one for one in STEER_UNSEEN if one.action not in ("promote", "kill", "resume")),
        Binding("l", "log", "Log", show=False),
        *ORDER,
        *ALWAYS,
    ]

    def rows(self, picture: Picture) -> Sequence[ContainerReport]:
        """What waits, in the order in which it goes on."""
        return queue_rows(picture)

    def columns(
        self, picture: Picture, rows: Sequence[ContainerReport]
    ) -> Sequence[TopColumn[ContainerReport]]:
        """With the reason."""
        return queue_columns(picture, rows, self.size.width)

    def note(self, row: ContainerReport, picture: Picture) -> Told:
        """As TableScreen says."""
        return of_waiting(row, picture)

    def identify(self, row: ContainerReport) -> str:
        """Its id."""
        return row.container_id

    def targets(self) -> list[ContainerReport]:
        """The marked ones, or the one under the cursor."""
        return self.table.chosen()

    def action_detail(self) -> None:
        """Everything about the one under the cursor."""
        self.table.action_select()

    def on_live_table_selected(self, event: LiveTable.Selected) -> None:
        """Textual's: opened."""
        from .detail import DetailScreen

        self.app.push_screen(DetailScreen(event.row))
