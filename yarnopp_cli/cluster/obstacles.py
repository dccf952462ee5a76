"""What other programs have done to the run directory. Entries that have the name of one of its files, but are none (a
FIFO, a link, a directory): commands would block or fail on them. Files that were removed: daemons write them again.
"""

from __future__ import annotations

import os
import stat
import time

from executor.light import pattern, suppress
from executor.regular import set_aside, set_strange_aside

from ..errors import YoppError
from ..rpc.blocking import Connection
from .rundir import RunDir

RETURN_SECONDS = 6.0
"""How long daemons may take to write again what was removed."""
_OURS = pattern(
    r"(rm|nm-[1-9][0-9]{0,4})\.(pid|http|port|log|watched)|up\.log|rest\.token|site\.json|nodes\.json|lock|where"
)
_LISTENING = pattern(r"(rm|nm-[1-9][0-9]{0,4})\.sock")
_SOCKET = pattern(r"(rm|nm-[1-9][0-9]{0,4}|am-[1-9][0-9]{0,4})\.sock")


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


def await_files(run_dir: RunDir) -> None:
    """Wait until running daemons have written again what was removed (``daemons/kept_files.py``): a command could not
    see these daemons, or not know with which settings they run. Raises YoppError if they do not."""
    deadline = time.monotonic() + RETURN_SECONDS
    while path := _missing(run_dir):
        if time.monotonic() >= deadline:
            raise YoppError(
                f"{path} was removed",
                because="a daemon of this cluster is running, and has not written it again",
                hint="`yopp down --force` ends this cluster",
            )
        time.sleep(0.05)  # another process writes it


def _missing(run_dir: RunDir) -> str:
    """A file without which commands do not see a daemon that listens, or do not know its settings; "" for none."""
    with suppress(OSError):
        for name in filter(_LISTENING.fullmatch, os.listdir(run_dir.socket_dir)):
            daemon = name.removesuffix(".sock")
            lost = [path for path in (run_dir.site_file, run_dir.nodes_file) if not os.path.exists(path)]
            lost += [run_dir.pid_file(daemon)] if run_dir.daemon(daemon) is None else []
            if lost:
                with suppress(YoppError):
                    Connection(os.path.join(run_dir.socket_dir, name)).close()
                    return lost[-1]
    return ""
