"""The observer of a job, and the signals that end the job: shared by both loops of a client."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # without the enums, which take a millisecond to be made
import os
import select
from collections.abc import Iterable, Iterator

from executor.hints import Protocol
from executor.light import suppress

from ..masters.ends import StopRequested
from ..records.jobs import TaskReport
from ..records.reports import FinalApplicationStatus

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def readable(descriptors: Iterable[int], seconds: float) -> list[int]:
    """The descriptors that can be read, after waiting up to ``seconds`` for one."""
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    # Rounded up: a wait that ends a little early would be a busy loop until the deadline.
    return [descriptor for descriptor, _ in poller.poll(int(seconds * 1000) + (seconds > 0))]


class Observer(Protocol):
    """Observes a job: shows its progress, copies its output."""

    def task_changed(self, task: TaskReport) -> None:
        """Called when a task has another state or container."""

    def notice(self, text: str) -> None:
        """Called with one sentence for the user."""

    def stopping(self, reason: str) -> None:
        """Called when the job is being stopped."""

    def tick(self, now: float) -> float | None:
        """Perform everything that is due; returns the latest time (of ``time.monotonic``) for the next call, None for
        none."""

    def stop_wanted(self) -> StopRequested | None:
        """The request to stop the job because of an observation; None for none."""


def heeded(numbers: Iterable[int]) -> list[int]:
    """These signals, without SIGHUP if nohup(1) has set it to be ignored."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [number for number in numbers if number != signal.SIGHUP or not ignored]


class Left(Exception):
    """The user has requested the stop twice: the client leaves the job to the RM, which ends it."""


class SignalWatch:
    """While active, SIGINT, SIGTERM and SIGHUP make ``fileno`` readable instead of interrupting anything. Under nohup,
    SIGHUP stays ignored."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._read

    def __enter__(self) -> SignalWatch:
        self._old_descriptor = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._old = {number: signal.signal(number, _noted) for number in heeded(_SIGNALS)}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_descriptor)
        os.close(self._read)
        os.close(self._write)

    def received(self) -> Iterator[int]:
        """The signals received since the last call."""
        with suppress(BlockingIOError):
            for number in os.read(self._read, 64):
                if number in _SIGNALS:
                    yield number


def _noted(number: int, frame: object) -> None:
    """Do nothing: the wake-up descriptor carries the signal."""


class Stops:
    """Turns the signals of ``signals`` into requests to stop a job."""

    def __init__(self, observer: Observer, signals: SignalWatch | None) -> None:
        self._observer = observer
        self._signals = signals
        self._interrupts = 0

    def received(self) -> Iterator[StopRequested]:
        """The requests since the last call; the observer is notified of them. Raises Left at the second Ctrl-C."""
        for number in self._signals.received() if self._signals is not None else ():
            self._interrupts += 1
            if self._interrupts > 1 and number == signal.SIGINT:
                raise Left
            reason = {
                signal.SIGINT: "interrupted by Ctrl-C",
                signal.SIGTERM: "received SIGTERM",
                signal.SIGHUP: "terminal closed (SIGHUP)",
            }[number]
            self._observer.stopping(reason)
            yield StopRequested(reason, 128 + number, FinalApplicationStatus.KILLED)
