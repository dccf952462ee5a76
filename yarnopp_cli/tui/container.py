"""The screens of one container: its facts, and its output as it is written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from executor.records import MIB

from ..errors import YoppError
from ..explain.snapshot import Picture
from ..records.history import GetEventsRequest, HistoryEvent
from ..records.ids import short_id, suffix
from ..records.reports import ContainerReport
from ..views.columns import Cell
from ..views.containers import NodeFacts, exit_text, fields, is_live, shown_state
from ..views.text import harmless, megabytes, others_named, repeats, shorten, span
from ..views.top.sampling import sparkline
from ..views.top.tables import container_state, measured, quota_cores, story
from .actions import EXPLAIN, STEER, STEER_UNSEEN, ContainerActionScreen
from .base import ALWAYS, TypingScreen, typing
from .lines import TitleLine
from .logview import LogView
from .source import in_thread

STREAMS = ("stdout", "stderr")
TAIL_BYTES = 1 << 18
"""A container's screen reads only this much of the end of its output."""


class TrackedContainer(ContainerActionScreen):
    """A screen about one container with one stream of its output; ``report`` is its latest report."""

    def __init__(self, report: ContainerReport, stream: str = STREAMS[0]) -> None:
        super().__init__()
        self.report, self.stream = report, stream
        self._asking = False

    @property
    def view(self) -> LogView:
        """The widget with the output."""
        return self.query_one(LogView)

    @property
    def path(self) -> str:
        """The file of the stream; "" while there is none."""
        return os.path.join(self.report.log_directory, self.stream) if self.report.log_directory else ""

    def action_stream(self) -> None:
        """Switch between stdout and stderr."""
        self.stream = STREAMS[1 - STREAMS.index(self.stream)]
        self.update()

    def targets(self) -> list[ContainerReport]:
        """The container of this screen."""
        return [self.report]

    def identity(self) -> str:
        """The container's id."""
        return self.report.container_id

    def show(self, picture: Picture) -> None:
        """Take the container's state from the picture; if the picture no longer has it, fetch its last state.
        The log view refreshes itself.
        """
        found = picture.container(self.report.container_id)
        if found is not None:
            self.report = found
        elif is_live(self.report) and not self._asking and self.top.lost_since is None:
            self._asking = True
            self.run_worker(self._ask(), group="tracked")
        if self.view.file.path != self.path:
            self.view.show_file(self.path)

    async def _ask(self) -> None:
        try:
            self.report = await in_thread(partial(self.top.source.container, self.report.container_id))
        except (YoppError, OSError):
            return  # The next picture asks again.
        finally:
            self._asking = False
        self.update()


class DetailScreen(TrackedContainer, inherit_bindings=False):
    """The container's facts and history on the left, its measurements and the end of its output on the right."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l,enter", "log", "Log", key_display="l"),
        Binding("o", "stream", "Out/err"),
        EXPLAIN,
        *STEER,
        Binding("j", "scroll(1)", "Down", show=False),
        Binding("k", "scroll(-1)", "Up", show=False),
        *ALWAYS,
    ]

    def __init__(self, report: ContainerReport) -> None:
        super().__init__(report)
        self._facts: NodeFacts | None = None
        self._facts_of: tuple[int, str, str] | None = None
        self._story: Sequence[HistoryEvent] = ()

    def body(self) -> ComposeResult:
        """Two columns; on a narrow screen one above the other."""
        with Horizontal(id="detail"):
            with VerticalScroll(id="fields"):
                yield Static(id="known")
            with Vertical(id="measures"):
                yield Static(id="use")
                yield Static(id="stream")
                yield LogView(self.path, window=TAIL_BYTES, can_focus=False)

    def on_mount(self) -> None:
        """Textual's: give the fields the focus."""
        self.query_one("#fields").focus()

    def show(self, picture: Picture) -> None:
        """Show the container as it is in this picture."""
        super().show(picture)
        report = self.report
        now = (report.version, report.execution_type.value, shown_state(report))
        if now != self._facts_of:
            self._facts_of = now
            self.run_worker(self._learn(), group="facts", exclusive=True)
        left = [Cell("Container", "strong"), Cell(f"  {short_id(report.container_id)}  ")]
        self.query_one(TitleLine).show([*left, container_state(report)], report.node_id)
        self.query_one("#known", Static).update(self._known(picture))
        self.query_one("#use", Static).update(self._use(picture))
        self.query_one("#stream", Static).update(Text(self.stream, style="dim"))

    async def _learn(self) -> None:
        report, source = self.report, self.top.source
        try:
            self._facts = await in_thread(partial(source.facts, report)) or self._facts
            request = GetEventsRequest(container_id=report.container_id)
            self._story = (await in_thread(partial(source.events, request))).events
        except (YoppError, OSError):
            self._facts_of = None
            return
        self.update()

    def _known(self, picture: Picture) -> Table:
        grid = Table.grid(padding=(0, 1))
        grid.add_column(no_wrap=True, style="dim")
        grid.add_column(overflow="fold", ratio=1)
        for name, value in fields(self.report, picture.taken_at_ms, self._facts):
            if name != "Diagnostics":
                style = "bold" if name in ("Execution-Type", "State") else ""
                grid.add_row(Text(name), Text(harmless(value, "\n"), style=style))
        if self.report.diagnostics.strip():
            said = "\n".join(repeats(self.report.diagnostics.strip().splitlines()))
            grid.add_row(Text("Diagnostics"), Text(harmless(said, "\n")))
        if self._story:
            grid.add_row(Text(), Text())
            grid.add_row(Text("History"), Text(""))
        for when, what, more in story(self._story):
            told = Text(what.text, style="bold")
            told.append(f" {harmless(more)}" if more else "", style="not bold")
            grid.add_row(Text(when), told)
        return grid

    def _use(self, picture: Picture) -> Content:
        """The present CPU and memory use, each with a sparkline of the last minute."""
        report, history = self.report, self.top.history
        name, usage = report.container_id, report.usage
        use, vcores, memory = (
            measured(report, picture, history),
            report.resource.vcores,
            report.resource.memory,
        )
        cells = max(8, self.query_one("#measures").size.width - 2)
        percent = "-" if use.cpu_percent < 0 else f"{use.cpu_percent:.0f}%"
        throttled = f", throttled {span(1000 * usage.throttled_seconds)}" if usage.throttled_seconds else ""
        now, peak = (megabytes(round(used / MIB, 1)) for used in (use.memory_bytes, usage.memory_peak_bytes))
        return Content.assemble(
            ("CPU ", "dim"),
            (f"{percent} of {'a vcore' if vcores <= 1 else f'{vcores} vcores'}", "bold"),
            f", {usage.cpu_seconds:.1f} s used{throttled}\n",
            (sparkline(history.cpu(name), cells, quota_cores(report, picture)), "$text-primary"),
            ("\n\nMemory ", "dim"),
            (f"{now} of {megabytes(memory)}", "bold"),
            f", {peak} at most\n",
            (sparkline(history.memory(name), cells, float(memory * MIB)), "$text-primary"),
            *self._others(),
        )

    def _others(self) -> list[tuple[str, str]]:
        """The container's resources besides memory and vcores, and its GPUs."""
        report = self.report
        if not report.resource.others:
            return []
        devices = f" (GPUs {', '.join(report.devices)})" if report.devices else ""
        return [("\n\nHas ", "dim"), (others_named(report.resource) + devices, "bold")]

    def action_log(self) -> None:
        """Open the whole output."""
        self.app.push_screen(LogScreen(self.report, self.stream))

    def action_scroll(self, step: int) -> None:
        """Scroll the fields."""
        self.query_one("#fields", VerticalScroll).scroll_relative(y=step, animate=False)


class LogScreen(TrackedContainer, TypingScreen, inherit_bindings=False):
    """One stream of one container."""

    TYPE = "text to find; enter finds, n and N repeat, esc clears"
    BINDINGS: ClassVar[list[BindingType]] = [
        typing("Search"),
        Binding("n", "again(True)", "Next match", show=False),
        Binding("N", "again(False)", "Previous match", show=False),
        Binding("f", "switch('follow')", "Follow"),
        Binding("w", "switch('wrap')", "Wrap"),
        Binding("t", "switch('stamps')", "Times"),
        Binding("o", "stream", "Out/err"),
        *STEER_UNSEEN,
        *ALWAYS,
    ]

    _searching = False

    def content(self) -> ComposeResult:
        """The log."""
        yield LogView(self.path)

    def show(self, picture: Picture) -> None:
        """Take the container's state, as TrackedContainer does, and show it in the title."""
        super().show(picture)
        if self.view.empty != (empty := self._nothing()):
            self.view.empty = empty
            self.view.refresh()
        self._title()

    def _nothing(self) -> str:
        if not is_live(self.report):
            return "nothing was written"
        if shown_state(self.report) in ("QUEUED", "ALLOCATED"):
            return "it has not started: its output appears here"
        return "nothing yet"

    def on_log_view_changed(self) -> None:
        """Textual's: the visible lines have changed."""
        self._title()

    def _title(self) -> None:
        view, report = self.view, self.report
        state, live = container_state(report), is_live(report)
        name = f"{suffix(report.application_id)} {suffix(report.container_id)}"
        left = [Cell("Log", "strong"), Cell(f"  {name} {self.stream}  "), state]
        left += [] if live else [Cell(f"  ended: {exit_text(report)}", state.tone)]
        first, last = view.shown
        right = (
            f"first {view.file.skipped >> 20} MB left out" if view.file.skipped else "",
            "/" + shorten(view.pattern, 12) if view.pattern else "",
            "WRAP" if view.wrap else "",
            "TIMES" if view.stamps else "",
            f"{first}-{last} of {len(view.file)}" if len(view.file) else "no lines",
            ("FOLLOW" if view.follow else "STOPPED") if live else "",
        )
        self.query_one(TitleLine).show(left, "  ".join(one for one in right if one))

    def action_switch(self, name: str) -> None:
        """Switch one of the view's modes: follow the end, wrap long lines, show when lines were read."""
        setattr(self.view, name, not getattr(self.view, name))
        if name == "wrap":
            self.view.action_sideways(-(1 << 30))
        self.view.layout_rows()

    # ---- search

    def _look_for(self, text: str) -> None:
        self.view.pattern = text
        self.leave_line()
        self.view.refresh()
        self._title()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Textual's: search for the text from the end backwards."""
        self._look_for(event.value)
        if event.value:
            self._find(len(self.view.file), forward=False)

    def action_again(self, forward: bool) -> None:
        """Go to the next match, or to the previous one."""
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
            self.notify(str(error), severity="error")
            return
        finally:
            self._searching = False
        if found < 0:
            self.notify(view.pattern, title="not found", severity="warning", timeout=3)
        else:
            view.go_to(found)

    def action_back(self) -> None:
        """End the search if there is one, else leave the screen."""
        if self.line.display or self.view.pattern:
            self.line.value = ""
            self._look_for("")
        else:
            super().action_back()
