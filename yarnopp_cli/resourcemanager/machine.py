"""The ResourceManager as one machine: calls in, answers out, now or later.

``handle`` looks up who answers a request of the three protocols (clients, masters, nodes). After each event,
``_settle`` performs the consequences of its changes. The RM makes no calls. ``__init__.py`` explains how it works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, assert_never

from executor.core.events import WallClockStepped

from ..allocation.host_capacity import HostMeasured
from ..errors import NotYetSupportedError, YoppError
from ..machine.calls import CallReceived, ConnectionLost, PagesServed, StopDaemon
from ..machine.restarts import DaemonGivenUp, DaemonRestarted
from ..records import admin_protocol as admin
from ..records import client_protocol as client
from ..records import distributed_protocol as distributed
from ..records import explanation, history, job_protocol
from ..records import master_protocol as master
from ..records import scheduler_protocol as scheduling
from ..records import tracker_protocol as tracker
from ..records.state import Stored
from .adoption import Adoption
from .allocation import ContainerAllocation
from .app_manager import RMAppManager
from .commands import Command, JobPlaced
from .container_ledger import ContainerLedger
from .container_updates import ContainerUpdates
from .context import RMContext
from .due import DueKind
from .hosting.calls import HostedCalls
from .hosting.masters import HostedMasters
from .inquiries import Inquiries
from .invariants import check_invariants
from .lifetime import Lifetime
from .recovery import Recovered, Recovery
from .scheduler.preemption import PreemptionMonitor
from .services.admin_service import AdminService
from .services.application_master_service import ApplicationMasterService
from .services.client_rm_service import ClientRMService
from .services.explain_service import ExplainService
from .services.foresight import Foresight
from .services.history_service import HistoryService
from .services.postponing import Postponed
from .services.queue_service import QueueReader, QueueService
from .services.resource_tracker_service import ResourceTrackerService
from .state_store import RMStateStore

Event = (
    CallReceived
    | ConnectionLost
    | PagesServed
    | DaemonRestarted
    | DaemonGivenUp
    | WallClockStepped
    | HostMeasured
    | JobPlaced
)


class ResourceManager:
    """Implements ``Machine[Event, Command]`` over the books of ``context``.

    ``read_queues`` makes new queues from properties while the RM runs.
    """

    def __init__(self, context: RMContext, read_queues: QueueReader | None = None) -> None:
        self.context = self._rm = context
        ledger = ContainerLedger(context)
        adoption = Adoption(context, ledger)
        self._manager = manager = RMAppManager(context, ledger)
        updates = ContainerUpdates(context, ledger)
        self._allocation = ContainerAllocation(context, ledger, manager, updates)
        self._preemption = preemption = PreemptionMonitor(context, ledger)
        self._inquiries = inquiries = Inquiries(context)
        self._tracker = tracking = ResourceTrackerService(context, ledger, adoption, inquiries)
        self._masters = masters = ApplicationMasterService(context, ledger, adoption, manager, updates)
        self._queues = queues = QueueService(context, read_queues)
        self._clients = clients = ClientRMService(context, ledger, manager, queues)
        hosted_calls = HostedCalls(context, ledger, masters, clients)
        self.hosting = self._hosting = hosting = HostedMasters(context, manager, clients, hosted_calls)
        self._postponed = postponed = Postponed(context, manager, hosting)
        self._history = HistoryService(context)
        self._admin = administration = AdminService(context, ledger)
        self._lifetime = lifetime = Lifetime(context, manager, tracking, clients)
        self._store = RMStateStore(context, hosting)
        self._recovery = recovery = Recovery(context, manager, ledger, adoption, hosting, queues, self._store)
        self.explaining = explaining = ExplainService(context, preemption, inquiries, hosting.held_back)
        self._foresight = Foresight(context, inquiries)
        #: reads: functions of the context, whoever asks
        self._reads: dict[type, Callable[[Any], Any]] = {
            job_protocol.GetApplicationsRequest: clients.get_applications,
            client.GetApplicationAttemptsRequest: clients.get_attempts,
            client.GetClusterNodesRequest: clients.get_nodes,
            client.GetContainersRequest: clients.get_containers,
            client.GetClusterInfoRequest: clients.info,
            client.GetQueueInfoRequest: queues.get_queues,
            job_protocol.GetJobRequest: hosting.get,
            history.GetMapReduceJobRequest: clients.get_map_reduce,
            scheduling.GetSchedulerFiguresRequest: clients.get_figures,
            scheduling.GetActivitiesRequest: explaining.get_activities,
        }
        #: other requests that are answered at once, whoever asks
        self._answers: dict[type, Callable[[Any], Any]] = {
            tracker.UnRegisterNodeManagerRequest: tracking.unregister,
            master.FinishApplicationMasterRequest: masters.finish,
            client.GetNewApplicationRequest: clients.get_new_application,
            client.UpdateApplicationTimeoutsRequest: clients.limit_lifetime,
            client.UpdateApplicationTagsRequest: clients.set_tags,
            client.ChangeContainerRequest: updates.change,
            job_protocol.StopJobRequest: hosting.stop,
            client.SetLifetimeRequest: lifetime.set_lifetime,
            client.SettleLostRequest: tracking.settle_lost,
            admin.DrainNodesRequest: administration.drain,
            admin.ResumeNodesRequest: administration.resume,
            admin.UpdateNodeResourceRequest: administration.resize,
            admin.RefreshQueuesRequest: queues.refresh,
        }
        #: requests whose answer depends on who asks, or may come later
        self._calls: dict[type, Callable[[CallReceived, Any], Any]] = {
            tracker.NodeHeartbeatRequest: tracking.heartbeat,
            tracker.RegisterNodeManagerRequest: tracking.register,
            master.AllocateRequest: masters.allocate,
            master.RegisterApplicationMasterRequest: masters.register,
            distributed.DistributedSchedulingAllocateRequest: masters.allocate_distributed,
            distributed.RegisterDistributedSchedulingAMRequest: masters.register_distributed,
            job_protocol.SubmitApplicationRequest: clients.submit,
            job_protocol.SubmitJobRequest: hosting.submit,
            job_protocol.WatchJobRequest: hosting.watch,
            client.KillApplicationRequest: clients.kill,
            client.MoveApplicationRequest: queues.move,
            client.UpdateApplicationPriorityRequest: queues.prioritise,
            client.ShutdownClusterRequest: lifetime.shutdown,
            client.WaitForApplicationsRequest: clients.wait_for_applications,
            client.WaitForNodesRequest: clients.wait_for_nodes,
            history.GetEventsRequest: self._history.get,
            explanation.ExplainRequest: explaining.explain,
            explanation.ForeseeJobRequest: self._foresight.foresee,
        }
        self._when_due: dict[DueKind, Callable[..., object]] = {
            DueKind.HELD_HEARTBEAT: tracking.hold_is_over,
            DueKind.HELD_ALLOCATE: masters.hold_is_over,
            DueKind.INQUIRY: inquiries.time_is_over,
            DueKind.WAIT: clients.waits.time_is_over,
            DueKind.EVENTS: self._history.waits.time_is_over,
            DueKind.NODE_LIVENESS: tracking.expired,
            DueKind.NODE_SILENCE: tracking.silent,
            DueKind.MASTER_LIVENESS: masters.expired,
            DueKind.CLIENT_GONE: masters.client_gone,
            DueKind.LIFETIME: manager.timed_out,
            DueKind.BEGIN: postponed.time_has_come,
            DueKind.DEADLINE: postponed.deadline_passed,
            DueKind.FINISHING: manager.finished_too_slowly,
            DueKind.UNCLAIMED: ledger.unclaimed,
            DueKind.UNENDED: ledger.unended,
            DueKind.PREEMPTED: preemption.kill,
            DueKind.DRAIN: administration.drain_is_over,
            DueKind.SORT: tracking.sort,
            DueKind.PREEMPT: preemption.look,
            DueKind.HOPELESS: masters.refuse_hopeless,
            DueKind.IDLE: lifetime.idle_for_long,
            DueKind.ENDING: lifetime.stop,
            DueKind.HOSTED_MASTER: hosting.due,
            DueKind.HOSTED_NEWS: hosting.tell,
            DueKind.RECOVERY: recovery.over,
        }

    def recover(
        self, records: Iterable[Stored], now: float, events: Iterable[history.HistoryEvent] = ()
    ) -> list[Command]:
        """Recover from stored records and events, before any other event."""
        self._rm.begin(now)
        self._recovery.restore(Recovered.of(records), events)
        return self._settle()

    # -- the machine -----------------------------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> list[Command]:
        """Handle one event; return commands in the order in which they are to be performed."""
        self._rm.begin(now)
        match event:
            case CallReceived():
                try:
                    if (response := self._answer(event)) is not None:
                        self._rm.reply(event.call_id, response)
                except YoppError as error:
                    self._rm.refuse(event.call_id, error)
            case ConnectionLost(connection_id):
                self._tracker.connection_lost(connection_id)
                self._masters.connection_lost(connection_id)
                self._hosting.connection_lost(connection_id)
                self._clients.waits.connection_lost(connection_id)
                self._history.waits.connection_lost(connection_id)
                self._inquiries.connection_lost(connection_id)
            case PagesServed(address, warning):
                self._clients.pages_served(address, warning)
            case DaemonRestarted() | DaemonGivenUp():
                self._history.daemon_died(event)
            case WallClockStepped(offset):
                self._rm.wall_clock_stepped(offset)
            case HostMeasured(capacity):
                self._rm.host = capacity
            case JobPlaced():
                self._foresight.placed(event)
            case _:
                assert_never(event)
        return self._settle()

    def reads(self, request: object) -> bool:
        """Whether ``read`` answers a request."""
        return type(request) in self._reads

    def read(self, request: object, now: float) -> Any:
        """The answer to a read, beside the events: a function of the context, which it leaves as it is. Raises
        YoppError."""
        self._rm.begin(now)
        return self._reads[type(request)](request)

    def next_deadline(self) -> float | None:
        """The time of the next call of ``advance``, None for never."""
        return self._rm.deadlines.next()

    def advance(self, now: float) -> list[Command]:
        """Perform everything that is due by ``now``."""
        self._rm.begin(now)
        commands: list[Command] = []
        while (due := self._rm.deadlines.pop_due(now)) is not None:
            handler = self._when_due[due.kind]
            handler(due.of) if due.of else handler()
            commands += self._settle()
        return commands

    def validate(self) -> None:
        """Assert every invariant."""
        check_invariants(self._rm)
        self._hosting.validate()

    def _answer(self, call: CallReceived) -> Any:
        """The answer to a call; None if it was sent already or follows later."""
        kind = type(call.request)
        if (handler := self._answers.get(kind) or self._reads.get(kind)) is not None:
            return handler(call.request)
        if (caller := self._calls.get(kind)) is not None:
            return caller(call, call.request)
        raise NotYetSupportedError(f"the ResourceManager has no method {call.method}")

    # -- what follows ----------------------------------------------------------------------------------------

    def _settle(self) -> list[Command]:
        """Perform all consequences of the changes of a step, in one order, until nothing changes any more."""
        changes = self._rm.changes
        if changes.arrived:
            self._recovery.check()
        while changes.masters_ended:
            self._manager.master_ended(changes.masters_ended.pop(0))
        if self._rm.draining:
            self._admin.check()
        self._serve_masters()
        while changes.postponed:
            self._postponed.consider(changes.postponed.pop(0))
            self._serve_masters()
        changes.beating.clear()
        while changes.nodes:
            self._tracker.answer(changes.nodes.popitem()[1])
        if changes.awaited:
            changes.awaited = False
            self._clients.waits.check()
        self._lifetime.check()
        if changes.hosted:  # The end of the cluster was reported to hosted masters.
            self._serve_masters()
        self._history.check()
        self._tracker.check()
        self._preemption.check()
        ending = self._rm.ending and any(isinstance(command, StopDaemon) for command in changes.commands)
        kept = self._history.keep(everything=ending)
        written = self._store.writes()  # Stored before any caller is answered.
        commands, changes.commands = changes.commands, []
        return [*kept, *written, *self._history.fresh(), *commands]

    def _serve_masters(self) -> None:
        """Allocate, and notify masters, until hosted masters make no further requests."""
        changes = self._rm.changes
        while True:
            if not self._rm.ending:
                self._allocation.allocate()
            while changes.attempts:
                self._masters.answer(changes.attempts.popitem()[1])
            if not changes.hosted:
                return
            self._hosting.hear()
