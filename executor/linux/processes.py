"""Notices the end of processes, ends exactly those that are meant, and changes what a process inherits (prctl(2))."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
from collections.abc import Callable, Collection

from .cgroups.files import leave_freezer
from .procfs import children, is_alive, is_running, send, standing, wait_until

LOG = logging.getLogger(__name__)

RETRY_SECONDS = 0.1
"""The delay before a retry of what failed because file descriptors or memory were short."""


class ExitWatcher:
    """Calls back when processes end, children or not: by one pidfd in the loop for each, without threads or
    polling."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._fds: dict[int, int] = {}

    def watch(self, pid: int, start: int, ended: Callable[[], None]) -> None:
        """Call ``ended`` once, from the loop, when that process has ended; soon, if it has ended already."""
        try:
            fd = _pidfd_of(pid, start)
        except OSError as error:
            LOG.warning("cannot watch %d yet: %s", pid, error.strerror)
            self._loop.call_later(RETRY_SECONDS, self.watch, pid, start, ended)
            return
        if fd < 0:
            self._loop.call_soon(ended)
            return
        self._fds[pid] = fd
        self._loop.add_reader(fd, self._readable, pid, ended)

    def _readable(self, pid: int, ended: Callable[[], None]) -> None:
        self._forget(pid)
        reap(pid)
        ended()

    def _forget(self, pid: int) -> None:
        fd = self._fds.pop(pid, None)
        if fd is not None:
            self._loop.remove_reader(fd)
            os.close(fd)

    def close(self) -> None:
        """Stop watching; the processes continue."""
        for pid in list(self._fds):
            self._forget(pid)


def _pidfd_of(pid: int, start: int) -> int:
    """A pidfd of exactly that process; -1 if it has ended. Raises OSError if that cannot be known now."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return -1
    same = False
    try:
        same = is_alive(pid, start)
    finally:
        if not same:
            os.close(fd)
    return fd if same else -1


def reap(pid: int) -> None:
    """Wait for a child that has ended; do nothing for any other process."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def kill_identified(pid: int, start: int) -> None:
    """Send SIGKILL to exactly that process, and to no other one that has its pid by now."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if is_alive(pid, start):
            signal.pidfd_send_signal(fd, signal.SIGKILL)
            leave_freezer(pid)
    except OSError as error:
        LOG.debug("cannot kill %d: %s", pid, error)
    finally:
        os.close(fd)


def kill_launcher(pid: int, start: int, spared: Collection[int] = ()) -> None:
    """Send SIGKILL to a launcher, or a zygote, and to its children except those ``spared``, also to the process that it
    has just started."""
    if not is_alive(pid, start):
        return
    send(pid, signal.SIGSTOP)
    wait_until(lambda: standing(pid), 1.0)

    # A stopped launcher starts nothing. Without cgroups, it gets the orphans of its container as children.
    def has_none() -> bool:
        left = [child for child in children(pid) if child not in spared and is_running(child)]
        for child in left:
            send(child, signal.SIGKILL)
        return not left

    wait_until(has_none, 1.0)
    kill_identified(pid, start)
    wait_until(lambda: not is_alive(pid, start), 1.0)


PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38


_LIBRARY = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, argument: int) -> bool:
    return bool(_LIBRARY.prctl(option, argument, 0, 0, 0) == 0)


def set_parent_death_signal(number: int) -> bool:
    """Have the kernel send this process a signal when its parent ends (prctl(2)). Returns whether that worked."""
    return _prctl(PR_SET_PDEATHSIG, number)


def set_subreaper(on: bool) -> bool:
    """Let orphans of our children become our children, or init's again (prctl(2)). Returns whether that worked.

    For hosts without cgroups: an orphan then stays below this process in the table of processes.
    """
    return _prctl(PR_SET_CHILD_SUBREAPER, int(on))


def set_no_new_privileges() -> bool:
    """Keep this process and its descendants from gaining privileges from a program (prctl(2)). Returns whether that
    worked."""
    return _prctl(PR_SET_NO_NEW_PRIVS, 1)
