"""The columns of ``yopp top``'s Events screen, and a container's own history. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ..records.history import EventKind, HistoryEvent
from ..records.ids import dotted
from .cells import ACCENT, BAD, DIM, GOOD, STRONG, WARN, Cell, TopColumn
from .events import details, subject
from .explain.words import suffix
from .text import timestamp

_TONES = {
    EventKind.CONTAINER_STARTED: GOOD,
    EventKind.CONTAINER_RESUMED: GOOD,
    EventKind.APPLICATION_FINISHED: GOOD,
    EventKind.NODE_ADDED: GOOD,
    EventKind.NODE_RETURNED: GOOD,
    EventKind.NODE_HEALTHY: GOOD,
    EventKind.NODE_RESUMED: GOOD,
    EventKind.CONTAINER_QUEUED: DIM,
    EventKind.CONTAINER_ALLOCATED: DIM,
    EventKind.CONTAINER_ACQUIRED: DIM,
    EventKind.QUEUE_LIMIT_TOLD: DIM,
    EventKind.CONTAINER_PAUSED: WARN,
    EventKind.NODE_SILENT: WARN,
    EventKind.NODE_DRAINING: WARN,
    EventKind.CONTAINER_PROMOTED: ACCENT,
    EventKind.CONTAINER_DEMOTED: ACCENT,
    EventKind.CONTAINER_PREEMPTED: BAD,
    EventKind.CONTAINER_SHED: BAD,
    EventKind.CONTAINER_ABORTED: BAD,
    EventKind.APPLICATION_FAILED: BAD,
    EventKind.APPLICATION_KILLED: BAD,
    EventKind.NODE_LOST: BAD,
    EventKind.NODE_UNHEALTHY: BAD,
}


def clock(epoch_ms: int) -> str:
    """The time of the day (UTC), to the millisecond."""
    return timestamp(epoch_ms)[11:23]


def short_subject(event: HistoryEvent) -> str:
    """What it happened to, its id shortened; a container's as it can be typed."""
    if event.container:
        return f"container {dotted(event.container)}"
    name = subject(event)
    return f"application {suffix(name)}" if name.startswith("application_") else name


EVENT_COLUMNS: tuple[TopColumn[HistoryEvent], ...] = (
    TopColumn(
        "time", "Time (UTC)", 12, lambda event: Cell(clock(event.t), DIM), lambda event: (event.t, event.seq)
    ),
    TopColumn(
        "kind",
        "Kind",
        20,
        lambda event: Cell(event.kind.value, _TONES.get(event.kind, "")),
        lambda event: event.kind.value,
    ),
    TopColumn("subject", "Subject", 24, lambda event: Cell(short_subject(event), STRONG), subject),
    TopColumn("details", "Details", 16, lambda event: Cell(details(event)), details, flexible=True),
)


def kinds_of(events: Sequence[HistoryEvent]) -> list[tuple[str, str]]:
    """The kinds there are and how often each, by name."""
    counted: dict[str, int] = {}
    for event in events:
        counted[event.kind.value] = counted.get(event.kind.value, 0) + 1
    return [(kind, f"{kind}  {number}") for kind, number in sorted(counted.items())]


def story(events: Sequence[HistoryEvent]) -> list[tuple[str, Cell, str]]:
    """One container's history: when, what, and what else there is to say."""
    return [
        (
            clock(event.t),
            Cell(event.kind.value.removeprefix("Container"), _TONES.get(event.kind, "")),
            details(event),
        )
        for event in events
    ]
