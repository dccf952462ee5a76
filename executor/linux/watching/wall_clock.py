"""Notices steps of the wall clock against CLOCK_MONOTONIC, by which the machines of yopp measure time.

A step occurs if somebody or NTP sets the clock, or if the host sleeps: CLOCK_MONOTONIC does not count that
time (clock_gettime(2)).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ...core.events import WallClockStepped
from ...core.machine import beat

LOOK_SECONDS = 10.0
"""The interval of checks."""
STEP_SECONDS = 0.5
"""Smaller differences are ignored: adjtime(2) adjusts a clock slowly."""


def wall_offset() -> float:
    """The seconds to add to CLOCK_MONOTONIC to get the time since the epoch."""
    return time.time() - time.monotonic()


class WallClock:
    """Posts ``WallClockStepped`` when the clock has stepped away from ``offset``, with which the receiver began."""

    def __init__(
        self, offset: float, post: Callable[[WallClockStepped], None], read: Callable[[], float] = wall_offset
    ) -> None:
        self._offset = offset
        self._post = post
        self._read = read
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Check now, and regularly from now on."""
        found = self._read()
        if abs(found - self._offset) >= STEP_SECONDS:
            self._offset = found
            self._post(WallClockStepped(found))
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(beat(loop.time(), LOOK_SECONDS), self.start)

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()
