"""Run times of containers, and start times of waiting ones (YARN-2886; YARN always reports -1).

One algorithm serves a node, for its own queue, and a cluster, for many: running containers end one after the other,
and waiting ones start as soon as there is room. It uses only numbers, no containers and no clock.

Decisions: durations.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..records import Resource

LOOKED_AT = 32
"""How many of those that wait a node looks at one by one; the rest is extrapolated, so that an estimate costs the same
for 50 and 20,000."""

REMEMBERED = 100
"""Over how many values a mean is taken: few enough to follow a change of work."""

MOST_STEPS = 200_000
"""How often an estimate looks at a waiting container at most; it knows nothing beyond that."""


class RecentMean:
    """The mean of the last ``REMEMBERED`` values; seconds."""

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=REMEMBERED)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Add a value."""
        if len(self._values) == REMEMBERED:
            self._sum -= self._values[0]
        self._values.append(value)
        self._sum += value

    @property
    def mean(self) -> float | None:
        """The mean, None before the first value."""
        return max(self._sum, 0.0) / len(self._values) if self._values else None


class WaitStatistics:
    """The last estimates, compared with the actual waits: the errors, too long or too short, and the waits; seconds."""

    def __init__(self) -> None:
        self.errors = RecentMean()
        self.waits = RecentMean()
        self.count = 0

    def add(self, expected: float, actual: float) -> None:
        """Add the actual wait of a container, and its estimate."""
        self.errors.add(abs(expected - actual))
        self.waits.add(actual)
        self.count += 1


def remaining(expected: float, ran: float) -> float:
    """The remaining seconds of a container with the expected run time ``expected`` that has run for ``ran``.

    A container that runs longer than expected counts as about to end. One that runs more than twice as long probably
    runs for as long again as it has exceeded that, because it differs from the others.
    """
    return max(expected - ran, ran - 2 * expected, 0.0)


def whole(expected: float, ran: float) -> float:
    """The whole run time of a container that was expected to take ``expected`` seconds and has run for ``ran``.

    Where an application has ended no container yet, its others are expected to run as long: what other applications'
    containers took says less about them than what has run of it already.
    """
    return ran + remaining(expected, ran)


# -- who starts when ------------------------------------------------------------------------------------------


class Running(NamedTuple):
    """A container that holds ``resource`` and frees it after ``left``. ``tag`` belongs to the caller."""

    left: float
    resource: Resource
    tag: Any = None


class Waiting(NamedTuple):
    """A container that starts as soon as ``needed`` is free, and frees ``held`` after ``left``; None: never."""

    left: float | None
    needed: Resource
    held: Resource
    tag: Any = None


class Node(NamedTuple):
    """The free resources of a node, its running containers, and its waiting ones, in order."""

    free: Resource
    running: Sequence[Running]
    line: Sequence[Waiting]


class Pool(NamedTuple):
    """``number`` equal containers that start on the first of ``nodes`` (indices) with room."""

    number: int
    waiting: Waiting
    nodes: frozenset[int]


def expected_starts(free: Resource, running: Sequence[Running], line: Sequence[Waiting]) -> list[float]:
    """When each of ``line`` starts on one node, first come, first served; infinite for never.

    Plain numbers in one loop, and further types only for those that need some: a node does this for each container
    that comes.
    """
    memory, vcores, others = free.memory, free.vcores, free.only_others
    ends = [(left, at, size) for at, (left, size, _) in enumerate(running)]
    heapq.heapify(ends)
    number, clock = len(ends), 0.0
    starts: list[float] = []
    for left, needed, held, _ in line:
        more = needed.only_others if needed.others else None
        while (
            needed.memory > memory
            or needed.vcores > vcores
            or (more is not None and not more.fits_in(others))
        ):
            if not ends:
                return starts + [math.inf] * (len(line) - len(starts))
            clock, _, size = heapq.heappop(ends)
            memory, vcores = memory + size.memory, vcores + size.vcores
            others = others + size.only_others if size.others else others
        memory, vcores = memory - needed.memory, vcores - needed.vcores
        others = others if more is None else others - more
        starts.append(clock)
        if left is not None:
            number += 1
            heapq.heappush(ends, (clock + left, number, held))
    return starts


def future(nodes: Sequence[Node], pools: Sequence[Pool] = ()) -> Iterator[tuple[float, Any, list[Any]]]:
    """The starts, in the order of time: (when, its tag, the tags of all that ended until then).

    It ends when all have started, nothing ends any more, or MOST_STEPS are taken. When room becomes free on a node,
    its own containers start in their order, then those of the pools; one that does not fit is overtaken.
    """
    free = [(one.free.memory, one.free.vcores) for one in nodes]
    counted = [one.free.only_others for one in nodes]  # what few ask for
    shared = [([one.waiting] * one.number, True, 0, 0) for one in pools]
    queues = [
        [_queue(one.line), *(queue for queue, pool in zip(shared, pools, strict=True) if at in pool.nodes)]
        for at, one in enumerate(nodes)
    ]  # fmt: skip
    ends = [
        (left, number, at, resource, tag)
        for at, node in enumerate(nodes)
        for number, (left, resource, tag) in enumerate(node.running)
    ]
    heapq.heapify(ends)
    waiting = sum(len(one.line) for one in nodes) + sum(one.number for one in pools)
    ended: list[Any] = []
    number = steps = len(ends)
    clock = 0.0
    freed: Iterable[int] = range(len(nodes))
    while True:
        for at in freed:
            memory, vcores = free[at]
            for queue, strict, least_memory, least_vcores in queues[at]:
                place = 0
                while place < len(queue) and least_memory <= memory and least_vcores <= vcores:
                    steps += 1
                    left, needed, held, tag = queue[place]
                    others = needed.only_others if needed.others else None
                    fits = needed.memory <= memory and needed.vcores <= vcores
                    if fits and (others is None or others.fits_in(counted[at])):
                        del queue[place]
                        memory -= needed.memory
                        vcores -= needed.vcores
                        counted[at] = counted[at] if others is None else counted[at] - others
                        if left is not None:
                            number += 1
                            heapq.heappush(ends, (clock + left, number, at, held, tag))
                        waiting -= 1
                        yield clock, tag, ended
                    elif strict or steps >= MOST_STEPS:
                        break
                    else:
                        place += 1
            free[at] = memory, vcores
        if not waiting or not ends or steps >= MOST_STEPS:
            return
        clock, _, at, resource, tag = heapq.heappop(ends)
        memory, vcores = free[at]
        free[at] = memory + resource.memory, vcores + resource.vcores
        counted[at] = counted[at] + resource.only_others if resource.others else counted[at]
        ended.append(tag)
        freed = (at,)


def _queue(line: Sequence[Waiting]) -> tuple[list[Waiting], bool, int, int]:
    """The containers that wait, whether they may not be overtaken, and the least that any of them needs."""
    if not line:
        return [], False, 0, 0
    return [*line], False, min(one.needed.memory for one in line), min(one.needed.vcores for one in line)
