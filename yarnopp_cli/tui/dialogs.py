"""Dialogs over a screen: a question, a text, a choice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import ClassVar, TypeVar

from rich.console import Group
from rich.padding import Padding
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ..views.text import harmless

Answer = TypeVar("Answer")
_LOW = 12


def beside(blocks: Sequence[Sequence[str]]) -> list[str]:
    """Blocks of lines side by side."""
    widths = [max((len(line) for line in block), default=0) for block in blocks]
    rows = zip_longest(*blocks, fillvalue="")
    return [
        "  ".join(f"{line:<{cells}}" for line, cells in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


class Dialog(ModalScreen[Answer]):
    """A dialog, which clears notifications when it opens."""

    def on_mount(self) -> None:
        """Textual's: remove notifications, which could hide a part of the dialog."""
        self.app.clear_notifications()

    def on_resize(self) -> None:
        """Textual's: on a low screen the text uses all lines."""
        self.set_class(self.size.height < _LOW, "-low")


class Confirm(Dialog[bool]):
    """A question and the effect of yes. Only ``y`` means yes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,Y", "dismiss(True)", "Yes"),
        Binding("n,N,escape,enter,q", "dismiss(False)", "No"),
    ]

    def __init__(self, text: str, *, danger: bool) -> None:
        super().__init__(classes="-danger" if danger else "")
        question, _, effect = text.partition("\n")
        self.question, self.effect = harmless(question), harmless(effect, "\n")

    def compose(self) -> ComposeResult:
        """Textual's."""
        with Vertical(classes="dialog"):
            yield Static(Text(self.question, style="bold"), id="question")
            yield Static(Text(self.effect), id="effect")
            yield Static(Text("y yes   n no (enter, esc)"), id="keys")


class TextDialog(Dialog[None]):
    """A few sentences under a title."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,e,question_mark", "dismiss", "Close"),
        Binding("j", "scroll(1)", show=False),
        Binding("k", "scroll(-1)", show=False),
    ]

    def __init__(self, title: str, lines: Sequence[str], *, wide: bool = False) -> None:
        super().__init__()
        self.heading, self.lines, self.wide = title, list(lines), wide

    def compose(self) -> ComposeResult:
        """Textual's."""
        with Vertical(classes="dialog -wide" if self.wide else "dialog"):
            yield Static(Text(harmless(self.heading), style="bold"), id="question")
            with VerticalScroll(id="text"):
                yield Static(Group(*(self._hanging(harmless(line, "\n")) for line in self.lines)))
            yield Static(Text("esc  close"), id="keys")

    @staticmethod
    def _hanging(line: str) -> Padding:
        """A paragraph whose wrapped lines are indented like its first."""
        text = line.lstrip(" ")
        return Padding(Text(text), (0, 0, 0, len(line) - len(text)))

    def action_scroll(self, step: int) -> None:
        """Scroll the text, if it is longer than its area."""
        self.query_one("#text").scroll_relative(y=step, animate=False)


class Choose(Dialog[str | None]):
    """A choice of one of several words; None for none of them. ``options`` are (key, text)."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", "Close"),
        Binding("j", "down", show=False),
        Binding("k", "up", show=False),
    ]

    def __init__(self, title: str, options: Sequence[tuple[str, str]], current: str = "") -> None:
        super().__init__()
        self.heading, self.options, self.current = title, list(options), current

    def compose(self) -> ComposeResult:
        """Textual's."""
        with Vertical(classes="dialog"):
            yield Static(Text(self.heading, style="bold"), id="question")
            yield OptionList(*(Option(Text(text), id=f"k-{key}") for key, text in self.options), id="options")

    def on_mount(self) -> None:
        """Textual's: begin at the present choice."""
        super().on_mount()
        keys = [key for key, _ in self.options]
        if self.current in keys:
            self.query_one(OptionList).highlighted = keys.index(self.current)

    def action_down(self) -> None:
        """Go to the next option."""
        self.query_one(OptionList).action_cursor_down()

    def action_up(self) -> None:
        """Go to the previous option."""
        self.query_one(OptionList).action_cursor_up()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Textual's: an option was chosen."""
        self.dismiss(str(event.option.id).removeprefix("k-"))
