"""Compares records with the processes found after a crash, and decides what follows (YARN's ``NMStateStoreService``).
Pure.

The restarted daemon reads its records, checks the processes they name, and posts a ContainerRecovered for each. The
scheduler calls ``standing`` and ``restore``. A record is the intention, the processes are the fact. If they differ,
the processes are right; an unfinished command is repeated, because every command is idempotent.
"""

from __future__ import annotations

import enum

from ..causes import Cause, CauseKind
from ..light import replace
from ..records import ContainerExitStatus, ContainerRecord, ContainerState, Resource
from .container import UNMEASURED, Container, Kill, Pause
from .events import ContainerRecovered
from .transitions import StoryEntry


class Standing(enum.Enum):
    """The state of a recovered container."""

    #: it waits in its old place, as does one that was being launched and never started
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    #: it was told to end and is alive: it is told again
    KILLING = "KILLING"
    #: it ended meanwhile, or disappeared
    ENDED = "ENDED"
    #: its end was known before the crash, and is not yet reported
    FINISHED = "FINISHED"


def standing(event: ContainerRecovered) -> Standing:
    """The state of the container, by its record and its processes."""
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
    """The resources that a recovered container that is alive holds: a paused one holds no vcores, the memory that it
    kept, and all countable resources, such as GPUs: a stopped process keeps its device open."""
    resource = event.record.spec.resource
    if standing(event) is not Standing.PAUSED:
        return resource
    kept = event.record.paused_memory
    return Resource(resource.memory if kept < 0 else min(kept, resource.memory), 0, resource.others)


_STATES = {
    Standing.QUEUED: ContainerState.SCHEDULED,
    Standing.RUNNING: ContainerState.RUNNING,
    Standing.PAUSED: ContainerState.PAUSED,
    Standing.KILLING: ContainerState.KILLING,
    Standing.ENDED: ContainerState.DONE,
    Standing.FINISHED: ContainerState.DONE,
}


def restore(event: ContainerRecovered, now: float, epoch_ms: int) -> Container:
    """The recovered container in that state; it holds no resources yet.

    The time in which no daemon ran counts as running time if it ran before and after.
    """
    record = event.record
    where = standing(event)
    # One that waits is given its devices when it begins.
    spec = replace(record.spec, devices=()) if where is Standing.QUEUED else record.spec
    container = Container(
        spec=spec,
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
        left=record.left if where is Standing.PAUSED else (),
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
        container.started_at_ms = container.started_at_ms or record.state_since_ms or epoch_ms
        container.stood_ms = max(0, epoch_ms - container.started_at_ms - round(container.ran * 1000))
        if record.state is ContainerState.RUNNING and record.ran_ms:
            container.resumed_at_ms = record.state_since_ms
    container.story.append(StoryEntry(now, record.state, ContainerRecovered, container.state))
    return container


def _restore_pause(container: Container, record: ContainerRecord) -> None:
    """A person's pause goes on. Whether pressure does has to be measured anew, so who was paused for it waits for
    room."""
    container.cause = container.paused_for = record.cause
    if not record.held:
        container.pause = Pause()
        return
    if record.cause is None:  # written by a version that knew no causes
        container.cause = container.paused_for = Cause(CauseKind.PERSON)
    container.pause = Pause(held_by=container.cause)
