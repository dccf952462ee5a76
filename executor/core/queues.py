"""Who waits at this node, and who of those starts next. Both queues know containers and no clock.

A guaranteed container waits first in, first out. An opportunistic one may be overtaken by later ones that fit
where it does not, but only so often (design decision 9); a bound of 0 is YARN's strict order. Paused
containers wait in the same order of arrival as queued ones, but are counted apart (YARN puts them at the end,
and lets them fill the queue).

A third order, or another meaning of "full", is another class with the methods of OpportunisticQueue.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterator

from ..records import ContainerState, Resource
from .container import Container

# OrderedDict and not dict: the first key of a dict from whose front much was removed is found in linear time.


class ContainerQueue:
    """Containers in the order of their ``sequence``. Adding at the end and removing anywhere take constant
    time.

    What a container needs may not change while it is in here: it is taken out, changed and put back.
    """

    def __init__(self) -> None:
        self._line: OrderedDict[str, Container] = OrderedDict()
        self._needs: dict[str, Resource] = {}
        self._needed = Resource()

    def __len__(self) -> int:
        return len(self._line)

    def __contains__(self, container: Container) -> bool:
        return container.container_id in self._line

    def __iter__(self) -> Iterator[Container]:
        return iter(self._line.values())

    @property
    def head(self) -> Container | None:
        """The one that has waited longest."""
        return next(iter(self._line.values()), None)

    @property
    def needed(self) -> Resource:
        """What all of them need together."""
        return self._needed

    def add(self, container: Container) -> None:
        """Put it in its place. One that comes back into the middle, which is rare, costs a sort."""
        last = next(reversed(self._line.values()), None)
        self._line[container.container_id] = container
        self._needs[container.container_id] = container.needed
        self._needed += container.needed
        if last is not None and last.sequence > container.sequence:
            self._line = OrderedDict(
                (other.container_id, other) for other in sorted(self._line.values(), key=lambda c: c.sequence)
            )

    def remove(self, container: Container) -> None:
        """Take it out. Raises KeyError if it is not in here."""
        del self._line[container.container_id]
        self._needed -= self._needs.pop(container.container_id)

    def position(self, container: Container) -> int:
        """Its place, 1 for the head, 0 if it is not in here. Quick for the last one, which has just come."""
        if container is next(reversed(self._line.values()), None):
            return len(self._line)
        for place, other in enumerate(self, start=1):
            if other is container:
                return place
        return 0

    def validate(self) -> None:
        """Assert order and sums."""
        sequences = [container.sequence for container in self]
        assert sequences == sorted(sequences), f"out of order: {sequences}"
        assert self._line.keys() == self._needs.keys(), "a need without its container, or the reverse"
        assert self._needed == sum((c.needed for c in self), Resource()), "a need changed while queued"


class OpportunisticQueue:
    """Opportunistic containers that wait, queued or paused, with bounded overtaking.

    How often one was overtaken is the number of later arrivals that started: so only *their* sequence numbers
    are kept, and nothing is counted up in each of a thousand waiting containers whenever one starts. Queued
    containers are also kept by what they need, so that finding the first that fits takes as long as there are
    different sizes.
    """

    def __init__(self, max_overtakes: int) -> None:
        self._max_overtakes = max_overtakes
        self._queued = ContainerQueue()
        self._by_need: dict[Resource, ContainerQueue] = {}
        self._paused: dict[str, Container] = {}
        self._overtakers: list[int] = []

    def __len__(self) -> int:
        """The number of queued ones: paused ones take no place."""
        return len(self._queued)

    def __contains__(self, container: Container) -> bool:
        return container in self._queued or container.container_id in self._paused

    def __iter__(self) -> Iterator[Container]:
        """The queued ones in order of arrival."""
        return iter(self._queued)

    @property
    def paused(self) -> list[Container]:
        """The paused ones that wait to be resumed, in order of arrival."""
        return sorted(self._paused.values(), key=lambda container: container.sequence)

    def position(self, container: Container) -> int:
        """Its place among the queued ones, 1 for the head, 0 if it is not queued."""
        return self._queued.position(container) if container in self._queued else 0

    def add(self, container: Container) -> None:
        """Let it wait, in its place by arrival."""
        if container.state is ContainerState.PAUSED:
            container.overtaken_before = 0
            container.overtaken_before = self.overtaken(container)
            self._paused[container.container_id] = container
            return
        self._queued.add(container)
        self._by_need.setdefault(container.needed, ContainerQueue()).add(container)

    def remove(self, container: Container) -> None:
        """Let it wait no longer. Raises KeyError if it does not."""
        if self._paused.pop(container.container_id, None) is not None:
            return
        self._queued.remove(container)
        same = self._by_need[container.needed]
        same.remove(container)
        if not same:
            del self._by_need[container.needed]

    def next_fitting(self, spare: Resource) -> Container | None:
        """The first in order of arrival that fits in ``spare`` and may start, None for none."""
        fitting = [container for container in self._paused.values() if container.needed.fits_in(spare)]
        for need, same in self._by_need.items():
            if need.fits_in(spare) and same.head is not None:
                fitting.append(same.head)
        first = min(fitting, key=lambda container: container.sequence, default=None)
        if first is None or self._bars(first):
            return None
        return first

    def started(self, container: Container) -> None:
        """Note that it runs, and so has overtaken all earlier ones that still wait. It is not in here any
        more."""
        waiting = [other.sequence for other in self._paused.values()]
        if self._queued.head is not None:
            waiting.append(self._queued.head.sequence)
        if not waiting:
            self._overtakers.clear()
            return
        del self._overtakers[: bisect_left(self._overtakers, min(waiting))]
        if container.sequence > min(waiting):
            insort(self._overtakers, container.sequence)

    def overtaken(self, container: Container) -> int:
        """How many later arrivals started while it waited."""
        later = len(self._overtakers) - bisect_right(self._overtakers, container.sequence)
        return later - container.overtaken_before

    def _bars(self, container: Container) -> bool:
        """Whether an earlier one was overtaken so often that this one may not start before it.

        Of the queued ones the head was overtaken most, since whoever overtakes another overtakes the head.
        """
        earlier = list(self._paused.values())
        if self._queued.head is not None:
            earlier.append(self._queued.head)
        return any(
            other.sequence < container.sequence and self.overtaken(other) >= self._max_overtakes
            for other in earlier
        )

    def validate(self) -> None:
        """Assert that the views of the queue agree."""
        self._queued.validate()
        assert all(container.state is ContainerState.SCHEDULED for container in self._queued)
        assert all(container.state is ContainerState.PAUSED for container in self._paused.values())
        grouped = 0
        for need, same in self._by_need.items():
            same.validate()
            assert len(same) > 0 and all(c in self._queued and c.needed == need for c in same), need
            grouped += len(same)
        assert grouped == len(self._queued), "a queued container is missing from its size"
        assert self._overtakers == sorted(self._overtakers)
