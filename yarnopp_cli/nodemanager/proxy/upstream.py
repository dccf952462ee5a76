"""The RM's side of a Pipeline: a connection, the unanswered calls, and the requests that the RM has not received.

Requests that come while the RM is unreachable, or while two calls are unanswered, go together in the next call. The
content of an unanswered call is sent again after a loss. ``pipeline`` decides when to call. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from executor.light import replace

from ...allocation.asks import key_of
from ...records.distributed_protocol import DistributedSchedulingAllocateRequest
from ...records.master_protocol import AllocateRequest
from ...records.requests import ResourceRequest, TaskAssignment, UpdateContainerRequest
from ..events import CallUpstream, CloseUpstream, ConnectUpstream, UpstreamCommand
from ..link import Backoff


@dataclass(slots=True)
class Pending:
    """The requests that the RM has not received. A later request replaces an earlier one about the same subject.
    ``dirty``: they cannot wait; the assignment of containers to tasks can."""

    asks: dict[tuple[object, ...], ResourceRequest] = field(default_factory=dict)
    releases: dict[str, None] = field(default_factory=dict)
    updates: list[UpdateContainerRequest] = field(default_factory=list)
    blacklist: dict[str, bool] = field(default_factory=dict)
    tasks: list[TaskAssignment] = field(default_factory=list)
    dirty: bool = False

    def add(self, request: AllocateRequest) -> None:
        """Add the content of ``request``."""
        for ask in request.asks:
            self.asks[key_of(ask), ask.resource_name, ask.execution_type_request.execution_type] = ask
        self.releases.update(dict.fromkeys(request.releases))
        self.updates += request.updates
        self.blacklist.update(dict.fromkeys(request.blacklist_removals, False))
        self.blacklist.update(dict.fromkeys(request.blacklist_additions, True))
        self.tasks += request.tasks
        self.dirty = self.dirty or bool(request.asks or request.releases or request.updates or self.blacklist)

    def add_before(self, request: AllocateRequest) -> None:
        """Add the content of ``request`` as if it had come before all others."""
        earlier = Pending()
        earlier.add(request)
        self.asks = earlier.asks | self.asks
        self.releases = earlier.releases | self.releases
        self.updates = earlier.updates + self.updates
        self.blacklist = earlier.blacklist | self.blacklist
        self.tasks = earlier.tasks + self.tasks
        self.dirty = self.dirty or earlier.dirty

    def said_in(self, request: AllocateRequest) -> AllocateRequest:
        """``request`` with the pending content instead of its own."""
        return replace(
            request,
            asks=tuple(self.asks.values()),
            releases=tuple(self.releases),
            updates=tuple(self.updates),
            blacklist_additions=tuple(name for name, on in self.blacklist.items() if on),
            blacklist_removals=tuple(name for name, on in self.blacklist.items() if not on),
            tasks=tuple(self.tasks),
        )


@dataclass(slots=True)
class Sent:
    """A call without an answer yet. ``reported`` are the containers that it reported."""

    request: Any
    reported: tuple[str, ...] = ()


class Upstream:
    """The connection to the RM; ``emit`` takes the commands."""

    def __init__(self, attempt_id: str, emit: Callable[[UpstreamCommand], None]) -> None:
        self.pending = Pending()
        self.in_flight: dict[int, Sent] = {}
        """The unanswered calls, by their numbers."""
        self.sequence = 0
        """The number of the last call."""
        self.is_connected = False
        self.retry_at: float | None = None
        """The time of the next attempt to connect; None for at once."""
        self._connecting = False
        self._backoff = Backoff()
        self._attempt_id = attempt_id
        self._emit = emit

    @property
    def is_away(self) -> bool:
        """Whether there is no connection, established or requested."""
        return not (self.is_connected or self._connecting)

    def connect(self) -> None:
        """Request a connection, unless it is too early to try again."""
        if self.retry_at is None:
            self._connecting = True
            self._emit(ConnectUpstream(self._attempt_id))

    def connected(self) -> None:
        """The requested connection is established."""
        self._connecting, self.is_connected = False, True
        self._backoff.reset()

    def lost(self, now: float) -> None:
        """The connection could not be made, or has ended."""
        self._disconnected()
        self.retry_at = now + self._backoff.take()

    def close(self) -> None:
        """Close the connection, if there is one."""
        if not self.is_away:
            self._emit(CloseUpstream(self._attempt_id))
            self._disconnected()
        self.retry_at = None

    def _disconnected(self) -> None:
        for sent in reversed(self.in_flight.values()):
            self.say_again(sent)
        self.in_flight.clear()
        self._connecting = self.is_connected = False

    def say_again(self, sent: Sent) -> None:
        """The RM may not have received this call: send its content again."""
        request = sent.request
        if isinstance(request, DistributedSchedulingAllocateRequest):
            request = request.request
        if isinstance(request, AllocateRequest):
            self.pending.add_before(request)

    def send(self, request: Any, reported: tuple[str, ...] = ()) -> None:
        """Call the RM."""
        self.sequence += 1
        self.in_flight[self.sequence] = Sent(request, reported)
        self._emit(CallUpstream(self._attempt_id, self.sequence, request))
