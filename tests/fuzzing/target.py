"""What a target is, and the two ways in which one gets its bytes."""

from __future__ import annotations

import contextlib
import enum
import functools
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from executor.light import defaults_of

INT64 = range(-(2**63), 2**63)
"""The integers that a message may have."""


class Target(NamedTuple):
    """A function of bytes, real examples to start from, and words that a byte more or less never makes."""

    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    words: tuple[str, ...] = ()


def text_of(data: bytes) -> str:
    """Any bytes as text, as the system's own words are read."""
    return data.decode("utf-8", "surrogateescape")


def of_file(read: Callable[[str], None], name: str = "file") -> Callable[[bytes], None]:
    """A target for what reads a file, in a directory that the process makes which runs it."""

    @functools.cache
    def directory() -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="yopp-fuzz-")

    def run(data: bytes) -> None:
        path = Path(directory().name, name)
        path.write_bytes(data)
        read(str(path))

    return run


def lines(*words: str) -> tuple[bytes, ...]:
    """Each text as a seed."""
    return tuple(word.encode() for word in words)


def quoted(words: Iterable[str]) -> str:
    """The words as libFuzzer's dictionary."""
    return "".join(
        '"' + "".join(f"\\x{byte:02x}" for byte in word.encode()) + '"\n' for word in dict.fromkeys(words)
    )


# -- documents of JSON -------------------------------------------------------------------------------------------

VALUES = (
    "1" + "0" * 400,
    "9" * 5000,
    "[" * 2000 + "]" * 2000,
    '"\\ud800"',
    "1e999",
    "-0.0",
    "9223372036854775808",
)
"""What goes to a place as ``$0`` to ``$9``: too long for the fuzzer to make, or to keep."""


def of_document(run: Callable[[int, bytes], None], documents: Sequence[Any]) -> Target:
    """A target for what reads JSON: ``run`` gets the index of a document, and that document with some of its places
    changed.

    The first two bytes name the document. Each further line names a place by two bytes, and says what goes there; the
    place is removed if it says nothing. So most of what is made up is JSON, and not far from a real document.
    """
    texts = [json.dumps(one) for one in documents]

    def changed(data: bytes) -> None:
        number = int.from_bytes(data[:2]) % len(texts)
        whole = {"": json.loads(texts[number])}
        for line in data[2:].split(b"\n"):
            if len(line) < 2 or not (places := list(_places(whole))):
                continue
            within, key = places[int.from_bytes(line[:2]) % len(places)]
            text = line[2:].decode("utf-8", "replace")
            if not text:
                del within[key]
                continue
            if text[0] == "$" and text[1:2].isdecimal():
                text = VALUES[int(text[1]) % len(VALUES)]
            within[key] = text
            with contextlib.suppress(ValueError):
                within[key] = Verbatim(text) if len(text) > 1000 else json.loads(text)
        run(number, _text(whole.get("", {})).encode("utf-8", "replace"))

    seeds = [at.to_bytes(2) for at in range(len(texts))]
    return Target(
        changed, (*seeds, seeds[0] + b"\n\0\1null\n\0\2$0\n\0\3", seeds[-1] + b'\n\0\5"a"'), _VALUES
    )


_VALUES = (
    "$0",
    "$1",
    "$2",
    "$3",
    "$4",
    "$5",
    "$6",
    "[]",
    "{}",
    '""',
    "[{}]",
    "[null]",
    "0",
    "1.5",
    "\n\0",
    "\n\1",
)


class Verbatim(str):
    """JSON that is kept as it is."""


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place below a value: the object or array that it is in, and its key."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _text(value: Any) -> str:
    if isinstance(value, Verbatim):
        return value
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_text(one)}" for key, one in value.items()) + "}"
    return f"[{','.join(map(_text, value))}]" if isinstance(value, list) else json.dumps(value)


def example(hint: Any) -> Any:
    """A plain value of a type, with every field."""
    if hint in (str, int, float, bool):
        return {str: "a", int: 3, float: 1.5, bool: True}[hint]
    inner = get_args(hint)
    if get_origin(hint) in (tuple, list, frozenset):
        return [example(inner[0])]
    if get_origin(hint) is dict:
        return {"a": example(inner[1])}
    if inner:
        return example(next(one for one in inner if one is not type(None)))
    if issubclass(hint, enum.Enum):
        return next(iter(hint)).value
    hints = get_type_hints(hint)
    return {name: example(hints[name]) for name in defaults_of(hint)}
