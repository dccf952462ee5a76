"""Why asks are not served: which nodes could serve one at all, what those lack, and which limit stands against it.

Reads the ResourceManager's books and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from executor.records import ExecutionType, Resource

from ...allocation.asks import Ask, admits
from ...explain.reasons import MOST_NAMED, beside_master, lacking, promised, too_big, unusable
from ...explain.snapshot import queue_limit
from ...records.explanation import CONTAINERS, Reason, ReasonCode, ReasonKind
from ...records.reports import NodeState
from ..context import RMContext
from ..entities import GONE, RMAppAttempt, RMContainer, RMNode
from ..reports import container_report
from ..scheduler import queues

MOST_TOLD = 3
"""So many nodes that take nothing new are told of."""


class AskReasons:
    """Looks at asks as they stand."""

    def __init__(self, context: RMContext) -> None:
        self._rm = context

    def could_serve(self, attempt: RMAppAttempt, ask: Ask) -> list[RMNode]:
        """The nodes that are there and large enough, and where it may go."""
        return [
            node
            for node in self._rm.nodes.values()
            if node.usable
            and admits(ask, node.load, attempt.blacklist)
            and ask.resource.fits_in(node.total)
            and _own_master(attempt, ask, node) is None
        ]

    def reasons(self, attempt: RMAppAttempt, ask: Ask) -> list[Reason]:
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
            draining = [one for one in every if one.code is ReasonCode.NODE_DRAINING]
            return (draining or every)[:MOST_TOLD]
        if _is_opportunistic(ask):
            return [self._full_queues(ask, usable)]
        return self._limited(attempt, ask) or self._no_room(ask, usable)

    def at_node(self, attempt: RMAppAttempt, ask: Ask, node: RMNode) -> Reason | None:
        """Why one node does not serve an ask now; None where it is others' turn."""
        if not admits(ask, node.load, attempt.blacklist):
            return Reason(ReasonKind.EXCLUDED, where=node.node_id)
        if not ask.resource.fits_in(node.total):
            return _too_big(ask, [node], ReasonKind.TOO_BIG_HERE)
        if not node.usable:
            return next(iter(unusable(self._rm.node_report(node))), None)
        if not _is_opportunistic(ask):
            return None if node.fits_guaranteed(ask.resource) else next(iter(_promised(ask, node, ())), None)
        return self._full_queues(ask, [node])

    def limit(self, attempt: RMAppAttempt, ask: Ask) -> Reason | None:
        """The limit of its queue or user that stands against an ask, where one does."""
        return None if _is_opportunistic(ask) else next(iter(self._limited(attempt, ask)), None)

    def _limited(self, attempt: RMAppAttempt, ask: Ask) -> list[Reason]:
        app, need, leaf = attempt.app, ask.resource, attempt.app.leaf
        if self._rm.scheduler.queues.plain:
            return []
        match leaf.refuses(app.user, need, master=ask is attempt.am_ask):
            case queues.QUEUE_CAPACITY:
                full = next(queue for queue in leaf.line() if queue.is_full_for(need))
                return [_at_limit(ReasonKind.QUEUE_MAXIMUM, full.path, need, full.used, full.maximum)]
            case queues.USER_LIMIT:
                used, limit = leaf.users[app.user].used, leaf.user_limit(need, leaf.active_users())
                return [
                    replace(_at_limit(ReasonKind.USER_LIMIT, leaf.path, need, used, limit), detail=app.user)
                ]
            case queues.AM_LIMIT:
                used, limit = leaf.masters_used, leaf.am_limit()
                return [_at_limit(ReasonKind.MASTERS_LIMIT, leaf.path, need, used, limit)]
        return []

    def _full_queues(self, ask: Ask, nodes: Sequence[RMNode]) -> Reason:
        """Opportunistic containers find neither room nor a place in a queue."""
        reports = list(map(self._rm.node_report, nodes))
        room = sum(map(queue_limit, reports))
        queued = sum(report.opportunistic.queued for report in reports)
        kind = ReasonKind.QUEUES_FULL if room else ReasonKind.QUEUES_OFF
        if any(node.load.awaited for node in nodes):
            kind = ReasonKind.QUEUES_CLOSED
        ids = tuple(node.node_id for node in nodes[:MOST_NAMED])
        amounts = (1, max(0, room - queued), room)
        return Reason(kind, CONTAINERS, *amounts, ids, number=queued, size=ask.resource)

    def _no_room(self, ask: Ask, nodes: Sequence[RMNode]) -> list[Reason]:
        """Guaranteed containers of others have what it needs, on the node that is nearest to having it."""

        def missing(node: RMNode) -> float:
            lacks = (ask.resource - (node.total - node.used)).at_least_zero()
            return lacks.vcores / max(1, node.total.vcores) + lacks.memory / max(1, node.total.memory)

        node = min(nodes, key=missing)
        holders = sorted(
            (one for one in node.containers.values() if one.execution_type is ExecutionType.GUARANTEED),
            key=lambda one: one.sequence,
        )
        return _promised(ask, node, holders) or [Reason(ReasonKind.NEXT)]


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


def _at_limit(kind: ReasonKind, where: str, need: Resource, used: Resource, limit: Resource) -> Reason:
    """A limit that ``need`` more than ``used`` would pass, told by the resource that passes it."""
    left = (limit - used).at_least_zero()
    return replace(lacking(kind, need, left, limit), where=where, used=used, limit=limit)


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


def is_gone(node: RMNode) -> bool:
    """Whether a node is no part of the cluster any more, or is drained and empty."""
    return node.state in GONE or node.state is NodeState.DECOMMISSIONED
