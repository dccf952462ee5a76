"""The cgroup of one slot of a pool: lent to one container after another, each with figures of its own.

The kernel counts from the creation of a cgroup. What a container has used is the difference from what the
cgroup had counted when it began; the memory peak is reset where the kernel supports it. The slot's launcher reads
the figures with which a container begins and ends; here they are read while it runs. The files of figures stay
open, which cuts the cost of a reading to a third. ``cgroup.procs`` is opened for each reading: v1 keeps its list for
as long as the file is open.
"""

from __future__ import annotations

import errno
import os
import re

from ...light import Record
from ...records import CgroupLimits, ContainerUsage
from ..launcher import LASTING_PEAK_BYTES
from .files import group_processes
from .gauges import Gauge, Gauges, read_gauge

SLOT_PREFIX = "yopp-slot-"
"""The prefix of the names of slots' cgroups. No container may use it."""


def is_slot(name: str) -> bool:
    """Whether a cgroup has the name of a slot."""
    return re.fullmatch(SLOT_PREFIX + "[0-9]+", name) is not None


SHORT_LIST = 2048
"""The size in bytes up to which one read has all of ``cgroup.procs``: the kernel fills a page before it returns."""

Figures = tuple[float, ...]
"""Seconds of CPU and of throttling, bytes of memory and their peak, OOM kills, processes (``launcher.Figures``); of a
container that has ended also OOMs at the limit, refused forks, and what of its limits has changed."""


class Baseline(Record):
    """What a cgroup had counted when a container began. ``peak`` is 0 if the kernel has reset it. The last two are -1
    where they are unknown: journals do not have them."""

    cpu_seconds: float = 0.0
    throttled_seconds: float = 0.0
    oom_kills: int = 0
    peak: int = 0
    limit_ooms: int = -1
    refused_forks: int = -1


class SlotGroup:
    """A slot's cgroup, in all hierarchies (``groups``). The process ``launcher`` lives in it, and does not
    belong to the container.

    ``limits`` are those last written, None if unknown. ``nested``: cgroups have been made below it.
    ``confined``: the processes in it can neither move a process nor make a cgroup. ``resets_peak``: the kernel
    counts the memory peak from zero for each container. ``changed``: what of its limits the last one has changed
    (``launcher.Limits``).
    """

    def __init__(self, name: str, groups: tuple[str, ...], gauges: Gauges) -> None:
        self.name = name
        self.groups = groups
        self.launcher = 0
        self.limits: CgroupLimits | None = None
        self.baseline = Baseline()
        self.nested = False
        self.confined = False
        self.resets_peak = True
        self.changed = 0
        self._procs = tuple((group, f"{group}/cgroup.procs") for group in groups)
        self._gauges = gauges
        self._fds: dict[str, int] = {}
        self._highest = 0

    @property
    def gauges(self) -> tuple[tuple[str, str, float] | None, ...]:
        """Where the figures are, for a launcher: files, words and units, in the order of ``Figures``."""
        return tuple(None if one is None else (one.path, one.word, one.unit) for one in self._in_order())

    def _in_order(self) -> tuple[Gauge | None, ...]:
        gauges = self._gauges
        return (
            *(gauges.cpu_seconds, gauges.throttled_seconds, gauges.memory_bytes, gauges.memory_peak_bytes),
            *(gauges.oom_kills, gauges.tasks, gauges.limit_ooms, gauges.refused_forks),
        )

    def begin(self, base: Figures) -> None:
        """Count all figures from these on: a container has begun."""
        self._highest = 0
        self.baseline = Baseline(base[0], base[1], *map(int, (base[4], base[3], *base[6:])))

    def processes(self) -> list[int]:
        """The processes in the cgroup except the launcher: the union over all its hierarchies. Raises OSError.

        Where the container is confined, one hierarchy has them all: a process is born in the cgroups of its parent
        (kernel/cgroup/cgroup.c, cgroup_post_fork).
        """
        return self._listed(self._procs[:1] if self.confined else self._procs)

    def _listed(self, places: tuple[tuple[str, str], ...]) -> list[int]:
        found: dict[int, None] = {}
        # Files are opened by path: threads call this too, and a descriptor that the loop closes meanwhile may
        # be reused for another cgroup.
        for group, procs in places:
            try:
                fd = os.open(procs, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    listed = os.read(fd, 4096)
                finally:
                    os.close(fd)
                # cgroup file systems count the child cgroups in st_nlink: two means that there is none below. It is
                # looked at last: a process that moves into a new one meanwhile is not in the list.
                nested = os.stat(group).st_nlink != 2
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENODEV):
                    continue
                if error.errno != errno.EOPNOTSUPP:
                    raise
                listed, nested = b"", True  # made a threaded cgroup by somebody
            self.nested |= nested
            if nested or len(listed) > SHORT_LIST:
                found.update(dict.fromkeys(group_processes(group)))
            else:
                # A zero stands for a process outside our pid namespace.
                found.update((int(pid), None) for pid in listed.split() if pid != b"0")
        found.pop(self.launcher, None)
        return list(found)

    def leftovers(self) -> list[int]:
        """The processes that remain of a container whose command has ended. Only for the event loop. Raises OSError.

        If the kernel counts one process, it is the launcher. All hierarchies agree on that unless a container
        can move processes.
        """
        if self.confined and self._read(self._gauges.tasks) == 1:
            return []
        return self.processes()

    def strangers(self) -> list[int]:
        """The processes that others have put into a slot that is not lent, where the kernel counts processes.
        Raises OSError."""
        if self._read(self._gauges.tasks) <= 1:
            return []
        return self._listed(self._procs)  # zombies are counted, too

    def usage(self, now: float, processes: int) -> ContainerUsage:
        """The usage of the container that has the cgroup."""
        gauges = self._in_order()[: 6 if processes else None]
        cpu, throttled, *counted = map(self._read, gauges)
        memory, peak, *others = map(int, counted)
        if self._gauges.peak_of_file:
            peak = 0  # only the launcher's own file counts from zero
        return self.usage_of((cpu, throttled, memory, peak, *others), now, processes)

    def usage_of(self, figures: Figures, now: float, processes: int = 0) -> ContainerUsage:
        """The usage of the container by these figures."""
        cpu, throttled, *counted = figures
        memory, peak, kills, _, *ends = map(int, counted)
        baseline = self.baseline
        limit_ooms, refused_forks, *_ = ends or (0, 0)
        known = bool(ends) and baseline.refused_forks >= 0
        if peak <= baseline.peak:
            # It is an earlier container's, which this kernel cannot reset: the highest sample has to suffice.
            peak = 0
        self._highest = max(self._highest, peak, memory)
        return ContainerUsage(
            cpu_seconds=max(0.0, cpu - baseline.cpu_seconds),
            memory_bytes=memory,
            memory_peak_bytes=self._highest,
            throttled_seconds=max(0.0, throttled - baseline.throttled_seconds),
            oom_kills=max(0, kills - baseline.oom_kills),
            processes=processes,
            sampled_at=now,
            limit_ooms=limit_ooms - baseline.limit_ooms if known and self._gauges.limit_ooms else -1,
            refused_forks=refused_forks - baseline.refused_forks if known else 0,
        )

    def memory(self) -> int:
        """The memory charged to the cgroup now, in bytes."""
        return int(self._read(self._gauges.memory_bytes))

    def is_spoilt(self) -> bool:
        """Whether this container has left something that affects the next one: cgroups below the slot's, limits that it
        has changed, or a memory peak that this kernel does not reset."""
        if self.nested or self.changed > 1:
            return True
        return not self.resets_peak and self._read(self._gauges.memory_peak_bytes) > LASTING_PEAK_BYTES

    def close(self) -> None:
        """Close the files of figures."""
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()

    def _open(self, path: str) -> int:
        fd = self._fds.get(path)
        if fd is None:
            try:
                fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._fds[path] = fd
        return fd

    def _read(self, gauge: Gauge | None) -> float:
        return read_gauge(gauge, self._text)

    def _text(self, path: str) -> bytes:
        return os.pread(self._open(path), 4096, 0)
