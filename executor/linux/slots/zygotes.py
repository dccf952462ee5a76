"""Starts the zygote, from which launchers are forked (``launcher.py``)."""

from __future__ import annotations

import marshal
import socket
import subprocess
import sys
from array import array

from .. import launcher
from ..descriptors import limit_of_children
from ..keeping import compiled
from .marks import marked_environment


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
                env=marked_environment(state),
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
        reaps: bool,
    ) -> None:
        """Begin to fork a launcher that gets these sockets. Raises OSError."""
        message = marshal.dumps((journal, list(joins), gauges, reaps))
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
