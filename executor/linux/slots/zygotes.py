"""Starts the zygote, from which launchers are forked (``launcher.py``). Also finds zygotes and launchers that nothing
else leads to: the node's process is gone, no journal names them, and a zygote is in no cgroup. One that is stopped does
not notice that its node has died.

The mark in their environment, set by the node before they start, names the node's directory of records; no
container gets it. A process counts only if it belongs to this user and has our root directory, because the
same path in another container of this host is another node's. Nothing is found by a program's name.
"""

from __future__ import annotations

import marshal
import os
import socket
import subprocess
import sys
from array import array
from collections.abc import Iterator

from ...light import Record
from .. import launcher
from ..descriptors import limit_of_children
from ..keeping import compiled
from ..procfs import read_bytes, read_stat, real_uid

MARK = "YOPP_POOL_OF"


def _marked_environment(state: str) -> dict[str, str]:
    """The environment of a zygote, and of the launchers that it forks."""
    return {MARK: os.path.realpath(state)}


class Zygote:
    """The process that forks launchers."""

    def __init__(self, read_only: tuple[str, ...], program: str, state: str) -> None:
        """Start it. ``state`` is the node's directory of records, by which later runs find the zygote. Raises
        OSError if that fails."""
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)
        with theirs:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", compiled(launcher, program), str(theirs.fileno())),
                    *(str(limit_of_children()), *read_only),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                cwd="/",
                env=_marked_environment(state),
                start_new_session=True,
            )

    def alive(self) -> bool:
        """Whether it can fork."""
        return self._process.poll() is None

    def fork(
        self,
        sockets: list[socket.socket],
        journal: str,
        joins: tuple[str, ...],
        gauges: tuple[tuple[str, str, float] | None, ...],
    ) -> None:
        """Begin to fork a launcher that gets these three sockets. Raises OSError."""
        message = marshal.dumps((journal, list(joins), gauges))
        rights = array("i", [one.fileno() for one in sockets])
        self._ours.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

    def close(self) -> None:
        """End the zygote; its launchers continue. Blocks."""
        self._ours.close()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Marked(Record):
    """A process of a pool. ``state`` is its node's directory of records, with all links resolved."""

    pid: int
    start: int
    parent: int
    state: str


def marked_below(directory: str) -> Iterator[Marked]:
    """The processes of pools whose records are in a directory or below it."""
    root, user = _identity("/"), os.getuid()
    mark, top = f"{MARK}=".encode(), f"{os.path.realpath(directory)}/"
    for name in filter(str.isdigit, os.listdir("/proc")):
        environment = f"/proc/{name}/environ"
        if mark not in read_bytes(environment):  # a third of the cost of a stat, and true of nearly all
            continue
        found = read_stat(int(name))
        if found is None or found.state in "ZX":
            continue
        # read again: the pid and start time are now known, and the process may be another one than before
        for entry in read_bytes(environment).split(b"\0"):
            if not entry.startswith(mark):
                continue
            state = os.fsdecode(entry.removeprefix(mark))
            try:
                ours = real_uid(found.pid) == user and _identity(f"/proc/{name}/root") == root
            except OSError:  # it has ended
                continue
            if ours and f"{state}/".startswith(top):
                yield Marked(found.pid, found.start, found.parent, state)


def _identity(path: str) -> tuple[int, int]:
    facts = os.stat(path)
    return facts.st_dev, facts.st_ino
