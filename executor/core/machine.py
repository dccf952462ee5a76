"""The contract between everything that decides and the loop that acts.

A machine is told what happened and the time, and answers with what shall be done. It reads no clock, file, socket,
environment or global random. See ``executor/core/__init__.py`` for the six rules.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

EventT = TypeVar("EventT", contravariant=True)
CommandT = TypeVar("CommandT")


class Machine(Protocol[EventT, CommandT]):
    """Events in, commands out, time an argument (seconds, monotonic)."""

    def handle(self, event: EventT, now: float) -> list[CommandT]:
        """Take one event; answer with commands, in the order in which they are to be performed."""

    def next_deadline(self) -> float | None:
        """When ``advance`` wants to be called, None for never."""

    def advance(self, now: float) -> list[CommandT]:
        """Do what was due by ``now``."""

    def validate(self) -> None:
        """Assert every invariant."""
