"""What a master is told (past tense) and what it wants done (imperative).

Every call of a daemon ends in exactly one event: ``Answered`` or ``CallFailed``. Calls of one node are to arrive there
in the order of their commands.
"""

from __future__ import annotations

import enum
from typing import Any

from executor.light import Record
from executor.records import ExecutionType

from ..errors import YoppError
from ..records.client_protocol import KillApplicationRequest
from ..records.container_protocol import (
    StartContainersRequest,
    StopContainersRequest,
    UpdateContainersRequest,
)
from ..records.master_protocol import (
    AllocateRequest,
    FinishApplicationMasterRequest,
    RegisterApplicationMasterRequest,
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


class TaskReport(Record):
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


class CallRM(Record):
    """Call the ResourceManager. A second allocate call may be sent while the first is held."""

    request: (
        RegisterApplicationMasterRequest
        | AllocateRequest
        | FinishApplicationMasterRequest
        | KillApplicationRequest
    )


class CallNode(Record):
    """Call a NodeManager about these containers."""

    node_id: str
    node_address: str
    request: StartContainersRequest | StopContainersRequest | UpdateContainersRequest
    container_ids: tuple[str, ...]


Call = CallRM | CallNode
"""Each ends in one event, ``Answered`` or ``CallFailed``."""


class TaskChanged(Record):
    """For observers: a task has another state or another container."""

    task: TaskReport


class Notice(Record):
    """For observers: one sentence for the user."""

    text: str


class EndMaster(Record):
    """The job has ended and the RM knows (or cannot be told).

    ``error`` is what made it impossible to go on.
    """

    exit_code: int
    final_status: FinalApplicationStatus
    diagnostics: str
    summary: JobSummary
    error: YoppError | None = None


Command = Call | TaskChanged | Notice | EndMaster
"""All that a master may want."""


# --- events


class MasterStarted(Record):
    """The first event."""


class Answered(Record):
    """A daemon's answer: the response that the call's request declares."""

    call: Call
    response: Any


class CallFailed(Record):
    """A call was refused, or its daemon could not be reached (ConnectionFailedError)."""

    call: Call
    error: YoppError


class StopRequested(Record):
    """Somebody wants the job to end now, as ``final_status`` and with ``exit_code``."""

    reason: str
    exit_code: int
    final_status: FinalApplicationStatus = FinalApplicationStatus.KILLED


Event = MasterStarted | Answered | CallFailed | StopRequested
"""All that a master is told."""
