"""The invariants of the RM's state. Reads everything, changes nothing."""

from __future__ import annotations

from collections import Counter

from executor.records import Resource

from ..allocation.cluster_node import Claim
from ..records.reports import GONE, NodeState
from .context import RMContext
from .due import Due, DueKind
from .entities import ENDED_ATTEMPT_STATES, RMApp, RMNode
from .lives import AttemptState, Phase
from .scheduler.queues import total_of

_LIVE_PHASES = (Phase.ALLOCATED, Phase.QUEUED, Phase.RUNNING, Phase.PAUSED)


def check_invariants(context: RMContext) -> None:
    """Assert every invariant of the RM. For tests, the simulator, and ``--validate``."""
    _check_containers(context)
    for node in context.nodes.values():
        _check_node(context, node)
    for app in context.applications.values():
        _check_application(context, app)
    scheduler = context.scheduler
    _check_queues(context)
    assert scheduler.used == total_of(node.used for node in context.nodes.values())
    assert set(scheduler.nodes) == {
        node_id
        for node_id, node in context.nodes.items()
        if node.state not in (*GONE, NodeState.DECOMMISSIONED)
    }
    assert scheduler.total == total_of(node.total for node in scheduler.nodes.values())
    assert sum(scheduler.node_sizes.values()) == len(scheduler.nodes)
    assert set(context.draining) == {
        node_id for node_id, node in context.nodes.items() if node.state is NodeState.DECOMMISSIONING
    }
    context.monitor.validate()
    context.opportunistic_waiting.validate()
    scheduler.validate()
    changes = context.changes
    assert not (
        changes.moved or changes.masters_ended or changes.attempts or changes.nodes or changes.beating
    )
    assert not changes.commands and not changes.awaited
    assert len(context.finished_containers) <= context.settings.max_retained_containers
    assert len(context.history) <= max(0, context.settings.event_history_size)
    assert len(context.completed) <= context.settings.max_completed_applications


def _check_queues(context: RMContext) -> None:
    """Assert that the usage of each queue and user is the sum of the guaranteed containers of their applications."""
    tree = context.scheduler.queues
    used = {path: Resource() for path in tree.leaves}
    users: dict[tuple[str, str], Resource] = {}
    for app in context.applications.values():
        leaf = app.leaf
        if app.guaranteed != Resource():
            used[leaf.path] = used[leaf.path] + app.guaranteed
            users[leaf.path, app.user] = users.get((leaf.path, app.user), Resource()) + app.guaranteed
        live = not app.ended and bool(app.attempts)
        assert live == (app.attempts[-1].id in leaf.attempts if app.attempts else False)
    for path, leaf in tree.leaves.items():
        assert leaf.used == used[path], f"{path} uses {leaf.used} and its applications {used[path]}"
        for user, use in leaf.users.items():
            assert use.workers >= 0 and use.masters >= 0
            assert use.used == users.get((path, user), Resource())
    for queue in tree.by_path.values():
        if queue.children:
            assert queue.used == total_of(child.used for child in queue.children)
            assert queue.guaranteed == total_of(child.guaranteed for child in queue.children)
    held: dict[str, Resource] = {}
    for container in context.live_containers.values():
        if not container.is_guaranteed:
            user = container.app.user
            held[user] = held.get(user, Resource()) + container.resource
    assert context.shares.by_user == {user: what for user, what in held.items() if what != Resource()}


def _check_containers(context: RMContext) -> None:
    """Assert that every live container is in the books of its own node and attempt, and in no others."""
    live = context.live_containers
    for container in live.values():
        assert container.phase in _LIVE_PHASES, f"{container.id} is live and {container.phase}"
        assert container.node.containers.get(container.id) is container
        assert container.attempt.containers.get(container.id) is container
        assert container.attempt.app is container.app
        assert context.nodes.get(container.node.node_id) is container.node
        unclaimed = Due(DueKind.UNCLAIMED, container.id) in context.deadlines
        assert unclaimed == (container.status is None), f"{container.id}: expiry of a claimed container"
    assert sum(len(node.containers) for node in context.nodes.values()) == len(live)
    assert not live.keys() & context.finished_containers.keys()


def _check_node(context: RMContext, node: RMNode) -> None:
    guaranteed = [container for container in node.containers.values() if container.is_guaranteed]
    assert node.used == total_of([*(one.resource for one in guaranteed), *node.kept.values()])
    assert node.guaranteed_containers == len(guaranteed)
    if node.state in GONE:
        assert not node.containers and node.held is None and not node.connected
    assert (node.node_id in context.monitor) == (node.usable and context.monitor.knows(node.load)), (
        f"{node.node_id} and the load monitor disagree"
    )
    if node.held is None:
        assert not node.answer_due and Due(DueKind.HELD_HEARTBEAT, node.node_id) not in context.deadlines
    else:
        assert Due(DueKind.HELD_HEARTBEAT, node.node_id) in context.deadlines, (
            f"{node.node_id} would wait for ever"
        )
    load = node.load
    for container_id in load.claims:
        container = node.containers[container_id]
        assert container.status is None and not container.is_guaranteed
    free = [resource for claim, resource in load.claims.values() if claim is Claim.FREE]
    claimed = Resource(load.claimed_memory, load.claimed_vcores, load.claimed_others.others)
    assert claimed == total_of(free)
    assert load.claimed_queue == len(load.claims) - len(free)
    for box in node.mailboxes():
        box.validate()
    starts = [one.container.id for one in node.to_start.items()]
    starts += [one.container_id for one in node.tasks_to_start.items()]
    for container_id in starts:
        assert node.containers[container_id].status is None


def _check_application(context: RMContext, app: RMApp) -> None:
    ended = app.ended
    assert (app.id in context.live) == (not ended or app.finishing)
    containers = list(app.containers())
    counts = Counter(container.phase for container in containers)
    for attempt in app.attempts:
        for box in attempt.mailboxes():
            box.validate()
        if attempt is not app.attempt or ended:
            assert attempt.state in ENDED_ATTEMPT_STATES or app.finishing
            assert not attempt.outstanding
            assert attempt.held is None and not attempt.updates
            assert attempt.id not in context.opportunistic_waiting
        if attempt.held is not None:
            assert Due(DueKind.HELD_ALLOCATE, attempt.id) in context.deadlines, (
                f"{attempt.id} would wait for ever"
            )
        waiting = attempt.id in context.opportunistic_waiting
        assert waiting == bool(attempt.opportunistic_asks.outstanding)
        for table in attempt.tables:
            assert table.outstanding == sum(ask.outstanding for ask in table)
            assert all(ask.outstanding > 0 for ask in table)
            assert sum(len(group) for group in table.groups()) == len(table)
    assert all(app.counts[phase] == counts[phase] for phase in _LIVE_PHASES)
    assert app.guaranteed == total_of(one.resource for one in containers if one.is_guaranteed)
    assert app.running == total_of(one.resource for one in containers if one.phase is Phase.RUNNING)
    if app.finishing:
        assert app.attempt.state is AttemptState.FINISHING
        assert Due(DueKind.FINISHING, app.id) in context.deadlines
    if not ended and app.attempt.awaits_master:
        assert Due(DueKind.MASTER_LIVENESS, app.attempt.id) in context.deadlines, (
            f"{app.attempt.id} could be silent for ever"
        )
