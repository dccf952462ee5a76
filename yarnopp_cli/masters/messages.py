"""The events (past tense) and commands (imperative) of a master.

Every call of a daemon ends in exactly one event: ``Answered`` or ``CallFailed``. Calls of one node are to arrive there
in the order of their commands.
"""

from __future__ import annotations

from executor.hints import Any
from executor.light import Record

from ..errors import YoppError
from ..records.client_protocol import KillApplicationRequest
from ..records.container_protocol import (
    StartContainersRequest,
    StopContainersRequest,
    UpdateContainersRequest,
)
from ..records.jobs import TaskReport
from ..records.master_protocol import (
    AllocateRequest,
    FinishApplicationMasterRequest,
    RegisterApplicationMasterRequest,
)
from ..records.state import StoredTask
from .ends import EndMaster as EndMaster
from .ends import StopRequested as StopRequested
from .tasks import Task

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


class StartTasks(Record):
    """Have the node start these tasks in the containers that they were given: what a hosted master wants instead of a
    call. Where the node refuses one, its container's end tells.
    """

    node_id: str
    tasks: tuple[Task, ...]


class TaskChanged(Record):
    """For observers: a task has another state or another container; ``report`` is it at that moment.

    A hosted master makes no report but of a task whose container has ended without ending it, since another one will
    take its place: its observers look at the ``task`` when they are asked.
    """

    task: Task
    report: TaskReport | None = None


class Notice(Record):
    """For observers: one sentence for the user."""

    text: str


Command = Call | StartTasks | TaskChanged | Notice | EndMaster
"""The commands of a master."""


# --- events


class MasterStarted(Record):
    """The first event. ``past`` is what is written of the tasks of a job that goes on; it began ``elapsed_ms`` ago."""

    past: tuple[StoredTask, ...] = ()
    elapsed_ms: int = 0


class Answered(Record):
    """A daemon's answer: the response that the call's request declares."""

    call: Call
    response: Any


class CallFailed(Record):
    """A call was refused, or its daemon could not be reached (ConnectionFailedError)."""

    call: Call
    error: YoppError


Event = MasterStarted | Answered | CallFailed | StopRequested
"""The events of a master."""
