"""Sets or removes a property in the text of a TOML site; the rest of the text, including comments, is unchanged. Pure.

A changed value is replaced in place; a removed property loses its lines. A new property goes to the section that its
name begins with, else to a new section. The new text is accepted only if it reads back as the same properties with
this one changed.

tomlkit (0.15) was tried and rejected: importing it costs 60 ms, it puts a new key below the comment that precedes the
next section, it cannot add to a table in separate sections, as in the shipped site, and it reports no line numbers,
which messages need.

Decisions: strict-properties.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .plain_toml import BARE
from .toml import Outlined, outline, read_toml
from .values import Value


def with_values(text: str, values: Mapping[str, Value | None]) -> str | None:
    """``text`` with these properties set, or removed if the value is None; None if its structure is too complex for an
    automatic change."""
    for name, value in values.items():
        changed = _without(text, name) if value is None else _with_value(text, name, value)
        if changed is None:
            return None
        text = changed
    return text


def _without(text: str, name: str) -> str | None:
    before = _properties(text)
    if before is None:
        return None
    wanted = {key: value for key, value in before.items() if key != name}
    for one in outline(text):
        if one.name == name and not one.header:
            end = text.find("\n", one.ends) + 1 or len(text)
            text = text[: text.rfind("\n", 0, one.begins) + 1] + text[end:]
            break
    found = _properties(text)
    return text if found == wanted and _same_types(found, wanted) else None


def _with_value(text: str, name: str, value: Value) -> str | None:
    before = _properties(text)
    if before is None:
        return None
    wanted = {**before, name: value}
    if before == wanted and _same_types(before, wanted):
        return text
    # TOML writes these values in the same way as JSON.
    for candidate in _candidates(text, name, json.dumps(value, ensure_ascii=False), known=name in before):
        found = _properties(candidate)
        if found == wanted and _same_types(found, wanted):
            return candidate
    return None


def _same_types(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether both have the same types: ``1`` is neither ``true`` nor ``1.0``."""
    return all(type(one[name]) is type(other[name]) for name in one)


def _properties(text: str) -> dict[str, Any] | None:
    reading = read_toml(text, "")
    return None if reading.problems else {entry.name: entry.value for entry in reading.entries}


def _candidates(text: str, name: str, value: str, *, known: bool) -> Iterator[str]:
    parts = list(outline(text))
    if known:
        for one in parts:
            if one.name == name and not one.header:
                yield text[: one.begins] + value + text[one.ends :]
        return
    headers = [one for one in parts if one.header and name.startswith(f"{one.name}.")]
    for header in sorted(headers, key=lambda one: -len(one.name)):
        at = _end_of_section(parts, header)
        yield _inserted(text, at, f"{_key(name[len(header.name) + 1 :])} = {value}")
    words = name.split(".")
    cut = 2 if len(words) > 2 else 1  # A section of two parts, as in the shipped site.
    section, rest = ".".join(words[:cut]), ".".join(words[cut:])
    body = text if not text or text.endswith("\n") else f"{text}\n"
    gap = "\n" if body.strip() else ""
    yield f"{body}{gap}[{_key(section)}]\n{_key(rest)} = {value}\n"
    first = next((one for one in parts if one.header), None)
    top = [one for one in parts if first is None or one.line < first.line]
    line = f"{json.dumps(name)} = {value}"
    yield _inserted(text, top[-1].ends, line) if top else f"{line}\n{text}"


def _key(name: str) -> str:
    """A dotted name as a key: parts that need no quotes have none."""
    return ".".join(part if part and BARE.issuperset(part) else json.dumps(part) for part in name.split("."))


def _end_of_section(parts: list[Outlined], header: Outlined) -> int:
    """The line on which the last value of a section ends; its header's line if it has none."""
    at = header.ends
    for one in parts[parts.index(header) + 1 :]:
        if one.header:
            break
        at = one.ends
    return at


def _inserted(text: str, at: int, line: str) -> str:
    """``text`` with ``line`` as a new line after the line of position ``at``."""
    end = text.find("\n", at)
    if end < 0:
        return f"{text}\n{line}\n"
    return f"{text[: end + 1]}{line}\n{text[end + 1 :]}"
