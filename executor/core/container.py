"""One container at its node: its state, its transition table, and its history (YARN's ``ContainerImpl``).

Both commands to a container and events from it cause transitions. The module knows no other containers;
``scheduler.py`` decides which containers run and which wait.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..causes import ROOM, Cause, CauseKind, of_kind, paused_for
from ..light import Record, maker, replace
from ..records import (
    SUB_STATES,
    ContainerExitStatus,
    ContainerRecord,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    ContainerUsage,
    ExecutionType,
    Resource,
)
from . import commands
from .commands import KillContainer, LaunchContainer, PauseContainer, ResumeContainer
from .events import (
    ContainerExited,
    ContainerLaunched,
    ContainerLaunchFailed,
    ContainerPaused,
    ContainerPauseFailed,
    ContainerResumed,
)
from .transitions import StoryEntry, TransitionTable

SHOWN_COMMAND = 4096
"""How many characters of a command a status has."""

SCHEDULED = ContainerState.SCHEDULED
LAUNCHING = ContainerState.LAUNCHING
RUNNING = ContainerState.RUNNING
PAUSING = ContainerState.PAUSING
PAUSED = ContainerState.PAUSED
RESUMING = ContainerState.RESUMING
KILLING = ContainerState.KILLING
DONE = ContainerState.DONE

TRANSITIONS: Mapping[ContainerState, Mapping[type, ContainerState]] = {
    SCHEDULED: {LaunchContainer: LAUNCHING, KillContainer: DONE},
    LAUNCHING: {ContainerLaunched: RUNNING, ContainerLaunchFailed: DONE, KillContainer: KILLING},
    RUNNING: {PauseContainer: PAUSING, KillContainer: KILLING, ContainerExited: DONE},
    PAUSING: {
        ContainerPaused: PAUSED,
        ContainerPauseFailed: RUNNING,
        KillContainer: KILLING,
        ContainerExited: DONE,
    },
    PAUSED: {ResumeContainer: RESUMING, KillContainer: KILLING, ContainerExited: DONE},
    RESUMING: {ContainerResumed: RUNNING, KillContainer: KILLING, ContainerExited: DONE},
    KILLING: {
        ContainerExited: DONE,
        ContainerLaunchFailed: DONE,
        ContainerLaunched: KILLING,
        ContainerPaused: KILLING,
        ContainerPauseFailed: KILLING,
        ContainerResumed: KILLING,
    },
    DONE: {},
}
"""After YARN's ``ContainerImpl``. KILLING takes what a command given before the kill still ends in."""

CONTAINER_TABLE: TransitionTable[ContainerState, type] = TransitionTable(
    "a container at its node",
    TRANSITIONS,
    {
        SCHEDULED: "It is queued, or about to start.",
        LAUNCHING: "It has its resources, and its process is being started.",
        RUNNING: "Its process exists.",
        PAUSING: "Its processes are being stopped; it holds all of its resources.",
        PAUSED: "Its processes are stopped; it holds its memory but not its vcores.",
        RESUMING: "It has its vcores again, and its processes are being resumed.",
        KILLING: "It is being killed, and holds its resources until it has ended.",
        DONE: "It has ended, and its end is reported.",
    },
)
"""The table with what each state means."""


def container_states() -> list[str]:
    """A diagram, what each state means and is called in YARN's reports, and every transition."""
    return CONTAINER_TABLE.document(
        emphasised=lambda trigger: hasattr(commands, trigger.__name__),
        shown_as=("YARN's sub-state", {state: found.value for state, found in SUB_STATES.items()}),
    )


class Pause(Record):
    """That a container is paused or is to be, and why.

    ``held_by`` is a person's cause, which lasts until a person resumes it. ``gives_way_to`` is the scheduler's: room
    for a guaranteed container, until it is paused and the room is there; or pressure, until that is over. With
    neither it waits in its queue, and resumes as soon as there is room. ``pending``: the pause begins as soon as the
    container runs, because it was starting or resuming when this was decided. ``overdue``: the pause took too long,
    and its resources are no longer expected. ``gives_memory`` is the memory in MiB that the pause is expected to
    free, besides the vcores. ``said`` is the line of the diagnostics about ``held_by``.
    """

    held_by: Cause | None = None
    gives_way_to: Cause | None = None
    pending: bool = False
    overdue: bool = False
    gives_memory: int = 0
    said: str = ""

    @property
    def makes_room(self) -> bool:
        """Whether a guaranteed container waits for it, or its node has become too small."""
        return of_kind(self.gives_way_to, *ROOM)


class Kill(Record):
    """The kill of a container. ``exit_status`` is the status to report, None for its own exit code; ``forced``:
    SIGKILL was sent."""

    exit_status: int | None
    forced: bool = False


class DeadlineKind(enum.StrEnum):
    """The kinds of deadlines of a container."""

    __hash__ = str.__hash__  # enum's own is a call in Python

    #: SIGTERM had its time: SIGKILL
    FORCE_KILL = "FORCE_KILL"
    #: a pause took too long
    PAUSE = "PAUSE"
    #: a pause failed long enough ago to try again
    PAUSE_AGAIN = "PAUSE_AGAIN"
    #: the container has run for as long as it may
    TIMEOUT = "TIMEOUT"


class ContainerDeadline(NamedTuple):
    """A deadline of a container."""

    container_id: str
    kind: DeadlineKind


NOTHING = Resource()
UNMEASURED = ContainerUsage()


@dataclass(slots=True, eq=False)
class Container:
    """A container and everything that its node knows about it. Only the scheduler changes it.

    ``spec`` follows promotions and resizes. ``sequence`` is its place in the order of arrival; a container that
    changes queues gets a new one. ``allocated`` is its present allocation: nothing while queued, only memory while
    paused. Times ending in ``_ms`` are epoch milliseconds, the others seconds of the machine's clock.
    """

    spec: ContainerSpec
    sequence: int
    state: ContainerState = SCHEDULED
    allocated: Resource = NOTHING
    queued_at_ms: int = 0
    started_at_ms: int = 0
    finished_at_ms: int = 0
    paused_at_ms: int = 0
    #: how long it had been paused in all when it last began to run
    stood_ms: int = 0
    #: when it last resumed; 0 while it is paused, or if it never was
    resumed_at_ms: int = 0
    #: the processes that were stopped before it was paused (``ContainerRecord``)
    left: tuple[tuple[int, int], ...] = ()
    #: why it was last paused
    paused_for: Cause | None = None
    state_since_ms: int = 0
    #: when it last began to run, None while it does not
    running_since: float | None = None
    #: seconds that it ran before ``running_since``
    ran: float = 0.0
    #: seconds that it had run when it entered its state
    ran_before_state: float = 0.0
    pid: int = 0
    process_start: int = 0
    cgroup: str = ""
    usage: ContainerUsage = UNMEASURED
    exit_status: int = int(ContainerExitStatus.INVALID)
    exit_code: int | None = None
    diagnostics: str = ""
    #: the lines of it that tell of pauses
    passing: tuple[str, ...] = ()
    #: why it is in its state, and why the last request was not fulfilled (``ContainerStatus``)
    cause: Cause | None = None
    refusal: Cause | None = None
    #: None while it may run
    pause: Pause | None = None
    #: None until its end is requested
    kill: Kill | None = None
    #: less of its memory could be reclaimed than expected: it is not counted on again
    unreclaimable: bool = False
    #: a pause of it failed: none is chosen for it before ``DeadlineKind.PAUSE_AGAIN``, or one that a person asked for
    #: has succeeded
    unpausable: bool = False
    #: its limits changed while it was launching
    limits_stale: bool = False
    #: it was over its memory, or virtual memory, in the last measurement
    over_memory: bool = False
    over_virtual: bool = False
    #: it was to follow another one, and may have begun unless a LaunchContainer or its end tells otherwise
    sent_ahead: bool = False
    #: how many later arrivals had started before it was last paused, or before it came
    overtaken_before: int = 0
    #: the seconds that it was expected to wait when it was queued, None for unknown
    expected_wait: float | None = None
    story: list[StoryEntry] = field(default_factory=list)

    @property
    def container_id(self) -> str:
        """The container's id."""
        return self.spec.container_id

    @property
    def execution_type(self) -> ExecutionType:
        """The present execution type."""
        return self.spec.execution_type

    @property
    def is_opportunistic(self) -> bool:
        """Whether it may be preempted."""
        return self.spec.execution_type is ExecutionType.OPPORTUNISTIC

    @property
    def resource(self) -> Resource:
        """The present resource."""
        return self.spec.resource

    @property
    def needed(self) -> Resource:
        """The resources that it needs to run: all while queued, its vcores while paused."""
        if self.allocated is NOTHING:
            return self.spec.resource
        return (self.spec.resource - self.allocated).at_least_zero()

    @property
    def is_waiting(self) -> bool:
        """Whether it belongs in a queue."""
        if self.state is not PAUSED:
            return self.state is SCHEDULED
        return self.pause is None or (self.pause.held_by is None and self.pause.gives_way_to is None)

    @property
    def held(self) -> bool:
        """Whether a user has paused it, or has requested a pause."""
        return self.pause is not None and self.pause.held_by is not None

    @property
    def pause_pending(self) -> bool:
        """Whether it will be paused as soon as it runs."""
        return self.pause is not None and self.pause.pending

    @property
    def makes_room(self) -> bool:
        """Whether a guaranteed container waits for its pause, or its node has become too small."""
        return self.pause is not None and self.pause.makes_room

    def gives_way_to(self, kinds: frozenset[CauseKind]) -> bool:
        """Whether it is paused, or about to be, for a cause of these kinds that is not over."""
        return self.pause is not None and of_kind(self.pause.gives_way_to, *kinds)

    @property
    def is_giving_back(self) -> Resource:
        """The resources that it is about to free: all if it is being killed; its vcores and the expected memory if it
        is being paused."""
        if self.state is KILLING:
            return self.allocated
        pause = self.pause
        if pause is not None and (pause.pending or self.state is PAUSING) and not pause.overdue:
            return Resource(pause.gives_memory, self.allocated.vcores)
        return NOTHING

    @property
    def killed_as(self) -> int | None:
        """The exit status of its kill; None if it was not killed, or reports its own code."""
        return None if self.kill is None else self.kill.exit_status

    @property
    def gave_memory(self) -> bool:
        """Whether it is paused and some of its memory was reclaimed."""
        return self.state is PAUSED and self.allocated.memory < self.spec.resource.memory

    def move(self, trigger: type, now: float, epoch_ms: int) -> None:
        """Make the transition for ``trigger``, and record its times."""
        state = CONTAINER_TABLE.follow(self.container_id, self.state, trigger, now, self.story)
        if state is self.state:
            return
        self.state = state
        self.state_since_ms = epoch_ms
        self.ran_before_state = self.ran_seconds(now)
        if state is RUNNING and self.running_since is None:
            self.running_since = now
            if self.ran and self.started_at_ms:
                self.resumed_at_ms = epoch_ms
                self.stood_ms = max(0, epoch_ms - self.started_at_ms - round(self.ran * 1000))
        elif state in (PAUSED, DONE):
            self.ran = self.ran_seconds(now)
            self.running_since = None
        if state is DONE and self.started_at_ms and (self.paused_at_ms or self.stood_ms):
            self.stood_ms = max(0, epoch_ms - self.started_at_ms - round(self.ran * 1000))
        self.paused_at_ms = epoch_ms if state is PAUSED else 0
        if state is PAUSED:
            self.resumed_at_ms = 0

    def ran_seconds(self, now: float) -> float:
        """How long it has run, in seconds; time spent paused does not count."""
        return self.ran + (now - self.running_since if self.running_since is not None else 0.0)

    def say(self, sentence: str, maximum: int, *, passing: bool = False) -> None:
        """Add to its diagnostics, of which the last ``maximum`` characters are kept (as YARN does).

        ``passing``: the sentence is about a pause, and is dropped if the container ends by itself.
        """
        if sentence:
            joined = f"{self.diagnostics}\n{sentence}" if self.diagnostics else sentence
            self.diagnostics = joined[-maximum:]
            if passing and sentence not in self.passing:
                self.passing = (*self.passing, sentence)

    def unsay(self, *sentences: str) -> None:
        """Remove lines from its diagnostics."""
        if sentences and self.diagnostics:
            self.diagnostics = "\n".join(one for one in self.diagnostics.split("\n") if one not in sentences)

    def forget_pauses(self) -> None:
        """Remove the causes of earlier pauses, after the container has ended by itself."""
        self.unsay(*self.passing)
        self.passing = ()

    def change(self, **changes: Any) -> None:
        """Update the version, type or size in its spec."""
        self.spec = replace(self.spec, **changes)

    def status(self) -> ContainerStatus:
        """The status that its node reports, without its place among those that wait, and why it waits."""
        spec = self.spec
        return _status(
            self,
            spec,
            spec.log_directory or "",
            spec.waiting_since_ms or self.queued_at_ms,
            _shown(spec.command),
            "" if self.paused_for is None else paused_for(self.paused_for),
        )

    def record(self) -> ContainerRecord:
        """The container's record for the store."""
        return _record(
            self,
            self.exit_status if self.killed_as is None else self.killed_as,
            round(self.ran_before_state * 1000),
            self.allocated.memory if self.gave_memory else -1,
            self.passing,
        )


def _shown(command: tuple[str, ...]) -> tuple[str, ...]:
    """The beginning of a command, for people: reports repeat it, and have room for those of all containers."""
    left = SHOWN_COMMAND
    for at, word in enumerate(command):
        if len(word) > left:
            return (*command[:at], f"{word[:left]}…")
        left -= len(word)
    return command


_status = maker(
    ContainerStatus,
    Container,
    ContainerSpec,
    given=("log_directory", "waiting_since_ms", "command", "stood_for"),
)
_record = maker(
    ContainerRecord, Container, given=("exit_status", "ran_ms", "paused_memory", "passing_diagnostics")
)
