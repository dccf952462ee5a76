"""ApplicationMasterProtocol: what an application's master asks of the ResourceManager (or of the AMRMProxy)."""

from __future__ import annotations

from executor.light import Record
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
"""The environment variable in which a master finds the address of the AMRMProxy that it has to speak with."""

AM_RESYNC = "AM_RESYNC"
"""The command of an answer to a master that the RM's new life knows, and that has not registered there yet."""


class RegisterApplicationMasterRequest(Request["RegisterApplicationMasterResponse"]):
    """The master of an attempt is there. ``token`` is its AMRMToken, here and in every later call."""

    attempt_id: str
    token: Token
    host: str = ""
    tracking_url: str = ""


class RegisterApplicationMasterResponse(Record):
    """``maximum`` is what the scheduler allows, ``largest_node`` what the largest running node could ever hold.

    ``containers_from_previous_attempts`` are alive and now this attempt's. ``token``, where there is one (an
    AMRMProxy's), stands for the attempt in every later call instead of the one shown here. ``ended_well`` are the
    containers of earlier attempts that have ended with exit code 0, as far as the RM remembers: their master may have
    died before it heard of that.
    """

    minimum: Resource
    maximum: Resource
    largest_node: Resource
    queue: str
    opportunistic_enabled: bool
    containers_from_previous_attempts: tuple[Container, ...] = ()
    token: Token | None = None
    ended_well: tuple[str, ...] = ()


class AllocateRequest(Request["AllocateResponse"]):
    """A master's heartbeat and its asks.

    ``response_id`` is that of the last response it has, from 0: everything in a response is repeated until a request
    acknowledges it so. The RM may hold the answer for up to ``wait_ms`` until it has something to tell; a newer request
    of the same attempt makes it answer at once. ``summary`` is shown to people; so are ``tasks``: which of a MapReduce
    job's tasks granted containers are for.
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

    ``started`` have begun to run at their nodes, ``queued`` wait there: news for progress reports, not in YARN.
    ``preempting`` will be killed soon, for a queue that is below its capacity (YARN's ``PreemptionMessage``).
    ``updated_nodes`` came, went, or became (un)healthy. ``paused`` is how many of the application's containers stand
    still now, -1 for no news of that.
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
    """``is_unregistered`` is true once the RM has it."""

    is_unregistered: bool
