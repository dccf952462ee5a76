"""A MapReduce job as people see it: its tasks' attempts, and what became of them.

Times are epoch milliseconds, 0 for none.
"""

from __future__ import annotations

from executor.light import dataclass
from executor.records import ContainerState, ExecutionType, Resource

from .mapreduce import MapReduceJob
from .methods import Request
from .reports import ApplicationAttemptReport, ApplicationReport


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """One run of a task, or one that never came to run. ``number`` counts a task's attempts from 0.

    ``state`` None: granted, and its node has not spoken of it. ``exit_status`` is -1000 while it has not ended.
    ``memory_bytes`` and ``peak_bytes`` are the last and the largest measurement of it.
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


@dataclass(frozen=True, slots=True)
class MapReduceReport:
    """A job, the attempts of its tasks in order of grant, and those of its master."""

    job: MapReduceJob
    attempts: tuple[TaskAttempt, ...] = ()
    masters: tuple[ApplicationAttemptReport, ...] = ()


@dataclass(frozen=True, slots=True)
class GetMapReduceJobRequest(Request["GetMapReduceJobResponse"]):
    """The tasks of an application that is a MapReduce job."""

    application_id: str


@dataclass(frozen=True, slots=True)
class GetMapReduceJobResponse:
    """``report`` is None for what is no MapReduce job, and for one that has ended and was given to be kept."""

    application: ApplicationReport
    report: MapReduceReport | None = None
