"""A TOML document as entries: dotted keys, quoted names and sections all flatten to YARN's names."""

from __future__ import annotations

import re
from typing import Any

import tomli

from yarnopp_cli.errors import ConfigurationError
from yarnopp_cli.settings.entries import Entry, Reading
from yarnopp_cli.settings.lines import lines_of_keys
from yarnopp_cli.settings.suggest import printable_path

_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)\s*$")


def read_toml(text: str, path: str) -> Reading:
    """The entries of a TOML document. Its mistakes are in the reading, with line and column; nothing is
    raised."""
    shown = printable_path(path)
    text = text.removeprefix("\ufeff")
    try:
        table = tomli.loads(text)
    except (
        ValueError,
        RecursionError,
    ) as error:  # tomli's own error is a ValueError, as is int()'s of 5000 digits
        return Reading(_syntax_error(error, text, shown))
    reading = Reading()
    lines = lines_of_keys(text)
    seen: dict[str, str] = {}
    for name, value in _flat(table, ""):
        places = _places(lines, name)
        origin = f"{shown}:{places[0]}" if places else shown
        if name in seen:
            again = f"{shown}:{places[1]}" if len(places) > 1 else shown
            reading.problems.append(
                ConfigurationError(
                    f"{again}: {printable_path(name)} is given twice",
                    because=f"two spellings of the same name; the first is at {seen[name]}",
                    hint="remove one of them",
                )
            )
            continue
        seen[name] = origin
        reading.entries.append(Entry(name, value, origin))
    return reading


def _flat(table: dict[str, Any], prefix: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict):
            found.extend(_flat(value, name))
        else:
            found.append((name, value))
    return found


def _places(lines: dict[str, list[int]], name: str) -> list[int]:
    # Keys inside an inline table have no line of their own here: that of the table's key is shown.
    while name:
        if name in lines:
            return lines[name]
        name = name.rpartition(".")[0]
    return []


def _syntax_error(error: Exception, text: str, shown: str) -> ConfigurationError:
    message = str(error)
    place = _PLACE.search(message)
    hint = "strings stand in quotes, and a property is written: yarn.some.property = value"
    if isinstance(error, RecursionError):
        return ConfigurationError(f"{shown}: not a TOML document", because="it is nested too deep", hint=hint)
    if place is None:  # int() of more digits than Python reads
        return ConfigurationError(
            f"{shown}: not a TOML document", because="a number in it is far too large", hint=hint
        )
    if place.group(1):
        where = f"{shown}:{place.group(1)}:{place.group(2)}"
    else:
        lines = text.split("\n")
        where = f"{shown}:{len(lines)}:{len(lines[-1]) + 1}"
    because = printable_path(_PLACE.sub("", message))
    return ConfigurationError(f"{where}: not a TOML document", because=because, hint=hint)
