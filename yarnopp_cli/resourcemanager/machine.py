"""The ResourceManager as one machine: calls in, answers out, now or later.

``handle`` is one ``match`` over the requests of three protocols (clients, masters, nodes). After each event
one ``_settle`` does everything that may follow: ended masters, containers allocated because there is room
or an ask, held calls answered because there is news, the end of an on-demand cluster. The RM never calls
out.
"""

from __future__ import annotations

import random

from executor.causes import Cause, CauseKind
from executor.records import ContainerExitStatus, ExecutionType, Resource

from ..allocation.asks import Ask
from ..allocation.load_monitor import Claim
from ..errors import NotYetSupportedError, YoppError
from ..machine.calls import CallReceived, ConnectionLost, StopDaemon
from ..records import admin_protocol as admin
from ..records import client_protocol as client
from ..records import distributed_protocol as distributed
from ..records import explanation, history
from ..records import mapreduce_report as mapreduce
from ..records import master_protocol as master
from ..records import scheduler_protocol as scheduling
from ..records import tracker_protocol as tracker
from ..settings.queues import DEFAULT_QUEUES, CapacitySchedulerSettings, QueueSettings
from ..settings.resourcemanager import ResourceManagerSettings
from .apps.applications import RMApp, RMAppAttempt
from .apps.manager import RMAppManager
from .apps.updates import ApplicationUpdates
from .containers.containers import RMContainer
from .containers.updates import ContainerUpdates
from .context import Command, Identity, RMContext
from .guaranteed.preemption import PreemptionMonitor
from .guaranteed.queue_refresh import QueueReader, QueueRefresh
from .history.keeping import HistoryKeeper, KeepHistory
from .invariants import check_invariants
from .lifetime import Lifetime
from .metrics import OpportunisticSchedulerMetrics
from .nodes.nodes import RMNode
from .opportunistic.shares import FairRotation
from .opportunistic.shedding import QueueShedder
from .services.activities import ActivitiesService
from .services.admin_service import AdminService
from .services.client_service import ClientRMService
from .services.event_service import EventService
from .services.explain_service import ExplainService
from .services.master_service import ApplicationMasterService
from .services.queue_service import QueueService
from .services.resource_tracker import ResourceTrackerService

_SORT = ("sort", "")
_PREEMPT = ("preempt", "")
SHED = "Opportunistic container gave its place in the queue to another user"
PREEMPTED = "Container preempted by scheduler"


class ResourceManager:
    """Implements ``Machine[CallReceived | ConnectionLost, Reply | ReplyError | StopDaemon | KeepHistory]``.

    ``cluster_timestamp`` is the start of this RM in epoch milliseconds and names its applications;
    ``wall_offset`` is what to add to ``now`` for people's time, in seconds. ``secret`` is the root of all
    keys. Without ``heartbeat_wait`` heartbeats are answered at once, and guaranteed containers are
    allocated only when their node has just spoken: YARN's plain beat, for those who study the delay it
    makes.
    ``queues`` are those of guaranteed containers, under the rules of ``capacity``;
    ``read_queues`` makes others of properties, while it runs.
    With ``distributed_scheduling`` nodes may allocate opportunistic containers themselves.
    ``rng`` is for policies that draw lots; the default ones do not.
    """

    def __init__(
        self,
        settings: ResourceManagerSettings,
        *,
        cluster_timestamp: int,
        wall_offset: float,
        rng: random.Random,
        secret: bytes,
        lifetime: str,
        run_dir: str,
        address: str,
        log_dir: str,
        pid: int,
        version: str,
        properties: dict[str, str],
        heartbeat_wait: bool = True,
        distributed_scheduling: bool = False,
        capacity: CapacitySchedulerSettings | None = None,
        queues: QueueSettings = DEFAULT_QUEUES,
        read_queues: QueueReader | None = None,
    ) -> None:
        identity = Identity(
            cluster_timestamp, wall_offset, run_dir, address, log_dir, pid, version, properties
        )
        context = RMContext(
            settings,
            identity,
            secret=secret,
            lifetime=lifetime,
            heartbeat_wait=heartbeat_wait,
            distributed=distributed_scheduling,
            rng=rng,
            capacity=capacity,
            queues=queues,
        )
        self._context = context
        self._manager = RMAppManager(context)
        self._updates = ContainerUpdates(context)
        self._tracker = ResourceTrackerService(context)
        self._masters = ApplicationMasterService(context, self._manager, self._updates)
        self.queues = QueueService(context)
        self._refresh = QueueRefresh(context, self.queues, read_queues)
        self._clients = ClientRMService(context, self._manager, self.queues)
        self._events = EventService(context)
        self._admin = AdminService(context)
        self._keeper = HistoryKeeper(context)
        self._explain = ExplainService(context)
        self._activities = ActivitiesService(context)
        self._changes = ApplicationUpdates(context, self._clients.application)
        started_at = cluster_timestamp / 1000 - wall_offset
        self._lifetime = Lifetime(context, self._manager, self._tracker, self._clients, started_at)
        self._sorted_at = float("-inf")
        self._shedder = QueueShedder(context.shares)
        self._preemption = PreemptionMonitor(context.capacity, self._is_ending)

    @property
    def _preempts(self) -> bool:
        context = self._context
        return context.capacity.preemption_enabled and len(context.scheduler.queues.leaves) > 1

    # -- the machine -----------------------------------------------------------------------------------------

    def handle(self, event: CallReceived | ConnectionLost, now: float) -> list[Command | KeepHistory]:
        """Take one event; answer with commands, in the order in which they are to be performed."""
        self._context.history.now_ms = self._context.ms(now)
        match event:
            case CallReceived():
                try:
                    self._call(event, now)
                except YoppError as error:
                    self._context.refuse(event.call_id, error)
            case ConnectionLost(connection_id):
                self._tracker.connection_lost(connection_id)
                self._masters.connection_lost(connection_id, now)
                self._clients.connection_lost(connection_id)
                self._events.connection_lost(connection_id)
        return self._settle(now)

    def next_deadline(self) -> float | None:
        """When ``advance`` wants to be called, None for never."""
        return self._context.deadlines.next()

    def advance(self, now: float) -> list[Command | KeepHistory]:
        """Do what was due by ``now``."""
        deadlines = self._context.deadlines
        self._context.history.now_ms = self._context.ms(now)
        commands: list[Command | KeepHistory] = []
        while (due := deadlines.pop_due(now)) is not None:
            self._due(*due, now)
            commands += self._settle(now)
        return commands

    def validate(self) -> None:
        """Assert every invariant."""
        check_invariants(self._context)

    def serves_pages(self, address: str, warning: str = "") -> None:
        """The REST API and the pages are at ``address`` from now on; ``warning`` is for people, "" for none."""
        self._context.http_address = address
        self._context.warnings = (warning,) if warning else ()
        for app in self._context.applications.values():
            app.proxy_url = self._context.proxy_url(app.id)

    @property
    def opportunistic_metrics(self) -> OpportunisticSchedulerMetrics:
        """What was counted of opportunistic containers."""
        return self._context.metrics

    def assigned_per_second(self, now: float) -> int:
        """How many containers were allocated in the last whole second."""
        return self._context.containers.assigned.last(now)

    def pending(self) -> Resource:
        """The size of all that live applications ask for and have not been allocated."""
        memory = vcores = 0
        for app in self._context.live.values():
            for table in (app.attempt.guaranteed_asks, app.attempt.opportunistic_asks):
                for ask in table:
                    memory += ask.outstanding * ask.resource.memory
                    vcores += ask.outstanding * ask.resource.vcores
        return Resource(memory, vcores)

    def _figures(self, now: float) -> scheduling.GetSchedulerFiguresResponse:
        counted = self._context.metrics
        percentiles = counted.percentiles()
        return scheduling.GetSchedulerFiguresResponse(
            self.pending(),
            counted.allocated,
            counted.released,
            counted.node_local,
            counted.rack_local,
            counted.off_switch,
            counted.waits,
            tuple(percentiles),
            tuple(percentiles.values()),
            counted.waited_ms,
            self.assigned_per_second(now),
        )

    # -- dispatch --------------------------------------------------------------------------------------------

    def _call(self, call: CallReceived, now: float) -> None:
        match call.request:
            case tracker.NodeHeartbeatRequest() as request:
                self._tracker.heartbeat(call, request, now)
            case master.AllocateRequest() as request:
                self._masters.allocate(call, request, now)
            case client.SubmitApplicationRequest() as request:
                self._clients.submit(call, request, now)
            case master.RegisterApplicationMasterRequest() as request:
                self._masters.register(call, request, now)
            case distributed.DistributedSchedulingAllocateRequest() as request:
                self._masters.allocate_distributed(call, request, now)
            case distributed.RegisterDistributedSchedulingAMRequest() as request:
                self._masters.register_distributed(call, request, now)
            case master.FinishApplicationMasterRequest() as request:
                self._masters.finish(call, request, now)
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
                self._activities.get(call, request, now)
            case admin.DrainNodesRequest() as request:
                self._admin.drain(call, request, now)
            case admin.ResumeNodesRequest() as request:
                self._admin.resume(call, request, now)
            case admin.UpdateNodeResourceRequest() as request:
                self._admin.resize(call, request, now)
            case admin.RefreshQueuesRequest() as request:
                self._refresh.refresh(call, request)
            case client.GetNewApplicationRequest():
                self._clients.get_new_application(call, now)
            case client.KillApplicationRequest() as request:
                self._clients.kill(call, request, now)
            case client.GetApplicationsRequest() as request:
                self._clients.get_applications(call, request, now)
            case client.GetApplicationAttemptsRequest() as request:
                self._clients.get_attempts(call, request)
            case mapreduce.GetMapReduceJobRequest() as request:
                self._clients.get_map_reduce(call, request, now)
            case client.GetClusterNodesRequest() as request:
                self._clients.get_nodes(call, request)
            case client.GetContainersRequest() as request:
                self._clients.get_containers(call, request)
            case client.ChangeContainerRequest() as request:
                self._updates.change(call, request, now)
            case client.MoveApplicationRequest() as request:
                self._clients.move(call, request, now)
            case client.UpdateApplicationPriorityRequest() as request:
                self._clients.prioritise(call, request, now)
            case client.UpdateApplicationTimeoutsRequest() as request:
                self._changes.limit_lifetime(call, request, now)
            case client.UpdateApplicationTagsRequest() as request:
                self._changes.set_tags(call, request, now)
            case client.GetQueueInfoRequest() as request:
                self._clients.get_queues(call, request)
            case client.GetClusterInfoRequest():
                self._clients.get_info(call, now)
            case scheduling.GetSchedulerFiguresRequest():
                self._context.reply(call.call_id, self._figures(now))
            case client.SetLifetimeRequest() as request:
                self._lifetime.set_lifetime(call, request, now)
            case client.ShutdownClusterRequest() as request:
                self._lifetime.shutdown(call, request, now)
            case _:
                raise NotYetSupportedError(f"the ResourceManager has no method {call.method}")

    def _due(self, kind: str, name: str, now: float) -> None:
        match kind:
            case "heartbeat":
                self._tracker.hold_is_over(name)
            case "allocate":
                self._masters.hold_is_over(name, now)
            case "wait":
                self._clients.wait_is_over(int(name), now)
            case "drain":
                self._admin.drain_is_over(name, now)
            case "events":
                self._events.wait_is_over(int(name))
            case "unclaimed":
                self._masters.unclaimed(name, now)
            case "unended":
                self._masters.unended(name, now)
            case "sort":
                self._context.monitor.compute()
                self._sorted_at = now
                self._context.opportunistic_dirty = True
                self._tracker.rebalance()
            case "preempt":
                self._preempt(now)
            case "preempted":
                self._kill_preempted(name, now)
            case "node":
                self._tracker.expired(name, now)
            case "am":
                self._masters.expired(name, now)
            case "gone":
                self._masters.client_gone(name, now)
            case "timeout":
                if (app := self._context.live.get(name)) is not None:
                    limit = app.context.timeout_ms
                    self._manager.kill(app, f"Application timed out after {limit} ms.", now)
            case "finishing":
                if (app := self._context.live.get(name)) is not None:
                    self._manager.finalise(app, now)
            case "hopeless":
                self._masters.refuse_hopeless(now)
            case "lifetime":
                self._lifetime.idle_for_long(now)
            case "ending":
                self._lifetime.ended_too_slowly(now)
            case _:
                raise AssertionError(f"nothing is known of a deadline {kind}")

    # -- what follows ----------------------------------------------------------------------------------------

    def _settle(self, now: float) -> list[Command | KeepHistory]:
        """Everything that may follow from an event, in one order, until nothing more does."""
        context = self._context
        while context.masters_ended:
            self._manager.master_ended(context.masters_ended.pop(0), now)
        if not context.ending:
            self._allocate(now)
        if context.draining:
            self._admin.check(now)
        context.beating_nodes.clear()
        while context.touched_attempts:
            self._masters.answer(context.touched_attempts.popitem()[1], now)
        while context.touched_nodes:
            self._tracker.answer(context.touched_nodes.popitem()[1])
        if context.waiters_dirty:
            context.waiters_dirty = False
            self._clients.check_waiters(now)
        self._lifetime.check(now)
        self._events.check()
        if context.monitor.stale and _SORT not in context.deadlines:
            interval = context.settings.sorting_nodes_interval_ms / 1000
            context.deadlines.set(_SORT, max(now, self._sorted_at + interval))
        if context.scheduler.starving and self._preempts:
            context.deadlines.ensure(_PREEMPT, now + context.capacity.preemption_interval_ms / 1000)
        kept: list[Command | KeepHistory] = [*self._keeper.check(now)]
        if any(isinstance(command, StopDaemon) for command in context.out):
            kept += self._keeper.all(now)
        commands, context.out = context.out, []
        return [*kept, *commands] if kept else list(commands)

    def _shed(self, now: float) -> None:
        """Take places in queues back from users above their share, for those who found none."""
        context = self._context
        bound = context.settings.max_allocations_per_heartbeat
        waiting = [
            attempt
            for attempt in context.opportunistic_waiting.values()
            if bound <= 0 or attempt.since_call < bound
        ]
        live = context.containers.live
        for container in self._shedder.choose(waiting, live, context.scheduler.total):
            container.preempted_for = f"{SHED}: {container.app.user} holds more than his share"
            container.preempted_as = ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER
            cause = Cause(CauseKind.PREEMPTED, text=container.preempted_for)
            context.containers.end_at_node(container, now, cause, SHED)

    def _is_ending(self, container: RMContainer) -> bool:
        return ("unended", container.id) in self._context.deadlines

    def _preempt(self, now: float) -> None:
        """Mark containers of queues above their capacity for one below, and tell their masters."""
        context, settings = self._context, self._context.capacity
        before = set(self._preemption.marked)
        for container in self._preemption.round(context.scheduler.queues, context.nodes.values()):
            if not container.is_am:
                container.attempt.preempting.put_new(container.id, container.id)
                context.touch(container.attempt)
            if not settings.observe_only:
                due = now + settings.max_wait_before_kill_ms / 1000
                context.deadlines.set(("preempted", container.id), due)
        for container_id in before - self._preemption.marked.keys():
            context.deadlines.clear(("preempted", container_id))

    def _kill_preempted(self, container_id: str, now: float) -> None:
        """The time of a marked container has come: it is ended if that is still of use."""
        self._preempt(now)
        marked = self._preemption.marked.pop(container_id, None)
        if marked is None:
            return
        container, wanting = marked
        wanting.owed = True
        container.preempted_for = f"{PREEMPTED}: queue {container.app.leaf.label} is above its capacity"
        cause = Cause(CauseKind.PREEMPTED, text=container.preempted_for)
        self._context.containers.end_at_node(container, now, cause, PREEMPTED)

    def _allocate(self, now: float) -> None:
        """Guaranteed containers first: opportunistic ones go where these leave something.

        The other way round, an opportunistic container would be sent to resources that a guaranteed one of
        the same call takes from it a moment later.
        """
        context = self._context
        scheduler = context.scheduler
        beating = None if context.heartbeat_wait else list(context.beating_nodes.values())
        if scheduler.dirty or beating:
            self._updates.grant(now, beating)

            def grant(attempt: RMAppAttempt, ask: Ask, node: RMNode) -> None:
                self._grant(attempt, ask, node, ExecutionType.GUARANTEED, None, now)

            scheduler.assign(grant, beating)
        if context.opportunistic_waiting and (context.opportunistic_dirty or context.monitor.gained):

            def grant_opportunistic(attempt: RMAppAttempt, ask: Ask, node: RMNode, claim: Claim) -> None:
                if self._may_be_guaranteed(attempt.app, ask, node):
                    self._grant(attempt, ask, node, ExecutionType.GUARANTEED, None, now)
                else:
                    self._grant(attempt, ask, node, ExecutionType.OPPORTUNISTIC, claim, now)
                context.metrics.granted(attempt.id, ask.key, ask.locations, node.place, ask.outstanding, now)
                # The next turn is another's.
                context.opportunistic_waiting.move_to_end(attempt.id)

            context.allocator.allocate(
                list(context.opportunistic_waiting.values()),
                grant_opportunistic,
                lambda attempts: FairRotation(context.shares, scheduler.total, attempts),
            )
            for attempt in list(context.opportunistic_waiting.values()):
                if not attempt.opportunistic_asks.outstanding:
                    del context.opportunistic_waiting[attempt.id]
            if context.opportunistic_waiting and context.capacity.shed_queued:
                self._shed(now)
        context.opportunistic_dirty = False
        context.monitor.gained = False

    def _may_be_guaranteed(self, app: RMApp, ask: Ask, node: RMNode) -> bool:
        """Whether an opportunistic ask is served better than it wished: what ``node`` has free is free for
        all, nobody is preempted for it, and no guaranteed ask waits for it."""
        if not self._context.settings.may_be_guaranteed or ask.request.execution_type_request.enforce:
            return False
        load, size = node.load, ask.resource
        free = size.memory <= load.free_memory and size.vcores <= load.free_vcores
        if not free or not node.fits_guaranteed(size) or load.awaited:
            return False
        return not self._context.scheduler.refuses(app, size)

    def _grant(
        self,
        attempt: RMAppAttempt,
        ask: Ask,
        node: RMNode,
        execution_type: ExecutionType,
        claim: Claim | None,
        now: float,
    ) -> None:
        context = self._context
        container = context.containers.grant(attempt, ask, node, execution_type, now, claim)
        if container.is_am:
            self._manager.master_allocated(container, now)
        else:
            attempt.allocated.put(container.id, (container, container.container()))
            context.touch(attempt)
