"""What the options with fixed values take, for TAB: from the declarations of the commands that read them.

Nothing here asks a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from ..frame.options import Words
from ..table import COMMANDS

_LISTS = ("--state", "--sort", "--columns", "--kind", "--type")
"""These take several words, with commas between."""

_COLUMNS: dict[str, tuple[str, str]] = {
    "app list": ("applications", "columns"),
    "attempt list": ("applications", "ATTEMPT_COLUMNS"),
    "container list": ("containers", "columns"),
    "ps": ("containers", "columns"),
    "node list": ("nodes", "COLUMNS"),
    "queue list": ("queues", "COLUMNS"),
    "events": ("events", "COLUMNS"),
    "stats": ("stats", "COLUMNS"),
}
_STATES = {
    "app list": ("looking.application", "_STATES"),
    "attempt list": ("looking.attempt", "_STATES"),
    "container list": ("looking.container", "STATES"),
    "ps": ("looking.container", "STATES"),
}
_TYPES = {
    "app list": ("YARN", "MAPREDUCE"),
    "container list": ("GUARANTEED", "OPPORTUNISTIC"),
    "ps": ("GUARANTEED", "OPPORTUNISTIC"),
}


def completed(
    path: list[str], option: str, last: str, command: Callable[[list[str]], Any]
) -> list[str] | None:
    """What ``last``, the value of ``option`` of the command at ``path``, may become; None where ``option`` takes no
    fixed values. ``command`` gives the parser's command at a path."""
    found = _values(path, option, command)
    if found is None:
        return None
    before, comma, word = last.rpartition(",") if option in _LISTS else ("", "", last)
    minus = "-" if option == "--sort" and word.startswith("-") else ""
    word = word.removeprefix(minus)
    fold = str.upper if option in ("--state", "--type", "--for") else str
    return [f"{before}{comma}{minus}{one}" for one in found if one.startswith(fold(word))]


def _values(path: list[str], option: str, command: Callable[[list[str]], Any]) -> list[str] | None:
    name = " ".join(path[:2] if path and path[0] in COMMANDS and COMMANDS[path[0]].group else path[:1])
    match option:
        case "--state" if name in _STATES:
            return list(_of("cli", *_STATES[name]))
        case "--sort" | "--columns" if name in _COLUMNS:
            columns = _of("views", *_COLUMNS[name])
            return [one.key for one in (columns(0) if callable(columns) else columns)]
        case "--type" if name in _TYPES:
            return list(_TYPES[name])
        case "--kind" if name == "events":
            from ...records.history import EventKind

            return [one.value for one in EventKind]
    return _choices(path, option, command)


def _choices(path: list[str], option: str, command: Callable[[list[str]], Any]) -> list[str] | None:
    """The values of an option that the parser itself knows; of one before any command, those of most."""
    for one in command(path or ["ps"]).params:
        if option in (*one.opts, *one.secondary_opts):
            if isinstance(completes := getattr(one, "completes", None), Words):
                return list(completes.words())
            if known := getattr(one.type, "choices", None):
                return _texts(known)
    return None


def _texts(choices: Iterable[Any]) -> list[str]:
    return [str(getattr(one, "value", one)) for one in choices]


def _of(package: str, module: str, name: str) -> Any:
    return getattr(import_module(f"yarnopp_cli.{package}.{module}"), name)


def without_values(before: list[str]) -> list[str]:
    """The words before the last one without options that every command takes and their values."""
    valued = _of("cli", "frame.argv", "_COMMON_VALUES")
    found: list[str] = []
    skip = False
    for word in before:
        if not skip and not word.startswith("-"):
            found.append(word)
        skip = not skip and word in valued
    return found
