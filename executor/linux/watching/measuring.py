"""Measures what a container has on disk: its output, and its private directory. Follows no link, and changes
nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable

from ...trees import entries_below

BLOCK_BYTES = 512
"""The unit of ``st_blocks`` (stat(2))."""

UNMEASURABLE = 1 << 62
"""The size of a directory nested deeper than a path can be long: that can only be an attempt to hide files."""


def bytes_written(logs: str, processes: Iterable[int]) -> int:
    """The size of a container's output: of the files in its log directory, and of removed files that these
    processes still have as standard output or error."""
    total = 0
    try:
        for facts in entries_below(logs):
            total += facts.st_size if stat.S_ISREG(facts.st_mode) else 0
    except OSError:
        return UNMEASURABLE
    removed: dict[tuple[int, int], int] = {}
    for pid in processes:
        for stream in (1, 2):
            with contextlib.suppress(OSError):
                found = os.stat(f"/proc/{pid}/fd/{stream}")
                if found.st_nlink == 0 and stat.S_ISREG(found.st_mode):
                    removed[found.st_dev, found.st_ino] = found.st_size
    return total + sum(removed.values())


def bytes_stored(directory: str, processes: Iterable[int]) -> int:
    """The disk space of a directory and everything below it, each file counted once, plus that of removed
    files on the same disk that these processes hold open. Holes in files count nothing."""
    counted: dict[tuple[int, int], int] = {}
    total = 0
    try:
        device = os.lstat(directory).st_dev
        for facts in entries_below(directory):
            if facts.st_nlink > 1 and not stat.S_ISDIR(facts.st_mode):
                counted[facts.st_dev, facts.st_ino] = facts.st_blocks * BLOCK_BYTES
            else:
                total += facts.st_blocks * BLOCK_BYTES
    except OSError as error:
        return UNMEASURABLE if error.errno == errno.ENAMETOOLONG else 0
    for pid in processes:
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    facts = os.stat(f"/proc/{pid}/fd/{number}")
                    if facts.st_nlink == 0 and facts.st_dev == device and stat.S_ISREG(facts.st_mode):
                        counted[facts.st_dev, facts.st_ino] = facts.st_blocks * BLOCK_BYTES
    return total + sum(counted.values())
