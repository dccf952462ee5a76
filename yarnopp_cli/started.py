"""The start of this process: its words and variables; and UTF-8 text in every locale.

Decisions: caller-environment.
"""

from __future__ import annotations

import io
import os
import sys


def environment() -> dict[str, str]:
    """The variables with which this process was started; of equal names the first, as for getenv(3).

    ``os.environ`` also has variables that Python adds before it runs any code (LC_CTYPE, PEP 538). It is used without
    /proc, and if the kernel does not show the file, as for a program that its user may not read.
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
    """Execute this process's program again, in Python's UTF-8 mode, if the locale has another encoding; and make the
    standard streams UTF-8, whatever the value of PYTHONIOENCODING.

    Words, paths and variables are then the caller's bytes; Python cannot change the encoding of a running process. A
    character that cannot be encoded is written as an escape.
    """
    if sys.getfilesystemencoding() != "utf-8":
        try:
            with open("/proc/self/cmdline", "rb") as file:
                program, *words = file.read().split(b"\0")[:-1]
            # Python adds no variable in such a locale.
            os.execv(sys.executable, [program, b"-Xutf8", *words])
        except (OSError, ValueError):
            pass  # Without /proc, the encoding of the locale remains.
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
