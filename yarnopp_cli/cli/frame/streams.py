"""The standard streams at the very start of a command, before anything heavier than this is imported."""

from __future__ import annotations

import errno
import os
import sys


def secure_standard_streams() -> None:
    """Fill closed standard descriptors, so that no socket or file of ours ever becomes number 0, 1 or 2.

    A closed stdout is filled with a descriptor that cannot be written: what should have been printed is then
    an error, as it should be, and not silence.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            opened = os.open(os.devnull, os.O_RDONLY)
            if opened != descriptor:  # the lowest free one is taken, so this cannot be; but be sure
                os.dup2(opened, descriptor)
                os.close(opened)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
