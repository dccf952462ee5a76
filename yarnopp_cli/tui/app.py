"""``yopp top``: the app, its screens, and its keys (YARN's ``TopCLI``)."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.screen import Screen
from textual.system_commands import SystemCommandsProvider
from textual.theme import BUILTIN_THEMES

from .base import TopApp, TopScreen
from .commands import TopCommands
from .container import DetailScreen, LogScreen
from .dialogs import TextDialog, beside
from .driver import TerminalDriver
from .logview import LogView
from .screens import SCREENS
from .source import Source
from .table import LiveTable

THEMES = frozenset(BUILTIN_THEMES)
"""The values of ``--theme``."""
INTERVALS = (0.5, 1.0, 2.0, 5.0, 10.0)
_NOT_OURS = ("Keys", "Maximize", "Minimize")
_KEYS = {
    "slash": "/",
    "colon": ":",
    "question_mark": "?",
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "pageup": "page up",
    "pagedown": "page down",
}
"""Textual's key names, as the manual writes them."""


class YoppTop(TopApp):
    """The screens, and the keys that all of them share."""

    TITLE = "yopp top"
    CSS_PATH = "yopp.tcss"
    MODES: ClassVar[dict[str, Any]] = {**SCREENS}
    DEFAULT_MODE = "nodes"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {
        TopCommands,
        SystemCommandsProvider,
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(number), f"place('{name}')", screen.NAME, show=False)
            for number, (name, screen) in enumerate(SCREENS.items(), 1)
        ),
        Binding("F", "freeze", "Freeze the display", show=False),
        Binding("plus,equals_sign", "interval(1)", "Slower", show=False, key_display="+"),
        Binding("minus", "interval(-1)", "Faster", show=False, key_display="-"),
        Binding("ctrl+r", "reconnect", "Reconnect", show=False),
        Binding("colon", "command_palette", "Commands", show=False, key_display=":"),
        Binding("question_mark", "keys", "Help", key_display="?"),
        Binding("q", "quit", "Quit", show=False),
    ]

    def __init__(
        self, source: Source, *, readonly: bool = False, interval: float = 1.0, theme: str = ""
    ) -> None:
        super().__init__(source, readonly=readonly, interval=interval)
        self.driver_class = TerminalDriver
        self._own_loop: asyncio.AbstractEventLoop | None = None
        if theme:
            self.theme = theme

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Textual's: its own commands for the palette, without commands that do not apply here."""
        return (one for one in super().get_system_commands(screen) if one.title not in _NOT_OURS)

    def on_load(self) -> None:
        """Textual's: run tasks as Python 3.11 does. From 3.12 on, Textual has tasks begin at once: the input line of
        the first screen then looks for a screen before there is one.
        """
        asyncio.get_running_loop().set_task_factory(None)

    def on_mount(self) -> None:
        """Textual's: begin. A signal that ends the program restores the terminal."""
        loop = self._own_loop = asyncio.get_running_loop()
        with contextlib.suppress(RuntimeError, ValueError):  # not in the main thread: a test
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, partial(self.exit, return_code=128 + number))
        self.begin()
        self.run_worker(self.feed.run(), group="events")

    def terminal_gone(self) -> None:
        """End the app: the terminal is gone. Callable from any thread."""
        if self._own_loop is not None:
            with contextlib.suppress(RuntimeError):  # The loop has ended already.
                self._own_loop.call_soon_threadsafe(partial(self.exit, return_code=128 + signal.SIGHUP))

    def action_place(self, name: str) -> None:
        """Go to one of the numbered screens."""
        if any(not isinstance(screen, TopScreen) for screen in self.screen_stack[1:]):
            return  # a dialog must be answered first
        if self.current_mode != name:
            self.switch_mode(name)
        while len(self.screen_stack) > 1:
            self.pop_screen()

    def action_freeze(self) -> None:
        """Freeze the picture, or unfreeze it."""
        self.frozen = not self.frozen
        if not self.frozen:
            self.shown = self.picture
        self.update()

    def action_interval(self, step: int) -> None:
        """Choose the next longer or shorter interval."""
        nearest = min(range(len(INTERVALS)), key=lambda index: abs(INTERVALS[index] - self.interval))
        self.interval = INTERVALS[max(0, min(len(INTERVALS) - 1, nearest + step))]
        self._pause = self.interval
        self.wake()

    def action_reconnect(self) -> None:
        """Drop all connections and make new ones."""
        self.source.reconnect()
        self.begin()

    def action_keys(self) -> None:
        """Show the keys of this screen and what they do."""
        keys: dict[tuple[int, str], list[str]] = {}
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if active.enabled and binding.description and not binding.system:
                place = 0 if isinstance(active.node, TopScreen) else 1 if active.node is self else 2
                keys.setdefault((place, binding.description), []).append(self.get_key_display(binding))
        blocks = []
        for place, title in enumerate(("Here", "Everywhere", "Moving")):
            shown = [
                (", ".join(dict.fromkeys(named)), description)
                for (where, description), named in keys.items()
                if where == place
            ]
            cells = max((len(named) for named, _ in shown), default=0)
            blocks.append([title, *(f"{named:<{cells}}  {description}" for named, description in shown)])
        self.push_screen(TextDialog("Keys", beside(blocks), wide=True))


def sections() -> list[tuple[str, list[tuple[str, str]]]]:
    """(title, [(keys, description)]) for all screens, from their declarations, for the manual; the keys valid
    everywhere come first.
    """
    declared = [("Everywhere", YoppTop.BINDINGS), ("In tables", LiveTable.BINDINGS)]
    declared += [(screen.NAME, screen.BINDINGS) for screen in SCREENS.values()]
    declared += [
        ("Detail", DetailScreen.BINDINGS),
        ("Log", LogScreen.BINDINGS),
        ("In a log", LogView.BINDINGS),
    ]
    return [
        (
            title,
            [
                (", ".join(_shown(key) for key in one.key.split(",")), one.description)
                for one in bindings
                if isinstance(one, Binding) and one.description
            ],
        )
        for title, bindings in declared
    ]


def _shown(key: str) -> str:
    if key.startswith("ctrl+"):
        return f"Ctrl-{key[5:].upper()}"
    return _KEYS.get(key) or (key.upper() if key[:1] == "f" and key[1:].isdigit() else key)
