"""Why asks wait, node by node (YARN's ``ActivitiesManager``). Reads the books when asked, and records nothing.

YARN records the rounds of its scheduler, as each begins with a node's heartbeat. Here every event is followed by all
that can be allocated, so what stands against an ask is the same until the next event: it is enough to look.
"""

from __future__ import annotations

from executor.records import ExecutionType

from ...allocation.asks import Ask, admits
from ...machine.calls import CallReceived
from ...records.reports import NodeState
from ...records.scheduler_protocol import (
    ApplicationActivity,
    GetActivitiesRequest,
    GetActivitiesResponse,
    NodeActivity,
    RequestActivity,
)
from ..context import RMContext
from ..entities import GONE, RMApp, RMAppAttempt, RMNode
from ..reports import node_report
from ..scheduler import queues

MOST_REQUESTS = 100
"""Asks of one application that are told of; more of them wait for the same."""
_LIMITS = {
    queues.QUEUE_CAPACITY: "queue {queue}, or one above it, has what its maximum-capacity allows",
    queues.USER_LIMIT: "user {user} has what one user may have in queue {queue} now",
    queues.AM_LIMIT: "masters have what they may have in queue {queue}",
}
_GONE = GONE | {NodeState.DECOMMISSIONED}


class ActivitiesService:
    """Answers ``getActivities`` calls."""

    def __init__(self, context: RMContext) -> None:
        self._context = context

    def get(self, call: CallReceived, request: GetActivitiesRequest, now: float) -> None:
        """Raises ApplicationNotFoundError, NodeNotFoundError."""
        context = self._context
        if request.application_id:
            context.application(request.application_id)
        if request.node_id:
            context.node(request.node_id)
        nodes = [
            node
            for name, node in context.nodes.items()
            if (name == request.node_id if request.node_id else node.state not in _GONE)
        ]
        wanted = [app for app in context.live.values() if not app.ended]
        if request.application_id:
            wanted = [app for app in wanted if app.id == request.application_id]
        found = tuple(self._application(app, nodes) for app in wanted)
        context.reply(call.call_id, GetActivitiesResponse(found, context.ms(now)))

    def _application(self, app: RMApp, nodes: list[RMNode]) -> ApplicationActivity:
        attempt = app.attempt
        asks = [ask for table in attempt.tables for ask in table if ask.outstanding]
        return ApplicationActivity(
            app.id,
            tuple(queue.settings.name for queue in reversed(list(app.leaf.line()))),
            app.context.priority,
            tuple(self._request(attempt, ask, nodes) for ask in asks[:MOST_REQUESTS]),
        )

    def _request(self, attempt: RMAppAttempt, ask: Ask, nodes: list[RMNode]) -> RequestActivity:
        kind = ask.request.execution_type_request.execution_type
        limit = ""
        if kind is ExecutionType.GUARANTEED and not self._context.scheduler.queues.plain:
            leaf = attempt.app.leaf
            word = leaf.refuses(attempt.app.user, ask.resource, master=ask is attempt.am_ask)
            limit = _LIMITS[word].format(user=attempt.app.user, queue=leaf.path) if word else ""
        return RequestActivity(
            ask.request.priority,
            ask.request.allocation_request_id,
            kind,
            ask.resource,
            ask.outstanding,
            limit,
            tuple(_at_node(attempt, ask, node, kind) for node in nodes),
        )


def _at_node(attempt: RMAppAttempt, ask: Ask, node: RMNode, kind: ExecutionType) -> NodeActivity:
    reason, size = "", ask.resource
    if not admits(ask, node.place, attempt.blacklist):
        reason = "the ask's place, label or blacklist excludes this node"
    elif not size.fits_in(node.total):
        reason = f"the node has {node.total} in all, and the ask is for {size}"
    elif not node.usable:
        word = node.state.value if node.state is not NodeState.RUNNING else "its connection is down"
        reason = f"the node takes no containers now: {word}"
    elif kind is ExecutionType.GUARANTEED:
        if not node.fits_guaranteed(size):
            reason = f"{(node.total - node.used).at_least_zero()} are left, and the ask is for {size}"
    elif node.load.awaited:
        reason = "guaranteed containers wait for room here, and nothing is queued before them"
    else:
        told = node_report(node, 0.0).opportunistic
        reason = f"no room for {size}, and the queue is full ({told.queued} of {told.queue_capacity} places)"
    return NodeActivity(node.node_id, reason or "there is room: it is others' turn", not reason)
