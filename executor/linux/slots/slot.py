"""One slot, and the containers in it."""

from __future__ import annotations

import marshal
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass

from ...records import CgroupLimits
from ..cgroups.slots import SlotGroup
from ..context import LiveContainer
from ..procfs import read_stat, send
from ..shim import LaunchRequest


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
    """One slot. ``now`` is the container in it, ``next`` the one that follows; ``message`` the request that its
    launcher is still to get. ``ahead`` are both ends of the sockets for the one that follows; ``generation`` counts the
    containers that were sent to the idle launcher. ``base_bytes``: the memory that its cgroup has without a
    container. ``view``: how often mounts had changed when its launcher was forked."""

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

    def close(self) -> None:
        """Close the connection to the launcher, which ends as soon as it is idle."""
        for one in (self.sock, *self.ahead):
            one.close()
        self.group.close()


def message_of(held: LiveContainer, request: LaunchRequest, *, queued: bool = False) -> bytes:
    """The request for a launcher; ``queued`` if the container follows another one."""
    return marshal.dumps(
        (
            held.container_id,
            held.queued_at_ms if queued else 0,
            list(request.command),
            request.environment,
            request.working_directory,
            request.stdout,
            request.stderr,
            request.account,
            *(request.umask, request.oom_score_adj, request.idle),
        )
    )


def continue_reporter(held: LiveContainer) -> None:
    """Send SIGCONT to the process that reports a container's end, if it is stopped: the container itself may
    have done that."""
    pid, start = held.launcher if held.pooled else (held.pid, held.start)
    found = read_stat(pid) if pid else None
    if found is not None and found.state == "T" and found.start == start:
        send(pid, signal.SIGCONT)
