"""What a node has, who has it, what waits there, and why it takes nothing more. Pure."""

from __future__ import annotations

from executor.records import ExecutionType

from ..records.explanation import Explanation, Reason, ReasonCode, Suggestion
from ..records.reports import NodeReport, NodeState
from .containers import NodeSight, estimated, limit_of, limit_text, shortages, unusable
from .estimates import BY_NODE, Durations, Expected, Start, starts
from .waited import waited
from .words import amount, are, begins, by_type, capital, held_by, short, span


def explain_node(sight: NodeSight, now_ms: int) -> Explanation:
    """A node in words. ``estimated_start_ms`` is that of the first in its queue, ``estimated_last_ms`` the last's."""
    node, free, queue = sight.node, sight.free(), sight.queued()
    running, paused = sight.running(), sight.paused()
    state = (
        f"{node.state.value}{'' if node.connected or node.state is not NodeState.RUNNING else ' and silent'}"
    )
    runs = by_type(running)
    sentence = [
        f"{node.node_id} is {state}: {runs or 'no containers'} {are(len(running) or 2, 'runs', 'run')}, "
        f"{len(queue)} {are(len(queue), 'waits', 'wait')}, {len(paused)} {are(len(paused))} paused.",
        f"Free: {amount(free)} of {amount(node.total)}.",
        limit_text(node),
    ]
    reasons = _node_reasons(sight)
    sentence += [f"{capital(one.text)}." for one in reasons]
    first = last = None
    if queue:
        head = queue[0]
        lacks = shortages(head.resource, free, node.total, running, paused)
        reasons += lacks
        why = " and ".join(one.text for one in lacks) or "there is room for it, or others make it"
        holders = [one for one in running if one.resource.vcores or not head.resource.vcores]
        sentence.append(
            f"First in its queue is {short(head.container_id)}: {why}{held_by(holders, now_ms) if lacks else ''}."
        )
        first, last = _first_and_last(sight, now_ms)
        if first is not None:
            sentence.append(f"It {begins(first)}{_last_text(last, len(queue))}.")
    newcomer = node.opportunistic.estimated_queue_wait_ms
    if node.state is NodeState.RUNNING and node.connected and newcomer > 0:
        sentence.append(
            f"A further opportunistic container would wait about {span(newcomer)} (the node's estimate)."
        )
    times = [waited(one, now_ms) for one in queue]
    found = Explanation(
        node.node_id,
        "node",
        node.state.value,
        " ".join(sentence),
        since_ms=node.state_since_ms,
        satisfiable=node.state in (NodeState.RUNNING, NodeState.UNHEALTHY, NodeState.DECOMMISSIONING),
        waits=bool(queue),
        reasons=tuple(reasons),
        queue_length=len(queue),
        queue_limit=limit_of(node),
        actions=tuple(node_actions(node, queue[0].container_id if queue else "")),
        waited_since_submit_ms=max((one.since_submit for one in times), default=-1),
        waited_since_eligible_ms=max((one.since_eligible for one in times), default=-1),
    )
    return estimated(found, first, last, now_ms)


def _first_and_last(sight: NodeSight, now_ms: int) -> tuple[Start | None, Start | None]:
    """When the first and the last of its queue may start. Where durations are not known, what the node estimates."""
    if sight.pressed():
        return None, None
    queue = [one.container_id for one in sight.queued()]
    found = starts(
        {sight.node.node_id: sight.lane(Durations(sight.finished), now_ms)},
        (),
        frozenset((queue[0], queue[-1])),
    )
    first, last = found.get(queue[0], [None])[0], found.get(queue[-1], [None])[0]
    wait = sight.node.opportunistic.estimated_queue_wait_ms
    if first is None and last is None and wait > 0 and not sight.finished:
        length = len(queue)
        first, last = (Start(round(wait * part / (length + 1)), Expected(0, BY_NODE)) for part in (1, length))
    return first, last


def _last_text(last: Start | None, length: int) -> str:
    if length < 2:
        return ""
    if last is None:
        return "; when the last does cannot be said"
    return f"; the last of the {length} in about {span(last.in_ms)}"


def _node_reasons(sight: NodeSight) -> list[Reason]:
    """Why it takes nothing, or no more of a type."""
    node, status = sight.node, sight.node.opportunistic
    found = unusable(node)
    if found:
        return found
    if sight.pressed():
        room = sight.free_for(ExecutionType.OPPORTUNISTIC)
        text = f"the rest of this machine is busy: opportunistic containers may start on {amount(room)} now"
        vcores = status.lent_vcores < 0
        found.append(
            Reason(
                ReasonCode.PRESSURE, text, "vcores" if vcores else "memoryMB", 1,
                room.vcores if vcores else room.memory, node.total.vcores if vcores else node.total.memory,
            )
        )  # fmt: skip
    queued, limit = status.queued, limit_of(node)
    if queued >= limit and sight.queued():
        text = f"its queue is full: {queued} of {limit} opportunistic containers wait, and it is sent no further ones"
        found.append(Reason(ReasonCode.QUEUE_CAPACITY, text, "containers", 1, max(0, limit - queued), limit))
    left = (node.total - node.used).at_least_zero()
    if not left.vcores or not left.memory:
        text = (
            "guaranteed containers have all of it: no further guaranteed one fits, and none can be promoted"
        )
        holders = [
            one.container_id for one in sight.running() if one.execution_type is ExecutionType.GUARANTEED
        ]
        code = ReasonCode.NO_MEMORY if left.vcores else ReasonCode.NO_VCORES
        name, total = ("memoryMB", node.total.memory) if left.vcores else ("vcores", node.total.vcores)
        found.append(Reason(code, text, name, 1, 0, total, tuple(holders[:20])))
    return found


def node_actions(node: NodeReport, first_queued: str = "") -> list[Suggestion]:
    """What can be typed about a node."""
    found = []
    port = node.node_id.rpartition(":")[2]
    if node.state in (NodeState.DECOMMISSIONING, NodeState.DECOMMISSIONED):
        found.append(Suggestion(f"yopp node resume {node.node_id}", "uses it again"))
    elif node.state in (NodeState.LOST, NodeState.SHUTDOWN) or not node.connected:
        found.append(Suggestion(f"yopp nm start {port}", "starts it again, if its NodeManager has ended"))
    elif node.state is NodeState.UNHEALTHY:
        found.append(Suggestion("yopp doctor", "says what stands in the way on this host"))
    if first_queued:
        found.append(Suggestion(f"yopp explain {first_queued}", "says more of the first in its queue"))
    found.append(Suggestion(f"yopp ps --node {node.node_id}", "shows the containers there"))
    return found
