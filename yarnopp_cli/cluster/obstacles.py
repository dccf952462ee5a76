"""Entries of the run directory that have the name of one of its files, but are none: a FIFO, a directory.
Commands would block or fail on them."""

from __future__ import annotations

import contextlib
import os
import stat
import time

from executor.light import pattern

from .rundir import RunDir

_OURS = pattern(r"(rm|nm-\d{1,5})\.(pid|http|log|watched)|site\.json|nodes\.json|lock|where")
_SOCKET = pattern(r"(rm|nm-\d{1,5}|am-\d{1,5})\.sock")
ASIDE = ".aside"


def set_aside(run_dir: RunDir) -> None:
    """Rename entries that are neither a file nor a socket, as their names require, to ``<name>.aside-<time>``.

    Nothing is removed: it may be a user's. Links are left alone: the code that opens the file refuses them.
    """
    for directory in dict.fromkeys((run_dir.path, run_dir.socket_dir)):
        try:
            names = os.listdir(directory)
        except OSError:
            continue
        for name in names:
            path = os.path.join(directory, name)
            with contextlib.suppress(OSError):
                mode = os.lstat(path).st_mode
                fits = stat.S_ISREG(mode) or stat.S_ISLNK(mode)
                if (_OURS.fullmatch(name) and not fits) or (
                    _SOCKET.fullmatch(name) and not (fits or stat.S_ISSOCK(mode))
                ):
                    os.rename(path, f"{path}{ASIDE}-{time.time_ns()}")
