"""When something is due for a container. A heap of times; it reads no clock."""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable

SWEEP_ABOVE = 256
"""Entries from which on overtaken ones are swept out, so that far deadlines of short containers do not pile
up."""


class DeadlineKind(enum.StrEnum):
    """What is due."""

    #: SIGTERM had its time: SIGKILL
    FORCE_KILL = "FORCE_KILL"
    #: a pause did not take
    PAUSE = "PAUSE"
    #: the container ran as long as it may
    TIMEOUT = "TIMEOUT"


class Deadlines:
    """Deadlines of many containers, earliest first.

    The truth about a deadline stands with its container; ``still_due(container_id, kind, at)`` says whether
    an entry of the heap still holds. So setting and clearing cost nothing but the heap's logarithm, and
    entries that were overtaken fall out when their time comes.
    """

    def __init__(self, still_due: Callable[[str, DeadlineKind, float], bool]) -> None:
        self._still_due = still_due
        self._heap: list[tuple[float, int, str, DeadlineKind]] = []
        self._count = 0
        self._sweep_above = SWEEP_ABOVE

    def set(self, container_id: str, kind: DeadlineKind, at: float) -> None:
        """Note that ``kind`` is due for the container at ``at`` (seconds)."""
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, container_id, kind))
        if len(self._heap) > self._sweep_above:
            self._heap = [entry for entry in self._heap if self._still_due(entry[2], entry[3], entry[0])]
            heapq.heapify(self._heap)
            self._sweep_above = max(2 * len(self._heap), SWEEP_ABOVE)

    def next(self) -> float | None:
        """The earliest deadline that still holds, None for none."""
        while self._heap:
            at, _, container_id, kind = self._heap[0]
            if self._still_due(container_id, kind, at):
                return at
            heapq.heappop(self._heap)
        return None

    def take_due(self, now: float) -> tuple[str, DeadlineKind] | None:
        """Take the earliest deadline that is due by ``now``, None for none."""
        at = self.next()
        if at is None or at > now:
            return None
        _, _, container_id, kind = heapq.heappop(self._heap)
        return container_id, kind
