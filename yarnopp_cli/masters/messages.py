"""What a master is told (past tense) and what it wants done (imperative).

Every command that calls a daemon ends in exactly one event: its answer, or ``CallFailed``. Calls to one node
are to arrive there in the order of their commands.
"""

from __future__ import annotations

import enum

from executor.light import dataclass
from executor.records import ExecutionType

from ..errors import YoppError
from ..records.client_protocol import ApplicationResponse, KillApplicationRequest
from ..records.container_protocol import (
    StartContainersRequest,
    StartContainersResponse,
    StopContainersRequest,
    StopContainersResponse,
    UpdateContainersRequest,
    UpdateContainersResponse,
)
from ..records.master_protocol import (
    AllocateRequest,
    AllocateResponse,
    FinishApplicationMasterRequest,
    FinishApplicationMasterResponse,
    RegisterApplicationMasterRequest,
    RegisterApplicationMasterResponse,
)
from ..records.reports import FinalApplicationStatus, JobSummary


class TaskState(str, enum.Enum):  # noqa: UP042  (as the other enums of records are)
    """Where a task stands.

    ``ASKED`` waits for a container, ``STARTING`` has one that is on its way to its node.
    """

    WAITING = "WAITING"
    ASKED = "ASKED"
    STARTING = "STARTING"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    KILLED = "KILLED"


ENDED = frozenset({TaskState.SUCCEEDED, TaskState.FAILED, TaskState.KILLED})
"""The states in which a task has ended for good."""


@dataclass(frozen=True, slots=True)
class TaskReport:
    """A task as it is now. ``container_id`` is its present or last container, "" before the first.

    ``attempts`` counts its failures, ``preemptions`` how often it was preempted, shed, refused or lost.
    ``exit_code`` is as a shell reports it, None while it has none. ``wait_ms`` from arrival at the node to
    start. ``number`` is what people see, and changes where tasks are numbered by allocation; ``planned_number``
    never does.
    """

    phase: int
    number: int
    state: TaskState
    execution_type: ExecutionType
    container_id: str = ""
    node_id: str = ""
    exit_code: int | None = None
    exit_status: int = -1000
    diagnostics: str = ""
    attempts: int = 0
    preemptions: int = 0
    wait_ms: int = 0
    memory_mb: int = 0
    planned_number: int = 0


# --- commands


@dataclass(frozen=True, slots=True)
class Register:
    """Call registerApplicationMaster; ends in ``Registered``."""

    request: RegisterApplicationMasterRequest


@dataclass(frozen=True, slots=True)
class Allocate:
    """Call allocate; ends in ``Allocated``. A second one may be sent while the first is held."""

    request: AllocateRequest


@dataclass(frozen=True, slots=True)
class Finish:
    """Call finishApplicationMaster; ends in ``Unregistered``."""

    request: FinishApplicationMasterRequest


@dataclass(frozen=True, slots=True)
class Kill:
    """Call forceKillApplication: this application shall count as KILLED, not FINISHED; ends in ``Killed``."""

    request: KillApplicationRequest


@dataclass(frozen=True, slots=True)
class StartContainers:
    """Call startContainers of a node; ends in ``ContainersStarted``."""

    node_id: str
    node_address: str
    request: StartContainersRequest
    container_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StopContainers:
    """Call stopContainers of a node; ends in ``ContainersStopped``."""

    node_id: str
    node_address: str
    request: StopContainersRequest


@dataclass(frozen=True, slots=True)
class UpdateContainers:
    """Call updateContainers of a node; ends in ``ContainersUpdated``."""

    node_id: str
    node_address: str
    request: UpdateContainersRequest
    container_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaskChanged:
    """For whoever watches: a task has another state, or another container."""

    task: TaskReport


@dataclass(frozen=True, slots=True)
class Notice:
    """For whoever watches: one sentence worth reading."""

    text: str


@dataclass(frozen=True, slots=True)
class EndMaster:
    """The job has ended and the RM knows (or cannot be told).

    ``error`` is what made it impossible to go on.
    """

    exit_code: int
    final_status: FinalApplicationStatus
    diagnostics: str
    summary: JobSummary
    error: YoppError | None = None


NodeCommand = StartContainers | StopContainers | UpdateContainers
"""Calls to a NodeManager."""

RMCommand = Register | Allocate | Finish | Kill
"""Calls to the ResourceManager."""

Call = RMCommand | NodeCommand
"""Commands that end in an event."""

Command = Call | TaskChanged | Notice | EndMaster
"""All that a master may want."""


# --- events


@dataclass(frozen=True, slots=True)
class MasterStarted:
    """The first event."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The RM knows this master."""

    response: RegisterApplicationMasterResponse


@dataclass(frozen=True, slots=True)
class Allocated:
    """The RM's answer to one ``Allocate``."""

    response: AllocateResponse


@dataclass(frozen=True, slots=True)
class Unregistered:
    """The RM knows that this job has ended."""

    response: FinishApplicationMasterResponse


@dataclass(frozen=True, slots=True)
class Killed:
    """The RM has ended this application."""

    response: ApplicationResponse


@dataclass(frozen=True, slots=True)
class ContainersStarted:
    """A node's answer."""

    command: StartContainers
    response: StartContainersResponse


@dataclass(frozen=True, slots=True)
class ContainersStopped:
    """A node's answer."""

    command: StopContainers
    response: StopContainersResponse


@dataclass(frozen=True, slots=True)
class ContainersUpdated:
    """A node's answer."""

    command: UpdateContainers
    response: UpdateContainersResponse


@dataclass(frozen=True, slots=True)
class CallFailed:
    """A call was refused, or its daemon could not be reached (ConnectionFailedError)."""

    command: Call
    error: YoppError


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Somebody wants the job to end now, as ``final_status`` and with ``exit_code``."""

    reason: str
    exit_code: int
    final_status: FinalApplicationStatus = FinalApplicationStatus.KILLED


Event = (
    MasterStarted
    | Registered
    | Allocated
    | Unregistered
    | Killed
    | ContainersStarted
    | ContainersStopped
    | ContainersUpdated
    | CallFailed
    | StopRequested
)
"""All that a master is told."""
