"""Processes of this host, identified by pid and start time, so that a reused pid is never mistaken for
the old process.

It inspects and signals only the processes that its callers name; it never searches for processes by name.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable

from executor.light import Record
from executor.linux.procfs import read_stat


class ProcessId(Record):
    """One process: ``pid``, and ``start`` in clock ticks after boot (field 22 of /proc/PID/stat)."""

    pid: int
    start: int

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """The current process with this pid; None if there is none (a zombie counts as none)."""
        found = read_stat(pid)
        return None if found is None or found.state in "ZX" else cls(pid, found.start)

    def age(self) -> float:
        """Seconds since the process began."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self.start / os.sysconf("SC_CLK_TCK")

    def alive(self) -> bool:
        """Whether this very process still runs; False for a zombie."""
        return ProcessId.of(self.pid) == self

    def open(self) -> int | None:
        """A pidfd of this process, which the caller closes; None if the process has ended."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            return None
        # Checked after the pidfd is open: from now on the pid cannot be reused unnoticed.
        if not self.alive():
            os.close(descriptor)
            return None
        return descriptor

    def send(self, number: signal.Signals) -> bool:
        """Send a signal; False if the process has ended. Raises PermissionError for another
        user's process."""
        descriptor = self.open()
        if descriptor is None:
            return False
        try:
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True


def wait_for_end(processes: Iterable[ProcessId], timeout: float) -> tuple[ProcessId, ...]:
    """Wait until all have ended, ``timeout`` seconds at most. Returns those that still run."""
    deadline = time.monotonic() + timeout
    return tuple(one for one in processes if not _ends(one, deadline))


def _ends(process: ProcessId, deadline: float) -> bool:
    """Whether the process ends before the deadline; a child of ours is reaped."""
    descriptor = process.open()
    if descriptor is not None:
        try:
            poller = select.poll()
            poller.register(descriptor, select.POLLIN)
            if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
                return False
        finally:
            os.close(descriptor)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
    return True


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals by which a user, a service manager or a closed terminal ends a command."""

END_NODE = signal.SIGUSR1
"""Ends a NodeManager with its containers, also where SIGTERM leaves them for its next life."""


def end_processes(processes: Iterable[ProcessId], *, grace: float, force: bool) -> tuple[ProcessId, ...]:
    """Send SIGTERM, and with ``force`` SIGKILL after ``grace`` seconds. Returns the processes that still run.

    A stopped process is continued, because it handles SIGTERM only then.
    """
    chosen = tuple(processes)
    for process in chosen:
        process.send(signal.SIGTERM)
        process.send(signal.SIGCONT)
    left = wait_for_end(chosen, grace)
    if left and force:
        for process in left:
            process.send(signal.SIGKILL)
        left = wait_for_end(left, 5.0)
    return left


def process_figures(pid: int) -> dict[str, float]:
    """A daemon's resident memory (bytes) and CPU time (seconds); 0 if its entry in /proc cannot be read."""
    found = read_stat(pid)
    if found is None:
        return {"resident_bytes": 0.0, "cpu_seconds": 0.0}
    return {
        "resident_bytes": float(found.resident_pages * os.sysconf("SC_PAGE_SIZE")),
        "cpu_seconds": found.cpu_ticks / os.sysconf("SC_CLK_TCK"),
    }
