"""What is allocated on this node, what is measured, and what fits.

The first is allocation-based, like YARN's ``AllocationBasedResourceUtilizationTracker``: a container counts with
what it was promised, whether it uses that or not. The measured use is kept beside it, for those who look. The second
lends opportunistic containers what is promised and not used (YARN-1011); how much that is,
``pressure_actions.py`` finds out. Virtual memory is not tracked: there is no such limit here.
"""

from __future__ import annotations

from ..records import ExecutionType, Resource, ResourceUtilization


class ResourceUtilizationTracker:
    """The node's book of resources. ``total`` is what all containers together may have."""

    def __init__(self, total: Resource) -> None:
        self.total = total
        self.measured = ResourceUtilization()
        self._allocated = dict.fromkeys(ExecutionType, Resource())

    @property
    def allocated(self) -> Resource:
        """What containers of both types hold."""
        return self._allocated[ExecutionType.GUARANTEED] + self._allocated[ExecutionType.OPPORTUNISTIC]

    def allocated_to(self, execution_type: ExecutionType) -> Resource:
        """What containers of one type hold."""
        return self._allocated[execution_type]

    @property
    def unallocated(self) -> Resource:
        """The total less what is allocated; below zero where a resize or a shrunken node went beyond the
        total."""
        return self.total - self.allocated

    @property
    def available(self) -> Resource:
        """What may be allocated, never below zero."""
        return self.unallocated.at_least_zero()

    def fits(self, resource: Resource) -> bool:
        """Whether that much may be allocated now. Nothing of a dimension fits even where that one is
        overdrawn."""
        return resource.fits_in(self.available)

    @property
    def free_for_guaranteed(self) -> Resource:
        """What guaranteed containers may still have; below zero where they, or others in their stead, hold more
        than there is."""
        return self.unallocated

    @property
    def overdrawn(self) -> Resource:
        """What is held beyond the total and has to be given back."""
        return (Resource() - self.unallocated).at_least_zero()

    def fits_guaranteed(self, resource: Resource) -> bool:
        """Whether a guaranteed container of that size may start now."""
        return resource.fits_in(self.free_for_guaranteed.at_least_zero())

    def acquire(self, execution_type: ExecutionType, resource: Resource) -> None:
        """Allocate; the caller has asked ``fits`` or has a reason not to."""
        self._allocated[execution_type] += resource

    def release(self, execution_type: ExecutionType, resource: Resource) -> None:
        """Give back."""
        self._allocated[execution_type] -= resource

    def transfer(self, resource: Resource, source: ExecutionType, target: ExecutionType) -> None:
        """Count what a container holds under its new type."""
        self.release(source, resource)
        self.acquire(target, resource)


class UtilizationBasedTracker(ResourceUtilizationTracker):
    """Opportunistic containers may hold more than there is, on loan.

    A guaranteed container never waits for vcores that others have on loan: its weight gives it the CPU at once,
    and whoever is too many is paused when it uses them. Its memory has to be free before it starts.
    """

    @property
    def free_for_guaranteed(self) -> Resource:
        """Memory as in the book; of the vcores all that other guaranteed containers do not hold."""
        guaranteed = self.allocated_to(ExecutionType.GUARANTEED)
        return Resource(self.unallocated.memory, self.total.vcores - guaranteed.vcores)

    @property
    def overdrawn(self) -> Resource:
        """What guaranteed containers alone hold beyond the total: what is on loan may stay while it is idle."""
        return (self.allocated_to(ExecutionType.GUARANTEED) - self.total).at_least_zero()
