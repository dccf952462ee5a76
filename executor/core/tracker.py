"""Allocated and reserved resources of this node, and what fits.

``ResourceUtilizationTracker`` counts as YARN's ``AllocationBasedResourceUtilizationTracker`` does: a container counts
with its allocation, whether it uses that or not. ``UtilizationBasedTracker`` lends allocated but idle resources to
opportunistic containers (YARN-1011); ``pressure_actions.py`` computes the amount. Virtual memory is not counted.
``Handover`` holds the resources of an ended guaranteed container for its successor.

Decisions: pause-keeps-memory.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ..reasons import Reason, ReasonKind
from ..records import ExecutionType, Resource

_NOTHING = Resource()
SHORT = Reason(ReasonKind.SHORT)


class Room(NamedTuple):
    """The resources on which opportunistic containers may start: ``left``.

    ``because`` is the reason of the last rule that took some of them, and ``before`` what was left before that rule:
    so each refusal has the reason of the first rule that left too little.
    """

    left: Resource
    because: Reason = SHORT
    before: Room | None = None

    def less(self, claim: Resource, because: Reason) -> Room:
        """The room without what another one claims, for this reason."""
        if claim == _NOTHING:
            return self
        return Room((self.left - claim).at_least_zero(), because, self)

    def refusal(self, needed: Resource) -> Reason:
        """Why a container does not start that does not fit."""
        room = self
        while room.before is not None and not needed.fits_in(room.before.left):
            room = room.before
        return room.because


class ResourceUtilizationTracker:
    """The allocations of a node. ``total`` is the node's resources."""

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
        """The resources of the node."""
        return self._total

    @total.setter
    def total(self, total: Resource) -> None:
        """Change the size of the node."""
        self._total = total
        self._sum_up()

    def _sum_up(self) -> None:
        """Sums are asked for more often than they change."""
        held = self._allocated
        self.allocated = held[ExecutionType.GUARANTEED] + held[ExecutionType.OPPORTUNISTIC]
        self.unallocated = self._total - self.allocated
        self.available = self.unallocated.at_least_zero()

    def allocated_to(self, execution_type: ExecutionType) -> Resource:
        """The allocation of one execution type."""
        return self._allocated[execution_type]

    def fits(self, resource: Resource) -> bool:
        """Whether that amount can be allocated now. If a dimension is overdrawn, nothing of it fits."""
        return resource.fits_in(self.available)

    @property
    def free_for_guaranteed(self) -> Resource:
        """The resources free for guaranteed containers; below zero if more is held than the total."""
        return self.unallocated

    @property
    def overdrawn(self) -> Resource:
        """The allocation beyond the total, which must be freed."""
        if self.unallocated is self.available:
            return _NOTHING
        return (_NOTHING - self.unallocated).at_least_zero()

    def fits_guaranteed(self, resource: Resource) -> bool:
        """Whether a guaranteed container of that size may start now."""
        return resource.fits_in(self.free_for_guaranteed.at_least_zero())

    def acquire(self, execution_type: ExecutionType, resource: Resource) -> None:
        """Allocate; the caller has checked ``fits``, or may exceed the total."""
        self._allocated[execution_type] += resource
        self._sum_up()

    def release(self, execution_type: ExecutionType, resource: Resource) -> None:
        """Release."""
        self._allocated[execution_type] -= resource
        self._sum_up()

    def transfer(self, resource: Resource, source: ExecutionType, target: ExecutionType) -> None:
        """Count what a container holds under its new type."""
        self.release(source, resource)
        self.acquire(target, resource)


class UtilizationBasedTracker(ResourceUtilizationTracker):
    """Opportunistic containers may borrow resources, so more than the total is allocated.

    A guaranteed container never waits for vcores that are lent: its weight gives it the CPU at once, and surplus
    opportunistic containers are paused when it uses them. Its memory has to be free before it starts.
    """

    @property
    def free_for_guaranteed(self) -> Resource:
        """The unallocated memory, and all vcores that guaranteed containers do not hold."""
        guaranteed = self.allocated_to(ExecutionType.GUARANTEED)
        free = self.unallocated
        return Resource(free.memory, self.total.vcores - guaranteed.vcores, free.others)

    @property
    def overdrawn(self) -> Resource:
        """The allocation of guaranteed containers beyond the total: idle resources may stay lent."""
        return (self.allocated_to(ExecutionType.GUARANTEED) - self.total).at_least_zero()


class Handover:
    """Holds the resources that a guaranteed container frees for its successor, for at most ``hold`` seconds; 0 holds
    nothing.

    Between the end of one guaranteed container and the arrival of the next lie a few milliseconds, in which the
    cluster learns of the end and allocates the successor. An opportunistic container that starts in that gap is
    preempted at once, which wastes its start and its end. So freed resources are held if guaranteed containers are
    known to wait.
    """

    def __init__(self, hold: float) -> None:
        self._hold = hold
        self.expects = False
        """Whether guaranteed containers are known to wait."""
        self._kept: deque[tuple[float, Resource]] = deque()

    @property
    def holds(self) -> bool:
        """Whether any resources are held."""
        return bool(self._kept)

    @property
    def kept(self) -> Resource:
        """The held resources, on which no opportunistic container may start."""
        return sum((resource for _, resource in self._kept), _NOTHING)

    def left(self, resource: Resource, now: float) -> None:
        """A guaranteed container has ended, and its resources are free."""
        if self.expects and self._hold > 0 and resource != _NOTHING:
            self._kept.append((now + self._hold, resource))

    def arrived(self, resource: Resource) -> None:
        """A successor has arrived: its resources are no longer held."""
        rest = resource
        for _ in range(len(self._kept)):
            until, kept = self._kept.popleft()
            taken = kept.lesser(rest)
            rest -= taken
            if kept != taken:
                self._kept.append((until, kept - taken))

    def next_deadline(self) -> float | None:
        """When a hold expires, None for never."""
        return self._kept[0][0] if self._kept else None

    def expired(self, now: float) -> bool:
        """Drop expired holds; return whether there were any."""
        before = len(self._kept)
        while self._kept and self._kept[0][0] <= now:
            self._kept.popleft()
        return len(self._kept) < before
