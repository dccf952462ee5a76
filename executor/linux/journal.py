"""An append-only file of lines: a reader after a crash finds each line either whole or not at all.

The first line names the format and its version. Each further line is a checksum (CRC-32), a space and a text.
A line that was cut short has no newline; one that was altered fails its checksum. Nothing is synced to the
disk: the file has to survive a crash of this process, not of the host.

Decisions: one-journal.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from binascii import crc32

from ..regular import read_regular
from .procfs import wait_until

VERSION = 1
HEADER = b'{"format":"yopp-journal","version":%d}\n' % VERSION
LOCK_SECONDS = 1.0
"""How long to try for the lock: a process that a killed node was starting holds it until its exec."""
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class NewerVersionError(Exception):
    """The file was written by a newer version, which is the argument."""


def line(text: bytes) -> bytes:
    """Encode a text without newlines as a line."""
    return b"%08x %s\n" % (crc32(text), text)


class Contents:
    """What was read: ``lines`` in order, None for each line that is damaged; ``raw`` has all lines as they are.

    ``size`` is the number of bytes of the whole lines, ``torn`` what follows the last of them. ``strange`` is
    set if the first line is not a journal's: then there are no lines, and ``raw`` is everything.
    """

    def __init__(self, text: bytes) -> None:
        """Parse the file's text. Raises NewerVersionError."""
        *whole, self.torn = text.split(b"\n")
        self.size = len(text) - len(self.torn)
        self.strange = not whole or not _is_header(whole[0])
        self.raw = [*whole, self.torn] if self.strange else whole[1:]
        self.lines = [] if self.strange else [_text(one) for one in self.raw]


def _is_header(first: bytes) -> bool:
    try:
        found = json.loads(first)
        version = found["version"] if found["format"] == "yopp-journal" else 0
    except (ValueError, TypeError, KeyError, RecursionError):
        return False
    if type(version) is not int or version < 1:
        return False
    if version > VERSION:
        raise NewerVersionError(version)
    return True


def _text(one: bytes) -> bytes | None:
    text = one[9:]
    return text if one[:9] == b"%08x " % crc32(text) else None


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Journal:
    """One such file, to which only this process appends. All methods may raise OSError."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1
        self._lock = -1
        self._size = 0
        self._torn = False

    @property
    def is_open(self) -> bool:
        """Whether lines can be appended."""
        return self._fd >= 0 and not self._torn

    def lock(self) -> bool:
        """Keep other processes from appending to it, until ``close``; False if another process has the lock."""
        if self._lock < 0:
            directory = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                if not wait_until(lambda: _locked(directory), LOCK_SECONDS):
                    os.close(directory)
                    return False
            except OSError:
                os.close(directory)
                raise
            self._lock = directory
        return True

    def read(self) -> Contents | None:
        """The contents; None if there is no file. Raises NewerVersionError or NotRegularError."""
        try:
            return Contents(read_regular(self.path))
        except FileNotFoundError:
            return None

    def go_on(self, size: int) -> None:
        """Append to the existing file, of which the first ``size`` bytes are good."""
        self._use(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC), size)
        os.ftruncate(self._fd, size)

    def begin_anew(self, lines: bytes) -> None:
        """Replace the file by one with these lines. The old file stays in place until the new one is complete."""
        new = self.path + ".new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        fd = os.open(new, _CREATE | os.O_APPEND, 0o600)
        text = HEADER + lines
        try:
            _write(fd, text)
            os.rename(new, self.path)
        except OSError:
            os.close(fd)
            with contextlib.suppress(OSError):
                os.unlink(new)
            raise
        self._use(fd, len(text))

    def add(self, lines: bytes) -> bool:
        """Append lines, all of them or none. Returns False if somebody has removed the file."""
        if not os.fstat(self._fd).st_nlink:
            return False
        try:
            _write(self._fd, lines)
        except OSError:
            self._torn = True
            os.ftruncate(self._fd, self._size)
            self._torn = False
            raise
        self._size += len(lines)
        return True

    def remove(self) -> None:
        """Remove the file."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self._use(-1, 0)

    def close(self) -> None:
        """Append no more, and release the lock."""
        self._use(-1, 0)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _use(self, fd: int, size: int) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._size, self._torn = fd, size, False


def _write(fd: int, text: bytes) -> None:
    while text:
        text = text[os.write(fd, text) :]
