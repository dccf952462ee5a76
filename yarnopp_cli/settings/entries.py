"""What the readers of configuration files hand to the loader: one entry a property, with its place.

Plain classes, here and in the loader: every command imports them, and a dataclass costs a millisecond to
make."""

from __future__ import annotations

from typing import Any

from yarnopp_cli.errors import ConfigurationError


class Entry:
    """One property as a file or a ``-D`` gives it.

    ``origin`` is "file:line", "file" where the line is not known, or "-D". ``final`` is XML's: no later file
    may change it."""

    __slots__ = ("final", "from_xml", "name", "origin", "value")

    def __init__(
        self, name: str, value: Any, origin: str, *, from_xml: bool = False, final: bool = False
    ) -> None:
        self.name = name
        self.value = value
        self.origin = origin
        self.from_xml = from_xml
        self.final = final


class Reading:
    """All that was found in one file: its entries in order, and what is wrong or odd about it."""

    __slots__ = ("entries", "problems", "warnings")

    def __init__(self, *problems: ConfigurationError) -> None:
        self.entries: list[Entry] = []
        self.problems: list[ConfigurationError] = list(problems)
        self.warnings: list[str] = []
