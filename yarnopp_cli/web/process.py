"""What a daemon's process costs: its memory and processor time, and how busy its loop is."""

from __future__ import annotations

import os
import time

from executor.linux.procfs import read_stat


class Busy:
    """How much of a processor this thread, the daemon's loop, used lately."""

    def __init__(self) -> None:
        self._at, self._used = time.monotonic(), time.thread_time()
        self._percent = 0

    def percent(self) -> int:
        """Since the last call, if that was a second ago or more; else what that returned."""
        now, used = time.monotonic(), time.thread_time()
        if now - self._at >= 1:
            self._percent = min(100, round(100 * (used - self._used) / (now - self._at)))
            self._at, self._used = now, used
        return self._percent


def process_figures(pid: int) -> dict[str, float]:
    """A daemon's memory (bytes) and processor time (seconds); 0 where its entry in /proc cannot be read."""
    found = read_stat(pid)
    if found is None:
        return {"resident_bytes": 0.0, "cpu_seconds": 0.0}
    return {
        "resident_bytes": float(found.resident_pages * os.sysconf("SC_PAGE_SIZE")),
        "cpu_seconds": found.cpu_ticks / os.sysconf("SC_CLK_TCK"),
    }
