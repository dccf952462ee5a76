"""The widget that shows a LogFile: follows its end, wraps, finds."""

from __future__ import annotations

import os
from bisect import bisect_right
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from ..clock import now_ms
from ..errors import reason_of
from ..records.times import timestamp
from ..views.text import shorten, width
from .lines import MOVES, TONE_CLASSES, TONE_CSS, tone_style
from .logfile import WINDOW, LogFile

_POLL_SECONDS = 0.25
_STAMP_CELLS = 13


class LogView(Widget, can_focus=True, inherit_bindings=False):
    """Lines of one file. ``follow`` keeps its end visible, until the user scrolls up."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"log-view--match", *TONE_CLASSES}
    DEFAULT_CSS = (
        "LogView { height: 1fr; background: $background; color: $foreground; }"
        "LogView .log-view--match { background: $warning; color: $background; }"
        + TONE_CSS.format(name="LogView")
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        *MOVES,
        Binding("left", "sideways(-16)", "Left", show=False),
        Binding("right", "sideways(16)", "Right", show=False),
    ]

    class Changed(Message):
        """The visible lines, or the way they are shown, have changed."""

    def __init__(self, path: str, *, window: int = WINDOW, can_focus: bool = True) -> None:
        super().__init__()
        self.file = LogFile(path, window=window)
        self.can_focus = can_focus
        self._window = window
        self.follow = True
        self.wrap = False
        self.stamps = False
        self.pattern = ""
        self.match = -1
        self.problem = ""
        self.empty = "nothing yet"
        """The text shown if there are no lines."""
        self.top = 0
        self._x = 0
        self._rows: list[tuple[int, str]] = []
        self._seen: list[tuple[int, int]] = []

    def on_mount(self) -> None:
        """Textual's: begin to follow."""
        self._grow()
        self.set_interval(_POLL_SECONDS, self._grow)

    def show_file(self, path: str) -> None:
        """Show another file from its end."""
        self.file = LogFile(path, window=self._window)
        self._seen = []
        self.top, self._x, self.match, self.follow = 0, 0, -1, True
        self._grow()
        self.layout_rows()

    def _grow(self) -> None:
        before = len(self.file)
        old = not self._seen
        try:
            grown = self.file.grow()
            self.problem = ""
        except OSError as error:
            grown = False
            self.problem = reason_of(error)
        if not grown:
            return
        if len(self.file) < before:
            self._seen, self.top = [], 0
        self._seen.append((before if self._seen else 0, self._written_ms() if old else now_ms()))
        self.layout_rows()
        self.set_timer(0.01, self._grow)  # there may be more

    def _written_ms(self) -> int:
        """When the file was last written: the time shown for lines that existed before."""
        try:
            return os.stat(self.file.path).st_mtime_ns // 1_000_000
        except OSError:
            return 0

    def _stamp(self, line: int) -> str:
        index = bisect_right(self._seen, line, key=lambda one: one[0]) - 1
        if index < 0:
            return " " * _STAMP_CELLS
        return timestamp(self._seen[index][1])[11:23] + " "

    # ---- rows

    @property
    def shown(self) -> tuple[int, int]:
        """The numbers of the first and the last visible line, from 1 on; (0, 0) for none."""
        return (self._rows[0][0] + 1, self._rows[-1][0] + 1) if self._rows else (0, 0)

    def layout_rows(self) -> None:
        """Compute which lines are visible."""
        height, cells = self.size.height, self._cells
        if height <= 0 or cells <= 0:
            return
        if self.follow:
            lines = self.file.lines(len(self.file) - height, height)
            first = max(0, len(self.file) - height)
        else:
            first = self.top = max(0, min(self.top, len(self.file) - 1))
            lines = self.file.lines(first, height)
        rows: list[tuple[int, str]] = []
        for index, line in enumerate(lines):
            pieces = _wrapped(line, cells) if self.wrap else [line]
            rows += [(first + index, piece) for piece in pieces]
        self._rows = rows[-height:] if self.follow else rows[:height]
        if self.follow and self._rows:
            self.top = self._rows[0][0]
        self.refresh()
        self.post_message(self.Changed())

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        cells, base = self.size.width, self.rich_style
        if y >= len(self._rows):
            told = f"cannot read {self.file.path}: {self.problem}" if self.problem else self.empty
            text = told if y == 0 else ""
            return Strip([Segment(text, base + tone_style(self, "dim"))]).adjust_cell_length(cells, base)
        number, text = self._rows[y]
        if not self.can_focus:
            text = shorten(text, cells)  # the view cannot be scrolled
        parts = []
        if self.stamps:
            again = y > 0 and self._rows[y - 1][0] == number
            stamp = " " * _STAMP_CELLS if again else self._stamp(number)
            parts.append(Segment(stamp, base + tone_style(self, "dim")))
        body = Strip(self._marked(text, number))
        if not self.wrap and self._x:
            body = body.crop(self._x)
        return Strip([*parts, *body]).adjust_cell_length(cells, base)

    def _marked(self, text: str, number: int) -> list[Segment]:
        base = self.rich_style
        if not self.pattern:
            return [Segment(text, base)]
        style = base + self.get_component_rich_style("log-view--match", partial=True)
        if number == self.match:
            style += tone_style(self, "strong")
        parts, at = [], 0
        folded, wanted = text.lower(), self.pattern.lower()
        if len(folded) != len(text):  # some characters have longer lower-case forms
            folded, wanted = text, self.pattern
        while (found := folded.find(wanted, at)) >= 0:
            parts += [Segment(text[at:found], base), Segment(text[found : found + len(wanted)], style)]
            at = found + len(wanted)
        return [*parts, Segment(text[at:], base)]

    def on_resize(self) -> None:
        """Textual's: compute the visible lines again."""
        self.layout_rows()

    # ---- moving

    def go_to(self, line: int) -> None:
        """Show this line in the upper third; of a long line, the part with the search text."""
        self.follow = False
        self.match = line
        room = self.size.height // 3
        self.top = line
        while self.top > 0 and (room := room - self._height_of(self.top - 1)) >= 0:
            self.top -= 1
        if not self.wrap:
            text = "".join(self.file.lines(line, 1))
            at = width(text[: max(0, text.lower().find(self.pattern.lower()))])
            cells = self._cells
            if not self._x <= at <= self._x + cells - len(self.pattern):
                self._x = 0 if at + len(self.pattern) <= cells else at - cells // 3
        self.layout_rows()

    @property
    def _cells(self) -> int:
        return self.size.width - (_STAMP_CELLS if self.stamps else 0)

    def _height_of(self, line: int) -> int:
        """How many rows a line takes."""
        if not self.wrap:
            return 1
        return sum(len(_wrapped(text, max(1, self._cells))) for text in self.file.lines(line, 1))

    def action_move(self, step: int) -> None:
        """Scroll by lines."""
        self.follow = False
        self.top = max(0, min(self.top + step, max(0, len(self.file) - self.size.height)))
        if self.wrap:
            self.top = min(self.top, max(0, len(self.file) - 1))
        self.layout_rows()

    def action_page(self, direction: int) -> None:
        """Scroll by the visible lines."""
        seen = len({number for number, _ in self._rows}) or 1
        self.action_move(direction * max(1, seen - 1))

    def action_edge(self, direction: int) -> None:
        """Go to the first line, or to the last one and follow the end."""
        self.follow = direction > 0
        self.top = 0
        self.layout_rows()

    def action_sideways(self, step: int) -> None:
        """Scroll long lines sideways."""
        self._x = 0 if self.wrap else max(0, self._x + step)
        self.refresh()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Textual's: the wheel."""
        event.stop()
        self.action_move(-3)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Textual's: the wheel."""
        event.stop()
        self.action_move(3)


def _wrapped(line: str, cells: int) -> list[str]:
    """``line`` in pieces of at most ``cells`` terminal cells; one empty piece for an empty line."""
    if width(line) <= cells:
        return [line]
    if line.isascii():
        return [line[at : at + cells] for at in range(0, len(line), cells)]
    pieces, start, used = [], 0, 0
    for index, character in enumerate(line):
        wide = width(character)
        if used + wide > cells and index > start:
            pieces.append(line[start:index])
            start, used = index, 0
        used += wide
    return [*pieces, line[start:]]
