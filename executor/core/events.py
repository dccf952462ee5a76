"""Events of containers, in the past tense. Frozen data; no behaviour."""

from __future__ import annotations

from ..causes import Cause
from ..light import Record
from ..records import (
    ContainerMessage,
    ContainerQueuingLimit,
    ContainerRecord,
    ContainerSpec,
    ContainerUsage,
    ExecutionType,
    HostUtilization,
    Resource,
    ResourceUtilization,
)


class ContainerScheduled(Record):
    """A container arrived and wants to run (YARN's SCHEDULE_CONTAINER)."""

    spec: ContainerSpec


class ContainerUpdated(ContainerMessage):
    """A container was promoted, demoted or resized; None leaves that unchanged (UPDATE_CONTAINER)."""

    version: int
    execution_type: ExecutionType | None = None
    resource: Resource | None = None


class ContainerKillRequested(ContainerMessage):
    """Its end was requested. ``exit_status`` and ``cause`` are the reason, ``diagnostics`` is for users; without a
    cause, the exit status is the only reason. ``force`` skips SIGTERM."""

    exit_status: int
    diagnostics: str
    force: bool = False
    cause: Cause | None = None


class ContainerSignalRequested(ContainerMessage):
    """A signal to all its processes was requested."""

    signal: int


class ContainerPauseRequested(ContainerMessage):
    """The user ``by`` requested a pause; it lasts until a user resumes it. ``diagnostics`` is for users."""

    diagnostics: str = ""
    by: str = ""


class ContainerResumeRequested(ContainerMessage):
    """The user ``by`` requested a resume."""

    by: str = ""


class ContainerLaunched(ContainerMessage):
    """Its process exists since ``began``, in the machine's seconds; None for now. ``process_start`` in clock ticks
    after boot; ``cgroup`` is its directory, for users."""

    pid: int
    process_start: int
    cgroup: str = ""
    began: float | None = None


class ContainerLaunchFailed(ContainerMessage):
    """It could not be started; ``exit_code`` as in a shell (125 for the executor's own failures). ``node_status`` is
    its exit status if that is the node's fault, else 0."""

    reason: str
    exit_code: int = 125
    node_status: int = 0


class ContainerPaused(ContainerMessage):
    """All its processes are stopped. ``memory`` is its limit now, in MiB; -1 if it is unchanged. ``left`` has the pids
    and start times of those that were stopped before."""

    memory: int = -1
    left: tuple[tuple[int, int], ...] = ()


class ContainerPauseFailed(ContainerMessage):
    """The container's processes could not be stopped."""

    reason: str


class ContainerChangeFailed(ContainerMessage):
    """The kernel refused a part of what was ordered for the container, which goes on as it is."""

    reason: str


class ContainerResumed(ContainerMessage):
    """The container's processes run again."""


class ContainerExited(ContainerMessage):
    """The container's main process has ended, and no other process of it is left.

    ``exit_code`` as in a shell (128+n for signal n); None if it left none (its parent was killed). ``usage`` is the
    last measurement; ``usage.oom_kills`` above zero with code 137 means that the kernel ended it for its memory limit.
    ``node_fault`` is why the node could not let its command begin, "" if it began. ``following`` is the container of a
    LaunchNext that is beginning in its place, "" for none. ``launched`` is its start, if that was not told before.
    ``by_itself``: it had ended before a kill that was ordered could reach it. ``output_lost`` is why its output may be
    incomplete, "" if nothing suggests that.
    """

    exit_code: int | None
    usage: ContainerUsage = ContainerUsage()
    node_fault: str = ""
    following: str = ""
    launched: ContainerLaunched | None = None
    by_itself: bool = False
    output_lost: str = ""


class QueuingLimitReceived(Record):
    """The RM sent a limit for the length of the queue with a heartbeat (SHED_QUEUED_CONTAINERS)."""

    limit: ContainerQueuingLimit


class NodeResized(Record):
    """The resources of the node have changed."""

    total: Resource


class GuaranteedAwaited(Record):
    """Whether guaranteed containers elsewhere wait for resources that guaranteed ones hold here."""

    waiting: bool


class ApplicationPriorityChanged(Record):
    """The priority of an application has changed, and with it the place of its waiting containers."""

    application_id: str
    priority: int


class UsageSampled(Record):
    """All containers were measured in one pass. ``node`` is the whole machine (or this node's share of it)."""

    usages: dict[str, ContainerUsage]
    node: ResourceUtilization = ResourceUtilization()


class NodeUtilizationSampled(Record):
    """The whole machine was measured, for a WatchHost, just after the containers."""

    host: HostUtilization


class ContainerRecovered(Record):
    """A container of an earlier run of this node was found.

    ``record`` is what was stored. ``alive`` and ``stopped`` are true of its processes now; ``exit_code`` is what it
    left if it has ended. ``cgroup`` is its directory, for users. ``rebooted``: the machine was restarted since.
    ``output_lost`` as in ContainerExited.
    """

    record: ContainerRecord
    alive: bool
    stopped: bool = False
    exit_code: int | None = None
    usage: ContainerUsage = ContainerUsage()
    cgroup: str = ""
    rebooted: bool = False
    output_lost: str = ""


class RecoveryCompleted(Record):
    """All found containers have been posted; containers may start (RECOVERY_COMPLETED)."""


class NodeHealthChanged(Record):
    """The node is unhealthy for this reason, or healthy with an empty one."""

    report: str


class OpportunisticWindowChanged(Record):
    """No opportunistic container may run until then (epoch); or they may, with 0."""

    closed_until_ms: int


class WallClockStepped(Record):
    """The wall clock was set, or the machine was suspended: from now on, wall time is the machine's seconds plus
    ``offset``."""

    offset: float


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
    | ContainerChangeFailed
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
    | ApplicationPriorityChanged
    | UsageSampled
    | NodeUtilizationSampled
    | ContainerRecovered
    | RecoveryCompleted
    | NodeHealthChanged
    | OpportunisticWindowChanged
    | WallClockStepped
)
"""Everything a ContainerScheduler may be told."""
