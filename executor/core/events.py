"""What happened to containers, in the past tense. Frozen data; no behaviour."""

from __future__ import annotations

from ..causes import Cause
from ..light import dataclass
from ..records import (
    ContainerQueuingLimit,
    ContainerRecord,
    ContainerSpec,
    ContainerUsage,
    ExecutionType,
    HostUtilization,
    Resource,
    ResourceUtilization,
)


@dataclass(frozen=True, slots=True)
class ContainerScheduled:
    """A container arrived and wants to run (YARN's SCHEDULE_CONTAINER)."""

    spec: ContainerSpec


@dataclass(frozen=True, slots=True)
class ContainerUpdated:
    """A container was promoted, demoted or resized; None leaves that unchanged (UPDATE_CONTAINER)."""

    container_id: str
    version: int
    execution_type: ExecutionType | None = None
    resource: Resource | None = None


@dataclass(frozen=True, slots=True)
class ContainerKillRequested:
    """Its end was requested. ``exit_status`` and ``cause`` say by whom and why, ``diagnostics`` tells people; without a
    cause the exit status alone says it. ``force`` skips SIGTERM."""

    container_id: str
    exit_status: int
    diagnostics: str
    force: bool = False
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class ContainerSignalRequested:
    """A signal to all its processes was requested."""

    container_id: str
    signal: int


@dataclass(frozen=True, slots=True)
class ContainerPauseRequested:
    """A person, ``by``, asked to pause it; it stays paused until a person resumes it. ``diagnostics`` tells people."""

    container_id: str
    diagnostics: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class ContainerResumeRequested:
    """A person, ``by``, asked to resume it."""

    container_id: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class ContainerLaunched:
    """Its process exists. ``process_start`` in clock ticks after boot; ``cgroup`` is its directory, for people."""

    container_id: str
    pid: int
    process_start: int
    cgroup: str = ""


@dataclass(frozen=True, slots=True)
class ContainerLaunchFailed:
    """It could not be started; ``exit_code`` as in a shell (125 for the executor's own failures)."""

    container_id: str
    reason: str
    exit_code: int = 125


@dataclass(frozen=True, slots=True)
class ContainerPaused:
    """All its processes are stopped. ``memory`` is its limit now, in MiB; -1 if it is unchanged."""

    container_id: str
    memory: int = -1


@dataclass(frozen=True, slots=True)
class ContainerPauseFailed:
    """Its processes could not be stopped."""

    container_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ContainerResumed:
    """Its processes run again."""

    container_id: str


@dataclass(frozen=True, slots=True)
class ContainerExited:
    """Its main process has ended, and no process of it is left.

    ``exit_code`` as in a shell (128+n for signal n); None if it left none (its parent was killed). ``usage`` is the
    last measurement; ``usage.oom_kills`` above zero with code 137 means that the kernel ended it for its memory limit.
    """

    container_id: str
    exit_code: int | None
    usage: ContainerUsage = ContainerUsage()


@dataclass(frozen=True, slots=True)
class QueuingLimitReceived:
    """The RM sent a limit for the length of the queue with a heartbeat (SHED_QUEUED_CONTAINERS)."""

    limit: ContainerQueuingLimit


@dataclass(frozen=True, slots=True)
class NodeResized:
    """What the node's containers may have together has changed."""

    total: Resource


@dataclass(frozen=True, slots=True)
class GuaranteedAwaited:
    """Whether guaranteed containers wait elsewhere for what guaranteed ones hold here."""

    waiting: bool


@dataclass(frozen=True, slots=True)
class UsageSampled:
    """All containers were measured in one pass. ``node`` is the whole machine (or this node's share of it)."""

    usages: dict[str, ContainerUsage]
    node: ResourceUtilization = ResourceUtilization()


@dataclass(frozen=True, slots=True)
class NodeUtilizationSampled:
    """The whole machine was measured, for a WatchHost, just after the containers."""

    host: HostUtilization


@dataclass(frozen=True, slots=True)
class ContainerRecovered:
    """A container of an earlier run of this node was found.

    ``record`` is what was stored. ``alive`` and ``stopped`` are true of its processes now; ``exit_code`` is what it
    left if it has ended. ``cgroup`` is its directory, for people.
    """

    record: ContainerRecord
    alive: bool
    stopped: bool = False
    exit_code: int | None = None
    usage: ContainerUsage = ContainerUsage()
    cgroup: str = ""


@dataclass(frozen=True, slots=True)
class RecoveryCompleted:
    """Everything that was found has been posted; containers may start (RECOVERY_COMPLETED)."""


ContainerEvent = (
    ContainerUpdated
    | ContainerKillRequested
    | ContainerSignalRequested
    | ContainerPauseRequested
    | ContainerResumeRequested
    | ContainerLaunched
    | ContainerLaunchFailed
    | ContainerPaused
    | ContainerPauseFailed
    | ContainerResumed
    | ContainerExited
)
"""The events about one known container."""

Event = (
    ContainerScheduled
    | ContainerEvent
    | QueuingLimitReceived
    | NodeResized
    | GuaranteedAwaited
    | UsageSampled
    | NodeUtilizationSampled
    | ContainerRecovered
    | RecoveryCompleted
)
"""Everything a ContainerScheduler may be told."""
