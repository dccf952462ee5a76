"""The time of day, in the unit of records and documents."""

from __future__ import annotations

import time


def now_ms() -> int:
    """The time since the epoch, in milliseconds."""
    return time.time_ns() // 1_000_000
