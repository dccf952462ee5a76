"""Reads the terminal as Textual does, but survives any typed or pasted input.

Textual's own reading thread ends the program at a byte that is not UTF-8, and at some sequences.
"""

from __future__ import annotations

import codecs
import contextlib
from collections.abc import Callable
from functools import partial

from textual.drivers import linux_driver


class TerminalDriver(linux_driver.LinuxDriver):
    """Textual's driver. A byte that is not UTF-8 is read as U+FFFD, so that a paste stays one event. A sequence at
    which the parser fails (``ESC [ 9999999999 u``) is dropped, with the other input of the same read.
    """

    def start_application_mode(self) -> None:
        """Textual's, also called at each SIGCONT, which the kernel sends with SIGHUP: only one thread reads."""
        if self._key_thread is not None:
            self.disable_input()
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def run_input_thread(self) -> None:
        """Textual's: read until the app ends."""
        linux_driver.getincrementaldecoder = _tolerant  # type: ignore[attr-defined, assignment]
        while not self.exit_event.is_set():
            with contextlib.suppress(ValueError, ArithmeticError):
                super().run_input_thread()


def _tolerant(encoding: str) -> Callable[[], codecs.IncrementalDecoder]:
    return partial(codecs.getincrementaldecoder(encoding), errors="replace")
