"""Text that is longer than the terminal, through the program that PAGER names: help and the manual."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable

from .output import write_bytes


def through_pager(call: Callable[[], int]) -> int:
    """What ``call`` answers; what it writes to stdout goes through $PAGER if it is longer than the terminal."""
    collected = io.StringIO()
    with contextlib.redirect_stdout(collected):
        code = call()
    text = collected.getvalue()
    if text.count("\n") < shutil.get_terminal_size().lines or not paged(text, os.environ.get("PAGER", "")):
        write_bytes(text.encode(errors="backslashreplace"))
    return code


def paged(text: str, wanted: str) -> bool:
    """Whether the pager ``wanted`` took the text. None at all, or ``cat``, takes none."""
    try:
        words = shlex.split(wanted)
    except ValueError:  # an unclosed quote
        return False
    if not words or words == ["cat"] or shutil.which(words[0]) is None:
        return False
    # As git and systemd have it: end at once where the text fits the screen, and leave it there.
    environment = {"LESS": "FRX", "LESSCHARSET": "utf-8", **os.environ}
    try:
        subprocess.run(words, input=text, encoding="utf-8", env=environment, check=False)
    except OSError:
        return False
    return True
