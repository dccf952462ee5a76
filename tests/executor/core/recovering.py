"""What a daemon that comes back posts to a new scheduler, from records and what is found of their containers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from executor.core.container import UNMEASURED
from executor.core.events import ContainerRecovered, Event, RecoveryCompleted
from executor.records import ContainerRecord, ContainerUsage


@dataclass(frozen=True, slots=True)
class Finding:
    """What is true of a recorded container: whether its process is alive and stopped, and what it left behind."""

    alive: bool = False
    stopped: bool = False
    exit_code: int | None = None
    usage: ContainerUsage = UNMEASURED
    cgroup: str = ""


def reconcile(records: Iterable[ContainerRecord], findings: Mapping[str, Finding]) -> list[Event]:
    """The events in order of arrival. Of a record without a finding nothing was found."""
    events: list[Event] = []
    for record in sorted(records, key=lambda record: (record.sequence, record.spec.container_id)):
        found = findings.get(record.spec.container_id, Finding())
        events.append(
            ContainerRecovered(record, found.alive, found.stopped, found.exit_code, found.usage, found.cgroup)
        )
    return [*events, RecoveryCompleted()]
