"""Log: a container's output as it comes, and how it ended."""

from __future__ import annotations

import os
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from ...records.reports import ContainerReport
from ...views.columns import Cell
from ...views.consequences import suffix
from ...views.containers import exit_text, is_live, shown_state
from ...views.picture import Picture
from ...views.text import shorten
from ...views.top.tables import container_state
from ..actions import STEER_UNSEEN
from ..base import ALWAYS
from ..logview import LogView
from ..summary import TitleLine
from ..threads import in_thread
from ..tracked import TrackedContainer

STREAMS = ("stdout", "stderr")


class LogScreen(TrackedContainer, inherit_bindings=False):
    """One stream of one container."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", key_display="/", priority=True),
        Binding("n", "again(True)", "Next match", show=False),
        Binding("N", "again(False)", "Previous match", show=False),
        Binding("f", "follow", "Follow"),
        Binding("w", "wrap", "Wrap"),
        Binding("t", "stamps", "Times"),
        Binding("o", "stream", "Out/err"),
        *STEER_UNSEEN,
        *ALWAYS,
    ]

    def __init__(self, report: ContainerReport, stream: str = STREAMS[0]) -> None:
        super().__init__(report)
        self.stream = stream
        self._searching = False

    def _path(self) -> str:
        return os.path.join(self.report.log_directory, self.stream) if self.report.log_directory else ""

    def body(self) -> ComposeResult:
        """The log, and the search's line when it is wanted."""
        yield LogView(self._path())
        yield Input(
            placeholder="text to find; enter finds, n and N go on, esc clears", id="filter", compact=True
        )

    def on_mount(self) -> None:
        """Textual's: the log has the keys."""
        self.query_one("#filter").display = False
        self.set_focus(self.view)

    @property
    def view(self) -> LogView:
        """The log."""
        return self.query_one(LogView)

    def show(self, picture: Picture) -> None:
        """How the container is now; its log comes by itself."""
        self.track(picture)
        if self.view.file.path != self._path():
            self.view.show_file(self._path())
        if self.view.empty != (empty := self._nothing()):
            self.view.empty = empty
            self.view.refresh()
        self._title()

    def _nothing(self) -> str:
        if not is_live(self.report):
            return "nothing was written"
        if shown_state(self.report) in ("QUEUED", "ALLOCATED"):
            return "it has not started: its output will come here"
        return "nothing yet"

    def on_log_view_changed(self) -> None:
        """Textual's: other lines are seen."""
        self._title()

    def _title(self) -> None:
        view, report = self.view, self.report
        state = container_state(report)
        name = f"{suffix(report.application_id)} {suffix(report.container_id)}"
        left = [Cell("Log", "strong"), Cell(f"  {name} {self.stream}  "), state]
        if not is_live(report):
            left.append(Cell(f"  ended: {exit_text(report)}", state.tone))
        right = []
        if view.file.skipped:
            right.append(f"first {view.file.skipped >> 20} MB left out")
        if view.pattern:
            right.append("/" + shorten(view.pattern, 12))
        right += [word for word, on in (("WRAP", view.wrap), ("TIMES", view.stamps)) if on]
        total = len(view.file)
        first, last = view.shown
        right.append(f"{first}-{last} of {total}" if total else "no lines")
        if is_live(report):
            right.append("FOLLOW" if view.follow else "STOPPED")
        self.query_one(TitleLine).show(left, "  ".join(right))

    def action_follow(self) -> None:
        """Follow the end, or no longer."""
        self.view.follow = not self.view.follow
        self.view.layout_rows()

    def action_wrap(self) -> None:
        """Wrap long lines, or no longer."""
        self.view.wrap = not self.view.wrap
        self.view.action_sideways(-(1 << 30))
        self.view.layout_rows()

    def action_stamps(self) -> None:
        """When each line was read."""
        self.view.stamps = not self.view.stamps
        self.view.layout_rows()

    def action_stream(self) -> None:
        """The other stream."""
        self.stream = STREAMS[1 - STREAMS.index(self.stream)]
        self.view.show_file(self._path())
        self._title()

    # ---- search

    def action_search(self) -> None:
        """Ask for a text."""
        line = self.query_one("#filter", Input)
        line.display = True
        self.set_focus(line)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Textual's: find it, from the end backwards."""
        line = self.query_one("#filter", Input)
        line.display = False
        self.set_focus(self.view)
        self.view.pattern = event.value
        self.view.refresh()
        self._title()
        if event.value:
            self._find(len(self.view.file), forward=False)

    def action_again(self, forward: bool) -> None:
        """The next match, or the one before."""
        if self.view.pattern:
            at = self.view.match if self.view.match >= 0 else self.view.top
            self._find(at, forward=forward)

    def _find(self, line: int, *, forward: bool) -> None:
        if not self._searching:
            self._searching = True
            self.run_worker(self._search(line, forward), group="search")

    async def _search(self, line: int, forward: bool) -> None:
        view = self.view
        try:
            found = await in_thread(partial(view.file.find, view.pattern, line, forward=forward))
        except OSError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        finally:
            self._searching = False
        if found < 0:
            self.notify(view.pattern, title="not found", severity="warning", timeout=3, markup=False)
        else:
            view.go_to(found)

    def action_back(self) -> None:
        """Out of the search first, then out of the screen."""
        line = self.query_one("#filter", Input)
        if line.display or self.view.pattern:
            line.value = self.view.pattern = ""
            line.display = False
            self.set_focus(self.view)
            self.view.refresh()
            self._title()
        else:
            super().action_back()
