"""Lines of toned cells, and the widgets made of them: the summary and the title above a screen, the note below it."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.strip import Strip
from textual.widget import Widget

from ..explain.snapshot import Picture
from ..views.columns import DIM, Cell
from ..views.text import harmless, shorten, width, wrapped
from ..views.top.lines import first_line, second_line
from ..views.top.sampling import History

MOVES: list[BindingType] = [
    Binding("up,k", "move(-1)", "Up", show=False),
    Binding("down,j", "move(1)", "Down", show=False),
    Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False),
    Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False),
    Binding("home,g", "edge(-1)", "First", show=False),
    Binding("end,G", "edge(1)", "Last", show=False),
]
"""The keys that move in a table and in a log."""
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
