"""What a job is: phases of tasks, each task one container's worth of work. Plain data, also a detached job's
file.

A job is planned once (``masters/{commands,pi}.py``) and then driven by one machine
(``masters/jobmaster.py``), whether that runs in the client or in a container of the cluster.
"""

from __future__ import annotations

from executor.light import Record, field, replace
from executor.records import ExecutionType, Resource

from .requests import ANY, MapReduceJob


class TaskSpec(Record):
    """One piece of work. ``number`` counts from 1 within its phase; ``arguments`` follow the phase's command.

    A smaller ``priority`` is more important. With ``enforce`` no other execution type than this will do.
    ``duration_hint_ms`` is the expected running time, 0 for unknown.
    """

    number: int
    resource: Resource
    execution_type: ExecutionType = ExecutionType.GUARANTEED
    priority: int = 0
    enforce: bool = False
    arguments: tuple[str, ...] = ()
    duration_hint_ms: int = 0


def alike(task: TaskSpec, count: int) -> tuple[TaskSpec, ...]:
    """``count`` tasks like this one, numbered from 1."""
    return tuple(replace(task, number=number) for number in range(1, count + 1))


class PhaseSpec(Record):
    """Tasks that may run at once; the next phase starts when all of them have ended.

    ``command``, ``environment``, ``own_account``, ``working_directory``, ``files`` and ``timeout_ms`` are as in
    ``ContainerLaunchContext``. ``max_attempts`` bounds how often a *failing* task is run (preempted, shed and
    lost containers do not count); it is tried again only after a code of ``retry_codes`` (empty: any),
    ``retry_interval_ms`` later, and with ``retry_guaranteed`` in a guaranteed container of
    ``retry_priority``, as YARN's MapReduce does. ``fail_fast``: a task that failed for good ends the job.
    ``number_variable`` names an environment variable that holds the task's number, or with
    ``number_by_allocation`` 1, 2, 3 … in the order in which containers were allocated (YARN_SHELL_ID).
    ``promote`` asks for each opportunistic container to be promoted once it runs. ``resource_name`` is where
    to run: ``*`` or a node. ``shell_line`` is the line that ``command`` has a shell run, where there is one.
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
    shell_line: str = ""


class PiSpec(Record):
    """What the estimate of a `pi` job is made of; ``directory`` holds its input and output, and is removed
    after it.
    """

    maps: int
    samples: int
    directory: str


class JobSpec(Record):
    """A whole job. ``timeout_ms`` bounds its running time, 0 for none; then it ends with exit code 124.

    ``max_preemptions`` bounds how often one task may be preempted, shed or refused before it counts as failed
    with exit code 75. ``heartbeat_ms`` bounds how long the RM may hold an answer. ``rm_address`` is for a
    detached job's master, which reads this record from its file. With ``preempted_is_failure`` a preempted, shed
    or refused container has failed, as in YARN's distributed shell; a lost one is still replaced. ``exit_rule`` says
    whose code the job ends with where several tasks fail: the ``highest``, the ``first`` in time, or 1 for ``any``.
    ``map_reduce``: the RM is told of it, and of which task each container is for; then the second phase is the reduce.
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
    map_reduce: MapReduceJob | None = None
