"""A machine on an asyncio loop: what ``runner.py`` runs, with one timer for its next deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from .core.machine import Machine
from .runner import CommandT, EventT, MachineRunner


class Driver(MachineRunner[EventT, CommandT]):
    """Runs one machine on one loop; the other arguments are MachineRunner's."""

    def __init__(
        self,
        machine: Machine[EventT, CommandT],
        perform: Callable[[CommandT], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        loop: asyncio.AbstractEventLoop | None = None,
        crash_dir: str | Path | None = None,
        on_crash: Callable[[BaseException, Path | None], None] | None = None,
        validate: bool = False,
    ) -> None:
        super().__init__(
            machine, perform, clock=clock, crash_dir=crash_dir, on_crash=on_crash, validate=validate
        )
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None

    def close(self) -> None:
        """Take no more events, and set no more timers."""
        super().close()
        self._set_timer(None)

    def _drained(self) -> None:
        self._set_timer(self.next_deadline())

    def _set_timer(self, deadline: float | None) -> None:
        if deadline == self._timer_at and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, deadline
        if deadline is not None:
            loop = self._loop or asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, deadline - self._clock()), self._due)

    def _due(self) -> None:
        self._timer = self._timer_at = None
        # Timers may fire a little early by this clock; the machine then does nothing and the timer is set
        # again.
        self.advance()
