"""What was written down and what is found after a crash: which is true, and how it goes on. Pure.

The daemon that comes back reads its records, looks at the processes they name, and hands both here; what
comes out are the events to post, and the scheduler asks ``standing`` and ``restore`` what each of them means.
The record says what was intended, the processes say what is: where they differ, the processes are right, and
what had been intended and not done is done again, since every command is idempotent.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..causes import Cause, CauseKind
from ..records import ContainerExitStatus, ContainerRecord, ContainerState, ContainerUsage, Resource
from .container import UNMEASURED, Container, Kill, Pause
from .events import ContainerRecovered, Event, RecoveryCompleted
from .transitions import StoryEntry


@dataclass(frozen=True, slots=True)
class Finding:
    """What is true of a recorded container now.

    ``alive``: the process that the record names is still that process (pid and start time agree).
    ``stopped``: it stands still. ``exit_code`` is what it left behind, None if nothing.
    """

    alive: bool = False
    stopped: bool = False
    exit_code: int | None = None
    usage: ContainerUsage = UNMEASURED
    cgroup: str = ""


class Standing(enum.Enum):
    """Where a recovered container stands."""

    #: it waits in its old place; also one that was being launched and never came to life
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    #: it is to end and lives: it is told again
    KILLING = "KILLING"
    #: it ended meanwhile, or is gone without a word
    ENDED = "ENDED"
    #: its end was known before the crash and not yet reported
    FINISHED = "FINISHED"


def reconcile(records: Iterable[ContainerRecord], findings: Mapping[str, Finding]) -> list[Event]:
    """The events that bring a new scheduler to where the old one was, in order of arrival.

    A record without a finding is of a container of which nothing was found.
    """
    nothing = Finding()
    events: list[Event] = []
    for record in sorted(records, key=lambda record: (record.sequence, record.spec.container_id)):
        found = findings.get(record.spec.container_id, nothing)
        events.append(
            ContainerRecovered(
                record,
                alive=found.alive,
                stopped=found.stopped,
                exit_code=found.exit_code,
                usage=found.usage,
                cgroup=found.cgroup,
            )
        )
    events.append(RecoveryCompleted())
    return events


def standing(event: ContainerRecovered) -> Standing:
    """Where the container stands, by its record and its processes."""
    state = event.record.state
    if state is ContainerState.DONE:
        return Standing.FINISHED
    if event.exit_code is not None:
        return Standing.ENDED
    if event.alive:
        if state is ContainerState.KILLING:
            return Standing.KILLING
        return Standing.PAUSED if event.stopped else Standing.RUNNING
    if state in (ContainerState.SCHEDULED, ContainerState.LAUNCHING):
        return Standing.QUEUED
    return Standing.ENDED


def holding(event: ContainerRecovered) -> Resource:
    """What a recovered container that lives holds of the node: a paused one no vcores, and what memory it
    had kept."""
    resource = event.record.spec.resource
    if standing(event) is not Standing.PAUSED:
        return resource
    kept = event.record.paused_memory
    return Resource(resource.memory if kept < 0 else min(kept, resource.memory), 0)


_STATES = {
    Standing.QUEUED: ContainerState.SCHEDULED,
    Standing.RUNNING: ContainerState.RUNNING,
    Standing.PAUSED: ContainerState.PAUSED,
    Standing.KILLING: ContainerState.KILLING,
    Standing.ENDED: ContainerState.DONE,
    Standing.FINISHED: ContainerState.DONE,
}


def restore(event: ContainerRecovered, now: float, epoch_ms: int) -> Container:
    """The container as it was, in the state where it stands; it holds no resources yet.

    The time that passed without us counts as running time where it ran before and after.
    """
    record = event.record
    where = standing(event)
    container = Container(
        spec=record.spec,
        sequence=record.sequence,
        state=_STATES[where],
        queued_at_ms=record.queued_at_ms,
        started_at_ms=record.started_at_ms,
        finished_at_ms=record.finished_at_ms,
        state_since_ms=record.state_since_ms if record.state is _STATES[where] else epoch_ms,
        ran=record.ran_ms / 1000,
        pid=record.pid,
        process_start=record.process_start,
        cgroup=event.cgroup,
        usage=UNMEASURED if where is Standing.QUEUED else event.usage,
        exit_code=record.exit_code,
        diagnostics=record.diagnostics,
        passing=record.passing_diagnostics,
    )
    if where is Standing.FINISHED:
        container.exit_status = record.exit_status
        container.cause = record.cause
    elif record.state is ContainerState.KILLING and record.exit_status != ContainerExitStatus.INVALID:
        container.kill = Kill(record.exit_status)
        container.cause = record.cause
    if where is Standing.PAUSED:
        container.paused_at_ms = container.state_since_ms
        _restore_pause(container, record)
    ran_on = record.state in (ContainerState.RUNNING, ContainerState.RESUMING) or (
        record.state is ContainerState.PAUSING and where is Standing.RUNNING
    )
    if ran_on and where is not Standing.QUEUED and record.state_since_ms:
        container.ran += max(epoch_ms - record.state_since_ms, 0) / 1000
    container.ran_before_state = record.ran_ms / 1000 if record.state is container.state else container.ran
    if where is Standing.RUNNING:
        container.running_since = now
        container.started_at_ms = container.started_at_ms or epoch_ms
        container.stood_ms = max(0, epoch_ms - container.started_at_ms - round(container.ran * 1000))
        if record.state is ContainerState.RUNNING and record.ran_ms:
            container.resumed_at_ms = record.state_since_ms
    container.story.append(StoryEntry(now, record.state, ContainerRecovered, container.state))
    return container


def _restore_pause(container: Container, record: ContainerRecord) -> None:
    """Why it stands still. A person's pause goes on; whether pressure does has to be measured anew, so one that gave
    way to it waits for room."""
    container.cause = container.paused_for = record.cause
    if not record.held:
        container.pause = Pause()
        return
    if record.cause is None:  # written by a version that knew no causes
        container.cause = container.paused_for = Cause(CauseKind.PERSON)
    container.pause = Pause(held_by=container.cause)
