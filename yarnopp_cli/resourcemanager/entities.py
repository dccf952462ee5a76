"""The entities of the ResourceManager: applications, attempts, containers, nodes.

YARN's ``RMAppImpl``, ``RMAppAttemptImpl``, ``RMContainerImpl``, ``RMNodeImpl``.

They refer to each other, so they are one module. Each entity keeps its own accounts; other modules decide the
consequences of a change. Only ``RMContext.move`` changes states.
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
"""Containers up to this number keep the number of their task. Containers with greater numbers, which nodes allocate
themselves, keep it while they are among the last MOST_REMOTE of their application."""
MOST_REMOTE = 100_000

ENDED_ATTEMPT_STATES = frozenset({AttemptState.FINISHED, AttemptState.FAILED, AttemptState.KILLED})
_LISTENING = frozenset({AttemptState.ALLOCATED, AttemptState.LAUNCHED, AttemptState.RUNNING})
HOSTED = -2
"""The connection of a hosted master: no call from outside uses it, and it is never lost."""
_IDLE = ResourceUtilization()
_NO_TOKEN = Token("", "", "")


@dataclass(frozen=True, slots=True)
class HeldCall:
    """A call that waits for news, and the number of the last answer that its caller received.

    ``distributed``: the caller is a node's DistributedScheduler, which also gets the least loaded nodes.
    """

    call_id: int
    response_id: int
    distributed: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class Listener:
    """A node or a master, which calls repeatedly. Its call is held until there is news for it.

    ``connection_id`` is the connection of its last call, -1 for none. ``last_contact`` is in seconds, monotonic; while
    its call is held, the listener counts as alive. ``response_id`` numbers the answers, ``sent_here`` is the last
    answer on this connection. ``held`` is the call that waits for an answer; ``answer_due``: the call is answered in
    this step.
    """

    connection_id: int = -1
    last_contact: float = 0.0
    response_id: int = 0
    sent_here: int = 0
    held: HeldCall | None = None
    answer_due: bool = False
    story: list[StoryEntry] = field(default_factory=list)

    def mailboxes(self) -> tuple[Mailbox[Any], ...]:
        """All mailboxes of its news."""
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
        """The number of an answer without news: the number of the last answer with news."""
        return max(held.response_id, self.sent_here)

    def connect(self, connection_id: int) -> None:
        """Note the connection that the listener uses; messages over another connection may be lost."""
        if connection_id != self.connection_id:
            self.send_again()
            self.sent_here = 0
        self.connection_id = connection_id

    def send_again(self) -> None:
        """Send all news again that were not acknowledged."""
        for box in self.mailboxes():
            box.send_again()

    def forget_news(self) -> None:
        """Drop all news: the listener will not fetch them."""
        for box in self.mailboxes():
            box.clear()


@dataclass(slots=True, eq=False, kw_only=True)
class RMNode(Listener):
    """One registered node. ``load`` is the record of it that schedulers use.

    ``state_since``: the time of its last state change, in seconds, monotonic. ``unregistered`` nodes do not return by
    themselves. ``resized``: the RM has set its size. ``templates_told`` are the templates of hosted masters' tasks
    that were sent on its connection. ``kept`` are the containers of lost applications, with their guaranteed
    resources. ``questions`` are sent with the next answer.
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
        """Take a transition. Raises InvalidTransitionError if the table has no such transition: a bug."""
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
        """Whether the node can be reached."""
        return self.connection_id >= 0

    @property
    def usable(self) -> bool:
        """Whether containers may be allocated on the node now."""
        return self.connected and self.state is NodeState.RUNNING

    def fits_guaranteed(self, resource: Resource) -> bool:
        """Whether the node has room for another guaranteed container beside its guaranteed ones."""
        # Called for every node and every container, so it makes no Resource objects.
        used, total = self.load.guaranteed, self.load.total
        return (
            used.memory + resource.memory <= total.memory
            and used.vcores + resource.vcores <= total.vcores
            and (not resource.others or resource.fits_in(total - used))
        )

    def change(self, container: RMContainer, sign: int) -> None:
        """A container was allocated here (1), or has ended (-1): change the accounts."""
        if sign > 0:
            self.containers[container.id] = container
        else:
            del self.containers[container.id]
        if container.is_guaranteed:
            self.guaranteed_containers += sign
            self.load.guaranteed = self.load.guaranteed + container.resource * sign
            self.load.recompute()

    def mailboxes(self) -> tuple[Mailbox[Any], ...]:
        """All mailboxes of its news."""
        return (
            self.to_start,
            self.tasks_to_start,
            self.to_cleanup,
            self.to_update,
            self.priorities,
            self.applications_to_cleanup,
        )

    def forget_start(self, container_id: str) -> None:
        """Do not send the start of this container any more: the node has reported it, or it is not to start."""
        self.to_start.drop(container_id)
        self.tasks_to_start.drop(container_id)

    def has_news(self) -> bool:
        """Whether a held heartbeat is to be answered now."""
        # The end of waiting is not urgent: it is sent with the next answer.
        told = self.awaited_told or not self.guaranteed_awaited
        return not told or bool(self.questions) or Listener.has_news(self)

    def send_again(self) -> None:
        """Send all news again that were not acknowledged."""
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
    """The node of a registration. Raises InvalidIdError for a malformed node id."""
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
    """One container. ``allocated_at_ms`` is the time of its allocation, ``sequence`` the order of allocation;
    ``status`` is the last report of its node.

    ``ask_key`` is the ask that it answers, ``asked_type`` the type of the ask, ``counted`` whether the metrics of
    opportunistic containers count it. ``released``: its master has requested its end. ``ended_for`` is the reason why
    the RM ends it, ``ended_as`` its exit status, None for the node's. ``delivers``: the RM itself sends updates to the
    node. ``update_calls`` are the updates for which its hosted master waits: pairs of version and call number.
    ``waiting_since_ms``: the time when an earlier container of the same work began to wait. ``strict``: the request
    allows only the named places. ``acquired``: its master has received it. ``preemptions`` counts how often it was
    paused or killed to make room. ``eligible_at_ms``: the time of the first request for the same work.
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
        """The application of the container."""
        return self.attempt.app

    @property
    def is_guaranteed(self) -> bool:
        """Whether the container is guaranteed now."""
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
        """The resources that the container's node needs beyond the resources of guaranteed containers."""
        if self.execution_type is ExecutionType.OPPORTUNISTIC:
            return Resource()
        if not self.container.is_guaranteed:
            return self.resource
        return (self.resource - self.container.resource).at_least_zero()


@dataclass(slots=True, eq=False, kw_only=True)
class RMAppAttempt(Listener):
    """One run of an application's master, and its state at the RM.

    ``since_call`` counts the opportunistic containers that were allocated since its master last called. ``refusal`` is
    the error for accepted requests that no node can serve; the next call of the master gets it. ``numbers_taken`` is
    the highest container number that was ever used. ``paused_told`` is the number of paused containers that was last
    sent to the master. ``has_called``: the master has made an allocate call since the start of the RM. ``am_expected``
    are the ids of the master's container and its node, as a previous RM process wrote them; ``am_container`` is set
    when this node registers.
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
        """Take a transition. Raises InvalidTransitionError if the table has no such transition: a bug."""
        self.state = ATTEMPTS.follow(self.id, self.state, event, now, self.story)

    @property
    def ended(self) -> bool:
        """Whether the attempt has ended."""
        return self.state in ENDED_ATTEMPT_STATES

    @property
    def awaits_master(self) -> bool:
        """Whether calls of a master are expected for this attempt."""
        return self.state in _LISTENING

    @property
    def tables(self) -> tuple[AskTable, AskTable]:
        """The outstanding asks: the guaranteed ones, the opportunistic ones."""
        return (self.guaranteed_asks, self.opportunistic_asks)

    @property
    def outstanding(self) -> int:
        """The number of containers that the attempt still requests."""
        return self.guaranteed_asks.outstanding + self.opportunistic_asks.outstanding

    def asks(self, execution_type: ExecutionType) -> AskTable:
        """The outstanding asks of one type."""
        return self.tables[execution_type is ExecutionType.OPPORTUNISTIC]

    def mailboxes(self) -> tuple[Mailbox[Any], ...]:
        """All mailboxes of its news."""
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
    """The numbers of a container's attempt and of the container, from 0."""
    _, attempt, number = container_id.rsplit("_", 2)
    return int(attempt), int(number) - 1


@dataclass(slots=True, eq=False)
class RMApp:
    """One application.

    ``task_numbers`` has, by the number of an attempt, the task numbers of its containers in the order of container
    numbers, -1 for a container without a task; ``remote_tasks`` has the task numbers of containers with greater
    numbers. ``leaf`` is its queue. ``opportunistic_held`` is the sum of the resources of its live opportunistic
    containers, ``opportunistic_live`` their number. ``nodes`` are all nodes that ever had one of its containers.
    ``failures`` counts the attempts that failed by their own fault. ``finishing``: its master has unregistered, and
    the master's container has not ended yet. ``tracking_url`` is the URL of its page. ``recovered``: it began in a
    previous RM process. ``hosted``: its master runs in this process (``hosting/``); it is also unmanaged, because its
    master has no container. ``postponed``: it has not begun, and requests no containers. ``began_at_ms`` is the time
    of its beginning. ``expires_at_ms``: the end of its lifetime that was set while it was postponed; 0 if none was
    set. ``ended_well``: see ``StoredLife``. ``counted_until`` is the time until which its memory and vcore seconds are
    counted, ``counted_before_ms`` the time until which previous RM processes had counted them; they were last stored
    at ``stored_at``.
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
        """Note the number of the task to which the master gives a container."""
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
        """The number of the task that runs in a container of the application; None if it is not known."""
        attempt, place = _place_of(container_id)
        if place >= MOST_NUMBERED:
            return self.remote_tasks.get(container_id)
        numbers = self.task_numbers.get(attempt, ())
        number = numbers[place] if place < len(numbers) else -1
        return number if number >= 0 else None

    def move(self, event: AppEvent, now: float) -> None:
        """Take a transition. Raises InvalidTransitionError if the table has no such transition: a bug."""
        self.state = APPLICATIONS.follow(self.id, self.state, event, now, self.story)

    @property
    def attempt(self) -> RMAppAttempt:
        """The current (last) attempt."""
        return self.attempts[-1]

    def attempt_of(self, container: ContainerId) -> RMAppAttempt | None:
        """The attempt to which a container with this id was allocated."""
        record = container.application_attempt_id
        return next((one for one in reversed(self.attempts) if one.record == record), None)

    @property
    def ended(self) -> bool:
        """Whether it has ended for users; its master's container may still run (``finishing``)."""
        return self.state in FINAL_STATES

    @property
    def unmanaged(self) -> bool:
        """Whether its master has no container: it runs in a client or in the RM."""
        return self.context.unmanaged

    def containers(self) -> Iterable[RMContainer]:
        """The live containers of all its attempts."""
        return (container for attempt in self.attempts for container in attempt.containers.values())

    def change_running(self, container: RMContainer, now: float, sign: int) -> None:
        """A container has started (1) or ended (-1): count the usage until now."""
        self.accrue(now)
        self.running = self.running + container.resource * sign
        if not container.is_guaranteed:
            self.opportunistic_running = self.opportunistic_running + container.resource * sign

    def accrue(self, now: float) -> None:
        """Add the usage since the last call to the memory and vcore seconds."""
        self.add_seconds(self.running, now - self.counted_until)
        self.counted_until = now

    def add_seconds(self, resource: Resource, seconds: float) -> None:
        """Count ``resource`` as used for this time."""
        self.memory_seconds += resource.memory * max(0.0, seconds)
        self.vcore_seconds += resource.vcores * max(0.0, seconds)

    def count_earlier(self, resource: Resource, status: ContainerStatus, now_ms: int) -> None:
        """Count the usage of a container that ran while no RM process observed it: between two heartbeats, or while no
        RM ran."""
        began = max(status.started_at_ms, self.counted_before_ms)
        ended = status.finished_at_ms or status.paused_at_ms or now_ms
        if status.started_at_ms > 0:
            stood = status.stood_ms if began == status.started_at_ms else 0
            self.add_seconds(resource, (ended - began - stood) / 1000)

    def count_preempted(self, container: RMContainer, seconds: float) -> None:
        """Count a preempted container that had run for ``seconds``."""
        size = container.resource
        self.preempted = self.preempted + size
        self.preempted_masters += container.is_am
        self.preempted_memory_seconds += size.memory * max(0.0, seconds)
        self.preempted_vcore_seconds += size.vcores * max(0.0, seconds)
