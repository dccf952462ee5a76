"""What is typed at a terminal while nobody reads it yet."""

from __future__ import annotations

import os
import pty
import select
import termios

from yarnopp_cli.tui.terminal import unechoed


def test_what_is_typed_meanwhile_is_neither_shown_nor_left() -> None:
    primary, secondary = pty.openpty()
    with os.fdopen(primary, "rb", buffering=0), os.fdopen(secondary) as terminal:
        before = termios.tcgetattr(terminal)
        with unechoed(terminal):
            os.write(primary, b"qq\n")
            assert not select.select([primary], [], [], 0.1)[0], "no echo"
        assert termios.tcgetattr(terminal) == before
        assert not select.select([terminal], [], [], 0)[0], "a shell would run it"


def test_what_is_no_terminal_is_left_alone() -> None:
    with open(os.devnull) as file:
        with unechoed(file):
            assert file.read() == ""
        assert not file.closed and file.read() == ""
