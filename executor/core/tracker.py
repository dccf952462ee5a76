"""What is allocated on this node, what is kept, and what fits.

``ResourceUtilizationTracker`` counts as YARN's ``AllocationBasedResourceUtilizationTracker`` does: a container counts
with what it was promised, whether it uses that or not. ``UtilizationBasedTracker`` lends opportunistic containers what
is promised and not used (YARN-1011); ``pressure_actions.py`` finds out how much that is. Virtual memory is not
counted. ``Handover`` keeps what a guaranteed container leaves for its successor.

Decisions: pause-keeps-memory.
"""

from __future__ import annotations

from collections import deque

from ..records import ExecutionType, Resource

_NOTHING = Resource()


class ResourceUtilizationTracker:
    """What the containers of a node hold. ``total`` is what all of them together may have."""

    def __init__(self, total: Resource) -> None:
        self._total = total
        self._allocated = dict.fromkeys(ExecutionType, _NOTHING)
        self.allocated = _NOTHING
        """What containers of both types hold."""
        self.unallocated = total
        """The total less what is allocated; below zero where containers were resized, or the node shrank."""
        self.available = total
        """What may still be allocated, never below zero."""

    @property
    def total(self) -> Resource:
        """What all containers together may have."""
        return self._total

    @total.setter
    def total(self, total: Resource) -> None:
        """The node has another size."""
        self._total = total
        self._sum_up()

    def _sum_up(self) -> None:
        """Sums are asked for more often than they change."""
        held = self._allocated
        self.allocated = held[ExecutionType.GUARANTEED] + held[ExecutionType.OPPORTUNISTIC]
        self.unallocated = self._total - self.allocated
        self.available = self.unallocated.at_least_zero()

    def allocated_to(self, execution_type: ExecutionType) -> Resource:
        """What containers of one type hold."""
        return self._allocated[execution_type]

    def fits(self, resource: Resource) -> bool:
        """Whether that much may be allocated now. Where a dimension is overdrawn, nothing of it fits."""
        return resource.fits_in(self.available)

    @property
    def free_for_guaranteed(self) -> Resource:
        """What guaranteed containers may still have; below zero where more is held than there is."""
        return self.unallocated

    @property
    def overdrawn(self) -> Resource:
        """What is held beyond the total and has to be given back."""
        if self.unallocated is self.available:
            return _NOTHING
        return (_NOTHING - self.unallocated).at_least_zero()

    def fits_guaranteed(self, resource: Resource) -> bool:
        """Whether a guaranteed container of that size may start now."""
        return resource.fits_in(self.free_for_guaranteed.at_least_zero())

    def acquire(self, execution_type: ExecutionType, resource: Resource) -> None:
        """Allocate; the caller has asked ``fits`` or has a reason not to."""
        self._allocated[execution_type] += resource
        self._sum_up()

    def release(self, execution_type: ExecutionType, resource: Resource) -> None:
        """Give back."""
        self._allocated[execution_type] -= resource
        self._sum_up()

    def transfer(self, resource: Resource, source: ExecutionType, target: ExecutionType) -> None:
        """Count what a container holds under its new type."""
        self.release(source, resource)
        self.acquire(target, resource)


class UtilizationBasedTracker(ResourceUtilizationTracker):
    """Opportunistic containers may hold more than there is, on loan.

    A guaranteed container never waits for vcores that are lent: its weight gives it the CPU at once, and surplus
    opportunistic containers are paused when it uses them. Its memory has to be free before it starts.
    """

    @property
    def free_for_guaranteed(self) -> Resource:
        """The memory that is not allocated, and all vcores that other guaranteed containers do not hold."""
        guaranteed = self.allocated_to(ExecutionType.GUARANTEED)
        free = self.unallocated
        return Resource(free.memory, self.total.vcores - guaranteed.vcores, free.others)

    @property
    def overdrawn(self) -> Resource:
        """What guaranteed containers alone hold beyond the total: what is on loan may stay while it is idle."""
        return (self.allocated_to(ExecutionType.GUARANTEED) - self.total).at_least_zero()


class Handover:
    """Keeps what a guaranteed container frees for its successor, for at most ``hold`` seconds; 0 keeps nothing.

    Between the end of one guaranteed container and the arrival of the next lie a few milliseconds, in which the cluster
    hears of the end and allocates the successor. An opportunistic container that starts in that gap has to give way at
    once: its start, and the work of ending it, are wasted. So where guaranteed containers are known to wait, what is
    freed is kept for them.
    """

    def __init__(self, hold: float) -> None:
        self._hold = hold
        self.expects = False
        """Whether guaranteed containers are known to wait."""
        self._kept: deque[tuple[float, Resource]] = deque()

    @property
    def kept(self) -> Resource:
        """What no opportunistic container may start on."""
        if not self._kept:
            return _NOTHING
        return sum((resource for _, resource in self._kept), _NOTHING)

    def left(self, resource: Resource, now: float) -> None:
        """A guaranteed container has ended, and what it held is free."""
        if self.expects and self._hold > 0 and resource != _NOTHING:
            self._kept.append((now + self._hold, resource))

    def arrived(self, resource: Resource) -> None:
        """A successor is here: what it needs is no longer kept."""
        rest = resource
        for _ in range(len(self._kept)):
            until, kept = self._kept.popleft()
            taken = kept.lesser(rest)
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
