"""A job: phases of tasks, where each task is the work of one container. Plain data; also the file format of a
detached job.

A job is planned once (``masters/{commands,pi}.py``) and then driven by one machine (``masters/jobmaster.py``), whether
the machine runs in the ResourceManager, in the client or in a container of the cluster.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

from executor.hints import TYPE_CHECKING, Any
from executor.light import QuickEnum, Record, defaults_of, field, made_of, replace
from executor.records import ExecutionType, Resource

from .requests import ANY, ContainerLaunchContext, MapReduceJob

ARGS_VARIABLE = "YOPP_ARGS"
"""The variable in which each task of a sweep finds its values, separated by spaces."""


class TaskSpec(Record):
    """One piece of work, or ``count`` equal ones. ``number`` is the number of the first task, and each following
    number is ``step`` more; ``arguments`` follow the phase's command.

    A smaller ``priority`` is more important. With ``enforce`` no other execution type is accepted.
    ``duration_hint_ms`` is the expected running time, 0 for unknown.
    """

    number: int
    resource: Resource
    execution_type: ExecutionType = ExecutionType.GUARANTEED
    priority: int = 0
    enforce: bool = False
    arguments: tuple[str, ...] = ()
    duration_hint_ms: int = 0
    count: int = 1
    step: int = 1

    @property
    def numbers(self) -> range:
        """The numbers of its tasks."""
        return range(self.number, self.number + self.count * self.step, self.step)


class Sweep(Record):
    """The values of the tasks of a phase: all combinations of the values of its ``sources``, where the last
    source's changes fastest. Task number n has the nth combination, whichever tasks the phase has.

    The phase's command is a template for the values (``masters/sweeps.py``). ``shell``: the command is a line
    for a shell. Sources whose indices are in ``linked`` advance together with the source before them, which
    has as many values. ``prefix`` are words before the filled-in template; placeholders in them are filled in
    as well.
    """

    sources: tuple[tuple[str, ...], ...]
    shell: bool = False
    linked: tuple[int, ...] = ()
    prefix: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """How many combinations there are."""
        size = 1
        for at, source in enumerate(self.sources):
            size *= 1 if at in self.linked else len(source)
        return size


class PhaseSpec(Record):
    """Tasks that may run at once; the next phase starts when all of them have ended.

    ``command``, ``environment``, ``own_account``, ``umask``, ``working_directory``, ``files`` and ``timeout_ms`` are
    as in ``ContainerLaunchContext``. ``max_attempts`` bounds how often a *failing* task is run (preempted, shed and
    lost containers do not count); it is tried again only after a code of ``retry_codes`` (empty: any),
    ``retry_interval_ms`` later, and with ``retry_guaranteed`` in a guaranteed container of ``retry_priority``, as
    YARN's MapReduce does. ``fail_fast``: a task that failed for good ends the job. ``number_variable`` names an
    environment variable that holds the task's number, or with ``number_by_allocation`` 1, 2, 3 … in the order in which
    containers were allocated (YARN_SHELL_ID). ``promote``: each opportunistic container is promoted when it runs.
    ``resource_name`` is the place to run: ``*`` or a node. ``shell_line`` is the line that ``command`` passes to a
    shell, if it does. ``sweep``: ``command`` is a template, which each task fills in.
    """

    name: str
    tasks: tuple[TaskSpec, ...]
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    working_directory: str | None = None
    files: dict[str, str] = field(default_factory=dict)
    timeout_ms: int = 0
    max_attempts: int = 1
    retry_codes: tuple[int, ...] = ()
    retry_interval_ms: int = 0
    retry_guaranteed: bool = False
    retry_priority: int = 0
    fail_fast: bool = False
    number_variable: str = ""
    number_by_allocation: bool = False
    promote: bool = False
    resource_name: str = ANY
    own_account: bool = False
    umask: int = -1
    shell_line: str = ""
    sweep: Sweep | None = None

    @property
    def size(self) -> int:
        """The number of its tasks."""
        return sum(task.count for task in self.tasks)

    @property
    def context(self) -> ContainerLaunchContext:
        """The launch context common to all its tasks; in a sweep, the context has no command."""
        return made_of(ContainerLaunchContext, self, command=self.command if self.sweep is None else ())

    def numbers(self) -> Iterator[int]:
        """The numbers of its tasks, in order."""
        return (number for task in self.tasks for number in task.numbers)

    def each(self) -> Iterator[TaskSpec]:
        """The phase's tasks, one by one."""
        for task in self.tasks:
            for number in task.numbers:
                yield task if task.count == 1 else replace(task, number=number, count=1)


class PiSpec(Record):
    """The parameters of a `pi` job; ``directory`` holds its input and output, and is removed after the job."""

    maps: int
    samples: int
    directory: str


class Halt(Record):
    """A rule by which a job ends early: when this many of its tasks have failed for good, at once (``now``) or when
    the running ones have ended.
    """

    failures: int
    now: bool = False


JOB_FILE = "job.json"
"""Where a master in a container finds its job, among the files of its container."""


class JobSpec(Record):
    """A whole job. ``timeout_ms`` bounds its running time, 0 for none; then it ends with exit code 124. ``start_ms`` of
    it had passed when the job was submitted: its cluster had to be started.

    ``max_preemptions`` bounds how often one task may be preempted, shed or refused before it counts as failed with
    exit code 75. ``heartbeat_ms`` bounds how long the RM may hold an answer. ``rm_address`` is for a detached job's
    master, which reads this record from its file. With ``preempted_is_failure`` a preempted, shed or refused container
    has failed, as in YARN's distributed shell; a lost one is still replaced. ``exit_rule`` decides the exit code of
    the job if several tasks fail: the ``highest``, the ``first`` in time, or 1 for ``any``. ``max_running`` bounds the
    number of its containers at any time, 0 for no bound. ``halt`` ends the job early. ``map_reduce``: the job is
    reported to the RM as MapReduce, with the task of each container; the second phase is the reduce.
    """

    name: str
    application_type: str
    phases: tuple[PhaseSpec, ...]
    timeout_ms: int = 0
    max_preemptions: int = 100
    heartbeat_ms: int = 10_000
    rm_address: str = ""
    pi: PiSpec | None = None
    preempted_is_failure: bool = False
    exit_rule: str = "highest"
    max_running: int = 0
    halt: Halt | None = None
    map_reduce: MapReduceJob | None = None
    start_ms: int = 0

    @property
    def size(self) -> int:
        """The number of its tasks."""
        return sum(phase.size for phase in self.phases)


class TaskState(enum.StrEnum, metaclass=QuickEnum):
    """The states of a task. ``ASKED`` waits for a container, ``STARTING`` has one that is on its way to its
    node.
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
    """The present state of a task. ``container_id`` is its present or last container, "" before the first.

    ``attempts`` counts its failures, ``preemptions`` the containers that were preempted, shed or refused, ``losses``
    the containers that were lost with their node. ``flaw`` names a fault of a container that ended by itself
    (``causes.FLAWS``, in lower case). ``exit_code`` is as a shell reports it, None while there is none. ``wait_ms`` is
    the time from arrival at the node to the start. ``number`` is shown to users, and changes if tasks are numbered by
    allocation; ``planned_number`` never changes. ``started_at_ms`` and ``finished_at_ms`` (epoch) are the times of its
    last ended container, 0 if unknown.
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
    losses: int = 0
    flaw: str = ""
    wait_ms: int = 0
    memory_mb: int = 0
    planned_number: int = 0
    started_at_ms: int = 0
    finished_at_ms: int = 0


_COLUMNS: dict[str, str] = vars(TaskReport)["__annotations__"]

if TYPE_CHECKING:

    class TaskRows(Record):
        """Reports of many tasks as columns: reading and writing columns costs a tenth of the time of objects.

        Each field of ``TaskReport`` is a column: its value for every task in order, or empty if all have the field's
        default.
        """

        state: tuple[TaskState, ...] = ()

else:  # declared by TaskReport: a column is a tuple of its field's type
    _FIELDS = {"__annotations__": {name: f"tuple[{kind}, ...]" for name, kind in _COLUMNS.items()}}
    TaskRows = type(Record)(
        "TaskRows", (Record,), _FIELDS | dict.fromkeys(_COLUMNS, ()) | {"__module__": __name__}
    )


_DEFAULTS = defaults_of(TaskReport)


def as_rows(reports: Sequence[TaskReport]) -> TaskRows:
    """The reports as columns."""
    columns: dict[str, Any] = {}
    for name, default in _DEFAULTS.items():
        column = tuple([getattr(report, name) for report in reports])
        if column.count(default) != len(column):
            columns[name] = column
    return TaskRows(**columns)


def from_rows(rows: TaskRows) -> list[TaskReport]:
    """The inverse of ``as_rows``."""
    columns: list[Iterable[Any]] = [
        getattr(rows, name) or repeat(default) for name, default in _DEFAULTS.items()
    ]
    return [TaskReport(*values) for values in zip(*columns, strict=False)] if rows.state else []
