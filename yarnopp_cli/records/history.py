"""The events of the cluster, the task attempts of MapReduce jobs, and the calls that request them.

Plain data. Times are epoch milliseconds, 0 for none.
"""

from __future__ import annotations

import enum

from executor.causes import Cause
from executor.light import Record, field
from executor.records import ContainerState, ExecutionType, Resource

from .ids import ContainerId
from .methods import Request
from .reports import ApplicationAttemptReport, ApplicationReport, NodeReport
from .requests import MapReduceJob


class TaskAttempt(Record):
    """One attempt of a task, whether or not it ran. ``number`` counts a task's attempts from 0.

    ``state`` None: granted, and not yet reported by its node. ``exit_status`` is -1000 until it ends.
    ``memory_bytes`` and ``peak_bytes`` are the last and the largest measurement of its memory.
    """

    index: int
    is_reduce: bool
    number: int
    container_id: str
    node_id: str
    execution_type: ExecutionType
    resource: Resource
    node_http_address: str = ""
    rack: str = ""
    state: ContainerState | None = None
    exit_status: int = -1000
    exit_code: int | None = None
    diagnostics: str = ""
    allocated_at_ms: int = 0
    started_at_ms: int = 0
    finished_at_ms: int = 0
    cpu_ms: int = 0
    memory_bytes: int = 0
    peak_bytes: int = 0


class MapReduceReport(Record):
    """A job, the attempts of its tasks in order of grant, and the attempts of its master."""

    job: MapReduceJob
    attempts: tuple[TaskAttempt, ...] = ()
    masters: tuple[ApplicationAttemptReport, ...] = ()


class GetMapReduceJobRequest(Request["GetMapReduceJobResponse"]):
    """The tasks of an application that is a MapReduce job."""

    application_id: str


class GetMapReduceJobResponse(Record):
    """``report`` is None for an application that is no MapReduce job, and for an ended one that was moved to
    the kept history.
    """

    application: ApplicationReport
    report: MapReduceReport | None = None


class EventKind(enum.StrEnum):
    """The kinds of events. The words are stable: users filter by them."""

    APPLICATION_SUBMITTED = "ApplicationSubmitted"
    APPLICATION_ACCEPTED = "ApplicationAccepted"
    APPLICATION_RUNNING = "ApplicationRunning"
    APPLICATION_FINISHED = "ApplicationFinished"
    APPLICATION_FAILED = "ApplicationFailed"
    APPLICATION_KILLED = "ApplicationKilled"
    ATTEMPT_STARTED = "AttemptStarted"
    ATTEMPT_ENDED = "AttemptEnded"
    CONTAINER_ALLOCATED = "ContainerAllocated"
    CONTAINER_ACQUIRED = "ContainerAcquired"
    CONTAINER_QUEUED = "ContainerQueued"
    CONTAINER_STARTED = "ContainerStarted"
    CONTAINER_PAUSED = "ContainerPaused"
    CONTAINER_RESUMED = "ContainerResumed"
    CONTAINER_PROMOTED = "ContainerPromoted"
    CONTAINER_DEMOTED = "ContainerDemoted"
    CONTAINER_RESIZED = "ContainerResized"
    CONTAINER_COMPLETED = "ContainerCompleted"
    CONTAINER_PREEMPTED = "ContainerPreempted"
    CONTAINER_SHED = "ContainerShed"
    CONTAINER_ABORTED = "ContainerAborted"
    NODE_ADDED = "NodeAdded"
    NODE_RETURNED = "NodeReturned"
    NODE_SILENT = "NodeSilent"
    NODE_LOST = "NodeLost"
    NODE_REMOVED = "NodeRemoved"
    NODE_UNHEALTHY = "NodeUnhealthy"
    NODE_HEALTHY = "NodeHealthy"
    NODE_DRAINING = "NodeDraining"
    NODE_DRAINED = "NodeDrained"
    NODE_RESUMED = "NodeResumed"
    NODE_RESIZED = "NodeResized"
    QUEUE_LIMIT_TOLD = "QueueLimitTold"
    QUEUES_REFRESHED = "QueuesRefreshed"
    DAEMON_RESTARTED = "DaemonRestarted"
    DAEMON_GIVEN_UP = "DaemonGivenUp"
    RESOURCEMANAGER_RECOVERED = "ResourceManagerRecovered"
    STATE_LOST = "StateLost"


class HistoryEvent(Record):
    """One event. ``seq`` counts from 1 in each life of the cluster's history; ``t`` is the time when the
    ResourceManager learned of the event, in epoch milliseconds. ``words`` and ``numbers`` are further facts by name.
    ``cause`` is why a container was paused, resumed or ended; ``why`` is the sentence for users.
    """

    seq: int
    t: int
    kind: EventKind
    node: str = ""
    app: str = ""
    container: str = ""
    why: str = ""
    words: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    cause: Cause | None = None


class ApplicationHistory(Record):
    """The stored history of an ended application: its last report, the nodes that had its containers, its events.

    ``kept_at_ms`` is in epoch milliseconds. ``map_reduce`` is set for a MapReduce job. ``tasks`` are the task numbers
    of the first attempt's containers, in the order of the containers, -1 for none; ``later_tasks`` the task numbers of
    each later attempt.
    """

    application: ApplicationReport
    nodes: tuple[NodeReport, ...]
    events: tuple[HistoryEvent, ...]
    kept_at_ms: int = 0
    map_reduce: MapReduceReport | None = None
    tasks: tuple[int, ...] = ()
    later_tasks: tuple[tuple[int, ...], ...] = ()

    def task_of(self, container_id: str) -> int | None:
        """The number of a container's task; None if it has none, or if the number was not kept."""
        record, attempts = ContainerId.parse(container_id), (self.tasks, *self.later_tasks)
        attempt, place = record.application_attempt_id.attempt_id - 1, record.container_id - 1
        numbers = attempts[attempt] if attempt < len(attempts) else ()
        return numbers[place] if place < len(numbers) and numbers[place] >= 0 else None


class GetEventsRequest(Request["GetEventsResponse"]):
    """Events after number ``since`` and not before ``since_ms``, oldest first, at most ``limit`` of them.

    An empty filter matches all; an event of a container matches its application's filter. With ``newest`` the
    limit keeps the last ones. If no event matches yet, the answer waits for one, up to ``wait_ms``, at most 5 s.
    ``since`` -1 stands for the newest event: only later ones are returned.
    """

    since: int = 0
    since_ms: int = 0
    kinds: tuple[EventKind, ...] = ()
    application_id: str = ""
    container_id: str = ""
    node_id: str = ""
    limit: int = 1000
    newest: bool = False
    wait_ms: int = 0


class GetEventsResponse(Record):
    """``next`` is the ``since`` of the call that continues from here; ``oldest`` the first number still remembered (0
    for none). If ``oldest`` is above ``since + 1`` of the request, the events between are lost. ``cluster_timestamp``
    identifies the cluster's start: after another start the numbers begin anew.
    """

    events: tuple[HistoryEvent, ...]
    next: int = 0
    oldest: int = 0
    cluster_timestamp: int = 0
