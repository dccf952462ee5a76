"""The contract of a state machine with the loop that drives it, and its deadlines.

A machine gets an event and the time, and returns commands. It reads no clock, file, socket, environment or global
random. ``executor/core/__init__.py`` has the six rules.

Decisions: pure-machines, no-feedback-delay.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

EventT = TypeVar("EventT", contravariant=True)
CommandT = TypeVar("CommandT")
KeyT = TypeVar("KeyT", bound=Hashable)

SWEEP_ABOVE = 64
"""Entries beyond twice the valid ones from which on those that were moved or cleared are swept out."""


def earliest(times: Iterable[float | None]) -> float | None:
    """The earliest of several deadlines, each None for never."""
    return min((time for time in times if time is not None), default=None)


def beat(now: float, period: float) -> float:
    """The time of a regular task's next turn: a multiple of ``period`` where that is half a period away or more.

    What is regular in all processes of a host then happens at the same moments, and an idle one wakes up once for all.
    """
    return max(now + period / 2, (now + period) // period * period) if period else now


class Machine(Protocol[EventT, CommandT]):
    """Events in, commands out, time an argument (seconds, monotonic).

    A read (what is there now?) needs neither an event nor a command: a machine may answer it by a method that returns
    the answer and changes nothing.
    """

    def handle(self, event: EventT, now: float) -> list[CommandT]:
        """Handle an event; return the commands in the order in which they must be performed."""

    def next_deadline(self) -> float | None:
        """The time at which ``advance`` must be called, None for never."""

    def advance(self, now: float) -> list[CommandT]:
        """Perform what is due by ``now``."""

    def validate(self) -> None:
        """Assert every invariant."""


class Deadlines(Generic[KeyT]):
    """Deadlines by key, in seconds: a heap. Moved or cleared entries are dropped later."""

    def __init__(self) -> None:
        self._times: dict[KeyT, float] = {}
        self._heap: list[tuple[float, int, KeyT]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._times)

    def __contains__(self, key: KeyT) -> bool:
        return key in self._times

    def __iter__(self) -> Iterator[KeyT]:
        return iter(self._times)

    def set(self, key: KeyT, time: float) -> None:
        """Set the deadline of ``key`` to ``time``."""
        if self._times.get(key) == time:
            return
        self._times[key] = time
        self._count += 1
        heapq.heappush(self._heap, (time, self._count, key))
        if len(self._heap) > SWEEP_ABOVE + 2 * len(self._times):
            self._sweep()

    def ensure(self, key: KeyT, time: float) -> None:
        """Set the deadline of ``key`` to ``time`` unless it has one.

        For liveness: when it is due too early, the last contact decides about a new time, so that a contact costs
        nothing.
        """
        if key not in self._times:
            self.set(key, time)

    def clear(self, key: KeyT) -> None:
        """Clear the deadline of ``key``."""
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
        """Remove and return the earliest key that is due by ``now``, None for none."""
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
