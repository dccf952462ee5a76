"""The ResourceManager as one machine: calls in, answers out, now or later.

``handle`` is one ``match`` over the requests of three protocols (clients, masters, nodes). After each event
one ``_settle`` does everything that may follow from what it changed. The RM never calls out. How it works is told in
``__init__.py``.
"""

from __future__ import annotations

from typing import Any, assert_never

from ..errors import NotYetSupportedError, YoppError
from ..machine.calls import CallReceived, ConnectionLost, PagesServed, StopDaemon
from ..records import admin_protocol as admin
from ..records import client_protocol as client
from ..records import distributed_protocol as distributed
from ..records import explanation, history
from ..records import master_protocol as master
from ..records import scheduler_protocol as scheduling
from ..records import tracker_protocol as tracker
from .allocation import ContainerAllocation, ContainerPreemption
from .app_manager import RMAppManager
from .container_ledger import ContainerLedger
from .container_updates import ContainerUpdates
from .context import Command, RMContext
from .due import Due, DueKind
from .invariants import check_invariants
from .kept_history import HistoryKeeper
from .lifetime import Lifetime
from .remotely_allocated import RemotelyAllocated
from .services.activities import ActivitiesService
from .services.admin_service import AdminService
from .services.application_master_service import ApplicationMasterService
from .services.client_rm_service import ClientRMService
from .services.event_service import EventService
from .services.explain_service import ExplainService
from .services.queue_service import QueueReader, QueueService
from .services.resource_tracker_service import ResourceTrackerService

Event = CallReceived | ConnectionLost | PagesServed


class ResourceManager:
    """Implements ``Machine[Event, Command]`` over the books of ``context``.

    ``read_queues`` makes other queues of properties, while it runs.
    """

    def __init__(self, context: RMContext, read_queues: QueueReader | None = None) -> None:
        self._context = context
        self._ledger = ledger = ContainerLedger(context)
        self._manager = RMAppManager(context, ledger)
        self._updates = ContainerUpdates(context, ledger)
        self._allocation = ContainerAllocation(context, ledger, self._manager, self._updates)
        self._preemption = ContainerPreemption(context, ledger)
        remote = RemotelyAllocated(context, ledger)
        self._tracker = ResourceTrackerService(context, ledger, remote)
        self._masters = ApplicationMasterService(context, ledger, self._manager, self._updates, remote)
        self._queues = QueueService(context, read_queues)
        self._clients = ClientRMService(context, ledger, self._manager, self._queues)
        self._events = EventService(context)
        self._admin = AdminService(context, ledger)
        self._explain = ExplainService(context)
        self._activities = ActivitiesService(context)
        self._keeper = HistoryKeeper(context)
        self._lifetime = Lifetime(context, self._manager, self._tracker, self._clients)

    # -- the machine -----------------------------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> list[Command]:
        """Take one event; answer with commands, in the order in which they are to be performed."""
        self._context.history.now_ms = self._context.ms(now)
        match event:
            case CallReceived():
                try:
                    if (response := self._call(event, now)) is not None:
                        self._context.reply(event.call_id, response)
                except YoppError as error:
                    self._context.refuse(event.call_id, error)
            case ConnectionLost(connection_id):
                self._tracker.connection_lost(connection_id)
                self._masters.connection_lost(connection_id, now)
                self._clients.connection_lost(connection_id)
                self._events.connection_lost(connection_id)
            case PagesServed(address, warning):
                self._clients.pages_served(address, warning)
            case _:
                assert_never(event)
        return self._settle(now)

    def next_deadline(self) -> float | None:
        """When ``advance`` wants to be called, None for never."""
        return self._context.deadlines.next()

    def advance(self, now: float) -> list[Command]:
        """Do what was due by ``now``."""
        deadlines = self._context.deadlines
        self._context.history.now_ms = self._context.ms(now)
        commands: list[Command] = []
        while (due := deadlines.pop_due(now)) is not None:
            self._due(due, now)
            commands += self._settle(now)
        return commands

    def validate(self) -> None:
        """Assert every invariant."""
        check_invariants(self._context)

    # -- dispatch --------------------------------------------------------------------------------------------

    def _call(self, call: CallReceived, now: float) -> Any:
        """The answer to a call; None where it comes later, or has been given."""
        match call.request:
            case tracker.NodeHeartbeatRequest() as request:
                self._tracker.heartbeat(call, request, now)
            case master.AllocateRequest() as request:
                self._masters.allocate(call, request, now)
            case client.SubmitApplicationRequest() as request:
                return self._clients.submit(call, request, now)
            case master.RegisterApplicationMasterRequest() as request:
                self._masters.register(call, request, now)
            case distributed.DistributedSchedulingAllocateRequest() as request:
                self._masters.allocate_distributed(call, request, now)
            case distributed.RegisterDistributedSchedulingAMRequest() as request:
                self._masters.register_distributed(call, request, now)
            case master.FinishApplicationMasterRequest() as request:
                return self._masters.finish(request, now)
            case tracker.RegisterNodeManagerRequest() as request:
                self._tracker.register(call, request, now)
            case tracker.UnRegisterNodeManagerRequest() as request:
                self._tracker.unregister(call, request, now)
            case client.WaitForApplicationsRequest() | client.WaitForNodesRequest() as request:
                self._clients.wait(call, request, now)
            case history.GetEventsRequest() as request:
                self._events.get(call, request, now)
            case explanation.ExplainRequest() as request:
                self._explain.get(call, request, now)
            case scheduling.GetActivitiesRequest() as request:
                return self._activities.get(request, now)
            case admin.DrainNodesRequest() as request:
                return self._admin.drain(request, now)
            case admin.ResumeNodesRequest() as request:
                return self._admin.resume(request, now)
            case admin.UpdateNodeResourceRequest() as request:
                return self._admin.resize(request, now)
            case admin.RefreshQueuesRequest() as request:
                return self._queues.refresh(request)
            case client.GetNewApplicationRequest():
                return self._clients.get_new_application(now)
            case client.KillApplicationRequest() as request:
                return self._clients.kill(call, request, now)
            case client.GetApplicationsRequest() as request:
                return self._clients.get_applications(request, now)
            case client.GetApplicationAttemptsRequest() as request:
                return self._clients.get_attempts(request)
            case history.GetMapReduceJobRequest() as request:
                return self._clients.get_map_reduce(request, now)
            case client.GetClusterNodesRequest() as request:
                return self._clients.get_nodes(request)
            case client.GetContainersRequest() as request:
                return self._clients.get_containers(request)
            case client.ChangeContainerRequest() as request:
                return self._updates.change(request, now)
            case client.MoveApplicationRequest() as request:
                return self._clients.move(call, request, now)
            case client.UpdateApplicationPriorityRequest() as request:
                return self._clients.prioritise(call, request, now)
            case client.UpdateApplicationTimeoutsRequest() as request:
                return self._clients.limit_lifetime(request, now)
            case client.UpdateApplicationTagsRequest() as request:
                return self._clients.set_tags(request, now)
            case client.GetQueueInfoRequest() as request:
                return self._clients.get_queues(request)
            case client.GetClusterInfoRequest():
                return self._clients.get_info(now)
            case scheduling.GetSchedulerFiguresRequest():
                self._clients.get_figures(call, now)
            case client.SetLifetimeRequest() as request:
                return self._lifetime.set_lifetime(request, now)
            case client.ShutdownClusterRequest() as request:
                self._lifetime.shutdown(call, request, now)
            case _:
                raise NotYetSupportedError(f"the ResourceManager has no method {call.method}")
        return None

    def _due(self, due: Due, now: float) -> None:
        name = due.of
        match due.kind:
            case DueKind.HELD_HEARTBEAT:
                self._tracker.hold_is_over(name)
            case DueKind.HELD_ALLOCATE:
                self._masters.hold_is_over(name, now)
            case DueKind.WAIT:
                self._clients.wait_is_over(int(name), now)
            case DueKind.EVENTS:
                self._events.wait_is_over(int(name))
            case DueKind.NODE_LIVENESS:
                self._tracker.expired(name, now)
            case DueKind.MASTER_LIVENESS:
                self._masters.expired(name, now)
            case DueKind.CLIENT_GONE:
                self._masters.client_gone(name, now)
            case DueKind.LIFETIME:
                self._manager.timed_out(name, now)
            case DueKind.FINISHING:
                self._manager.finished_too_slowly(name, now)
            case DueKind.UNCLAIMED:
                self._ledger.unclaimed(name, now)
            case DueKind.UNENDED:
                self._ledger.unended(name, now)
            case DueKind.PREEMPTED:
                self._preemption.kill(name, now)
            case DueKind.DRAIN:
                self._admin.drain_is_over(name, now)
            case DueKind.SORT:
                self._tracker.sort(now)
            case DueKind.PREEMPT:
                self._preemption.look(now)
            case DueKind.HOPELESS:
                self._masters.refuse_hopeless(now)
            case DueKind.IDLE:
                self._lifetime.idle_for_long(now)
            case DueKind.ENDING:
                self._lifetime.ended_too_slowly(now)
            case _:
                assert_never(due.kind)

    # -- what follows ----------------------------------------------------------------------------------------

    def _settle(self, now: float) -> list[Command]:
        """Everything that may follow from what a step has changed, in one order, until nothing more does."""
        context, changes = self._context, self._context.changes
        while changes.masters_ended:
            self._manager.master_ended(changes.masters_ended.pop(0), now)
        if not context.ending:
            self._allocation.allocate(now)
        if context.draining:
            self._admin.check(now)
        changes.beating.clear()
        while changes.attempts:
            self._masters.answer(changes.attempts.popitem()[1], now)
        while changes.nodes:
            self._tracker.answer(changes.nodes.popitem()[1])
        if changes.awaited:
            changes.awaited = False
            self._clients.check_waiters(now)
        self._lifetime.check(now)
        self._events.check()
        self._tracker.check(now)
        self._preemption.check(now)
        kept: list[Command] = [*self._keeper.check(now)]
        if any(isinstance(command, StopDaemon) for command in changes.commands):
            kept += self._keeper.all(now)
        # Here a store would write ``changes.moved`` down: before anybody hears of it.
        changes.moved.clear()
        commands, changes.commands = changes.commands, []
        return kept + commands if kept else commands
