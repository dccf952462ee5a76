"""Which container ran which task of a MapReduce job, as its master says, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..records.history import MapReduceReport, TaskAttempt
from ..records.requests import MapReduceJob, TaskAssignment
from .entities import RMApp, RMContainer
from .reports import attempt_report, container_report, reported

MOST_ATTEMPTS = 1_000_000
"""What a master says beyond this is not remembered."""
DIAGNOSTICS = 2000


class TaskBook:
    """The attempts of one job. An ended container is kept as its few facts: the ledger forgets it in time."""

    def __init__(self, job: MapReduceJob) -> None:
        self.job = job
        self._live: dict[str, tuple[TaskAssignment, int, RMContainer]] = {}
        self._attempts: dict[str, TaskAttempt | None] = {}
        self._numbers: dict[tuple[bool, int], int] = {}

    def assign(
        self,
        assignments: Iterable[TaskAssignment],
        find: Callable[[str], RMContainer | None],
        app_id: str,
    ) -> None:
        """Its master says whose these containers are. Said again, or of others' containers, it changes nothing."""
        for one in assignments:
            container = find(one.container_id)
            tasks = self.job.reduces if one.is_reduce else self.job.maps
            if (
                container is None
                or container.app.id != app_id
                or container.id in self._attempts
                or not 0 <= one.index < tasks
                or len(self._attempts) >= MOST_ATTEMPTS
            ):
                continue
            number = self._numbers.get((one.is_reduce, one.index), 0)
            self._numbers[one.is_reduce, one.index] = number + 1
            self._attempts[container.id] = None
            self._live[container.id] = (one, number, container)
            if container.finished_at_ms:
                self.ended(container)

    def ended(self, container: RMContainer) -> None:
        """A container has ended; one that no task was in is none of this book's."""
        found = self._live.pop(container.id, None)
        if found is not None:
            self._attempts[container.id] = _attempt(*found)

    def attempts(self) -> tuple[TaskAttempt, ...]:
        """All attempts, in order of their masters' words."""
        return tuple(
            _attempt(*self._live[name]) if known is None else known for name, known in self._attempts.items()
        )


def map_reduce_report(app: RMApp, tasks: TaskBook | None) -> MapReduceReport | None:
    """The job of an application as it is now, None where it is none or is remembered no more."""
    if tasks is None:
        return None
    return MapReduceReport(tasks.job, tasks.attempts(), tuple(map(attempt_report, app.attempts)))


def _attempt(assignment: TaskAssignment, number: int, container: RMContainer) -> TaskAttempt:
    told = container_report(container)
    registration = container.node.registration
    return reported(
        TaskAttempt,
        told,
        assignment,
        number=number,
        rack=registration.rack,
        node_http_address=registration.http_address,
        diagnostics=told.diagnostics[:DIAGNOSTICS],
        cpu_ms=round(told.usage.cpu_seconds * 1000),
        memory_bytes=told.usage.memory_bytes,
        peak_bytes=told.usage.memory_peak_bytes,
    )
