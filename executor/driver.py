"""The only place where a machine meets time: an inbox, a clock, deadlines, and the report of a crash.

It knows nothing of containers. What a machine raises is a bug: the last events are written down with the
story, and nothing is carried on.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

from .core.machine import Machine

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

EventT = TypeVar("EventT")
CommandT = TypeVar("CommandT")

KEPT_EVENTS = 200
"""How many of the last events a crash report tells."""


class Runner(Generic[EventT, CommandT]):
    """Runs one machine for whoever waits for its events and deadlines: with a poll, or, as ``Driver``, with asyncio.

    ``perform`` carries out its commands: it may post, it never waits. ``crash_dir``: where to write
    ``crash-<time>.jsonl`` if the machine raises. ``on_crash`` is then told the error and the file (None if there is
    none); a daemon ends itself in it. ``validate`` checks every invariant after each step.
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
        """What the machine raised, if it did. A crashed machine takes no more events."""

    def post(self, event: EventT) -> None:
        """Tell the machine what happened: the only way in. Runs to completion before anything else of this thread."""
        self._inbox.append(event)
        self._drain()

    def step(self, decide: Callable[[float], Iterable[CommandT]]) -> None:
        """Let a method of the machine that is no event answer with commands: ``decide`` is given the time."""
        self._inbox.append(_Step(decide))
        self._drain()

    def next_deadline(self) -> float | None:
        """When ``advance`` is to be called at the latest, None for never."""
        return None if self._closed else self._machine.next_deadline()

    def advance(self) -> None:
        """Let the machine do what is due, if anything."""
        deadline = self.next_deadline()
        if deadline is not None and deadline <= self._clock():
            self.step(self._machine.advance)

    def close(self) -> None:
        """Take no more events."""
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
                self._carry_out(commands)
            self._settled()
        except Exception as error:
            self._crashed(error)
            raise
        finally:
            self._draining = False

    def _carry_out(self, commands: Iterable[CommandT]) -> None:
        for command in commands:
            self._perform(command)
        if self._validate:
            self._machine.validate()

    def _settled(self) -> None:
        """The inbox is empty: nothing more happens before the next event or deadline."""

    def _crashed(self, error: Exception) -> None:
        import logging

        self.crash = error
        self.close()
        path = None
        if self._crash_dir is not None:
            path = write_crash_report(self._crash_dir, error, self._history)
        logging.getLogger(__name__).critical("%s; report: %s", error, path)
        if self._on_crash is not None:
            self._on_crash(error, path)


class Driver(Runner[EventT, CommandT]):
    """A runner on an asyncio loop: one timer for the machine's next deadline."""

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

    def _settled(self) -> None:
        if not self._closed:
            self._set_timer(self._machine.next_deadline())

    def _set_timer(self, deadline: float | None) -> None:
        if deadline == self._timer_at and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, deadline
        if deadline is not None:
            if self._loop is None:
                import asyncio  # the command line, which waits with a poll, does not pay for it

                self._loop = asyncio.get_running_loop()
            self._timer = self._loop.call_later(max(0.0, deadline - self._clock()), self._due)

    def _due(self) -> None:
        self._timer = self._timer_at = None
        # Timers may fire a little early by this clock; the machine then does nothing and the timer is set
        # again.
        self.step(self._machine.advance)


class _Step(Generic[CommandT]):
    """A call of the machine that is no event."""

    __slots__ = ("decide",)

    def __init__(self, decide: Callable[[float], Iterable[CommandT]]) -> None:
        self.decide = decide

    def __repr__(self) -> str:
        return f"step {getattr(self.decide, '__qualname__', self.decide)}"


def write_crash_report(
    directory: str | Path, error: BaseException, history: Iterable[tuple[float, object]]
) -> Path | None:
    """Write the last events, oldest first, then the error, one JSON object a line; None where that fails."""
    import logging
    import traceback
    from pathlib import Path

    path = Path(directory) / f"crash-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.jsonl"
    lines = [json.dumps({"at": at, "event": repr(event)}) for at, event in history]
    story = "".join(traceback.format_exception(error))
    lines.append(json.dumps({"error": type(error).__name__, "message": str(error), "traceback": story}))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as failed:
        logging.getLogger(__name__).error("cannot write %s: %s", path, failed)
        return None
    return path
