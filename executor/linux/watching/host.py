"""What this host offers yopp, and what it does between two readings.

``host_limits``: what this process may use, as limited by its own cgroups and CPU affinity. ``HostReader``
reads /proc/stat, /proc/meminfo and /proc/pressure in a fraction of a millisecond. Only while processes
outside yopp seem to use much CPU, it searches for yopp's own daemons and clients, which do not count as
pressure: at most once a second among all processes, which takes some 20 microseconds for each, and else among
new ones. While no core is idle, it also looks, as often, for processes outside yopp that wait for the CPU,
which takes some 20 more. ``processes.py`` has both. While processes outside yopp use all cores, a ``glance``
suffices most of the time. Sources: proc(5), Documentation/accounting/psi.rst.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Collection

from ...light import Record, replace
from ...records import HostUtilization, ResourceUtilization
from ..cgroups.files import (
    UNLIMITED,
    CpuFiles,
    MemoryFiles,
    Mount,
    UnifiedFiles,
    at,
    number,
    read_mounts,
    read_paths,
)
from ..procfs import read_bytes, runnable_threads
from .processes import LastingProcesses, OwnProcesses, ProcessTable

BUSY = (0, 1, 2, 5, 6)
"""user, nice, system, irq and softirq of a cpu line; steal is not counted, and guest time is included in user."""
IDLE = (3, 4)
"""idle and iowait."""

FULL = 0.1
"""The host is full when less than this fraction of it is idle: then somebody may wait for the CPU."""

FILLED, LITTLE = 0.2, 0.05
"""Processes outside yopp fill the host when all but so many cores are theirs, and containers use at most so many: more
than all cores they cannot need, and they have lost next to nothing. So what they wait for changes no decision."""

GLANCE_SECONDS = 5.0
"""How long it is believed that they do, and that yopp's daemons and clients use as little as when looked at."""

COUNTS = 3
"""How many counts of runnable threads make one reading, which is their median."""

COUNT_SECONDS = 0.01
"""The pause between two counts: at the first one this process, and other nodes that measure the host too, may still
run."""

ALL_SECONDS = (1.0, 2.0)
"""The least and the most time between two looks at all processes, while the host is full or others use much. No pid
is used again so soon."""

ALL_READINGS = 4
"""How many readings of the host there are to one look at all processes, within ``ALL_SECONDS``."""


class HostLimits(Record):
    """``cores`` may be a fraction (a CPU quota). ``because`` says what lowered the cores and the memory."""

    cores: float
    memory_bytes: int
    physical_cores: int
    physical_memory_bytes: int
    because: tuple[str, ...] = ()


def host_limits(*, root: str = "/sys/fs/cgroup", proc: str = "/proc") -> HostLimits:
    """The CPUs and the memory that this process, and so its containers, can use."""
    machine_cores = os.cpu_count() or 1
    machine_memory = machine_memory_bytes()
    cores, memory = float(len(os.sched_getaffinity(0))), machine_memory
    because = []
    if cores < machine_cores:
        because.append(f"its affinity (or cpuset) leaves it {cores:g} of {machine_cores} processors")
    try:
        mounts, own = read_mounts(proc, root), read_paths(proc)
    except OSError:
        mounts, own = (), {}
    for mount in mounts:
        for level in _levels(mount, own):
            quota, limit = _quota_and_memory(mount, level)
            if quota is not None and quota < cores:
                cores = quota
                because.append(f"{level} has a CPU quota of {quota:g} processors")
            if limit is not None and limit < memory:
                memory = limit
                because.append(f"{level} has a memory limit of {limit >> 20} MiB")
    return HostLimits(cores, memory, machine_cores, machine_memory, tuple(because))


def machine_memory_bytes() -> int:
    """The memory of the host, from /proc/meminfo (sysinfo(2) reports more in some kinds of containers)."""
    for line in read_bytes("/proc/meminfo").split(b"\n"):
        if line.startswith(b"MemTotal:"):
            return int(line.split()[1]) << 10
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _levels(mount: Mount, own: dict[str, str]) -> list[str]:
    """The cgroup of this process and all above it, as far as the mount shows them."""
    level = mount.directory_in(own)
    levels = []
    while level is not None and level.startswith(mount.point):
        levels.append(level)
        if level == mount.point:
            break
        level = os.path.dirname(level)
    return levels


def _quota_and_memory(mount: Mount, level: str) -> tuple[float | None, int | None]:
    """The CPU quota, in cores, and the memory limit, in bytes, of a cgroup; None for no limit."""
    quota, period, memory = 0, 0, 0
    if mount.version == 2:
        files = at(level, UnifiedFiles)
        memory = number(files, "memory_max")
        with contextlib.suppress(OSError, ValueError):
            quota, period = files.cpu_max
    if "cpu" in mount.controllers:
        cpu = at(level, CpuFiles)
        quota, period = number(cpu, "cfs_quota_us"), number(cpu, "cfs_period_us")
    if "memory" in mount.controllers:
        memory = number(at(level, MemoryFiles), "limit_in_bytes")
    limited = (quota or 0) > 0 and period > 0
    return quota / period if limited else None, memory if 0 < memory < UNLIMITED else None


class _Passed(Record):
    """What happened between two readings, in cores; ``stalled`` is a fraction of the time, -1 if unknown."""

    seconds: float
    cores: int
    cpu: float
    idle: float
    yopp: float
    stalled: float

    @property
    def outside(self) -> float:
        """What all but containers used."""
        return self.cpu - self.yopp

    def is_filled(self, daemons: float) -> bool:
        """Whether processes outside yopp fill the host, if yopp's daemons and clients used so many cores."""
        return self.outside - daemons >= self.cores - FILLED and self.yopp <= LITTLE


class _Reading(Record):
    at: float
    busy: int
    idle: int
    everything: int
    cores: int
    yopp_seconds: float
    stalled_us: int | None

    def since(self, last: _Reading) -> _Passed | None:
        """What happened since the last one; None if the counters have not changed."""
        ticks, seconds = self.everything - last.everything, self.at - last.at
        if ticks <= 0 or seconds <= 0:
            return None
        stalled = -1.0
        if self.stalled_us is not None and last.stalled_us is not None:
            stalled = min(1.0, (self.stalled_us - last.stalled_us) / 1e6 / seconds)
        return _Passed(
            seconds=seconds,
            cores=self.cores,
            cpu=self.cores * (self.busy - last.busy) / ticks,
            idle=self.cores * (self.idle - last.idle) / ticks,
            yopp=max(0.0, self.yopp_seconds - last.yopp_seconds) / seconds,
            stalled=stalled,
        )


class HostReader:
    """Reads the host's figures below ``proc``. ``yopp_seconds`` is the CPU time of all containers so far.

    Processes of this user and of root that run a program or module with one of the names ``markers``, and
    ``own_pids``, are yopp's own, unless they run in a cgroup below ``groups``: those are containers. They are searched
    for if others seem to use ``suspicious`` cores. ``others`` are the processes of other nodes' containers: on a
    full host, their runnable threads are counted. ``yields``: the kernel gives opportunistic containers only
    what others leave, because of their weights.
    """

    def __init__(
        self,
        yopp_seconds: Callable[[], float],
        *,
        proc: str = "/proc",
        markers: tuple[str, ...] = (),
        groups: tuple[str, ...] = (),
        own_pids: Callable[[], Collection[int]] = tuple,
        others: Callable[[], Collection[int]] = tuple,
        suspicious: float = 0.3,
        yields: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._yopp_seconds = yopp_seconds
        self._proc = proc
        self._suspicious = suspicious
        self._others = others
        self._yields = yields
        self._clock = clock
        self._table = ProcessTable(proc, self._clock)
        self._own = OwnProcesses(self._table, tuple(marker.encode() for marker in markers), groups, own_pids)
        self._lasting = LastingProcesses(proc, self._own.is_yopps) if groups else None
        self._last: _Reading | None = None
        self._daemons = 0.0
        self._looked_at = -math.inf
        """When all processes were last looked at."""
        self._filled_at = -math.inf
        """The same, if those outside filled the host at the last reading."""
        self._reading = threading.Lock()

    def begin(self) -> None:
        """Set the zero of the counters, unless a thread is just reading them. What is known of processes remains."""
        if self._reading.acquire(blocking=False):
            try:
                self._last, self._filled_at = self._counters(), -math.inf
            finally:
                self._reading.release()

    def read(self) -> HostUtilization | None:
        """The host since the last call; None the first time, and if the counters have not changed."""
        with self._reading:
            return self._read()

    def _read(self) -> HostUtilization | None:
        begun = time.thread_time()
        reading, last = self._counters(), self._last
        self._last, self._filled_at = reading, -math.inf
        if last is None or (passed := reading.since(last)) is None:
            return None
        runnable = self._runnable(COUNTS)
        suspect = passed.outside >= self._suspicious
        full = passed.idle < FULL * reading.cores
        least, most = ALL_SECONDS
        every = min(max(least, ALL_READINGS * passed.seconds), most)
        due = suspect and self._own.is_due(reading.at, every)
        if full and self._lasting is not None and not passed.is_filled(self._daemons):
            due = due or self._lasting.is_due(reading.at, every)
        everything = self._table.read() if due else None
        self._daemons = self._own.cores(reading.at, everything) if suspect else 0.0
        if everything is not None:
            self._looked_at = reading.at
        filled = passed.is_filled(self._daemons)
        if filled:
            self._filled_at = self._looked_at
        lasting, waiting, others = -1.0, -1.0, -1
        if self._lasting is not None and not full:
            waiting = 0.0
        elif self._lasting is not None and not filled:
            lasting, waiting = self._lasting.cores(reading.at, everything)
        if full and not filled:
            others = runnable_threads(self._others(), proc=self._proc)
        told = self._told(reading, passed, runnable)
        return replace(
            told,
            outside_lasting=lasting,
            outside_waiting=waiting,
            runnable_others=others,
            cost=time.thread_time() - begun,
        )

    def glance(self) -> HostUtilization | None:
        """The same by counters alone, without a look at processes or a pause, while those outside fill the host, which
        ``read`` found a short while ago; None if they do not, or that is too long ago: then ``read``."""
        last = self._last
        if last is None or self._reading.locked() or self._clock() - self._filled_at > GLANCE_SECONDS:
            return None
        begun = time.thread_time()
        reading = self._counters()
        passed = reading.since(last)
        if passed is None or not passed.is_filled(self._daemons):
            return None
        self._last = reading
        return replace(self._told(reading, passed, self._runnable(1)), cost=time.thread_time() - begun)

    def _told(self, reading: _Reading, passed: _Passed, runnable: int) -> HostUtilization:
        """What both kinds of readings tell."""
        memory = self._memory()
        return HostUtilization(
            cores=reading.cores,
            cpu=passed.cpu,
            idle=passed.idle,
            yopp_cpu=min(passed.yopp + self._daemons, passed.cpu),
            runnable=max(runnable - 1, 0),  # the reader itself runs, too
            yields=self._yields,
            memory_total=memory.get("MemTotal", 0),
            memory_available=memory.get("MemAvailable", 0),
            swap_free=memory.get("SwapFree", 0),
            memory_stalled=passed.stalled,
            daemons_cpu=self._daemons,
        )

    def _counters(self) -> _Reading:
        first, *lines = self._text("stat", 65536).splitlines() or [""]
        figures = [int(word) for word in first.split()[1:9]]
        figures += [0] * (8 - len(figures))
        cores = sum(line.startswith("cpu") for line in lines)
        return _Reading(
            at=self._clock(),
            busy=sum(figures[index] for index in BUSY),
            idle=sum(figures[index] for index in IDLE),
            everything=sum(figures),
            cores=max(cores, 1),
            yopp_seconds=self._yopp_seconds(),
            stalled_us=self._stalled(),
        )

    def _runnable(self, times: int) -> int:
        """The threads that run or wait for the CPU, this one included: the median of so many counts."""
        counts: list[int] = []
        while len(counts) < times:
            if counts:
                time.sleep(COUNT_SECONDS)
            running = self._text("loadavg").split()[3:4]
            counts.append(int(running[0].partition("/")[0]) if running else 1)
        return sorted(counts)[times // 2]

    def _stalled(self) -> int | None:
        for line in self._text("pressure/memory").splitlines():
            if line.startswith("full"):
                return int(line.rpartition("total=")[2])
        return None

    def _memory(self) -> dict[str, int]:
        """The lines of meminfo, in bytes."""
        found = {}
        for line in self._text("meminfo").splitlines():
            name, _, rest = line.partition(":")
            found[name] = int(rest.split()[0]) << 10
        return found

    def _text(self, name: str, length: int = 8192) -> str:
        return read_bytes(f"{self._proc}/{name}", length).decode("ascii", "replace")


def node_utilization() -> ResourceUtilization:
    """The whole host: the memory that is not available, and the cores that were busy since the last call."""
    import psutil

    memory, cores = psutil.virtual_memory(), os.cpu_count() or 1
    busy = psutil.cpu_percent(interval=None) / 100 * cores
    used = int(memory.total - memory.available)
    return ResourceUtilization(used, busy, os.getloadavg()[0], int(memory.total), cores)
