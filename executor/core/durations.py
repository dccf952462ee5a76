"""How long containers run, measured."""

from __future__ import annotations

from collections import deque

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
