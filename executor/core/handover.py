"""What a guaranteed container leaves behind is kept for its successor, for a moment. Pure.

Between the end of one guaranteed container and the arrival of the next lie a few milliseconds, in which the
cluster hears of the one and allocates the other. An opportunistic container that starts in that gap has to give
way at once: its start is wasted, and so is the work of ending it. So where it is known that others wait for the
room, what is freed is kept for them; nobody who waits for something else is held back by that.
"""

from __future__ import annotations

from collections import deque

from ..records import Resource

_NOTHING = Resource()


class Handover:
    """What is kept for guaranteed containers that have not arrived. ``hold`` is for how many seconds at most; 0 for
    never."""

    def __init__(self, hold: float) -> None:
        self._hold = hold
        self.expects = False
        """Whether successors are known to wait."""
        self._kept: deque[tuple[float, Resource]] = deque()

    @property
    def kept(self) -> Resource:
        """What nobody else may start on."""
        return sum((resource for _, resource in self._kept), _NOTHING)

    def left(self, resource: Resource, now: float) -> None:
        """A guaranteed container has ended, and what it held is free."""
        if self.expects and self._hold > 0 and resource != _NOTHING:
            self._kept.append((now + self._hold, resource))

    def arrived(self, resource: Resource) -> None:
        """A successor is here: what it needs need not be kept any more, whoever left it first."""
        rest = resource
        for _ in range(len(self._kept)):
            until, kept = self._kept.popleft()
            taken = Resource(min(kept.memory, rest.memory), min(kept.vcores, rest.vcores))
            rest -= taken
            if kept != taken:
                self._kept.append((until, kept - taken))

    def next_deadline(self) -> float | None:
        """When something is no longer kept, None for never."""
        return self._kept[0][0] if self._kept else None

    def expired(self, now: float) -> bool:
        """Let go what was kept for long enough; whether there was such."""
        before = len(self._kept)
        while self._kept and self._kept[0][0] <= now:
            self._kept.popleft()
        return len(self._kept) < before
