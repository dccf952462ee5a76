"""Reads simple configuration files: tables, and keys with a text, a whole number or a truth value.

Importing a reader of all TOML takes as long as a short command may take in total. A file is therefore read here first;
a file with anything else in it, and anything that may be an error, is left to ``toml.py``. A test checks that both
read the same. Opens no file.

Decisions: fast-start.
"""

from __future__ import annotations

from executor.hints import Any

from .entries import PropertyEntry, Reading
from .suggest import printable_path

BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
"""The characters of a part of a key that needs no quotes."""
_WORDS = {"true": True, "false": False}


def read_plain(text: str, path: str) -> Reading | None:
    """The entries of a simple document; None if it is not simple."""
    try:
        found = _entries(text.removeprefix("\ufeff"), printable_path(path))
    except ValueError:
        return None
    reading = Reading()
    reading.entries += found
    return reading


MOST_PARTS = 100
"""A key with more parts is not simple: the check of a part depends on all parts before it."""


def _entries(text: str, shown: str) -> list[PropertyEntry]:
    """The entries in the order of their tables' trees. Raises ValueError for a document that is not simple."""
    headers: set[str] = set()
    above: set[str] = set()
    dotted: set[str] = set()
    tree: dict[str, Any] = {}
    section = ""
    for number, line in enumerate(text.split("\n"), 1):
        content = line.strip(" \t")
        if not content.replace("\t", " ").isprintable():
            raise ValueError(content)
        if content.startswith("["):
            section = content[1 : content.index("]")]
            _only_comment(content[len(section) + 2 :])
            upwards = _prefixes(_parts(section))
            if section in headers or not dotted.isdisjoint([section, *upwards]):
                raise ValueError(section)
            headers.add(section)
            above.update(upwards)
            _table(tree, section.split("."))
        elif content and not content.startswith("#"):
            key, equals, rest = content.partition("=")
            if not equals:
                raise ValueError(content)
            parts = _parts(key.rstrip(" \t"))
            outer = section.split(".") if section else []
            between = [".".join([*outer, *parts[:end]]) for end in range(1, len(parts))]
            if not headers.isdisjoint(between) or not above.isdisjoint(between):
                raise ValueError(key)
            dotted.update(between)
            table = _table(tree, [*outer, *parts[:-1]])
            if parts[-1] in table:
                raise ValueError(key)
            name = ".".join([*outer, *parts])
            table[parts[-1]] = PropertyEntry(name, _value(rest.lstrip(" \t")), f"{shown}:{number}")
    return list(_flat(tree))


def _parts(name: str) -> list[str]:
    parts = name.split(".")
    if len(parts) > MOST_PARTS or not all(part and BARE.issuperset(part) for part in parts):
        raise ValueError(name)
    return parts


def _prefixes(parts: list[str]) -> list[str]:
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def _table(tree: dict[str, Any], parts: list[str]) -> dict[str, Any]:
    for part in parts:
        tree = tree.setdefault(part, {})
        if type(tree) is not dict:
            raise ValueError(part)
    return tree


def _flat(tree: dict[str, Any]) -> list[PropertyEntry]:
    found: list[PropertyEntry] = []
    for value in tree.values():
        found += _flat(value) if type(value) is dict else [value]
    return found


def _value(text: str) -> Any:
    quote = text[:1]
    if quote in ('"', "'"):
        end = text.index(quote, 1)
        _only_comment(text[end + 1 :])
        if quote == '"' and "\\" in text[:end]:
            raise ValueError(text)
        return text[1:end]
    word = text.partition("#")[0].rstrip(" \t")
    if word in _WORDS:
        return _WORDS[word]
    digits = word.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19) or (
        digits[0] == "0" and digits != "0"
    ):
        raise ValueError(word)
    return int(word)


def _only_comment(text: str) -> None:
    if text.strip(" \t")[:1] not in ("", "#"):
        raise ValueError(text)
