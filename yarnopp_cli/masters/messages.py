"""The events (past tense) and commands (imperative) of a master.

Every call to a daemon ends in exactly one event: ``Answered`` or ``CallFailed``. Calls to one node must
arrive there in the order of their commands.
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
    """Start these tasks in their containers on the node: a hosted master uses this instead of a call. If the
    node refuses one, its container ends.
    """

    node_id: str
    tasks: tuple[Task, ...]


class TaskChanged(Record):
    """For observers: a task has another state or another container; ``report`` is its report at that moment.

    A hosted master makes a report only for a task that must wait for another container, since that one will
    replace the last one; otherwise its observers read the ``task`` itself when needed.
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
    """The first event. For a resumed job, ``past`` has the records of its tasks."""

    past: tuple[StoredTask, ...] = ()


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
