"""A TOML document as entries: dotted keys, quoted names and sections become YARN's names.

tomli reports no lines, so ``outline`` reads the document a second time for the lines of keys and values. It reads only
documents that tomli has accepted, and judges nothing: it leaves out any part that it cannot follow, and a message then
names the file without a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import tomli

from ..errors import ConfigurationError
from .entries import PropertyEntry, Reading
from .suggest import printable_path

_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)\s*$")


def read_toml(text: str, path: str) -> Reading:
    """The entries of a TOML document. Errors are part of the reading, with line and column; no exception is raised."""
    shown = printable_path(path)
    text = text.removeprefix("\ufeff")
    try:
        flat = _flat(tomli.loads(text), "")
    except (
        ValueError,
        RecursionError,
    ) as error:  # tomli's own error is a ValueError, and so is the error of int() for 5000 digits.
        return Reading(_syntax_error(error, text, shown))
    reading = Reading()
    lines = lines_of_keys(text)
    seen: dict[str, str] = {}
    for name, value in flat:
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
        reading.entries.append(PropertyEntry(name, value, origin))
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
    # Keys inside an inline table have no own line here: the line of the table's key is used.
    while name:
        if name in lines:
            return lines[name]
        name = name.rpartition(".")[0]
    return []


def _syntax_error(error: Exception, text: str, shown: str) -> ConfigurationError:
    message = str(error)
    place = _PLACE.search(message)
    hint = "strings need quotes, and a property is written: yarn.some.property = value"
    if isinstance(error, RecursionError):
        return ConfigurationError(
            f"{shown}: not a TOML document", because="it is nested too deeply", hint=hint
        )
    if place is None:  # int() of more digits than Python reads.
        return ConfigurationError(
            f"{shown}: not a TOML document", because="it contains a number that is too large", hint=hint
        )
    if place.group(1):
        where = f"{shown}:{place.group(1)}:{place.group(2)}"
    else:
        lines = text.split("\n")
        where = f"{shown}:{len(lines)}:{len(lines[-1]) + 1}"
    because = printable_path(_PLACE.sub("", message))
    return ConfigurationError(f"{where}: not a TOML document", because=because, hint=hint)


# -- lines of keys and values -------------------------------------------------------------------------

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_KEY = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_PARTS = re.compile(_PART)
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STATEMENT = re.compile(rf"\[(?:[ \t]*\[)?[ \t]*({_KEY})[^\n]*|({_KEY})[ \t]*=[ \t]*")
"""The line of a section's header, or a key up to its value."""
_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*|[\[\]{}]|\n|[^\"'\#\[\]{}\n]+",
    re.DOTALL,
)


class Outlined(NamedTuple):
    """One key or section header: its dotted name, its line (from 1), and the positions in the text where its value
    begins and ends; for a header, where its line ends, and ``ends`` is the first position for its content."""

    name: str
    line: int
    header: bool
    begins: int
    ends: int


def lines_of_keys(text: str) -> dict[str, list[int]]:
    """The lines (from 1) of each key or section, by its dotted name; two spellings of one name share it."""
    lines: dict[str, list[int]] = {}
    for one in outline(text):
        lines.setdefault(one.name, []).append(one.line)
    return lines


def outline(text: str) -> Iterator[Outlined]:
    """Every key and section header, in order."""
    section: tuple[str, ...] = ()
    position, line, counted = 0, 1, 0
    while True:
        blank = _BLANK.match(text, position)
        found = _STATEMENT.match(text, blank.end() if blank else position)
        if found is None:
            return
        line += text.count("\n", counted, found.start())
        counted, begins = found.start(), found.end()
        if found[1]:
            name = section = _parts(found[1])
            ends = position = begins
        else:
            name = section + _parts(found[2])
            ends, position = _end_of_value(text, begins)
        yield Outlined(".".join(name), line, bool(found[1]), begins, ends)


def _parts(key: str) -> tuple[str, ...]:
    parts = []
    for part in _PARTS.findall(key):
        if part[0] == "'":
            part = part[1:-1]
        elif part[0] == '"':
            # tomli resolves the escapes.
            part = next(iter(tomli.loads(f"{part} = 0"))) if "\\" in part else part[1:-1]
        parts.append(part)
    return tuple(parts)


def _end_of_value(text: str, position: int) -> tuple[int, int]:
    """The end of a value and the end of its line: blanks and a comment may be between them."""
    depth = 0
    ends = position
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            return len(text), len(text)
        found = token.group()
        if found in "[{":
            depth += 1
        elif found in "]}":
            depth -= 1
        elif found == "\n" and depth <= 0:
            return ends, position
        position = token.end()
        if not found.startswith("#"):
            ends = token.start() + len(found.rstrip()) if found.strip() else ends
    return ends, position
