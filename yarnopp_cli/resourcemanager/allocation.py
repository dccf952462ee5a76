"""Who is given containers after each event, and from whom they are taken back for others.

Brings together what the schedulers choose (``scheduler``) and what the ledger writes down. YARN's
``OpportunisticContainerAllocatorAMService`` and the allocating half of ``CapacityScheduler``.
"""

from __future__ import annotations

from executor.causes import Cause, CauseKind
from executor.records import ContainerExitStatus, ExecutionType

from ..allocation.asks import Ask
from ..allocation.load_monitor import Claim
from .app_manager import RMAppManager
from .container_ledger import ContainerLedger
from .container_updates import ContainerUpdates
from .context import RMContext
from .due import Due, DueKind
from .entities import RMApp, RMAppAttempt, RMContainer, RMNode
from .scheduler.opportunistic_shares import FairRotation
from .scheduler.preemption import PreemptionMonitor
from .scheduler.queue_shedding import QueueShedder

SHED = "Opportunistic container gave its place in the queue to another user"
PREEMPTED = "Container preempted by scheduler"


class ContainerAllocation:
    """``allocate`` at the end of each step."""

    def __init__(
        self, context: RMContext, ledger: ContainerLedger, manager: RMAppManager, updates: ContainerUpdates
    ) -> None:
        self._context = context
        self._ledger = ledger
        self._manager = manager
        self._updates = updates
        self._shedder = QueueShedder(context.shares)

    def allocate(self, now: float) -> None:
        """Guaranteed containers first: opportunistic ones go where these leave something.

        The other way round, an opportunistic container would be sent to resources that a guaranteed one of
        the same call takes from it a moment later.
        """
        context, changes = self._context, self._context.changes
        beating = None if context.heartbeat_wait else list(changes.beating.values())
        if changes.guaranteed or beating:
            self._updates.grant(now, beating)
            changes.guaranteed = False

            def grant(attempt: RMAppAttempt, ask: Ask, node: RMNode) -> None:
                self._grant(attempt, ask, node, ExecutionType.GUARANTEED, None, now)

            context.scheduler.assign(grant, beating)
        if context.opportunistic_waiting and (changes.opportunistic or context.monitor.gained):
            self._allocate_opportunistic(now)
        changes.opportunistic = context.monitor.gained = False

    def _allocate_opportunistic(self, now: float) -> None:
        context = self._context
        waiting = context.opportunistic_waiting

        def grant(attempt: RMAppAttempt, ask: Ask, node: RMNode, claim: Claim) -> None:
            if self._may_be_guaranteed(attempt.app, ask, node):
                self._grant(attempt, ask, node, ExecutionType.GUARANTEED, None, now)
            else:
                self._grant(attempt, ask, node, ExecutionType.OPPORTUNISTIC, claim, now)
            context.metrics.granted(attempt.id, ask.key, ask.locations, node.place, ask.outstanding, now)
            # The next turn is another's.
            waiting.move_to_end(attempt.id)

        context.allocator.allocate(
            list(waiting.values()),
            grant,
            lambda attempts: FairRotation(context.shares, context.scheduler.total, attempts),
        )
        for attempt in list(waiting.values()):
            if not attempt.opportunistic_asks.outstanding:
                del waiting[attempt.id]
        if waiting and context.capacity.shed_queued:
            self._shed(now)

    def _may_be_guaranteed(self, app: RMApp, ask: Ask, node: RMNode) -> bool:
        """Whether an opportunistic ask is served better than it wished: what ``node`` has free is free for
        all, nobody is preempted for it, and no guaranteed ask waits for it."""
        if not self._context.settings.may_be_guaranteed or ask.request.execution_type_request.enforce:
            return False
        size = ask.resource
        if not node.load.fits_free(size) or not node.fits_guaranteed(size) or node.load.awaited:
            return False
        return not self._context.scheduler.refuses(app, size)

    def _grant(
        self,
        attempt: RMAppAttempt,
        ask: Ask,
        node: RMNode,
        execution_type: ExecutionType,
        claim: Claim | None,
        now: float,
    ) -> None:
        container = self._ledger.grant(attempt, ask, node, execution_type, now, claim)
        if container.is_am:
            self._manager.master_allocated(container, now)
        else:
            attempt.allocated.put(container.id, (container, container.container()))
            self._context.news_for_master(attempt)

    def _shed(self, now: float) -> None:
        """Take places in queues back from users above their share, for those who found none."""
        context = self._context
        bound = context.settings.max_allocations_per_heartbeat
        waiting = [
            attempt
            for attempt in context.opportunistic_waiting.values()
            if bound <= 0 or attempt.since_call < bound
        ]
        for container in self._shedder.choose(waiting, context.live_containers, context.scheduler.total):
            container.preempted_for = f"{SHED}: {container.app.user} holds more than his share"
            container.preempted_as = ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER
            cause = Cause(CauseKind.PREEMPTED, text=container.preempted_for)
            self._ledger.end_at_node(container, now, cause, SHED)


class ContainerPreemption:
    """Guaranteed containers of queues above their capacity are marked, their masters told, and ended in time."""

    def __init__(self, context: RMContext, ledger: ContainerLedger) -> None:
        self._context = context
        self._ledger = ledger
        self._monitor = PreemptionMonitor(context.capacity, self._is_ending)

    def check(self, now: float) -> None:
        """At the end of each step: where asks found no room, queues are looked at before long."""
        context = self._context
        wanted = context.scheduler.starving and context.capacity.preemption_enabled
        if wanted and len(context.scheduler.queues.leaves) > 1:
            interval = context.capacity.preemption_interval_ms / 1000
            context.deadlines.ensure(Due(DueKind.PREEMPT), now + interval)

    def look(self, now: float) -> None:
        """Mark containers of queues above their capacity for one below, and tell their masters."""
        context, settings = self._context, self._context.capacity
        before = set(self._monitor.marked)
        for container in self._monitor.round(context.scheduler.queues, context.nodes.values()):
            if not container.is_am:
                container.attempt.preempting.put_new(container.id, container.id)
                context.news_for_master(container.attempt)
            if not settings.observe_only:
                due = now + settings.max_wait_before_kill_ms / 1000
                context.deadlines.set(Due(DueKind.PREEMPTED, container.id), due)
        for container_id in before - self._monitor.marked.keys():
            context.deadlines.clear(Due(DueKind.PREEMPTED, container_id))

    def kill(self, container_id: str, now: float) -> None:
        """The time of a marked container has come: it is ended if that is still of use."""
        self.look(now)
        marked = self._monitor.marked.pop(container_id, None)
        if marked is None:
            return
        container, wanting = marked
        wanting.owed = True
        container.preempted_for = f"{PREEMPTED}: queue {container.app.leaf.label} is above its capacity"
        cause = Cause(CauseKind.PREEMPTED, text=container.preempted_for)
        self._ledger.end_at_node(container, now, cause, PREEMPTED)

    def _is_ending(self, container: RMContainer) -> bool:
        return Due(DueKind.UNENDED, container.id) in self._context.deadlines
