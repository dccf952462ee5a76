"""Polling with growing pauses, until a condition holds."""

from __future__ import annotations

import time
from collections.abc import Iterator


def polls(until: float | None, *, fastest: float, slowest: float) -> Iterator[float]:
    """Yield the seconds left until ``until`` (by ``time.monotonic()``; None: infinitely many), at least once,
    and a last time when ``until`` has come.

    The pauses in between grow by half each, from ``fastest`` to ``slowest`` seconds.
    """
    pause = fastest
    while True:
        yield float("inf") if until is None else max(0.0, until - time.monotonic())
        left = slowest if until is None else until - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, slowest)
