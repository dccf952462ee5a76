"""Events: what happens, the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from ...records.history import HistoryEvent
from ...views.columns import TopColumn
from ...views.picture import Picture
from ...views.top.lines import Told, of_event
from ...views.top.tables import EVENT_COLUMNS, kinds_of
from ..base import ALWAYS, FILTER, ORDER, TableScreen
from ..dialogs import Choose
from ..table import LiveTable


class EventsScreen(TableScreen, inherit_bindings=False):
    """One row an event; of one kind, if one is chosen."""

    NAME = "Events"
    EMPTY = "nothing has happened yet"
    STEADY = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", key_display="enter"),
        FILTER,
        Binding("f", "kind", "Kind"),
        Binding("e", "explain", "Explain"),
        *ORDER[:1],
        *ALWAYS,
    ]

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
        return EVENT_COLUMNS

    def note(self, row: HistoryEvent, picture: Picture) -> Told:
        """As TableScreen says."""
        return of_event(row, picture)

    def identify(self, row: HistoryEvent) -> str:
        """Its number, which begins anew with another ResourceManager, and its time."""
        return f"{row.seq} {row.t}"

    def identity(self) -> str:
        """What it happened to."""
        event: HistoryEvent | None = self.table.current
        return (event.container or event.app or event.node) if event is not None else ""

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

        options = [("", "all kinds"), *kinds_of(list(self.top.feed.events))]
        self.app.push_screen(Choose("Show", options, self.kind), chosen)

    def action_explain(self) -> None:
        """How it is now with what it happened to."""
        if identity := self.identity():
            self.top.explain(identity)

    def action_open(self) -> None:
        """Go to what it happened to."""
        self.table.action_select()

    def on_live_table_selected(self, event: LiveTable.Selected) -> None:
        """Textual's: opened."""
        self.top.open_subject(event.row)
