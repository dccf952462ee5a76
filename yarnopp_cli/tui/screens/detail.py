"""Detail: everything about one container, its execution type first."""

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
from textual.widgets import Static

from ...errors import YoppError
from ...records.history import GetEventsRequest, HistoryEvent
from ...records.reports import ContainerReport
from ...views.columns import Cell
from ...views.consequences import short_id
from ...views.containers import NodeFacts, fields, shown_state
from ...views.picture import Picture
from ...views.text import harmless, megabytes, repeats, shorten, span
from ...views.top.spark import sparkline
from ...views.top.tables import container_state, measured, quota_cores, story
from ..actions import EXPLAIN, STEER
from ..base import ALWAYS
from ..logfile import LogFile
from ..summary import TitleLine
from ..threads import in_thread
from ..tracked import TrackedContainer
from .log import STREAMS, LogScreen

_MIB = 1 << 20


class DetailScreen(TrackedContainer, inherit_bindings=False):
    """Left what is known, right what is measured and the end of the output."""

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
        self.stream = STREAMS[0]
        self._facts: NodeFacts | None = None
        self._facts_of: tuple[int, str, str] | None = None
        self._story: Sequence[HistoryEvent] = ()
        self._tail = LogFile("")

    def body(self) -> ComposeResult:
        """Two columns; one above the other where the screen is narrow."""
        with Horizontal(id="detail"):
            with VerticalScroll(id="fields"):
                yield Static(id="known")
            with Vertical(id="measures"):
                yield Static(id="cpu")
                yield Static(id="cpu-line", classes="line")
                yield Static(id="rss")
                yield Static(id="rss-line", classes="line")
                yield Static(id="tail")

    def on_mount(self) -> None:
        """Textual's: the fields have the keys."""
        self.query_one("#fields").focus()
        self.set_interval(0.5, self._read_tail)

    def show(self, picture: Picture) -> None:
        """Show the container as it is in this picture."""
        self.track(picture)
        report = self.report
        now = (report.version, report.execution_type.value, shown_state(report))
        if now != self._facts_of:
            self._facts_of = now
            self.run_worker(self._learn(), group="facts", exclusive=True)
        state = container_state(report)
        left = [Cell("Container", "strong"), Cell(f"  {short_id(report.container_id)}  "), state]
        self.query_one(TitleLine).show(left, report.node_id)
        self.query_one("#known", Static).update(self._known(picture))
        self._measures(picture)
        self._read_tail()

    async def _learn(self) -> None:
        try:
            report, source = self.report, self.top.source
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
            if name == "Diagnostics":
                continue
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

    def _measures(self, picture: Picture) -> None:
        report, history = self.report, self.top.history
        cells = max(8, self.query_one("#measures").size.width - 2)
        use = measured(report, picture, history)
        quota = quota_cores(report, picture)
        percent = "-" if use.cpu_percent < 0 else f"{use.cpu_percent:.0f}%"
        cpu = Text()
        cpu.append("CPU ", style="dim")
        vcores = report.resource.vcores
        cpu.append(f"{percent} of {'a vcore' if vcores <= 1 else f'{vcores} vcores'}", style="bold")
        cpu.append(f", {report.usage.cpu_seconds:.1f} s used")
        if report.usage.throttled_seconds:
            cpu.append(f", throttled {span(1000 * report.usage.throttled_seconds)}")
        self.query_one("#cpu", Static).update(cpu)
        line = Text(sparkline(history.cpu(report.container_id), cells, quota), no_wrap=True)
        self.query_one("#cpu-line", Static).update(line)
        limit = report.resource.memory * _MIB
        rss = Text()
        rss.append("Memory ", style="dim")
        rss.append(
            f"{megabytes(round(use.memory_bytes / _MIB, 1))} of {megabytes(report.resource.memory)}",
            style="bold",
        )
        rss.append(f", {megabytes(round(report.usage.memory_peak_bytes / _MIB, 1))} at most")
        self.query_one("#rss", Static).update(rss)
        line = Text(sparkline(history.memory(report.container_id), cells, float(limit)), no_wrap=True)
        self.query_one("#rss-line", Static).update(line)

    def _read_tail(self) -> None:
        directory = self.report.log_directory
        path = os.path.join(directory, self.stream) if directory else ""
        if path != self._tail.path:
            self._tail = LogFile(path, window=1 << 18)
        widget = self.query_one("#tail", Static)
        lines = max(1, widget.size.height - 1)
        cells = max(4, widget.size.width)
        text = Text(no_wrap=True)
        text.append(f"{self.stream}\n", style="dim")
        try:
            while self._tail.grow():
                pass
            for line in self._tail.lines(len(self._tail) - lines, lines):
                text.append(shorten(line, cells) + "\n")
        except OSError as error:
            text.append(f"cannot be read: {error.strerror}\n")
        widget.update(text)

    def action_stream(self) -> None:
        """The other stream."""
        self.stream = STREAMS[1 - STREAMS.index(self.stream)]
        self._read_tail()

    def action_log(self) -> None:
        """All of the output."""
        self.app.push_screen(LogScreen(self.report, self.stream))

    def action_scroll(self, step: int) -> None:
        """Scroll the fields."""
        self.query_one("#fields", VerticalScroll).scroll_relative(y=step, animate=False)
