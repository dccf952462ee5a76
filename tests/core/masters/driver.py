"""A small deterministic RM and its nodes, for driving a JobMaster with literal times and no daemons."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from executor.causes import Cause, CauseKind
from executor.records import ContainerState, ContainerStatus, ExecutionType, Resource
from yarnopp_cli.errors import ConnectionFailedError
from yarnopp_cli.masters import messages as m
from yarnopp_cli.masters.jobmaster import JobMaster
from yarnopp_cli.records.client_protocol import ApplicationResponse, KillApplicationRequest
from yarnopp_cli.records.container_protocol import (
    FailedContainer,
    StartContainersRequest,
    StartContainersResponse,
    StopContainersRequest,
    StopContainersResponse,
    UpdateContainersRequest,
    UpdateContainersResponse,
)
from yarnopp_cli.records.jobs import JobSpec, PhaseSpec, TaskSpec
from yarnopp_cli.records.master_protocol import (
    AllocateRequest,
    AllocateResponse,
    FinishApplicationMasterRequest,
    FinishApplicationMasterResponse,
    RegisterApplicationMasterRequest,
    RegisterApplicationMasterResponse,
)
from yarnopp_cli.records.reports import ApplicationReport, FinalApplicationStatus, YarnApplicationState
from yarnopp_cli.records.requests import Container, ResourceRequest, Token, UpdatedContainer
from yarnopp_cli.records.state import StoredTask

TOKEN = Token("AMRMToken", "{}", "00")
ATTEMPT = "appattempt_1_0001_000001"
SIZE = Resource(512, 1)


def job(count: int = 3, *, kind: ExecutionType = ExecutionType.OPPORTUNISTIC, **phase: object) -> JobSpec:
    """One phase of equal tasks."""
    spec = PhaseSpec("run", tasks(count, kind), ("true",), **phase)  # type: ignore[arg-type]
    return JobSpec("job", "YARN", (spec,))


def tasks(count: int, kind: ExecutionType = ExecutionType.OPPORTUNISTIC) -> tuple[TaskSpec, ...]:
    return tuple(TaskSpec(number, SIZE, kind) for number in range(1, count + 1))


def registered(**more: object) -> m.Answered:
    return rm_answered(RegisterApplicationMasterResponse(Resource(1, 0), SIZE, SIZE, "default", True, **more))  # type: ignore[arg-type]


def container(number: int, request: ResourceRequest, **changes: object) -> Container:
    """A grant for an ask."""
    values: dict[str, object] = {
        "id": f"container_1_0001_01_{number:06d}",
        "node_id": "host:45454",
        "node_address": "unix:/nm",
        "resource": request.capability,
        "token": Token("ContainerToken", str(number), ""),
        "priority": request.priority,
        "execution_type": request.execution_type_request.execution_type,
        "allocation_request_id": request.allocation_request_id,
    }
    return Container(**{**values, **changes})  # type: ignore[arg-type]


def ended(
    container_id: str,
    exit_status: int,
    diagnostics: str = "",
    *,
    wait_ms: int = 0,
    exit_code: int | None = None,
    cause: Cause | None = None,
) -> ContainerStatus:
    return ContainerStatus(
        container_id, ContainerState.DONE, ExecutionType.OPPORTUNISTIC, exit_status=exit_status,
        exit_code=exit_code, diagnostics=diagnostics, cause=cause, queued_at_ms=1000,
        started_at_ms=0 if exit_status == -108 else 1000 + wait_ms,
    )  # fmt: skip


def only(kind: type, commands: list[m.Command]) -> list:
    """The commands of this kind, or the calls with requests of it."""
    return [
        one for one in commands if isinstance(one, kind) or isinstance(getattr(one, "request", None), kind)
    ]


def rm_answered(response: object) -> m.Answered:
    """An answer of the RM, to whatever call it was."""
    return m.Answered(m.CallRM(AllocateRequest(ATTEMPT, TOKEN)), response)


@dataclass
class World:
    """An RM that grants what is asked, and one node that runs it; both misbehave as ``rng`` says.

    ``outcome`` says how a started container ends: (exit status, cause). With ``loses`` the RM's
    connection breaks now and then, before or after the RM has acted on the call. Responses are repeated until
    acknowledged. ``past`` are an earlier attempt's records, of whose containers those in ``earlier`` end later, each
    with its code; the RM knew that those in ``ending`` had not ended.
    """

    master: JobMaster
    rng: random.Random
    outcome: Callable[[str], tuple[int, Cause | None]]
    loses: float = 0.0
    refuses: float = 0.0
    past: tuple[StoredTask, ...] = ()
    earlier: dict[str, int] = field(default_factory=dict)
    ending: tuple[str, ...] = ()
    now: float = 0.0
    asked: dict[int, ResourceRequest] = field(default_factory=dict)
    granted: dict[str, Container] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)
    launched: list[str] = field(default_factory=list)
    released: set[str] = field(default_factory=set)
    response_id: int = 0
    news: deque[AllocateResponse] = field(default_factory=deque)
    held: list[m.CallRM] = field(default_factory=list)
    inbox: deque[m.Event] = field(default_factory=deque)
    finish: m.CallRM | None = None
    end: m.EndMaster | None = None
    _number: int = 1
    _completed: list[ContainerStatus] = field(default_factory=list)
    _started: list[str] = field(default_factory=list)

    def run(self, steps: int = 20_000) -> m.EndMaster:
        """Until the master ends; fails if it does not."""
        self._do(self.master.handle(m.MasterStarted(self.past), self.now))
        for _ in range(steps):
            if self.end is not None:
                return self.end
            self._step()
        raise AssertionError(f"no end after {steps} steps: {self.master.tally.counts} {self.master.stage}")

    def _step(self) -> None:
        self.now += 0.01
        deadline = self.master.next_deadline()
        if deadline is not None and deadline <= self.now:
            self._do(self.master.advance(self.now))
        if self.inbox and self.rng.random() < 0.8:
            self._do(self.master.handle(self.inbox.popleft(), self.now))
            return
        if self.earlier and self.rng.random() < 0.05:
            name, code = self.earlier.popitem()
            self._completed.append(ended(name, -105, exit_code=code))
        if self.live and self.rng.random() < 0.5:
            container_id = self.rng.choice(sorted(self.live))
            if container_id not in self.launched:
                self.launched.append(container_id)
                self._started.append(container_id)
            else:
                self._complete(container_id, *self.outcome(container_id))
        self._grant()
        self._answer()

    def _grant(self) -> None:
        for key in list(self.asked):
            request = self.asked[key]
            if request.num_containers and self.rng.random() < 0.5:
                self._number += 1
                grant = container(self._number, request)
                self.granted[grant.id] = grant
                self.asked[key] = _less(request)
                self.news.append(AllocateResponse(0, allocated=(grant,)))

    def _answer(self) -> None:
        if not self.held or not (self.news or self._completed or self._started or self.rng.random() < 0.05):
            return
        call = self.held.pop(0)
        self.inbox.append(rm_answered(self._respond(call)))

    def _respond(self, call: m.CallRM) -> AllocateResponse:
        allocated = tuple(c for item in self.news for c in item.allocated)
        response = AllocateResponse(
            self.response_id + 1, allocated, tuple(self._completed), tuple(self._started),
            updated=tuple(u for item in self.news for u in item.updated),
        )  # fmt: skip
        self.response_id += 1
        # what this master has not acknowledged yet is told again next time
        if self.rng.random() < 0.7:
            self.news.clear()
            self._completed.clear()
            self._started.clear()
        return response

    def _complete(self, container_id: str, status: int, cause: Cause | None) -> None:
        self.live.discard(container_id)
        self._completed.append(ended(container_id, status, cause=cause))

    def _do(self, commands: list[m.Command]) -> None:
        self.master.validate()
        for command in commands:
            match command:
                case m.EndMaster():
                    assert self.end is None
                    self.end = command
                case m.TaskChanged() | m.Notice():
                    pass
                case m.CallRM(request=RegisterApplicationMasterRequest()):
                    self.inbox.append(registered(ending=self.ending))
                case m.CallRM(request=AllocateRequest()):
                    self._on_allocate(command)
                case m.CallRM(request=FinishApplicationMasterRequest()):
                    self.finish = command
                    self.asked.clear()  # the end of an application withdraws what it asked
                    self.inbox.append(rm_answered(FinishApplicationMasterResponse(True)))
                case m.CallRM(request=KillApplicationRequest()):
                    self.asked.clear()
                    report = ApplicationReport(
                        "", "", "", "", "", YarnApplicationState.KILLED, FinalApplicationStatus.KILLED
                    )
                    self.inbox.append(rm_answered(ApplicationResponse(report)))
                case m.CallNode(request=StartContainersRequest()):
                    self._on_start(command)
                case m.CallNode(request=StopContainersRequest()):
                    for container_id in command.request.container_ids:
                        if container_id in self.live:
                            self._complete(container_id, -105, Cause(CauseKind.MASTER))
                    self.inbox.append(
                        m.Answered(command, StopContainersResponse(command.request.container_ids))
                    )
                case m.CallNode(request=UpdateContainersRequest()):
                    self.inbox.append(m.Answered(command, UpdateContainersResponse(command.container_ids)))

    def _on_allocate(self, command: m.CallRM) -> None:
        lost = self.rng.random() < self.loses
        if lost and self.rng.random() < 0.5:
            self.inbox.append(m.CallFailed(command, ConnectionFailedError("lost")))
            return
        for request in command.request.asks:
            self.asked[request.allocation_request_id] = request
        self.released.update(command.request.releases)
        self.live -= self.released
        for update in command.request.updates:
            changed = self.granted[update.container_id]
            changed = container(0, _request_of(changed), id=changed.id, version=changed.version + 1)
            self.news.append(AllocateResponse(0, updated=(UpdatedContainer(update.update_type, changed),)))
        if lost:
            self.inbox.append(m.CallFailed(command, ConnectionFailedError("lost")))
            return
        # a newer call of the same master lets the older one be answered at once, with no news
        for older in self.held:
            self.inbox.append(rm_answered(AllocateResponse(older.request.response_id)))
        self.held = [command]

    def _on_start(self, command: m.CallNode) -> None:
        if self.rng.random() < self.loses:
            if self.rng.random() < 0.5:
                self.live.update(set(command.container_ids) - set(self.launched) - self.released)
            self.inbox.append(m.CallFailed(command, ConnectionFailedError("no node")))
            return
        started, failed = [], []
        for container_id in command.container_ids:
            if self.rng.random() < self.refuses:
                failed.append(FailedContainer(container_id, "InvalidToken", "no"))
            else:
                started.append(container_id)
        self.live.update(set(started) - set(self.launched) - self.released)
        self.inbox.append(m.Answered(command, StartContainersResponse(tuple(started), tuple(failed))))


def _less(request: ResourceRequest) -> ResourceRequest:
    return ResourceRequest(
        request.num_containers - 1, request.capability, request.priority,
        execution_type_request=request.execution_type_request,
        allocation_request_id=request.allocation_request_id,
    )  # fmt: skip


def _request_of(grant: Container) -> ResourceRequest:
    return ResourceRequest(
        1, grant.resource, grant.priority, allocation_request_id=grant.allocation_request_id
    )
