"""Entries of the run directory that have the name of one of its files, but are none: a FIFO, a link, a directory.
Commands would block or fail on them."""

from __future__ import annotations

import os
import stat

from executor.light import pattern, suppress
from executor.regular import set_aside, set_strange_aside

from .rundir import RunDir

_OURS = pattern(
    r"(rm|nm-\d{1,5})\.(pid|http|port|log|watched)|up\.log|rest\.token|site\.json|nodes\.json|lock|where"
)
_SOCKET = pattern(r"(rm|nm-\d{1,5}|am-\d{1,5})\.sock")


def clear_obstacles(run_dir: RunDir) -> list[str]:
    """Rename entries that are neither a file nor a socket, as their names require, to ``<name>.aside-<time>``; a
    sentence for each that should be a file. Nothing is removed: it may be a user's."""
    told = []
    for directory in dict.fromkeys((run_dir.path, run_dir.socket_dir)):
        with suppress(OSError):
            for name in os.listdir(directory):
                path = os.path.join(directory, name)
                if _OURS.fullmatch(name):
                    told += set_strange_aside(path)
                elif _SOCKET.fullmatch(name):
                    with suppress(OSError):
                        if stat.S_IFMT(os.lstat(path).st_mode) in (stat.S_IFIFO, stat.S_IFDIR):
                            set_aside(path)
    return told
