"""A session and a terminal of its own for a command of another user, and what passes between that terminal and ours.

Whoever has a terminal can type into it (TIOCSTI, TIOCLINUX), and whoever is in its session can open it as /dev/tty. So
a command of another user gets neither ours nor our session, and no other descriptor of ours than its standard ones.

Decisions: shell-into.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import termios
import threading
import tty

from ..errors import CannotLaunchError, reason_of

_REST_SECONDS = 0.5
"""How long the last output may take from the one terminal to the other, after the end of the command."""


class Terminal:
    """The terminal of a command of user ``uid``. It ``is_own`` if that is another user: then a new terminal takes the
    place of ours wherever a standard descriptor is one; without any, there is only a new session."""

    def __init__(self, uid: int, stdout: int) -> None:
        """``stdout`` is the descriptor that becomes the command's standard output. Raises CannotLaunchError."""
        self.is_own = uid != os.geteuid()
        self._ours = [one for one in (stdout, 2, 0) if self.is_own and os.isatty(one)]
        if not self._ours:
            return
        try:
            self._master, self._slave = os.openpty()
        except OSError as error:
            raise CannotLaunchError("no terminal can be made", 125, because=reason_of(error)) from None
        os.fchown(self._slave, uid, -1)
        attributes = termios.tcgetattr(self._ours[0])
        if 0 not in self._ours:
            attributes[1] &= ~termios.OPOST  # our own terminal does that
        termios.tcsetattr(self._slave, termios.TCSANOW, attributes)
        self._resize()

    def enter(self, kept: int) -> None:
        """In the command's process: begin a session, replace what is a terminal of ours, and close all other
        descriptors but ``kept``."""
        os.setsid()
        if self._ours:
            fcntl.ioctl(self._slave, termios.TIOCSCTTY, 0)
        for one in (0, 1, 2):
            if os.isatty(one):
                os.dup2(self._slave, one)
        os.closerange(3, kept)
        os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))

    def begin(self) -> None:
        """The command has begun: from now on keys go to its terminal, its output to ours, and new sizes of ours to
        it."""
        if not self._ours:
            return
        os.close(self._slave)
        signal.signal(signal.SIGWINCH, lambda *_: self._resize())
        if 0 in self._ours:
            tty.setraw(0, termios.TCSANOW)
            threading.Thread(target=_pass_on, args=(0, self._master), daemon=True).start()
        self._output = threading.Thread(target=_pass_on, args=(self._master, self._ours[0]), daemon=True)
        self._output.start()

    def end(self) -> None:
        """All processes of the command have ended: wait for the rest of their output."""
        if self._ours:
            self._output.join(_REST_SECONDS)
            signal.signal(signal.SIGWINCH, signal.SIG_DFL)

    def _resize(self) -> None:
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(self._ours[0], termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)


def _pass_on(source: int, to: int) -> None:
    """Copy until there is no more, or until a terminal has been hung up: no process has its other side open."""
    with contextlib.suppress(OSError):
        while data := os.read(source, 65536):
            while data:
                data = data[os.write(to, data) :]
