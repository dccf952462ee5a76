"""What is to be done with containers, in the imperative. Frozen data; no behaviour.

Each command that takes time ends in exactly one event. Each may be given again after a crash, and then repeats
nothing. A StoreContainer stands before the command that it makes safe.
"""

from __future__ import annotations

from ..light import Record
from ..records import CgroupLimits, ContainerMessage, ContainerRecord, ContainerSpec, ContainerStatus


class StoreContainer(Record):
    """Store this record before performing anything that follows."""

    record: ContainerRecord


class ForgetContainer(ContainerMessage):
    """Remove its record: it has ended, and its end was reported."""


class LaunchContainer(Record):
    """Make its cgroup and directories, start its process. Ends in ContainerLaunched or ContainerLaunchFailed."""

    spec: ContainerSpec
    limits: CgroupLimits


class SignalContainer(ContainerMessage):
    """Send a signal to every process of it. Best effort; no event."""

    signal: int


class PauseContainer(ContainerMessage):
    """Stop all its processes. Ends in ContainerPaused or ContainerPauseFailed.

    With ``reclaim_memory`` the kernel then takes back what memory it can, and limits it to the rest.
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
    """From now on measure the containers and then the machine that often; 0 ends it. Each time ends in UsageSampled and
    NodeUtilizationSampled."""

    interval_ms: int


class SetNodeWeight(Record):
    """Give this node's group the weight of so many guaranteed vcores, and the groups above it theirs. Best effort; no
    event."""

    vcores: float


class ReportStatus(Record):
    """Its state, type or limits have changed."""

    status: ContainerStatus


Command = (
    StoreContainer
    | ForgetContainer
    | LaunchContainer
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
