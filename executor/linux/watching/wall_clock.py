"""Notices that the wall clock has stepped against the clock that machines count by (CLOCK_MONOTONIC).

Somebody or NTP sets it, or the machine sleeps: CLOCK_MONOTONIC does not count that time (clock_gettime(2)).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ...core.events import WallClockStepped

LOOK_SECONDS = 10.0
"""How often it is looked at."""
STEP_SECONDS = 0.5
"""What is less is left: adjtime(2) lets a clock drift slowly."""


def wall_offset() -> float:
    """What to add to the seconds of CLOCK_MONOTONIC for the time of the epoch."""
    return time.time() - time.monotonic()


class WallClock:
    """Posts ``WallClockStepped`` when the clock is no longer at ``offset``, at which its reader began."""

    def __init__(
        self, offset: float, post: Callable[[WallClockStepped], None], read: Callable[[], float] = wall_offset
    ) -> None:
        self._offset = offset
        self._post = post
        self._read = read
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look now, and from now on."""
        found = self._read()
        if abs(found - self._offset) >= STEP_SECONDS:
            self._offset = found
            self._post(WallClockStepped(found))
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self.start)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
