"""Make all processes of a container stand still, and go on: SIGSTOP and SIGCONT, process by process.

A running process may fork while the list is read, so it is read again until it holds nobody new and nobody
running.
"""

from __future__ import annotations

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
"""After this long, a process in uninterruptible sleep counts as standing: it stops before its next
instruction.
"""


class Stopping:
    """One attempt to stop a container; ``list_processes`` tells who is in it."""

    def __init__(self, list_processes: Callable[[], list[int]]) -> None:
        self._list = list_processes
        self._told: set[int] = set()
        self._begun = time.monotonic()

    def advance(self, seconds: float, pause: float = 0.0) -> int | None:
        """Go on stopping for at most ``seconds``, sleeping ``pause`` between rounds.

        How many processes stand still, 0 where there is none; None if it is not done yet.
        """
        until = time.monotonic() + seconds
        while True:
            processes = self._list()
            if self._round(processes):
                return len(processes)
            now = time.monotonic()
            if now - self._begun > UNINTERRUPTIBLE_SECONDS and set(processes) <= self._told:
                states = [found.state for pid in processes if (found := read_stat(pid)) is not None]
                if all(state in STANDING or state == "D" for state in states):
                    return len(processes)
            if now >= until:
                return None
            if pause:
                time.sleep(pause)

    def _round(self, processes: list[int]) -> bool:
        """SIGSTOP everyone who was not told yet; whether nobody was new and everybody stands still."""
        settled = True
        for pid in processes:
            if pid not in self._told:
                self._told.add(pid)
                send(pid, signal.SIGSTOP)
                settled = False
                continue
            found = read_stat(pid)
            if found is not None and found.state not in STANDING:
                settled = False
        return settled


def continue_all(processes: list[int]) -> int:
    """Let them go on; to how many that could be said."""
    return sum(send(pid, signal.SIGCONT) for pid in processes)


def all_stopped(processes: list[int]) -> bool:
    """Whether there are processes, and all of them are stopped (by a signal, or dead already)."""
    states = [found.state for pid in processes if (found := read_stat(pid)) is not None]
    return all(state in STANDING for state in states) and any(state in "Tt" for state in states)
