"""A job that continues after a restart of the ResourceManager: records of tasks, and tasks from records. Pure.

A task without a record has never had a container: it begins as planned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain

from executor.light import names_of, replace
from executor.records import ExecutionType

from ..records.jobs import ENDED, PhaseSpec, TaskState
from ..records.requests import Container, Token
from ..records.state import StoredTask
from .tasks import Tally, Task

_FACTS = tuple(
    name
    for name in names_of(StoredTask)
    if name in names_of(Task) and name not in ("phase_index", "number", "state", "execution_type")
)
"""The fields that records and tasks share by name, except the fields that identify the task, and its state and type."""
WRITTEN = ENDED | {TaskState.WAITING, TaskState.STARTING}
"""The states in which a task is stored. Whether its container is queued or running is known from its node."""


def is_written(task: Task) -> bool:
    """Whether the change of a task must be stored."""
    return task.state in WRITTEN or (task.container is not None and task.container.version > 0)


def stored_task(application_id: str, task: Task) -> StoredTask:
    """The record of a task."""
    container = task.container if task.state is not TaskState.WAITING else None
    state = task.state if task.state in WRITTEN else TaskState.STARTING
    facts = {name: getattr(task, name) for name in _FACTS}
    if container is None:
        kind, facts["version"] = task.execution_type, 0
    else:
        kind, facts["version"] = container.execution_type, container.version
        facts |= {"container_id": container.id, "node_id": container.node_id}
    return StoredTask(application_id, task.phase_index, task.number, state, execution_type=kind, **facts)


class EarlierAttempts:
    """The work that earlier attempts of a job have done, from their records, and the ends of their containers."""

    def __init__(self, records: Iterable[StoredTask] = ()) -> None:
        #: those of the phases that have not begun in this attempt
        self._records: dict[int, list[StoredTask]] = {}
        for record in records:
            self._records.setdefault(record.phase_index, []).append(record)
        self._well: set[str] = set()
        self._ending: dict[str, None] = {}
        #: the unfinished tasks of the present phase, with their records, by container
        self._tasks: dict[str, tuple[Task, StoredTask]] = {}

    def begin(
        self, phase_index: int, phase: PhaseSpec, tally: Tally
    ) -> tuple[list[tuple[Task, TaskState]], Iterator[Task]]:
        """Begin a phase: its tasks that have a record, each with the state that it must get, and all others."""
        records = self._records.pop(phase_index, [])
        planned = Task.all_of(phase_index, phase)
        known, others = _resume(planned, settled(records, self._well), tally)
        unfinished = {task.number: task for task, state in known if state not in ENDED}
        self._tasks = {
            one.container_id: (unfinished[one.number], one) for one in records if one.number in unfinished
        }
        return known, others

    def held(self) -> set[int]:
        """The numbers of the tasks for which a container of an earlier attempt has not ended yet: a task has one
        container at a time."""
        return {task.number for name, (task, _) in self._tasks.items() if name in self._ending}

    def awaited(self) -> dict[str, str]:
        """The containers whose ends are awaited, and their nodes."""
        records = [one for past in self._records.values() for one in _unsettled(past)]
        records += [one for name, (_, one) in self._tasks.items() if name in self._ending]
        return {one.container_id: one.node_id for one in records}

    def ending(self, containers: Collection[str]) -> list[str]:
        """Note the containers that have not ended yet. Returns the earlier containers that are not among them: they
        have ended, or a restarted RM does not know them."""
        gone = [one for one in self._ending if one not in containers]
        # A newly reported container of this phase was not waited for: its task may have another one.
        self._ending |= dict.fromkeys(one for one in containers if one not in self._tasks)
        return gone

    def ended(self, container_id: str, *, well: bool) -> tuple[Task | None, StoredTask | None, bool]:
        """A container has ended. Returns the unfinished task of this phase that had it, its record, and whether the
        task has waited for this container only."""
        if well and self._records:
            self._well.add(container_id)
        awaited = container_id in self._ending
        self._ending.pop(container_id, None)
        task, record = self._tasks.pop(container_id, (None, None))
        return task, record, awaited and task is not None and task.number not in self.held()


def settled(records: Iterable[StoredTask], ended_well: Iterable[str]) -> list[StoredTask]:
    """The last record of each task, with a decision for each task that had not ended with its attempt: the task has
    succeeded if one of its containers is in ``ended_well``; otherwise it waits for another container.

    The same holds for a task that its attempt killed: the attempt gave up, or was about to end the job, but the job
    continues. The cause of the end (a failed task, a limit, a user) ends the job again.
    """
    well = frozenset(ended_well)
    last: dict[int, StoredTask] = {}
    for one in records:
        if one.number in last and last[one.number].state is TaskState.SUCCEEDED:
            continue
        if one.state not in (TaskState.WAITING, TaskState.KILLED):
            last[one.number] = one
        elif one.container_id in well:
            last[one.number] = _succeeded(one)
        else:
            last[one.number] = replace(one, state=TaskState.WAITING, container_id="", node_id="")
    return list(last.values())


def _unsettled(records: Iterable[StoredTask]) -> list[StoredTask]:
    """The records that name a container whose end decides their task."""
    records = list(records)
    waiting = {one.number for one in settled(records, ()) if one.state is TaskState.WAITING}
    return [one for one in records if one.container_id and one.number in waiting]


def _succeeded(record: StoredTask) -> StoredTask:
    return replace(record, state=TaskState.SUCCEEDED, exit_code=0, exit_status=0, diagnostics="")


def _resume(
    tasks: Iterator[Task], past: Iterable[StoredTask], tally: Tally
) -> tuple[list[tuple[Task, TaskState]], Iterator[Task]]:
    """Split the planned tasks of a phase: those with a record, each with the state that it must get,
    and all others, in order.
    """
    records = {one.number: one for one in past}
    known: list[tuple[Task, TaskState]] = []
    others: list[Task] = []
    while records and (task := next(tasks, None)) is not None:
        record = records.pop(task.number, None)
        if record is None:
            others.append(task)
            continue
        _restore(task, record)
        tally.noted["preempted"] += record.preemptions
        tally.noted["lost"] += record.losses
        tally.noted["retried"] += max(0, record.attempts - (record.state is TaskState.FAILED))
        known.append((task, record.state))
    return known, chain(others, tasks)


def ended_well(task: Task, record: StoredTask) -> None:
    """The container of this record has ended well: so has the task."""
    _restore(task, _succeeded(record))


def _restore(task: Task, record: StoredTask) -> None:
    for name in _FACTS:
        setattr(task, name, getattr(record, name))
    if record.container_id:
        task.container = Container(
            record.container_id,
            record.node_id,
            "",
            task.spec.resource,
            Token("", "", ""),
            record.priority,
            record.execution_type,
            version=record.version,
        )
        task.promoted = record.version > 0 and record.execution_type is ExecutionType.GUARANTEED
    else:
        task.execution_type = record.execution_type
