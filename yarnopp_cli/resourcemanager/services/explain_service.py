"""``explain`` and ``getActivities``: why things wait, as the ResourceManager's books have it.

Reads the state on request, and records nothing. YARN's ``ActivitiesManager`` records the rounds of its scheduler, one
for each heartbeat of a node. Here, every event is followed by all possible allocations, so the reason why a request
waits is the same until the next event and can be computed from the state.

Decisions: history-in-a-ring.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from executor.light import replace
from executor.reasons import beside_master, lacking, too_big
from executor.records import ExecutionType

from ...allocation.asks import Ask, admits, could_serve
from ...explain import explanations
from ...explain.estimates import Asked, Durations
from ...explain.reasons import MOST_NAMED, promised
from ...explain.snapshot import NodeSnapshot, queue_limit
from ...machine.calls import CallReceived
from ...records import scheduler_protocol as scheduling
from ...records.explanation import (
    CONTAINERS,
    ExplainRequest,
    Explanation,
    Reason,
    ReasonCode,
    ReasonKind,
    unusable,
)
from ...records.reports import GONE, ContainerReport, NodeState, YarnApplicationState
from ...records.tracker_protocol import Arrivals, NodeQuestion
from ..context import RMContext
from ..entities import RMApp, RMAppAttempt, RMContainer, RMNode
from ..inquiries import Answers, Inquiries
from ..reports import application_report, container_report
from ..scheduler.preemption import PreemptionMonitor

MOST_FINISHED = 500
"""Ended containers that an estimate looks at: the latest."""
MOST_TOLD = 3
"""The maximum number of reported nodes that accept nothing new."""
MOST_REQUESTS = 100
"""The maximum number of reported requests of one application; more of them wait for the same reason."""


_OF_QUEUES = (ReasonKind.QUEUES_CLOSED, ReasonKind.QUEUES_FULL)
"""If nodes refuse a container for several reasons, the first of these is told."""


class ExplainService:
    """Answers ``explain`` and ``getActivities`` calls. ``held_back`` returns how many tasks of an application its
    hosted master holds back, and the bound."""

    def __init__(
        self,
        context: RMContext,
        preemption: PreemptionMonitor,
        inquiries: Inquiries,
        held_back: Callable[[str], tuple[int, int]],
    ) -> None:
        self._rm = context
        self._preemption = preemption
        self._inquiries = inquiries
        self._held_back = held_back

    def explain(self, call: CallReceived, request: ExplainRequest) -> Any:
        """Explain one id, as soon as the nodes have said why its containers wait. Raises the error of its kind if it
        does not exist.
        """
        name, arrivals, app = request.id, dict[str, list[Arrivals]](), None
        if name.startswith("container_"):
            of = self._rm.container(name)
            app, nodes = of.app, [of.node] if of.id in of.node.containers else []
        elif name.startswith(("application_", "appattempt_")):
            app = self._rm.application(name)
            waiting = (one for one in app.containers() if one.status is not None and not app.ended)
            arrivals = self._arrivals(app)
            ids = dict.fromkeys((*(one.node.node_id for one in waiting), *arrivals))
            nodes = [self._rm.nodes[node_id] for node_id in ids]
        else:
            nodes = [self._rm.node(name)]
        live = (one for node in self._rm.nodes.values() for one in node.containers.values()) if nodes else ()
        durations = Durations(self._finished(app), map(container_report, live), self._rm.now_ms)
        questions = {}
        for node in nodes:
            later = tuple(arrivals.get(node.node_id, ()))
            apps = (*(one.app.id for one in node.containers.values()), *(one.application_id for one in later))
            times = durations.of_node(dict.fromkeys(apps), node.node_id)
            about = "" if app is None else app.id if name.startswith("app") else name
            questions[node.node_id] = NodeQuestion(0, about, times, later)
        return self._inquiries.ask(call, questions, lambda answers: self._explained(name, answers))

    def _explained(self, name: str, answers: Answers) -> Explanation:
        if name.startswith("container_"):
            return self._container(name, answers)
        if name.startswith(("application_", "appattempt_")):
            return self._application(self._rm.application(name), answers)
        node = self._snapshot(self._rm.node(name), self._finished(), answers)
        return explanations.explain_node(node, self._rm.now_ms)

    def _finished(self, app: RMApp | None = None) -> list[ContainerReport]:
        """Ended containers that estimates learn from: the latest, and the latest of ``app``."""
        finished = self._rm.finished_containers
        latest = list(islice(reversed(finished.values()), MOST_FINISHED))
        if app is not None and not any(one.app is app for one in latest):
            own = (one for one in reversed(finished.values()) if one.app is app)
            latest += islice(own, MOST_FINISHED)
        return list(map(container_report, latest))

    def _snapshot(self, node: RMNode, finished: list[ContainerReport], answers: Answers) -> NodeSnapshot:
        answer = answers.get(node.node_id)
        told = {} if answer is None else {one.container_id: one for one in answer.statuses}
        live = [
            report.merged(told[report.container_id]) if report.container_id in told else report
            for report in map(container_report, node.containers.values())
        ]
        return NodeSnapshot(self._rm.node_report(node), live, finished, answer)

    def _container(self, container_id: str, answers: Answers) -> Explanation:
        found = self._rm.container(container_id)
        node, report, here = self._rm.nodes.get(found.node.node_id), container_report(found), None
        if node is not None:
            here = self._snapshot(node, self._finished(found.app), answers)
            report = next((one for one in here.live if one.container_id == container_id), report)
        return explanations.explain_container(report, here, self._rm.now_ms)

    # -- applications ----------------------------------------------------------------------------------------

    def _application(self, app: RMApp, answers: Answers) -> Explanation:
        now_ms = self._rm.now_ms
        if app.ended:
            return explanations.explain_ended(application_report(app, self._rm.now), now_ms)
        attempt = app.attempt
        finished = self._finished(app)
        there = [node for node in self._rm.nodes.values() if not _is_gone(node) or node.containers]
        nodes = [self._snapshot(node, finished, answers) for node in there]
        asked = self.asked(attempt, why=True)
        snapshot = explanations.ApplicationSnapshot(
            app.id,
            app.state.value,
            app.started_at_ms or app.submitted_at_ms,
            app.submitted_at_ms,
            [one for here in nodes for one in here.live if one.application_id == app.id],
            nodes,
            asked,
            sum(one.number for one in asked) - (attempt.am_ask.outstanding if attempt.am_ask else 0),
            _why_not_begun(app) if app.postponed else _why_no_master(app),
        )
        found = explanations.explain_application(snapshot, now_ms)
        held_back, most = self._held_back(app.id)
        return replace(
            found, deadline_at_ms=app.context.deadline_at_ms, held_back=held_back, max_running=most
        )

    def asked(self, attempt: RMAppAttempt, *, why: bool) -> list[Asked]:
        """Outstanding asks, those of one shape, type and duration together: they wait for the same. ``why``: with the
        reasons.
        """
        groups: dict[tuple[object, ExecutionType, int], list[Ask]] = {}
        for ask in (*attempt.guaranteed_asks, *attempt.opportunistic_asks):
            key = (ask.shape(), ask.execution_type, ask.request.duration_hint_ms)
            groups.setdefault(key, []).append(ask)
        return [
            Asked(
                sum(one.outstanding for one in equals),
                equals[0].resource,
                kind,
                hint_ms,
                min(one.waiting_since_ms or one.asked_ms for one in equals),
                self._could_serve(attempt, equals[0]),
                tuple(self._reasons(attempt, equals[0])) if why else (),
                self._limit(attempt, equals[0]) is not None,
                attempt.app.leaf.path,
                equals[0] is attempt.am_ask,
            )
            for (_, kind, hint_ms), equals in groups.items()
        ]

    def _arrivals(self, app: RMApp) -> dict[str, list[Arrivals]]:
        """What an application has requested, and what goes before it, by the id of the node to which it may go: where
        several nodes may serve a request, each gets an equal part of it."""
        found: dict[str, list[Arrivals]] = {}
        others = [one for one in self._rm.live.values() if one is not app]
        for other in (*others, app) if app.attempt.outstanding else ():
            for one in self.asked(other.attempt, why=False):
                nodes = sorted(one.nodes) if other is app or _goes_before(other, app, one.kind) else ()
                for place, node_id in enumerate(nodes if not one.limited else ()):
                    if number := one.number // len(nodes) + (place < one.number % len(nodes)):
                        facts = other.id, other.context.priority, one.hint_ms, one.is_master, other is app
                        arrivals = Arrivals(number, one.resource, one.kind, *facts)
                        found.setdefault(node_id, []).append(arrivals)
        return found

    # -- activities ------------------------------------------------------------------------------------------

    def get_activities(self, request: scheduling.GetActivitiesRequest) -> scheduling.GetActivitiesResponse:
        """Why asks wait, node by node. Raises ApplicationNotFoundError, NodeNotFoundError."""
        nodes = [node for node in self._rm.nodes.values() if not _is_gone(node)]
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
            self._limit(attempt, ask),
            tuple(scheduling.NodeActivity(node.node_id, self._at_node(attempt, ask, node)) for node in nodes),
        )

    # -- why asks are not served ----------------------------------------------------------------------------------

    def _could_serve(self, attempt: RMAppAttempt, ask: Ask) -> frozenset[str]:
        """The nodes that are there and large enough, and where it may go."""
        return frozenset(
            node.node_id
            for node in self._rm.nodes.values()
            if node.usable
            and could_serve(ask, node.load, attempt.blacklist)
            and _own_master(attempt, ask, node) is None
        )

    def _reasons(self, attempt: RMAppAttempt, ask: Ask) -> list[Reason]:
        """Why an ask is not served now: of the nodes that may serve it, what each lacks, in one reason."""
        nodes = [node for node in self._rm.nodes.values() if node.state not in GONE]
        if not nodes:
            return [Reason(ReasonKind.NO_NODES)]
        admitted = [node for node in nodes if admits(ask, node.load, attempt.blacklist)]
        if not admitted:
            return [_nowhere(attempt, ask, nodes)]
        large = [node for node in admitted if ask.resource.fits_in(node.total)]
        if not large:
            return [_too_big(ask, admitted, ReasonKind.TOO_BIG)]
        beside = [_own_master(attempt, ask, node) for node in large]
        if all(beside):
            return [one for one in beside[:1] if one is not None]
        usable = [node for node in large if node.usable]
        if not usable:
            every = [one for node in large for one in unusable(self._rm.node_report(node))]
            draining = [one for one in every if one.code == ReasonCode.NODE_DRAINING]
            return (draining or every)[:MOST_TOLD]
        if _is_opportunistic(ask):
            return [self._no_place(attempt, ask, usable) or Reason(ReasonKind.NEXT)]
        refused = self._limit(attempt, ask) or self._rm.scheduler.why_not(attempt, ask)
        given = refused is not None and refused.kind is not ReasonKind.PROMISED
        found = [refused] if given and refused is not None else self._no_room(ask, usable)
        return [*found, *self._preemption.under_way_for(attempt.app.leaf)]

    def _at_node(self, attempt: RMAppAttempt, ask: Ask, node: RMNode) -> Reason | None:
        """Why one node does not serve an ask now; None where it is others' turn."""
        if not admits(ask, node.load, attempt.blacklist):
            return Reason(ReasonKind.EXCLUDED, where=node.node_id)
        if not ask.resource.fits_in(node.total):
            return _too_big(ask, [node], ReasonKind.TOO_BIG_HERE)
        if not node.usable:
            return next(iter(unusable(self._rm.node_report(node))), None)
        if not _is_opportunistic(ask):
            return None if node.fits_guaranteed(ask.resource) else next(iter(_promised(ask, node, ())), None)
        return self._no_place(attempt, ask, [node])

    def _limit(self, attempt: RMAppAttempt, ask: Ask) -> Reason | None:
        """The limit of its queue or user that refuses an ask, told by the resource that would pass it."""
        if _is_opportunistic(ask):
            return None
        need, is_master = ask.resource, ask is attempt.am_ask
        refused = self._rm.scheduler.refuses(attempt.app, need, master=is_master)
        if refused is None or refused.kind is ReasonKind.RULE:
            return refused
        left = (refused.limit - refused.used).at_least_zero()
        amounts = lacking(refused.kind, need, left, refused.limit)
        return replace(
            refused, resource=amounts.resource, needs=amounts.needs, free=amounts.free, total=amounts.total
        )

    def _no_place(self, attempt: RMAppAttempt, ask: Ask, nodes: Sequence[RMNode]) -> Reason | None:
        """Why opportunistic containers find neither room nor a place in a queue; None if a node accepts them."""
        refused = [self._rm.allocator.why_not(ask, attempt, node.load) for node in nodes]
        known = {one.kind: one for one in refused if one is not None}
        if None in refused or ReasonKind.RULE in known:
            return None if None in refused else known[ReasonKind.RULE]
        reports = list(map(self._rm.node_report, nodes))
        room = sum(map(queue_limit, reports))
        queued = sum(report.opportunistic.queued for report in reports)
        ids = tuple(node.node_id for node in nodes[:MOST_NAMED])
        amounts = (1, max(0, room - queued), room)
        kind = next((one for one in _OF_QUEUES if one in known), ReasonKind.QUEUES_OFF)
        return Reason(kind, CONTAINERS, *amounts, ids, number=queued, size=ask.resource)

    def _no_room(self, ask: Ask, nodes: Sequence[RMNode]) -> list[Reason]:
        """Guaranteed containers of others have what it needs, on the node that is nearest to having it."""

        def missing(node: RMNode) -> float:
            lacks = (ask.resource - (node.total - node.used)).at_least_zero()
            of_others = sum(one.value / max(1, node.total.amount(one.name)) for one in lacks.others)
            return (
                lacks.vcores / max(1, node.total.vcores)
                + lacks.memory / max(1, node.total.memory)
                + of_others
            )

        node = min(nodes, key=missing)
        holders = [one for one in node.containers.values() if one.is_guaranteed]
        holders.sort(key=lambda one: one.sequence)
        return _promised(ask, node, holders) or [Reason(ReasonKind.NEXT)]


def _goes_before(other: RMApp, app: RMApp, kind: ExecutionType) -> bool:
    """Whether requests of another application are served before those of ``app``: within a queue the priority counts,
    else, and for opportunistic containers, the submission."""
    if kind is ExecutionType.OPPORTUNISTIC or other.leaf is not app.leaf:
        return other.number < app.number
    return (-other.context.priority, other.number) < (-app.context.priority, app.number)


def _why_not_begun(app: RMApp) -> tuple[Reason, ...]:
    """The reason why an application that is to begin later waits."""
    found = [Reason(ReasonKind.BEGINS_AT, at_ms=app.context.begin_at_ms)] if app.context.begin_at_ms else []
    for one in app.context.after:
        parent, _, condition = one.rpartition(":")
        found.append(Reason(ReasonKind.AFTER, where=parent, detail=condition))
    return tuple(found)


def _why_no_master(app: RMApp) -> tuple[Reason, ...]:
    """Why its master has not registered; nothing where it has."""
    attempt = app.attempt
    if app.state is not YarnApplicationState.ACCEPTED:
        return ()
    if app.unmanaged:
        return (Reason(ReasonKind.MASTER_IN_CLIENT),)
    if attempt.am_container is None:
        return (Reason(ReasonKind.MASTER_WAITS),)
    container = attempt.am_container
    return (Reason(ReasonKind.MASTER_STARTS, by=(container.id,), where=container.node.node_id),)


def _promised(ask: Ask, node: RMNode, holders: Sequence[RMContainer]) -> list[Reason]:
    left = (node.total - node.used).at_least_zero()
    return promised(ask.resource, node.node_id, left, node.total, list(map(container_report, holders)))


def _is_opportunistic(ask: Ask) -> bool:
    return ask.execution_type is ExecutionType.OPPORTUNISTIC


def _too_big(ask: Ask, nodes: Sequence[RMNode], kind: ReasonKind) -> Reason:
    return too_big(ask.resource, [(node.node_id, node.total) for node in nodes], kind)


def _own_master(attempt: RMAppAttempt, ask: Ask, node: RMNode) -> Reason | None:
    """Why an ask never fits on a node beside its own application's master; None where it does, or the master is
    elsewhere."""
    master = attempt.am_container
    if master is None or master.node is not node or ask is attempt.am_ask:
        return None
    return beside_master(ask.resource, master.resource, node.total, node.node_id)


def _nowhere(attempt: RMAppAttempt, ask: Ask, nodes: Sequence[RMNode]) -> Reason:
    """No node is one where it may go: for its label, its master's blacklist, or the places that it names."""
    label = ask.request.node_label_expression
    labelled = [node for node in nodes if (label in node.load.labels if label else not node.load.labels)]
    if not labelled:
        known = sorted({one for node in nodes for one in node.load.labels})
        return Reason(ReasonKind.NO_LABEL, detail=label, names=tuple(known))
    ids = tuple(node.node_id for node in labelled[:5])
    if all({node.load.host, node.node_id} & attempt.blacklist for node in labelled):
        return Reason(ReasonKind.BLACKLISTED, names=ids)
    return Reason(ReasonKind.ELSEWHERE, names=tuple(ask.locations)[:5], by=ids)


def _is_gone(node: RMNode) -> bool:
    """Whether a node is no part of the cluster any more, or is drained and empty."""
    return node.state in GONE or node.state is NodeState.DECOMMISSIONED
