"""A machine on an asyncio loop: ``runner.py`` with one timer for the machine's next deadline."""

from __future__ import annotations

import asyncio

from .runner import CommandT, EventT, MachineRunner

LATE_SECONDS = 0.5
"""A timer that is so late shows that this process did not run."""
READ_SECONDS = 0.25
"""How long a process that did not run reads what has arrived, before it does what is due."""


class Driver(MachineRunner[EventT, CommandT]):
    """Runs one machine on one loop; the arguments are MachineRunner's."""

    loop: asyncio.AbstractEventLoop | None = None
    """The loop of the timer; None for the running loop."""
    _timer: asyncio.TimerHandle | None = None
    _timer_at: float | None = None
    _expected = _reads_until = 0.0

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
            loop = self.loop or asyncio.get_running_loop()
            self._expected = max(deadline, self._reads_until)
            self._timer = loop.call_later(max(0.0, self._expected - self._clock()), self._due)

    def _due(self) -> None:
        self._timer = self._timer_at = None
        now = self._clock()
        if now - self._expected >= LATE_SECONDS and self._expected != self._reads_until:
            # This process was stopped, or got no CPU: others may have spoken meanwhile, and are heard first.
            self._reads_until = now + READ_SECONDS
            self._drained()
        else:
            # Timers may fire a little early by this clock; the machine then does nothing, and the timer is set again.
            self.advance()
