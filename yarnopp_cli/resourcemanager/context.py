"""What the RM's services share: the tables, the books, the deadlines, and what is to be answered
(``RMContext``).

Holds state; the decisions are in the services around it.
"""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Any

from executor.core.deadlines import Deadlines
from executor.records import ExecutionType

from ..allocation.cluster_node import ClusterNode
from ..allocation.load_comparators import comparator_of
from ..allocation.load_monitor import NodeQueueLoadMonitor
from ..allocation.opportunistic import OpportunisticContainerAllocator
from ..allocation.rebalancing import LimitPolicy
from ..errors import YoppError
from ..machine.calls import Reply, ReplyError, StopDaemon
from ..machine.tokens import AMRM_TOKEN, CONTAINER_TOKEN, derive_key
from ..records.distributed_protocol import DistributedSchedulingAllocateResponse, RemoteNode
from ..records.master_protocol import AllocateResponse
from ..settings.queues import DEFAULT_QUEUES, CapacitySchedulerSettings, QueueSettings, weights_of
from ..settings.resourcemanager import ResourceManagerSettings
from .apps.applications import Phase, RMApp, RMAppAttempt
from .containers.containers import ContainerLedger, RMContainer
from .guaranteed.queues import QueueTree
from .guaranteed.scheduler import GuaranteedScheduler
from .history.history import EventHistory
from .metrics import OpportunisticSchedulerMetrics
from .nodes.nodes import HeldCall, RMNode
from .opportunistic.shares import OpportunisticShares

Command = Reply | ReplyError | StopDaemon
HOPELESS = ("hopeless", "")
NODES_SETTLE = 3.0
"""Seconds that a larger node may take to come after a smaller one, or after a large one went."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What the RM says of itself.

    ``address`` is where it listens, ``properties`` those that are not default.
    """

    cluster_timestamp: int
    wall_offset: float
    run_dir: str
    address: str
    log_dir: str
    pid: int
    version: str
    properties: dict[str, str]


class RMContext:
    """Tables and books. ``touch`` marks who may have to be answered at the end of the step."""

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
        self.settings = settings
        self.capacity = capacity or CapacitySchedulerSettings()
        self.identity = identity
        self.heartbeat_wait = heartbeat_wait
        self.distributed = distributed
        self.secret = secret
        self.container_key = derive_key(secret, CONTAINER_TOKEN)
        self.am_key = derive_key(secret, AMRM_TOKEN)
        self.allocation_expiry = settings.allocation_expiry_interval_ms / 1000
        self.history = EventHistory(settings.event_history_size)
        self.applications: dict[str, RMApp] = {}
        self.live: dict[str, RMApp] = {}
        self.completed: deque[str] = deque()
        self.nodes: dict[str, RMNode] = {}
        self.scheduler = GuaranteedScheduler(QueueTree(queues, self.capacity), self._guaranteed_awaited)
        self.shares = OpportunisticShares(weights_of(self.capacity.user_weights)[0])
        self.monitor = NodeQueueLoadMonitor(
            nodes_used=settings.nodes_used,
            sigma=settings.queue_limit_stdev,
            min_queue_length=settings.min_queue_length,
            max_queue_length=settings.max_queue_length,
            min_queue_wait_ms=settings.min_queue_wait_time_ms,
            max_queue_wait_ms=settings.max_queue_wait_time_ms,
            comparator=comparator_of(settings.load_comparator),
            limit_policy=LimitPolicy(settings.limit_policy),
            rng=rng,
            may_move=self._may_move,
        )
        self.allocator = OpportunisticContainerAllocator[RMAppAttempt, RMNode](
            self.monitor, self.nodes, max_per_call=settings.max_allocations_per_heartbeat
        )
        self.containers = ContainerLedger(self)
        self.deadlines: Deadlines[tuple[str, str]] = Deadlines()
        self.out: list[Command] = []
        self.ending = False
        self.lifetime = lifetime
        self.applications_started = 0
        self.metrics = OpportunisticSchedulerMetrics()
        self.http_address = ""
        self.warnings: tuple[str, ...] = ()
        self.opportunistic_waiting: OrderedDict[str, RMAppAttempt] = OrderedDict()
        self.opportunistic_dirty = False
        self.masters_ended: list[RMContainer] = []
        self.touched_attempts: dict[str, RMAppAttempt] = {}
        self.touched_nodes: dict[str, RMNode] = {}
        self.beating_nodes: dict[str, RMNode] = {}
        self.waiters_dirty = False
        self.draining: dict[str, RMNode] = {}
        self.to_keep: dict[str, RMApp] = {}

    def proxy_url(self, application_id: str) -> str:
        """The tracking URL of an application, "" where no pages are served."""
        return f"http://{self.http_address}/proxy/{application_id}/" if self.http_address else ""

    def _may_move(self, giver: ClusterNode, taker: ClusterNode) -> bool:
        """Whether all that is queued at ``giver`` could be allocated on ``taker``: it is not for the RM to say
        which of them a node sheds, and what can only come back is shed in vain."""
        if giver.labels != taker.labels:
            return False
        for container in self.nodes[giver.node_id].containers.values():
            if container.phase is Phase.QUEUED and container.execution_type is ExecutionType.OPPORTUNISTIC:
                blacklist = container.attempt.blacklist
                if container.strict or taker.host in blacklist or taker.node_id in blacklist:
                    return False
        return True

    def _guaranteed_awaited(self, node: RMNode, waiting: bool, followed: bool) -> None:
        """Guaranteed containers begin or cease to wait for room on ``node``; ``followed``: those that end there may
        have successors, also where it is not room that these wait for but a queue's or user's limit.

        With the plain beat it takes a heartbeat until one is there, and that is what queues are for.
        """
        node.load.awaited = waiting and self.heartbeat_wait
        node.guaranteed_awaited = followed and self.heartbeat_wait
        self.touch_node(node)
        self.monitor.refresh(node.load)

    def ms(self, now: float) -> int:
        """``now`` as people's time, epoch milliseconds."""
        return int((now + self.identity.wall_offset) * 1000)

    def why_unknown(self, identifier: str) -> str:
        """Why there is no application or container of an id."""
        ours = str(self.identity.cluster_timestamp)
        if ours in identifier.split("_"):
            return "none of that number is known: it never was, or it ended long ago"
        return f"it is of another cluster, or of another start of this one: the ids of this one have {ours}"

    def reply(self, call_id: int, response: Any) -> None:
        """Answer a call."""
        self.out.append(Reply(call_id, response))

    def reply_to_master(self, held: HeldCall, response: AllocateResponse) -> None:
        """Answer an allocate call, in the protocol over which it came."""
        if held.distributed:
            nodes = self.nodes_for_scheduling()
            self.reply(held.call_id, DistributedSchedulingAllocateResponse(response, nodes))
        else:
            self.reply(held.call_id, response)

    def nodes_for_scheduling(self) -> tuple[RemoteNode, ...]:
        """The least loaded nodes, as DistributedSchedulers see them."""
        return tuple(self.nodes[load.node_id].remote() for load in self.monitor.least_loaded())

    def refuse(self, call_id: int, error: YoppError) -> None:
        """Refuse a call."""
        self.out.append(ReplyError(call_id, error))

    def touch(self, attempt: RMAppAttempt) -> None:
        """There may be news for this attempt's master."""
        self.touched_attempts[attempt.id] = attempt

    def nodes_changed(self, now: float, node: RMNode | None = None) -> None:
        """Nodes came or went: masters are told of ``node``, and asks that no node can serve any more are
        refused, once the others that may be on their way have had time to come.
        """
        self.deadlines.ensure(HOPELESS, now + NODES_SETTLE)
        if node is not None:
            self.tell_masters(node)

    def tell_masters(self, node: RMNode) -> None:
        """Something changed with a node: masters are told what it is like now, unless all nodes end."""
        if self.ending:
            return
        report = node.report(self.identity.wall_offset)
        for app in self.live.values():
            if app.attempt.awaits_master:
                app.attempt.updated_nodes.put(node.node_id, report)
                self.touch(app.attempt)

    def touch_node(self, node: RMNode) -> None:
        """There may be news for this node."""
        self.touched_nodes[node.node_id] = node

    def running_nodes(self) -> list[RMNode]:
        """Nodes that may be allocated to now."""
        return [node for node in self.nodes.values() if node.usable]
