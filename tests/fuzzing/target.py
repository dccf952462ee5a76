"""What a target is, and the two ways in which one gets its bytes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

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
    """A target for what reads a file."""
    directory = tempfile.TemporaryDirectory(prefix="yopp-fuzz-")
    path = Path(directory.name, name)

    def run(data: bytes, kept: object = directory) -> None:
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
