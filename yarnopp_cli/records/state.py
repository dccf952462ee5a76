"""The state that the ResourceManager stores so that a restart continues from it (YARN's ``RMStateStore``).

Plain data: a record class for each kind, each record under its own key. A later version adds fields at the end, with
defaults, so that it reads the records of an earlier version, and raises ``state_file.FORMAT``, so that an earlier
version refuses records whose fields it would lose.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from executor.light import Record
from executor.records import ContainerExitStatus, ExecutionType

from .history import TaskAttempt
from .job_protocol import JobEnd, StopJobRequest
from .jobs import JobSpec, TaskState
from .reports import FinalApplicationStatus, JobSummary, YarnApplicationState
from .requests import ApplicationSubmissionContext


class StoredCluster(Record):
    """The state of the cluster itself. ``secret`` is the root of all keys, ``boot_id`` the kernel's. Two numbers are
    bounds: no application id above ``last_application`` and no event number above ``last_event`` was ever assigned.
    ``applications_started`` counts the submitted applications. Up to ``lost_until``, records of applications may have
    been lost; ``adopted``: a user has decided that their containers run to their end.
    """

    cluster_timestamp: int
    secret: str
    boot_id: str = ""
    last_application: int = 0
    last_event: int = 0
    applications_started: int = 0
    lost_until: int = 0
    adopted: bool = False


class StoredApplication(Record):
    """An application as submitted. ``job`` is set if the RM hosts its master; ``attached``: its client must stay
    connected.
    """

    id: str
    context: ApplicationSubmissionContext
    user: str
    submitted_at_ms: int
    job: JobSpec | None = None
    attached: bool = False


class StoredLife(Record):
    """The progress of an application: its attempts, the container of the last attempt's master, and its result.

    ``last_container`` is an upper bound of its containers' numbers. ``stop``: the request that asked its hosted master
    to end. ``succeeded``: the tasks of its last phase that succeeded, as ranges, once it has ended. ``history_due``:
    it has ended, and its history is not kept yet, because some of its containers are still live. ``ended_well``: the
    containers that ended with exit code 0 after their attempt, so that their masters do not know the end. ``failures``
    counts the attempts that failed by their own fault. ``counted_until_ms``: ``memory_seconds`` and ``vcore_seconds``
    include the usage until this time.
    """

    id: str
    attempts: int = 1
    am_container_id: str = ""
    am_node_id: str = ""
    last_container: int = 0
    stop: StopJobRequest | None = None
    state: YarnApplicationState = YarnApplicationState.ACCEPTED
    final_status: FinalApplicationStatus = FinalApplicationStatus.UNDEFINED
    diagnostics: str = ""
    started_at_ms: int = 0
    finished_at_ms: int = 0
    progress: float = 0.0
    memory_seconds: float = 0.0
    vcore_seconds: float = 0.0
    guaranteed_allocated_total: int = 0
    opportunistic_allocated_total: int = 0
    promoted_total: int = 0
    summary: JobSummary | None = None
    end: JobEnd | None = None
    postponed: bool = False
    began_at_ms: int = 0
    expires_at_ms: int = 0
    succeeded: tuple[int, ...] = ()
    history_due: bool = False
    ended_well: tuple[str, ...] = ()
    failures: int = 0
    counted_until_ms: int = 0


class StoredTask(Record):
    """A task of a hosted master's job that has a container, has ended, or was tried: the facts of
    ``masters.tasks.Task`` under the same names. ``number`` is the planned number. The container's id and node are ""
    if the task has no container.
    """

    application_id: str
    phase_index: int
    number: int
    state: TaskState
    container_id: str = ""
    node_id: str = ""
    execution_type: ExecutionType = ExecutionType.GUARANTEED
    version: int = 0
    priority: int = 0
    shown_number: int = 0
    attempts: int = 0
    preemptions: int = 0
    losses: int = 0
    flaw: str = ""
    start_failures: int = 0
    exit_code: int | None = None
    exit_status: int = int(ContainerExitStatus.INVALID)
    diagnostics: str = ""
    wait_ms: int = 0
    ask_wait_ms: int = 0
    has_queued: bool = False
    upgraded: bool = False


class StoredTaskAttempt(Record):
    """A container of a MapReduce job, its task, and its outcome. Its state and times are set once it has
    ended: before that its node reports them.
    """

    application_id: str
    attempt: TaskAttempt


class StoredNode(Record):
    """A node that an administrator drained."""

    node_id: str


class Kind(enum.StrEnum):
    """The kinds of records, in the order in which they are read."""

    CLUSTER = "cluster"
    APPLICATION = "application"
    LIFE = "life"
    TASK = "task"
    ATTEMPT = "attempt"
    NODE = "node"


Stored = StoredCluster | StoredApplication | StoredLife | StoredTask | StoredTaskAttempt | StoredNode
KINDS: dict[type[Record], Kind] = {
    StoredCluster: Kind.CLUSTER,
    StoredApplication: Kind.APPLICATION,
    StoredLife: Kind.LIFE,
    StoredTask: Kind.TASK,
    StoredTaskAttempt: Kind.ATTEMPT,
    StoredNode: Kind.NODE,
}


def key_of(record: Stored) -> str:
    """The name of a record among those of its kind."""
    match record:
        case StoredTask():
            return f"{record.application_id}/{record.phase_index}/{record.number}"
        case StoredTaskAttempt():
            return f"{record.application_id}/{record.attempt.container_id}"
        case StoredNode():
            return record.node_id
        case StoredCluster():
            return ""
        case _:
            return record.id


class StoreRecord(Record):
    """Command: write a record, replacing an earlier one of the same key, before any later command is
    performed.
    """

    record: Stored


class RemoveRecords(Record):
    """Command: remove the record of this key, and all whose keys begin with it and a slash."""

    kind: Kind
    key: str


StoreCommand = StoreRecord | RemoveRecords


def latest(commands: Iterable[StoreCommand]) -> list[StoreCommand]:
    """The commands that are still needed: the last one for each kind and key."""
    found: dict[tuple[bool, Kind, str], StoreCommand] = {}
    for command in commands:
        match command:
            case StoreRecord(record):
                key = True, KINDS[type(record)], key_of(record)
            case RemoveRecords(kind, name):
                key = False, kind, name
        found.pop(key, None)
        found[key] = command
    return list(found.values())
