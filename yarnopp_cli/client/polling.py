"""Asking again and again until something is as it should be, ever more rarely."""

from __future__ import annotations

import time
from collections.abc import Iterator


def polls(until: float | None, *, fastest: float, slowest: float) -> Iterator[float]:
    """The seconds that are left until a moment (``time.monotonic()``; None: infinitely many), at least once, and once
    more when it has come.

    The pauses between grow by half from ``fastest`` to ``slowest`` seconds.
    """
    pause = fastest
    while True:
        yield float("inf") if until is None else max(0.0, until - time.monotonic())
        left = slowest if until is None else until - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, slowest)
