"""Recent measurements: the last minute of each container's CPU and memory, taken from pictures, and their drawing.
Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from executor.records import ContainerState, ContainerUsage

from ...explain.snapshot import Picture
from ...records.reports import ContainerReport

SAMPLES = 60
_SHORTEST_STEP = 0.05
_FEW = 5


@dataclass(slots=True)
class _Trace:
    """One container's measurements: ``cpu`` in cores, ``memory`` in bytes, oldest first."""

    last: ContainerUsage
    cpu: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    memory: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))


class History:
    """Computes rates from successive pictures: a container's report has only the CPU seconds since its start.

    A step lies between two measurements of the node (``sampled_at``), so the node's clock counts, not this
    program's. Ended containers are forgotten. ``host_cpu`` is the machine's CPU in percent of all cores,
    ``host_memory`` its memory in use, in bytes.
    """

    def __init__(self) -> None:
        self._traces: dict[str, _Trace] = {}
        self.host_cpu: deque[float] = deque(maxlen=2 * SAMPLES)
        self.host_memory: deque[float] = deque(maxlen=2 * SAMPLES)

    def add(self, picture: Picture) -> None:
        """Add the measurements of one picture."""
        self.host_cpu.append(picture.host.cpu_percent)
        self.host_memory.append(float(picture.host.memory_used))
        live = {}
        for report in picture.containers:
            if report.state is not ContainerState.DONE and report.usage.sampled_at > 0:
                live[report.container_id] = self._extended(report)
        self._traces = live

    def remember(self, traces: Mapping[str, Sequence[float]], machine: Sequence[float], cores: int) -> None:
        """Add earlier measurements of the nodes (numbers as in GetUsageTracesResponse) to traces that have none yet.

        ``cores`` is the machine's number of cores.
        """
        for name, numbers in traces.items():
            trace = self._traces.get(name)
            points = list(_triples(numbers))
            if trace is None or trace.cpu or len(points) < 2:
                continue
            trace.cpu.extend(
                max(0.0, cpu - cpu_before) / max(_SHORTEST_STEP, at - before)
                for (before, cpu_before, _), (at, cpu, _) in pairwise(points)
            )
            trace.memory.clear()
            trace.memory.extend(memory for _, _, memory in points)
            at, cpu, memory = points[-1]
            seen = trace.last
            trace.last = ContainerUsage(cpu, int(memory), sampled_at=at)
            if seen.sampled_at > at:  # the picture has a later measurement than the trace
                self._add(trace, seen)
        known = len(self.host_cpu)
        earlier = list(_triples(machine))[: -known or None]
        if known < _FEW:
            self.host_cpu.extendleft(100.0 * cpu / max(1, cores) for _, cpu, _ in reversed(earlier))
            self.host_memory.extendleft(memory for _, _, memory in reversed(earlier))

    def _extended(self, report: ContainerReport) -> _Trace:
        usage = report.usage
        trace = self._traces.get(report.container_id)
        if trace is None or usage.sampled_at < trace.last.sampled_at:  # new, or its node has restarted
            trace = _Trace(usage)
            trace.memory.append(float(usage.memory_bytes))
            return trace
        self._add(trace, usage)
        return trace

    @staticmethod
    def _add(trace: _Trace, usage: ContainerUsage) -> None:
        step = usage.sampled_at - trace.last.sampled_at
        if step >= _SHORTEST_STEP:
            trace.cpu.append(max(0.0, usage.cpu_seconds - trace.last.cpu_seconds) / step)
            trace.memory.append(float(usage.memory_bytes))
            trace.last = usage

    def cpu(self, container_id: str) -> Sequence[float]:
        """Cores used, oldest first; empty until it has been measured twice."""
        trace = self._traces.get(container_id)
        return trace.cpu if trace is not None else ()

    def memory(self, container_id: str) -> Sequence[float]:
        """Bytes used, oldest first."""
        trace = self._traces.get(container_id)
        return trace.memory if trace is not None else ()

    def cores(self, container_id: str) -> float | None:
        """Cores used between the last two measurements; None if it has not been measured twice."""
        trace = self._traces.get(container_id)
        return trace.cpu[-1] if trace is not None and trace.cpu else None


def _triples(numbers: Sequence[float]) -> Iterator[tuple[float, float, float]]:
    """The numbers in groups of three."""
    return zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)


LEVELS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], cells: int, highest: float) -> str:
    """The last ``cells`` values, one character each, ``highest`` the full height; blank if there are none.

    The newest is at the right. Values above ``highest`` are shown as ``highest``.
    """
    shown = list(values)[-cells:] if cells > 0 else []
    top = len(LEVELS) - 1
    levels = [round(top * value / highest) if highest > 0 else 0 for value in shown]
    return "".join(LEVELS[min(top, max(0, level))] for level in levels).rjust(max(0, cells))


def shares(counts: Sequence[int], cells: int) -> list[int]:
    """``cells`` cells divided among ``counts`` in proportion: each count above 0 gets at least one cell, if
    there are enough, and the sum is exact (largest remainder).
    """
    total = sum(counts)
    if total <= 0 or cells <= 0:
        return [0] * len(counts)
    exact = [cells * count / total for count in counts]
    given = [max(int(share), count > 0) for share, count in zip(exact, counts, strict=True)]
    places = range(len(counts))
    while sum(given) > cells:  # taken from a part with more than one cell, if there is any
        given[max(places, key=lambda one: (given[one] > 1, given[one] - exact[one], given[one]))] -= 1
    while sum(given) < cells:
        given[max(places, key=lambda one: exact[one] - given[one])] += 1
    return given


def bar(counts: Sequence[int], characters: str, cells: int) -> str:
    """One bar: each of ``counts`` drawn with the character of its place, in proportion."""
    drawn = zip(characters, shares(counts, cells), strict=True)
    return "".join(character * width for character, width in drawn)
