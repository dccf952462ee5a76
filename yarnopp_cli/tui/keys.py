"""The keys of all screens, from their declarations: for the manual."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from textual.binding import Binding

from .app import YoppTop
from .container import DetailScreen, LogScreen
from .logview import LogView
from .table import LiveTable

_NAMES = {
    "slash": "/",
    "colon": ":",
    "question_mark": "?",
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "pageup": "page up",
    "pagedown": "page down",
}


def sections() -> list[tuple[str, list[tuple[str, str]]]]:
    """(what, [(keys, what they do)]) for all screens, what is everywhere first."""
    screens = [(YoppTop.PLACES[name], screen) for name, screen in YoppTop.MODES.items()]
    screens += [("Detail", DetailScreen), ("Log", LogScreen)]
    found = [("Everywhere", _keys(YoppTop.BINDINGS)), ("In tables", _keys(LiveTable.BINDINGS))]
    found += [(title, _keys(screen.BINDINGS)) for title, screen in screens]
    return [*found, ("In a log", _keys(LogView.BINDINGS))]


def _keys(bindings: Iterable[Any]) -> list[tuple[str, str]]:
    return [
        (", ".join(_shown(key) for key in one.key.split(",")), one.description)
        for one in bindings
        if isinstance(one, Binding) and one.description
    ]


def _shown(key: str) -> str:
    if key in _NAMES:
        return _NAMES[key]
    if key.startswith("ctrl+"):
        return f"Ctrl-{key[5:].upper()}"
    return key.upper() if key[:1] == "f" and key[1:].isdigit() else key
