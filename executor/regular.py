"""Reads files that should be regular ones. What else has such a name, as a FIFO, would block whoever opens it."""

from __future__ import annotations

import errno
import os
import stat


class NotRegularError(OSError):
    """Something has the name of a file and is none."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file", path)


def read_regular(path: str) -> bytes:
    """The content of a regular file. Raises OSError, NotRegularError for anything else that is there."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotRegularError(path)
    with open(fd, "rb") as file:
        return file.read()
