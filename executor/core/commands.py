"""Commands for containers, in the imperative. Frozen data; no behaviour.

Each command that takes time ends in exactly one event. Each is idempotent, and may be repeated after a crash. A
StoreContainer precedes the command that it makes safe.
"""

from __future__ import annotations

from ..light import Record
from ..records import CgroupLimits, ContainerMessage, ContainerRecord, ContainerSpec, ContainerStatus


class StoreContainer(Record):
    """Store this record before performing the following commands."""

    record: ContainerRecord


class ForgetContainer(ContainerMessage):
    """Remove its record: it has ended, and its end was reported."""


class LaunchContainer(Record):
    """Make its cgroup and directories, start its process. Ends in ContainerLaunched or ContainerLaunchFailed."""

    spec: ContainerSpec
    limits: CgroupLimits


class LaunchNext(Record):
    """Start it in the moment in which the container ``after`` ends, if that is possible. Best effort; no event. Nothing
    happens if it has begun behind another one.

    If it begins, the ContainerExited of ``after`` names it; then follows what follows a LaunchContainer. The command
    ends with ``after`` or a RevokeNext; each command for ``after`` or for the container itself ends it, too.
    ``queued_at_ms`` is that of its record, which is still the one of a container that waits.
    """

    spec: ContainerSpec
    limits: CgroupLimits
    after: str
    queued_at_ms: int


class RevokeNext(ContainerMessage):
    """Take a LaunchNext back, unless ``after`` has ended and it has begun. No event.

    ``ends``: it was told to end while it waited. Unless it has begun, this ends in ContainerExited, without a code.
    """

    ends: bool = False


class SignalContainer(ContainerMessage):
    """Send a signal to every process of it. Best effort; no event."""

    signal: int


class PauseContainer(ContainerMessage):
    """Stop all its processes. Ends in ContainerPaused or ContainerPauseFailed.

    With ``reclaim_memory`` the kernel then reclaims its memory, and the rest becomes its limit.
    """

    reclaim_memory: bool = False


class ResumeContainer(ContainerMessage):
    """Let its processes continue. Ends in ContainerResumed."""


class KillContainer(ContainerMessage):
    """End it: SIGTERM to all its processes, or with ``force`` SIGKILL until none is left.

    Like every launched container it then ends in ContainerExited (or ContainerLaunchFailed).
    """

    force: bool = False


class SetLimits(ContainerMessage):
    """Write these limits to its live cgroup. Best effort; no event."""

    limits: CgroupLimits


class CleanUpContainer(ContainerMessage):
    """Remove its cgroup and private directory; its logs stay. No event."""


class WatchHost(Record):
    """Measure the containers and then the machine at about this rate, and the next time after just ``next_ms``, if that
    is not 0; a rate of 0 stops it. Each measurement ends in UsageSampled and NodeUtilizationSampled."""

    interval_ms: int
    next_ms: int = 0


class SetNodeWeight(Record):
    """Set the weight of this node's cgroup to that of so many guaranteed vcores, and update the cgroups above it.
    Best effort; no event."""

    vcores: float


class ReportStatus(Record):
    """Report that the state, type or limits of a container have changed."""

    status: ContainerStatus


Command = (
    StoreContainer
    | ForgetContainer
    | LaunchContainer
    | LaunchNext
    | RevokeNext
    | SignalContainer
    | PauseContainer
    | ResumeContainer
    | KillContainer
    | SetLimits
    | CleanUpContainer
    | WatchHost
    | SetNodeWeight
    | ReportStatus
)
"""Everything a ContainerScheduler may answer with."""
