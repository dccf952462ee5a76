"""The files of containers' output, and how they are read: whole, from the end, or as they grow. Prints
nothing.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from executor.regular import ANY_SIZE, NotRegularError, open_regular

from ..records.ids import ApplicationId, ContainerId

STREAMS = ("stdout", "stderr")
BLOCK = 1 << 16
LONGEST_LINE = 1 << 20
"""A longer line is split into pieces, so that no container's output exhausts the reader's memory."""
_APPLICATION = re.compile(r"application_\d+_\d{4,}", re.ASCII)
_CONTAINER = re.compile(r"container_(?:e\d+_)?\d+_\d{4,}_\d{2,}_\d{6,}", re.ASCII)


def open_plain(path: str) -> int | None:
    """A descriptor for reading a regular file; None if it is missing, or if a container put anything else in
    its place: a link could lead anywhere, a FIFO would block its reader for ever.
    """
    try:
        return open_regular(path, most=ANY_SIZE)
    except (FileNotFoundError, NotRegularError):
        return None


def plain_status(path: str) -> os.stat_result | None:
    """The status of a regular file; None if it is missing or not regular."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


@dataclass(slots=True)
class Stream:
    """One stream of one container's output: a file that may not exist yet. ``position`` is the byte up to
    which it has been read.
    """

    container_id: str
    name: str
    path: str
    position: int = 0
    rest: bytearray = field(default_factory=bytearray)

    def read(self) -> Iterator[bytes]:
        """The output since the last call, in blocks; none if the file does not exist yet."""
        descriptor = open_plain(self.path)
        if descriptor is None:
            return
        try:
            if os.fstat(descriptor).st_size < self.position:
                self.position = 0  # truncated by its writer: its present content is new
            while block := os.pread(descriptor, BLOCK, self.position):
                self.position += len(block)
                yield block
        finally:
            os.close(descriptor)

    def lines(self, *, ended: bool) -> Iterator[bytes]:
        """Read as ``read`` does, in lines without their newline. A last line without a newline is returned when the
        stream has ended.
        """
        for block in self.read():
            self.rest += block
            if b"\n" in block:
                *whole, last = bytes(self.rest).split(b"\n")
                self.rest[:] = last
                yield from whole
            elif len(self.rest) > LONGEST_LINE:
                yield bytes(self.rest)
                self.rest.clear()
        if ended and self.rest:
            yield bytes(self.rest)
            self.rest.clear()

    def skip_to_tail(self, count: int) -> None:
        """Go to the beginning of the last ``count`` lines, reading from the end."""
        descriptor = open_plain(self.path)
        if descriptor is None:
            return
        try:
            size = os.fstat(descriptor).st_size
            self.position = size if count == 0 else _tail_position(descriptor, size, count)
        finally:
            os.close(descriptor)

    def size(self) -> int:
        """The size in bytes; 0 if the file does not exist."""
        found = plain_status(self.path)
        return found.st_size if found is not None else 0

    def changed_ms(self) -> int:
        """When the file was last written, in epoch milliseconds; 0 if it does not exist."""
        found = plain_status(self.path)
        return found.st_mtime_ns // 1_000_000 if found is not None else 0


def _tail_position(descriptor: int, size: int, count: int) -> int:
    """The position at which the last ``count`` lines of a file begin."""
    at = size
    wanted = count
    if size and os.pread(descriptor, 1, size - 1) == b"\n":
        wanted += 1  # the newline that ends the last line does not begin another
    while at > 0:
        begin = max(0, at - BLOCK)
        block = os.pread(descriptor, at - begin, begin)
        found = block.count(b"\n")
        if found >= wanted:
            index = len(block)
            for _ in range(wanted):
                index = block.rfind(b"\n", 0, index)
            return begin + index + 1
        wanted -= found
        at = begin
    return 0


def streams_of(container_id: str, directory: str, names: tuple[str, ...]) -> list[Stream]:
    """The streams of one container whose output is in ``directory``."""
    return [Stream(container_id, name, os.path.join(directory, name)) for name in names]


def applications_on_disk(log_dir: str) -> list[str]:
    """The applications that have output under ``log_dir``, oldest first."""
    found = [name for name in _names(log_dir) if _APPLICATION.fullmatch(name)]
    return sorted(found, key=lambda name: ApplicationId.parse(name))


def containers_on_disk(application_directory: str) -> list[str]:
    """The containers that have output under one application's directory, in order of their numbers."""
    found = [name for name in _names(application_directory) if _CONTAINER.fullmatch(name)]
    return sorted(found, key=lambda name: ContainerId.parse(name))


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
