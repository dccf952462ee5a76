"""What the settings choose between, as objects that are made once: who is let in, and what a pause gives back.

The larger choices are beside what they choose: ``queue_order.py`` and ``reclaim.py``.
"""

from __future__ import annotations

from ..records import Resource
from ..settings import ExecutorSettings
from .container import Container

PAUSED_SLACK = 4
"""MiB that a paused container is left with beyond what it was last seen to use."""

MIB = 1 << 20


class AdmissionByQueueLength:
    """Whoever starts at once, and as many more as the queue holds. ``all_queue`` is YARN's rule: each needs a place
    in the queue, also one that could start at once."""

    def __init__(self, capacity: int, *, all_queue: bool) -> None:
        self.capacity = capacity
        self._all_queue = all_queue

    def refuses(self, queued: int, needed: Resource, total: Resource) -> bool:
        """Whether one is refused that finds ``queued`` in the queue. ``needed`` is what it, and all that run and
        wait, need together."""
        return self._all_queue and queued >= self.capacity


class AdmissionByResources(AdmissionByQueueLength):
    """Whoever fits beside all that runs and waits."""

    def __init__(self) -> None:
        super().__init__(0, all_queue=False)

    def refuses(self, queued: int, needed: Resource, total: Resource) -> bool:
        """Whether all of them do not fit on the node."""
        return not needed.fits_in(total)


def admission_of(settings: ExecutorSettings) -> AdmissionByQueueLength:
    """Who is let in, by ``opportunistic-containers-queue-policy``."""
    if settings.admission == "BY_RESOURCES":
        return AdmissionByResources()
    return AdmissionByQueueLength(settings.max_queue_length, all_queue=settings.all_pass_through_queue)


class PausedMemory:
    """What becomes of a paused container's memory. Here all of it is kept."""

    takes_back = False
    """Whether the kernel is told to take back what it can."""

    def expected(self, container: Container) -> int:
        """How much memory, in MiB, pausing a container would give back."""
        return 0

    def counted(self, container: Container, expected: int) -> int:
        """How much counts as on its way back of a pause from which ``expected`` is wanted."""
        return expected

    def kept(self, held: int, left: int) -> int:
        """How much it counts with from now on. It held so much, and was left with ``left``, -1 for all."""
        return left if 0 <= left < held else held


class ReclaimedMemory(PausedMemory):
    """The kernel takes back what it can, by what a container was last seen to use; the rest is kept."""

    takes_back = True

    def expected(self, container: Container) -> int:
        """What it does not use."""
        if container.unreclaimable or container.usage.memory_bytes <= 0:
            return 0
        used = -(-container.usage.memory_bytes // MIB)
        return max(0, container.allocated.memory - used - PAUSED_SLACK)


class ReleasedMemory(PausedMemory):
    """YARN's rule: all of it counts as given back, although nothing was freed."""

    def expected(self, container: Container) -> int:
        """All."""
        return container.allocated.memory

    def counted(self, container: Container, expected: int) -> int:
        """All, also where none is wanted."""
        return container.allocated.memory

    def kept(self, held: int, left: int) -> int:
        """None."""
        return 0


def paused_memory_of(settings: ExecutorSettings, *, cgroups_limit_memory: bool) -> PausedMemory:
    """What a pause gives back, by ``paused-memory``. Where no cgroup holds memory to a limit, none is reclaimed."""
    if settings.paused_memory == "release":
        return ReleasedMemory()
    reclaims = settings.paused_memory == "reclaim" and cgroups_limit_memory
    return ReclaimedMemory() if reclaims else PausedMemory()
