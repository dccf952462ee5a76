"""One slot: a launcher, its cgroup if it has one, and the containers that it starts."""

from __future__ import annotations

import marshal
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass

from ...records import CgroupLimits
from ..cgroups.slots import SlotGroup
from ..context import LiveContainer
from ..procfs import read_stat, send
from ..requests import LaunchRequest

LARGEST_MESSAGE = 100_000
"""A longer message is sent in a file: a socket takes twice that."""


@dataclass(slots=True)
class Occupant:
    """A container in a slot, or the one that follows it. ``wanted``: the node has decided to start it meanwhile;
    ``waits_on`` is called if it was to follow and has not begun."""

    held: LiveContainer
    request: LaunchRequest
    limits: CgroupLimits
    waits_on: Callable[[], None] = lambda: None
    wanted: bool = False


@dataclass(eq=False)
class Slot:
    """One slot. ``outside``: its launcher has no cgroup, and ``group`` has no directory. ``now`` is the container in
    it, ``next`` the one that follows; ``message`` the request that its launcher is still to get. ``ahead`` are both
    ends of the sockets for the one that follows; ``generation`` counts the containers that were sent to the idle
    launcher. ``base_bytes``: the memory that its cgroup has without a container. ``view``: how often mounts had changed
    when its launcher was forked. ``refusal``: why that could not begin, and the errno."""

    group: SlotGroup
    journal: str
    sock: socket.socket
    ahead: list[socket.socket]
    since: float
    now: Occupant | None = None
    next: Occupant | None = None
    message: bytes = b""
    generation: int = 0
    start: int = 0
    base_bytes: int = 0
    ready: bool = False
    view: int = 0
    refusal: tuple[str, int] = ("", 0)

    @property
    def outside(self) -> bool:
        """Whether its launcher has no cgroup."""
        return not self.group.groups

    def send(self) -> None:
        """Send its launcher the message; a long one in a file. Raises OSError."""
        message, self.message = self.message, b""
        self.generation += 1
        if len(message) <= LARGEST_MESSAGE:
            self.sock.send(message)
            return
        fd = os.memfd_create("yopp-request", os.MFD_CLOEXEC)
        with open(fd, "wb") as file:
            file.write(message)
            file.flush()
            socket.send_fds(self.sock, [b"file"], [fd])

    def close(self) -> None:
        """Close the connection to the launcher, which ends as soon as it is idle."""
        for one in (self.sock, *self.ahead):
            one.close()
        self.group.close()


def message_of(
    held: LiveContainer, request: LaunchRequest, *, queued: bool = False, idle_cpu: bool = False
) -> bytes:
    """The request for a launcher; ``queued`` if the container follows another one, ``idle_cpu`` if the class of its I/O
    is also that of the CPU."""
    command, environment = list(request.command), request.environment
    places = [request.working_directory, request.stdout, request.stderr]
    if _recoded:
        command, places = [list(map(_utf8, words)) for words in (command, places)]
        environment = {_utf8(name): _utf8(value) for name, value in environment.items()}
    return marshal.dumps(
        (
            held.container_id,
            held.queued_at_ms if queued else 0,
            *(command, environment, *places),
            request.account,
            *(request.umask, request.oom_score_adj, request.idle, request.join, idle_cpu and request.idle),
        )
    )


_recoded = sys.getfilesystemencoding() != "utf-8"


def _utf8(text: str) -> str:
    """Text of this process as a launcher has it, whose names of files are UTF-8."""
    return os.fsencode(text).decode("utf-8", "surrogateescape")


def continue_reporter(held: LiveContainer) -> None:
    """Send SIGCONT to the process that reports a container's end, if it is stopped: the container itself may
    have done that."""
    pid, start = held.launcher
    found = read_stat(pid) if pid else None
    if found is not None and found.state == "T" and found.start == start:
        send(pid, signal.SIGCONT)
