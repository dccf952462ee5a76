"""Why asks wait, node by node (YARN's ``ActivitiesManager``). Reads the books when asked, and records nothing.

YARN records the rounds of its scheduler, as each begins with a node's heartbeat. Here every event is followed by all
that can be allocated, so what stands against an ask is the same until the next event: it is enough to look.
"""

from __future__ import annotations

from ...allocation.asks import Ask
from ...machine.calls import CallReceived
from ...records.scheduler_protocol import (
    ApplicationActivity,
    GetActivitiesRequest,
    GetActivitiesResponse,
    NodeActivity,
    RequestActivity,
)
from ..context import RMContext
from ..entities import RMApp, RMAppAttempt, RMNode
from .explain_asks import AskReasons, is_gone

MOST_REQUESTS = 100
"""Asks of one application that are told of; more of them wait for the same."""


class ActivitiesService:
    """Answers ``getActivities`` calls."""

    def __init__(self, context: RMContext) -> None:
        self._context = context
        self._asks = AskReasons(context)

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
            if (name == request.node_id if request.node_id else not is_gone(node))
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
        return RequestActivity(
            ask.request.priority,
            ask.request.allocation_request_id,
            ask.request.execution_type_request.execution_type,
            ask.resource,
            ask.outstanding,
            self._asks.limit(attempt, ask),
            tuple(NodeActivity(node.node_id, self._asks.at_node(attempt, ask, node)) for node in nodes),
        )
