"""The queues of one node: their order, the next container to start, and admission (YARN-5886).

Guaranteed containers queue first in, first out. An opportunistic container may be overtaken by later ones that fit
where it does not, or that the order (YARN-5886) prefers, within bounds of number and time; a bound of 0 is YARN's
strict order. Paused containers go before all that arrived later, and are counted apart (YARN puts them at the end,
and lets them fill the queue). The queues know containers, but no clock.

Decisions: bounded-overtaking.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

from ..reasons import Reason, ReasonKind
from ..records import ContainerState, Resource
from ..settings import ExecutorSettings
from .applications import Applications
from .container import Container
from .succession import Succession
from .tracker import Room


class QueueOrder:
    """First in, first out; the base of the other orders.

    An order sorts by the application's priority, then by urgency, and by arrival among equals. ``OpportunisticQueue``
    bounds overtaking for every order.
    """

    overtakes = True
    """Whether later arrivals may start before the first that waits."""

    def __init__(self, applications: Applications) -> None:
        self._applications = applications

    def kind(self, container: Container) -> Hashable:
        """Queued containers of one kind are equally urgent at any moment; the kind of a container never changes."""
        return None

    def urgency(self, container: Container) -> float:
        """The smallest goes first. It may change with every event."""
        return 0.0

    def place(self, container: Container) -> tuple[float, float]:
        """The smallest goes first: by the priority of its application, then by urgency."""
        return -container.spec.application_priority, self.urgency(container)


class StrictOrder(QueueOrder):
    """YARN's FIFO: no overtaking."""

    overtakes = False

    def place(self, container: Container) -> tuple[float, float]:
        """Equal for all: only arrival counts."""
        return 0.0, 0.0


class ShortestFirst(QueueOrder):
    """The shortest expected (remaining) run time first; unknown ones last."""

    def kind(self, container: Container) -> Hashable:
        """The duration that its master declared, else its application."""
        hint = container.spec.duration_hint_ms
        return hint if hint > 0 else container.spec.application_id

    def urgency(self, container: Container) -> float:
        """The seconds left of its expected running time."""
        expected = self._applications.expected_seconds(container)
        return math.inf if expected is None else max(expected - container.ran, 0.0)


class LeastRemainingTasks(QueueOrder):
    """Containers of the application with the fewest unfinished containers here first."""

    def kind(self, container: Container) -> Hashable:
        """The container's application."""
        return container.spec.application_id

    def urgency(self, container: Container) -> float:
        """The number of containers of its application that have not ended here."""
        return float(self._applications.unfinished(container.spec.application_id))


ORDERS: Mapping[str, type[QueueOrder]] = {
    "FIFO_BACKFILL": QueueOrder,
    "FIFO": StrictOrder,
    "SHORTEST_FIRST": ShortestFirst,
    "LEAST_REMAINING_TASKS": LeastRemainingTasks,
}
"""By the values of ``yopp.nodemanager.opportunistic-queue.policy``."""


class Admission:
    """Accepts containers that start at once, and as many more as the queue holds (``capacity``).

    With ``all_queue``, YARN's rule, each needs a place in the queue, even one that could start at once.
    """

    def __init__(self, capacity: int, *, all_queue: bool = False) -> None:
        self.capacity = capacity
        self._all_queue = all_queue

    def refuses(self, queued: int, needed: Resource, total: Resource) -> bool:
        """Whether a container is refused that finds ``queued`` in the queue.

        ``needed`` is what it needs together with all that run and wait.
        """
        return self._all_queue and queued >= self.capacity


class AdmissionByResources(Admission):
    """Accepts containers that fit beside all that run and wait."""

    def refuses(self, queued: int, needed: Resource, total: Resource) -> bool:
        """Whether all of them together do not fit on the node."""
        return not needed.fits_in(total)


def admission_of(settings: ExecutorSettings) -> Admission:
    """The admission policy, by ``opportunistic-containers-queue-policy``."""
    if settings.admission == "BY_RESOURCES":
        return AdmissionByResources(0)
    return Admission(settings.max_queue_length, all_queue=settings.all_pass_through_queue)


# OrderedDict and not dict: finding the first key of a dict takes linear time after many removals from its front.


class ContainerQueue:
    """Containers in the order of their ``sequence``. Adding at the end and removing anywhere take constant time.

    The needs of a queued container must not change: it is removed, changed and added again.
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
        """The container that has waited longest."""
        return next(iter(self._line.values()), None)

    @property
    def needed(self) -> Resource:
        """The resources that all of them need together."""
        return self._needed

    def add(self, container: Container) -> None:
        """Insert it in order. An insertion in the middle, which is rare, is linear in the distance to the end."""
        last = next(reversed(self._line.values()), None)
        self._line[container.container_id] = container
        self._needs[container.container_id] = needed = container.needed
        self._needed += needed
        if last is not None and last.sequence > container.sequence:
            self._move_into_place(container)

    def _move_into_place(self, container: Container) -> None:
        """Move the last one, which arrived earlier than the one before it, to where it belongs."""
        line, place = self._line, container.sequence
        later: list[str] = []
        earlier: list[str] = []
        from_the_end = reversed(line.values())
        next(from_the_end)
        for last, first in zip(from_the_end, line.values(), strict=False):
            if last.sequence < place:
                for other in reversed(later):
                    line.move_to_end(other)
                return
            if first.sequence > place:
                line.move_to_end(container.container_id, last=False)
                for other in reversed(earlier):
                    line.move_to_end(other, last=False)
                return
            later.append(last.container_id)
            earlier.append(first.container_id)

    def remove(self, container: Container) -> None:
        """Remove it. Raises KeyError if it is not in the queue."""
        del self._line[container.container_id]
        self._needed -= self._needs.pop(container.container_id)

    def copy(self) -> ContainerQueue:
        """A queue of the same containers."""
        made = ContainerQueue()
        made._line, made._needs, made._needed = self._line.copy(), self._needs.copy(), self._needed
        return made

    def validate(self) -> None:
        """Assert order and sums."""
        sequences = [container.sequence for container in self]
        assert sequences == sorted(sequences), f"out of order: {sequences}"
        assert self._line.keys() == self._needs.keys(), "a need without its container, or the reverse"
        assert self._needed == sum((c.needed for c in self), Resource()), "a need changed while queued"


def _arrival(container: Container) -> int:
    return container.sequence


class OpportunisticQueue:
    """Opportunistic containers that wait, queued or paused, with bounded overtaking.

    How often a container was overtaken is the number of later arrivals that started. So only *their* sequence numbers
    are kept, and nothing is counted up in a thousand waiting containers whenever one starts. Queued containers are also
    grouped by what they need and by their kind, so that finding the most urgent that fits takes one step a group.

    ``max_overtakes`` is how often a container may be overtaken, ``max_wait_ms`` for how long (0: for ever).
    ``counts_paused``: paused containers take places.
    """

    def __init__(
        self, max_overtakes: int, order: QueueOrder, *, max_wait_ms: int = 0, counts_paused: bool = False
    ) -> None:
        self._max_overtakes = max_overtakes
        self._max_wait_ms = max_wait_ms
        self._order = order
        self._counts_paused = counts_paused
        self._has_kinds = type(order).kind is not QueueOrder.kind
        self._queued = ContainerQueue()
        self._alike: dict[tuple[Resource, int, Hashable], ContainerQueue] = {}
        self._paused: dict[str, Container] = {}
        self._overtakers: list[int] = []

    def __len__(self) -> int:
        """The number of places that are taken."""
        return len(self._queued) + (len(self._paused) if self._counts_paused else 0)

    @property
    def all_alike(self) -> bool:
        """Whether there is no choice among those that wait: none is paused, and all need as much and are as urgent."""
        return len(self._alike) <= 1 and not self._paused

    @property
    def waits(self) -> bool:
        """Whether anything is queued or paused here."""
        return bool(self._queued or self._paused)

    def __contains__(self, container: Container) -> bool:
        return container in self._queued or container.container_id in self._paused

    def __iter__(self) -> Iterator[Container]:
        """The queued ones in order of arrival."""
        return iter(self._queued)

    @property
    def paused(self) -> list[Container]:
        """The paused ones that wait to be resumed, in order of arrival."""
        return sorted(self._paused.values(), key=lambda container: container.sequence)

    @property
    def queued_needed(self) -> Resource:
        """The resources that the queued containers ask for together."""
        return self._queued.needed

    @property
    def needed(self) -> Resource:
        """The resources that all containers need together to run."""
        if not self._paused:
            return self._queued.needed
        return sum((container.needed for container in self._paused.values()), self._queued.needed)

    def in_order(self, now_ms: int) -> list[Container]:
        """All that wait, queued and paused, in the order in which they start if there is room for each in turn."""
        every = [*self._paused.values(), *self._queued]
        if len({self._order.place(one) for one in self._firsts()}) <= 1:
            return sorted(every, key=lambda one: one.sequence)
        head = self._queued.head
        bounded = self._paused or self._not_to_be_overtaken(now_ms)
        if head is not None and not bounded and self.overtaken(head) + len(every) <= self._max_overtakes:
            return sorted(every, key=self._rank)
        rest, room, line = self._copy(), Room(self.needed), []
        while isinstance(first := rest.next_fitting(room, now_ms), Container):
            rest.remove(first)
            rest.started(first)
            line.append(first)
        return line

    def by_rank(self) -> Iterator[Container]:
        """The same without the bounds of overtaking, one after the other: the first cost no more in a long queue."""
        if self.all_alike:
            return iter(self._queued)
        lines: list[Iterable[Container]] = [
            sorted(self._paused.values(), key=self._rank),
            *self._alike.values(),
        ]
        return heapq.merge(*lines, key=self._rank)

    def before(self, container: Container | None) -> Iterator[Container]:
        """Those of ``by_rank`` that are before a container which comes now; None: all."""
        if container is None or self._are_like(container):
            return self.by_rank()
        place = self._order.place(container)
        return takewhile(lambda one: self._order.place(one) <= place, self.by_rank())

    def ahead_of(self, container: Container | None) -> int:
        """How many these are."""
        if container is None or self._are_like(container):
            return len(self._queued) + len(self._paused)
        place = self._order.place(container)
        ahead = (len(same) for same in self._alike.values() if self._order.place(next(iter(same))) <= place)
        return sum(ahead) + sum(self._order.place(one) <= place for one in self._paused.values())

    def _are_like(self, container: Container) -> bool:
        """Whether all that wait are queued, and as urgent as that one."""
        if self._paused or len(self._alike) > 1:
            return False
        first = self._queued.head
        return first is None or self.are_equally_urgent(first, container)

    def are_equally_urgent(self, one: Container, other: Container) -> bool:
        """Whether neither of two containers goes before the other at any moment, except by arrival."""
        same = one.spec.application_priority == other.spec.application_priority
        return same and (not self._has_kinds or self._order.kind(one) == self._order.kind(other))

    def _firsts(self) -> Iterator[Container]:
        """The paused containers, and the first one of each kind of queued ones."""
        yield from self._paused.values()
        for same in self._alike.values():
            if same.head is not None:
                yield same.head

    def _copy(self) -> OpportunisticQueue:
        made = OpportunisticQueue(
            self._max_overtakes, self._order, max_wait_ms=self._max_wait_ms, counts_paused=self._counts_paused
        )
        made._queued, made._paused = self._queued.copy(), self._paused.copy()
        made._alike = {kind: same.copy() for kind, same in self._alike.items()}
        made._overtakers = self._overtakers.copy()
        return made

    def add(self, container: Container) -> None:
        """Add it, in its place by arrival."""
        is_paused = container.state is ContainerState.PAUSED
        if (
            is_paused or container.spec.waiting_since_ms
        ):  # what started while it did not wait has not overtaken it
            container.overtaken_before = self._started_after(container)
        if is_paused:
            self._paused[container.container_id] = container
            return
        self._queued.add(container)
        self._alike.setdefault(self.kind(container), ContainerQueue()).add(container)

    def reprioritise(self, container: Container, priority: int) -> None:
        """Change its application's priority. It keeps its arrival, and how often it was overtaken."""
        queued = container in self._queued
        if queued:
            self._leave_kind(container)
        container.change(application_priority=priority)
        if queued:
            self._alike.setdefault(self.kind(container), ContainerQueue()).add(container)

    def remove(self, container: Container) -> None:
        """Remove it. Raises KeyError if it is not in the queue."""
        if self._paused.pop(container.container_id, None) is not None:
            return
        self._queued.remove(container)
        self._leave_kind(container)

    def _leave_kind(self, container: Container) -> None:
        kind = self.kind(container)
        same = self._alike[kind]
        same.remove(container)
        if not same:
            del self._alike[kind]

    def next_alike(self, succession: Succession) -> Container | None:
        """The first by arrival that does not follow another one, for the case that all are alike."""
        return next((one for one in self._queued if one not in succession), None)

    def next_fitting(self, room: Room, now_ms: int, of: Container | None = None) -> Container | Reason:
        """The most urgent that fits in ``room`` and may start, else the reason why none may. ``now_ms`` is epoch
        milliseconds. ``of``: this one, if it may start, whoever is more urgent.
        """
        spare = room.left
        if of is None and len(self._alike) == 1 and not self._paused:  # the first by arrival overtakes nobody
            first = self._queued.head
            return first if first is not None and first.needed.fits_in(spare) else room.because
        fitting = [container for container in self._paused.values() if container.needed.fits_in(spare)]
        resumes = min(fitting, key=_arrival, default=None)
        if of is not None:
            fitting = [of] if of.needed.fits_in(spare) else []
        else:
            for (need, _, _), same in self._alike.items():
                if need.fits_in(spare) and same.head is not None:
                    fitting.append(same.head)
        if not fitting:
            return room.because if of is None else room.refusal(of.needed)
        blocking = bounds = self._not_to_be_overtaken(now_ms)
        oldest = min(bounds, key=_arrival, default=None)
        lacks = (oldest.needed - spare).at_least_zero() if oldest is not None else Resource()
        # It may wait for the end of a paused one, which keeps its memory and GPUs.
        keepers = [one for one in fitting if one.allocated.lesser(lacks) != Resource()]
        if any(waiting.needed.others for waiting in bounds):
            fitting = [one for one in fitting if one in keepers or not self._delays_any(one, bounds, spare)]
            bounds = []
        if resumes is not None:
            bounds, blocking = [*bounds, resumes], [*blocking, resumes]
        last = min(bounds, key=_arrival, default=None)
        allowed = [one for one in fitting if last is None or one.sequence <= last.sequence or one in keepers]
        if not allowed:
            first = min(blocking, key=_arrival)
            return Reason(ReasonKind.OVERTAKEN, by=(first.container_id,), number=self.overtaken(first))
        return min(allowed, key=self._rank)

    @staticmethod
    def _delays_any(container: Container, bounds: Sequence[Container], spare: Resource) -> bool:
        """Whether it would overtake one of ``bounds`` that waits for some of what it takes."""
        return any(
            waiting.sequence < container.sequence and container.needed.delays(waiting.needed, spare)
            for waiting in bounds
        )

    def started(self, container: Container) -> None:
        """Remove a container that was started: it has overtaken all earlier ones that still wait."""
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
        return self._started_after(container) - container.overtaken_before

    def _started_after(self, container: Container) -> int:
        return len(self._overtakers) - bisect_right(self._overtakers, container.sequence)

    def kind(self, container: Container) -> tuple[Resource, int, Hashable]:
        """Those of one kind need the same, and are equally urgent at any moment."""
        return container.needed, container.spec.application_priority, self._order.kind(container)

    def _rank(self, container: Container) -> tuple[tuple[float, float], int]:
        return self._order.place(container), container.sequence

    def _not_to_be_overtaken(self, now_ms: int) -> list[Container]:
        """The containers that must not be overtaken any more, as far as that matters.

        The head has waited longest and was overtaken most, since a container that overtakes another overtakes the
        head, too. The exceptions are the few that came late with an older claim, and one that waits for a GPU or the
        like, which others that take none may overtake for ever.
        """
        earliest = list(self._paused.values())
        for queued in self._queued:
            earliest.append(queued)
            if not queued.overtaken_before and not queued.needed.others:
                break
        return [one for one in earliest if self._is_at_its_bound(one, now_ms)]

    def _is_at_its_bound(self, container: Container, now_ms: int) -> bool:
        if self.overtaken(container) >= self._max_overtakes:
            return True
        since = container.paused_at_ms or container.spec.waiting_since_ms or container.queued_at_ms
        return 0 < self._max_wait_ms <= now_ms - since

    def validate(self) -> None:
        """Assert that the views of the queue agree."""
        self._queued.validate()
        assert all(container.state is ContainerState.SCHEDULED for container in self._queued)
        assert all(container.state is ContainerState.PAUSED for container in self._paused.values())
        grouped = 0
        for kind, same in self._alike.items():
            same.validate()
            assert len(same) > 0 and all(c in self._queued and self.kind(c) == kind for c in same), kind
            grouped += len(same)
        assert grouped == len(self._queued), "a queued container is missing from its kind"
        assert self._overtakers == sorted(self._overtakers)
