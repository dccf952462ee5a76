"""The output of the readers of configuration files: an entry for each property, with its place."""

from __future__ import annotations

from executor.hints import Any
from executor.light import Record

from ..errors import ConfigurationError


class PropertyEntry(Record):
    """One property in a file or a ``-D``.

    ``origin`` is "file:line", "file" if the line is not known, or "-D". ``final`` is XML's: no later file may change
    the property.
    """

    name: str
    value: Any
    origin: str
    from_xml: bool = False
    final: bool = False


class Reading:
    """The content of one file: its entries in order, its errors and its warnings."""

    __slots__ = ("entries", "problems", "warnings")

    def __init__(self, *problems: ConfigurationError) -> None:
        self.entries: list[PropertyEntry] = []
        self.problems: list[ConfigurationError] = list(problems)
        self.warnings: list[str] = []
