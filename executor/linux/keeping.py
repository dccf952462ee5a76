"""Keeps helper programs of this package as they were when this process began: an upgrade in place may remove
them, or replace them by versions that expect other arguments."""

from __future__ import annotations

import os
import stat
import struct
from importlib.util import MAGIC_NUMBER
from types import ModuleType


class KeptProgram:
    """A file of this package whose content is kept in memory. Raises OSError if it cannot be read."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "rb") as file:
            self._identity = _identity(os.fstat(file.fileno()))
            self._content = file.read()

    def at(self, directory: str) -> str:
        """The path of the program: its own, or that of a copy in ``directory`` if the original has changed.
        Raises OSError if the copy cannot be written."""
        try:
            if _identity(os.stat(self.path)) == self._identity:
                return self.path
        except OSError:
            pass  # it was removed
        copy = os.path.join(directory, os.path.basename(self.path))
        try:
            facts = os.lstat(copy)
            if stat.S_ISREG(facts.st_mode) and facts.st_size == len(self._content):
                with open(copy, "rb") as file:
                    if file.read() == self._content:
                        return copy
        except FileNotFoundError:
            pass
        new = f"{copy}.new"
        with open(
            os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb"
        ) as file:
            file.write(self._content)
        os.replace(new, copy)
        return copy


def _identity(facts: os.stat_result) -> tuple[int, int, int]:
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def compiled(module: ModuleType, source: str) -> str:
    """The compiled program if Python has one of exactly this source (PEP 552), which saves 10 ms at each
    start; else ``source``, the program's path. Raises OSError if the source is gone."""
    cached = getattr(module, "__cached__", None) if source == module.__file__ else None
    if not cached:
        return source
    try:
        with open(cached, "rb") as file:
            header = file.read(16)
    except OSError:
        return source
    facts = os.stat(source)
    of_source = struct.pack("<III", 0, int(facts.st_mtime) & 0xFFFFFFFF, facts.st_size & 0xFFFFFFFF)
    return cached if header == MAGIC_NUMBER + of_source else source
