"""``yopp up --foreground``: a cluster that ends with the command, and notifications of a service manager.

A signal that comes while the cluster starts ends it at once; later signals are noted and handled in order.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

from ...cluster.notifying import is_managed, notify, notify_reloading
from ...cluster.processes import ENDING, ProcessId, wait_for_end
from ...cluster.reloading import as_started, changes_of, refresh_of, setting_differences
from ...cluster.state import is_returning, running_configuration
from ...errors import EXIT_INTERRUPTED, InvalidStateError, YoppError
from ...jobs.watching import SignalWatch, heeded, readable
from ..frame.output import Printer, flush
from ..frame.session import Context

LOOK_SECONDS = 0.2
"""The interval, in seconds, at which a returning RM is looked for."""
LONG_SECONDS = 3600.0
RETURN_SECONDS = 60.0
"""Seconds to wait for an RM that a node restarts; the node tries for less time."""
BETWEEN_SECONDS = 1.0
"""The longest time, in seconds, between the end of the RM and a command that starts it again: `yopp rm restart` does
one after the other."""


class _Received(Exception):
    """A signal that asks this command to end."""


def _ring(number: int, frame: object) -> NoReturn:
    for one in ENDING:  # One signal is enough: another would interrupt the end of the daemons.
        signal.signal(one, signal.SIG_IGN)
    raise _Received(signal.Signals(number))


def refuse_running(context: Context) -> None:
    """Raise InvalidStateError if daemons are already running: Ctrl-C would end them.

    Daemons of the same service, which its service manager restarts, are kept.
    """
    if not is_managed() and context.run_dir.exists() and (there := context.run_dir.daemons()):
        raise InvalidStateError(
            "a cluster is already running here",
            because=f"{there[0].name} is process {there[0].process.pid}, which --foreground did not start",
            hint="`yopp down` first, or leave out --foreground",
        )


def stay(context: Context, printer: Printer, start: Callable[[], str]) -> int:
    """Start the cluster, and wait until a signal requests its end or it has been ended. Returns the exit code.

    ``start`` returns a sentence about the running cluster.
    """
    before = {number: signal.getsignal(number) for number in heeded(ENDING)}
    try:
        for number in before:
            signal.signal(number, _ring)
        sentence = start()
        flush()
        with SignalWatch() as signals:
            return _Front(context, printer, sentence, signals).stay()
    except _Received as received:
        return _end(context, printer, received.args[0])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def _end(context: Context, printer: Printer, number: signal.Signals) -> int:
    from ...cluster.lifecycle import end
    from ...machine.life import STOP_SECONDS, TERM_SECONDS, Down
    from ...settings.declarations import ResourceManagerSettings

    running = running_configuration(context.run_dir) or context.configuration
    keeps = number is not signal.SIGINT and running.settings(ResourceManagerSettings).recovery_enabled
    told = f"{number.name}: ending the cluster"
    notify("STOPPING=1", f"STATUS={told}")
    printer.note(f"{told}; the next `yopp up` continues its applications" if keeps else told)
    # Another command may be starting a daemon at this moment; the daemon is ended, too.
    down = Down(keep_applications=keeps, timeout=TERM_SECONDS)
    end(context.run_dir, down, force=True, lock_timeout=STOP_SECONDS)
    return EXIT_INTERRUPTED if number == signal.SIGINT else 0


class _Front:
    """A running cluster whose command stays in the foreground."""

    def __init__(self, context: Context, printer: Printer, sentence: str, signals: SignalWatch) -> None:
        self._context = context
        self._printer = printer
        self._sentence = sentence
        self._signals = signals
        self._reloads = is_managed() or not _has_terminal()
        self._told_at = 0.0

    def stay(self) -> int:
        """Run until a signal, or until the RM has ended and no other takes its place. Raises YoppError if the end was
        not intended."""
        notify("READY=1", f"STATUS={self._sentence}")
        self._printer.note("in the foreground: Ctrl-C or SIGTERM ends the cluster")
        run_dir, number, ended_at = self._context.run_dir, None, 0.0
        while number is None:
            if (daemon := run_dir.daemon("rm")) is not None:
                number, ended_at = self._signal_before_end_of(daemon.process), 0.0
            elif not self._may_return(ended_at := ended_at or time.monotonic()):
                return self._ended()
            else:
                readable([self._signals.fileno()], LOOK_SECONDS)
                number = next(self._received(), None)
        return _end(self._context, self._printer, number)

    def _ended(self) -> int:
        notify("STOPPING=1")
        run_dir = self._context.run_dir
        with contextlib.suppress(YoppError), run_dir.lock():
            pass  # A command that ends the cluster removes its files last.
        if os.path.exists(run_dir.site_file):
            raise YoppError(
                "the ResourceManager has ended",
                because="this command did not end it",
                hint=f"its log is {run_dir.log_file('rm')}; `yopp up` restarts it, `yopp down` ends the nodes",
            )
        self._printer.note("the cluster has been ended")
        return 0

    def _signal_before_end_of(self, process: ProcessId) -> signal.Signals | None:
        """The signal that requests the end; None if the process has ended first."""
        if (descriptor := process.open()) is None:
            return None
        try:
            number = None
            while number is None and process.alive():
                readable([descriptor, self._signals.fileno()], LONG_SECONDS)
                number = next(self._received(), None)
        finally:
            os.close(descriptor)
        wait_for_end([process], 0)  # a child of ours leaves no zombie
        return number

    def _may_return(self, ended_at: float) -> bool:
        """Whether another process may take the place of an RM that has ended."""
        run_dir, passed = self._context.run_dir, time.monotonic() - ended_at
        is_due = is_returning(run_dir)
        if is_due and self._told_at != ended_at:
            self._told_at = ended_at
            self._printer.note("the ResourceManager has ended; a node restarts it")
        known = passed < RETURN_SECONDS and (is_due or run_dir.is_changing())
        return os.path.exists(run_dir.site_file) and (known or passed < BETWEEN_SECONDS)

    def _received(self) -> Iterator[signal.Signals]:
        """The signals that request the end; SIGHUP may request another reading of the configuration."""
        for number in map(signal.Signals, self._signals.received()):
            if number is not signal.SIGHUP or not self._reloads:
                yield number
            else:
                self._reload()

    def _reload(self) -> None:
        """Read the configuration again. Its errors are printed, and nothing changes."""
        notify_reloading()
        try:
            told = self._refresh()
        except YoppError as error:
            told = f"the configuration was not reloaded: {error.message}"
            self._printer.warn(f"{told} ({error.because}); {error.hint}")
        else:
            self._printer.note(f"SIGHUP: {told}")
        notify("READY=1", f"STATUS={self._sentence}; {told}")

    def _refresh(self) -> str:
        """Apply the queues of the files. Returns the changes in words. Raises YoppError."""
        context = self._context
        found = as_started(context.run_dir, context.define) or context.configuration
        with context.client() as client:
            answer = client.ask(refresh_of(found))
        if (running := running_configuration(context.run_dir)) is not None:
            for line in setting_differences(running, found):
                self._printer.warn(f"{line}: it takes effect at the next start")
        done = [f"{verb} {', '.join(paths)}" for verb, paths in changes_of(answer).items() if paths]
        return "; ".join(done) or "the queues did not change"


def _has_terminal() -> bool:
    """Whether this process has a terminal: then SIGHUP means that it was closed."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
