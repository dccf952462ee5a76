"""The limits on open files of this process and of its children.

A daemon raises its limit as far as it may: an idle slot holds several files open, each connection one. Its
children get the limit from before, since programs that use select(2) fail with descriptors beyond 1,023.
"""

from __future__ import annotations

import resource

MOST = 1 << 16

_before = 0


def raise_limit() -> None:
    """Raise this process's limit on open files as far as it may."""
    global _before
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(MOST, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        _before = soft


def limit_of_children() -> int:
    """The soft limit for child processes; 0 means this process's own."""
    return _before
