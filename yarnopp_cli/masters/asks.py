"""What a master has asked of the RM and not got yet. Each batch of equal asks has a request id of its own.

In YARN an ask *replaces* the number outstanding under its key, so a master that asks again under a key while
the RM is answering may get too many containers or too few. A key that is used once cannot be replaced by
accident: a new batch is a new allocation request id, and only a withdrawal or a repetition after a lost
answer names an old one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from executor.records import ExecutionType, Resource

from ..records.requests import Container, ExecutionTypeRequest, ResourceRequest
from .messages import TaskState
from .tasks import Task


@dataclass(slots=True)
class _Batch:
    request: ResourceRequest
    tasks: deque[Task]


_Shape = tuple[Resource, ExecutionType, bool, int, str, int, int]


class Asks:
    """Batches of tasks that wait for containers."""

    def __init__(self) -> None:
        self._batches: dict[int, _Batch] = {}
        self._unsent: list[ResourceRequest] = []
        self._next_id = 1

    def __len__(self) -> int:
        return sum(self._count(batch) for batch in self._batches.values())

    @property
    def has_unsent(self) -> bool:
        """Whether there is something to tell the RM."""
        return bool(self._unsent)

    def add(self, tasks: Iterable[Task], now: float) -> None:
        """Ask for a container for each of these, which are given out in this order."""
        shapes: dict[_Shape, list[Task]] = {}
        for task in tasks:
            shapes.setdefault(_shape(task, now), []).append(task)
        for (resource, kind, enforce, priority, where, duration, age_ms), equals in shapes.items():
            request = ResourceRequest(
                num_containers=len(equals),
                capability=resource,
                priority=priority,
                resource_name=where,
                relax_locality=where == "*",
                execution_type_request=ExecutionTypeRequest(kind, enforce),
                allocation_request_id=self._next_id,
                duration_hint_ms=duration,
                age_ms=age_ms,
            )
            self._batches[self._next_id] = _Batch(request, deque(equals))
            self._unsent.append(request)
            self._next_id += 1

    def match(self, container: Container) -> Task | None:
        """The task that this container is for, which then waits no more; None for an unwanted one."""
        batch = self._batches.get(container.allocation_request_id)
        while batch is not None and batch.tasks:
            task = batch.tasks.popleft()
            if not batch.tasks:
                del self._batches[container.allocation_request_id]
            if task.state is TaskState.ASKED:
                return task
        return None

    def withdraw_all(self) -> None:
        """Nothing is wanted any more."""
        self._unsent = [_counted(batch.request, 0) for batch in self._batches.values()]
        self._batches.clear()

    def repeat_all(self) -> None:
        """The RM may not have heard: say again what is still wanted.

        What it granted meanwhile, and this master does not know of yet, comes on top, and is given back then.
        """
        self._unsent = [_counted(batch.request, self._count(batch)) for batch in self._batches.values()]

    def take_unsent(self) -> tuple[ResourceRequest, ...]:
        """What the next allocate call has to say."""
        unsent, self._unsent = tuple(self._unsent), []
        return unsent

    @staticmethod
    def _count(batch: _Batch) -> int:
        return sum(1 for task in batch.tasks if task.state is TaskState.ASKED)


def _shape(task: Task, now: float) -> _Shape:
    spec = task.spec
    age_ms = int((now - task.first_asked) * 1000) if task.first_asked >= 0 else 0
    return (
        spec.resource,
        task.execution_type,
        spec.enforce and task.execution_type is spec.execution_type,
        task.priority,
        task.phase.resource_name,
        spec.duration_hint_ms,
        age_ms,
    )


def _counted(request: ResourceRequest, count: int) -> ResourceRequest:
    return ResourceRequest(
        num_containers=count,
        capability=request.capability,
        priority=request.priority,
        resource_name=request.resource_name,
        relax_locality=request.relax_locality,
        execution_type_request=request.execution_type_request,
        allocation_request_id=request.allocation_request_id,
        duration_hint_ms=request.duration_hint_ms,
        age_ms=request.age_ms,
    )
