"""Applications: compact with a bar of their containers, or YARN's columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType

from ...records.reports import FINAL_STATES, ApplicationReport
from ...views.columns import TopColumn
from ...views.consequences import kill_applications, short_id
from ...views.picture import Picture
from ...views.top.lines import Told, of_application
from ...views.top.tables import application_columns, yarn_application_columns
from ..actions import STEERING, all_of, counted
from ..base import ALWAYS, FILTER, ORDER, TableScreen
from ..dialogs import Confirm
from ..table import LiveTable


class ApplicationsScreen(TableScreen, inherit_bindings=False):
    """One row an application, the newest first."""

    NAME = "Applications"
    EMPTY = "no application yet"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "containers", "Containers", key_display="enter"),
        FILTER,
        Binding("s", "sort", "Sort"),
        Binding("e", "explain", "Explain"),
        Binding("ctrl+k,f9", "kill", "Kill", key_display="^k"),
        Binding("w", "wide", "YARN's columns"),
        *ORDER[1:],
        *ALWAYS,
    ]

    def __init__(self) -> None:
        super().__init__()
        self.wide = False

    def rows(self, picture: Picture) -> Sequence[ApplicationReport]:
        """All that the RM knows, the newest first."""
        return picture.applications[::-1]

    def columns(
        self, picture: Picture, rows: Sequence[ApplicationReport]
    ) -> Sequence[TopColumn[ApplicationReport]]:
        """Ours, or YARN's."""
        if self.wide:
            return yarn_application_columns(picture.taken_at_ms)
        return application_columns(picture.taken_at_ms, rows, self.size.width)

    def note(self, row: ApplicationReport, picture: Picture) -> Told:
        """As TableScreen says."""
        return of_application(row, picture)

    def identify(self, row: ApplicationReport) -> str:
        """Its id."""
        return row.application_id

    def scope(self) -> str:
        """What the bar's characters mean, or how to scroll."""
        return "← → scroll" if self.wide else "█ run ▒ paused ░ queued · done ✗ preempted ! failed"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Textual's: what steers is not there for who only looks."""
        if action in STEERING and self.top.readonly:
            return False
        return super().check_action(action, parameters)

    def action_wide(self) -> None:
        """The other columns."""
        self.wide = not self.wide
        self.table.scroll_to(x=0, animate=False)
        self.update()

    def action_containers(self) -> None:
        """The containers of the one under the cursor."""
        self.table.action_select()

    def action_explain(self) -> None:
        """Why the application under the cursor waits."""
        if self.table.current_id:
            self.top.explain(self.table.current_id)

    def on_live_table_selected(self, event: LiveTable.Selected) -> None:
        """Textual's: opened."""
        from .containers import ContainersScreen

        self.app.push_screen(ContainersScreen(application_id=event.row.application_id))

    def action_kill(self) -> None:
        """Kill the marked ones."""
        living = [app for app in self.table.chosen() if app.state not in FINAL_STATES]
        if not living:
            if self.table.rows:
                self.notify("it has ended", title="cannot kill", severity="warning", markup=False)
            return

        def answered(yes: bool | None) -> None:
            if yes:
                kill = self.top.source.kill_application
                calls = [(short_id(app.application_id), partial(kill, app.application_id)) for app in living]
                self.top.perform(f"kill {counted(calls, 'applications')}", partial(all_of, calls))

        self.app.push_screen(Confirm(kill_applications(living), danger=True), answered)
