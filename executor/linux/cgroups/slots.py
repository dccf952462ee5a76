"""The cgroup of one slot of a pool: lent to one container after another, each with figures of its own.

The kernel counts from the creation of a cgroup. What a container has used is the difference from what the
cgroup had counted when it was lent; the memory peak is reset where the kernel supports it. The files of
figures stay open, which cuts the cost of a reading to a third. ``cgroup.procs`` is opened for each reading:
v1 keeps its list for as long as the file is open.
"""

from __future__ import annotations

import errno
import os

from ...light import Record
from ...records import CgroupLimits, ContainerUsage
from .files import group_processes
from .gauges import Gauge, Gauges, read_gauge

SLOT_PREFIX = "yopp-slot-"
"""The prefix of the names of slots' cgroups. No container may use it."""


LASTING_PEAK_BYTES = 8 << 20
"""A higher peak that cannot be reset ends the use of a cgroup: it would hide the next container's peak."""


class Baseline(Record):
    """What a cgroup had counted when it was lent. ``peak`` is 0 if the kernel has reset it."""

    cpu_seconds: float = 0.0
    throttled_seconds: float = 0.0
    oom_kills: int = 0
    peak: int = 0


class SlotGroup:
    """A slot's cgroup, in all hierarchies (``groups``). The process ``launcher`` lives in it, and does not
    belong to the container.

    ``limits`` are those last written, None if unknown. ``nested``: cgroups have been made below it.
    ``confined``: the processes in it can neither move a process nor make a cgroup.
    """

    def __init__(self, name: str, groups: tuple[str, ...], gauges: Gauges) -> None:
        self.name = name
        self.groups = groups
        self.launcher = 0
        self.limits: CgroupLimits | None = None
        self.baseline = Baseline()
        self.nested = False
        self.confined = False
        self._procs = tuple((group, f"{group}/cgroup.procs") for group in groups)
        self._gauges = gauges
        self._fds: dict[str, int] = {}
        self._resettable = True
        self._highest = 0

    def lend(self) -> Baseline:
        """Count all figures from zero from now on."""
        self._highest = 0
        peak = self._gauges.memory_peak_bytes
        self.baseline = Baseline(
            self._read(self._gauges.cpu_seconds),
            self._read(self._gauges.throttled_seconds),
            int(self._read(self._gauges.oom_kills)),
            0 if peak is None or self._reset(peak) else int(self._read(peak)),
        )
        return self.baseline

    def processes(self) -> list[int]:
        """The processes in the cgroup except the launcher: the union over all its hierarchies. Raises OSError."""
        found: dict[int, None] = {}
        alone = b"%d\n" % self.launcher
        # Files are opened by path: threads call this too, and a descriptor that the loop closes meanwhile may
        # be reused for another cgroup.
        for group, procs in self._procs:
            try:
                # cgroup file systems count the child cgroups in st_nlink: two means that there is none below.
                nested = os.stat(group).st_nlink != 2
                fd = os.open(procs, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    listed = os.read(fd, 4096)
                finally:
                    os.close(fd)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENODEV):
                    continue
                if error.errno != errno.EOPNOTSUPP:
                    raise
                listed, nested = b"", True  # made a threaded cgroup by somebody
            self.nested |= nested
            if nested or listed != alone:
                found.update(dict.fromkeys(group_processes(group)))
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
        return self.processes()  # zombies are counted, too

    def usage(self, now: float, processes: int) -> ContainerUsage:
        """What the container that has the cgroup now has used."""
        gauges, baseline = self._gauges, self.baseline
        memory = int(self._read(gauges.memory_bytes))
        peak = int(self._read(gauges.memory_peak_bytes))
        if peak <= baseline.peak:
            peak = (
                0  # an earlier container's, which this kernel cannot reset: the highest sample has to suffice
            )
        self._highest = max(self._highest, peak, memory)
        return ContainerUsage(
            cpu_seconds=max(0.0, self._read(gauges.cpu_seconds) - baseline.cpu_seconds),
            memory_bytes=memory,
            memory_peak_bytes=self._highest,
            throttled_seconds=max(0.0, self._read(gauges.throttled_seconds) - baseline.throttled_seconds),
            oom_kills=max(0, int(self._read(gauges.oom_kills)) - baseline.oom_kills),
            processes=processes,
            sampled_at=now,
        )

    def memory(self) -> int:
        """The memory charged to the cgroup now, in bytes."""
        return int(self._read(self._gauges.memory_bytes))

    def is_spoilt(self) -> bool:
        """Whether this container has left something that affects the next one: cgroups below the slot's, or a
        memory peak that this kernel does not reset."""
        if self.nested:
            return True
        return not self._resettable and self._read(self._gauges.memory_peak_bytes) > LASTING_PEAK_BYTES

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

    def _reset(self, peak: Gauge) -> bool:
        """Reset the memory peak: possible on v1, and on v2 since Linux 6.12. Returns whether it is reset."""
        if self._resettable:
            try:
                os.write(self._open(peak.path), b"0\n")
            except OSError:
                self._resettable = False
        return self._resettable

    def _read(self, gauge: Gauge | None) -> float:
        return read_gauge(gauge, self._text)

    def _text(self, path: str) -> bytes:
        return os.pread(self._open(path), 4096, 0)
