"""Events as lines and as JSON objects."""

from __future__ import annotations

from typing import Any

from ..records.history import EventKind, HistoryEvent
from ..records.times import timestamp
from .cluster import cause_document
from .columns import NUMBER, TIME, Column
from .containers import exit_status_text
from .text import harmless, span, vcores

_TIMES = frozenset({"at", "submittedAt", "eligibleAt"})
_SPANS = {"waitedMs": "waited", "ranMs": "ran", "pausedMs": "paused for"}
_QUIET = frozenset({"pid", "cpuMs", "peakMB", "position", "was", "attempt", "finalStatus"})


def document(event: HistoryEvent) -> dict[str, Any]:
    """One event; ``data`` holds the further facts of its kind."""
    return {
        "seq": event.seq,
        "t": event.t,
        "kind": event.kind.value,
        "node": event.node,
        "app": event.app,
        "container": event.container,
        "why": event.why,
        "cause": cause_document(event.cause),
        "data": {**event.words, **event.numbers},
    }


def subject(event: HistoryEvent) -> str:
    """The subject of the event: the most specific id that it has."""
    return event.container or event.app or event.node


def details(event: HistoryEvent) -> str:
    """The event's further facts in a few words."""
    named = event.kind is EventKind.QUEUES_REFRESHED
    parts = [
        f"{name} {value}" if named else value
        for name, value in event.words.items()
        if value and name not in _QUIET
    ]
    numbers = event.numbers
    if "memoryMB" in numbers:
        parts.append(f"{numbers['memoryMB']} MB, {vcores(numbers['vcores'])}")
    parts += [f"{word} {span(numbers[name])}" for name, word in _SPANS.items() if name in numbers]
    if "exitStatus" in numbers:
        parts.append(f"exit {exit_status_text(numbers['exitStatus'])}")
    shown = {"memoryMB", "vcores", "exitStatus", "exitCode"} | _TIMES | _QUIET | _SPANS.keys()
    parts += [f"{name} {value}" for name, value in numbers.items() if name not in shown]
    if event.container and event.node:
        parts.append(f"on {event.node}")
    if event.why:
        parts.append(f"({event.why})")
    return " ".join(parts)


COLUMNS: tuple[Column[HistoryEvent], ...] = (
    Column("seq", "SEQ", lambda event: event.seq, kind=NUMBER),
    Column("t", "TIME", lambda event: event.t, kind=TIME),
    Column("kind", "KIND", lambda event: event.kind.value),
    Column("subject", "SUBJECT", subject),
    Column("details", "DETAILS", details, flexible=True),
)
"""The columns of a line, and of tsv."""

_KIND_WIDTH = max(len(kind.value) for kind in EventKind)


def line(event: HistoryEvent, *, wide: bool = False) -> str:
    """One line of a stream, with its parts at the same positions in every line. A ``wide`` line also names
    node, application and container.
    """
    told = details(event)
    if wide:
        named = (("node", event.node), ("app", event.app), ("container", event.container))
        told = "  ".join([*filter(None, [told]), *(f"{key}={value}" for key, value in named if value)])
    begin = f"{event.seq:>6}  {timestamp(event.t)}  {event.kind.value:<{_KIND_WIDTH}}  {subject(event)}"
    # A name may contain a newline, and the text after it would look like another event.
    return harmless(f"{begin}  {told}" if told else begin)
