"""A process that has no free file descriptor."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator

STANDARD = 3


@contextlib.contextmanager
def none_free() -> Iterator[None]:
    """No file can be opened, whatever is closed meanwhile: each number below the limit is a standard stream's."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (STANDARD, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
