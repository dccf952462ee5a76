"""Why asks are not served: which nodes could serve one at all, what those lack, and which limit stands against it.

Reads the ResourceManager's books and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from executor.records import ExecutionType, Resource

from ...allocation.asks import Ask, admits
from ...explain.containers import beside_master, limit_of, too_big, unusable
from ...explain.words import amount, count, listed, short, span
from ...records.explanation import Reason, ReasonCode
from ...records.reports import NodeState
from ..context import RMContext
from ..entities import RMAppAttempt, RMNode
from ..reports import node_report
from ..scheduler import queues


class AskReasons:
    """Looks at asks as they stand."""

    def __init__(self, context: RMContext) -> None:
        self._context = context

    def could_serve(self, attempt: RMAppAttempt, ask: Ask) -> list[RMNode]:
        """The nodes that are there and large enough, and where it may go."""
        return [
            node
            for node in self._context.nodes.values()
            if node.usable
            and admits(ask, node.place, attempt.blacklist)
            and ask.resource.fits_in(node.total)
            and _own_master(attempt, ask, node) is None
        ]

    def limited(self, attempt: RMAppAttempt, ask: Ask) -> bool:
        """Whether a limit of its queue stands against it."""
        kind = ask.request.execution_type_request.execution_type
        return kind is ExecutionType.GUARANTEED and bool(self._limited(attempt, ask))

    def reasons(self, attempt: RMAppAttempt, ask: Ask, now: float) -> list[Reason]:
        """Why an ask is not served now: of the nodes that may serve it, what each lacks, in one reason."""
        nodes = [
            node
            for node in self._context.nodes.values()
            if not is_gone(node) or node.state is NodeState.DECOMMISSIONED
        ]
        if not nodes:
            return [Reason(ReasonCode.NO_NODE, "there is no node")]
        admitted = [node for node in nodes if admits(ask, node.place, attempt.blacklist)]
        if not admitted:
            return [_nowhere(attempt, ask, nodes)]
        large = [node for node in admitted if ask.resource.fits_in(node.total)]
        if not large:
            only = len(admitted) == 1
            where = f"the only node for it, {admitted[0].node_id}," if only else "the largest node for it"
            return [too_big(ask.resource, [node.total for node in admitted], where)]
        beside = [_own_master(attempt, ask, node) for node in large]
        if all(beside):
            return [one for one in beside[:1] if one is not None]
        usable = [node for node in large if node.usable]
        if not usable:
            why = [one for node in large for one in unusable(node_report(node, 0.0))]
            draining = [one for one in why if one.code is ReasonCode.NODE_DRAINING]
            text = listed([one.text for one in (draining or why)[:3]])
            return [Reason((draining or why)[0].code, text, by=tuple(node.node_id for node in large[:20]))]
        if ask.request.execution_type_request.execution_type is ExecutionType.OPPORTUNISTIC:
            return [_full_queues(ask, usable)]
        return self._limited(attempt, ask) or _no_room(ask, usable, now, attempt.app.id)

    def _limited(self, attempt: RMAppAttempt, ask: Ask) -> list[Reason]:
        """The limit of its queue that stands against an ask, where one does."""
        app, need = attempt.app, ask.resource
        if self._context.scheduler.queues.plain:
            return []
        leaf, master = app.leaf, ask is attempt.am_ask
        match leaf.refuses(app.user, need, master=master):
            case queues.QUEUE_CAPACITY:
                full = next(queue for queue in leaf.line() if queue.is_full_for(need))
                text = (
                    f"queue {full.path} has {amount(full.used)} of the {amount(full.maximum)} that are its "
                    "maximum-capacity"
                )
                return [_at_limit(ReasonCode.QUEUE_CAPACITY, text, need, full.used, full.maximum)]
            case queues.USER_LIMIT:
                used = leaf.users[app.user].used
                limit = leaf.user_limit(need, leaf.active_users())
                text = (
                    f"user {app.user} has {amount(used)} of the {amount(limit)} that one user may have in queue "
                    f"{leaf.path} now"
                )
                return [_at_limit(ReasonCode.USER_LIMIT, text, need, used, limit)]
            case queues.AM_LIMIT:
                limit = leaf.am_limit()
                text = (
                    f"masters have {amount(leaf.masters_used)} of the {amount(limit)} that they may have in queue "
                    f"{leaf.path}"
                )
                return [_at_limit(ReasonCode.AM_PENDING, text, need, leaf.masters_used, limit)]
        return []


def _own_master(attempt: RMAppAttempt, ask: Ask, node: RMNode) -> Reason | None:
    """Why an ask never fits on a node beside its own application's master; None where it does, or the master is
    elsewhere."""
    master = attempt.am_container
    if master is None or master.node is not node or ask is attempt.am_ask:
        return None
    return beside_master(ask.resource, master.resource, node.total, node.node_id)


def _at_limit(code: ReasonCode, text: str, need: Resource, used: Resource, limit: Resource) -> Reason:
    """A limit that ``need`` more than ``used`` would pass, told by the resource that passes it."""
    left = (limit - used).at_least_zero()
    if need.vcores > left.vcores:
        return Reason(code, text, "vcores", need.vcores, left.vcores, limit.vcores)
    return Reason(code, text, "memoryMB", need.memory, left.memory, limit.memory)


def _nowhere(attempt: RMAppAttempt, ask: Ask, nodes: Sequence[RMNode]) -> Reason:
    """No node is one where it may go: for its label, its master's blacklist, or the places that it names."""
    label = ask.request.node_label_expression
    labelled = [node for node in nodes if (label in node.place.labels if label else not node.place.labels)]
    if not labelled:
        known = sorted({one for node in nodes for one in node.place.labels})
        there = f"the nodes have {listed(known)}" if known else "no node has a label"
        wants = f"no node has the label {label} that it names" if label else "it names no node label"
        return Reason(ReasonCode.NO_NODE, f"{wants}: {there}")
    names = [node.node_id for node in labelled]
    if all({node.place.host, node.node_id} & attempt.blacklist for node in labelled):
        return Reason(
            ReasonCode.NO_NODE, f"its master has blacklisted {listed(names[:5])}, and there is no other"
        )
    places = listed(list(ask.locations)[:5]) or "nowhere"
    return Reason(ReasonCode.NO_NODE, f"it may go to {places} only, and there is {listed(names[:5])}")


def is_gone(node: RMNode) -> bool:
    """Whether a node is no part of the cluster any more."""
    return node.state in (NodeState.LOST, NodeState.SHUTDOWN, NodeState.DECOMMISSIONED)


def _full_queues(ask: Ask, nodes: Sequence[RMNode]) -> Reason:
    """Opportunistic containers find neither room nor a place in a queue."""
    reports = [node_report(node, 0.0) for node in nodes]
    room = sum(limit_of(report) for report in reports)
    queued = sum(report.opportunistic.queued for report in reports)
    node = "the node has" if len(nodes) == 1 else "no node has"
    no = "no " if len(nodes) == 1 else ""
    queue = "its queue is" if len(nodes) == 1 else "their queues are"
    text = f"{node} {no}room for {amount(ask.resource)} now, and {queue} full ({queued} of {room} places)"
    if any(node.load.awaited for node in nodes):
        text = f"guaranteed containers wait for room, and nothing is queued before them ({queued} of {room} places)"
    elif not room:
        text = f"{node} {no}room for {amount(ask.resource)} now, and the queue length is 0: nothing waits at a node"
    return Reason(
        ReasonCode.QUEUE_CAPACITY,
        text,
        "containers",
        1,
        max(0, room - queued),
        room,
        tuple(node.node_id for node in nodes[:20]),
    )


def _no_room(ask: Ask, nodes: Sequence[RMNode], now: float, of: str) -> list[Reason]:
    """Guaranteed containers of others have what it needs, on the node that is nearest to having it."""
    needs = ask.resource

    def missing(node: RMNode) -> tuple[float, float]:
        left = node.total - node.used
        lacks = (needs - left).at_least_zero()
        return (lacks.vcores / max(1, node.total.vcores) + lacks.memory / max(1, node.total.memory), 0.0)

    node = min(nodes, key=missing)
    left = (node.total - node.used).at_least_zero()
    holders = sorted(
        (one for one in node.containers.values() if one.execution_type is ExecutionType.GUARANTEED),
        key=lambda one: one.allocated_at,
    )
    found = []
    for code, name, wanted, free, total in _amounts(needs, left, node.total):
        if wanted > free:
            amount_of = f"{wanted} MB of memory" if name == "memoryMB" else count(wanted, "vcore")
            having = [
                one for one in holders if (one.resource.memory if name == "memoryMB" else one.resource.vcores)
            ]
            held = ""
            if having:
                age = span((now - having[0].allocated_at) * 1000)
                held = (
                    f", {len(having)} guaranteed {'containers have' if len(having) > 1 else 'container has'} the rest "
                    f"({'oldest ' if len(having) > 1 else ''}{short(having[0].id, of)}, {age})"
                )
            text = f"a guaranteed container needs {amount_of}; {free} of {total} are left on {node.node_id}{held}"
            found.append(Reason(code, text, name, wanted, free, total, tuple(one.id for one in having[:20])))
    if not found:
        text = "there is room for it: it is served in the next step, or others of its queue are before it"
        found.append(Reason(ReasonCode.BEHIND, text))
    return found


def _amounts(needs: Resource, left: Resource, total: Resource) -> list[tuple[ReasonCode, str, int, int, int]]:
    return [
        (ReasonCode.NO_VCORES, "vcores", needs.vcores, left.vcores, total.vcores),
        (ReasonCode.NO_MEMORY, "memoryMB", needs.memory, left.memory, total.memory),
    ]
