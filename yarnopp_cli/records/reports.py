"""Reports about applications, nodes and containers, for users and masters.

Times are epoch milliseconds, 0 for none.
"""

from __future__ import annotations

import enum

from executor.hints import TYPE_CHECKING, Any
from executor.light import QuickEnum, Record, field, made_of
from executor.records import (
    ContainerFacts,
    ContainerState,
    ContainerStatus,
    ExecutionType,
    OpportunisticContainersStatus,
    Resource,
    ResourceUtilization,
)

from .requests import ResourceRequest

if TYPE_CHECKING:
    from collections.abc import Sequence


class YarnApplicationState(enum.StrEnum, metaclass=QuickEnum):
    """The life of an application, as YARN shows it."""

    NEW = "NEW"
    NEW_SAVING = "NEW_SAVING"
    SUBMITTED = "SUBMITTED"
    ACCEPTED = "ACCEPTED"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    KILLED = "KILLED"


FINAL_STATES = frozenset(
    {YarnApplicationState.FINISHED, YarnApplicationState.FAILED, YarnApplicationState.KILLED}
)
"""The states in which an application has ended."""
LIVE_STATES = tuple(state for state in YarnApplicationState if state not in FINAL_STATES)
"""The states before the end, in their order."""


def has_reached(state: YarnApplicationState, wanted: Sequence[YarnApplicationState]) -> bool:
    """Whether an application is in one of ``wanted``, or in a later state. Final states are later than all
    others.
    """
    if state in FINAL_STATES:
        return True
    rank = LIVE_STATES.index(state)
    return any(rank >= LIVE_STATES.index(one) for one in wanted if one not in FINAL_STATES)


class FinalApplicationStatus(enum.StrEnum, metaclass=QuickEnum):
    """The outcome that an application's master reports."""

    UNDEFINED = "UNDEFINED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    KILLED = "KILLED"
    ENDED = "ENDED"


class NodeState(enum.StrEnum, metaclass=QuickEnum):
    """The life of a node, as YARN shows it."""

    NEW = "NEW"
    RUNNING = "RUNNING"
    UNHEALTHY = "UNHEALTHY"
    DECOMMISSIONED = "DECOMMISSIONED"
    LOST = "LOST"
    REBOOTED = "REBOOTED"
    DECOMMISSIONING = "DECOMMISSIONING"
    SHUTDOWN = "SHUTDOWN"


GONE = frozenset({NodeState.LOST, NodeState.SHUTDOWN})
"""Nodes in these states are no longer part of the cluster."""
DRAINED = frozenset({NodeState.DECOMMISSIONING, NodeState.DECOMMISSIONED})
"""States of nodes that an administrator has drained: they get no new containers."""


class JobSummary(Record):
    """A master's counts of its containers, of both types together unless the name says otherwise.

    ``total`` tasks; ``completed`` ended for good (``failed`` of them with a code other than 0); ``guaranteed`` and
    ``opportunistic`` count the completed ones by the type they ran in; ``queued`` waited in a node's queue before they
    ran; ``upgraded`` requested an opportunistic container and were given a guaranteed one; ``preempted`` counts
    containers that were killed, shed or refused and requested again, ``shed`` the ones among them that had never run;
    ``lost`` counts containers that were lost with their node and requested again; ``processes_killed``,
    ``forks_refused`` and ``output_lost`` count the completed ones with this flaw (``causes.FLAWS``); ``retried``
    counts failures of tasks that were run again; ``paused`` ended containers were paused, for ``paused_ms_total`` in
    total, most of it for ``paused_for`` (``ContainerStatus.stood_for``); ``awaited`` waited to be granted; ``waited``
    waited for the grant or in a queue, ``wait_ms_total`` in total and ``wait_ms_max`` at most, from the last request
    to the start, over completed ones. ``exit_code`` is the job's. ``first_failure`` describes the first failed task,
    if failed tasks ended the job.
    """

    total: int = 0
    completed: int = 0
    failed: int = 0
    running: int = 0
    guaranteed: int = 0
    opportunistic: int = 0
    queued: int = 0
    preempted: int = 0
    shed: int = 0
    promoted: int = 0
    upgraded: int = 0
    wait_ms_total: int = 0
    wait_ms_max: int = 0
    exit_code: int = -1
    awaited: int = 0
    waited: int = 0
    paused: int = 0
    paused_ms_total: int = 0
    paused_for: str = ""
    retried: int = 0
    first_failure: str = ""
    lost: int = 0
    processes_killed: int = 0
    forks_refused: int = 0
    output_lost: int = 0


FLAWS = {
    "processes_killed": "lost a process to the OOM killer",
    "forks_refused": "could not start a process, because of its limit of processes",
    "output_lost": "may have lost output",
}


def flaws_text(summary: JobSummary) -> str:
    """The flaws of tasks that ended by themselves, for users: ``2 of them lost …``; "" for none."""
    told = [(count, text) for name, text in FLAWS.items() if (count := getattr(summary, name))]
    return ", ".join(f"{'it' if summary.total == 1 else f'{count} of them'} {text}" for count, text in told)


def plain_diagnostics(diagnostics: str, summary: JobSummary | None) -> str:
    """Why an application ended, for users. Diagnostics of failed tasks have the form of YARN's distributed shell,
    which programs read."""
    if summary is None or not summary.first_failure:
        return diagnostics
    tasks = "task" if summary.total == 1 else "tasks"
    return f"{summary.failed} of {summary.total} {tasks} failed; {summary.first_failure}"


class ApplicationResourceUsage(Record):
    """The resources that an application holds, requests and has lost (YARN's ``ApplicationResourceUsageReport`` and
    the rest of AppInfo).

    ``guaranteed`` is the total of its guaranteed containers, ``master`` the master's part of it; the percentages are
    of its queue's capacity and of the cluster, by the dominant resource. ``requests`` are its outstanding requests,
    one of each shape. ``preempted`` is the size of all its preempted containers, ``preempted_masters`` the number of
    masters among them; the memory and vcore seconds are the usage of these containers.
    """

    guaranteed: Resource = Resource()
    master: Resource = Resource()
    queue_percent: float = 0.0
    cluster_percent: float = 0.0
    preempted: Resource = Resource()
    preempted_masters: int = 0
    preempted_memory_seconds: int = 0
    preempted_vcore_seconds: int = 0
    requests: tuple[ResourceRequest, ...] = ()
    am_http_address: str = ""
    node_label_expression: str = ""


class ApplicationReport(Record):
    """An application, as the RM sees it (YARN's record). ``progress`` from 0.0 to 1.0.

    ``timeout_at_ms`` is the end of its lifetime, 0 for never. ``tracking_url`` is the URL of its page, "" for none.
    ``unmanaged``: its master has no container, but runs in its client or in the RM (``hosted``). ``postponed``: it has
    not begun, because it waits for ``begin_at_ms`` or for the remaining conditions in ``after``. ``results`` is as in
    ``ApplicationSubmissionContext``, with its id for ``{job}``.
    """

    application_id: str
    name: str
    user: str
    queue: str
    application_type: str
    state: YarnApplicationState
    final_status: FinalApplicationStatus
    progress: float = 0.0
    diagnostics: str = ""
    priority: int = 0
    tags: tuple[str, ...] = ()
    current_attempt_id: str = ""
    am_container_id: str = ""
    am_node_id: str = ""
    unmanaged: bool = False
    hosted: bool = False
    submitted_at_ms: int = 0
    started_at_ms: int = 0
    finished_at_ms: int = 0
    allocated: Resource = Resource()
    containers_allocated: int = 0
    containers_queued: int = 0
    containers_running: int = 0
    containers_paused: int = 0
    containers_done: int = 0
    containers_failed: int = 0
    containers_preempted: int = 0
    containers_shed: int = 0
    containers_lost: int = 0
    containers_killed: int = 0
    pending_containers: int = 0
    opportunistic_allocated_total: int = 0
    guaranteed_allocated_total: int = 0
    promoted_total: int = 0
    opportunistic_pending: int = 0
    memory_seconds: int = 0
    vcore_seconds: int = 0
    attempts: int = 0
    log_directory: str = ""
    command_line: str = ""
    summary: JobSummary | None = None
    timeout_at_ms: int = 0
    usage: ApplicationResourceUsage = ApplicationResourceUsage()
    tracking_url: str = ""
    begin_at_ms: int = 0
    after: tuple[str, ...] = ()
    deadline_at_ms: int = 0
    postponed: bool = False
    results: str = ""


class ApplicationAttemptReport(Record):
    """One attempt to run an application's master. ``am_http_address`` is the address of its node's pages, "" for none;
    ``blacklist`` are the nodes on its master's blacklist. ``hosted``: the master runs in the RM.
    """

    attempt_id: str
    state: str
    am_container_id: str = ""
    diagnostics: str = ""
    started_at_ms: int = 0
    finished_at_ms: int = 0
    am_node_id: str = ""
    am_http_address: str = ""
    user: str = ""
    blacklist: tuple[str, ...] = ()
    hosted: bool = False


class NodeReport(Record):
    """A node, as the RM sees it. ``used`` and ``num_containers`` count guaranteed containers only, as in YARN;
    ``guaranteed_paused`` of these are paused. Their vcores stay promised to them, and count in ``used``.

    ``address`` is the address on which its NodeManager listens. ``connected`` is false while the connection is down
    and the node has not expired. ``queue_limit`` is the queue length beyond which nodes shed, -1 for none.
    """

    node_id: str
    state: NodeState
    address: str
    http_address: str = ""
    rack: str = "/default-rack"
    labels: tuple[str, ...] = ()
    total: Resource = Resource()
    used: Resource = Resource()
    num_containers: int = 0
    opportunistic: OpportunisticContainersStatus = OpportunisticContainersStatus()
    node_utilization: ResourceUtilization = ResourceUtilization()
    containers_utilization: ResourceUtilization = ResourceUtilization()
    queue_limit: int = -1
    last_heartbeat_ms: int = 0
    health_report: str = ""
    version: str = ""
    connected: bool = True
    pid: int = 0
    state_since_ms: int = 0
    guaranteed_paused: int = 0

    @property
    def guaranteed_running(self) -> int:
        """The number of guaranteed containers without the paused ones."""
        return self.num_containers - self.guaranteed_paused

    @property
    def paused(self) -> int:
        """The number of paused containers of both types."""
        return self.guaranteed_paused + self.opportunistic.paused


class ContainerReport(ContainerFacts):
    """A container, as the RM sees it; the node of a live container has newer facts (``merged``).

    ``state`` is None while the RM has granted it and its node has not reported it yet. ``allocated_at_ms`` is the time
    of the RM's grant, ``submitted_at_ms`` the time of its application's submission, ``eligible_at_ms`` the time of its
    master's request: from then on only a lack of resources keeps it waiting. Work that was shed or preempted is
    eligible since its first request. ``task`` is the number of its job's task, None if it is not known.
    """

    container_id: str
    application_id: str
    node_id: str
    execution_type: ExecutionType
    resource: Resource
    state: ContainerState | None = None
    priority: int = 0
    allocated_at_ms: int = 0
    is_am: bool = False
    promoted_at_ms: int = 0
    preemptions: int = 0
    submitted_at_ms: int = 0
    eligible_at_ms: int = 0
    task: int | None = None

    def waited_ms(self, since_ms: int, now_ms: int) -> int:
        """The time from ``since_ms`` to its start; if it never started, to its end, or until now. -1 if the beginning
        is not known, as for a container that only its node reports.
        """
        ended = self.finished_at_ms if self.state is ContainerState.DONE else 0
        return max(0, (self.started_at_ms or ended or now_ms) - since_ms) if since_ms else -1

    def merged(self, status: ContainerStatus) -> ContainerReport:
        """This report with the node's newer facts. Texts that the node lacks stay the RM's."""
        command = status.command or self.command
        log_directory = status.log_directory or self.log_directory
        return _merged(self, status, command=command, log_directory=log_directory)


_WAITS = (ContainerState.SCHEDULED, ContainerState.PAUSING, ContainerState.PAUSED, ContainerState.RESUMING)


def is_waiting(report: ContainerReport) -> bool:
    """Whether a container waits to run: queued, paused, or not yet reported by its node."""
    return report.state is None or report.state in _WAITS


class ContainerGrant(Record):
    """Facts that only the RM knows of a live container: the fields of its report for which the node has no newer
    value."""

    container_id: str
    application_id: str
    node_id: str
    user: str = ""
    diagnostics: str = ""
    priority: int = 0
    allocated_at_ms: int = 0
    is_am: bool = False
    promoted_at_ms: int = 0
    preemptions: int = 0
    submitted_at_ms: int = 0
    eligible_at_ms: int = 0
    task: int | None = None

    def merged(self, status: ContainerStatus) -> ContainerReport:
        """The report, from this grant and the node's status."""
        return _merged(self, status)


def _merged(told: ContainerReport | ContainerGrant, status: ContainerStatus, **texts: Any) -> ContainerReport:
    """The RM's report of a container, with the facts of its node. ``texts`` as in a ContainerReport."""
    return made_of(
        ContainerReport,
        told,
        status,
        application_id=told.application_id,
        user=status.user or told.user,
        diagnostics=status.diagnostics or told.diagnostics,
        **texts,
    )


class QueueAcl(Record):
    """The users who have a right: ``names``, "*" for all."""

    access_type: str
    names: str


class QueueUserReport(Record):
    """The holdings of one user in a queue: guaranteed containers, live applications, opportunistic containers."""

    user: str
    used: Resource = Resource()
    applications: int = 0
    opportunistic: Resource = Resource()


class QueueReport(Record):
    """A queue of guaranteed containers.

    ``capacity`` and ``maximum_capacity`` are in percent of the parent, the absolute ones in percent of the cluster;
    ``used_capacity`` is in percent of the queue's guaranteed capacity, or of the cluster if this capacity is 0 (YARN
    then divides by the minimum allocation). ``guaranteed`` and ``maximum`` are the absolute capacities as resources.
    ``opportunistic`` is the total of its applications' opportunistic containers, which no queue limits.
    ``pending_containers`` are requested containers of both types, ``pending_guaranteed`` guaranteed ones only.
    ``containers`` are guaranteed ones; masters may hold ``masters_limit``. Lifetimes are in seconds, -1 for none;
    ``acls`` are the access rights.
    """

    name: str
    capacity: float = 100.0
    maximum_capacity: float = 100.0
    used: Resource = Resource()
    applications: int = 0
    pending_containers: int = 0
    state: str = "RUNNING"
    path: str = ""
    parent: str = ""
    leaf: bool = True
    absolute_capacity: float = 100.0
    absolute_maximum_capacity: float = 100.0
    used_capacity: float = 0.0
    absolute_used_capacity: float = 0.0
    guaranteed: Resource = Resource()
    maximum: Resource = Resource()
    running_applications: int = 0
    maximum_applications: int = 0
    ordering_policy: str = "fifo"
    user_limit_factor: float = 1.0
    minimum_user_limit_percent: int = 100
    preemption_disabled: bool = True
    opportunistic: Resource = Resource()
    opportunistic_containers: int = 0
    pending_guaranteed: int = 0
    users: tuple[QueueUserReport, ...] = ()
    containers: int = 0
    masters_limit: Resource = Resource()
    masters_used: Resource = Resource()
    default_priority: int = 0
    maximum_lifetime: int = -1
    default_lifetime: int = -1
    maximum_allocation: Resource = Resource()
    acls: tuple[QueueAcl, ...] = ()


STAY = "stay"
"""A cluster with this lifetime runs until `yopp down`."""
ON_DEMAND = "on-demand"
"""A cluster with this lifetime was started by a job, and ends with its last job."""


class ClusterInfo(Record):
    """A summary of the cluster. ``properties`` are the properties that differ from their defaults, name -> text.

    ``lifetime`` is "stay" (``yopp up``) or "on-demand" (ends itself with its last job). ``maximum`` is the largest
    container that any running node could ever hold. ``http_address`` is the address of the REST API and the pages, ""
    for none; ``warnings`` are for users, a line each. ``lost`` describes lost records, a line each, until a user
    decides about the ``containers_kept`` of the lost applications.
    """

    started_at_ms: int
    cluster_timestamp: int
    pid: int
    version: str
    lifetime: str
    run_dir: str
    address: str
    total: Resource = Resource()
    used: Resource = Resource()
    maximum: Resource = Resource()
    nodes_running: int = 0
    nodes_lost: int = 0
    applications_running: int = 0
    applications_pending: int = 0
    applications_finished: int = 0
    containers_running: int = 0
    containers_queued: int = 0
    containers_paused: int = 0
    opportunistic_enabled: bool = False
    properties: dict[str, str] = field(default_factory=dict)
    http_address: str = ""
    warnings: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    containers_kept: int = 0
