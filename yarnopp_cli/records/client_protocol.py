"""ApplicationClientProtocol: what clients ask of the ResourceManager. One request and one response for each
method.
"""

from __future__ import annotations

from executor.light import Record

from .jobs import JobSpec, TaskRows
from .methods import Request
from .reports import (
    ApplicationAttemptReport,
    ApplicationReport,
    ClusterInfo,
    ContainerGrant,
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
    """A fresh application id, and ``info``, which spares the client a second call."""

    application_id: str
    info: ClusterInfo


class SubmitApplicationRequest(Request["SubmitApplicationResponse"]):
    """Run this application. An empty ``context.application_id`` lets the RM choose it."""

    context: ApplicationSubmissionContext


class SubmitApplicationResponse(Record):
    """``am_token`` and ``attempt_id`` are set for an unmanaged application, whose master is the client.

    ``log_directory`` is where the output of its containers is written.
    """

    application_id: str
    info: ClusterInfo
    attempt_id: str = ""
    am_token: Token | None = None
    log_directory: str = ""


class SubmitJobRequest(Request["SubmitApplicationResponse"]):
    """Run this job with its master in the ResourceManager's process. The answer has no token.

    ``attached``: the job ends when the connection of this call is lost and no other connection follows the
    job within the grace period; otherwise the job outlives its client. ``context`` is as for a submission,
    without ``am_container_spec``.

    Refused with MastersNotHostedError where the cluster's masters run in clients and containers.
    """

    context: ApplicationSubmissionContext
    job: JobSpec
    attached: bool = True


class WatchJobRequest(Request["WatchJobResponse"]):
    """The changes of a job whose master the ResourceManager hosts. The answer is held for up to ``wait_ms``
    until there are any.

    ``position``, ``notices``, ``attempt`` and ``paused`` are those of the last answer; the first call has none.
    After the connection of an attached job's client was lost, a call over another connection takes the job over.
    Without ``tasks`` no rows are sent: the answer comes when the job ends, has a notice, or the time has passed. In
    another attempt, after a restart of the ResourceManager, everything is sent again.
    """

    application_id: str
    position: int = 0
    notices: int = 0
    wait_ms: int = 60_000
    tasks: bool = True
    attempt: int = 0
    paused: int = -1


class JobEnd(Record):
    """How a job ended. ``exit_code`` is for the caller's shell. ``message``, with ``because`` and ``hint``,
    is the error that stopped the job, "" for none.
    """

    exit_code: int
    final_status: FinalApplicationStatus
    diagnostics: str
    summary: JobSummary
    message: str = ""
    because: str = ""
    hint: str = ""


class WatchJobResponse(Record):
    """``tasks`` have changed since the position of the request, at most 1,000 in an answer; the next call,
    with the new ``position`` and ``notices``, returns what follows. A task that changed several times has one
    row, its present state; a task whose container ended without ending the task has a row for each such
    container.

    ``counts`` is the number of tasks in each state (states without tasks are left out), ``paused`` that of
    tasks whose containers are paused now, ``paused_for`` why most of them are paused (``causes.paused_for``),
    ``preempted`` and ``shed`` how many containers were preempted and shed. ``end`` is set once the job has
    ended and every row was sent. ``queued_for`` is why queued opportunistic ones may not start even where there is
    room, as ``paused_for``.
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
    queued_for: str = ""


class StopJobRequest(Request["StopJobResponse"]):
    """Stop a hosted job: its containers end first; then it unregisters with ``final_status`` and
    ``exit_code``.
    """

    application_id: str
    reason: str
    exit_code: int
    final_status: FinalApplicationStatus = FinalApplicationStatus.KILLED


class StopJobResponse(Record):
    """The job is being stopped, or has already ended; ``watchJob`` returns the end."""


class GetJobRequest(Request["GetJobResponse"]):
    """What a job runs: a job that the RM hosts or hosted, or whose master was in a container. The RM keeps
    the ended jobs up to a total number of tasks.
    """

    application_id: str


class GetJobResponse(Record):
    """``context`` and ``job`` as they were submitted, with the values of their variables; ``job`` is None
    where the master ran in a container, which has the job in a file. ``succeeded``: the numbers of the last
    phase's tasks that succeeded, as pairs: the first and the last number of each range. ``ended``: no further
    task will succeed.
    """

    context: ApplicationSubmissionContext
    job: JobSpec | None
    succeeded: tuple[int, ...] = ()
    ended: bool = False

    def good(self) -> list[int]:
        """The numbers in the ranges of ``succeeded``, one by one."""
        rows = zip(self.succeeded[::2], self.succeeded[1::2], strict=True)
        return [number for first, last in rows for number in range(first, last + 1)]


class GetApplicationsRequest(Request["GetApplicationsResponse"]):
    """Filters for applications; an empty filter matches all. ``live_only`` leaves out those that have ended."""

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
    """The applications in order of submission."""

    applications: tuple[ApplicationReport, ...]


class WaitForApplicationsRequest(Request["WaitForApplicationsResponse"]):
    """Answer when the applications have reached ``states`` (or a later state), or after ``wait_ms``.

    Empty ``states`` waits for the end of the applications. With ``any``, one application is enough.
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
    """Containers of an application, on a node, or all; ``finished`` adds those that have ended. ``grants_only``: the
    caller asks their nodes, too."""

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

    ``pending``: the change waits for free resources on the container's node, and is made as soon as there are
    some.
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
    """Answer when at least ``count`` nodes are running and connected, or after ``wait_ms``."""

    count: int
    wait_ms: int = 10_000


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


class ShutdownClusterRequest(Request["ShutdownClusterResponse"]):
    """End every application, every node and the RM itself.

    With ``keep_containers`` the nodes leave their containers running; the next ``yopp up`` recovers them.
    """

    keep_containers: bool = False


class ShutdownClusterResponse(Record):
    """``pids`` of the RM and the NMs, which end soon after this answer."""

    pids: tuple[int, ...]
