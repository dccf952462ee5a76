"""The two lines above every screen, and the line that says what it shows."""

from __future__ import annotations

from typing import ClassVar

from textual.strip import Strip
from textual.widget import Widget

from ..views.columns import DIM, Cell
from ..views.picture import Picture
from ..views.text import shorten, width
from ..views.top.lines import first_line, second_line
from ..views.top.sampling import History
from .tones import TONE_CLASSES, TONE_CSS, strip_of


class Summary(Widget):
    """The cluster in one line and the machine in another. ``right`` says whether all this is live."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {*TONE_CLASSES}
    DEFAULT_CSS = (
        "Summary { height: 2; background: $surface; color: $foreground; }"
        "Summary.-short { height: 1; }" + TONE_CSS.format(name="Summary")
    )

    def __init__(self) -> None:
        super().__init__()
        self._where = ""
        self._picture: Picture | None = None
        self._history = History()
        self._right: list[Cell] = []
        self._stale = False

    def show(
        self, where: str, picture: Picture | None, history: History, right: list[Cell], *, stale: bool = False
    ) -> None:
        """Show this from now on; ``stale`` greys everything but ``right``."""
        self._where, self._picture, self._history, self._right = where, picture, history, right
        self._stale = stale
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one of the two lines."""
        cells = self.size.width
        if y == 0:
            line = first_line(self._where, self._picture, self._right, cells)
        else:
            line = second_line(self._picture, self._history, cells)
        if self._stale:
            line = [one if one in self._right else Cell(one.text, DIM) for one in line]
        return strip_of(self, line, self.rich_style, cells)


class TitleLine(Widget):
    """What a screen shows: its name at the left, how much of it and in which order at the right."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {*TONE_CLASSES}
    DEFAULT_CSS = "TitleLine { height: 1; background: $background; color: $foreground; }" + TONE_CSS.format(
        name="TitleLine"
    )

    def __init__(self) -> None:
        super().__init__()
        self.left: list[Cell] = []
        self.right = ""

    def show(self, left: list[Cell], right: str) -> None:
        """Show this from now on."""
        if (left, right) != (self.left, self.right):
            self.left, self.right = left, right
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw it, the rest of the line a rule."""
        cells = self.size.width
        base = self.rich_style
        wanted = sum(width(one.text) for one in self.left) + 6
        right = shorten(self.right, max(0, cells // 2, cells - wanted)) if self.right else ""
        room = max(0, cells - width(right) - 3)
        left = [Cell("─ ", "dim")]
        for one in self.left:
            free = room - sum(width(cell.text) for cell in left)
            if free <= 0:
                break
            left.append(Cell(shorten(one.text, free), one.tone))
        rule = cells - sum(width(one.text) for one in left) - width(right) - 3
        line = [*left, Cell(" " + "─" * max(0, rule) + " ", "dim"), Cell(right + " ", "dim")]
        return strip_of(self, line, base, cells)
