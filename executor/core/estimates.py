"""Run times of containers, and start times of waiting ones (YARN-2886; YARN always reports -1).

This estimate goes with each heartbeat, so it is rough: running containers end one after the other, and waiting ones
start in order as soon as there is room. It uses only numbers, no containers and no clock. Who asks when a container
starts gets a better answer, from a copy of the node.

Decisions: durations.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from ..records import Resource

LOOKED_AT = 32
"""How many of those that wait a node looks at one by one; the rest is extrapolated, so that an estimate costs the same
for 50 and 20,000."""

REMEMBERED = 100
"""Over how many values a mean is taken: few enough to follow a change of work."""


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
    """A container that holds ``resource`` and frees it after ``left``."""

    left: float
    resource: Resource


class Waiting(NamedTuple):
    """A container that starts as soon as ``needed`` is free, and frees ``held`` after ``left``; None: never."""

    left: float | None
    needed: Resource
    held: Resource


def expected_starts(free: Resource, running: Sequence[Running], line: Sequence[Waiting]) -> list[float]:
    """When each of ``line`` starts on one node, first come, first served; infinite for never.

    Plain numbers in one loop, and further types only for those that need some: a node does this for each container
    that comes.
    """
    memory, vcores, others = free.memory, free.vcores, free.only_others
    ends = [(left, at, size) for at, (left, size) in enumerate(running)]
    heapq.heapify(ends)
    number, clock = len(ends), 0.0
    starts: list[float] = []
    for left, needed, held in line:
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
