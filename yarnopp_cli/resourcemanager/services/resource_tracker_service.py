"""What nodes tell and are told: registration, heartbeats, loss (YARN's ``ResourceTrackerService``).

A heartbeat may be held until there is something for its node; a newer one of the same node
answers the older at once, without news. Nothing here starts or ends a container; nodes do.
"""

from __future__ import annotations

import hmac
import math
from dataclasses import replace

from executor.causes import Cause, CauseKind
from executor.records import ContainerState, ContainerStatus

from ...machine.calls import CallReceived
from ...machine.tokens import derive_key
from ...records.history import EventKind
from ...records.reports import NodeState
from ...records.tracker_protocol import (
    NodeHeartbeatRequest,
    NodeHeartbeatResponse,
    RegisterNodeManagerRequest,
    RegisterNodeManagerResponse,
    UnRegisterNodeManagerRequest,
    UnRegisterNodeManagerResponse,
)
from ..container_ledger import LOST, ContainerLedger
from ..context import RMContext
from ..due import Due, DueKind
from ..entities import DRAINED, GONE, HeldCall, RMNode, new_node
from ..heartbeat_scaling import busy_part, busy_part_of_all, scaled_interval
from ..lives import NodeEvent
from ..remotely_allocated import RemotelyAllocated

NORMAL, RESYNC, SHUTDOWN = "NORMAL", "RESYNC", "SHUTDOWN"
SILENT_INTERVALS = 3
"""After so many heartbeat intervals of silence another process may take a connected node's name over."""


class ResourceTrackerService:
    """``keep_containers`` is what nodes are told about their containers when the cluster ends."""

    def __init__(self, context: RMContext, ledger: ContainerLedger, remote: RemotelyAllocated) -> None:
        self._context = context
        self._ledger = ledger
        self._remote = remote
        self._sorted_at = -math.inf
        self._registrations = 0
        self.keep_containers = False

    # -- registration ----------------------------------------------------------------------------------------

    def register(self, call: CallReceived, request: RegisterNodeManagerRequest, now: float) -> None:
        """A node is there, for the first time or again; what it still runs is kept if it belongs to
        somebody.
        """
        context = self._context
        known = context.nodes.get(request.node_id)
        if known is not None and known.state in GONE:
            known = None
        refusal = self._refusal(call, request, known, now)
        if refusal:
            context.reply(call.call_id, RegisterNodeManagerResponse(SHUTDOWN, diagnostics=refusal))
            return
        is_news = known is None or not known.connected
        self._registrations += 1
        secret = derive_key(context.secret, f"node {request.node_id} {self._registrations}").hex()
        if known is None:
            node = new_node(request, secret, call.connection_id, now)
            context.move(node, NodeEvent.REGISTERED, now)
            context.nodes.pop(request.node_id, None)
            context.nodes[request.node_id] = node
        else:
            node = known
            self._take_back(node, request, secret, call.connection_id, now)
        context.scheduler.add_node(node)
        context.changes.guaranteed = True
        to_cleanup = self._reconcile(node, request, now)
        node.load.recompute()
        self._heard(node, now)
        self._note(node, EventKind.NODE_ADDED if known is None else EventKind.NODE_RETURNED)
        context.nodes_changed(now, node if is_news else None)
        for application_id in request.running_applications:
            self._check_application(node, application_id)
        context.reply(
            call.call_id,
            RegisterNodeManagerResponse(
                NORMAL,
                cluster_timestamp=context.identity.cluster_timestamp,
                container_token_key=context.container_key.hex(),
                secret=secret,
                containers_to_cleanup=tuple(to_cleanup),
                applications_to_cleanup=tuple(node.applications_to_cleanup.items()),
                heartbeat_interval_ms=context.settings.heartbeat_interval_ms,
            ),
        )

    def _refusal(
        self, call: CallReceived, request: RegisterNodeManagerRequest, known: RMNode | None, now: float
    ) -> str:
        """Why a node must not register, "" if it may."""
        context = self._context
        settings, size = context.settings, request.resource
        if context.ending:
            return "the cluster is shutting down"
        if size.memory < settings.minimum_allocation_mb or size.vcores < settings.minimum_allocation_vcores:
            return (
                f"NodeManager {request.node_id} has {size}, less than the minimum allocation of "
                f"{settings.minimum_allocation_mb} MB and {settings.minimum_allocation_vcores} vcores"
            )
        if known is None or not known.connected or known.connection_id == call.connection_id:
            return ""
        silence = now - known.last_contact
        if known.held or silence < SILENT_INTERVALS * settings.heartbeat_interval_ms / 1000:
            pid = f" (pid {known.registration.pid})" if known.registration.pid else ""
            return f"another NodeManager{pid} is registered as {request.node_id} and alive"
        return ""

    def _take_back(
        self,
        node: RMNode,
        request: RegisterNodeManagerRequest,
        secret: str,
        connection_id: int,
        now: float,
    ) -> None:
        """A known node registers again: a new life of its process, or a resync of the same one."""
        context = self._context
        context.scheduler.remove_node(node)
        self._let_go(node, RESYNC)
        fresh = new_node(request, secret, connection_id, node.last_contact)
        node.secret, node.registration, node.place = secret, request, fresh.place
        load = node.load
        load.rack, load.labels, load.total = request.rack, request.labels, request.resource
        load.status = request.opportunistic
        node.connection_id = connection_id
        node.connected, node.unregistered, node.shutdown_told = True, False, False
        node.resized = False
        context.move(node, NodeEvent.REGISTERED, now)
        if node.state is NodeState.DECOMMISSIONING:
            context.draining[node.node_id] = node
        node.restart()

    def _reconcile(self, node: RMNode, request: RegisterNodeManagerRequest, now: float) -> list[str]:
        """Compare what a node says it has with what it should have; the ids of what belongs to nobody."""
        ledger = self._ledger
        listed = {status.container_id for status in request.containers}
        for container in list(node.containers.values()):
            # What a node had spoken of and does not have now is gone; what it never spoke of may yet come.
            if container.id not in listed and container.status is not None:
                text = "Container not found at its node after the node's restart"
                ledger.abort(container, now, Cause(CauseKind.NODE_LOST), text)
        to_cleanup: list[str] = []
        for status in request.containers:
            known = node.containers.get(status.container_id) or self._remote.adopt_observed(node, status, now)
            if known is None:
                if status.state is not ContainerState.DONE:
                    to_cleanup.append(status.container_id)
            elif status.state is ContainerState.DONE:
                ledger.complete(known, status, now)
            else:
                ledger.observe(known, status, now)
        return to_cleanup

    # -- heartbeats ------------------------------------------------------------------------------------------

    def heartbeat(self, call: CallReceived, request: NodeHeartbeatRequest, now: float) -> None:
        """A node's news. Answered at the end of the step if there is news for it, else held."""
        context = self._context
        node = context.nodes.get(request.node_id)
        if (
            node is None
            or node.state in GONE
            or not hmac.compare_digest(node.secret.encode(), request.secret.encode("utf-8", "replace"))
        ):
            action = SHUTDOWN if context.ending else RESYNC
            text = "" if context.ending else f"{request.node_id} is not registered here: register again"
            response = NodeHeartbeatResponse(
                request.response_id,
                action,
                keep_containers=self.keep_containers,
                diagnostics=text,
                lifetime=context.lifetime,
            )
            context.reply(call.call_id, response)
            return
        self._supersede(node)
        node.connect(call.connection_id)
        node.unregistered = False
        node.acknowledge(request.response_id, request.running_applications)
        node.load.status = request.opportunistic
        node.node_utilization = request.node_utilization
        node.containers_utilization = request.containers_utilization
        if request.http_address != node.registration.http_address:
            node.registration = replace(node.registration, http_address=request.http_address)
        self._health(node, request, now)
        acknowledged = tuple(
            status.container_id for status in request.containers if self._take(node, status, now)
        )
        node.load.recompute()
        self._heard(node, now)
        for application_id in request.running_applications:
            self._check_application(node, application_id)
        context.changes.beating[node.node_id] = node
        node.held = HeldCall(call.call_id, request.response_id)
        node.acknowledged = acknowledged
        if request.wait_ms > 0 and context.heartbeat_wait and not acknowledged:
            wait_ms = min(request.wait_ms, context.settings.nm_expiry_interval_ms // 2)
            context.deadlines.set(Due(DueKind.HELD_HEARTBEAT, node.node_id), now + wait_ms / 1000)
        else:
            node.answer_due = True
        context.news_for_node(node)

    def _take(self, node: RMNode, status: ContainerStatus, now: float) -> bool:
        """One container's news; True if it has ended, so that the node need not tell again."""
        container = node.containers.get(status.container_id) or self._remote.adopt_observed(node, status, now)
        ended = status.state is ContainerState.DONE
        if container is None:
            if not ended and status.state is not ContainerState.KILLING:
                node.to_cleanup.put_new(status.container_id, status.container_id)
        elif ended:
            self._ledger.complete(container, status, now)
        else:
            self._ledger.observe(container, status, now)
        return ended

    def _health(self, node: RMNode, request: NodeHeartbeatRequest, now: float) -> None:
        node.health_report = request.health_report
        state = NodeState.RUNNING if request.healthy else NodeState.UNHEALTHY
        if state is not node.state and node.state not in DRAINED:
            self._context.move(node, NodeEvent.HEALTHY if request.healthy else NodeEvent.UNHEALTHY, now)
            kind = EventKind.NODE_HEALTHY if request.healthy else EventKind.NODE_UNHEALTHY
            self._note(node, kind, request.health_report)
            self._context.nodes_changed(now, node)

    def _heard(self, node: RMNode, now: float) -> None:
        """A node has spoken: it is alive, and may be allocated to."""
        context = self._context
        node.last_contact = now
        context.deadlines.ensure(
            Due(DueKind.NODE_LIVENESS, node.node_id), now + context.settings.nm_expiry_interval_ms / 1000
        )
        if node.usable:
            if node.node_id not in context.monitor:
                context.changes.guaranteed = True
                context.changes.awaited = True
            context.monitor.update(node.load)
        else:
            context.monitor.remove(node.node_id)

    def _check_application(self, node: RMNode, application_id: str) -> None:
        """A node still has something of this application: let it know if the application has ended."""
        app = self._context.applications.get(application_id)
        if app is None or app.ended:
            master = app.attempt.am_container if app is not None and app.finishing else None
            if master is None or master.node is not node:
                node.applications_to_cleanup.put_new(application_id, application_id)

    def answer(self, node: RMNode) -> None:
        """Answer the held heartbeat of ``node`` if there is a reason to."""
        context = self._context
        held = node.held
        if held is None:
            return
        shutdown = context.ending and not node.shutdown_told
        if not (node.answer_due or shutdown or node.has_news()):
            return
        limit_was, node.queue_limit = node.queue_limit, context.monitor.shown_limit
        response = node.response(context.monitor.tell_limit(node.node_id), context.lifetime)
        if node.queue_limit != limit_was:
            numbers = {"limit": node.queue_limit, "was": limit_was, "queued": node.load.status.queued}
            context.history.add(EventKind.QUEUE_LIMIT_TOLD, node=node.node_id, numbers=numbers)
        if context.distributed:
            response = replace(response, nodes_for_scheduling=context.nodes_for_scheduling())
        if context.settings.heartbeat_scaling:
            response = replace(response, next_interval_ms=self._interval_of(node))
        if shutdown:
            node.shutdown_told = True
            response = NodeHeartbeatResponse(
                response.response_id,
                SHUTDOWN,
                completed_acknowledged=response.completed_acknowledged,
                keep_containers=self.keep_containers,
                diagnostics="the cluster is shutting down",
                lifetime=context.lifetime,
            )
        context.reply(held.call_id, response)
        self._forget_held(node)

    def check(self, now: float) -> None:
        """At the end of each step: where nodes' loads have changed they are sorted before long."""
        context, due = self._context, Due(DueKind.SORT)
        if context.monitor.stale and due not in context.deadlines:
            interval = context.settings.sorting_nodes_interval_ms / 1000
            context.deadlines.set(due, max(now, self._sorted_at + interval))

    def sort(self, now: float) -> None:
        """Sort nodes by load, and tell those at once that are to give up some of what is queued there."""
        context = self._context
        context.monitor.compute()
        self._sorted_at = now
        context.changes.opportunistic = True
        for node_id in context.monitor.shedding():
            node = context.nodes.get(node_id)
            if node is not None and node.held is not None:  # else with its next heartbeat
                node.answer_due = True
                context.news_for_node(node)

    def hold_is_over(self, node_id: str) -> None:
        """The time for which a heartbeat may be held has passed."""
        if (node := self._context.nodes.get(node_id)) is not None:
            node.answer_due = True
            self.answer(node)

    def _interval_of(self, node: RMNode) -> int:
        nodes = [other for other in self._context.nodes.values() if other.usable]
        cluster = busy_part_of_all((other.node_utilization.cpu, other.load.total.vcores) for other in nodes)
        own = busy_part(node.node_utilization.cpu, node.load.total.vcores)
        return scaled_interval(self._context.settings, own, cluster)

    def _supersede(self, node: RMNode) -> None:
        """Answer the held heartbeat without news: its number is that of the last answer the node has."""
        if node.held is not None:
            number = node.last_number(node.held)
            response = NodeHeartbeatResponse(number, lifetime=self._context.lifetime)
            self._context.reply(node.held.call_id, response)
            self._forget_held(node)

    def _let_go(self, node: RMNode, action: str) -> None:
        """End the wait of a heartbeat whose registration is no longer valid."""
        if node.held is not None:
            response = NodeHeartbeatResponse(node.response_id, action, lifetime=self._context.lifetime)
            self._context.reply(node.held.call_id, response)
            self._forget_held(node)

    def _forget_held(self, node: RMNode) -> None:
        node.held = None
        node.answer_due = False
        node.acknowledged = ()
        self._context.deadlines.clear(Due(DueKind.HELD_HEARTBEAT, node.node_id))

    # -- ends ------------------------------------------------------------------------------------------------

    def unregister(self, call: CallReceived, request: UnRegisterNodeManagerRequest, now: float) -> None:
        """A node ends. With ``keep_containers`` its containers go on, and wait for its next life."""
        context = self._context
        node = context.nodes.get(request.node_id)
        context.reply(call.call_id, UnRegisterNodeManagerResponse())
        if node is None or not hmac.compare_digest(
            node.secret.encode(), request.secret.encode("utf-8", "replace")
        ):
            return
        self._let_go(node, NORMAL)
        node.unregistered = True
        if request.keep_containers:
            self._disconnect(node)
        else:
            self._remove(node, NodeEvent.UNREGISTERED, now)

    def connection_lost(self, connection_id: int) -> None:
        """The node of this connection cannot be reached until it comes again; it has not expired yet."""
        for node in self._context.nodes.values():
            if node.connected and node.connection_id == connection_id:
                self._note(node, EventKind.NODE_SILENT, "its connection was lost")
                self._disconnect(node)

    def expired(self, node_id: str, now: float) -> None:
        """A node's liveness deadline has come: it is lost if it has really been silent so long."""
        context = self._context
        node = context.nodes.get(node_id)
        if node is None or node.state in GONE:
            return
        due = node.last_contact + context.settings.nm_expiry_interval_ms / 1000
        if due > now:
            context.deadlines.set(Due(DueKind.NODE_LIVENESS, node_id), due)
        else:
            self._let_go(node, RESYNC)
            self._remove(node, NodeEvent.EXPIRED, now)

    def _disconnect(self, node: RMNode) -> None:
        node.connected = False
        self._forget_held(node)
        self._context.monitor.remove(node.node_id)
        self._context.changes.awaited = True
        self._context.tell_masters(node)

    def _remove(self, node: RMNode, event: NodeEvent, now: float) -> None:
        """A node is no more, and its containers with it."""
        context = self._context
        lost = event is NodeEvent.EXPIRED
        why = "it was silent for too long" if lost else "it has ended"
        context.draining.pop(node.node_id, None)
        context.deadlines.clear(Due(DueKind.DRAIN, node.node_id))
        self._note(node, EventKind.NODE_LOST if lost else EventKind.NODE_REMOVED, why)
        context.move(node, event, now)
        self._disconnect(node)
        context.deadlines.clear(Due(DueKind.NODE_LIVENESS, node.node_id))
        for container in list(node.containers.values()):
            self._ledger.abort(container, now, Cause(CauseKind.NODE_LOST), LOST)
        context.scheduler.remove_node(node)
        node.forget_news()
        context.nodes_changed(now, node)

    def _note(self, node: RMNode, kind: EventKind, why: str = "") -> None:
        total = node.total
        numbers = {"memoryMB": total.memory, "vcores": total.vcores}
        self._context.history.add(kind, node=node.node_id, why=why, numbers=numbers)
