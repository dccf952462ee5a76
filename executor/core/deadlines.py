"""When something is due, by key: set, moved and cleared at a cost that their number hardly changes.

A heap of times; it reads no clock and calls nothing.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)

SWEEP_ABOVE = 64
"""Entries beyond twice the live ones from which on those that were moved or cleared are swept out."""


class DeadlineKind(enum.StrEnum):
    """What is due for a container."""

    #: SIGTERM had its time: SIGKILL
    FORCE_KILL = "FORCE_KILL"
    #: a pause did not take
    PAUSE = "PAUSE"
    #: the container ran as long as it may
    TIMEOUT = "TIMEOUT"


class ContainerDeadline(NamedTuple):
    """What is due for which container."""

    container_id: str
    kind: DeadlineKind


class Deadlines(Generic[KeyT]):
    """A time for each key, in seconds, the earliest at hand. Entries that were moved or cleared fall out later."""

    def __init__(self) -> None:
        self._times: dict[KeyT, float] = {}
        self._heap: list[tuple[float, int, KeyT]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._times)

    def __contains__(self, key: KeyT) -> bool:
        return key in self._times

    def set(self, key: KeyT, time: float) -> None:
        """Let ``key`` be due at ``time``, whatever it was before."""
        if self._times.get(key) == time:
            return
        self._times[key] = time
        self._count += 1
        heapq.heappush(self._heap, (time, self._count, key))
        if len(self._heap) > SWEEP_ABOVE + 2 * len(self._times):
            self._sweep()

    def ensure(self, key: KeyT, time: float) -> None:
        """Let ``key`` be due at ``time`` unless it is due already at some time.

        For liveness: who fires too early looks at the last contact and sets itself anew, so that a contact
        costs nothing.
        """
        if key not in self._times:
            self.set(key, time)

    def clear(self, key: KeyT) -> None:
        """``key`` is not due any more."""
        self._times.pop(key, None)

    def next(self) -> float | None:
        """The earliest time, None for none."""
        while self._heap:
            time, _, key = self._heap[0]
            if self._times.get(key) == time:
                return time
            heapq.heappop(self._heap)
        return None

    def pop_due(self, now: float) -> KeyT | None:
        """Take the earliest key that is due by ``now``, None for none."""
        time = self.next()
        if time is None or time > now:
            return None
        key = heapq.heappop(self._heap)[2]
        del self._times[key]
        return key

    def _sweep(self) -> None:
        newest = {key: entry for entry in self._heap if self._times.get(key := entry[2]) == entry[0]}
        self._heap = list(newest.values())
        heapq.heapify(self._heap)
