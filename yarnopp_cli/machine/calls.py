"""Calls to a machine, and its answers: at once, or later when it has news.

A machine may keep a call unanswered: the RM answers a waiting heartbeat when it has news for the node. A request is
therefore an event, and an answer is a command.

Decisions: pure-machines, no-feedback-delay.
"""

from __future__ import annotations

from typing import Any, Final

from executor.light import Record

from ..errors import YoppError

LONGEST_HOLD_MS: Final = 5_000
"""A client's call is answered after this time at the latest, whatever its ``wait_ms``; the client may call again."""


class CallReceived(Record):
    """A call. ``request`` is a ``records.methods.Request``. ``call_id`` is from the shell, and unique
    in this process.

    ``connection_id`` identifies the connection; ``user`` and ``uid`` are the peer's, from the kernel
    (SO_PEERCRED, sock_diag(7)); "" and -1 if the kernel does not know: then the caller is nobody, whatever
    the request claims. ``guest``: that user is neither the daemon's own nor root, and may only submit.
    """

    call_id: int
    connection_id: int
    request: Any
    uid: int = -1
    user: str = ""
    guest: bool = False

    @property
    def method(self) -> str:
        """The name of the called method."""
        return str(self.request.METHOD)


class ConnectionLost(Record):
    """A connection has ended; its calls need no answers."""

    connection_id: int


class PagesServed(Record):
    """The daemon serves its REST API and pages at ``address``, "" if nowhere; ``warning`` is for the user."""

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
    """The machine has ended: the daemon must end."""

    reason: str
