"""Handles the loss of the terminal: a closed window, a lost connection.

Textual's writing thread ends with the first failed write, and its main thread then waits for ever to hand it
the next one, even when a signal has asked the program to end. Here later writes are discarded, and the app is
notified.
"""

from __future__ import annotations

import contextlib
import sys
import termios
from collections.abc import Callable, Iterator
from typing import Any, TextIO


class Fleeting:
    """A text stream to a terminal whose loss is not an error; ``gone`` is called once, by the thread that
    notices the loss.
    """

    def __init__(self, stream: TextIO, gone: Callable[[], None]) -> None:
        self._stream = stream
        self._gone = gone
        self._lost = False

    def write(self, text: str) -> int:
        """Write the text, or discard it if the terminal is gone."""
        if not self._lost:
            try:
                return self._stream.write(text)
            except OSError:
                self._lose()
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
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
    """While active, the stream on which Textual draws is a ``Fleeting``."""
    stream = sys.__stderr__
    assert stream is not None
    sys.__stderr__ = Fleeting(stream, gone)  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        sys.__stderr__ = stream  # type: ignore[misc]


@contextlib.contextmanager
def unechoed(stream: TextIO) -> Iterator[None]:
    """While active, input at the terminal ``stream`` is not echoed; unread input is dropped at the end.
    Textual takes long to load on a busy machine, and users type meanwhile.
    """
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
