"""ApplicationClientProtocol: what clients ask of the ResourceManager. One request and one response a method."""

from __future__ import annotations

from executor.light import Record

from .jobs import JobSpec, TaskRows
from .methods import Request
from .reports import (
    ApplicationAttemptReport,
    ApplicationReport,
    ClusterInfo,
    ContainerReport,
    FinalApplicationStatus,
    JobSummary,
    NodeReport,
    QueueReport,
    YarnApplicationState,
)
from .requests import ApplicationSubmissionContext, Token, UpdateContainerRequest


class GetNewApplicationRequest(Request["GetNewApplicationResponse"]):
    """Ask for a fresh application id."""


class GetNewApplicationResponse(Record):
    """``info`` spares the client a second call."""

    application_id: str
    info: ClusterInfo


class SubmitApplicationRequest(Request["SubmitApplicationResponse"]):
    """Run this application. An empty ``context.application_id`` lets the RM choose it."""

    context: ApplicationSubmissionContext


class SubmitApplicationResponse(Record):
    """``am_token`` and ``attempt_id`` are there for an unmanaged application, whose master is the client.

    ``log_directory`` is where its containers' output will be.
    """

    application_id: str
    info: ClusterInfo
    attempt_id: str = ""
    am_token: Token | None = None
    log_directory: str = ""


class SubmitJobRequest(Request["SubmitApplicationResponse"]):
    """Run this job with its master in the ResourceManager's process. The answer has no token.

    ``attached``: it ends when the connection of this call is lost and no other follows it within the grace; else it
    outlives its client. ``context`` is as for a submission, without ``am_container_spec``.

    Refused with MastersNotHostedError where the cluster's masters run in clients and containers.
    """

    context: ApplicationSubmissionContext
    job: JobSpec
    attached: bool = True


class WatchJobRequest(Request["WatchJobResponse"]):
    """What has changed of a job whose master the ResourceManager hosts. Held up to ``wait_ms`` while that is nothing.

    ``position`` and ``notices`` are what the last answer said, 0 at first. An attached job is followed by who watches
    it: a call over another connection, after its client's was lost, takes it over. Without ``tasks`` no rows are told:
    the answer comes when the job ends, says something, or the time has passed. ``attempt`` is what the last answer
    said: in another attempt, after the ResourceManager was restarted, everything is told again.
    """

    application_id: str
    position: int = 0
    notices: int = 0
    wait_ms: int = 60_000
    tasks: bool = True
    attempt: int = 0


class JobEnd(Record):
    """How a job ended. ``exit_code`` is for the caller's shell. ``message``, with ``because`` and ``hint``, is what
    made it impossible to go on, "" where nothing did.
    """

    exit_code: int
    final_status: FinalApplicationStatus
    diagnostics: str
    summary: JobSummary
    message: str = ""
    because: str = ""
    hint: str = ""


class WatchJobResponse(Record):
    """``tasks`` have changed since the position that was asked for, at most 1,000 in an answer; the same call with the
    new ``position`` and number of ``notices`` tells what follows. A task that changed often is told once, as it is now;
    one whose container has ended without ending it is told for each such container.

    ``counts`` are the tasks in each state (those with none left out), ``paused`` those whose containers are paused now,
    ``paused_for`` why most of them are (``causes.paused_for``), ``preempted`` and ``shed`` how often that has happened.
    ``end`` is there when the job has ended and every row was told.
    """

    position: int
    notices: int
    tasks: TaskRows
    said: tuple[str, ...]
    counts: dict[str, int]
    paused: int = 0
    preempted: int = 0
    shed: int = 0
    end: JobEnd | None = None
    paused_for: str = ""
    attempt: int = 0


class StopJobRequest(Request["StopJobResponse"]):
    """End a hosted job: its containers first; then it unregisters, as ``final_status`` and with ``exit_code``."""

    application_id: str
    reason: str
    exit_code: int
    final_status: FinalApplicationStatus = FinalApplicationStatus.KILLED


class StopJobResponse(Record):
    """It is being stopped, or has ended already; ``watchJob`` tells of the end."""


class GetJobRequest(Request["GetJobResponse"]):
    """What a job runs, of one that the RM hosts, or has hosted, or whose master was in a container; of those that have
    ended, as many tasks together as the RM keeps.
    """

    application_id: str


class GetJobResponse(Record):
    """``context`` and ``job`` as they were submitted, with the values of their variables; no job where its master was
    in a container, which has it in a file. ``succeeded``: the numbers of the last phase's tasks that have ended well,
    each two the first and the last of a row of them. ``ended``: no more will.
    """

    context: ApplicationSubmissionContext
    job: JobSpec | None
    succeeded: tuple[int, ...] = ()
    ended: bool = False

    def good(self) -> list[int]:
        """The numbers in ``succeeded``, one by one."""
        rows = zip(self.succeeded[::2], self.succeeded[1::2], strict=True)
        return [number for first, last in rows for number in range(first, last + 1)]


class GetApplicationsRequest(Request["GetApplicationsResponse"]):
    """Which applications; empty means all. ``live_only`` leaves out those that have ended."""

    application_ids: tuple[str, ...] = ()
    states: tuple[YarnApplicationState, ...] = ()
    application_types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    queue: str = ""
    user: str = ""
    name: str = ""
    live_only: bool = False
    limit: int = 0


class GetApplicationsResponse(Record):
    """In order of submission."""

    applications: tuple[ApplicationReport, ...]


class WaitForApplicationsRequest(Request["WaitForApplicationsResponse"]):
    """Answer when the applications have reached ``states`` (or a later state), or after ``wait_ms``.

    Empty ``states`` means that they have ended. ``any`` is satisfied by one of them.
    """

    application_ids: tuple[str, ...]
    states: tuple[YarnApplicationState, ...] = ()
    any: bool = False
    wait_ms: int = 60_000


class WaitForApplicationsResponse(Record):
    """``satisfied`` is false if the time passed first."""

    satisfied: bool
    applications: tuple[ApplicationReport, ...]


class KillApplicationRequest(Request["ApplicationResponse"], method="forceKillApplication"):
    """End an application (``forceKillApplication``)."""

    application_id: str
    diagnostics: str = ""


class ApplicationResponse(Record):
    """``application`` is as it is now, or with ``dry_run`` as it would be."""

    application: ApplicationReport


class MoveApplicationRequest(Request["ApplicationResponse"], method="moveApplicationAcrossQueues"):
    """Put a living application into another queue, with all that it has (``moveApplicationAcrossQueues``).

    ``dry_run`` changes nothing.
    """

    application_id: str
    queue: str
    dry_run: bool = False


class UpdateApplicationPriorityRequest(Request["ApplicationResponse"]):
    """Give a living application another priority; a larger number is served first. ``dry_run`` changes nothing."""

    application_id: str
    priority: int
    dry_run: bool = False


class UpdateApplicationTimeoutsRequest(Request["ApplicationResponse"]):
    """Let a live application end at ``expires_at_ms`` (epoch milliseconds); 0 for never.

    ``dry_run`` changes nothing.
    """

    application_id: str
    expires_at_ms: int
    dry_run: bool = False


class UpdateApplicationTagsRequest(Request["ApplicationResponse"]):
    """Let a live application have these tags and no others. ``dry_run`` changes nothing."""

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
    """All nodes, or only running ones."""

    running_only: bool = False


class GetClusterNodesResponse(Record):
    """In order of their names and ports."""

    nodes: tuple[NodeReport, ...]


class GetContainersRequest(Request["GetContainersResponse"]):
    """Containers of an application, on a node, or all; with ``finished`` those that have ended too."""

    application_id: str = ""
    node_id: str = ""
    container_ids: tuple[str, ...] = ()
    finished: bool = False


class GetContainersResponse(Record):
    """In order of allocation."""

    containers: tuple[ContainerReport, ...]


class ChangeContainerRequest(Request["ChangeContainerResponse"], method="updateContainer"):
    """A person's wish to promote, demote or resize a container; the RM has it delivered to the node itself.

    ``update.container_version`` -1 stands for the version that the container has now.
    """

    update: UpdateContainerRequest


class ChangeContainerResponse(Record):
    """``container`` is as the RM has it now. ``version`` is what its node will say once it has happened.

    ``pending``: the change waits for room on the container's node, and is made as soon as there is some.
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
    """The cluster in short."""


class WaitForNodesRequest(Request["WaitForNodesResponse"]):
    """Answer when at least ``count`` nodes are running and connected, or after ``wait_ms``."""

    count: int
    wait_ms: int = 10_000


class WaitForNodesResponse(Record):
    """``satisfied`` is false if the time passed first."""

    satisfied: bool
    nodes: tuple[NodeReport, ...]


class SetLifetimeRequest(Request["SetLifetimeResponse"]):
    """Make an on-demand cluster stay ("stay"), or end with its last job ("on-demand")."""

    lifetime: str


class SetLifetimeResponse(Record):
    """As it is now."""

    info: ClusterInfo


class ShutdownClusterRequest(Request["ShutdownClusterResponse"]):
    """End every application, every node and the RM itself.

    With ``keep_containers`` the nodes leave their containers running, to be found again by the next ``yopp up``.
    """

    keep_containers: bool = False


class ShutdownClusterResponse(Record):
    """``pids`` of the RM and the NMs, which end soon after this answer."""

    pids: tuple[int, ...]
