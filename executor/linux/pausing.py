"""Make all processes of a container stand still, and go on: SIGSTOP and SIGCONT, process by process.

A running process may fork while the list is read, so it is read again until it holds nobody new and nobody
running.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from .processes import read_stat, send

QUICK_SECONDS = 0.003
"""How long the loop itself looks whether processes stand still, before a thread of its own does."""
SETTLE_SECONDS = 1.8
"""A process that was told to stop and still runs after this long is not going to stop soon. It stops when it is given
a processor, and what weighs the least waits for that (``FREEZE_SECONDS`` of the freezers)."""

_STOP = 1 << (signal.SIGSTOP - 1)


def standing(pid: int) -> bool:
    """Whether a process runs no instruction of its own any more: stopped, traced, dead, or about to stop.

    One in uninterruptible sleep with a SIGSTOP pending stops before it returns from the kernel. A parent in
    vfork is such a one: it stays there for as long as its stopped child has not executed anything.
    """
    found = read_stat(pid)
    if found is None or found.state in "TtZX":
        return True
    return found.state == "D" and _stop_is_pending(pid)


def _stop_is_pending(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as lines:
            pending = [line.split()[1] for line in lines if line.startswith(("SigPnd:", "ShdPnd:"))]
    except OSError:
        return True
    return any(int(mask, 16) & _STOP for mask in pending)


class Stopping:
    """One attempt to stop a container; ``list_processes`` tells who is in it."""

    def __init__(self, list_processes: Callable[[], list[int]]) -> None:
        self._list = list_processes
        self._told: set[int] = set()

    def advance(self, seconds: float, pause: float = 0.0) -> int | None:
        """Go on stopping for at most ``seconds``, sleeping ``pause`` between rounds.

        How many processes stand still; None if it is not done yet, or there is no process (yet).
        """
        until = time.monotonic() + seconds
        while True:
            processes = self._list()
            if self._round(processes):
                return len(processes)
            if time.monotonic() >= until:
                return None
            if pause:
                time.sleep(pause)

    def _round(self, processes: list[int]) -> bool:
        """SIGSTOP everyone who was not told yet; whether nobody was new and everybody stands still."""
        new = [pid for pid in processes if pid not in self._told]
        for pid in new:
            send(pid, signal.SIGSTOP)
        self._told.update(new)
        return bool(processes) and not new and all(standing(pid) for pid in processes)


def continue_all(processes: list[int]) -> int:
    """Let them go on; to how many that could be said."""
    return sum(send(pid, signal.SIGCONT) for pid in processes)


def all_stopped(processes: list[int]) -> bool:
    """Whether there are living processes, and all of them stand still because of a signal."""
    living = [pid for pid in processes if (found := read_stat(pid)) is not None and found.state not in "ZX"]
    return bool(living) and all(standing(pid) for pid in living)
