"""A master's side of the ApplicationMasterProtocol (YARN's ``AMRMClient``): registration, asks, allocate calls.

One allocate call always waits at the RM. Calls that a lost RM may not have received are repeated. The client does not
follow the ends of tasks. Like all modules here it returns commands and never makes a call itself.

In YARN an ask *replaces* the outstanding number under its key, so a master that asks again under the same key
while the RM answers may get too many containers or too few. A key that is used once cannot be replaced by
accident: each batch has a new allocation request id, and only a withdrawal, or a repetition after a lost
answer, uses an old one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from executor.light import Record, replace
from executor.records import ExecutionType, Resource

from ..errors import UsageError
from ..records.client_protocol import KillApplicationRequest
from ..records.ids import ApplicationAttemptId
from ..records.jobs import TaskState
from ..records.master_protocol import (
    AllocateRequest,
    AllocateResponse,
    FinishApplicationMasterRequest,
    RegisterApplicationMasterRequest,
    RegisterApplicationMasterResponse,
)
from ..records.reports import FinalApplicationStatus, JobSummary
from ..records.requests import (
    Container,
    ContainerUpdateType,
    ExecutionTypeRequest,
    ResourceRequest,
    TaskAssignment,
    Token,
    UpdateContainerError,
    UpdateContainerRequest,
)
from . import messages as m
from .ends import PATIENCE_SECONDS, RETRY_SECONDS, Loss
from .tasks import Task


class _Batch(Record, frozen=False):
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
        """Whether there are asks that have not been sent to the RM."""
        return bool(self._unsent)

    def add(self, tasks: Iterable[Task], now: float) -> None:
        """Ask for a container for each task; containers are matched to tasks in this order."""
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
        """The task that the container is for, now removed from its batch; None for an unwanted container."""
        batch = self._batches.get(container.allocation_request_id)
        while batch is not None and batch.tasks:
            task = batch.tasks.popleft()
            if not batch.tasks:
                del self._batches[container.allocation_request_id]
            if task.state is TaskState.ASKED:
                return task
        return None

    def withdraw_all(self) -> None:
        """Withdraw every ask."""
        self._unsent = [replace(batch.request, num_containers=0) for batch in self._batches.values()]
        self._batches.clear()

    def repeat_all(self) -> None:
        """Repeat all outstanding requests, since the RM may not have received the last calls.

        Containers that the RM has granted meanwhile without this master's knowledge are surplus, and are
        released when they arrive.
        """
        self._unsent = [
            replace(batch.request, num_containers=self._count(batch)) for batch in self._batches.values()
        ]

    def take_unsent(self) -> tuple[ResourceRequest, ...]:
        """The asks for the next allocate call."""
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


class AMRMClient:
    """The conversation of one attempt with the RM.

    ``releases``, ``updates`` and ``tasks`` are sent with the next allocate call. ``registered`` is false
    before the first registration, and after the RM has asked for another one. ``in_flight`` counts unanswered
    allocate calls.
    """

    def __init__(
        self, attempt_id: str, token: Token, heartbeat_ms: int, patience: float = PATIENCE_SECONDS
    ) -> None:
        self.asks = Asks()
        self.releases: list[str] = []
        self.updates: list[UpdateContainerRequest] = []
        self._released: dict[str, None] = {}
        self._updating: dict[str, UpdateContainerRequest] = {}
        self._repeated: set[str] = set()
        self.tasks_matter = False
        self.tasks: list[TaskAssignment] = []
        self._said: list[TaskAssignment] = []
        self.registered = False
        self.in_flight = 0
        self.retry_at: float | None = None
        self._attempt_id = attempt_id
        self._token = token
        self._heartbeat_ms = heartbeat_ms
        self._response_id = 0
        self.loss = Loss(patience)

    def register(self, earlier: dict[str, str]) -> m.CallRM:
        """Register, for the first time or again; ``earlier``: see the request."""
        self.registered = False
        self._response_id = 0
        return m.CallRM(RegisterApplicationMasterRequest(self._attempt_id, self._token, earlier=earlier))

    @property
    def due(self) -> bool:
        """Whether an allocate call must be made now: there is news for the RM, or no call waits there."""
        if not self.registered or self.retry_at is not None:
            return False
        said = self.asks.has_unsent or self.releases or self.updates or (self.tasks_matter and self.tasks)
        return not self.in_flight or bool(said)

    def allocate(self, summary: JobSummary) -> m.CallRM:
        """An allocate call, which the RM holds until it has news."""
        return self._allocate(summary, self._heartbeat_ms)

    def last_word(self, summary: JobSummary) -> m.CallRM:
        """An allocate call that the RM answers at once, to report the final counts."""
        return self._allocate(summary, 0)

    def _allocate(self, summary: JobSummary, wait_ms: int) -> m.CallRM:
        self.in_flight += 1
        request = AllocateRequest(
            attempt_id=self._attempt_id,
            token=self._token,
            response_id=self._response_id,
            progress=summary.completed / summary.total if summary.total else 1.0,
            asks=self.asks.take_unsent(),
            releases=tuple(self.releases),
            updates=tuple(self.updates),
            wait_ms=wait_ms,
            summary=summary,
            tasks=tuple(self.tasks),
        )
        self._released.update(dict.fromkeys(self.releases))
        self._updating.update((one.container_id, one) for one in self.updates)
        self._said += self.tasks
        self.tasks.clear()
        self.releases.clear()
        self.updates.clear()
        return m.CallRM(request)

    def answered(self, response: object) -> None:
        """The RM has answered a call: it is reachable."""
        self.loss.over()
        self.in_flight -= isinstance(response, AllocateResponse)
        if isinstance(response, RegisterApplicationMasterResponse):
            self.registered = True
            self._take_token(response.token)

    def failed(self, call: m.CallRM) -> None:
        """A call has failed."""
        self.in_flight -= isinstance(call.request, AllocateRequest)

    def _take_token(self, token: Token | None) -> None:
        """Use this token from now on, if there is one: it is for the AMRMProxy that the master now calls."""
        if token is not None:
            self._token = token

    def acknowledge(self, response: AllocateResponse) -> None:
        """Note what an answer says; the next call acknowledges it."""
        self._response_id = max(self._response_id, response.response_id)
        self._take_token(response.token)
        for status in response.completed:
            self._released.pop(status.container_id, None)
            self._updating.pop(status.container_id, None)
        for updated in response.updated:
            self._updating.pop(updated.container.id, None)

    def is_refused(self, refused: UpdateContainerError) -> bool:
        """Whether an update is really refused. The refusal of a repeated request does not count: the RM reports the
        result of the first request, too."""
        request = refused.request
        if refused.reason in _OF_REPETITIONS and request.container_id in self._repeated:
            return False
        if self._updating.get(request.container_id) == request:
            del self._updating[request.container_id]
        return True

    def repeat_all(self) -> None:
        """Repeat all asks, and the releases and updates whose result the RM has not reported: an AMRMProxy may have
        answered a call and died before it forwarded the call to the RM. Repetitions are harmless."""
        self.asks.repeat_all()
        self.releases = list(self._released | dict.fromkeys(self.releases))
        fresh = {one.container_id for one in self.updates}
        again = [one for one in self._updating.values() if one.container_id not in fresh]
        self._repeated.update(one.container_id for one in again)
        self.updates = again + self.updates

    def lost(self, now: float) -> bool:
        """The RM could not be reached: repeat everything later. False once that has lasted too long."""
        self.repeat_all()
        self.tasks, self._said = self._said + self.tasks, []
        self.retry_at = now + RETRY_SECONDS
        return self.loss.lasts(now)

    def retry_due(self, now: float) -> bool:
        """Whether it is time to try a lost RM again: once for each loss."""
        due = self.retry_at is not None and now >= self.retry_at
        if due:
            self.retry_at = None
        return due

    def finish(self, status: FinalApplicationStatus, diagnostics: str, summary: JobSummary) -> m.CallRM:
        """Unregister with the job's final status."""
        self.retry_at = None
        return m.CallRM(
            FinishApplicationMasterRequest(
                self._attempt_id, self._token, status, diagnostics, summary=summary
            )
        )

    def kill(self, reason: str) -> m.CallRM:
        """Ask the RM to end the application as KILLED: after unregistering, it would end as FINISHED."""
        self.retry_at = None
        application_id = str(ApplicationAttemptId.parse(self._attempt_id).application_id)
        return m.CallRM(KillApplicationRequest(application_id, reason))


_OF_REPETITIONS = frozenset(
    {"INCORRECT_CONTAINER_VERSION_ERROR", "UPDATE_OUTSTANDING_ERROR", "INVALID_CONTAINER_ID"}
)
"""The RM's reasons to refuse an update that it received before: the update is done or pending, or its container has
ended."""

_TYPES = {
    ContainerUpdateType.PROMOTE_EXECUTION_TYPE: (ExecutionType.GUARANTEED, ExecutionType.OPPORTUNISTIC),
    ContainerUpdateType.DEMOTE_EXECUTION_TYPE: (ExecutionType.OPPORTUNISTIC, ExecutionType.GUARANTEED),
}


def update_request(
    container: Container,
    update_type: ContainerUpdateType,
    *,
    execution_type: ExecutionType | None = None,
    capability: Resource | None = None,
) -> UpdateContainerRequest:
    """The request to update ``container``. Raises UsageError if the target and original types do not
    match the update.

    ``execution_type`` is the target of a promotion or demotion; None means the only possible one.
    """
    if update_type not in _TYPES:
        if capability is None:
            raise UsageError("a resize needs the new size", because=f"{update_type.value} names none")
        return UpdateContainerRequest(container.id, container.version, update_type, capability=capability)
    target, original = _TYPES[update_type]
    if execution_type not in (None, target) or container.execution_type is not original:
        raise UsageError(
            f"target should be {target.value} and original should be {original.value}",
            because=f"{container.id} is {container.execution_type.value}",
        )
    return UpdateContainerRequest(container.id, container.version, update_type, execution_type=target)
