"""How long containers run, measured, and what that says about the waiting time of the next one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

REMEMBERED = 100
"""How many durations are remembered: enough for a mean, few enough to follow a change of work."""


class DurationStatistics:
    """Running times, in seconds, of the last containers that ended by themselves."""

    def __init__(self) -> None:
        self._durations: deque[float] = deque(maxlen=REMEMBERED)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        """Remember one."""
        if len(self._durations) == REMEMBERED:
            self._sum -= self._durations[0]
        self._durations.append(seconds)
        self._sum += seconds

    @property
    def mean(self) -> float | None:
        """The mean, None where nothing was measured yet."""
        return max(self._sum, 0.0) / len(self._durations) if self._durations else None


def estimated_wait(mean: float, elapsed: Iterable[float], queued: int) -> float | None:
    """The seconds that a container would wait which arrived behind ``queued`` others, None if nothing runs.

    ``elapsed`` is how long each of the running ones has run. Each is taken for a place that one queued
    container after the other passes through, ``mean`` seconds each: exact where all last the same and are of
    one size, and an estimate elsewhere. One that has run for longer than the mean is taken to end now.
    """
    remaining = sorted(max(mean - seconds, 0.0) for seconds in elapsed)
    if not remaining:
        return None
    rounds, place = divmod(queued, len(remaining))
    return rounds * mean + remaining[place]
