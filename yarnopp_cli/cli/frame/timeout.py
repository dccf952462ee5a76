"""``--timeout`` of a command that does not wait by a bound of its own: it ends with 124."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...errors import EXIT_TIMEOUT, YoppError


class TimedOutError(YoppError):
    """What ``--timeout`` allows has passed."""

    exit_code = EXIT_TIMEOUT


def bounded(context: Any, option: Any, seconds: Any) -> Any:
    """Have this command end with 124 after so many seconds."""
    if seconds is not None and not context.resilient_parsing:
        _arm(float(seconds))
    return seconds


def _arm(seconds: float) -> None:
    def ring(number: int, frame: object) -> None:
        raise TimedOutError(
            f"not done within {seconds:g} s",
            because="that is the time that --timeout (or YOPP_TIMEOUT) gives it",
            hint="a longer --timeout waits longer",
        )

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))


@contextmanager
def alarm_kept() -> Iterator[None]:
    """Leave the alarm of this process as it was, whatever a command sets within."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler, (remaining, interval) = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGALRM) is not handler:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler if handler is not None else signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, remaining, interval)
