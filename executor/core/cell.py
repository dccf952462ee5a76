"""A machine inside another one: a bug in the inner machine ends only that machine, and its last events are kept for
the report."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from .machine import Machine

EventT = TypeVar("EventT")
CommandT = TypeVar("CommandT")

KEPT_EVENTS = 20
"""How many of its last events are kept; there may be a thousand such machines."""


class MachineCrashed(Exception):
    """The inner machine has raised ``error``, which is a bug; ``history`` are its last events with their times."""

    def __init__(self, error: Exception, history: tuple[tuple[float, object], ...]) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.error = error
        self.history = history


class Cell(Generic[EventT, CommandT]):
    """Contains a machine. An exception of the machine becomes MachineCrashed; afterwards its owner does not use it."""

    def __init__(self, machine: Machine[EventT, CommandT]) -> None:
        self._machine = machine
        self._history: deque[tuple[float, object]] = deque(maxlen=KEPT_EVENTS)

    def handle(self, event: EventT, now: float) -> list[CommandT]:
        """Handle an event; return the commands. Raises MachineCrashed."""
        self._history.append((now, event))
        return self._guarded(lambda: self._machine.handle(event, now))

    def advance(self, now: float) -> list[CommandT]:
        """Perform what is due by ``now``; return the commands. Raises MachineCrashed."""
        self._history.append((now, "advance"))
        return self._guarded(lambda: self._machine.advance(now))

    def _guarded(self, act: Callable[[], list[CommandT]]) -> list[CommandT]:
        try:
            return act()
        except Exception as error:
            raise MachineCrashed(error, tuple(self._history)) from error
