"""How many connections a daemon's server has at once, for how long they may be silent, and how much it keeps for them.

Hadoop's rules where it has some (``org.apache.hadoop.ipc.Server.ConnectionManager``): idle connections are closed only
where there are many, for a caller of our own may well be silent for an hour. A caller whose user no kernel tells (only
an AMRMProxy that listens beyond loopback has such) is given less: it has to make its calls, and to read the answers, in
time, and each address has a bound of its own. Nobody who waits for an answer is closed for others.

Decisions: callers.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from executor.light import Record

FILES_SHARE: Final = 4
"""All connections of a server take at most one in this many of the process's descriptors."""
FEWEST: Final = 16
"""So many connections are served however few descriptors there are."""
RECENT_SECONDS: Final = 1.0
"""Who was heard within this time is not idle, however many others want a place."""


class Bounds(Record, kw_only=True):
    """``most`` connections, 0 for a share of the descriptors; ``idle_threshold`` of them may be idle for longer than
    ``idle_seconds``; ``per_address`` callers of one address whose user is not known; ``held_bytes`` of unfinished calls
    and unread answers."""

    most: int = 0
    idle_threshold: int = 4000
    idle_seconds: float = 20.0
    per_address: int = 64
    held_bytes: int = 256 << 20

    @property
    def connections(self) -> int:
        """How many there may be."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        share = max(FEWEST, files // FILES_SHARE)
        return min(self.most, share) if self.most else share


class Member(Protocol):
    """A connection."""

    address: str
    """Where a caller is whose user is not known, "" for one whose user is."""
    known: bool
    """Whether its user is known, or a call of it was answered with what was asked for: it has shown a token."""
    heard: float
    """When something of it last went on, by the loop's clock: it connected, a whole call came, answers were read."""
    held: int
    """Bytes of a call that has come in part, and of answers that were not read."""

    @property
    def waits(self) -> bool:
        """Whether it waits for the answer to a call."""

    def end(self, why: str) -> None:
        """Close it now."""


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
        """Whether somebody may have to be closed for being silent."""
        return bool(self._addresses) or len(self._members) > self._bounds.idle_threshold

    def add(self, member: Member, now: float) -> str:
        """Take it in; who has been idle for longest makes room. Else why there is none."""
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
        """It has gone; nothing where it was never taken in."""
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
        """So many bytes are kept for it now. Where that is too much for all together, who has most is closed."""
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
        """Close who is silent for too long."""
        idle = self._bounds.idle_seconds
        for member in [one for one in self._members if not one.known]:
            if now - member.heard > idle and (member.held or not member.waits):
                self._close(member, f"it made no call and read no answer for {idle:g} s")
        surplus = len(self._members) - self._bounds.idle_threshold
        if surplus > 0:
            for member in sorted(_idle(self._members, now, idle), key=_order)[:surplus]:
                self._close(member, f"it was idle for {idle:g} s, and there are many connections")

    def _make_room(self, among: Iterable[Member], now: float) -> bool:
        """Close the one among these that has been idle for longest; whether there was one."""
        longest = min(_idle(among, now, RECENT_SECONDS), key=_order, default=None)
        if longest is not None:
            self._close(longest, "it was idle, and others need its connection")
        return longest is not None

    def _close(self, member: Member, why: str) -> None:
        self.remove(member)
        member.end(why)


def _idle(among: Iterable[Member], now: float, seconds: float) -> Iterator[Member]:
    """Who does not wait for an answer and was not heard for so long."""
    return (one for one in among if not one.waits and now - one.heard > seconds)


def _order(member: Member) -> tuple[bool, float]:
    """Who is closed first: a stranger, then who has been idle for longest."""
    return member.known, member.heard
