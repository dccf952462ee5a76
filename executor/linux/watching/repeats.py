"""Errors that repeat with each container, such as those of a full disk, in a log that they must not flood."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

SECONDS = 60.0
MOST = 100
"""How many different errors are remembered."""


class Repeats:
    """Logs an error once a minute; the next time, it says how often it was not logged."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._told: dict[str, tuple[float, int]] = {}
        """When each error was last logged, and how often it has come since."""

    def error(self, text: str) -> None:
        """Log this error, or count it."""
        now = self._clock()
        at, more = self._told.pop(text, (now - SECONDS, 0))
        if now - at < SECONDS:
            self._told[text] = at, more + 1
            return
        self._told[text] = now, 0
        if len(self._told) > MOST:
            del self._told[next(iter(self._told))]
        if more:
            self._log.error("%s\n  and %d times in the %d s before", text, more, now - at)
        else:
            self._log.error("%s", text)
