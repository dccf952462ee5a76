"""How this process was started: with which words and variables, and that its text is UTF-8 in every locale.

Decisions: caller-environment.
"""

from __future__ import annotations

import io
import os
import sys


def environment() -> dict[str, str]:
    """The variables with which this process was started; of equal names the first, as for getenv(3).

    ``os.environ`` also has what Python adds before it runs any code (LC_CTYPE, PEP 538). It is all that is known
    without /proc, and where the kernel does not show the file, as for a program that its user may not read.
    """
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return dict(os.environ)
    found: dict[str, str] = {}
    for name, equals, value in (os.fsdecode(entry).partition("=") for entry in entries):
        if name and equals:
            found.setdefault(name, value)
    return found


def umask() -> int:
    """The umask with which this process was started."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def use_utf8() -> None:
    """Execute this process's program again, in Python's UTF-8 mode, if the locale has another encoding; and let the
    standard streams be UTF-8, whatever PYTHONIOENCODING says.

    Words, paths and variables are then the bytes that the caller gave; Python cannot change the encoding of a process
    that runs. What cannot be encoded is written as an escape.
    """
    if sys.getfilesystemencoding() != "utf-8":
        try:
            with open("/proc/self/cmdline", "rb") as file:
                program, *words = file.read().split(b"\0")[:-1]
            os.execv(sys.executable, [program, b"-Xutf8", *words])  # Python adds no variable in such a locale
        except (OSError, ValueError):
            pass  # without /proc, the encoding of the locale remains
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
