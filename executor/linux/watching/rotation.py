"""Rotates the output of running containers: old output goes to ``stdout.1``, and the program continues to
write to ``stdout`` (YARN's ``ContainerLogMonitor``).

A container holds its file open for appending, so the file cannot be replaced. The copied part is cut off at the
front (fallocate(2), FALLOC_FL_COLLAPSE_RANGE), which loses nothing. Where the file system does not support that, the
file is emptied after the copy: output written in between is lost, as with logrotate's copytruncate.

Decisions: directories.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import os
import stat

LOG = logging.getLogger(__name__)

NAMES = ("stdout", "stderr")
_COLLAPSE_RANGE = 0x08
_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.EPERM})
_LIBRARY = ctypes.CDLL(None, use_errno=True)
_FALLOCATE = _LIBRARY.fallocate
_FALLOCATE.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def rotate(logs: str, larger_than: int, files: int) -> None:
    """Rotate the output in the log directory ``logs`` if it is larger than ``larger_than`` bytes; keep
    ``files`` older files.

    Only regular files of the directory's owner that have no other hard link are touched: the directory belongs to
    the container, which may put links in it. Nothing is raised: a file that cannot be rotated stays as it is.
    """
    try:
        directory = os.open(logs, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        owner = os.fstat(directory).st_uid
        for name in NAMES:
            try:
                _rotate(directory, name, owner, larger_than, files)
            except FileNotFoundError:
                pass
            except OSError as error:
                LOG.warning("%s/%s is not rotated: %s", logs, name, error.strerror)
    finally:
        os.close(directory)


def _rotate(directory: int, name: str, owner: int, larger_than: int, files: int) -> None:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    if os.stat(name, dir_fd=directory, follow_symlinks=False).st_size <= larger_than:
        return
    source = os.open(name, flags, dir_fd=directory)
    try:
        facts = os.fstat(source)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != owner or facts.st_nlink != 1:
            return
        block = max(1, os.fstatvfs(source).f_bsize)
        whole = (facts.st_size - 1) // block * block  # the last block of a file cannot be cut off this way
        if files:
            for number in range(files - 1, 0, -1):
                with contextlib.suppress(FileNotFoundError):
                    os.rename(
                        f"{name}.{number}", f"{name}.{number + 1}", src_dir_fd=directory, dst_dir_fd=directory
                    )
            _copy(source, whole, directory, f"{name}.1", facts)
        if not _cut(source, whole):
            if files:
                _append_rest(source, whole, directory, f"{name}.1")
            os.ftruncate(source, 0)
    finally:
        os.close(source)


def _copy(source: int, length: int, directory: int, name: str, facts: os.stat_result) -> None:
    """Copy the first bytes of a file to a new one with its owner and mode. Raises OSError, and then leaves no
    copy."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    copy = os.open(name, flags, 0o600, dir_fd=directory)
    try:
        os.fchown(copy, facts.st_uid, facts.st_gid)
        os.fchmod(copy, stat.S_IMODE(facts.st_mode) & 0o777)
        _send(source, 0, length, copy)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=directory)
        raise
    finally:
        os.close(copy)


def _append_rest(source: int, begin: int, directory: int, name: str) -> None:
    copy = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        facts = os.fstat(copy)
        if stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1:
            while data := os.pread(source, 1 << 20, begin):
                begin += os.write(copy, data)  # on a full disk, a part: the next write raises
    finally:
        os.close(copy)


def _send(source: int, begin: int, end: int, to: int) -> None:
    while begin < end:
        sent = os.sendfile(to, source, begin, min(end - begin, 1 << 24))
        if sent == 0:
            return  # its writer has truncated it meanwhile
        begin += sent


def _cut(source: int, length: int) -> bool:
    """Cut off the first bytes; False if this file system does not support it. Raises OSError."""
    if length == 0:
        return True
    if _FALLOCATE(source, _COLLAPSE_RANGE, 0, length) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number))
