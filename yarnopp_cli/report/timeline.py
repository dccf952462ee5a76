"""A job's events as timelines: when and where each container waited, ran and was paused. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from ..records.history import EventKind, HistoryEvent

GRANTED, QUEUED, RUNNING, PAUSED = "granted", "queued", "running", "paused"
_ENTERS = {
    EventKind.CONTAINER_QUEUED: QUEUED,
    EventKind.CONTAINER_STARTED: RUNNING,
    EventKind.CONTAINER_PAUSED: PAUSED,
    EventKind.CONTAINER_RESUMED: RUNNING,
}
_CHANGES = (EventKind.CONTAINER_PROMOTED, EventKind.CONTAINER_DEMOTED, EventKind.CONTAINER_RESIZED)
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
class ContainerLine:
    """One container's life. ``outcome`` is ok, failed, preempted, shed, aborted, or "" while it lives.

    ``submitted`` is the time of its application's submission, ``eligible`` the time of its master's request; 0 if it
    was not kept. ``why`` is the event's reason if ``outcome`` is aborted.
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
    why: str = ""

    def spent(self, state: str) -> int:
        """Milliseconds in a state."""
        return sum(one.end - one.begin for one in self.segments if one.state == state)

    @property
    def has_run(self) -> bool:
        """Whether the container ever ran."""
        return any(one.state == RUNNING for one in self.segments)

    @property
    def waited_ms(self) -> int:
        """Milliseconds from its grant to its start: on the way to its node, and in the queue there."""
        return self.spent(GRANTED) + self.spent(QUEUED)

    def waited_since(self, begin: int) -> int:
        """Milliseconds from ``begin`` to its start, or to its end if it never ran; from its grant if ``begin`` is not
        known.
        """
        if not begin or not self.segments:
            return self.waited_ms
        start = next((one.begin for one in self.segments if one.state == RUNNING), self.segments[-1].end)
        return max(0, start - begin)


class _Reader:
    """Builds the line of one container, event after event."""

    def __init__(self, event: HistoryEvent) -> None:
        numbers = event.numbers
        self.line = ContainerLine(
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
        """Process the next event of this container."""
        line, numbers, kind = self.line, event.numbers, event.kind
        at = numbers.get("at") or event.t
        if kind in _ENTERS:
            waited = numbers.get("waitedMs", 0) if kind is EventKind.CONTAINER_STARTED else 0
            if waited and self._state == GRANTED:
                self._go(QUEUED, at - waited)
            self._go(_ENTERS[kind], at)
        elif kind in _CHANGES:
            self._go(self._state, event.t)
            line.execution_type = event.words.get("executionType", line.execution_type)
            line.memory_mb = numbers.get("memoryMB", line.memory_mb)
            line.vcores = numbers.get("vcores", line.vcores)
        elif kind in _ENDS:
            self._go("", at)
            line.exit_status = numbers.get("exitStatus", 0)
            line.outcome = _ENDS[kind] or ("ok" if line.exit_status == 0 else "failed")
            line.why = event.why if line.outcome == "aborted" else ""
            line.cpu_ms, line.peak_mb = numbers.get("cpuMs", 0), numbers.get("peakMB", 0)

    def close(self, now_ms: int) -> ContainerLine:
        """End the segment that is still open at ``now_ms``."""
        if not self.line.outcome:
            self._go("", now_ms)
        return self.line


def losses(found: Iterable[ContainerLine]) -> list[str]:
    """A line for each reason why containers were aborted, with their number."""
    reasons = Counter(one.why for one in found if one.why)
    return [f"{number} x {why}" for why, number in reasons.most_common()]


def lines(events: Iterable[HistoryEvent], now_ms: int) -> list[ContainerLine]:
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


def load(found: Sequence[ContainerLine], execution_type: str, state: str = RUNNING) -> list[tuple[int, int]]:
    """Vcores of the containers of a type in a state over time: (epoch milliseconds, vcores from then on)."""
    steps: Counter[int] = Counter()
    for line in found:
        for one in line.segments:
            if one.state == state and one.execution_type == execution_type:
                steps[one.begin] += line.vcores
                steps[one.end] -= line.vcores
    moments = sorted(steps)
    return list(zip(moments, accumulate(steps[moment] for moment in moments), strict=True))


def waits(found: Sequence[ContainerLine], execution_type: str = "") -> list[int]:
    """How long each container that ran waited for its start since it was eligible, in milliseconds; masters are not
    counted.
    """
    return [one.waited_since(one.eligible) for one in _ran(found, execution_type)]


def _ran(found: Sequence[ContainerLine], execution_type: str = "") -> list[ContainerLine]:
    return [
        one
        for one in found
        if one.has_run and not one.is_master and execution_type in ("", one.segments[-1].execution_type)
    ]


def _spread(values: Sequence[int]) -> dict[str, int]:
    if not values:
        return {"median": 0, "mean": 0, "p95": 0, "max": 0}
    ordered = sorted(values)
    return {
        "median": round(statistics.median(ordered)),
        "mean": round(statistics.mean(ordered)),
        "p95": ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)],
        "max": ordered[-1],
    }


def figures(found: Sequence[ContainerLine], vcores: int) -> dict[str, Any]:
    """The figures of a job. ``vcores`` is the total of its nodes, 0 if unknown."""
    tasks = [one for one in found if not one.is_master]
    begin = min((one.segments[0].begin for one in found if one.segments), default=0)
    end = max((one.segments[-1].end for one in found if one.segments), default=0)
    began = _ran(found)
    ran = [one.spent(RUNNING) for one in tasks if one.has_run]
    used = sum(one.spent(RUNNING) * one.vcores for one in found)
    outcomes = Counter(one.outcome for one in tasks)
    running = _spread(ran)
    return {
        "begin": begin,
        "end": end,
        "elapsedMs": end - begin,
        "containers": len(tasks),
        "ran": len(ran),
        "outcomes": {name: outcomes[name] for name in ("ok", "failed", "preempted", "shed", "aborted")},
        "pausedMs": sum(one.spent(PAUSED) for one in tasks),
        "pauses": sum(1 for one in tasks for part in one.segments if part.state == PAUSED),
        "waitedMs": _spread([one.waited_ms for one in began]),
        "waitedSinceEligibleMs": _spread(waits(found)),
        "waitedSinceSubmitMs": _spread([one.waited_since(one.submitted) for one in began]),
        "ranMs": {name: running[name] for name in ("median", "max")},
        "utilisation": round(used / ((end - begin) * vcores), 4) if end > begin and vcores else None,
    }


def document(found: Sequence[ContainerLine]) -> list[dict[str, Any]]:
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
