"""How calls from outside reach a machine, and how it answers them: at once, or later when it has something to say.

A machine may keep a call unanswered: the RM answers a waiting heartbeat when it has something for the node. So a
request is an event and an answer is a command.

Decisions: pure-machines, no-feedback-delay.
"""

from __future__ import annotations

from typing import Any

from executor.light import Record

from ..errors import YoppError


class CallReceived(Record):
    """``request`` is a ``records.methods.Request``. ``call_id`` is the shell's, unique in this process's life.

    ``connection_id`` names the connection it came over; ``user`` and ``uid`` are the peer's, from the kernel
    (SO_PEERCRED, /proc/net/tcp), -1 and "" where it does not tell: nobody then, and never whom the request names.
    """

    call_id: int
    connection_id: int
    request: Any
    uid: int = -1
    user: str = ""

    @property
    def method(self) -> str:
        """What is called."""
        return str(self.request.METHOD)


class ConnectionLost(Record):
    """A connection has ended; its calls need no answers any more."""

    connection_id: int


class PagesServed(Record):
    """The daemon's REST API and pages are at ``address`` from now on, "" for nowhere; ``warning`` is for people."""

    address: str
    warning: str = ""


class Reply(Record):
    """The answer to a call."""

    call_id: int
    response: Any


class ReplyError(Record):
    """The refusal of a call."""

    call_id: int
    error: YoppError


class StopDaemon(Record):
    """Everything is done: the daemon shall end."""

    reason: str
