"""The ResourceManager's entities as people see them: one function for each kind of report. Reads, changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from executor.records import Resource

from ..records.distributed_protocol import RemoteNode
from ..records.reports import (
    ApplicationAttemptReport,
    ApplicationReport,
    ApplicationResourceUsage,
    ContainerReport,
    NodeReport,
)
from .entities import RMApp, RMAppAttempt, RMContainer, RMNode
from .lives import Phase
from .scheduler.queues import dominant_share


def container_report(container: RMContainer) -> ContainerReport:
    """A container."""
    status, app = container.status, container.app
    told: dict[str, Any] = {} if status is None else {**status.facts(), "state": status.state}
    told |= {
        "user": app.user,
        "version": container.version,
        "finished_at_ms": told.get("finished_at_ms") or container.finished_ms,
    }
    return ContainerReport(
        container_id=container.id,
        application_id=app.id,
        node_id=container.node.node_id,
        execution_type=container.execution_type,
        resource=container.resource,
        priority=container.priority,
        allocated_at_ms=container.allocated_ms,
        is_am=container.is_am,
        promoted_at_ms=container.promoted_ms,
        preemptions=container.preemptions,
        submitted_at_ms=app.submitted_ms,
        eligible_at_ms=container.eligible_ms,
        **told,
    )


def node_report(node: RMNode, wall_offset: float) -> NodeReport:
    """A node; ``wall_offset`` is what to add to the machine's seconds for people's time."""
    registration = node.registration
    return NodeReport(
        node_id=node.node_id,
        state=node.state,
        address=registration.address,
        http_address=registration.http_address,
        rack=registration.rack,
        labels=registration.labels,
        total=node.total,
        used=node.used,
        num_containers=node.guaranteed_containers,
        opportunistic=node.load.status,
        node_utilization=node.node_utilization,
        containers_utilization=node.containers_utilization,
        queue_limit=node.queue_limit,
        last_heartbeat_ms=int((node.last_contact + wall_offset) * 1000),
        state_since_ms=int((node.state_since + wall_offset) * 1000),
        health_report=node.health_report,
        version=registration.version,
        connected=node.connected,
        pid=registration.pid,
    )


def remote_node(node: RMNode) -> RemoteNode:
    """A node as a DistributedScheduler sees it. Where a guaranteed container waits the queue has no room."""
    load = node.load
    return RemoteNode(
        node_id=node.node_id,
        address=node.registration.address,
        rack=load.rack,
        labels=load.labels,
        total=load.total,
        free=Resource(load.free_memory, load.free_vcores),
        queue_length=load.queue_length,
        queue_room=0 if load.awaited else max(0, load.queue_room),
        http_address=node.registration.http_address,
    )


def attempt_report(attempt: RMAppAttempt) -> ApplicationAttemptReport:
    """An attempt."""
    master = attempt.am_container
    return ApplicationAttemptReport(
        attempt_id=attempt.id,
        state=attempt.state.value,
        am_container_id=master.id if master else "",
        diagnostics=attempt.diagnostics,
        started_at_ms=attempt.started_ms,
        finished_at_ms=attempt.finished_ms,
        am_node_id=master.node.node_id if master else "",
        am_http_address=master.node.registration.http_address if master else "",
        user=attempt.app.user,
        blacklist=tuple(sorted(attempt.blacklist)),
    )


def application_report(app: RMApp, now: float) -> ApplicationReport:
    """An application; what it has used is counted until ``now``."""
    app.accrue(now)
    context, counts = app.context, app.counts
    attempt = app.attempts[-1] if app.attempts else None
    master = attempt.am_container if attempt else None
    return ApplicationReport(
        application_id=app.id,
        name=context.name,
        user=app.user,
        queue=context.queue,
        application_type=context.application_type,
        state=app.state,
        final_status=app.final_status,
        progress=app.progress,
        diagnostics=app.diagnostics,
        priority=context.priority,
        tags=context.tags,
        current_attempt_id=attempt.id if attempt else "",
        am_container_id=master.id if master else "",
        am_node_id=master.node.node_id if master else "",
        unmanaged=context.unmanaged,
        submitted_at_ms=app.submitted_ms,
        started_at_ms=app.started_ms,
        finished_at_ms=app.finished_ms,
        allocated=app.guaranteed + app.opportunistic_running,
        containers_allocated=counts[Phase.ALLOCATED],
        containers_queued=counts[Phase.QUEUED],
        containers_running=counts[Phase.RUNNING],
        containers_paused=counts[Phase.PAUSED],
        containers_done=counts[Phase.DONE],
        containers_failed=counts[Phase.FAILED],
        containers_preempted=counts[Phase.PREEMPTED],
        containers_shed=app.shed,
        pending_containers=attempt.outstanding if attempt else 0,
        opportunistic_allocated_total=app.opportunistic_total,
        guaranteed_allocated_total=app.guaranteed_total,
        promoted_total=app.promoted_total,
        opportunistic_pending=attempt.opportunistic_asks.outstanding if attempt else 0,
        memory_seconds=int(app.memory_seconds),
        vcore_seconds=int(app.vcore_seconds),
        attempts=len(app.attempts),
        log_directory=app.log_directory,
        command_line=context.command_line,
        summary=app.summary,
        timeout_at_ms=app.submitted_ms + context.timeout_ms if context.timeout_ms > 0 else 0,
        usage=_usage(app, attempt),
        tracking_url=app.proxy_url,
    )


def _usage(app: RMApp, attempt: RMAppAttempt | None) -> ApplicationResourceUsage:
    """What an application has, wants and lost."""
    master = attempt.am_container if attempt else None
    groups = (
        [] if attempt is None or app.ended else [one for table in attempt.tables for one in table.groups()]
    )
    *_, root = app.leaf.line()
    part = dominant_share(app.guaranteed, root.guaranteed)
    return ApplicationResourceUsage(
        guaranteed=app.guaranteed,
        master=master.resource if master and not app.ended else Resource(),
        queue_percent=100 * part / app.leaf.share if app.leaf.share > 0 else 0.0,
        cluster_percent=100 * part,
        preempted=app.preempted,
        preempted_masters=app.preempted_masters,
        preempted_memory_seconds=int(app.preempted_memory_seconds),
        preempted_vcore_seconds=int(app.preempted_vcore_seconds),
        requests=tuple(
            replace(
                next(iter(group.values())).request,
                num_containers=sum(ask.outstanding for ask in group.values()),
            )
            for group in groups
            if group
        ),
        am_http_address=master.node.registration.http_address if master else "",
        node_label_expression=app.context.node_label_expression,
    )
