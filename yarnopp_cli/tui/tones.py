"""Tones to styles: each a component class, so that themes and NO_COLOR decide what it looks like."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from ..views.columns import Cell

TONES = ("good", "warn", "bad", "dim", "strong", "accent")
TONE_CLASSES = frozenset(f"tone--{tone}" for tone in TONES)

TONE_CSS = """
{name} .tone--good {{ color: $text-success; }}
{name} .tone--warn {{ color: $text-warning; }}
{name} .tone--bad {{ color: $text-error; text-style: bold; }}
{name} .tone--dim {{ text-style: dim; }}
{name} .tone--strong {{ text-style: bold; }}
{name} .tone--accent {{ color: $text-primary; }}
"""


def tone_style(widget: Widget, tone: str) -> Style:
    """The style of a tone over whatever background there is."""
    if not tone:
        return Style()
    return widget.get_component_rich_style(f"tone--{tone}", partial=True)


def strip_of(widget: Widget, cells: list[Cell], base: Style, width: int) -> Strip:
    """One line of cells in their tones, filled to ``width``."""
    segments = [Segment(cell.text, base + tone_style(widget, cell.tone)) for cell in cells]
    return Strip(segments).adjust_cell_length(width, base)
