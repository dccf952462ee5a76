"""ApplicationClientProtocol: the calls of clients to the ResourceManager. One request and one response for each
method; the requests about a job are in ``job_protocol``.
"""

from __future__ import annotations

from executor.light import Record

from .methods import Request
from .reports import (
    ApplicationAttemptReport,
    ApplicationReport,
    ClusterInfo,
    ContainerGrant,
    ContainerReport,
    NodeReport,
    QueueReport,
    YarnApplicationState,
)
from .requests import UpdateContainerRequest


class GetNewApplicationRequest(Request["GetNewApplicationResponse"]):
    """Ask for a fresh application id."""


class GetNewApplicationResponse(Record):
    """A fresh application id, and ``info``, which saves the client a second call."""

    application_id: str
    info: ClusterInfo


class WaitForApplicationsRequest(Request["WaitForApplicationsResponse"]):
    """Answer when the applications have reached ``states`` (or a later state), or after ``wait_ms``, at most 5 s.

    Empty ``states`` waits for the end of the applications. With ``any``, one application is enough.
    """

    application_ids: tuple[str, ...]
    states: tuple[YarnApplicationState, ...] = ()
    any: bool = False
    wait_ms: int = 5_000


class WaitForApplicationsResponse(Record):
    """``satisfied`` is false if the time passed first."""

    satisfied: bool
    applications: tuple[ApplicationReport, ...]


class KillApplicationRequest(Request["ApplicationResponse"], method="forceKillApplication"):
    """End an application (``forceKillApplication``)."""

    application_id: str
    diagnostics: str = ""


class ApplicationResponse(Record):
    """``application`` as it is now, or with ``dry_run`` as it would be."""

    application: ApplicationReport


class MoveApplicationRequest(Request["ApplicationResponse"], method="moveApplicationAcrossQueues"):
    """Move a live application and its containers to another queue (``moveApplicationAcrossQueues``).

    ``dry_run`` changes nothing.
    """

    application_id: str
    queue: str
    dry_run: bool = False


class UpdateApplicationPriorityRequest(Request["ApplicationResponse"]):
    """Change the priority of a live application; a larger number is served first. ``dry_run`` changes
    nothing.
    """

    application_id: str
    priority: int
    dry_run: bool = False


class UpdateApplicationTimeoutsRequest(Request["ApplicationResponse"]):
    """Set the time at which a live application is ended, ``expires_at_ms`` (epoch milliseconds); 0 for never.

    ``dry_run`` changes nothing.
    """

    application_id: str
    expires_at_ms: int
    dry_run: bool = False


class UpdateApplicationTagsRequest(Request["ApplicationResponse"]):
    """Replace the tags of a live application. ``dry_run`` changes nothing."""

    application_id: str
    tags: tuple[str, ...]
    dry_run: bool = False


class GetApplicationAttemptsRequest(Request["GetApplicationAttemptsResponse"]):
    """The attempts of one application."""

    application_id: str


class GetApplicationAttemptsResponse(Record):
    """Oldest first."""

    attempts: tuple[ApplicationAttemptReport, ...]


class GetClusterNodesRequest(Request["GetClusterNodesResponse"]):
    """All nodes, or only the running ones."""

    running_only: bool = False


class GetClusterNodesResponse(Record):
    """The nodes in order of host name and port."""

    nodes: tuple[NodeReport, ...]


class GetContainersRequest(Request["GetContainersResponse"]):
    """Containers of an application, on a node, or all; ``finished`` adds ended containers. ``grants_only``: the caller
    asks their nodes, too."""

    application_id: str = ""
    node_id: str = ""
    container_ids: tuple[str, ...] = ()
    finished: bool = False
    grants_only: bool = False


class GetContainersResponse(Record):
    """The containers in order of allocation; ``grants`` only, if only these are requested."""

    containers: tuple[ContainerReport, ...]
    grants: tuple[ContainerGrant, ...] = ()


class ChangeContainerRequest(Request["ChangeContainerResponse"], method="updateContainer"):
    """A user's request to promote, demote or resize a container; the RM itself delivers the change to the
    node.

    ``update.container_version`` -1 stands for the version that the container has now.
    """

    update: UpdateContainerRequest


class ChangeContainerResponse(Record):
    """``container`` as the RM knows it now. ``version`` is the version its node reports once the change is
    made.

    ``pending``: the change waits for free resources on the container's node, and is made when they are free.
    """

    container: ContainerReport
    version: int
    pending: bool = False


class GetQueueInfoRequest(Request["GetQueueInfoResponse"]):
    """One queue, or all for an empty name."""

    queue: str = ""


class GetQueueInfoResponse(Record):
    """Parents before children."""

    queues: tuple[QueueReport, ...]


class GetClusterInfoRequest(Request["ClusterInfo"]):
    """A summary of the cluster."""


class WaitForNodesRequest(Request["WaitForNodesResponse"]):
    """Answer when at least ``count`` nodes are running and connected, or after ``wait_ms``, at most 5 s."""

    count: int
    wait_ms: int = 5_000


class WaitForNodesResponse(Record):
    """``satisfied`` is false if the time passed first."""

    satisfied: bool
    nodes: tuple[NodeReport, ...]


class SetLifetimeRequest(Request["SetLifetimeResponse"]):
    """Let the cluster stay ("stay"), or end with its last job ("on-demand")."""

    lifetime: str


class SetLifetimeResponse(Record):
    """The cluster, with its new lifetime."""

    info: ClusterInfo


class SettleLostRequest(Request["SettleLostResponse"]):
    """Decide about the containers of applications that were lost with stored state: they run to their end, or, with
    ``end``, are ended."""

    end: bool


class SettleLostResponse(Record):
    """``containers`` is the number of affected containers."""

    containers: int


class ShutdownClusterRequest(Request["ShutdownClusterResponse"]):
    """End every application, every node and the RM itself.

    With ``keep_containers`` the nodes leave their containers running; the next ``yopp up`` recovers them.
    """

    keep_containers: bool = False


class ShutdownClusterResponse(Record):
    """``pids`` of the RM and the NMs, which end soon after this answer."""

    pids: tuple[int, ...]
