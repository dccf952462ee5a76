"""Limits on the connections of a daemon's server: their number, how long they may be idle, and their memory (Hadoop's
``Server.ConnectionManager``).

They follow Hadoop where it has such rules (``org.apache.hadoop.ipc.Server.ConnectionManager``): idle connections are
closed only if there are many, since a caller of our own may be silent for an hour. A caller whose user the kernel does
not know (only an AMRMProxy that listens beyond loopback has such callers) has stricter limits: it must make its calls
and read the answers in time, and each address has a maximum number of connections. A connection that waits for an
answer is never closed to make room for another.

Decisions: callers.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from executor.light import Record

FILES_SHARE: Final = 4
"""The connections of a server use at most one in this many of the process's file descriptors."""
FEWEST: Final = 16
"""The server allows at least this many connections, however few descriptors there are."""
RECENT_SECONDS: Final = 1.0
"""A connection active within this time is not idle, however many others want its place."""


class Bounds(Record, kw_only=True):
    """The limits: ``most`` connections, 0 for a share of the descriptors; ``idle_threshold`` connections
    before those idle for longer than ``idle_seconds`` are closed; ``per_address`` callers at one address
    whose user is unknown; ``held_bytes`` of incomplete calls and unread answers."""

    most: int = 0
    idle_threshold: int = 4000
    idle_seconds: float = 20.0
    per_address: int = 64
    held_bytes: int = 256 << 20

    @property
    def connections(self) -> int:
        """The number of allowed connections."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        share = max(FEWEST, files // FILES_SHARE)
        return min(self.most, share) if self.most else share


class Member(Protocol):
    """A connection."""

    address: str
    """The IP address of a caller whose user is unknown; "" if the user is known."""
    known: bool
    """Whether the caller's user is known, or one of its calls has succeeded: a successful call has presented a
    token."""
    heard: float
    """The time of its last activity, by the loop's clock: it connected, a complete call came,
    answers were read."""
    held: int
    """Bytes of an incomplete call and of unread answers."""

    @property
    def waits(self) -> bool:
        """Whether the connection waits for the answer to a call."""

    def end(self, why: str) -> None:
        """Close the connection now."""


class Crowd:
    """The connections of one server."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._most = bounds.connections
        self._members: dict[Member, None] = {}
        self._addresses: dict[str, int] = {}
        self._held = 0

    def __len__(self) -> int:
        return len(self._members)

    @property
    def wants_look(self) -> bool:
        """Whether idle connections may have to be closed."""
        return bool(self._addresses) or len(self._members) > self._bounds.idle_threshold

    def add(self, member: Member, now: float) -> str:
        """Add a connection, and close the one idle for longest if there is no room. Returns why
        there is no room, or ""."""
        address = member.address
        if address and self._addresses.get(address, 0) >= self._bounds.per_address:
            own = (one for one in self._members if one.address == address and not one.known)
            if not self._make_room(own, now):
                return f"{address} has {self._bounds.per_address} connections"
        if len(self._members) >= self._most and not self._make_room(self._members, now):
            return f"all {self._most} connections are in use"
        self._members[member] = None
        if address:
            self._addresses[address] = self._addresses.get(address, 0) + 1
        return ""

    def remove(self, member: Member) -> None:
        """Remove a connection that has ended; ignored if it was never added."""
        if member not in self._members:
            return
        del self._members[member]
        self._held -= member.held
        member.held = 0
        if member.address:
            self._addresses[member.address] -= 1
            if not self._addresses[member.address]:
                del self._addresses[member.address]

    def holds(self, member: Member, held: int) -> None:
        """Record the bytes held for a connection. While the total is above the limit, the
        largest is closed."""
        if member not in self._members:
            return
        self._held += held - member.held
        member.held = held
        while self._held > self._bounds.held_bytes:
            largest = max(self._members, key=lambda one: one.held)
            self._close(
                largest, "it has sent incomplete calls or not read its answers, and too much memory is used"
            )

    def look(self, now: float) -> None:
        """Close the connections that have been idle for too long."""
        idle = self._bounds.idle_seconds
        for member in [one for one in self._members if not one.known]:
            if now - member.heard > idle and (member.held or not member.waits):
                self._close(member, f"it made no call and read no answer for {idle:g} s")
        surplus = len(self._members) - self._bounds.idle_threshold
        if surplus > 0:
            for member in sorted(_idle(self._members, now, idle), key=_order)[:surplus]:
                self._close(member, f"it was idle for {idle:g} s, and there are many connections")

    def _make_room(self, among: Iterable[Member], now: float) -> bool:
        """Close the connection among these that has been idle for longest. Returns whether there was one."""
        longest = min(_idle(among, now, RECENT_SECONDS), key=_order, default=None)
        if longest is not None:
            self._close(longest, "it was idle, and others need its connection")
        return longest is not None

    def _close(self, member: Member, why: str) -> None:
        self.remove(member)
        member.end(why)


def _idle(among: Iterable[Member], now: float, seconds: float) -> Iterator[Member]:
    """The connections that wait for no answer and have been inactive for longer than ``seconds``."""
    return (one for one in among if not one.waits and now - one.heard > seconds)


def _order(member: Member) -> tuple[bool, float]:
    """The order of closing: unknown callers first, then the callers that were idle for longest."""
    return member.known, member.heard
