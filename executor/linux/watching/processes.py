"""Whose the processes of this host are, how long they ran, and how long they waited for the CPU.

``ProcessTable`` reads all of them, ``OwnProcesses`` tells yopp's daemons and clients, and ``LastingProcesses`` measures
those outside yopp. What is known of a process is asked again only while that may change: a read of a file in /proc
takes three system calls, and there are hundreds of processes. Sources: proc(5),
Documentation/scheduler/sched-stats.rst.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Container

from ..procfs import ProcessStat, author, ran_and_waited_ns, read_bytes, read_stat

UNKNOWN = (-1.0, -1.0)

LATELY_SECONDS = 3.0
"""Use and waiting over a longer time say nothing about now."""

KERNEL_SECONDS = 30.0
"""How long the pid of a kernel thread is taken for its. A process that gets the pid after it is seen so much later."""

SETTLED_SECONDS = 1.0
"""A younger process may still join a cgroup, or execute another program."""

_Key = tuple[int, int]
"""The pid of a process, and when it started."""


class ProcessTable:
    """The processes of this host, below ``proc``, without kernel threads: those are nobody's work, half of all
    processes, and read once in KERNEL_SECONDS."""

    def __init__(self, proc: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.proc = proc
        self._clock = clock
        self._kernel: set[int] = set()
        self._forgotten = -math.inf

    def read(self, without: Container[int] = ()) -> dict[int, ProcessStat]:
        """By pid, all but those ``without`` which the caller can do."""
        if (now := self._clock()) - self._forgotten >= KERNEL_SECONDS:
            self._kernel, self._forgotten = set(), now
        pids = {int(name) for name in os.listdir(self.proc) if name.isdigit()}
        self._kernel &= pids
        wanted = (pid for pid in pids - self._kernel if pid not in without)
        found = {stat.pid: stat for pid in wanted if (stat := read_stat(pid, proc=self.proc)) is not None}
        kernel = {pid for pid, stat in found.items() if stat.kernel}
        self._kernel |= kernel
        return {pid: stat for pid, stat in found.items() if pid not in kernel}


class OwnProcesses:
    """Finds yopp's daemons and clients among all processes, and the CPU time that they use. Any user can name a process
    or a cgroup as yopp does: only those of this user and of root count, and the containers in ``groups``, where others
    can make none."""

    def __init__(
        self,
        table: ProcessTable,
        markers: tuple[bytes, ...],
        groups: tuple[str, ...],
        own_pids: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self._own_pids = own_pids
        self._table = table
        self._markers = frozenset(markers)
        self._groups = tuple(os.fsencode(f"{group}/") for group in groups)
        self._users = {0, os.getuid()}
        self._hertz = os.sysconf("SC_CLK_TCK")
        self._seen: dict[_Key, float] = {}
        self._at = 0.0
        self._all_at = -math.inf
        self._others: dict[int, int] = {}
        """The starts of processes that are not own ones."""
        self._named: set[_Key] = set()
        """Own ones by what they run, which are not asked again."""

    def is_due(self, now: float, every: float) -> bool:
        """Whether it needs all processes, which it is to get ``every`` so many seconds."""
        return bool(self._markers or self._own_pids()) and now - self._all_at >= every

    def cores(self, now: float, everything: dict[int, ProcessStat] | None) -> float:
        """The cores that they have used since the last call; a new process counts with its mean since its start.
        With ``everything``, all processes, none is taken for one that had its pid before.
        """
        known = self._own_pids()
        if not self._markers and not known:
            return 0.0
        booted = time.clock_gettime(time.CLOCK_BOOTTIME)
        used, seen, others = 0.0, {}, {} if everything is not None else self._others
        stats = self._table.read(self._others) if everything is None else everything
        for pid, stat in stats.items():
            key, seconds = (pid, stat.start), stat.cpu_ticks / self._hertz
            age = booted - stat.start / self._hertz
            settled = age > SETTLED_SECONDS
            named = key in self._named or (self._others.get(pid) != stat.start and self._is_own(pid))
            if named and settled:
                self._named.add(key)
            own = named or (pid in known and not self._is_contained(pid))
            if not own:
                if settled:
                    others[pid] = stat.start
                continue
            seen[key] = seconds
            if key in self._seen and now > self._at:
                used += max(0.0, seconds - self._seen[key]) / (now - self._at)
            else:
                used += seconds / max(age, 0.02)
        if everything is not None:
            self._all_at = now
            self._named &= seen.keys()
        self._seen, self._others, self._at = seen, others, now
        return used

    def is_yopps(self, pid: int, start: int) -> bool:
        """Whether a process is a daemon, a client, or in a container."""
        if (pid, start) in self._seen or self._is_contained(pid) or pid in self._own_pids():
            return True
        return self._others.get(pid) != start and self._is_named(pid)

    def _is_own(self, pid: int) -> bool:
        return self._is_named(pid) and not self._is_contained(pid)

    def _is_named(self, pid: int) -> bool:
        words = read_bytes(f"{self._table.proc}/{pid}/cmdline", 4096).split(b"\0")[:5]
        name = words[0].rpartition(b"/")[2]
        if name.startswith(b"python"):  # what it runs is a module or a script
            if b"-m" in words[:-1]:
                name = words[words.index(b"-m") + 1].partition(b".")[0]
            else:
                name = words[1].rpartition(b"/")[2] if len(words) > 1 else b""
        return name in self._markers and author(pid, proc=self._table.proc) in self._users

    def _is_contained(self, pid: int) -> bool:
        """Whether a process runs in a container, where its use is counted."""
        lines = read_bytes(f"{self._table.proc}/{pid}/cgroup", 8192).splitlines() if self._groups else ()
        return any(line.split(b":", 2)[-1].startswith(self._groups) for line in lines)


class LastingProcesses:
    """Measures how long processes ran, and waited for the CPU, except those for which ``is_yopps`` is true, given
    their pid and start."""

    def __init__(self, proc: str, is_yopps: Callable[[int, int], bool]) -> None:
        self._proc = proc
        self._is_yopps = is_yopps
        self._hertz = os.sysconf("SC_CLK_TCK")
        self._known: dict[_Key, bool] = {}
        self._so_far: dict[_Key, tuple[int, int]] = {}
        self._at = -math.inf
        self._cores = UNKNOWN
        self._told = True

    def is_due(self, now: float, every: float) -> bool:
        """Whether it needs all processes, which it is to get ``every`` so many seconds."""
        return now - self._at >= every or (self._cores == UNKNOWN and self._told)

    def cores(self, now: float, everything: dict[int, ProcessStat] | None) -> tuple[float, float]:
        """The cores that those used which existed at the last two calls with ``everything``, all processes, and the
        cores that they and new ones waited for meanwhile; -1 before the second, and if the kernel reports no waiting
        times.

        Processes that have ended meanwhile are not counted.
        """
        if everything is None:
            return self._cores
        seconds = now - self._at
        booted = time.clock_gettime(time.CLOCK_BOOTTIME)
        known, so_far, runs, waits, told = {}, {}, 0, 0, False
        for pid, stat in everything.items():
            key, age = (pid, stat.start), booted - stat.start / self._hertz
            yopps = self._known.get(key)
            if yopps is None:
                yopps = self._is_yopps(*key)
            if age > SETTLED_SECONDS:
                known[key] = yopps
            if yopps:
                continue
            ran, waited = so_far[key] = ran_and_waited_ns(pid, stat.threads, proc=self._proc)
            told = told or waited > 0
            if (before := self._so_far.get(key)) is not None:
                runs += max(0, ran - before[0])
                waits += max(0, waited - before[1])
            elif age <= seconds:
                waits += waited
        lately = told and seconds <= LATELY_SECONDS
        self._known, self._so_far, self._at, self._told = known, so_far, now, told
        self._cores = (runs / 1e9 / seconds, waits / 1e9 / seconds) if lately and seconds > 0 else UNKNOWN
        return self._cores
