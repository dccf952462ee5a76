"""Reads files that should be regular. Opening something else of that name, such as a FIFO, could block."""

from __future__ import annotations

import errno
import os
import stat


class NotRegularError(OSError):
    """The path exists, but is not a regular file."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file", path)


def read_regular(path: str) -> bytes:
    """The content of a regular file. Raises OSError; NotRegularError if the path is anything else."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotRegularError(path)
    with open(fd, "rb") as file:
        return file.read()
