"""Make all processes of a container stand still, and go on: SIGSTOP and SIGCONT, process by process.

A running process may fork while the list is read, so it is read again until it holds nobody new and nobody running.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable

from .cgroups.base import send
from .processes import read_stat

STANDING = frozenset("TtZX")
"""States (proc(5)) in which a process runs no instruction: stopped, traced, dead."""

SETTLE_SECONDS = 1.0
"""A process that was told to stop and is still not standing after this long sits in the kernel."""

UNINTERRUPTIBLE_SECONDS = 0.02
"""After this long, a process in uninterruptible sleep counts as standing: it stops before its next instruction."""


def stop_round(processes: list[int], told: set[int]) -> bool:
    """SIGSTOP everyone in the list who was not told yet; whether nobody was new and everybody stands still."""
    settled = True
    for pid in processes:
        if pid not in told:
            told.add(pid)
            send(pid, signal.SIGSTOP)
            settled = False
            continue
        found = read_stat(pid)
        if found is not None and found.state not in STANDING:
            settled = False
    return settled


def in_the_kernel(processes: list[int]) -> bool:
    """Whether those not yet standing are all in uninterruptible sleep (a parent in vfork, a disk that is slow)."""
    states = [found.state for pid in processes if (found := read_stat(pid)) is not None]
    return all(state in STANDING or state == "D" for state in states)


async def stop_all(list_processes: Callable[[], list[int]]) -> int:
    """Stop a container; how many processes stand still. Raises TimeoutError if some do not within a second.

    The first rounds are made at once, without giving way to the loop: most containers are a few processes and stand
    after two.
    """
    told: set[int] = set()
    begun = time.monotonic()
    for turn in range(1_000_000):
        processes = list_processes()
        if stop_round(processes, told):
            return len(processes)
        waited = time.monotonic() - begun
        if waited > UNINTERRUPTIBLE_SECONDS and set(processes) <= told and in_the_kernel(processes):
            return len(processes)
        if waited > SETTLE_SECONDS:
            break
        if turn >= 3:
            await asyncio.sleep(0.0005)
    continue_all(list_processes())
    raise TimeoutError(f"{len(told)} processes were told to stop and some still run")


def continue_all(processes: list[int]) -> int:
    """Let them go on; to how many that could be said."""
    return sum(send(pid, signal.SIGCONT) for pid in processes)


def all_stopped(processes: list[int]) -> bool:
    """Whether there are processes and all of them are stopped by a signal."""
    states = [found.state for pid in processes if (found := read_stat(pid)) is not None]
    return bool(states) and all(state in STANDING for state in states) and any(state in "Tt" for state in states)
