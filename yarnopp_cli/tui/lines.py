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
    """The style of a tone over any background."""
    if not tone:
        return Style()
    return widget.get_component_rich_style(f"tone--{tone}", partial=True)


class CellLines(Widget):
    """Lines of toned cells: ``_cells`` returns those of line ``y`` for a width in terminal cells."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {*TONE_CLASSES}
    DEFAULT_CSS = TONE_CSS.format(name="CellLines")

    def _cells(self, y: int, cells: int) -> list[Cell]:
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        width, base = self.size.width, self.rich_style
        segments = [Segment(one.text, base + tone_style(self, one.tone)) for one in self._cells(y, width)]
        return Strip(segments).adjust_cell_length(width, base)


class Summary(CellLines):
    """One line about the cluster and one about the machine. ``right`` shows whether they are live."""

    DEFAULT_CSS = """
    Summary { height: 2; background: $surface; color: $foreground; }
    Summary.-short { height: 1; }
    """

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
        """Set the contents; ``stale`` greys everything but ``right``."""
        self._where, self._picture, self._history, self._right = where, picture, history, right
        self._stale = stale
        self.refresh()

    def _cells(self, y: int, cells: int) -> list[Cell]:
        if y == 0:
            line = first_line(self._where, self._picture, self._right, cells)
        else:
            line = second_line(self._picture, self._history, cells)
        if self._stale:
            line = [one if one in self._right else Cell(one.text, DIM) for one in line]
        return line


class TitleLine(CellLines):
    """The title of a screen: its name on the left, the number of rows and their order on the right, a rule
    between.
    """

    DEFAULT_CSS = "TitleLine { height: 1; background: $background; color: $foreground; }"

    def __init__(self) -> None:
        super().__init__()
        self.left: list[Cell] = []
        self.right = ""

    def show(self, left: list[Cell], right: str) -> None:
        """Show this instead."""
        if (left, right) != (self.left, self.right):
            self.left, self.right = left, right
            self.refresh()

    def _cells(self, y: int, cells: int) -> list[Cell]:
        wanted = sum(width(one.text) for one in self.left) + 6
        right = shorten(self.right, max(0, cells // 2, cells - wanted)) if self.right else ""
        free = max(0, cells - width(right) - 5)
        left = []
        for one in self.left:
            if free > 0:
                left.append(Cell(shorten(one.text, free), one.tone))
                free -= width(left[-1].text)
        taken = sum(width(one.text) for one in left) + 2 + width(right)
        rule = "─" * max(0, cells - taken - 3)
        return [Cell("─ ", DIM), *left, Cell(f" {rule} ", DIM), Cell(right + " ", DIM)]


class Note(CellLines):
    """One paragraph of cells over as many lines as its style allows; a longer one ends in an ellipsis."""

    DEFAULT_CSS = "Note { height: 2; background: $surface; color: $foreground; }"

    def __init__(self) -> None:
        super().__init__()
        self._told: tuple[Cell, ...] = ()

    def show(self, told: tuple[Cell, ...]) -> None:
        """Show this instead."""
        if told != self._told:
            self._told = told
            self.refresh()

    def _cells(self, y: int, cells: int) -> list[Cell]:
        told = [Cell(harmless(one.text), one.tone) for one in self._told]
        lines = wrapped("".join(one.text for one in told), max(1, cells - 2), self.size.height)
        begin, end, cut = lines[y] if y < len(lines) else (0, 0, False)
        parts, at = [Cell(" ")], 0
        for one in told:
            parts.append(Cell(one.text[max(0, begin - at) : max(0, end - at)], one.tone))
            at += len(one.text)
        return [*parts, Cell("…")] if cut else parts
