"""The entities of the ResourceManager: applications, attempts, containers, nodes.

YARN's ``RMAppImpl``, ``RMAppAttemptImpl``, ``RMContainerImpl``, ``RMNodeImpl``.

They refer to each other, so they are one module. Each keeps its own accounts; other modules decide the consequences
of a change. Only ``RMContext.move`` changes their states.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from executor.causes import Cause
from executor.core.transitions import StoryEntry
from executor.light import Record, maker
from executor.records import (
    ContainerExitStatus,
    ContainerStatus,
    ExecutionType,
    Resource,
    ResourceUtilization,
)

from ..allocation.asks import Ask, AskKey, AskTable
from ..allocation.cluster_node import ClusterNode
from ..errors import YoppError
from ..machine.mailbox import Mailbox
from ..records.ids import ApplicationAttemptId, ContainerId, NodeId
from ..records.reports import (
    FINAL_STATES,
    FinalApplicationStatus,
    JobSummary,
    NodeReport,
    NodeState,
    YarnApplicationState,
)
from ..records.requests import (
    ApplicationSubmissionContext,
    Container,
    ContainerUpdateType,
    Token,
    UpdateContainerError,
    UpdatedContainer,
)
from ..records.tracker_protocol import (
    ApplicationPriority,
    ContainerToStart,
    ContainerToUpdate,
    NodeQuestion,
    RegisterNodeManagerRequest,
    TaskToStart,
)
from .event_history import Subject
from .lives import (
    APPLICATIONS,
    ATTEMPTS,
    CONTAINERS,
    NODES,
    AppEvent,
    AttemptEvent,
    AttemptState,
    ContainerEvent,
    NodeEvent,
    Phase,
)
from .scheduler.queues import LeafQueue

MOST_NUMBERED = 10_000_000
"""Containers with greater numbers, as those that nodes allocate themselves, are known by their tasks while they are
among the last MOST_REMOTE of their application."""
MOST_REMOTE = 100_000

ENDED_ATTEMPT_STATES = frozenset({AttemptState.FINISHED, AttemptState.FAILED, AttemptState.KILLED})
_LISTENING = frozenset({AttemptState.ALLOCATED, AttemptState.LAUNCHED, AttemptState.RUNNING})
HOSTED = -2
"""The connection of a hosted master: no call from outside uses it, and it is never lost."""
_IDLE = ResourceUtilization()
_NO_TOKEN = Token("", "", "")


@dataclass(frozen=True, slots=True)
class HeldCall:
    """A call that waits for news, and the number of the last answer that its caller had.

    ``distributed``: the caller is a node's DistributedScheduler, which also gets the least loaded nodes.
    """

    call_id: int
    response_id: int
    distributed: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class Listener:
    """A node or a master: it calls again and again, and its call is held until there is news for it.

    ``connection_id`` is the connection over which it spoke last, -1 for none; ``last_contact`` in seconds, monotonic:
    it counts as heard while its call is held. ``response_id`` numbers the answers, ``sent_here`` is the last one on
    this connection. ``held`` is the call that waits for an answer; ``answer_due`` says that it need not wait.
    """

    connection_id: int = -1
    last_contact: float = 0.0
    response_id: int = 0
    sent_here: int = 0
    held: HeldCall | None = None
    answer_due: bool = False
    story: list[StoryEntry] = field(default_factory=list)

    def mailboxes(self) -> tuple[Mailbox[Any], ...]:
        """All its news, box by box."""
        raise NotImplementedError

    def has_news(self) -> bool:
        """Whether a held call is to be answered now."""
        for box in self.mailboxes():  # noqa: SIM110  (asked several times for each container)
            if box.fresh:
                return True
        return False

    def next_number(self) -> int:
        """The number of the answer that is about to be sent."""
        self.response_id += 1
        self.sent_here = self.response_id
        return self.response_id

    def last_number(self, held: HeldCall) -> int:
        """The number of an answer without news: that of the last answer that it has."""
        return max(held.response_id, self.sent_here)

    def connect(self, connection_id: int) -> None:
        """Note the connection that it uses; messages over another one may be lost."""
        if connection_id != self.connection_id:
            self.send_again()
            self.sent_here = 0
        self.connection_id = connection_id

    def send_again(self) -> None:
        """Send again everything that was not acknowledged."""
        for box in self.mailboxes():
            box.send_again()

    def forget_news(self) -> None:
        """Drop all news: they will not be fetched any more."""
        for box in self.mailboxes():
            box.clear()


@dataclass(slots=True, eq=False, kw_only=True)
class RMNode(Listener):
    """One registered node. ``load`` is its view for schedulers.

    ``state_since``: when it came into its state, in seconds, monotonic. ``unregistered`` nodes do not come back by
    themselves. ``resized``: the RM has set its size. ``templates_told`` are those of hosted masters' tasks that were
    sent on its connection. ``kept`` are the containers of lost applications, with the guaranteed resources that they
    have. ``questions`` go with its next answer.
    """

    node_id: str
    registration: RegisterNodeManagerRequest
    load: ClusterNode
    secret: str = ""
    state: NodeState = NodeState.NEW
    state_since: float = 0.0
    unregistered: bool = False
    shutdown_told: bool = False
    resized: bool = False
    guaranteed_containers: int = 0
    containers: dict[str, RMContainer] = field(default_factory=dict)
    kept: dict[str, Resource] = field(default_factory=dict)
    node_utilization: ResourceUtilization = _IDLE
    containers_utilization: ResourceUtilization = _IDLE
    health_report: str = ""
    queue_limit: int = -1
    guaranteed_awaited: bool = False
    awaited_told: bool = False
    acknowledged: tuple[str, ...] = ()
    to_start: Mailbox[ContainerToStart] = field(default_factory=Mailbox)
    tasks_to_start: Mailbox[TaskToStart] = field(default_factory=Mailbox)
    templates_told: set[str] = field(default_factory=set)
    to_cleanup: Mailbox[str] = field(default_factory=Mailbox)
    to_update: Mailbox[ContainerToUpdate] = field(default_factory=Mailbox)
    priorities: Mailbox[ApplicationPriority] = field(default_factory=Mailbox)
    applications_to_cleanup: Mailbox[str] = field(default_factory=Mailbox)
    questions: list[NodeQuestion] = field(default_factory=list)

    def move(self, event: NodeEvent, now: float) -> None:
        """Take a transition. Raises InvalidTransitionError for one that is not in the table: a bug."""
        state = NODES.follow(self.node_id, self.state, event, now, self.story)
        if state is not self.state:
            self.state, self.state_since = state, now

    @property
    def total(self) -> Resource:
        """The node's resources."""
        return self.load.total

    @property
    def used(self) -> Resource:
        """The resources allocated to guaranteed containers."""
        return self.load.guaranteed

    @property
    def connected(self) -> bool:
        """Whether it can be reached."""
        return self.connection_id >= 0

    @property
    def usable(self) -> bool:
        """Whether containers may be allocated here now."""
        return self.connected and self.state is NodeState.RUNNING

    def fits_guaranteed(self, resource: Resource) -> bool:
        """Whether a guaranteed container fits beside the guaranteed ones."""
        # Asked of every node for every container: without making sums of it.
        used, total = self.load.guaranteed, self.load.total
        return (
            used.memory + resource.memory <= total.memory
            and used.vcores + resource.vcores <= total.vcores
            and (not resource.others or resource.fits_in(total - used))
        )

    def change(self, container: RMContainer, sign: int) -> None:
        """A container was allocated here (1), or has ended (-1)."""
        if sign > 0:
            self.containers[container.id] = container
        else:
            del self.containers[container.id]
        if container.is_guaranteed:
            self.guaranteed_containers += sign
            self.load.guaranteed = self.load.guaranteed + container.resource * sign
            self.load.recompute()

    def mailboxes(self) -> tuple[Mailbox[Any], ...]:
        """All its news, box by box."""
        return (
            self.to_start,
            self.tasks_to_start,
            self.to_cleanup,
            self.to_update,
            self.priorities,
            self.applications_to_cleanup,
        )

    def forget_start(self, container_id: str) -> None:
        """The node has spoken of this container, or it is not to start any more."""
        self.to_start.drop(container_id)
        self.tasks_to_start.drop(container_id)

    def has_news(self) -> bool:
        """Whether a held heartbeat is to be answered now."""
        # That nobody waits for room any more can wait.
        told = self.awaited_told or not self.guaranteed_awaited
        return not told or bool(self.questions) or Listener.has_news(self)

    def send_again(self) -> None:
        """Send again everything that was not acknowledged."""
        Listener.send_again(self)
        self.awaited_told = False
        self.templates_told.clear()

    def register_again(self, request: RegisterNodeManagerRequest) -> None:
        """Number the answers from the beginning: the node's process was restarted, or resynchronizes."""
        self.registration, load = request, self.load
        load.rack, load.labels, load.total = request.rack, request.labels, request.resource
        load.status = request.opportunistic
        self.unregistered = self.shutdown_told = self.resized = False
        self.response_id = self.sent_here = 0
        self.awaited_told = False
        self.templates_told.clear()
        for box in self.mailboxes():
            box.restart()

    def acknowledge(self, response_id: int, running_applications: tuple[str, ...]) -> None:
        """The node has received answers up to ``response_id``.

        A start is sent until the node reports the container; the end of an application, until the node no longer
        lists it.
        """
        self.to_cleanup.acknowledge(response_id)
        self.to_update.acknowledge(response_id)
        self.priorities.acknowledge(response_id)
        if len(self.applications_to_cleanup):
            running = set(running_applications)
            for application_id in self.applications_to_cleanup.keys_received(response_id):
                if application_id not in running:
                    self.applications_to_cleanup.drop(application_id)


def new_node(request: RegisterNodeManagerRequest) -> RMNode:
    """The node that a registration describes. Raises InvalidIdError for a malformed node id."""
    host = NodeId.parse(request.node_id).host
    load = ClusterNode(
        request.node_id,
        host,
        request.rack,
        request.labels,
        request.resource,
        status=request.opportunistic,
    )
    return RMNode(node_id=request.node_id, registration=request, load=load)


@dataclass(slots=True, eq=False)
class RMContainer:
    """One container. ``allocated_at_ms`` is when it was allocated, ``sequence`` the order of allocation; ``status``
    is the last report of its node.

    ``ask_key`` is the ask that it answers, ``asked_type`` that ask's type, ``counted`` whether the metrics of
    opportunistic containers know it. ``released`` ones are ended on request of their master; ``ended_for`` is the
    reason why the RM ends one, ``ended_as`` its exit status, None for the node's. ``delivers``: the RM itself sends
    updates to the node. ``update_calls`` are updates that its hosted master waits for: the version and the number of
    the call, each. ``waiting_since_ms``: when its work began to wait, as another container. ``strict``: the request
    allows only the named places. ``acquired``: its master has received it. ``preemptions`` counts how often it was
    paused or killed to make room. ``eligible_at_ms``: when it, or the same work, was first requested.
    """

    id: str
    attempt: RMAppAttempt
    node: RMNode
    resource: Resource
    execution_type: ExecutionType
    ask_key: AskKey
    token: Token = _NO_TOKEN
    allocated_at_ms: int = 0
    sequence: int = 0
    is_am: bool = False
    version: int = 0
    phase: Phase = Phase.ALLOCATED
    status: ContainerStatus | None = None
    asked_type: ExecutionType = ExecutionType.GUARANTEED
    counted: bool = False
    released: bool = False
    ended_for: Cause | None = None
    ended_as: ContainerExitStatus | None = None
    delivers: bool = False
    update_calls: tuple[tuple[int, int], ...] = ()
    started_told: bool = False
    finished_at_ms: int = 0
    waiting_since_ms: int = 0
    strict: bool = False
    acquired: bool = False
    promoted_at_ms: int = 0
    preemptions: int = 0
    eligible_at_ms: int = 0
    story: list[StoryEntry] = field(default_factory=list)

    @property
    def app(self) -> RMApp:
        """The container's application."""
        return self.attempt.app

    @property
    def is_guaranteed(self) -> bool:
        """Whether it is guaranteed now."""
        return self.execution_type is ExecutionType.GUARANTEED

    @property
    def priority(self) -> int:
        """The priority of the ask that it answered."""
        return self.ask_key[0]

    @property
    def subject(self) -> Subject:
        """The subject of its events."""
        return Subject(self.node.node_id, self.app.id, self.id)

    def move(self, event: ContainerEvent, now: float) -> None:
        """Take a transition, and count it with its application. Raises InvalidTransitionError: a bug."""
        was, app = self.phase, self.app
        phase = CONTAINERS.follow(self.id, was, event, now, self.story)
        if phase is Phase.PAUSED or phase is Phase.PREEMPTED:
            self.preemptions += 1
        if was is Phase.RUNNING:
            app.change_running(self, now, -1)
        if phase is Phase.RUNNING:
            app.change_running(self, now, 1)
        app.counts[was] -= 1
        app.counts[phase] += 1
        self.phase = phase

    def container(self) -> Container:
        """The container's record for its master and its node."""
        node = self.node
        registration = node.registration
        return _container(
            self, node.node_id, registration.address, self.ask_key[1], registration.http_address
        )


_container = maker(
    Container,
    RMContainer,
    given=("node_id", "node_address", "allocation_request_id", "node_http_address"),
)


class PendingUpdate(Record):
    """A granted update that waits for room: the intended state of the container."""

    container: RMContainer
    update_type: ContainerUpdateType
    execution_type: ExecutionType
    resource: Resource
    by_person: bool = False

    def needs(self) -> Resource:
        """The resources that its node needs beyond those of guaranteed containers."""
        if self.execution_type is ExecutionType.OPPORTUNISTIC:
            return Resource()
        if not self.container.is_guaranteed:
            return self.resource
        return (self.resource - self.container.resource).at_least_zero()


@dataclass(slots=True, eq=False, kw_only=True)
class RMAppAttempt(Listener):
    """One run of an application's master, and its state at the RM.

    ``since_call`` counts the opportunistic containers that were allocated since its master last called. ``refusal``
    is the error about accepted requests that no node can serve, for the answer to its master's next call.
    ``numbers_taken``: no container number above it was ever used. ``paused_told`` is the number of paused containers
    that its master knows of. ``has_called``: it has made an allocate call since the start of the RM. ``am_expected``
    are the ids of the master's container and its node, as an earlier life wrote them; ``am_container`` is found when
    that node registers.
    """

    id: str
    record: ApplicationAttemptId
    app: RMApp
    token: Token
    state: AttemptState = AttemptState.NEW
    am_ask: Ask | None = None
    am_container: RMContainer | None = None
    am_expected: tuple[str, str] = ("", "")
    since_call: int = 0
    last_container: int = 0
    numbers_taken: int = 0
    diagnostics: str = ""
    started_at_ms: int = 0
    finished_at_ms: int = 0
    blacklist: set[str] = field(default_factory=set)
    guaranteed_asks: AskTable = field(default_factory=AskTable)
    opportunistic_asks: AskTable = field(default_factory=AskTable)
    containers: dict[str, RMContainer] = field(default_factory=dict)
    updates: dict[str, PendingUpdate] = field(default_factory=dict)
    allocated: Mailbox[tuple[RMContainer, Container]] = field(default_factory=Mailbox)
    completed: Mailbox[ContainerStatus] = field(default_factory=Mailbox)
    started: Mailbox[str] = field(default_factory=Mailbox)
    queued: Mailbox[str] = field(default_factory=Mailbox)
    updated: Mailbox[UpdatedContainer] = field(default_factory=Mailbox)
    update_errors: Mailbox[UpdateContainerError] = field(default_factory=Mailbox)
    preempting: Mailbox[str] = field(default_factory=Mailbox)
    updated_nodes: Mailbox[NodeReport] = field(default_factory=Mailbox)
    refusal: YoppError | None = None
    paused_told: int = 0
    has_called: bool = False

    def move(self, event: AttemptEvent, now: float) -> None:
        """Take a transition. Raises InvalidTransitionError for one that is not in the table: a bug."""
        self.state = ATTEMPTS.follow(self.id, self.state, event, now, self.story)

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of this attempt."""
        return self.state in ENDED_ATTEMPT_STATES

    @property
    def awaits_master(self) -> bool:
        """Whether a master is (or should be) there and is expected to speak."""
        return self.state in _LISTENING

    @property
    def tables(self) -> tuple[AskTable, AskTable]:
        """The outstanding asks: the guaranteed ones, the opportunistic ones."""
        return (self.guaranteed_asks, self.opportunistic_asks)

    @property
    def outstanding(self) -> int:
        """How many containers it still wants."""
        return self.guaranteed_asks.outstanding + self.opportunistic_asks.outstanding

    def asks(self, execution_type: ExecutionType) -> AskTable:
        """The outstanding asks of one type."""
        return self.tables[execution_type is ExecutionType.OPPORTUNISTIC]

    def mailboxes(self) -> tuple[Mailbox[Any], ...]:
        """All its news, box by box."""
        return (
            self.allocated,
            self.completed,
            self.started,
            self.queued,
            self.updated,
            self.update_errors,
            self.preempting,
            self.updated_nodes,
        )

    def has_news(self) -> bool:
        """Whether a held allocate is to be answered now."""
        return self.paused_told != self.app.counts[Phase.PAUSED] or Listener.has_news(self)


def _place_of(container_id: str) -> tuple[int, int]:
    """The number of a container's attempt, and its own, from 0."""
    _, attempt, number = container_id.rsplit("_", 2)
    return int(attempt), int(number) - 1


@dataclass(slots=True, eq=False)
class RMApp:
    """One application.

    ``task_numbers`` are each attempt's containers' in the order of their own numbers, -1 for one that is no task's, by
    the attempt's number; ``remote_tasks`` those of containers with greater numbers. ``leaf`` is its queue.
    ``opportunistic_held`` is what its live opportunistic containers come to, of which there are ``opportunistic_live``.
    ``nodes`` are those that ever had a container of it.
    ``failures`` counts the attempts that failed by their own fault. ``finishing`` is true while its master
    has unregistered and its master's container has not ended yet. ``tracking_url`` leads to its page.
    ``recovered``: it began in an earlier life of the RM.
    ``hosted``: its master lives in this process (``hosting/``); it is unmanaged, too, as no container is its master's.
    ``postponed``: it has not begun, and asks for nothing. ``began_at_ms`` is when it did. ``expires_at_ms``: somebody
    said, while it was postponed, when its lifetime ends, 0 for nobody. ``ended_well``: see ``StoredLife``.
    ``counted_until`` is when its memory and vcore seconds were last counted, ``counted_before_ms`` until when earlier
    lives of the RM had counted them; they were last stored at ``stored_at``.
    """

    id: str
    number: int
    context: ApplicationSubmissionContext
    user: str
    log_directory: str
    max_attempts: int
    submitted_at_ms: int
    leaf: LeafQueue[RMAppAttempt]
    hosted: bool = False
    recovered: bool = False
    postponed: bool = False
    began_at_ms: int = 0
    expires_at_ms: int = 0
    ended_well: tuple[str, ...] = ()
    state: YarnApplicationState = YarnApplicationState.NEW
    final_status: FinalApplicationStatus = FinalApplicationStatus.UNDEFINED
    attempts: list[RMAppAttempt] = field(default_factory=list)
    failures: int = 0
    finishing: bool = False
    started_at_ms: int = 0
    finished_at_ms: int = 0
    progress: float = 0.0
    diagnostics: str = ""
    tracking_url: str = ""
    summary: JobSummary | None = None
    nodes: set[str] = field(default_factory=set)
    task_numbers: dict[int, list[int]] = field(default_factory=dict)
    remote_tasks: dict[str, int] = field(default_factory=dict)
    counts: dict[Phase, int] = field(default_factory=lambda: dict.fromkeys(Phase, 0))
    guaranteed: Resource = field(default_factory=Resource)
    opportunistic_running: Resource = field(default_factory=Resource)
    opportunistic_held: Resource = field(default_factory=Resource)
    opportunistic_live: int = 0
    running: Resource = field(default_factory=Resource)
    opportunistic_allocated_total: int = 0
    guaranteed_allocated_total: int = 0
    promoted_total: int = 0
    memory_seconds: float = 0.0
    vcore_seconds: float = 0.0
    counted_until: float = 0.0
    counted_before_ms: int = 0
    stored_at: float = 0.0
    preempted: Resource = field(default_factory=Resource)
    preempted_masters: int = 0
    containers_shed: int = 0
    preempted_memory_seconds: float = 0.0
    preempted_vcore_seconds: float = 0.0
    story: list[StoryEntry] = field(default_factory=list)

    @property
    def timed_from_ms(self) -> int:
        """The time from which its timeout counts."""
        return self.began_at_ms or self.submitted_at_ms

    def note_task(self, container_id: str, number: int) -> None:
        """Note that the master gives a container to the task with this number."""
        attempt, place = _place_of(container_id)
        if place >= MOST_NUMBERED:
            self.remote_tasks[container_id] = number
            if len(self.remote_tasks) > MOST_REMOTE:
                del self.remote_tasks[next(iter(self.remote_tasks))]
            return
        numbers = self.task_numbers.setdefault(attempt, [])
        missing = place + 1 - len(numbers)
        numbers.extend([-1] * max(0, missing))
        numbers[place] = number

    def task_of(self, container_id: str) -> int | None:
        """The number of the task that a container of it is for; None where that is not known."""
        attempt, place = _place_of(container_id)
        if place >= MOST_NUMBERED:
            return self.remote_tasks.get(container_id)
        numbers = self.task_numbers.get(attempt, ())
        number = numbers[place] if place < len(numbers) else -1
        return number if number >= 0 else None

    def move(self, event: AppEvent, now: float) -> None:
        """Take a transition. Raises InvalidTransitionError for one that is not in the table: a bug."""
        self.state = APPLICATIONS.follow(self.id, self.state, event, now, self.story)

    @property
    def attempt(self) -> RMAppAttempt:
        """The current (last) attempt."""
        return self.attempts[-1]

    def attempt_of(self, container: ContainerId) -> RMAppAttempt | None:
        """The attempt of it to which a container with this id was allocated."""
        record = container.application_attempt_id
        return next((one for one in reversed(self.attempts) if one.record == record), None)

    @property
    def ended(self) -> bool:
        """Whether it has ended for users; its master's container may still run (``finishing``)."""
        return self.state in FINAL_STATES

    @property
    def unmanaged(self) -> bool:
        """Whether its master has no container: it runs in the client or in the RM."""
        return self.context.unmanaged

    def containers(self) -> Iterable[RMContainer]:
        """The live containers of all its attempts."""
        return (container for attempt in self.attempts for container in attempt.containers.values())

    def change_running(self, container: RMContainer, now: float, sign: int) -> None:
        """A container started (1) or ended (-1); usage until now is added to the seconds."""
        self.accrue(now)
        self.running = self.running + container.resource * sign
        if not container.is_guaranteed:
            self.opportunistic_running = self.opportunistic_running + container.resource * sign

    def accrue(self, now: float) -> None:
        """Add the usage since the last call to the memory and vcore seconds."""
        self.add_seconds(self.running, now - self.counted_until)
        self.counted_until = now

    def add_seconds(self, resource: Resource, seconds: float) -> None:
        """``resource`` was in use for so long."""
        self.memory_seconds += resource.memory * max(0.0, seconds)
        self.vcore_seconds += resource.vcores * max(0.0, seconds)

    def count_earlier(self, resource: Resource, status: ContainerStatus, now_ms: int) -> None:
        """Add what a container used that ran unseen: between two heartbeats, or while no RM ran."""
        began = max(status.started_at_ms, self.counted_before_ms)
        ended = status.finished_at_ms or status.paused_at_ms or now_ms
        if status.started_at_ms > 0:
            stood = status.stood_ms if began == status.started_at_ms else 0
            self.add_seconds(resource, (ended - began - stood) / 1000)

    def count_preempted(self, container: RMContainer, seconds: float) -> None:
        """A container that ran for ``seconds`` was taken from it."""
        size = container.resource
        self.preempted = self.preempted + size
        self.preempted_masters += container.is_am
        self.preempted_memory_seconds += size.memory * max(0.0, seconds)
        self.preempted_vcore_seconds += size.vcores * max(0.0, seconds)
