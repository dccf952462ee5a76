"""ContainerManagementProtocol: the calls of masters and users to a NodeManager."""

from __future__ import annotations

from executor.light import Record
from executor.records import ContainerStatus, OpportunisticContainersStatus, Resource, ResourceUtilization

from .methods import Request
from .requests import ContainerLaunchContext, Token


class StartContainerRequest(Record):
    """The work to run in the container that ``token`` grants."""

    token: Token
    launch_context: ContainerLaunchContext


class StartContainersRequest(Request["StartContainersResponse"]):
    """Start several containers in one call; they arrive at the node in this order."""

    containers: tuple[StartContainerRequest, ...]


class FailedContainer(Record):
    """A container that could not be processed, and the reason (``exception`` is YARN's name for the error)."""

    container_id: str
    exception: str
    message: str


class StartContainersResponse(Record):
    """``started`` have arrived at the node: each runs, is queued, or was refused with a status of its own."""

    started: tuple[str, ...]
    failed: tuple[FailedContainer, ...] = ()


class StopContainersRequest(Request["StopContainersResponse"]):
    """Stop these containers with exit status ``exit_status``. ``by_person``: a user asks for it, not their
    master.
    """

    container_ids: tuple[str, ...]
    exit_status: int = -105
    diagnostics: str = ""
    by_person: bool = False


class StopContainersResponse(Record):
    """``stopped`` are ending or have ended."""

    stopped: tuple[str, ...]
    failed: tuple[FailedContainer, ...] = ()


class GetContainerStatusesRequest(Request["GetContainerStatusesResponse"]):
    """The statuses of these containers, or of all live ones for an empty list; ``finished`` adds ended containers."""

    container_ids: tuple[str, ...] = ()
    finished: bool = False


class GetContainerStatusesResponse(Record):
    """The statuses in order of arrival at the node."""

    statuses: tuple[ContainerStatus, ...]
    failed: tuple[FailedContainer, ...] = ()


class SignalContainerRequest(Request["ContainerStatus"]):
    """Send ``signal``, a number, to every process of the container."""

    container_id: str
    signal: int


class PauseContainerRequest(Request["ContainerStatus"]):
    """Pause every process of a running container until a user resumes it."""

    container_id: str
    diagnostics: str = ""


class ResumeContainerRequest(Request["ContainerStatus"]):
    """Let a container that a user paused run again when its resources are free."""

    container_id: str


class UpdateContainersRequest(Request["UpdateContainersResponse"]):
    """Changes that the RM granted, as tokens of a higher version."""

    tokens: tuple[Token, ...]


class UpdateContainersResponse(Record):
    """``updated`` have their new type or size."""

    updated: tuple[str, ...]
    failed: tuple[FailedContainer, ...] = ()


class GetNodeInfoRequest(Request["GetNodeInfoResponse"]):
    """Ask for facts about the node itself."""


class GetNodeInfoResponse(Record):
    """``cgroups`` is the mechanism that limits containers here ("v1", "v2", "hybrid", "none"); ``warnings`` lists
    weaker limits.

    ``rm_lost_at_ms`` is the time since when the RM has been unreachable, in epoch milliseconds, 0 if it is reachable.
    ``devices`` are the node's GPUs (``index:minor``), if they are known individually.
    """

    node_id: str
    pid: int
    total: Resource
    allocated: Resource
    opportunistic: OpportunisticContainersStatus
    node_utilization: ResourceUtilization
    containers_utilization: ResourceUtilization
    started_at_ms: int
    version: str
    cgroups: str
    warnings: tuple[str, ...] = ()
    log_dir: str = ""
    rm_connected: bool = True
    rm_lost_at_ms: int = 0
    devices: tuple[str, ...] = ()


class GetUsageTracesRequest(Request["GetUsageTracesResponse"]):
    """The resource usage of these containers, or of all for an empty list, during the last minute."""

    container_ids: tuple[str, ...] = ()


class GetUsageTracesResponse(Record):
    """Measurements, oldest first, about one a second, at most 60, each of three numbers: seconds of the
    node's clock (as ``ContainerUsage.sampled_at``), CPU seconds since the container's start, and bytes. For
    the ``machine`` the second number is the number of busy cores. Bare numbers, since there are many.
    """

    containers: dict[str, tuple[float, ...]]
    machine: tuple[float, ...] = ()


class GetNodeFiguresRequest(Request["GetNodeFiguresResponse"]):
    """Ask for the node's counters."""


class GetNodeFiguresResponse(Record):
    """``counts`` since the NodeManager's start: containers launched, and containers ended by kind of end."""

    counts: dict[str, int]
