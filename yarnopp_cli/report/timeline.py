"""A job's events as timelines: when and where each container waited, ran and was paused. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..records.history import EventKind, HistoryEvent

GRANTED, QUEUED, RUNNING, PAUSED = "granted", "queued", "running", "paused"
STATES = (GRANTED, QUEUED, RUNNING, PAUSED)
_ENDS = {
    EventKind.CONTAINER_COMPLETED: "",
    EventKind.CONTAINER_PREEMPTED: "preempted",
    EventKind.CONTAINER_SHED: "shed",
    EventKind.CONTAINER_ABORTED: "aborted",
}


@dataclass(frozen=True, slots=True)
class Segment:
    """A container was in ``state`` from ``begin`` to ``end``, in epoch milliseconds, of ``execution_type``."""

    state: str
    begin: int
    end: int
    execution_type: str


@dataclass(slots=True)
class Line:
    """One container's life. ``outcome`` is ok, failed, preempted, shed, aborted, or "" while it lives.

    ``submitted`` is when its application was, ``eligible`` when its master asked for it; 0 where that was not kept.
    """

    container: str
    node: str
    execution_type: str
    memory_mb: int
    vcores: int
    segments: list[Segment] = field(default_factory=list)
    outcome: str = ""
    exit_status: int | None = None
    cpu_ms: int = 0
    peak_mb: int = 0
    is_master: bool = False
    submitted: int = 0
    eligible: int = 0

    def spent(self, state: str) -> int:
        """Milliseconds in a state."""
        return sum(one.end - one.begin for one in self.segments if one.state == state)

    @property
    def has_run(self) -> bool:
        """Whether it came to run at all."""
        return any(one.state == RUNNING for one in self.segments)

    @property
    def waited_ms(self) -> int:
        """From its grant to its start: on the way to its node, and in the queue there."""
        return self.spent(GRANTED) + self.spent(QUEUED)

    def waited_since(self, begin: int) -> int:
        """From ``begin`` to its start, to its end if it never ran; from its grant where ``begin`` is not known."""
        if not begin or not self.segments:
            return self.waited_ms
        start = next((one.begin for one in self.segments if one.state == RUNNING), self.segments[-1].end)
        return max(0, start - begin)


class _Reader:
    """Builds the line of one container, event after event."""

    def __init__(self, event: HistoryEvent) -> None:
        numbers = event.numbers
        self.line = Line(
            event.container,
            event.node,
            event.words.get("executionType", ""),
            numbers.get("memoryMB", 0),
            numbers.get("vcores", 0),
            is_master="master" in event.why,
            submitted=numbers.get("submittedAt", 0),
            eligible=numbers.get("eligibleAt", 0),
        )
        self._state, self._since = GRANTED, event.t

    def _go(self, state: str, t: int) -> None:
        t = max(self._since, t)
        if t > self._since:
            self.line.segments.append(Segment(self._state, self._since, t, self.line.execution_type))
        self._state, self._since = state, t

    def take(self, event: HistoryEvent) -> None:
        """The next event of this container."""
        at = event.numbers.get("at") or event.t
        match event.kind:
            case EventKind.CONTAINER_QUEUED:
                self._go(QUEUED, at)
            case EventKind.CONTAINER_STARTED:
                if self._state == GRANTED and (waited := event.numbers.get("waitedMs", 0)):
                    self._go(QUEUED, at - waited)
                self._go(RUNNING, at)
            case EventKind.CONTAINER_PAUSED:
                self._go(PAUSED, at)
            case EventKind.CONTAINER_RESUMED:
                self._go(RUNNING, at)
            case EventKind.CONTAINER_PROMOTED | EventKind.CONTAINER_DEMOTED | EventKind.CONTAINER_RESIZED:
                self._go(self._state, event.t)
                self.line.execution_type = event.words.get("executionType", self.line.execution_type)
                self.line.memory_mb = event.numbers.get("memoryMB", self.line.memory_mb)
                self.line.vcores = event.numbers.get("vcores", self.line.vcores)
            case kind if kind in _ENDS:
                self._go("", at)
                status = event.numbers.get("exitStatus", 0)
                self.line.exit_status = status
                self.line.outcome = _ENDS[kind] or ("ok" if status == 0 else "failed")
                self.line.cpu_ms = event.numbers.get("cpuMs", 0)
                self.line.peak_mb = event.numbers.get("peakMB", 0)

    def close(self, now_ms: int) -> Line:
        """End the segment that is still open at ``now_ms``."""
        if not self.line.outcome:
            self._go("", now_ms)
        return self.line


def lines(events: Iterable[HistoryEvent], now_ms: int) -> list[Line]:
    """The lives of all containers whose grant is among the events, in order of their grant."""
    readers: dict[str, _Reader] = {}
    for event in events:
        if not event.container:
            continue
        if event.kind is EventKind.CONTAINER_ALLOCATED:
            readers.setdefault(event.container, _Reader(event))
        elif event.container in readers:
            readers[event.container].take(event)
    return [reader.close(now_ms) for reader in readers.values()]


def load(found: Sequence[Line], execution_type: str, state: str = RUNNING) -> list[tuple[int, int]]:
    """Vcores of containers of a type in a state over time: (epoch milliseconds, vcores from then on)."""
    steps: dict[int, int] = {}
    for line in found:
        for one in line.segments:
            if one.state == state and one.execution_type == execution_type:
                steps[one.begin] = steps.get(one.begin, 0) + line.vcores
                steps[one.end] = steps.get(one.end, 0) - line.vcores
    total, result = 0, []
    for moment in sorted(steps):
        total += steps[moment]
        result.append((moment, total))
    return result


def waits(found: Sequence[Line], execution_type: str = "") -> list[int]:
    """How long each container that ran waited for its start since it was eligible, in milliseconds; masters are not
    counted.
    """
    return [one.waited_since(one.eligible) for one in _ran(found, execution_type)]


def _ran(found: Sequence[Line], execution_type: str = "") -> list[Line]:
    return [
        one
        for one in found
        if one.has_run and not one.is_master and execution_type in ("", one.segments[-1].execution_type)
    ]


def _spread(values: Sequence[int]) -> dict[str, int]:
    return {
        "median": round(statistics.median(values)) if values else 0,
        "mean": round(statistics.mean(values)) if values else 0,
        "p95": _percentile(values, 95),
        "max": max(values, default=0),
    }


def figures(found: Sequence[Line], vcores: int) -> dict[str, Any]:
    """The figures of a job. ``vcores`` are those of the nodes it ran on, 0 for unknown."""
    tasks = [one for one in found if not one.is_master]
    begin = min((one.segments[0].begin for one in found if one.segments), default=0)
    end = max((one.segments[-1].end for one in found if one.segments), default=0)
    began = _ran(found)
    ran = [one.spent(RUNNING) for one in tasks if one.has_run]
    used = sum(one.spent(RUNNING) * one.vcores for one in found)
    outcomes = {
        name: sum(1 for one in tasks if one.outcome == name) for name in ("ok", "failed", "preempted", "shed")
    }
    return {
        "begin": begin,
        "end": end,
        "elapsedMs": end - begin,
        "containers": len(tasks),
        "ran": len(ran),
        "outcomes": outcomes,
        "pausedMs": sum(one.spent(PAUSED) for one in tasks),
        "pauses": sum(1 for one in tasks for part in one.segments if part.state == PAUSED),
        "waitedMs": _spread([one.waited_ms for one in began]),
        "waitedSinceEligibleMs": _spread(waits(found)),
        "waitedSinceSubmitMs": _spread([one.waited_since(one.submitted) for one in began]),
        "ranMs": {"median": round(statistics.median(ran)) if ran else 0, "max": max(ran, default=0)},
        "utilisation": round(used / ((end - begin) * vcores), 4) if end > begin and vcores else None,
    }


def _percentile(values: Sequence[int], percent: int) -> int:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] if ordered else 0


def document(found: Sequence[Line]) -> list[dict[str, Any]]:
    """The lines as JSON."""
    return [
        {
            "id": one.container,
            "node": one.node,
            "executionType": one.execution_type,
            "memoryMB": one.memory_mb,
            "vcores": one.vcores,
            "am": one.is_master,
            "outcome": one.outcome,
            "exitStatus": one.exit_status,
            "waitedMs": one.waited_ms,
            "waitedSinceEligibleMs": one.waited_since(one.eligible),
            "waitedSinceSubmitMs": one.waited_since(one.submitted),
            "ranMs": one.spent(RUNNING),
            "pausedMs": one.spent(PAUSED),
            "cpuMs": one.cpu_ms,
            "peakMB": one.peak_mb,
            "segments": [
                {
                    "state": part.state,
                    "begin": part.begin,
                    "end": part.end,
                    "executionType": part.execution_type,
                }
                for part in one.segments
            ],
        }
        for one in found
    ]
