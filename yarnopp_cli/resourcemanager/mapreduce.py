"""The containers of each task of a MapReduce job, as its master reports them, and their outcome (YARN's
``AMWebServices`` and ``HsWebServices``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from executor.light import made_of, replace
from executor.records import ContainerExitStatus, ContainerState

from ..records.history import MapReduceReport, TaskAttempt
from ..records.requests import MapReduceJob, TaskAssignment
from .entities import RMApp, RMContainer
from .reports import attempt_report, container_report

MOST_ATTEMPTS = 1_000_000
"""The maximum number of stored attempts; later reports of the master are ignored."""
DIAGNOSTICS = 2000


class TaskBook:
    """The attempts of one job. A few facts of an ended container are kept, because the ledger drops the container
    after some time. The same holds for a container from before a restart until its node reports it.
    """

    def __init__(self, job: MapReduceJob) -> None:
        self.job = job
        self._live: dict[str, tuple[TaskAssignment, int, RMContainer]] = {}
        self._attempts: dict[str, TaskAttempt | None] = {}
        self._numbers: dict[tuple[bool, int], int] = {}
        self._changed: dict[str, None] = {}
        #: from an earlier life, and their nodes have not told of them
        self._expected: dict[str, TaskAttempt] = {}

    def assign(
        self,
        assignments: Iterable[TaskAssignment],
        find: Callable[[str], RMContainer | None],
        app_id: str,
    ) -> None:
        """The master reports the tasks of its containers. Repeated reports, and reports about other masters'
        containers, change nothing."""
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
            self._changed[container.id] = None
            if container.finished_at_ms:
                self.ended(container)

    def ended(self, container: RMContainer) -> None:
        """A container has ended; a container without a task is ignored."""
        found = self._live.pop(container.id, None)
        if found is not None:
            self._attempts[container.id] = _attempt(*found)
            self._changed[container.id] = None

    def changes(self) -> list[TaskAttempt]:
        """The attempts that were assigned or have ended since the last call."""
        changed, self._changed = self._changed, {}
        return [self._told(name) for name in changed]

    # -- another life of the RM ------------------------------------------------------------------------------

    def restore(self, written: Iterable[TaskAttempt]) -> None:
        """Restore the attempts that a previous RM process has written."""
        for one in sorted(written, key=lambda one: (one.allocated_at_ms, one.container_id)):
            task = one.is_reduce, one.index
            self._numbers[task] = max(self._numbers.get(task, 0), one.number + 1)
            self._attempts[one.container_id] = one
            if one.state is not ContainerState.DONE:
                self._expected[one.container_id] = one

    def found(self, container: RMContainer) -> None:
        """A node has reported a container from before a restart."""
        if (known := self._expected.pop(container.id, None)) is not None:
            container.allocated_at_ms = known.allocated_at_ms
            assignment = TaskAssignment(container.id, known.index, known.is_reduce)
            self._attempts[container.id] = None
            self._live[container.id] = (assignment, known.number, container)

    def missed(self, node_id: str, diagnostics: str, now_ms: int) -> None:
        """Mark containers from before a restart as lost, because ``node_id`` has not reported them; "" stands for all
        nodes."""
        for container_id, known in list(self._expected.items()):
            if node_id in ("", known.node_id):
                del self._expected[container_id]
                self._attempts[container_id] = replace(
                    known,
                    state=ContainerState.DONE,
                    exit_status=int(ContainerExitStatus.ABORTED),
                    diagnostics=diagnostics,
                    finished_at_ms=now_ms,
                )
                self._changed[container_id] = None

    # -- what is told ----------------------------------------------------------------------------------------

    def attempts(self) -> tuple[TaskAttempt, ...]:
        """All attempts, in the order of the master's reports."""
        return tuple(map(self._told, self._attempts))

    def _told(self, container_id: str) -> TaskAttempt:
        known = self._attempts[container_id]
        return _attempt(*self._live[container_id]) if known is None else known


def map_reduce_report(app: RMApp, tasks: TaskBook | None) -> MapReduceReport | None:
    """The job of an application; None if the application has no job or the job is no longer kept."""
    if tasks is None:
        return None
    return MapReduceReport(tasks.job, tasks.attempts(), tuple(map(attempt_report, app.attempts)))


def _attempt(assignment: TaskAssignment, number: int, container: RMContainer) -> TaskAttempt:
    told = container_report(container)
    registration = container.node.registration
    return made_of(
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
