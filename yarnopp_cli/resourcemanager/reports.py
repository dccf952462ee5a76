"""Reports of the ResourceManager's entities: one function for each kind. Changes no state."""

from __future__ import annotations

from executor.light import made_of, replace
from executor.records import ContainerFacts, Resource

from ..records.distributed_protocol import RemoteNode
from ..records.reports import (
    ApplicationAttemptReport,
    ApplicationReport,
    ApplicationResourceUsage,
    ContainerGrant,
    ContainerReport,
    NodeReport,
)
from .entities import RMApp, RMAppAttempt, RMContainer, RMNode
from .lives import Phase
from .scheduler.queues import dominant_share

_NOTHING_TOLD = ContainerFacts()


def container_report(container: RMContainer) -> ContainerReport:
    """The report of a container."""
    told, app = container.status or _NOTHING_TOLD, container.app
    return made_of(
        ContainerReport,
        container,
        told,
        container_id=container.id,
        application_id=app.id,
        node_id=container.node.node_id,
        execution_type=container.execution_type,
        resource=container.resource,
        version=container.version,
        user=app.user,
        submitted_at_ms=app.submitted_at_ms,
        finished_at_ms=told.finished_at_ms or container.finished_at_ms,
        task=app.task_of(container.id),
    )


def container_grant(container: RMContainer) -> ContainerGrant:
    """The facts about a container that its node does not know."""
    app = container.app
    return made_of(
        ContainerGrant,
        container,
        container.status or _NOTHING_TOLD,
        container_id=container.id,
        application_id=app.id,
        node_id=container.node.node_id,
        user=app.user,
        submitted_at_ms=app.submitted_at_ms,
        task=app.task_of(container.id),
    )


def node_report(node: RMNode, wall_offset: float) -> NodeReport:
    """The report of a node; ``wall_offset`` plus the machine's seconds is wall time."""
    return made_of(
        NodeReport,
        node.registration,
        node,
        num_containers=node.guaranteed_containers,
        guaranteed_paused=sum(
            one.phase is Phase.PAUSED and one.is_guaranteed for one in node.containers.values()
        ),
        opportunistic=node.load.status,
        last_heartbeat_ms=int((node.last_contact + wall_offset) * 1000),
        state_since_ms=int((node.state_since + wall_offset) * 1000),
    )


def remote_node(node: RMNode) -> RemoteNode:
    """A node as a DistributedScheduler sees it. If a guaranteed container waits there, the report shows no room in the
    queue."""
    load = node.load
    return made_of(
        RemoteNode,
        node.registration,
        load,
        free=load.free,
        queue_room=0 if load.awaited else max(0, load.queue_room),
    )


def attempt_report(attempt: RMAppAttempt) -> ApplicationAttemptReport:
    """The report of an attempt."""
    container_id, node_id, http_address = _master(attempt)
    return made_of(
        ApplicationAttemptReport,
        attempt,
        attempt_id=attempt.id,
        state=attempt.state.value,
        am_container_id=container_id,
        am_node_id=node_id,
        am_http_address=http_address,
        user=attempt.app.user,
        hosted=attempt.app.hosted,
        blacklist=tuple(sorted(attempt.blacklist)),
    )


def _master(attempt: RMAppAttempt) -> tuple[str, str, str]:
    """The master's container, the node of this container, and the address of the node's pages."""
    if (container := attempt.am_container) is None:
        return "", "", ""
    return container.id, container.node.node_id, container.node.registration.http_address


def application_report(app: RMApp, now: float) -> ApplicationReport:
    """The report of an application; its usage is counted until ``now``."""
    app.accrue(now)
    context, attempt = app.context, app.attempt
    container_id, node_id, _ = _master(attempt)
    counts = {f"containers_{phase.value.lower()}": number for phase, number in app.counts.items()}
    return made_of(
        ApplicationReport,
        context,
        app,
        **counts,
        current_attempt_id=attempt.id,
        am_container_id=container_id,
        am_node_id=node_id,
        allocated=app.guaranteed + app.opportunistic_running,
        pending_containers=attempt.outstanding,
        opportunistic_pending=attempt.opportunistic_asks.outstanding,
        memory_seconds=int(app.memory_seconds),
        vcore_seconds=int(app.vcore_seconds),
        attempts=len(app.attempts),
        timeout_at_ms=app.timed_from_ms + context.timeout_ms if context.timeout_ms > 0 else 0,
        usage=_usage(app),
        results=context.results.replace("{job}", app.id),
    )


def _usage(app: RMApp) -> ApplicationResourceUsage:
    attempt, master = app.attempt, app.attempt.am_container
    groups = [] if app.ended else [one for table in attempt.tables for one in table.groups()]
    *_, root = app.leaf.line()
    part = dominant_share(app.guaranteed, root.guaranteed)
    return made_of(
        ApplicationResourceUsage,
        app.context,
        app,
        master=master.resource if master and not app.ended else Resource(),
        queue_percent=100 * part / (app.leaf.share or 1),
        cluster_percent=100 * part,
        preempted_memory_seconds=int(app.preempted_memory_seconds),
        preempted_vcore_seconds=int(app.preempted_vcore_seconds),
        requests=tuple(
            replace(
                next(iter(group.values())).request,
                num_containers=sum(ask.outstanding for ask in group.values()),
            )
            for group in groups
        ),
        am_http_address=_master(attempt)[2],
    )
