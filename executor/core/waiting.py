"""How long queued containers will wait: estimated from how long containers ran, and held against how long
they did wait (YARN-2886; YARN reports -1 for ever, yarn-gaps G6). Knows figures only, neither containers nor
a clock.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..records import Resource

LOOKED_AT = 32
"""How many of the waiting ones are looked at one by one; for those behind them the rest is extrapolated, so
that an estimate costs the same for 50 and 20,000."""

REMEMBERED = 100
"""Over how many waits the error of the estimates is taken."""


class Running(NamedTuple):
    """One that holds ``resource`` and gives it back in ``seconds``."""

    seconds: float
    resource: Resource


class Waiting(NamedTuple):
    """One that starts as soon as ``needed`` is free, and gives ``held`` back ``seconds`` later."""

    seconds: float
    needed: Resource
    held: Resource


def remaining(expected: float, ran: float) -> float:
    """The seconds that one has left which was expected to run for ``expected`` and has run for ``ran``.

    One that outlived its expectation is about to end; one that outlived it twice is likely to go on for as
    long as it went beyond that, since nothing is known of it but that it is not like the others.
    """
    return max(expected - ran, ran - 2 * expected, 0.0)


def expected_starts(free: Resource, running: Iterable[Running], line: Iterable[Waiting]) -> Iterator[float]:
    """In how many seconds each one of ``line`` starts, first come, first served; infinite for never."""
    ends = [(one.seconds, one.resource.memory, one.resource.vcores) for one in running]
    heapq.heapify(ends)
    memory, vcores, clock = free.memory, free.vcores, 0.0
    for one in line:
        need = one.needed
        while need.memory > memory or need.vcores > vcores:
            if not ends:
                clock = math.inf
                break
            clock, more_memory, more_vcores = heapq.heappop(ends)
            memory, vcores = memory + more_memory, vcores + more_vcores
        yield clock
        memory, vcores = memory - need.memory, vcores - need.vcores
        heapq.heappush(ends, (clock + one.seconds, one.held.memory, one.held.vcores))


class WaitStatistics:
    """The last estimates, and what became of them. Seconds."""

    def __init__(self) -> None:
        self._errors: deque[float] = deque(maxlen=REMEMBERED)
        self._waits: deque[float] = deque(maxlen=REMEMBERED)
        self.count = 0

    def add(self, expected: float, actual: float) -> None:
        """One that was expected to wait for ``expected`` has waited for ``actual``."""
        self._errors.append(abs(expected - actual))
        self._waits.append(actual)
        self.count += 1

    @property
    def mean_error(self) -> float | None:
        """By how much the estimates were wrong, too long or too short, in the mean; None before the first."""
        return math.fsum(self._errors) / len(self._errors) if self._errors else None

    @property
    def mean_wait(self) -> float | None:
        """How long those that were estimated did wait, in the mean; None before the first."""
        return math.fsum(self._waits) / len(self._waits) if self._waits else None
