"""Allocates containers after each event, and sheds queued containers for other users.

Connects the choices of the schedulers (``scheduler``) with the ledger. YARN's
``OpportunisticContainerAllocatorAMService`` and the allocating half of ``CapacityScheduler``.

Decisions: guaranteed-first.
"""

from __future__ import annotations

from executor.causes import Cause, CauseKind
from executor.records import ContainerExitStatus, ExecutionType

from ..allocation.asks import Ask
from ..allocation.cluster_node import Claim, ClusterNode
from .app_manager import RMAppManager
from .container_ledger import ContainerLedger
from .container_updates import ContainerUpdates
from .context import RMContext
from .entities import RMApp, RMAppAttempt, RMNode
from .scheduler.opportunistic_shares import QueueShedder

SHED = "Opportunistic container gave its place in the queue to another user"


class ContainerAllocation:
    """Allocates containers (``allocate``) at the end of each step."""

    def __init__(
        self, context: RMContext, ledger: ContainerLedger, manager: RMAppManager, updates: ContainerUpdates
    ) -> None:
        self._rm = context
        self._ledger = ledger
        self._manager = manager
        self._updates = updates
        self._shedder = QueueShedder(context.shares)
        #: attempts that were given opportunistic containers in this step
        self._served: dict[str, RMAppAttempt] = {}

    def allocate(self) -> None:
        """Allocate guaranteed containers first, then opportunistic ones on the resources that are left.

        In the other order, an opportunistic container could get resources that a guaranteed one of the same call takes
        from it a moment later.
        """
        changes = self._rm.changes
        beating = None if self._rm.heartbeat_wait else list(changes.beating.values())
        if changes.guaranteed or beating:
            self._updates.grant(beating)
            changes.guaranteed = False
            self._rm.scheduler.assign(self._grant_guaranteed, beating)
        waiting, monitor = self._rm.opportunistic_waiting, self._rm.monitor
        if waiting and (
            changes.opportunistic
            or (monitor.gained and (waiting.contended or monitor.may_take(waiting.least)))
        ):
            self._allocate_opportunistic()
        changes.opportunistic = False
        monitor.gained.clear()

    def _allocate_opportunistic(self) -> None:
        waiting = self._rm.opportunistic_waiting
        order = waiting.begin(self._rm.scheduler.total)
        self._rm.allocator.allocate(order, self._grant_opportunistic, waiting.least)
        for attempt in self._served.values():
            if not attempt.opportunistic_asks.outstanding:
                waiting.remove(attempt.id)
        self._served.clear()
        if waiting and self._rm.capacity.shed_queued:
            self._shed()

    def _grant_opportunistic(self, attempt: RMAppAttempt, ask: Ask, load: ClusterNode, claim: Claim) -> None:
        node = self._rm.nodes[load.node_id]
        if self._may_be_guaranteed(attempt.app, ask, node):
            self._grant_guaranteed(attempt, ask, node)
        else:
            self._grant(attempt, ask, node, ExecutionType.OPPORTUNISTIC, claim)
        self._rm.metrics.granted(attempt.id, ask.key, ask.locations, load, ask.outstanding, self._rm.now)
        self._rm.opportunistic_waiting.served(attempt)
        self._served[attempt.id] = attempt

    def _may_be_guaranteed(self, app: RMApp, ask: Ask, node: RMNode) -> bool:
        """Whether an opportunistic ask may get a guaranteed container: ``node`` has free room for it, no container is
        preempted for it, and no guaranteed ask waits for the room."""
        if not self._rm.settings.may_be_guaranteed or ask.request.execution_type_request.enforce:
            return False
        size = ask.resource
        if not node.load.fits_free(size) or not node.fits_guaranteed(size) or node.load.awaited:
            return False
        return not self._rm.scheduler.refuses(app, size)

    def _grant_guaranteed(self, attempt: RMAppAttempt, ask: Ask, node: RMNode) -> None:
        self._grant(attempt, ask, node, ExecutionType.GUARANTEED)

    def _grant(
        self,
        attempt: RMAppAttempt,
        ask: Ask,
        node: RMNode,
        execution_type: ExecutionType,
        claim: Claim | None = None,
    ) -> None:
        container = self._ledger.grant(attempt, ask, node, execution_type, claim)
        if container.is_am:
            self._manager.master_allocated(container)
        else:
            attempt.allocated.put(container.id, (container, container.container()))
            self._rm.news_for_master(attempt)

    def _shed(self) -> None:
        """Take queue places from users above their share, for users who found no place."""
        bound = self._rm.settings.max_allocations_per_heartbeat
        chosen = self._shedder.choose(
            self._rm.opportunistic_waiting,
            self._rm.live_containers,
            self._rm.scheduler.total,
            lambda attempt: bound <= 0 or attempt.since_call < bound,
        )
        for container in chosen:
            text = f"{SHED}: {container.app.user} uses more than a fair share"
            status = ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER
            self._ledger.end_at_node(container, Cause(CauseKind.PREEMPTED, text=text), SHED, status)
