"""Runs a machine: an inbox, a clock, the order of its commands, and the report of a crash (YARN's
``AsyncDispatcher``).

It knows neither containers nor how its owner waits: ``driver.py`` waits with asyncio, a loop over ``poll``
asks for ``next_deadline``. An exception of a machine is a bug: the last events are written to a file, and the
machine is stopped.

Decisions: pure-machines.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from .core.machine import Machine
from .hints import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import logging

EventT = TypeVar("EventT")
CommandT = TypeVar("CommandT")

KEPT_EVENTS = 200
"""How many of the last events a crash report contains."""


class MachineRunner(Generic[EventT, CommandT]):
    """Runs one machine. ``perform`` carries out its commands: it may post events, but never waits.

    If the machine raises, ``crash-<time>.jsonl`` is written in ``crash_dir``, and ``on_crash`` is called with
    the error and the file (None if there is none); a daemon ends in it. ``validate`` checks every invariant
    after each step.
    """

    def __init__(
        self,
        machine: Machine[EventT, CommandT],
        perform: Callable[[CommandT], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        crash_dir: str | Path | None = None,
        on_crash: Callable[[BaseException, Path | None], None] | None = None,
        validate: bool = False,
    ) -> None:
        self._machine = machine
        self._perform = perform
        self._clock = clock
        self._crash_dir = crash_dir
        self._on_crash = on_crash
        self._validate = validate
        self._inbox: deque[EventT | _Step[CommandT]] = deque()
        self._history: deque[tuple[float, object]] = deque(maxlen=KEPT_EVENTS)
        self._draining = False
        self._closed = False
        self.crash: BaseException | None = None
        """The machine's exception, if it raised one. A crashed runner takes no more events."""

    def post(self, event: EventT) -> None:
        """Pass an event to the machine. Returns once it, and all events posted meanwhile, are handled."""
        self._inbox.append(event)
        self._drain()

    def step(self, decide: Callable[[float], Iterable[CommandT]]) -> None:
        """Perform the commands that ``decide``, a method of the machine, returns; it is called with the time."""
        self._inbox.append(_Step(decide))
        self._drain()

    def next_deadline(self) -> float | None:
        """When ``advance`` is to be called at the latest, by the clock; None for never."""
        return None if self._closed else self._machine.next_deadline()

    def advance(self) -> None:
        """Do what is due; nothing if it is too early."""
        self.step(self._machine.advance)

    def close(self) -> None:
        """Take no more events; those in the inbox are dropped."""
        self._closed = True
        self._inbox.clear()

    def _drain(self) -> None:
        if self._draining:
            return
        self._draining = True
        try:
            while self._inbox and not self._closed:
                item = self._inbox.popleft()
                now = self._clock()
                self._history.append((now, item))
                if isinstance(item, _Step):
                    commands: Iterable[CommandT] = item.decide(now)
                else:
                    commands = self._machine.handle(item, now)
                for command in commands:
                    self._perform(command)
                if self._validate:
                    self._machine.validate()
            if not self._closed:
                self._drained()
        except Exception as error:
            self._crashed(error)
            raise
        finally:
            self._draining = False

    def _drained(self) -> None:
        """Called when the inbox is empty, and ``next_deadline`` may have changed; for owners that wait by a
        timer."""

    def _crashed(self, error: Exception) -> None:
        self.crash = error
        self.close()
        path = None
        if self._crash_dir is not None:
            path = write_crash_report(self._crash_dir, error, self._history)
        _log().critical("%s; report: %s", error, path)
        if self._on_crash is not None:
            self._on_crash(error, path)


def _log() -> logging.Logger:
    import logging  # imported late: a command that runs a machine hardly ever needs it

    return logging.getLogger(__name__)


class _Step(Generic[CommandT]):
    """A call of a method of the machine, instead of an event."""

    __slots__ = ("decide",)

    def __init__(self, decide: Callable[[float], Iterable[CommandT]]) -> None:
        self.decide = decide

    def __repr__(self) -> str:
        return f"step {getattr(self.decide, '__qualname__', self.decide)}"


def write_crash_report(
    directory: str | Path, error: BaseException, history: Iterable[tuple[float, object]]
) -> Path | None:
    """Write the last events, oldest first, then the error, as one JSON object for each line. Returns None if
    that fails."""
    import json
    import traceback

    from .trees import make_again

    path = Path(directory) / f"crash-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.jsonl"
    lines = [json.dumps({"at": at, "event": repr(event)}) for at, event in history]
    story = "".join(traceback.format_exception(error))
    lines.append(json.dumps({"error": type(error).__name__, "message": str(error), "traceback": story}))
    try:
        make_again(os.fspath(path.parent), 0o700)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as failed:
        _log().error("cannot write %s: %s", path, failed)
        return None
    return path
