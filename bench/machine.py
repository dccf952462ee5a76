"""Measures what processes use: CPU of trees with the children that they have reaped, memory, and what others
use meanwhile."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterable
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
CORES = os.cpu_count() or 1
QUIET = 0.08
"""The share of the host that may be busy before a run that counts as quiet."""
NOISY = 0.15
"""The cores that others may use during a run that counts as quiet."""

Roots = Callable[[], Iterable[int]]


def parse_stat(line: str) -> tuple[int, float, float]:
    """The parent, its own CPU seconds, and those of its reaped children, from one line of /proc/PID/stat."""
    words = line[line.rindex(")") + 2 :].split()
    return int(words[1]), (int(words[11]) + int(words[12])) / TICK, (int(words[13]) + int(words[14])) / TICK


def processes() -> dict[int, tuple[int, float, float]]:
    """The result of ``parse_stat`` for every process."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found[int(name)] = parse_stat(Path(f"/proc/{name}/stat").read_text())
            except (OSError, ValueError):
                continue
    return found


def tree(parents: dict[int, int], roots: Iterable[int]) -> set[int]:
    """The roots that are among ``parents``, and all their descendants."""
    below: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        below.setdefault(parent, []).append(pid)
    found: set[int] = set()
    ahead = [root for root in roots if root in parents]
    while ahead:
        pid = ahead.pop()
        if pid not in found:
            found.add(pid)
            ahead += below.get(pid, [])
    return found


def cpu_seconds(roots: Iterable[int]) -> float:
    """The CPU seconds of these processes and their descendants so far, reaped ones included."""
    seen = processes()
    members = tree({pid: one[0] for pid, one in seen.items()}, roots)
    return sum(seen[pid][1] + seen[pid][2] for pid in members)


def reaped_seconds() -> float:
    """The CPU seconds of this process's children that have ended, and of their reaped children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def pss_mb(pids: Iterable[int]) -> float:
    """The memory of these processes in MB (PSS: shared pages are divided by their users); 0 for one that is gone."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total / 1024


def own_seconds(pids: Iterable[int]) -> float:
    """The CPU seconds of these processes themselves; 0 for one that is gone."""
    seen = processes()
    return sum(seen[pid][1] for pid in pids if pid in seen)


def busy_seconds() -> float:
    """The seconds that all cores together were busy since boot."""
    words = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]]
    return (sum(words) - words[3] - words[4]) / TICK


def busy_share(seconds: float = 0.5) -> float:
    """The share of the host that is busy during the next ``seconds``."""
    before, begun = busy_seconds(), time.monotonic()
    time.sleep(seconds)
    return (busy_seconds() - before) / ((time.monotonic() - begun) * CORES)


class Meter:
    """What a piece of work uses: ``seconds`` of clock, ``cpu`` of our trees, ``others`` in cores.

    ``cpu`` counts the processes below ``roots`` (a runner's daemons) and the children that this process has
    reaped. With ``this``, it counts this process itself and its live children instead of ``roots``.
    ``others`` is how busy the host was apart from these and this process.
    """

    def __init__(self, roots: Roots = tuple, *, this: bool = False) -> None:
        self._roots, self._this = roots, this
        self.seconds = self.cpu = self.others = 0.0

    def __enter__(self) -> Meter:
        self._ours = self._now()
        self._busy, self._self = busy_seconds(), time.process_time()
        self._begun = time.monotonic()
        return self

    def __exit__(self, *exception: object) -> None:
        self.seconds = time.monotonic() - self._begun
        busy, here = busy_seconds() - self._busy, 0.0 if self._this else time.process_time() - self._self
        self.cpu = self._now() - self._ours
        if self.seconds > 0.5:  # the kernel counts in ticks
            self.others = max(0.0, (busy - here - self.cpu) / self.seconds)

    def _now(self) -> float:
        if self._this:
            return cpu_seconds([os.getpid()])
        return cpu_seconds(self._roots()) + reaped_seconds()
