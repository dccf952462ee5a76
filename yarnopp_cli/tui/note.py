"""What a table has no room for: the row under the cursor in full, below the table."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from ..views.columns import Cell
from ..views.text import harmless, wrapped
from .tones import TONE_CLASSES, TONE_CSS, tone_style


class Note(Widget):
    """One paragraph of cells over as many lines as its style gives it; what is longer ends in an ellipsis."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {*TONE_CLASSES}
    DEFAULT_CSS = "Note { height: 2; background: $surface; color: $foreground; }" + TONE_CSS.format(
        name="Note"
    )

    def __init__(self) -> None:
        super().__init__()
        self._told: tuple[Cell, ...] = ()

    def show(self, told: tuple[Cell, ...]) -> None:
        """Show this from now on."""
        if told != self._told:
            self._told = told
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        cells, base = self.size.width, self.rich_style
        parts = [Segment(" ", base)]
        told = [Cell(harmless(one.text), one.tone) for one in self._told]
        lines = wrapped("".join(one.text for one in told), max(1, cells - 2), self.size.height)
        begin, end, cut = lines[y] if y < len(lines) else (0, 0, False)
        at = 0
        for one in told:
            text = one.text[max(0, begin - at) : max(0, end - at)]
            at += len(one.text)
            parts.append(Segment(text, base + tone_style(self, one.tone)))
        if cut:
            parts.append(Segment("…", base))
        return Strip(parts).adjust_cell_length(cells, base)
