"""Tells the core when the window for opportunistic containers opens and closes, by this host's clock and time zone.

Decisions: window.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from ... import windows
from ...core.events import OpportunisticWindowChanged

LOOK_SECONDS = 30.0
"""The longest time between checks of the clock: it may be set, and the host may sleep."""
FAR = timedelta(days=7)


class WindowKeeper:
    """Posts ``OpportunisticWindowChanged`` at each change. ``text`` is the setting; ``clock`` returns the
    local time. Raises ValueError for a text that is not a window."""

    def __init__(
        self,
        text: str,
        post: Callable[[OpportunisticWindowChanged], None],
        clock: Callable[[], datetime] = datetime.now,
    ) -> None:
        self._windows = windows.parse(text)
        self._post = post
        self._clock = clock
        self._told = OpportunisticWindowChanged(0)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Check now, and regularly from now on."""
        if not self._windows:
            return
        now = self._clock()
        is_open, change = windows.next_change(self._windows, now)
        until = change or now + FAR
        found = OpportunisticWindowChanged(0 if is_open else round(until.timestamp() * 1000))
        if found != self._told:
            self._told = found
            self._post(found)
        wait = min(LOOK_SECONDS, max(0.0, (until - now).total_seconds()))
        self._timer = asyncio.get_running_loop().call_later(wait, self.start)

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()
