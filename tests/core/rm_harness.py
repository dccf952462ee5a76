"""A ResourceManager's machine, nodes and masters for tests: literal times, every step validated."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from bench.world import IDENTITY
from executor.core.events import WallClockStepped
from executor.records import (
    ContainerState,
    ContainerStatus,
    ExecutionType,
    OpportunisticContainersStatus,
    Resource,
)
from yarnopp_cli.machine.calls import CallReceived, ConnectionLost, Reply, ReplyError, StopDaemon
from yarnopp_cli.records.client_protocol import GetContainersRequest
from yarnopp_cli.records.explanation import ExplainRequest, Explanation
from yarnopp_cli.records.ids import application_of
from yarnopp_cli.records.job_protocol import (
    GetApplicationsRequest,
    SubmitApplicationRequest,
    SubmitApplicationResponse,
)
from yarnopp_cli.records.master_protocol import (
    AllocateRequest,
    AllocateResponse,
    FinishApplicationMasterRequest,
    RegisterApplicationMasterRequest,
    RegisterApplicationMasterResponse,
)
from yarnopp_cli.records.reports import ApplicationReport, ContainerReport, FinalApplicationStatus
from yarnopp_cli.records.requests import (
    ApplicationSubmissionContext,
    Container,
    ContainerLaunchContext,
    ExecutionTypeRequest,
    ResourceRequest,
    Token,
)
from yarnopp_cli.records.tracker_protocol import (
    NodeAnswer,
    NodeHeartbeatRequest,
    NodeHeartbeatResponse,
    NodeQuestion,
    RegisterNodeManagerRequest,
    RegisterNodeManagerResponse,
    UnRegisterNodeManagerRequest,
)
from yarnopp_cli.resourcemanager.commands import KeepCrash, KeepHistory
from yarnopp_cli.resourcemanager.context import RMContext
from yarnopp_cli.resourcemanager.machine import ResourceManager
from yarnopp_cli.settings.declarations import ResourceManagerSettings
from yarnopp_cli.settings.loading import read_queues
from yarnopp_cli.settings.queues import DEFAULT_QUEUES, CapacitySchedulerSettings, QueueSettings
from yarnopp_cli.whatif.node import answer

from .node_words import NOW, scheduler_of

OPPORTUNISTIC, GUARANTEED = ExecutionType.OPPORTUNISTIC, ExecutionType.GUARANTEED
TIMESTAMP = IDENTITY.cluster_timestamp
SMALL = Resource(100, 1)
SETTINGS = ResourceManagerSettings(
    opportunistic_enabled=True,
    minimum_allocation_mb=1,
    minimum_allocation_vcores=0,
    maximum_allocation_mb=1_048_576,
    maximum_allocation_vcores=1024,
)


def asks(
    number: int,
    size: Resource = SMALL,
    execution_type: ExecutionType = GUARANTEED,
    **more: Any,
) -> ResourceRequest:
    """An ask for ``number`` containers."""
    return ResourceRequest(number, size, execution_type_request=ExecutionTypeRequest(execution_type), **more)


class Cluster:
    """The machine at ``now`` seconds; the RM's own clock began at 0, people's at TIMESTAMP. ``heard``: nodes that say
    nothing for long do not count as silent."""

    def __init__(
        self,
        *,
        heard: bool = True,
        lifetime: str = "stay",
        heartbeat_wait: bool = True,
        queues: QueueSettings = DEFAULT_QUEUES,
        capacity: CapacitySchedulerSettings | None = None,
        **settings: Any,
    ) -> None:
        self.settings = replace(SETTINGS, **settings)
        self.context = RMContext(
            self.settings,
            replace(IDENTITY, properties={}),  # which a refresh changes
            rng=random.Random(1),
            secret=b"a secret",
            lifetime=lifetime,
            heartbeat_wait=heartbeat_wait,
            capacity=capacity,
            queues=queues,
        )
        if heard:
            self.context.silence_seconds = math.inf
        self.rm = ResourceManager(self.context, read_queues)
        self.now = 0.0
        self.nodes: list[Node] = []
        self.stopped: str | None = None
        self.kept: list[Any] = []
        self.crashes: list[KeepCrash] = []
        self._answers: dict[int, Any] = {}
        self._calls = 0
        self._connections = 100

    def connection(self) -> int:
        """A connection nobody has used."""
        self._connections += 1
        return self._connections

    def send(
        self, request: Any, connection: int = 1, *, user: str = "ada", uid: int = 1000, guest: bool = False
    ) -> int:
        """Make a call; its answer may come later."""
        self._calls += 1
        call = CallReceived(self._calls, connection, request, uid, user, guest)
        self._take(self.rm.handle(call, self.now))
        return self._calls

    def ask(self, request: Any, connection: int = 1, **more: Any) -> Any:
        """Make a call that is answered at once; an error is raised."""
        call_id = self.send(request, connection, **more)
        assert call_id in self._answers, f"{request} was not answered at once"
        return self.take(call_id)

    def take(self, call_id: int) -> Any:
        """The answer to a call, None if there is none yet; an error is raised."""
        answer = self._answers.pop(call_id, None)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def answered(self, call_id: int) -> bool:
        """Whether a call has been answered."""
        return call_id in self._answers

    def lose(self, connection: int) -> None:
        """A connection ends."""
        self._take(self.rm.handle(ConnectionLost(connection), self.now))

    def set_clock(self, step: float) -> None:
        """Somebody sets the clock on by so many seconds, or back."""
        offset = self.context.identity.wall_offset + step
        self._take(self.rm.handle(WallClockStepped(offset), self.now))

    def at(self, time: float) -> None:
        """Let the time pass, with every deadline on the way served at its own time."""
        while (deadline := self.rm.next_deadline()) is not None and deadline <= time:
            self.now = max(self.now, deadline)
            self._take(self.rm.advance(self.now))
        self.now = time

    def _take(self, commands: Iterable[Any]) -> None:
        for command in commands:
            match command:
                case Reply(call_id, response):
                    assert call_id not in self._answers, f"call {call_id} was answered twice"
                    self._answers[call_id] = response
                case ReplyError(call_id, error):
                    assert call_id not in self._answers, f"call {call_id} was answered twice"
                    self._answers[call_id] = error
                case KeepHistory(history):
                    assert self.stopped is None, "a history came after the end"
                    self.kept.append(history)
                case KeepCrash():
                    self.crashes.append(command)
                case StopDaemon(reason):
                    assert self.stopped is None, "the daemon was stopped twice"
                    self.stopped = reason
        self.rm.validate()

    def replace_queues(self, queues: QueueSettings) -> None:
        """Other queues, as a refresh that has read them makes them."""
        self.rm._queues.replace_queues(queues)

    # -- shorthands ------------------------------------------------------------------------------------------

    def node(self, name: str = "h1:1", total: Resource | None = None, **more: Any) -> Node:
        """A registered node."""
        node = Node(self, name, total or Resource(4096, 4), **more)
        node.register()
        self.nodes.append(node)
        return node

    def master(self, as_user: str = "ada", **context: Any) -> Master:
        """A registered master of an unmanaged application, on a connection of its own."""
        connection = self.connection()
        submission = ApplicationSubmissionContext(application_id="", name="job", unmanaged=True, **context)
        response: SubmitApplicationResponse = self.ask(
            SubmitApplicationRequest(submission), connection, user=as_user
        )
        assert response.am_token is not None
        master = Master(self, response.application_id, response.attempt_id, response.am_token, connection)
        master.register()
        return master

    def submit(self, **context: Any) -> str:
        """Submit an application whose master runs in a container."""
        given: dict[str, Any] = {
            "application_id": "",
            "name": "job",
            "am_container_spec": ContainerLaunchContext(("am",)),
            **context,
        }
        return str(self.ask(SubmitApplicationRequest(ApplicationSubmissionContext(**given))).application_id)

    def explain(self, identifier: str) -> Explanation:
        """Why it waits: nodes that are asked answer as a real one with their containers would."""
        call_id = self.send(ExplainRequest(identifier))
        for node in self.nodes:
            if node.name in self.context.nodes and self.context.nodes[node.name].questions:
                for question in node.beat().questions:
                    node.beat(answers=(node.answer(question),))
        return self.take(call_id)  # type: ignore[no-any-return]

    def app(self, application_id: str) -> ApplicationReport:
        """An application's report."""
        return self.ask(GetApplicationsRequest((application_id,))).applications[0]  # type: ignore[no-any-return]

    def containers(self, **more: Any) -> dict[str, ContainerReport]:
        """Container reports by id."""
        found = self.ask(GetContainersRequest(**more)).containers
        return {report.container_id: report for report in found}


@dataclass
class Node:
    """A node that says what the test wants it to: ``statuses`` are its live containers."""

    cluster: Cluster
    name: str
    total: Resource
    queue_capacity: int = 10
    rack: str = "/default-rack"
    labels: tuple[str, ...] = ()
    pid: int = 0
    connection: int = 0
    secret: str = ""
    response_id: int = 0
    statuses: dict[str, ContainerStatus] = field(default_factory=dict)
    opportunistic: OpportunisticContainersStatus | None = None
    running_applications: tuple[str, ...] = ()
    registered: RegisterNodeManagerResponse | None = None
    health: dict[str, Any] = field(default_factory=dict)

    def register(self, connection: int | None = None) -> RegisterNodeManagerResponse:
        """Register on a new connection, or on the one given."""
        self.connection = self.cluster.connection() if connection is None else connection
        response: RegisterNodeManagerResponse = self.cluster.ask(
            RegisterNodeManagerRequest(
                self.name,
                f"unix:/run/yopp/nm-{self.name}.sock",
                self.total,
                rack=self.rack,
                labels=self.labels,
                containers=tuple(self.statuses.values()),
                running_applications=self.running_applications,
                opportunistic=self.load(),
                pid=self.pid,
            ),
            self.connection,
        )
        self.secret = response.secret
        self.response_id = 0
        self.registered = response
        return response

    def load(self) -> OpportunisticContainersStatus:
        """What it tells of its opportunistic containers: as the test says, else as its statuses are."""
        if self.opportunistic is not None:
            return self.opportunistic
        mine = [status for status in self.statuses.values() if status.execution_type is OPPORTUNISTIC]
        running = [status for status in mine if status.state is ContainerState.RUNNING]
        queued = [status for status in self.statuses.values() if status.state is ContainerState.SCHEDULED]
        waiting = [status for status in queued if status.execution_type is OPPORTUNISTIC]
        return OpportunisticContainersStatus(
            running=len(running),
            memory_used=sum(status.resource.memory for status in running),
            vcores_used=sum(status.resource.vcores for status in running),
            others_used=sum((status.resource for status in running), Resource()).others,
            queued=len(waiting),
            queued_memory=sum(status.resource.memory for status in waiting),
            queued_vcores=sum(status.resource.vcores for status in waiting),
            wait_queue_length=len(queued),
            queue_capacity=self.queue_capacity,
        )

    def send(self, *statuses: ContainerStatus, wait_ms: int = 0, **more: Any) -> int:
        """A heartbeat with the news ``statuses``; ended containers leave the node's own table."""
        for status in statuses:
            if status.state is ContainerState.DONE:
                self.statuses.pop(status.container_id, None)
            else:
                self.statuses[status.container_id] = status
        self.health |= {name: more[name] for name in ("healthy", "health_report") if name in more}
        given: dict[str, Any] = {
            **self.health,
            "node_id": self.name,
            "secret": self.secret,
            "response_id": self.response_id,
            "containers": tuple(statuses),
            "opportunistic": self.load(),
            "running_applications": self.running_applications,
            "wait_ms": wait_ms,
            **more,
        }
        return self.cluster.send(NodeHeartbeatRequest(**given), self.connection)

    def take(self, call_id: int) -> NodeHeartbeatResponse | None:
        """The answer to a heartbeat, if there is one."""
        response: NodeHeartbeatResponse | None = self.cluster.take(call_id)
        if response is not None and response.action == "NORMAL":
            self.response_id = response.response_id
        return response

    def beat(self, *statuses: ContainerStatus, **more: Any) -> NodeHeartbeatResponse:
        """A heartbeat that is answered at once."""
        response = self.take(self.send(*statuses, **more))
        assert response is not None, "the heartbeat was not answered at once"
        return response

    def answer(self, question: NodeQuestion) -> NodeAnswer:
        """The answer of a real node with its containers."""
        now_ms = TIMESTAMP + round(self.cluster.now * 1000)
        live = [
            replace(one, application_id=one.application_id or application_of(one.container_id))
            for one in self.statuses.values()
        ]
        made = scheduler_of(self.total, live, now_ms, self.load())
        return answer(made, question, NOW)

    def unregister(self, *, keep_containers: bool = False) -> None:
        """Say goodbye."""
        self.cluster.ask(
            UnRegisterNodeManagerRequest(self.name, self.secret, keep_containers), self.connection
        )


@dataclass
class Master:
    """A master that acknowledges what it receives."""

    cluster: Cluster
    app_id: str
    attempt_id: str
    token: Token
    connection: int
    response_id: int = 0

    def register(self, earlier: dict[str, str] | None = None) -> RegisterApplicationMasterResponse:
        """Register."""
        request = RegisterApplicationMasterRequest(self.attempt_id, self.token, earlier=earlier or {})
        return self.cluster.ask(request, self.connection)  # type: ignore[no-any-return]

    def send(self, *requests: ResourceRequest, wait_ms: int = 0, **more: Any) -> int:
        """An allocate call; its answer may come later."""
        request = AllocateRequest(
            self.attempt_id, self.token, self.response_id, asks=requests, wait_ms=wait_ms, **more
        )
        return self.cluster.send(request, self.connection)

    def take(self, call_id: int) -> AllocateResponse | None:
        """The answer to an allocate call, if there is one."""
        response: AllocateResponse | None = self.cluster.take(call_id)
        if response is not None:
            self.response_id = response.response_id
        return response

    def allocate(self, *requests: ResourceRequest, **more: Any) -> AllocateResponse:
        """An allocate call that is answered at once."""
        response = self.take(self.send(*requests, **more))
        assert response is not None, "the allocate call was not answered at once"
        return response

    def finish(self, status: FinalApplicationStatus = FinalApplicationStatus.SUCCEEDED, **more: Any) -> None:
        """The job has ended."""
        self.cluster.ask(
            FinishApplicationMasterRequest(self.attempt_id, self.token, status, **more), self.connection
        )


def status(
    container: Container | ContainerReport,
    state: ContainerState = ContainerState.RUNNING,
    exit_status: int = -1000,
    **more: Any,
) -> ContainerStatus:
    """What a node says of a container."""
    container_id = container.id if isinstance(container, Container) else container.container_id
    return ContainerStatus(
        container_id,
        state,
        container.execution_type,
        container.resource,
        application_of(container_id),
        exit_status=exit_status,
        **more,
    )


def done(container: Container | ContainerReport, exit_status: int = 0, **more: Any) -> ContainerStatus:
    """It has ended."""
    return status(container, ContainerState.DONE, exit_status, **more)


def queued(container: Container | ContainerReport) -> ContainerStatus:
    """It waits at its node."""
    return status(container, ContainerState.SCHEDULED)
