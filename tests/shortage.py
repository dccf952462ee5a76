"""A process that has no free file descriptor."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def none_free() -> Iterator[Callable[[], None]]:
    """No file can be opened. What it gives takes what was closed meanwhile."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 9, before[1]))

    def take() -> None:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))

    try:
        take()
        yield take
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for fd in taken:
            os.close(fd)
