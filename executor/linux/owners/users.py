"""Looks up users and groups (passwd(5), group(5) and other sources of nsswitch.conf(5)), and distinguishes
"does not exist" from "cannot be read now"."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Final, TypeVar

_DESCRIPTORS: Final = 4
"""The maximum number of files and sockets that a library reading such a database has open at once."""
Found = TypeVar("Found")


def look_up(look: Callable[[], Found]) -> Found:
    """The result of ``look``, a function of ``pwd`` or ``grp`` or ``os.getgrouplist``.

    Raises KeyError only if the entry does not exist, and OSError if the databases cannot be read because
    descriptors or memory are short: the libraries report no error then, so that the first two raise KeyError,
    and the third returns no further groups.
    """
    _have_descriptors()
    try:
        found = look()
    except MemoryError:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)) from None
    except KeyError:
        _have_descriptors()  # another thread may have taken them meanwhile
        raise
    _have_descriptors()
    return found


def _have_descriptors() -> None:
    """Raise OSError unless as many descriptors are free as reading a database needs."""
    taken: list[int] = []
    try:
        for _ in range(_DESCRIPTORS):
            taken.append(os.open("/", os.O_PATH | os.O_CLOEXEC))
    finally:
        for fd in taken:
            os.close(fd)
