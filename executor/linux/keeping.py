"""Keeps helper programs of this package as they were when this process began: an upgrade in place may remove
them, or replace them by versions that expect other arguments."""

from __future__ import annotations

import os
import struct
from importlib.util import MAGIC_NUMBER
from types import ModuleType

from ..regular import NotRegularError, read_regular, write_whole


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
            if read_regular(copy, most=len(self._content)) == self._content:
                return copy
        except (FileNotFoundError, NotRegularError):
            pass
        write_whole(copy, self._content)
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
