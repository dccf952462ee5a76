"""The shared state of the RM's services: entities, deadlines, and the changes of a step (``RMContext``).

Holds state; the decisions are in the services around it.
"""

from __future__ import annotations

import dataclasses
import random
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from executor.core.machine import Deadlines, beat
from executor.light import replace
from executor.records import Resource

from ..allocation.cluster_node import ClusterNode
from ..allocation.host_capacity import HostCapacity
from ..allocation.load_monitor import NodeQueueLoadMonitor
from ..allocation.opportunistic import OpportunisticContainerAllocator
from ..errors import (
    ApplicationNotFoundError,
    ContainerNotFoundError,
    InvalidStateError,
    NodeNotFoundError,
    YoppError,
)
from ..machine.calls import Reply, ReplyError
from ..machine.tokens import AMRM_TOKEN, CONTAINER_TOKEN, derive_key
from ..masters.tasks import Task
from ..records.client_protocol import ApplicationResponse
from ..records.distributed_protocol import DistributedSchedulingAllocateResponse, RemoteNode
from ..records.ids import ApplicationId
from ..records.master_protocol import AllocateResponse
from ..records.reports import GONE, NodeReport
from ..records.requests import Container
from ..records.tracker_protocol import ApplicationPriority, LaunchTemplate
from ..settings.declarations import ResourceManagerSettings
from ..settings.queues import DEFAULT_QUEUES, CapacitySchedulerSettings, QueueSettings, weights_of
from .commands import Command
from .due import Due, DueKind
from .entities import HeldCall, RMApp, RMAppAttempt, RMContainer, RMNode
from .event_history import EventHistory
from .lives import Phase
from .mapreduce import TaskBook
from .metrics import OpportunisticSchedulerMetrics
from .reports import application_report, node_report, remote_node
from .scheduler.capacity_scheduler import CapacityScheduler
from .scheduler.opportunistic_shares import OpportunisticShares, WaitingAttempts
from .scheduler.queues import QueueTree

NODES_SETTLE = 3.0
"""Seconds that a larger node may take to come after a smaller one, or after a large one went."""


SILENT_HEARTBEATS = 3
"""The number of intervals without a heartbeat after which a node counts as silent, long before it expires."""


@dataclass(frozen=True, slots=True)
class Unreported:
    """A container that no node has reported yet: a previous RM process or a DistributedScheduler allocated it.

    ``reported`` is the DistributedScheduler's report, if any; the container may not have reached its node yet."""

    attempt: RMAppAttempt
    node_id: str
    priority: int = 0
    is_am: bool = False
    reported: Container | None = None


EventT = TypeVar("EventT", contravariant=True)


class Stateful(Protocol[EventT]):
    """An entity with a transition table of ``lives``."""

    def move(self, event: EventT, now: float) -> None:
        """Take a transition."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of the RM.

    ``cluster_timestamp`` is part of its application ids: its first start, in epoch milliseconds. ``started_at_ms`` is
    the start of this process, 0 for the first one. ``wall_offset`` plus ``now`` is wall time, in seconds. ``address``
    is the address on which it listens; ``properties`` have values other than the default. ``boot_id`` is the kernel's
    boot id.
    """

    cluster_timestamp: int
    wall_offset: float
    run_dir: str
    address: str
    log_dir: str
    pid: int
    version: str
    properties: dict[str, str]
    started_at_ms: int = 0
    boot_id: str = ""

    @property
    def began_at_ms(self) -> int:
        """The time when this RM process started."""
        return self.started_at_ms or self.cluster_timestamp


class Changes:
    """The changes of a step that have consequences. Handlers record them, ``settle`` reads and empties them.

    Consequences follow only from these records: there are no other flags.
    """

    def __init__(self) -> None:
        #: took a transition in this step: the store writes it down before the step's commands are performed
        self.moved: list[Stateful[Any]] = []
        #: there may be news for their masters, by id
        self.attempts: dict[str, RMAppAttempt] = {}
        #: there may be news for these nodes, by id
        self.nodes: dict[str, RMNode] = {}
        #: nodes that have sent a heartbeat, by id
        self.beating: dict[str, RMNode] = {}
        #: containers of masters that have ended
        self.masters_ended: list[RMContainer] = []
        #: applications that are to begin later: whether they do now is to be looked at
        self.postponed: list[RMApp] = []
        #: guaranteed asks came, or something was freed that they may wait for
        self.guaranteed = False
        #: opportunistic asks came, or have another order now
        self.opportunistic = False
        #: something changed that clients may wait for: an application's state, or which nodes can be used
        self.awaited = False
        #: answers to hosted masters, which wait for their next turn in the step: number of the call, response or error
        self.hosted: list[tuple[int, Any]] = []
        #: tasks of hosted masters' jobs that are to be written down, with the ids of their applications
        self.tasks: dict[Task, str] = {}
        #: books of MapReduce jobs in which something is to be written down, by the ids of their applications
        self.books: dict[str, TaskBook] = {}
        #: applications of whose submission something was changed, by id
        self.applications: dict[str, RMApp] = {}
        #: applications of whose life the store has to know more than their state, by id
        self.lives: dict[str, RMApp] = {}
        #: ids of applications that are remembered no more
        self.forgotten: list[str] = []
        #: nodes that have registered for the first time in this life of the RM
        self.arrived: list[str] = []
        #: the answers of the step, in order
        self.commands: list[Command] = []


class RMContext:
    """Tables and books.

    ``secret`` is the root of all keys. Without ``heartbeat_wait`` heartbeats are answered at once, and guaranteed
    containers are allocated only at a heartbeat of their node: YARN's periodic heartbeat, for studies of its delay.
    ``queues`` are the queues of guaranteed containers; ``capacity`` has the scheduler's settings. With
    ``distributed``, nodes may allocate opportunistic containers themselves. ``rng`` is for random policies; the
    default policies are not random. ``host`` bounds the sizes of nodes; None, as long as the host was not measured,
    sets no bound.

    ``now`` is the time of the step in seconds, monotonic; ``now_ms`` is its wall time, in epoch milliseconds.
    """

    def __init__(
        self,
        settings: ResourceManagerSettings,
        identity: Identity,
        *,
        secret: bytes,
        lifetime: str,
        heartbeat_wait: bool,
        distributed: bool = False,
        rng: random.Random | None = None,
        capacity: CapacitySchedulerSettings | None = None,
        queues: QueueSettings = DEFAULT_QUEUES,
    ) -> None:
        self.now = 0.0
        self.now_ms = 0
        self.settings = settings
        longest = max(settings.heartbeat_interval_ms, settings.heartbeat_interval_max_ms)
        self.silence_seconds = SILENT_HEARTBEATS * longest / 1000
        """Seconds without a heartbeat after which a node counts as silent."""
        self.capacity = capacity or CapacitySchedulerSettings()
        self.identity = identity
        self.heartbeat_wait = heartbeat_wait
        self.distributed = distributed
        self.host: HostCapacity | None = None
        self.secret = secret
        self.container_key = derive_key(secret, CONTAINER_TOKEN)
        self.am_key = derive_key(secret, AMRM_TOKEN)
        self.minimum_allocation = Resource(settings.minimum_allocation_mb, settings.minimum_allocation_vcores)
        self.maximum_allocation = Resource(settings.maximum_allocation_mb, settings.maximum_allocation_vcores)
        self.allocation_expiry = settings.allocation_expiry_interval_ms / 1000
        self.changes = Changes()
        self.deadlines: Deadlines[Due] = Deadlines()
        self.history = EventHistory(settings.event_history_size, written=settings.recovery_enabled)
        self.applications: dict[str, RMApp] = {}
        self.live: dict[str, RMApp] = {}
        #: ids of applications by the keys of their submissions
        self.submissions: dict[str, str] = {}
        #: those that are to begin later
        self.postponed: dict[str, RMApp] = {}
        self.completed: deque[str] = deque()
        self.retired: dict[str, RMApp] = {}
        self.task_books: dict[str, TaskBook] = {}
        self.nodes: dict[str, RMNode] = {}
        self.draining: dict[str, RMNode] = {}
        self.live_containers: dict[str, RMContainer] = {}
        self.finished_containers: OrderedDict[str, RMContainer] = OrderedDict()
        self.scheduler = CapacityScheduler(QueueTree(queues, self.capacity), self._guaranteed_awaited)
        self.shares = OpportunisticShares(weights_of(self.capacity.user_weights)[0])
        self.templates: dict[str, LaunchTemplate] = {}
        #: jobs of hosted masters that have ended, and whose clients are there and have not heard of it
        self.unheard: set[str] = set()
        self.opportunistic_waiting = WaitingAttempts(self.shares)
        self.metrics = OpportunisticSchedulerMetrics()
        self.monitor = NodeQueueLoadMonitor(settings, rng=rng, may_move=self._may_move)
        self.allocator = OpportunisticContainerAllocator[RMAppAttempt](
            self.monitor, max_per_call=settings.max_allocations_per_heartbeat
        )
        self.ending = False
        self.lifetime = lifetime
        self.applications_started = 0
        self.last_application = 0
        #: applications up to this number had their ids from an earlier life of this RM
        self.recovered_applications = 0
        self.expected: dict[str, Unreported] = {}
        #: nodes of which containers of dead masters are expected, and how many more heartbeats are waited for
        self.unreported: dict[str, int] = {}
        #: nodes that somebody drained in an earlier life, and that have not come since
        self.drained: set[str] = set()
        self.rebooted = False
        self.keeps_state = settings.recovery_enabled
        self.http_address = ""
        self.warnings: tuple[str, ...] = ()
        #: what was lost with stored state, a sentence each, until somebody decides about the containers
        self.losses: tuple[str, ...] = ()
        self.lost_until = 0
        self.adopted = False

    @property
    def containers_kept(self) -> int:
        """The number of containers of lost applications."""
        return sum(len(node.kept) for node in self.nodes.values())

    def is_lost(self, application_id: str) -> bool:
        """Whether the records of an application are known to be lost: an RM whose state is gone assigned its id, or a
        previous process of this RM that had written more did."""
        if not self.keeps_state or application_id in self.applications:
            return False
        found = ApplicationId.parse(application_id)
        return found.cluster_timestamp != self.identity.cluster_timestamp or found.id <= self.lost_until

    def moment(self, epoch_ms: int) -> float:
        """Converts wall time, in epoch milliseconds, to the scale of ``now``."""
        return epoch_ms / 1000 - self.identity.wall_offset

    def wall_clock_stepped(self, offset: float) -> None:
        """The wall clock was set: move the deadlines that are times of day."""
        self.identity = dataclasses.replace(self.identity, wall_offset=offset)
        self.begin(self.now)
        self.changes.postponed.extend(self.postponed.values())
        for app in self.live.values():
            if app.context.deadline_at_ms:
                self.deadlines.set(Due(DueKind.DEADLINE, app.id), self.moment(app.context.deadline_at_ms))

    def begin(self, now: float) -> None:
        """Begin a step at this time."""
        self.now = now
        self.now_ms = self.history.now_ms = self.ms(now)

    # -- changes ---------------------------------------------------------------------------------------------

    def move(self, entity: Stateful[EventT], event: EventT) -> None:
        """Let an application, attempt, container or node take a transition. No other function changes a state."""
        entity.move(event, self.now)
        self.changes.moved.append(entity)
        if isinstance(entity, RMApp | RMNode):
            self.changes.awaited = True
            if isinstance(entity, RMNode):
                self.scheduler.nodes_changed()

    def news_for_master(self, attempt: RMAppAttempt) -> None:
        """There may be news for this attempt's master."""
        self.changes.attempts[attempt.id] = attempt

    def news_for_node(self, node: RMNode) -> None:
        """There may be news for this node."""
        self.changes.nodes[node.node_id] = node

    def nodes_changed(self, node: RMNode | None = None) -> None:
        """Nodes came or went: masters learn of ``node``. Requests that no node can serve are refused later, when other
        nodes have had time to register.
        """
        self.deadlines.ensure(Due(DueKind.HOPELESS), self.now + NODES_SETTLE)
        if node is not None:
            self.tell_masters(node)

    def tell_masters(self, node: RMNode) -> None:
        """Notify masters of the present state of a changed node, unless all nodes end."""
        if self.ending:
            return
        report = node_report(node, self.identity.wall_offset)
        for app in self.live.values():
            if app.attempt.awaits_master:
                app.attempt.updated_nodes.put(node.node_id, report)
                self.news_for_master(app.attempt)

    def _guaranteed_awaited(self, node: RMNode, waiting: bool, followed: bool) -> None:
        """Guaranteed containers begin or cease to wait for room on ``node``. ``followed``: a container that ends there
        may have a successor, also if a limit of a queue or user, not room, keeps guaranteed containers waiting.

        Without held heartbeats, a successor starts one heartbeat later; the node's queue bridges this delay.
        """
        node.load.awaited = waiting and self.heartbeat_wait
        node.guaranteed_awaited = followed and self.heartbeat_wait
        self.news_for_node(node)
        self.monitor.refresh(node.load)

    def _may_move(self, giver: ClusterNode, taker: ClusterNode) -> bool:
        """Whether all containers queued at ``giver`` could be allocated on ``taker``.

        The node chooses which containers it sheds, and shedding is useless if no other node can take them."""
        if giver.labels != taker.labels:
            return False
        for container in self.nodes[giver.node_id].containers.values():
            if container.phase is Phase.QUEUED and not container.is_guaranteed:
                blacklist = container.attempt.blacklist
                if container.strict or taker.host in blacklist or taker.node_id in blacklist:
                    return False
        return True

    def change_submission(self, app: RMApp, *, dry_run: bool, **changes: Any) -> ApplicationResponse:
        """Change the properties of a submitted application. The answer has the new properties, also with
        ``dry_run``.
        """
        report = application_report(app, self.now)
        shown = {name: value for name, value in changes.items() if hasattr(report, name)}
        if not dry_run:
            app.context = replace(app.context, **changes)
            self.changes.applications[app.id] = app
            self.opportunistic_waiting.weight_changed(app)
            if "priority" in changes:
                self._tell_priority(app)
            if app.attempts:
                app.leaf.asks(app.attempt)
        return ApplicationResponse(replace(report, **shown))

    def _tell_priority(self, app: RMApp) -> None:
        """Send the new priority of an application to the nodes where its containers may wait."""
        for node in {container.node.node_id: container.node for container in app.containers()}.values():
            node.priorities.put(app.id, ApplicationPriority(app.id, app.context.priority))
            self.news_for_node(node)

    # -- answers ---------------------------------------------------------------------------------------------

    def reply(self, call_id: int, response: Any) -> None:
        """Answer a call; a negative number is the call of a hosted master."""
        if call_id < 0:
            self.changes.hosted.append((call_id, response))
        else:
            self.changes.commands.append(Reply(call_id, response))

    def refuse(self, call_id: int, error: YoppError) -> None:
        """Refuse a call."""
        if call_id < 0:
            self.changes.hosted.append((call_id, error))
        else:
            self.changes.commands.append(ReplyError(call_id, error))

    def reply_to_master(self, held: HeldCall, response: AllocateResponse) -> None:
        """Answer an allocate call, in the protocol of the call."""
        if held.distributed:
            nodes = self.nodes_for_scheduling()
            self.reply(held.call_id, DistributedSchedulingAllocateResponse(response, nodes))
        else:
            self.reply(held.call_id, response)

    def hold(self, listener: RMNode | RMAppAttempt, call: HeldCall, wait_ms: int) -> None:
        """Hold a call until there is news, for at most ``wait_ms``."""
        listener.held = call
        if wait_ms > 0:
            wait = wait_ms / 1000
            until = beat(self.now, wait) if isinstance(listener, RMNode) else self.now + wait
            self.deadlines.set(self._held(listener), until)
        else:
            listener.answer_due = True

    def forget_held(self, listener: RMNode | RMAppAttempt) -> None:
        """Stop holding the call of ``listener``. While its call was held, the listener counted as alive."""
        if listener.held is not None:
            listener.last_contact = self.now
        if isinstance(listener, RMNode):
            self.deadlines.ensure(
                Due(DueKind.NODE_SILENCE, listener.node_id), self.now + self.silence_seconds
            )
        listener.held = None
        listener.answer_due = False
        self.deadlines.clear(self._held(listener))

    def _held(self, listener: RMNode | RMAppAttempt) -> Due:
        if isinstance(listener, RMAppAttempt):
            return Due(DueKind.HELD_ALLOCATE, listener.id)
        return Due(DueKind.HELD_HEARTBEAT, listener.node_id)

    def await_client(self, application_id: str) -> None:
        """The client on which this application depends has disconnected: end the application unless the client
        reconnects within the grace period."""
        grace = self.settings.client_am_grace_ms / 1000
        self.deadlines.set(Due(DueKind.CLIENT_GONE, application_id), self.now + grace)

    def nodes_for_scheduling(self) -> tuple[RemoteNode, ...]:
        """The least loaded nodes, as DistributedSchedulers see them."""
        return tuple(remote_node(self.nodes[load.node_id]) for load in self.monitor.least_loaded())

    def proxy_url(self, application_id: str) -> str:
        """The tracking URL of an application, "" if no pages are served."""
        return f"http://{self.http_address}/proxy/{application_id}/" if self.http_address else ""

    def node_report(self, node: RMNode) -> NodeReport:
        """The report of a node: a node that has missed several heartbeats is silent, even if its connection is open."""
        report = node_report(node, self.identity.wall_offset)
        silence = self.now - node.last_contact
        if node.state in GONE or node.held is not None or silence < self.silence_seconds:
            return report
        told = report.health_report or f"no heartbeat for {silence:.0f} s"
        return replace(report, connected=False, health_report=told)

    # -- finding ---------------------------------------------------------------------------------------------

    def ms(self, seconds: float) -> int:
        """Converts monotonic ``seconds`` to wall time, epoch milliseconds."""
        return int((seconds + self.identity.wall_offset) * 1000)

    def application(self, application_id: str) -> RMApp:
        """The application, alive or ended. Raises ApplicationNotFoundError."""
        if (app := self.applications.get(application_id)) is not None:
            return app
        ApplicationId.parse(application_id)
        raise self._not_found(ApplicationNotFoundError, "Application", application_id, "yopp app list -a")

    def check_living(self, app: RMApp) -> None:
        """Raises InvalidStateError for an application that has ended."""
        if app.ended:
            raise InvalidStateError(
                f"Application {app.id} has ended and cannot be changed",
                because=f"it is {app.state.value}",
                hint="`yopp app list` shows those that are running",
            )

    def container(self, container_id: str) -> RMContainer:
        """The container: a live one, or one of the last that ended. Raises ContainerNotFoundError."""
        if (found := self.find_container(container_id)) is not None:
            return found
        raise self._not_found(ContainerNotFoundError, "Container", container_id, "yopp ps -a")

    def find_container(self, container_id: str) -> RMContainer | None:
        """The container: a live one, or one of the last that ended; None if it is neither."""
        return self.live_containers.get(container_id) or self.finished_containers.get(container_id)

    def node(self, node_id: str) -> RMNode:
        """The node, in any state. Raises NodeNotFoundError if it has never registered."""
        if (node := self.nodes.get(node_id)) is not None:
            return node
        raise NodeNotFoundError(
            f"Node {node_id} doesn't exist",
            because="no node with that id has registered",
            hint="yopp node list",
            sought=node_id,
        )

    def _not_found(self, kind: Callable[..., YoppError], what: str, identifier: str, hint: str) -> YoppError:
        ours = str(self.identity.cluster_timestamp)
        because = f"it belongs to another cluster, or to an earlier start of this one, whose ids have {ours}"
        if ours in identifier.split("_"):
            because = "that number is unknown: it never existed, or ended long ago"
        text = f"{what} with id '{identifier}' doesn't exist in RM."
        return kind(text, because=because, hint=hint, sought=identifier)
