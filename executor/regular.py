"""Opens and writes the files of the state: regular ones, of nobody else, of a bounded size. Something else of that name
(a FIFO, a link, a device, a directory) could block the caller, fill its memory, or belong to another user.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from .light import suppress

LARGEST = 256 << 20
"""The size in bytes above which a file is not read whole."""
ANY_SIZE = 1 << 62
ASIDE = ".aside"
_STRANGE = (errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENODEV)
"""The errors of open(2) for a link, a FIFO without a reader, a socket, a directory and a missing device."""


class NotRegularError(OSError):
    """The path exists, but is no regular file that may be used; ``strerror`` says why."""

    def __init__(self, path: str, why: str = "it is not a regular file") -> None:
        super().__init__(errno.EINVAL, why, path)


def open_regular(path: str, flags: int = os.O_RDONLY, mode: int = 0o600, *, most: int = LARGEST) -> int:
    """A descriptor of a regular file of this user, of root, or of the owner of its directory, with at most ``most``
    bytes. Never waits and follows no link. Raises OSError; NotRegularError if the path is anything else.
    """
    try:
        fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    except OSError as error:
        raise NotRegularError(path) if error.errno in _STRANGE else error from None
    try:
        check_regular(path, os.fstat(fd), most)
    except OSError:
        os.close(fd)
        raise
    return fd


def check_regular(path: str, facts: os.stat_result, most: int = ANY_SIZE) -> None:
    """Check the status of a path as ``open_regular`` does. Raises NotRegularError, or OSError if the owner of the
    directory is not known."""
    if not stat.S_ISREG(facts.st_mode):
        raise NotRegularError(path)
    if facts.st_uid not in (os.geteuid(), 0) and facts.st_uid != os.stat(os.path.dirname(path) or ".").st_uid:
        raise NotRegularError(path, f"it belongs to user {facts.st_uid}")
    if facts.st_size > most:
        raise NotRegularError(path, f"it has {facts.st_size} bytes, more than {most}")


def read_regular(path: str, *, most: int = LARGEST) -> bytes:
    """The content of a file, as ``open_regular`` opens it. Raises OSError; NotRegularError if the path is anything
    else."""
    with open(open_regular(path, most=most), "rb") as file:
        return file.read()


def write_whole(
    path: str,
    content: bytes,
    *,
    mode: int = 0o600,
    owner: tuple[int, int] | None = None,
    durable: bool = False,
) -> None:
    """Write a file atomically: readers see the old content or the new, never a part; with ``durable`` also
    after a power failure. Raises OSError."""
    temporary = f"{path}.{os.getpid()}"
    try:
        with open(open_regular(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
            file.write(content)
            file.flush()
            if owner is not None:
                os.fchown(file.fileno(), *owner)
            if mode != 0o600:
                os.fchmod(file.fileno(), mode)
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def set_aside(path: str) -> str:
    """Rename what has the name of a file of the state and is none; the new path. Nothing is removed: it may belong to a
    user. Raises OSError."""
    aside = f"{path}{ASIDE}-{time.time_ns()}"
    os.rename(path, aside)
    return aside


def set_strange_aside(*paths: str, most: int = ANY_SIZE) -> list[str]:
    """Set aside what has one of these names and is no file as ``open_regular`` opens it; a sentence for each. Raises
    nothing."""
    told = []
    for path in paths:
        try:
            with suppress(FileNotFoundError):
                check_regular(path, os.lstat(path), most)
        except OSError as error:
            with suppress(OSError):
                told.append(f"{path} is set aside as {set_aside(path)}: {error.strerror}")
    return told
