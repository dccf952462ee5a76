"""A job that continues after a restart of the ResourceManager: records of tasks, and tasks from records. Pure.

A task without a record has never had a container: it is as planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from executor.light import names_of, replace
from executor.records import ExecutionType

from ..records.jobs import ENDED, TaskState
from ..records.requests import Container, Token
from ..records.state import StoredTask
from .tasks import Tally, Task

_FACTS = tuple(
    name
    for name in names_of(StoredTask)
    if name in names_of(Task) and name not in ("phase_index", "number", "state", "execution_type")
)
"""The fields that records and tasks share by name, except those that identify the task, and its
state and type."""
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


def settled(records: Iterable[StoredTask], ended_well: Iterable[str]) -> list[StoredTask]:
    """The last record of each task, with the tasks settled that had not come to their end when their attempt ended:
    such a task has succeeded if one of its containers is in ``ended_well``; otherwise it waits for another container.

    This is also true of a task that its attempt killed: that attempt gave up, or was about to end the job, but the
    job continues. What made it end the job (a failed task, a limit, a user) ends it again.
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


def unsettled(records: Iterable[StoredTask]) -> list[StoredTask]:
    """The records of these that name a container whose end their task needs."""
    records = list(records)
    waiting = {one.number for one in settled(records, ()) if one.state is TaskState.WAITING}
    return [one for one in records if one.container_id and one.number in waiting]


def _succeeded(record: StoredTask) -> StoredTask:
    return replace(record, state=TaskState.SUCCEEDED, exit_code=0, exit_status=0, diagnostics="")


def resume(
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
        known.append((task, record.state))
    return known, chain(others, tasks)


def ended_well(task: Task, record: StoredTask) -> None:
    """The container of this record of the task has ended well."""
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
