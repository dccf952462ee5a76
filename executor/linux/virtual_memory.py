"""The address space of processes: what YARN's virtual memory check looks at (``ProcfsBasedProcessTree``)."""

from __future__ import annotations

import os
from collections.abc import Iterable


def virtual_bytes(pids: Iterable[int], *, proc: str = "/proc") -> int:
    """The sum of their address spaces, in bytes (the first figure of statm). Who has ended counts nothing."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = 0
    for pid in pids:
        try:
            with open(f"{proc}/{pid}/statm", encoding="ascii") as file:
                total += int(file.read().split()[0]) * page
        except (OSError, ValueError, IndexError):
            continue
    return total
