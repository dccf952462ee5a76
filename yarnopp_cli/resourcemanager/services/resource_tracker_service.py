"""Calls of nodes: registration, heartbeats, loss (YARN's ``ResourceTrackerService``).

A heartbeat may be held until there is news for its node; a newer heartbeat of the same node makes the RM answer the
older one at once, without news. Only nodes start and end containers.

Decisions: no-feedback-delay.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Iterable
from typing import Any

from executor.causes import Cause, CauseKind
from executor.core.machine import beat
from executor.light import replace
from executor.records import ContainerState, ContainerStatus, ExecutionType, Resource

from ...machine.calls import CallReceived
from ...machine.tokens import derive_key
from ...masters.lengths import length, length_of
from ...records import tracker_protocol as tracker
from ...records.client_protocol import SettleLostRequest, SettleLostResponse
from ...records.history import EventKind
from ...records.methods import MOST_TEXT
from ...records.reports import DRAINED, GONE, NodeState
from ...settings.declarations import ResourceManagerSettings
from ..adoption import Adoption
from ..container_ledger import LOST, ContainerLedger
from ..context import RMContext
from ..due import Due, DueKind
from ..entities import HeldCall, RMNode, new_node
from ..inquiries import Inquiries
from ..lives import NodeEvent

NORMAL, RESYNC, SHUTDOWN = "NORMAL", "RESYNC", "SHUTDOWN"


class ResourceTrackerService:
    """Answers nodes. ``keep_containers``: nodes keep their containers when the cluster ends."""

    def __init__(
        self, context: RMContext, ledger: ContainerLedger, adoption: Adoption, inquiries: Inquiries
    ) -> None:
        self._rm = context
        self._inquiries = inquiries
        self._ledger = ledger
        self._adoption = adoption
        self._sorted_at = -math.inf
        self._registrations = 0
        self.keep_containers = False

    # -- registration ----------------------------------------------------------------------------------------

    def register(
        self, call: CallReceived, request: tracker.RegisterNodeManagerRequest
    ) -> tracker.RegisterNodeManagerResponse:
        """Register a new or returning node. Its containers are kept if their application is known."""
        known = self._rm.nodes.get(request.node_id)
        if known is not None and known.state in GONE:
            known = None
        if refusal := self._refusal(call, request, known):
            return tracker.RegisterNodeManagerResponse(SHUTDOWN, diagnostics=refusal)
        is_news = known is None or not known.connected
        self._registrations += 1
        secret = derive_key(self._rm.secret, f"node {request.node_id} {self._registrations}").hex()
        if known is None:
            node = new_node(request)
            self._rm.nodes.pop(request.node_id, None)
            self._rm.nodes[request.node_id] = node
        else:
            node = known
            self._rm.scheduler.remove_node(node)
            self._let_go(node, RESYNC)
            node.register_again(request)
        node.secret, node.connection_id = secret, call.connection_id
        self._rm.move(node, NodeEvent.REGISTERED)
        if node.state is NodeState.DECOMMISSIONING:
            self._rm.draining[node.node_id] = node
        self._rm.scheduler.add_node(node)
        self._rm.changes.guaranteed = True
        if known is None:
            self._recall(node, request)
        to_cleanup = self._reconcile(node, request)
        self._note_contact(node, request)
        self._rm.deadlines.ensure(
            Due(DueKind.NODE_SILENCE, node.node_id), self._rm.now + self._rm.silence_seconds
        )
        self._note(node, EventKind.NODE_ADDED if known is None else EventKind.NODE_RETURNED)
        self._rm.nodes_changed(node if is_news else None)
        return tracker.RegisterNodeManagerResponse(
            NORMAL,
            cluster_timestamp=self._rm.identity.cluster_timestamp,
            container_token_key=self._rm.container_key.hex(),
            secret=secret,
            containers_to_cleanup=tuple(to_cleanup),
            applications_to_cleanup=tuple(node.applications_to_cleanup.items()),
            heartbeat_interval_ms=self._rm.settings.heartbeat_interval_ms,
        )

    def _refusal(
        self, call: CallReceived, request: tracker.RegisterNodeManagerRequest, known: RMNode | None
    ) -> str:
        """The reason why a node must not register, "" if it may."""
        least = self._rm.minimum_allocation
        if self._rm.ending:
            return "the cluster is shutting down"
        if not least.fits_in(request.resource):
            return (
                f"NodeManager {request.node_id} has {request.resource}, less than the minimum allocation of "
                f"{least.memory} MB and {least.vcores} vcores"
            )
        if known is None or not known.connected or known.connection_id == call.connection_id:
            return ""
        if request.pid and (request.pid, request.address) == (
            known.registration.pid,
            known.registration.address,
        ):
            return ""  # The same process: it noticed the end of its last connection before the RM did.
        pid = f" (pid {known.registration.pid})" if known.registration.pid else ""
        return f"another NodeManager{pid} is registered as {request.node_id} and alive"

    def _recall(self, node: RMNode, request: tracker.RegisterNodeManagerRequest) -> None:
        """A node registers for the first time with this RM process: restore its state from the previous process, if
        any."""
        if node.node_id in self._rm.drained:
            self._rm.drained.discard(node.node_id)
            self._rm.move(node, NodeEvent.DRAIN)
            self._rm.draining[node.node_id] = node
        if self._rm.recovered_applications:
            for status in request.containers:
                self._adoption.expected(node, status)
            self._rm.changes.arrived.append(node.node_id)

    def _reconcile(self, node: RMNode, request: tracker.RegisterNodeManagerRequest) -> list[str]:
        """Compare the containers that a node reports with the RM's books; return the ids of containers without an
        owner."""
        listed = {status.container_id for status in request.containers}
        for container_id in node.kept.keys() - listed:
            self._keep(node, container_id, None)
        for container in list(node.containers.values()):
            # A container that the node had reported and does not list now is gone; a container that it never reported
            # may still come.
            if container.id not in listed and container.status is not None:
                text = "Container not found on its node after the node was restarted"
                self._ledger.abort(container, Cause(CauseKind.NODE_LOST), text)
        return [
            status.container_id
            for status in request.containers
            if not self._take(node, status) and status.state is not ContainerState.DONE
        ]

    # -- heartbeats ------------------------------------------------------------------------------------------

    def heartbeat(
        self, call: CallReceived, request: tracker.NodeHeartbeatRequest
    ) -> tracker.NodeHeartbeatResponse | None:
        """Handle a node's heartbeat. It is answered at the end of the step if there is news for the node, else held."""
        node = self._genuine(request.node_id, request.secret)
        if node is None or node.state in GONE:
            action = SHUTDOWN if self._rm.ending else RESYNC
            text = "" if self._rm.ending else f"{request.node_id} is not registered here: register again"
            return self._response(request.response_id, action, diagnostics=text)
        if node.held is not None:
            self._let_go(node, NORMAL, node.last_number(node.held))
        was_silent = not node.connected
        node.connect(call.connection_id)
        if was_silent:
            self._note(node, EventKind.NODE_RETURNED)
            self._rm.tell_masters(node)
        node.unregistered = False
        node.acknowledge(request.response_id, request.running_applications)
        node.load.status = request.opportunistic
        node.node_utilization = request.node_utilization
        node.containers_utilization = request.containers_utilization
        if request.http_address != node.registration.http_address:
            node.registration = replace(node.registration, http_address=request.http_address)
        self._health(node, request)
        for status in request.containers:
            if not self._take(node, status) and status.state not in (
                ContainerState.DONE,
                ContainerState.KILLING,
            ):
                node.to_cleanup.put_new(status.container_id, status.container_id)
        for answer in request.answers:  # it is newer than the news that it comes with
            self._inquiries.answered(node.node_id, answer)
        if self._rm.unreported:
            self._count_down(node.node_id)
        self._note_contact(node, request)
        self._rm.changes.beating[node.node_id] = node
        node.acknowledged = tuple(
            status.container_id
            for status in request.containers
            if status.state is ContainerState.DONE and not self._is_to_be_kept(status)
        )
        waits = self._rm.heartbeat_wait and not node.acknowledged
        wait_ms = min(request.wait_ms, self._rm.settings.nm_expiry_interval_ms // 2) if waits else 0
        self._rm.hold(node, HeldCall(call.call_id, request.response_id), wait_ms)
        self._rm.news_for_node(node)
        return None

    def _genuine(self, node_id: str, secret: str) -> RMNode | None:
        """The node with this name, if it presents the secret that it was given."""
        node = self._rm.nodes.get(node_id)
        if node is None or not hmac.compare_digest(node.secret.encode(), secret.encode("utf-8", "replace")):
            return None
        return node

    def _take(self, node: RMNode, status: ContainerStatus) -> bool:
        """Handle the status of a container; False if no application owns it."""
        container = node.containers.get(status.container_id) or self._adoption.observed(node, status)
        # Granted by a previous RM process and started during this one, or of an earlier attempt.
        if container is None:
            container = self._adoption.expected(node, status)
        if container is None:
            self._adoption.ended_unknown(status)
            if is_lost := self._rm.is_lost(status.application_id):
                self._keep(node, status.container_id, status)
            return is_lost
        if status.state is ContainerState.DONE:
            self._ledger.complete(container, status)
        else:
            self._ledger.observe(container, status)
        return True

    def _keep(self, node: RMNode, container_id: str, status: ContainerStatus | None) -> None:
        """Count the resources of a container of a lost application. It runs on until a user decides
        (``SettleLostRequest``). ``status`` None: the container has ended or is gone."""
        size, before = None, node.kept.pop(container_id, Resource())
        if status is not None and status.state is not ContainerState.DONE:
            size = status.resource if status.execution_type is ExecutionType.GUARANTEED else Resource()
            node.kept[container_id] = size
        change = (size or Resource()) - before
        node.load.guaranteed = node.load.guaranteed + change
        node.load.recompute()
        self._rm.scheduler.used = self._rm.scheduler.used + change
        self._rm.changes.guaranteed = True

    def settle_lost(self, request: SettleLostRequest) -> SettleLostResponse:
        """Let the containers of lost applications run to their end, or end them."""
        self._rm.losses, self._rm.adopted = (), not request.end
        kept = [(node, one) for node in self._rm.nodes.values() for one in node.kept]
        for node, container_id in kept if request.end else ():
            node.to_cleanup.put_new(container_id, container_id)
            self._rm.news_for_node(node)
        return SettleLostResponse(len(kept))

    def _count_down(self, node_id: str) -> None:
        """Stop waiting, after some heartbeats, for the containers that a dead master's DistributedScheduler allocated
        on this node."""
        if (left := self._rm.unreported.get(node_id)) is not None:
            self._rm.unreported[node_id] = left - 1
            if left == 1:
                self._rm.changes.arrived.append(node_id)

    def _is_to_be_kept(self, status: ContainerStatus) -> bool:
        """Whether the node keeps the record of this end for the next RM process: no other record exists until its
        master, which is outside the RM, has fetched it.
        """
        if not self._rm.keeps_state:
            return False
        known = self._rm.finished_containers.get(status.container_id)
        if known is None or known.app.hosted or known.attempt.ended:
            return False
        return known.id in known.attempt.completed

    def _health(self, node: RMNode, request: tracker.NodeHeartbeatRequest) -> None:
        node.health_report = request.health_report
        state = NodeState.RUNNING if request.healthy else NodeState.UNHEALTHY
        if state is not node.state and node.state not in DRAINED:
            self._rm.move(node, NodeEvent.HEALTHY if request.healthy else NodeEvent.UNHEALTHY)
            kind = EventKind.NODE_HEALTHY if request.healthy else EventKind.NODE_UNHEALTHY
            self._note(node, kind, request.health_report)
            self._rm.nodes_changed(node)

    def _note_contact(
        self, node: RMNode, request: tracker.RegisterNodeManagerRequest | tracker.NodeHeartbeatRequest
    ) -> None:
        """A node has called: it is alive, and usable for allocations."""
        node.load.recompute()
        node.last_contact = self._rm.now
        self._rm.deadlines.ensure(
            Due(DueKind.NODE_LIVENESS, node.node_id),
            self._rm.now + self._rm.settings.nm_expiry_interval_ms / 1000,
        )
        if node.usable:
            if node.node_id not in self._rm.monitor:
                self._rm.changes.guaranteed = True
                self._rm.changes.awaited = True
                self._rm.scheduler.nodes_changed()
            self._rm.monitor.update(node.load)
        else:
            self._rm.monitor.remove(node.node_id)
        for application_id in request.running_applications:
            self._check_application(node, application_id)

    def _check_application(self, node: RMNode, application_id: str) -> None:
        """A node still has containers of this application: notify the node if the application has ended."""
        app = self._rm.applications.get(application_id)
        if (app is None and not self._rm.is_lost(application_id)) or (app is not None and app.ended):
            master = app.attempt.am_container if app is not None and app.finishing else None
            if master is None or master.node is not node:
                node.applications_to_cleanup.put_new(application_id, application_id)

    def answer(self, node: RMNode) -> None:
        """Answer the held heartbeat of ``node`` if there is news."""
        monitor, held = self._rm.monitor, node.held
        shutdown = self._rm.ending and not node.shutdown_told
        if held is None or not (node.answer_due or shutdown or node.has_news()):
            return
        limit_was, node.queue_limit = node.queue_limit, monitor.shown_limit
        limit = monitor.tell_limit(node.node_id)
        if node.queue_limit != limit_was:
            numbers = {"limit": node.queue_limit, "was": limit_was, "queued": node.load.status.queued}
            self._rm.history.add(EventKind.QUEUE_LIMIT_TOLD, node=node.node_id, numbers=numbers)
        number = node.next_number()
        if shutdown:
            node.shutdown_told = True
            response = self._response(
                number,
                SHUTDOWN,
                diagnostics="the cluster is shutting down",
                completed_acknowledged=node.acknowledged,
            )
        else:
            node.awaited_told = node.guaranteed_awaited
            tasks, templates = self._tasks(node, number)
            questions, node.questions = tuple(node.questions), []
            response = tracker.NodeHeartbeatResponse(
                number,
                containers_to_start=node.to_start.take(number),
                containers_to_cleanup=node.to_cleanup.take(number),
                containers_to_update=node.to_update.take(number),
                applications_to_cleanup=node.applications_to_cleanup.take(number),
                completed_acknowledged=node.acknowledged,
                queuing_limit=limit,
                lifetime=self._rm.lifetime,
                nodes_for_scheduling=self._rm.nodes_for_scheduling() if self._rm.distributed else None,
                next_interval_ms=self._interval_of(node) if self._rm.settings.heartbeat_scaling else 0,
                resource=node.total if node.resized else None,
                guaranteed_awaited=node.guaranteed_awaited,
                templates=templates,
                tasks_to_start=tasks,
                application_priorities=node.priorities.take(number),
                questions=questions,
            )
        self._rm.reply(held.call_id, response)
        self._rm.forget_held(node)

    def _tasks(
        self, node: RMNode, number: int
    ) -> tuple[tuple[tracker.TaskToStart, ...], tuple[tracker.LaunchTemplate, ...]]:
        """The hosted masters' tasks that ``node`` is to start, as many as fit in one answer, with the templates that
        the node lacks."""
        templates, counted = self._rm.templates, set(node.templates_told)

        def size_of(task: tracker.TaskToStart) -> int:
            template = templates.get(task.template_id) if task.template_id not in counted else None
            counted.add(task.template_id)
            return _size_of(task) + (length_of(template.context) if template is not None else 0)

        tasks = node.tasks_to_start.take_fresh(number, size_of, MOST_TEXT)
        new = {task.template_id for task in tasks} - node.templates_told
        node.templates_told |= new
        return tasks, tuple(templates[one] for one in sorted(new) if one in templates)

    def _response(self, number: int, action: str, **more: Any) -> tracker.NodeHeartbeatResponse:
        return tracker.NodeHeartbeatResponse(
            number,
            action,
            keep_containers=self.keep_containers and action == SHUTDOWN,
            lifetime=self._rm.lifetime,
            **more,
        )

    def check(self) -> None:
        """Schedule ``sort`` if the loads of nodes have changed; called at the end of each step."""
        due = Due(DueKind.SORT)
        if self._rm.monitor.stale and due not in self._rm.deadlines:
            interval = self._rm.settings.sorting_nodes_interval_ms / 1000
            self._rm.deadlines.set(due, max(self._rm.now, beat(self._sorted_at, interval)))

    def sort(self) -> None:
        """Sort nodes by load, and send shed orders at once to the nodes that are to shed queued containers."""
        self._rm.monitor.compute()
        self._sorted_at = self._rm.now
        self._rm.changes.opportunistic = True
        for node_id in self._rm.monitor.shedding():
            node = self._rm.nodes.get(node_id)
            # Otherwise the order goes with the next heartbeat.
            if node is not None and node.held is not None:
                node.answer_due = True
                self._rm.news_for_node(node)

    def hold_is_over(self, node_id: str) -> None:
        """The time for which a heartbeat may be held has passed."""
        if (node := self._rm.nodes.get(node_id)) is not None:
            node.answer_due = True
            self.answer(node)

    def _interval_of(self, node: RMNode) -> int:
        cluster = busy_part_of_all(
            (other.node_utilization.cpu, other.total.vcores)
            for other in self._rm.nodes.values()
            if other.usable
        )
        own = busy_part(node.node_utilization.cpu, node.total.vcores)
        return scaled_interval(self._rm.settings, own, cluster)

    def _let_go(self, node: RMNode, action: str, number: int | None = None) -> None:
        """Answer a held heartbeat without news: a newer one has come, or the registration is no longer valid."""
        if node.held is not None:
            number = node.response_id if number is None else number
            self._rm.reply(node.held.call_id, self._response(number, action))
            self._rm.forget_held(node)

    # -- ends ------------------------------------------------------------------------------------------------

    def unregister(
        self, request: tracker.UnRegisterNodeManagerRequest
    ) -> tracker.UnRegisterNodeManagerResponse:
        """A node unregisters. With ``keep_containers`` its containers run on, and wait for the next NM process."""
        if (node := self._genuine(request.node_id, request.secret)) is not None:
            self._let_go(node, NORMAL)
            node.unregistered = True
            if request.keep_containers:
                self._disconnect(node)
            else:
                self._remove(node, NodeEvent.UNREGISTERED)
        return tracker.UnRegisterNodeManagerResponse()

    def connection_lost(self, connection_id: int) -> None:
        """The connection of a node was lost: the node is unreachable until it reconnects; it has not expired yet."""
        for node in self._rm.nodes.values():
            if node.connection_id == connection_id:
                self._note(node, EventKind.NODE_SILENT, "its connection was lost")
                self._disconnect(node)

    def silent(self, node_id: str) -> None:
        """A node may be silent although its connection is open (its process is stopped): it then gets no new
        containers."""
        node = self._rm.nodes.get(node_id)
        if node is None or not node.connected or node.held is not None or self._rm.ending:
            return
        due = node.last_contact + self._rm.silence_seconds
        # The same sum as before: with a rounded difference, the deadline might be due again at once, for ever.
        if due > self._rm.now:
            self._rm.deadlines.set(Due(DueKind.NODE_SILENCE, node_id), due)
        else:
            silence = self._rm.now - node.last_contact
            self._note(node, EventKind.NODE_SILENT, f"no heartbeat for {silence:.0f} s")
            self._disconnect(node)

    def expired(self, node_id: str) -> None:
        """The liveness deadline of a node has come: the node is lost if it was silent for the whole interval."""
        node = self._rm.nodes.get(node_id)
        if node is None or node.state in GONE:
            return
        due = node.last_contact + self._rm.settings.nm_expiry_interval_ms / 1000
        if due > self._rm.now:
            self._rm.deadlines.set(Due(DueKind.NODE_LIVENESS, node_id), due)
        else:
            self._let_go(node, RESYNC)
            self._remove(node, NodeEvent.EXPIRED)

    def _disconnect(self, node: RMNode) -> None:
        node.connection_id = -1
        self._rm.forget_held(node)
        self._rm.monitor.remove(node.node_id)
        self._rm.changes.awaited = True
        self._rm.tell_masters(node)

    def _remove(self, node: RMNode, event: NodeEvent) -> None:
        """Remove a node and its containers."""
        lost = event is NodeEvent.EXPIRED
        why = "it sent no heartbeat for too long" if lost else "it has ended"
        self._rm.draining.pop(node.node_id, None)
        self._note(node, EventKind.NODE_LOST if lost else EventKind.NODE_REMOVED, why)
        self._rm.move(node, event)
        self._disconnect(node)
        for kind in (DueKind.DRAIN, DueKind.NODE_LIVENESS, DueKind.NODE_SILENCE):
            self._rm.deadlines.clear(Due(kind, node.node_id))
        for container in list(node.containers.values()):
            self._ledger.abort(container, Cause(CauseKind.NODE_LOST), LOST)
        for container_id in list(node.kept):
            self._keep(node, container_id, None)
        if node.node_id in self._rm.unreported:
            self._rm.changes.arrived.append(node.node_id)
        self._rm.scheduler.remove_node(node)
        node.forget_news()
        self._rm.nodes_changed(node)

    def _note(self, node: RMNode, kind: EventKind, why: str = "") -> None:
        numbers = {"memoryMB": node.total.memory, "vcores": node.total.vcores}
        self._rm.history.add(kind, node=node.node_id, why=why, numbers=numbers)


def _size_of(task: tracker.TaskToStart) -> int:
    """The approximate number of characters of a task in an answer."""
    return 500 + length(task.arguments) + length(task.variables.values())


# -- heartbeat intervals of nodes (YARN-10475, ``RMNodeImpl``) ---------------------------------------------------


def busy_part(cpu: float, vcores: int) -> float:
    """The part of its vcores that a node uses: 0 to 1."""
    return min(1.0, max(0.0, cpu / vcores)) if vcores > 0 else 0.0


def busy_part_of_all(nodes: Iterable[tuple[float, int]]) -> float:
    """The part of their vcores that several nodes use together; each node is (cores in use, vcores)."""
    cpu, vcores = 0.0, 0
    for used, size in nodes:
        cpu, vcores = cpu + used, vcores + size
    return busy_part(cpu, vcores)


def scaled_interval(settings: ResourceManagerSettings, node: float, cluster: float) -> int:
    """The heartbeat interval, in ms, of a node whose busy part is ``node`` if the busy part of all nodes is
    ``cluster``.

    A node that is busier by a fifth of its vcores has an interval longer by a fifth times the factor; an idler node
    has a shorter one, because it has room to be filled. The interval is within min-ms and max-ms.
    """
    default = settings.heartbeat_interval_ms
    if not settings.heartbeat_scaling:
        return default
    difference = node - cluster
    factor = settings.heartbeat_slowdown_factor if difference > 0 else settings.heartbeat_speedup_factor
    wanted = int(default * (1 + difference * factor))
    return min(settings.heartbeat_interval_max_ms, max(settings.heartbeat_interval_min_ms, wanted))
