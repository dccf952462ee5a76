"""Asks the databases of users (passwd(5), group(5) and whatever nsswitch.conf(5) names), and tells "there is none"
from "that cannot be read now".
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Final, TypeVar

_DESCRIPTORS: Final = 4
"""How many files and sockets a library that reads such a database has open at once, at most."""
Found = TypeVar("Found")


def look_up(look: Callable[[], Found]) -> Found:
    """What ``look`` finds, a function of ``pwd`` or ``grp`` or ``os.getgrouplist``.

    Raises KeyError only where there is none, and OSError where the databases cannot be read for want of descriptors or
    memory: they are silent then, which the first two tell as KeyError, and the third as no further groups.
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
    """Raise OSError unless as many can be had as reading a database takes."""
    taken: list[int] = []
    try:
        for _ in range(_DESCRIPTORS):
            taken.append(os.open("/", os.O_PATH | os.O_CLOEXEC))
    finally:
        for fd in taken:
            os.close(fd)
