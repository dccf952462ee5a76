"""How many files this process may have open, and what it starts.

A daemon takes as many as it may: an idle slot holds several, each connection one. What it starts has the limit that it
would have without that, since programs that use select(2) fail with descriptors beyond 1,023.
"""

from __future__ import annotations

import resource

MOST = 1 << 16

_before = 0


def raise_limit() -> None:
    """Have this process open as many files as it may."""
    global _before
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(MOST, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        _before = soft


def limit_of_children() -> int:
    """The soft limit that what is started is to have, 0 for this process's own."""
    return _before
