"""What shall be done with containers, in the imperative. Frozen data; no behaviour.

Each command that takes time ends in exactly one event. Each may be given again after a crash and then does nothing
that was done already. A StoreContainer stands before the command that it makes safe.
"""

from __future__ import annotations

from ..light import dataclass
from ..records import CgroupLimits, ContainerRecord, ContainerSpec, ContainerStatus


@dataclass(frozen=True, slots=True)
class StoreContainer:
    """Write this down before anything that follows is done."""

    record: ContainerRecord


@dataclass(frozen=True, slots=True)
class ForgetContainer:
    """Remove what was written of it: it has ended and its end was reported."""

    container_id: str


@dataclass(frozen=True, slots=True)
class LaunchContainer:
    """Make its cgroup and directories, start its process. Ends in ContainerLaunched or ContainerLaunchFailed."""

    spec: ContainerSpec
    limits: CgroupLimits


@dataclass(frozen=True, slots=True)
class SignalContainer:
    """Send a signal to every process of it. Best effort; no event."""

    container_id: str
    signal: int


@dataclass(frozen=True, slots=True)
class PauseContainer:
    """Make all its processes stand still. Ends in ContainerPaused or ContainerPauseFailed.

    With ``reclaim_memory`` have the kernel take back what memory it can of it then, and hold it to the rest.
    """

    container_id: str
    reclaim_memory: bool = False


@dataclass(frozen=True, slots=True)
class ResumeContainer:
    """Let its processes run again. Ends in ContainerResumed."""

    container_id: str


@dataclass(frozen=True, slots=True)
class KillContainer:
    """End it: SIGTERM to every process of it, or, with ``force``, SIGKILL that nothing escapes.

    Its end comes as the ContainerExited (or ContainerLaunchFailed) that every launched container ends in.
    """

    container_id: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class SetLimits:
    """Write these limits to its live cgroup. Best effort; no event."""

    container_id: str
    limits: CgroupLimits


@dataclass(frozen=True, slots=True)
class CleanUpContainer:
    """Remove its cgroup and private directory; its logs stay. No event."""

    container_id: str


@dataclass(frozen=True, slots=True)
class WatchHost:
    """Measure the containers and then the machine that often, until told otherwise; 0 for no more. Each time ends
    in UsageSampled and NodeUtilizationSampled."""

    interval_ms: int


@dataclass(frozen=True, slots=True)
class SetNodeWeight:
    """Give this node's group the weight of so many guaranteed vcores beside what runs outside, and the groups above
    it theirs. Best effort; no event."""

    vcores: int


@dataclass(frozen=True, slots=True)
class ReportStatus:
    """Its state, type or limits changed, as told here; for whoever watches."""

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
