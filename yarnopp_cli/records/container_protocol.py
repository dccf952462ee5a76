"""ContainerManagementProtocol: what masters and people ask of a NodeManager."""

from __future__ import annotations

from executor.light import Record
from executor.records import ContainerStatus, OpportunisticContainersStatus, Resource, ResourceUtilization

from .methods import Request
from .requests import ContainerLaunchContext, Token


class StartContainerRequest(Record):
    """Run this in the container that ``token`` grants."""

    token: Token
    launch_context: ContainerLaunchContext


class StartContainersRequest(Request["StartContainersResponse"]):
    """Several at once; they arrive at the node in this order."""

    containers: tuple[StartContainerRequest, ...]


class FailedContainer(Record):
    """One that could not be dealt with, and why (``exception`` is YARN's name for it)."""

    container_id: str
    exception: str
    message: str


class StartContainersResponse(Record):
    """``started`` have arrived at the node: they run, or queue, or have been refused with a status of their own."""

    started: tuple[str, ...]
    failed: tuple[FailedContainer, ...] = ()


class StopContainersRequest(Request["StopContainersResponse"]):
    """End these; their exit status will be ``exit_status``. ``by_person``: a person asks for it, and not their
    master."""

    container_ids: tuple[str, ...]
    exit_status: int = -105
    diagnostics: str = ""
    by_person: bool = False


class StopContainersResponse(Record):
    """``stopped`` are ending or have ended."""

    stopped: tuple[str, ...]
    failed: tuple[FailedContainer, ...] = ()


class GetContainerStatusesRequest(Request["GetContainerStatusesResponse"]):
    """The state of these containers, or of all live ones for an empty list; ``finished`` adds those that ended."""

    container_ids: tuple[str, ...] = ()
    finished: bool = False


class GetContainerStatusesResponse(Record):
    """In order of arrival at the node."""

    statuses: tuple[ContainerStatus, ...]
    failed: tuple[FailedContainer, ...] = ()


class SignalContainerRequest(Request["ContainerStatus"]):
    """``signal`` is a number. To every process of the container."""

    container_id: str
    signal: int


class PauseContainerRequest(Request["ContainerStatus"]):
    """Pause every process of a running container until a person resumes it."""

    container_id: str
    diagnostics: str = ""


class ResumeContainerRequest(Request["ContainerStatus"]):
    """Let a container that a person paused go on as soon as there is room for it."""

    container_id: str


class ForetellPromotionRequest(Request["ForetellPromotionResponse"]):
    """Who would give way if these containers became guaranteed now, one after the other. Nothing is changed."""

    container_ids: tuple[str, ...]


class ForetellPromotionResponse(Record):
    """``gives_way``: "pause" or "kill" by container, in the order in which the node chooses them."""

    gives_way: dict[str, str]


class UpdateContainersRequest(Request["UpdateContainersResponse"]):
    """Changes that the RM granted, as tokens of a higher version."""

    tokens: tuple[Token, ...]


class UpdateContainersResponse(Record):
    """``updated`` have their new type or size."""

    updated: tuple[str, ...]
    failed: tuple[FailedContainer, ...] = ()


class GetNodeInfoRequest(Request["GetNodeInfoResponse"]):
    """The node itself."""


class GetNodeInfoResponse(Record):
    """``cgroups`` is what limits containers here ("v1", "v2", "hybrid", "none"); ``warnings`` what is weaker.

    ``rm_lost_at_ms`` is since when the RM cannot be reached, epoch milliseconds, 0 where it can. ``devices`` are its
    GPUs (``index:minor``), where they are known one by one.
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
    """What these containers, or all for an empty list, used in the last minute."""

    container_ids: tuple[str, ...] = ()


class GetUsageTracesResponse(Record):
    """Measurements, oldest first, about one a second, 60 at most, each three numbers: seconds of the node's clock
    (as ``ContainerUsage.sampled_at``), the CPU seconds since the container's start, bytes; of the ``machine`` in
    place of the second the cores that were busy. Bare numbers, since they are many.
    """

    containers: dict[str, tuple[float, ...]]
    machine: tuple[float, ...] = ()


class GetNodeFiguresRequest(Request["GetNodeFiguresResponse"]):
    """What the node has counted."""


class GetNodeFiguresResponse(Record):
    """``counts`` since the NodeManager's start: containers launched, and ended by how."""

    counts: dict[str, int]
