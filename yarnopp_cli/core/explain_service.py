"""``explain``: the ResourceManager's own knowledge of applications, containers and nodes, put into words.

Reads the books and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from executor.records import ContainerState, ExecutionType, Resource

from ..errors import ApplicationNotFoundError, ContainerNotFoundError, NodeNotFoundError
from ..records.explanation import (
    ExplainRequest,
    ExplainResponse,
    Explanation,
    Reason,
    ReasonCode,
    Suggestion,
)
from ..records.reports import NodeState, YarnApplicationState
from . import queues
from .applications import RMApp, RMAppAttempt
from .asks import Ask, admits
from .calls import CallReceived
from .context import RMContext
from .explain import NodeSight, explain_container, explain_node, limit_of, short, too_big
from .nodes import RMNode

MOST_FINISHED = 500
"""Ended containers that an estimate looks at: the latest."""


class ExplainService:
    """Answers ``explain`` calls."""

    def __init__(self, context: RMContext) -> None:
        self._context = context

    def get(self, call: CallReceived, request: ExplainRequest, now: float) -> None:
        """Explain one id. Raises the error of its kind where there is no such thing."""
        context, name = self._context, request.id
        if name.startswith("container_"):
            explanation = self._container(name, now)
        elif name.startswith(("application_", "appattempt_")):
            app = context.applications.get(name)
            if app is None:
                raise ApplicationNotFoundError(
                    f"Application with id '{name}' doesn't exist in RM.", hint="yopp app list -a", sought=name
                )
            explanation = self._application(app, now)
        else:
            node = context.nodes.get(name)
            if node is None:
                raise NodeNotFoundError(f"Node {name} doesn't exist", hint="yopp node list", sought=name)
            explanation = explain_node(self._sight(node), context.ms(now))
        context.reply(call.call_id, ExplainResponse(explanation))

    def _sight(self, node: RMNode) -> NodeSight:
        offset = self._context.identity.wall_offset
        finished = self._context.containers.finished
        latest = [finished[name] for name in list(finished)[-MOST_FINISHED:]]
        return NodeSight(
            node.report(offset),
            [one.report(offset) for one in node.containers.values()],
            [one.report(offset) for one in latest],
        )

    def _container(self, container_id: str, now: float) -> Explanation:
        context = self._context
        ledger = context.containers
        found = ledger.live.get(container_id) or ledger.finished.get(container_id)
        if found is None:
            raise ContainerNotFoundError(
                f"Container with id '{container_id}' doesn't exist in RM.",
                hint="yopp ps -a",
                sought=container_id,
            )
        node = context.nodes.get(found.node.node_id)
        sight = None if node is None else self._sight(node)
        return explain_container(found.report(context.identity.wall_offset), sight, context.ms(now))

    # -- applications ----------------------------------------------------------------------------------------

    def _application(self, app: RMApp, now: float) -> Explanation:
        if app.ended:
            why = " ".join(app.diagnostics.split())
            text = f"{app.id} has ended: {app.state.value} {app.final_status.value}" + (
                f" ({why})." if why else "."
            )
            return Explanation(app.id, "application", app.state.value, text, since_ms=app.finished_ms)
        attempt = app.attempt
        reasons: list[Reason] = []
        if app.state is YarnApplicationState.ACCEPTED:
            reasons.append(self._master_reason(attempt))
        asks = [*attempt.guaranteed_asks, *attempt.opportunistic_asks]
        outstanding = sum(ask.outstanding for ask in asks if ask is not attempt.am_ask)
        impossible = []
        for ask in _distinct(asks):
            found = self._ask_reasons(attempt, ask)
            impossible.append(any(one.code in (ReasonCode.TOO_BIG, ReasonCode.NO_NODE) for one in found))
            reasons += [one for one in found if one not in reasons]
        queued = [
            one.status
            for one in attempt.containers.values()
            if one.status is not None and one.status.state is ContainerState.SCHEDULED
        ]
        counts = _counts_text(attempt, outstanding)
        parts = [f"{app.id} is {app.state.value}: {counts}."]
        parts += [f"{reason.text[:1].upper()}{reason.text[1:]}." for reason in reasons]
        actions: list[Suggestion] = []
        if queued:
            first = min(queued, key=lambda one: (one.position or 1 << 30, one.container_id))
            parts.append(
                f"`yopp explain {first.container_id}` tells of {short(first.container_id)}, which queues."
            )
            actions.append(Suggestion(f"yopp explain {first.container_id}", "says why that container queues"))
        if not (reasons or queued or outstanding):
            parts.append("Nothing of it waits.")
        actions.append(Suggestion(f"yopp app kill {app.id}", "ends it"))
        return Explanation(
            app.id,
            "application",
            app.state.value,
            " ".join(parts),
            since_ms=app.started_ms or app.submitted_ms,
            satisfiable=not (impossible and all(impossible)),
            waits=bool(reasons or queued or outstanding),
            reasons=tuple(reasons),
            actions=tuple(actions),
        )

    def _master_reason(self, attempt: RMAppAttempt) -> Reason:
        if attempt.app.unmanaged:
            return Reason(ReasonCode.AM_PENDING, "its master, in the client, has not registered yet")
        if attempt.am_container is None:
            return Reason(ReasonCode.AM_PENDING, "its master waits for a container")
        where = attempt.am_container.node.node_id
        return Reason(
            ReasonCode.AM_PENDING,
            f"its master's container is on {where}, and the master has not registered yet",
            by=(attempt.am_container.id,),
        )

    def _ask_reasons(self, attempt: RMAppAttempt, ask: Ask) -> list[Reason]:
        """Why an ask is not served now: of the nodes that may serve it, what each lacks, in one reason."""
        nodes = [node for node in self._context.nodes.values() if not _gone(node)]
        if not nodes:
            return [Reason(ReasonCode.NO_NODE, "there is no node")]
        admitted = [node for node in nodes if admits(ask, node.place, attempt.blacklist)]
        if not admitted:
            places = ", ".join(ask.locations) or ask.request.node_label_expression or "where it may go"
            return [Reason(ReasonCode.NO_NODE, f"no node is at {places}, and no other will do")]
        large = [node for node in admitted if ask.resource.fits_in(node.total)]
        if not large:
            where = "the only node" if len(admitted) == 1 else "no node has so much: the largest"
            return [too_big(ask.resource, [node.total for node in admitted], where)]
        usable = [node for node in large if node.usable]
        if not usable:
            draining = any(node.state is NodeState.DECOMMISSIONING for node in large)
            code = ReasonCode.NODE_DRAINING if draining else ReasonCode.NODE_UNUSABLE
            return [Reason(code, "no node that could serve it takes containers now")]
        if ask.request.execution_type_request.execution_type is ExecutionType.OPPORTUNISTIC:
            return [_full_queues(ask, usable)]
        return self._limited(attempt, ask) or _no_room(ask, usable)

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
                    f"queue {full.path} has {full.used} of the {full.maximum} that are its maximum-capacity"
                )
                return [_at_limit(ReasonCode.QUEUE_CAPACITY, text, need, full.used, full.maximum)]
            case queues.USER_LIMIT:
                used = leaf.users[app.user].used
                limit = leaf.user_limit(need, leaf.active_users())
                text = f"user {app.user} has {used} of the {limit} that one user may have in queue {leaf.path} now"
                return [_at_limit(ReasonCode.USER_LIMIT, text, need, used, limit)]
            case queues.AM_LIMIT:
                limit = leaf.am_limit()
                text = (
                    f"masters have {leaf.masters_used} of the {limit} that they may have in queue {leaf.path}"
                )
                return [_at_limit(ReasonCode.AM_PENDING, text, need, leaf.masters_used, limit)]
        return []


def _at_limit(code: ReasonCode, text: str, need: Resource, used: Resource, limit: Resource) -> Reason:
    """A limit that ``need`` more than ``used`` would pass, told by the resource that passes it."""
    left = (limit - used).at_least_zero()
    if need.vcores > left.vcores:
        return Reason(code, text, "vcores", need.vcores, left.vcores, limit.vcores)
    return Reason(code, text, "memoryMB", need.memory, left.memory, limit.memory)


def _gone(node: RMNode) -> bool:
    return node.state in (NodeState.LOST, NodeState.SHUTDOWN, NodeState.DECOMMISSIONED)


def _distinct(asks: Sequence[Ask]) -> list[Ask]:
    """One ask of each shape and type: the others wait for the same."""
    found: dict[object, Ask] = {}
    for ask in asks:
        if ask.outstanding:
            kind = ask.request.execution_type_request.execution_type
            found.setdefault((ask.shape(), kind), ask)
    return list(found.values())


def _full_queues(ask: Ask, nodes: Sequence[RMNode]) -> Reason:
    """Opportunistic containers find neither room nor a place in a queue."""
    reports = [node.report(0.0) for node in nodes]
    room = sum(limit_of(report) for report in reports)
    queued = sum(report.opportunistic.queued for report in reports)
    text = f"no node has room for {ask.resource}, and their queues are full ({queued} of {room} places)"
    if any(node.load.awaited for node in nodes):
        text = f"guaranteed containers wait for room, and nothing is queued before them ({queued} of {room} places)"
    elif not room:
        text = f"no node has room for {ask.resource} now, and none has a queue (its length is 0)"
    return Reason(
        ReasonCode.QUEUE_CAPACITY,
        text,
        "containers",
        1,
        max(0, room - queued),
        room,
        tuple(node.node_id for node in nodes[:20]),
    )


def _no_room(ask: Ask, nodes: Sequence[RMNode]) -> list[Reason]:
    """Guaranteed containers of others have what it needs, on the node that is nearest to having it."""
    needs = ask.resource

    def missing(node: RMNode) -> tuple[float, float]:
        left = node.total - node.used
        lacks = (needs - left).at_least_zero()
        return (lacks.vcores / max(1, node.total.vcores) + lacks.memory / max(1, node.total.memory), 0.0)

    node = min(nodes, key=missing)
    left = (node.total - node.used).at_least_zero()
    holders = [one for one in node.containers.values() if one.execution_type is ExecutionType.GUARANTEED]
    by = tuple(one.id for one in sorted(holders, key=lambda one: one.allocated_at)[:20])
    found = []
    for code, name, wanted, free, total in _amounts(needs, left, node.total):
        if wanted > free:
            unit = "MB of memory" if name == "memoryMB" else "vcores" if wanted != 1 else "vcore"
            text = f"a guaranteed container of {needs} needs {wanted} {unit}; {free} of {total} are left"
            found.append(Reason(code, f"{text} on {node.node_id}", name, wanted, free, total, by))
    if not found:
        text = "there is room for it: it is served in the next step, or others of its queue are before it"
        found.append(Reason(ReasonCode.BEHIND, text))
    return found


def _amounts(needs: Resource, left: Resource, total: Resource) -> list[tuple[ReasonCode, str, int, int, int]]:
    return [
        (ReasonCode.NO_VCORES, "vcores", needs.vcores, left.vcores, total.vcores),
        (ReasonCode.NO_MEMORY, "memoryMB", needs.memory, left.memory, total.memory),
    ]


def _counts_text(attempt: RMAppAttempt, outstanding: int) -> str:
    states: dict[str, int] = {}
    for one in attempt.containers.values():
        state = one.phase.value.lower()
        states[state] = states.get(state, 0) + 1
    parts = [f"{number} {state}" for state, number in states.items()]
    if outstanding:
        parts.append(f"{outstanding} asked for and not granted yet")
    return ", ".join(parts) or "no containers"
