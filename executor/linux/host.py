"""What the whole machine does, between two readings: /proc/stat, /proc/meminfo and /proc/pressure.

A reading takes a fraction of a millisecond. Only while processes outside yopp seem to use much it looks for
yopp's own daemons and clients among all processes, since theirs is no pressure; that takes some 20 microseconds a
process. Sources: proc(5), Documentation/accounting/psi.rst.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from ..records import HostUtilization

BUSY = (0, 1, 2, 5, 6)
"""user, nice, system, irq and softirq of a cpu line; steal is nobody's here, and guests are in user already."""
IDLE = (3, 4)
"""idle and iowait."""


@dataclass(frozen=True, slots=True)
class _Reading:
    at: float
    busy: int
    idle: int
    everything: int
    cores: int
    yopp_seconds: float
    runnable: int
    stalled_us: int | None


class HostReader:
    """Reads below ``proc``. ``yopp_seconds`` is the CPU time of all containers so far. Processes whose command line
    has a program or a module of the name of one of ``markers``, and ``own_pids``, are yopp's own, unless they
    run in a group below ``hierarchy``: those are containers. They are looked for where others seem to use
    ``suspicious`` cores.
    """

    def __init__(
        self,
        yopp_seconds: Callable[[], float],
        *,
        proc: str = "/proc",
        markers: tuple[str, ...] = (),
        hierarchy: str = "",
        own_pids: Callable[[], Collection[int]] = tuple,
        suspicious: float = 0.3,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._yopp_seconds = yopp_seconds
        self._proc = proc
        self._suspicious = suspicious
        self._clock = clock
        self._own = OwnProcesses(
            proc, tuple(marker.encode() for marker in markers), hierarchy.encode(), own_pids
        )
        self._last: _Reading | None = None

    def read(self) -> HostUtilization | None:
        """The machine since the last call; None the first time, and where the counters have not moved."""
        reading, last = self._counters(), self._last
        self._last = reading
        if last is None:
            return None
        ticks, seconds = reading.everything - last.everything, reading.at - last.at
        if ticks <= 0 or seconds <= 0:
            return None
        cpu = reading.cores * (reading.busy - last.busy) / ticks
        yopp = max(0.0, reading.yopp_seconds - last.yopp_seconds) / seconds
        if cpu - yopp >= self._suspicious:
            yopp += self._own.cores(reading.at)
        stalled = -1.0
        if reading.stalled_us is not None and last.stalled_us is not None:
            stalled = min(1.0, (reading.stalled_us - last.stalled_us) / 1e6 / seconds)
        memory = self._memory()
        return HostUtilization(
            cores=reading.cores,
            cpu=cpu,
            idle=reading.cores * (reading.idle - last.idle) / ticks,
            yopp_cpu=min(yopp, cpu),
            runnable=reading.runnable,
            memory_total=memory.get("MemTotal", 0),
            memory_available=memory.get("MemAvailable", 0),
            swap_free=memory.get("SwapFree", 0),
            memory_stalled=stalled,
        )

    def _counters(self) -> _Reading:
        first, *lines = self._text("stat", 65536).splitlines() or [""]
        figures = [int(word) for word in first.split()[1:9]]
        figures += [0] * (8 - len(figures))
        cores = sum(line.startswith("cpu") for line in lines)
        runnable = next((int(line.split()[1]) for line in lines if line.startswith("procs_running")), 1)
        return _Reading(
            at=self._clock(),
            busy=sum(figures[index] for index in BUSY),
            idle=sum(figures[index] for index in IDLE),
            everything=sum(figures),
            cores=max(cores, 1),
            yopp_seconds=self._yopp_seconds(),
            runnable=max(runnable - 1, 0),  # who reads this runs, too
            stalled_us=self._stalled(),
        )

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
        return _read(f"{self._proc}/{name}", length).decode("ascii", "replace")


class OwnProcesses:
    """yopp's daemons and clients among all processes, and what they use."""

    def __init__(
        self,
        proc: str,
        markers: tuple[bytes, ...],
        hierarchy: bytes,
        own_pids: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self._own_pids = own_pids
        self._proc = proc
        self._markers = frozenset(markers)
        self._hierarchy = hierarchy
        self._hertz = os.sysconf("SC_CLK_TCK")
        self._seen: dict[tuple[str, int], float] = {}
        self._at = 0.0
        self._others: set[tuple[str, int]] = set()

    def cores(self, now: float) -> float:
        """Cores in use by them since the last call; one that is new counts with its mean since its start."""
        known = {str(pid) for pid in self._own_pids()}
        if not self._markers and not known:
            return 0.0
        booted = time.clock_gettime(time.CLOCK_BOOTTIME)
        used, seen, others = 0.0, {}, set()
        for pid in os.listdir(self._proc):
            if not pid.isdigit() or (stat := self._stat(pid)) is None:
                continue
            start, seconds = stat
            age = booted - start / self._hertz
            key = (pid, start)
            # what has just started may yet become another program
            if pid in known:
                own = not self._is_contained(pid)
            else:
                own = key not in self._others and self._is_own(pid)
            if not own:
                if age > 1.0:
                    others.add(key)
                continue
            seen[key] = seconds
            if key in self._seen and now > self._at:
                used += max(0.0, seconds - self._seen[key]) / (now - self._at)
            else:
                used += seconds / max(age, 0.02)
        self._seen, self._others, self._at = seen, others, now
        return used

    def _stat(self, pid: str) -> tuple[int, float] | None:
        """When it started, in ticks, and its CPU time; None where it is gone."""
        fields = _read(f"{self._proc}/{pid}/stat", 1024).rpartition(b")")[2].split()
        if len(fields) < 20:
            return None
        return int(fields[19]), (int(fields[11]) + int(fields[12])) / self._hertz

    def _is_own(self, pid: str) -> bool:
        words = _read(f"{self._proc}/{pid}/cmdline", 4096).split(b"\0")[:5]
        name = words[0].rpartition(b"/")[2]
        if name.startswith(b"python"):  # what it runs: a module or a script
            if b"-m" in words[:-1]:
                name = words[words.index(b"-m") + 1].partition(b".")[0]
            else:
                name = words[1].rpartition(b"/")[2] if len(words) > 1 else b""
        if name not in self._markers:
            return False
        return not self._is_contained(pid)

    def _is_contained(self, pid: str) -> bool:
        """Whether it runs in a container, whose use is known."""
        return self._hierarchy != b"" and self._hierarchy in _read(f"{self._proc}/{pid}/cgroup", 8192)


def _read(path: str, length: int) -> bytes:
    """The beginning of a file, empty where it is not there (any more)."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, length)
    except OSError:
        return b""
    finally:
        os.close(fd)
