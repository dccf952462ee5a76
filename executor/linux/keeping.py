"""Keeps helper programs of this package as they were when this process began: an upgrade in place may remove
them, or replace them by versions that expect other arguments."""

from __future__ import annotations

import fcntl
import os
import struct
import weakref
from importlib.util import MAGIC_NUMBER
from types import ModuleType

from ..regular import NotRegularError, read_regular, write_whole

ABOVE_SHELL = 20
"""Descriptors from here on are not those that the shim uses."""
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


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


class OpenProgram:
    """A program for Python of this package, for a process that begins it at some later time, such as that of a prepared
    container: the program then comes from ``descriptor``, which that process has inherited. ``path`` is its name there.
    Raises OSError if it cannot be read.
    """

    def __init__(self, module: ModuleType) -> None:
        with open(compiled(module, str(module.__file__)), "rb") as file:
            self._content = file.read()
        self._descriptor = -1

    @property
    def descriptor(self) -> int:
        """A descriptor of the content. Raises OSError if there is none free."""
        if self._descriptor < 0:
            made = os.memfd_create("yopp-program", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
            try:
                with open(made, "wb", closefd=False) as file:
                    file.write(self._content)
                # A container that finds it open in its shim cannot change what others run.
                fcntl.fcntl(made, fcntl.F_ADD_SEALS, _SEALS)
                self._descriptor = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, ABOVE_SHELL)
            finally:
                os.close(made)
            weakref.finalize(self, os.close, self._descriptor)
        return self._descriptor

    @property
    def path(self) -> str:
        """The program's path in a process that has inherited the descriptor, which the program has to close."""
        return f"/proc/self/fd/{self.descriptor}"


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
