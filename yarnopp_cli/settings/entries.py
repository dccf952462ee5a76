"""What the readers of configuration files hand to the loader: an entry for each property, with its place."""

from __future__ import annotations

from executor.hints import Any
from executor.light import Record

from ..errors import ConfigurationError


class Entry(Record):
    """One property as a file or a ``-D`` gives it.

    ``origin`` is "file:line", "file" where the line is not known, or "-D". ``final`` is XML's: no later file
    may change it.
    """

    name: str
    value: Any
    origin: str
    from_xml: bool = False
    final: bool = False


class Reading:
    """All that was found in one file: its entries in order, and what is wrong or odd about it."""

    __slots__ = ("entries", "problems", "warnings")

    def __init__(self, *problems: ConfigurationError) -> None:
        self.entries: list[Entry] = []
        self.problems: list[ConfigurationError] = list(problems)
        self.warnings: list[str] = []
