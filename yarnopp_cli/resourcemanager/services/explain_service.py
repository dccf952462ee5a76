"""``explain`` and ``getActivities``: why things wait, as the ResourceManager's books have it.

Reads the books when asked, and records nothing. YARN's ``ActivitiesManager`` records the rounds of its scheduler, as
each begins with a node's heartbeat. Here every event is followed by all that can be allocated, so what stands against
an ask is the same until the next event: it is enough to look.
"""

from __future__ import annotations

from itertools import islice

from executor.records import ExecutionType

from ...allocation.asks import Ask
from ...explain.estimates import Durations
from ...explain.explanations import (
    ApplicationSnapshot,
    Asked,
    explain_application,
    explain_container,
    explain_node,
)
from ...explain.snapshot import NodeSnapshot
from ...records import scheduler_protocol as scheduling
from ...records.explanation import Expected, ExplainRequest, ExplainResponse, Explanation, Reason, ReasonKind
from ...records.reports import ContainerReport, YarnApplicationState
from ..context import RMContext
from ..entities import RMApp, RMAppAttempt, RMNode
from ..reports import container_report
from .explain_asks import AskReasons, is_gone

MOST_FINISHED = 500
"""Ended containers that an estimate looks at: the latest."""
MOST_REQUESTS = 100
"""Asks of one application that are told of; more of them wait for the same."""


class ExplainService:
    """Answers ``explain`` and ``getActivities`` calls."""

    def __init__(self, context: RMContext) -> None:
        self._rm = context
        self._asks = AskReasons(context)

    def explain(self, request: ExplainRequest) -> ExplainResponse:
        """Explain one id. Raises the error of its kind where there is no such thing."""
        name = request.id
        if name.startswith("container_"):
            explanation = self._container(name)
        elif name.startswith(("application_", "appattempt_")):
            explanation = self._application(self._rm.application(name))
        else:
            node = self._snapshot(self._rm.node(name), self._finished())
            explanation = explain_node(node, self._rm.now_ms)
        return ExplainResponse(explanation)

    def _finished(self, app: RMApp | None = None) -> list[ContainerReport]:
        """Ended containers that estimates learn from: the latest, and the latest of ``app``."""
        finished = self._rm.finished_containers
        latest = list(islice(reversed(finished.values()), MOST_FINISHED))
        if app is not None and not any(one.app is app for one in latest):
            own = (one for one in reversed(finished.values()) if one.app is app)
            latest += islice(own, MOST_FINISHED)
        return list(map(container_report, latest))

    def _snapshot(self, node: RMNode, finished: list[ContainerReport]) -> NodeSnapshot:
        containers = list(map(container_report, node.containers.values()))
        return NodeSnapshot(self._rm.node_report(node), containers, finished, fresh=False)

    def _container(self, container_id: str) -> Explanation:
        found = self._rm.container(container_id)
        node = self._rm.nodes.get(found.node.node_id)
        here = None if node is None else self._snapshot(node, self._finished(found.app))
        return explain_container(container_report(found), here, self._rm.now_ms)

    # -- applications ----------------------------------------------------------------------------------------

    def _application(self, app: RMApp) -> Explanation:
        now_ms = self._rm.now_ms
        if app.ended:
            why = " ".join(app.diagnostics.split())
            ended = f"{app.state.value} {app.final_status.value}{f' ({why})' if why else ''}"
            return Explanation(app.id, "application", app.state.value, now_ms, app.finished_ms, ended=ended)
        attempt = app.attempt
        finished = self._finished(app)
        durations = Durations(finished)
        asked = self._asked(attempt, durations, why=True)
        nodes = [node for node in self._rm.nodes.values() if not is_gone(node) or node.containers]
        snapshot = ApplicationSnapshot(
            app.id,
            app.state.value,
            app.started_ms or app.submitted_ms,
            app.submitted_ms,
            list(map(container_report, attempt.containers.values())),
            [self._snapshot(node, finished) for node in nodes],
            finished,
            asked,
            self._ahead(app, durations) if asked else [],
            sum(one.number for one in asked) - (attempt.am_ask.outstanding if attempt.am_ask else 0),
            _master_reason(attempt) if app.state is YarnApplicationState.ACCEPTED else None,
        )
        return explain_application(snapshot, now_ms)

    def _asked(self, attempt: RMAppAttempt, durations: Durations, *, why: bool) -> list[Asked]:
        """Outstanding asks, those of one shape, type and duration together: they wait for the same. ``why``: with the
        reasons.
        """
        groups: dict[tuple[object, ExecutionType, int], list[Ask]] = {}
        for ask in (*attempt.guaranteed_asks, *attempt.opportunistic_asks):
            key = (ask.shape(), ask.execution_type, ask.request.duration_hint_ms)
            groups.setdefault(key, []).append(ask)
        found = []
        for (_, kind, hint), equals in groups.items():
            ask = equals[0]
            expected = Expected() if ask is attempt.am_ask else durations.of_task(hint, attempt.app.id)
            found.append(
                Asked(
                    sum(one.outstanding for one in equals),
                    ask.resource,
                    kind,
                    expected,
                    min(one.waiting_since_ms or one.asked_ms for one in equals),
                    frozenset(node.node_id for node in self._asks.could_serve(attempt, ask)),
                    tuple(self._asks.reasons(attempt, ask)) if why else (),
                    self._asks.limit(attempt, ask) is not None,
                    attempt.app.leaf.path,
                )
            )
        return found

    def _ahead(self, app: RMApp, durations: Durations) -> list[Asked]:
        """What applications that were submitted before it have asked for."""
        found: list[Asked] = []
        for other in self._rm.live.values():
            if other is app:
                break
            found += [one for one in self._asked(other.attempt, durations, why=False) if not one.limited]
        return found

    # -- activities ------------------------------------------------------------------------------------------

    def get_activities(self, request: scheduling.GetActivitiesRequest) -> scheduling.GetActivitiesResponse:
        """Why asks wait, node by node. Raises ApplicationNotFoundError, NodeNotFoundError."""
        nodes = [node for node in self._rm.nodes.values() if not is_gone(node)]
        if request.node_id:
            nodes = [self._rm.node(request.node_id)]
        apps = list(self._rm.live.values())
        if request.application_id:
            apps = [self._rm.application(request.application_id)]
        found = tuple(self._activity(app, nodes) for app in apps if not app.ended)
        return scheduling.GetActivitiesResponse(found, self._rm.now_ms)

    def _activity(self, app: RMApp, nodes: list[RMNode]) -> scheduling.ApplicationActivity:
        attempt = app.attempt
        asks = [ask for table in attempt.tables for ask in table]
        return scheduling.ApplicationActivity(
            app.id,
            tuple(queue.settings.name for queue in reversed(list(app.leaf.line()))),
            app.context.priority,
            tuple(self._request(attempt, ask, nodes) for ask in asks[:MOST_REQUESTS]),
        )

    def _request(self, attempt: RMAppAttempt, ask: Ask, nodes: list[RMNode]) -> scheduling.RequestActivity:
        return scheduling.RequestActivity(
            ask.request.priority,
            ask.request.allocation_request_id,
            ask.execution_type,
            ask.resource,
            ask.outstanding,
            self._asks.limit(attempt, ask),
            tuple(
                scheduling.NodeActivity(node.node_id, self._asks.at_node(attempt, ask, node))
                for node in nodes
            ),
        )


def _master_reason(attempt: RMAppAttempt) -> Reason:
    if attempt.app.unmanaged:
        return Reason(ReasonKind.MASTER_IN_CLIENT)
    if attempt.am_container is None:
        return Reason(ReasonKind.MASTER_WAITS)
    container = attempt.am_container
    return Reason(ReasonKind.MASTER_STARTS, by=(container.id,), where=container.node.node_id)
