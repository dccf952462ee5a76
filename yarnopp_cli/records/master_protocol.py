"""ApplicationMasterProtocol: the calls of an application's master to the ResourceManager (or to the AMRMProxy)."""

from __future__ import annotations

from executor.light import Record, field
from executor.records import ContainerStatus, Resource

from .methods import Request
from .reports import FinalApplicationStatus, JobSummary, NodeReport
from .requests import (
    Container,
    ResourceRequest,
    TaskAssignment,
    Token,
    UpdateContainerError,
    UpdateContainerRequest,
    UpdatedContainer,
)

SCHEDULER_ADDRESS_VARIABLE = "YOPP_SCHEDULER_ADDRESS"
"""The environment variable with the address of the AMRMProxy that a master has to use."""

ATTEMPT_VARIABLE = "APPLICATION_ATTEMPT_ID"
"""The environment variable with the id of a master's attempt, in its container."""

AM_TOKEN_FILE = "am-token.json"
"""The file in a master's private directory that holds its AMRMToken, as the JSON of the Token record."""

AM_RESYNC = "AM_RESYNC"
"""The command of an answer to a master that a restarted RM knows and that has not registered with it yet."""
AM_SHUTDOWN = "AM_SHUTDOWN"
"""The command of an answer to a master that has to end."""


class RegisterApplicationMasterRequest(Request["RegisterApplicationMasterResponse"]):
    """Register the master of an attempt. ``token`` is its AMRMToken, here and in every later call.

    ``earlier``: the containers of earlier attempts whose ends this master does not know, and their nodes. A restarted
    RM knows of them only when their nodes have registered.
    """

    attempt_id: str
    token: Token
    host: str = ""
    tracking_url: str = ""
    earlier: dict[str, str] = field(default_factory=dict)


class RegisterApplicationMasterResponse(Record):
    """``maximum`` is the scheduler's maximum allocation, ``largest_node`` the size of the largest running node.

    ``containers_from_previous_attempts`` are live and now belong to this attempt. ``token``, if set (by an AMRMProxy),
    replaces the request's token in every later call. ``ended_well`` are the containers of earlier attempts that ended
    with exit code 0 after their masters, or before the masters received the end. ``ending`` are the containers that
    have not ended yet, as far as the RM knows: their ends follow in ``AllocateResponse.completed``. ``elapsed_ms`` is
    the time since the application began, 0 for its first attempt.
    """

    minimum: Resource
    maximum: Resource
    largest_node: Resource
    queue: str
    opportunistic_enabled: bool
    containers_from_previous_attempts: tuple[Container, ...] = ()
    token: Token | None = None
    ended_well: tuple[str, ...] = ()
    ending: tuple[str, ...] = ()
    elapsed_ms: int = 0


class AllocateRequest(Request["AllocateResponse"]):
    """A master's heartbeat and its asks.

    ``response_id`` is the id of the last response received, from 0: the contents of a response are repeated until a
    request acknowledges the response by its id. The RM may hold the answer for up to ``wait_ms`` until there is news;
    a newer request of the same attempt makes it answer at once. ``summary`` and ``tasks`` are shown to users;
    ``tasks`` assigns granted containers to the tasks of a MapReduce job.
    """

    attempt_id: str
    token: Token
    response_id: int = 0
    progress: float = 0.0
    asks: tuple[ResourceRequest, ...] = ()
    releases: tuple[str, ...] = ()
    updates: tuple[UpdateContainerRequest, ...] = ()
    blacklist_additions: tuple[str, ...] = ()
    blacklist_removals: tuple[str, ...] = ()
    wait_ms: int = 0
    summary: JobSummary | None = None
    tasks: tuple[TaskAssignment, ...] = ()


class AllocateResponse(Record):
    """``command`` is "" or YARN's AM_RESYNC or AM_SHUTDOWN. ``completed`` have ended at their nodes (or were lost).

    ``started`` have begun to run at their nodes, ``queued`` wait there: for progress reports, not in YARN.
    ``preempting`` will be killed soon, for a queue that is below its capacity (YARN's ``PreemptionMessage``).
    ``updated_nodes`` were added, were removed, or became (un)healthy. ``paused`` is the number of the application's
    containers that are paused now, -1 for no change.
    """

    response_id: int
    allocated: tuple[Container, ...] = ()
    completed: tuple[ContainerStatus, ...] = ()
    started: tuple[str, ...] = ()
    queued: tuple[str, ...] = ()
    updated: tuple[UpdatedContainer, ...] = ()
    update_errors: tuple[UpdateContainerError, ...] = ()
    updated_nodes: tuple[NodeReport, ...] = ()
    available: Resource = Resource()
    num_nodes: int = 0
    preempting: tuple[str, ...] = ()
    command: str = ""
    token: Token | None = None
    paused: int = -1


class FinishApplicationMasterRequest(Request["FinishApplicationMasterResponse"]):
    """The job has ended; ``summary`` stays with the application's report."""

    attempt_id: str
    token: Token
    final_status: FinalApplicationStatus
    diagnostics: str = ""
    tracking_url: str = ""
    summary: JobSummary | None = None


class FinishApplicationMasterResponse(Record):
    """``is_unregistered`` is true once the RM has processed it."""

    is_unregistered: bool
