"""Tells whether a container's output may be incomplete, because a file system refuses the writes.

A container writes to its files itself, so the node sees no error of a write. It sees the file system: whether it is
full, read-only or failing, at the container's end and while the container runs (``container-monitor.interval-ms``); and
the files. On tmpfs, ext4 and XFS, a write for which there is no room ends with a whole block. So output of at most one
block that is not full has lost nothing. Longer output may have: a short write, such as the message about the refused
one, may find the room that ext4 frees after it.

Decisions: whose-fault.
"""

from __future__ import annotations

import errno
import os
import stat

from .health import DISKS, try_to_write

NAMES = ("stdout", "stderr")
BLOCK = 4096
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def is_full(folder: str) -> bool:
    """Whether a file system has no room for a block more, except for root."""
    try:
        room = os.statvfs(folder)
    except OSError:
        return False
    return room.f_blocks > 0 and room.f_bavail * room.f_frsize < BLOCK


def refusal(logs: str, *, ended: bool = True, silent: bool = False) -> str:
    """Why the output in this directory may be incomplete, "" if nothing suggests that.

    Output that is empty when the container has ``ended`` may have been refused, unless it was ``silent``; before that
    it is not reported. If the last block of a file is full, a write is tried beside it, which finds quotas and errors
    that the figures do not show.
    """
    for name in NAMES:
        try:
            fd = os.open(f"{logs}/{name}", _FLAGS)  # a read-only or failing file system refuses this
        except OSError as error:
            # else it is no file of ours: removed, or replaced by the container
            return os.strerror(error.errno) if error.errno in DISKS else ""
        try:
            facts, room = os.fstat(fd), os.fstatvfs(fd)
        finally:
            os.close(fd)
        free = room.f_frsize * (room.f_bfree if facts.st_uid == 0 else room.f_bavail)
        is_full = room.f_blocks > 0 and free < BLOCK
        may_be_refused = ended and not silent and name == NAMES[0]
        ends_with_block = facts.st_size % min(BLOCK, room.f_bsize) == 0 and (
            facts.st_size > 0 or may_be_refused
        )
        if not stat.S_ISREG(facts.st_mode):
            return ""
        if is_full and (ends_with_block or (ended and facts.st_size > BLOCK)):
            return os.strerror(errno.ENOSPC)
        if ends_with_block and ended and facts.st_size:
            try:
                try_to_write(logs)
            except OSError as error:
                return os.strerror(error.errno or errno.EIO)
    return ""
