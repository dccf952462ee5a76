"""A terminal that can go away: its window is closed, its connection lost.

Textual's writing thread dies of the first write that fails, and its main thread then waits for ever to hand it the
next one, also when a signal has asked the program to end. Here writes after that go nowhere, and the app is told.
"""

from __future__ import annotations

import contextlib
import sys
import termios
from collections.abc import Callable, Iterator
from typing import Any, TextIO


class Fleeting:
    """A text stream to a terminal whose loss is no error; ``gone`` is called once, by the thread that noticed it."""

    def __init__(self, stream: TextIO, gone: Callable[[], None]) -> None:
        self._stream = stream
        self._gone = gone
        self._lost = False

    def write(self, text: str) -> int:
        """Write, or lose the text."""
        if not self._lost:
            try:
                return self._stream.write(text)
            except OSError:
                self._lose()
        return len(text)

    def flush(self) -> None:
        """Send what was written."""
        if not self._lost:
            try:
                self._stream.flush()
            except OSError:
                self._lose()

    def _lose(self) -> None:
        self._lost = True
        self._gone()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def fleeting(gone: Callable[[], None]) -> Iterator[None]:
    """While active, the stream on which Textual draws is a Fleeting one."""
    stream = sys.__stderr__
    assert stream is not None
    sys.__stderr__ = Fleeting(stream, gone)  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        sys.__stderr__ = stream  # type: ignore[misc]


@contextlib.contextmanager
def unechoed(stream: TextIO) -> Iterator[None]:
    """While active, what is typed at the terminal ``stream`` is not echoed; what is unread at the end is dropped.
    Textual takes long to load on a busy machine, and people type."""
    before: list[Any] | None = None
    with contextlib.suppress(termios.error, ValueError, OSError):
        before = termios.tcgetattr(stream)
        silent = termios.tcgetattr(stream)
        silent[3] &= ~(termios.ECHO | termios.ECHONL)
        termios.tcsetattr(stream, termios.TCSANOW, silent)
    try:
        yield
    finally:
        if before is not None:
            with contextlib.suppress(termios.error, ValueError, OSError):
                termios.tcsetattr(stream, termios.TCSANOW, before)
                termios.tcflush(stream, termios.TCIFLUSH)
