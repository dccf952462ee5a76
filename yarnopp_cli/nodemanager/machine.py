"""NodeManager: the machine of one node of a cluster (YARN's ContainerManagerImpl and NodeStatusUpdaterImpl).

It embeds a ContainerScheduler, passes its commands on, and adds the duties of a node in a cluster: the calls of
masters and users with their tokens, registration and heartbeats, the end of applications, and its own end. Pure: it
reads no clock, file or socket. ``link`` decides when to call the ResourceManager, ``containers`` which statuses to
report, ``service`` checks tokens and serves calls, ``orders`` carries out the RM's answers, ``ending`` decides the
steps of the end.

Decisions: nm-keeps-containers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from executor.causes import Cause, CauseKind
from executor.core import events as executor_events
from executor.core.commands import ReportStatus
from executor.core.machine import earliest
from executor.core.scheduler import ContainerScheduler
from executor.records import ContainerExitStatus, ContainerState, ExecutionType, Resource
from executor.settings import ExecutorSettings

from ..errors import InvalidStateError, NotYetSupportedError, ShuttingDownError, YoppError
from ..machine.calls import CallReceived, ConnectionLost, PagesServed, Reply, ReplyError, StopDaemon
from ..machine.tokens import machine_ms
from ..records import container_protocol as protocol
from ..records import master_protocol
from ..records.foretell_protocol import ForetellRequest
from ..records.reports import ON_DEMAND, STAY
from ..records.tracker_protocol import (
    NodeHeartbeatRequest,
    NodeHeartbeatResponse,
    NodeOrders,
    NodeQuestion,
    RegisterNodeManagerRequest,
    RegisterNodeManagerResponse,
    UnRegisterNodeManagerRequest,
)
from ..settings.declarations import NodeManagerSettings
from .containers import NodeContainers
from .ending import EndingStep, NodeEnding
from .events import (
    AnnounceReady,
    AnswerByCopy,
    CallUpstream,
    Command,
    ConnectUpstream,
    CopyAnswered,
    Event,
    NodeStopRequested,
    UpstreamAnswered,
    UpstreamConnected,
    UpstreamLost,
    UpstreamRefused,
)
from .link import LinkState, ResourceManagerLink
from .orders import ResourceManagerOrders
from .reports import NodeDescription, NodeReporter
from .service import ContainerService

if TYPE_CHECKING:
    # Imported late: few nodes have an AMRMProxy, and it imports many modules.
    from .proxy.amrmproxy import AMRMProxyService

HOLD_SECONDS: Final = 10.0
"""Seconds for which masters' calls wait for a node that has not registered yet: it has no key for tokens."""
FIRST_CONTACT_SECONDS: Final = 30.0
"""Seconds for which a new node tries to reach an RM that it has never reached."""
ON_DEMAND_PATIENCE_SECONDS: Final = 5.0
"""Seconds by which a node of an on-demand cluster outlives its RM: no process will restart this RM."""

NODE_UNHEALTHY = "Container returned because its node is unhealthy"
NODE_ENDED = "Container killed because its NodeManager was stopped"


class NodeManager:
    """The machine of one node: ``Machine[Event, Command]``.

    ``address`` is the address on which it listens (``unix:/path``), ``log_dir`` the directory of containers' output.
    ``wall_offset`` is the epoch seconds at the machine's time 0. It calls the RM only after RecoveryCompleted.
    ``proxy`` is the AMRMProxy of the masters on this node, if it has one.
    """

    def __init__(
        self,
        node_id: str,
        address: str,
        total: Resource,
        executor_settings: ExecutorSettings,
        settings: NodeManagerSettings,
        *,
        physical_cores: int,
        wall_offset: float = 0.0,
        enforce_memory_by_polling: bool = False,
        log_dir: str,
        facts: NodeDescription | None = None,
        proxy: AMRMProxyService | None = None,
        devices: Sequence[str] = (),
    ) -> None:
        self.node_id = node_id
        self._proxy = proxy
        self._settings = settings
        self._executor_settings = executor_settings
        self._wall_offset = wall_offset
        self._log_dir = log_dir
        self._scheduler = ContainerScheduler(
            total,
            executor_settings,
            physical_cores=physical_cores,
            wall_offset=wall_offset,
            enforce_memory_by_polling=enforce_memory_by_polling,
            devices=devices,
        )
        self._containers = NodeContainers()
        self._link = ResourceManagerLink(
            periodic=settings.heartbeat_mode == "periodic", gap=settings.heartbeat_gap_ms / 1000
        )
        self._service = ContainerService(node_id, log_dir, self._scheduler, self._containers, self._pass)
        self._reporter = NodeReporter(
            node_id,
            address,
            log_dir,
            facts or NodeDescription(),
            self._scheduler,
            self._containers,
            (lambda: proxy.applications) if proxy is not None else tuple,
        )
        self._orders = ResourceManagerOrders(
            log_dir, self._scheduler, self._containers, proxy, self._pass, self._collect
        )
        self._token_key: bytes | None = None
        self._lifetime = ""
        self._health_told = ""
        self._held: list[tuple[float, CallReceived]] = []
        self._ending: NodeEnding | None = None
        self._stopped = False
        self._now = 0.0
        self._commands: list[Command] = []

    @property
    def scheduler(self) -> ContainerScheduler:
        """The embedded scheduler, for reading."""
        return self._scheduler

    @property
    def has_containers(self) -> bool:
        """Whether a container is live here, or has ended without the RM's acknowledgement."""
        return bool(self._containers.live or self._containers.unacknowledged)

    # -- the machine -----------------------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> list[Command]:
        """Handle one event; return commands, in the order in which they must be performed."""
        self._begin(now)
        match event:
            case CallReceived():
                self._on_call(event)
            case ConnectionLost():
                self._held = [held for held in self._held if held[1].connection_id != event.connection_id]
                if self._proxy is not None:
                    self._commands += self._proxy.handle(event, now)
            case UpstreamConnected(""):
                self._register()
            case UpstreamLost(""):
                self._on_resource_manager_lost()
            case UpstreamAnswered(CallUpstream("", sequence), response):
                self._on_answered(sequence, response)
            case UpstreamRefused(CallUpstream("", _, request), error):
                self._on_refused(request, error)
            case NodeStopRequested():
                self._on_stop_requested(event)
            case UpstreamConnected() | UpstreamLost() | UpstreamAnswered() | UpstreamRefused():
                if self._proxy is not None:
                    self._commands += self._proxy.handle(event, now)
            case executor_events.RecoveryCompleted():
                self._pass(event)
                self._connect()
            case executor_events.UsageSampled():
                self._pass(event)
                if self._reporter.sampled(event, now):
                    self._link.changed(now)
            case executor_events.WallClockStepped():
                self._wall_offset = event.offset
                if self._proxy is not None:
                    self._proxy.directory.wall_offset = event.offset
                self._pass(event)
            case PagesServed():
                self._reporter.serves_pages(event.address)
                self._link.changed(self._now)
            case CopyAnswered(answer, call_id):
                if call_id is not None:
                    self._commands.append(Reply(call_id, answer))
                else:
                    self._reporter.answers.append(answer)
                    self._link.changed(self._now)
            case _:
                self._pass(event)
        return self._finish()

    @property
    def container_counts(self) -> dict[str, int]:
        """The number of launched containers, and of each kind of end, since the node's start."""
        return dict(self._containers.counts)

    @property
    def cluster_stays(self) -> bool:
        """Whether the RM has reported that the cluster does not end with its last job."""
        return self._lifetime == STAY

    def follow(self, orders: NodeOrders, now: float) -> list[Command]:
        """Do what an answer to a heartbeat asks for: how a copy of this machine foresees what would follow."""
        self._begin(now)
        self._orders.follow(orders, self._epoch_ms)
        return self._commands

    def next_deadline(self) -> float | None:
        """The time of the next call of ``advance``; None for never."""
        if self._stopped:
            return None
        due = self._scheduler.next_deadline()
        if self._ending is not None:
            return earliest((due, self._ending.deadline))
        proxied = self._proxy.next_deadline() if self._proxy is not None else None
        held = self._held[0][0] if self._held else None
        return earliest((due, self._link.next_deadline(), self._patience_ends(), proxied, held))

    def advance(self, now: float) -> list[Command]:
        """Perform everything that is due by ``now``."""
        self._begin(now)
        self._collect(self._scheduler.advance(now))
        if self._proxy is not None and self._ending is None:
            self._commands += self._proxy.advance(now)
        if self._ending is None and self._link.retry_due(now):
            self._connect()
        elif self._ending is None and self._link.registration_due(now):
            self._register()
        while self._held and self._held[0][0] <= now:
            _, call = self._held.pop(0)
            because = "it has not reached its ResourceManager yet"
            self._refuse(call, InvalidStateError(f"node {self.node_id} is not ready", because=because))
        patience_ends = self._patience_ends()
        if self._ending is None and patience_ends is not None and now >= patience_ends:
            known = self._link.was_registered
            self._begin_ending(
                "its ResourceManager is gone" if known else "no ResourceManager answered", keep=False
            )
        return self._finish()

    def validate(self) -> None:
        """Assert every invariant, the scheduler's too."""
        self._scheduler.validate()
        self._containers.validate()
        self._link.validate()
        if self._proxy is not None:
            self._proxy.validate()
        assert self._token_key is None or self._link.was_registered
        assert not (self._held and self._token_key is not None and self._ending is None)

    def _begin(self, now: float) -> None:
        self._now = now
        self._commands = []
        self._reporter.began(self._epoch_ms)

    def _finish(self) -> list[Command]:
        """Do what may follow any event: send a heartbeat, or take the next step of the end."""
        if self._stopped:
            return self._commands
        if self._scheduler.health_report != self._health_told:
            self._health_told = self._scheduler.health_report
            self._link.changed(self._now)
        if self._scheduler.health_report and self._scheduler.queue_length:
            self._give_back_queued(self._scheduler.health_report)
        self._link.queueing = self._scheduler.queue_length > 0
        self._link.idle = self._scheduler.is_idle
        if self._ending is not None:
            self._go_on_ending(self._ending)
        elif self._link.heartbeat_due(self._now):
            self._heartbeat()
        return self._commands

    @property
    def _epoch_ms(self) -> int:
        return int((self._now + self._wall_offset) * 1000)

    def _pass(self, event: executor_events.Event) -> None:
        self._collect(self._scheduler.handle(event, self._now))

    def _collect(self, commands: Iterable[Command]) -> None:
        """Pass commands on, except the scheduler's reports, which are handled here."""
        for command in commands:
            if isinstance(command, ReportStatus):
                self._containers.reported(command.status)
                self._link.changed(
                    self._now, opportunistic=command.status.execution_type is ExecutionType.OPPORTUNISTIC
                )
            else:
                self._commands.append(command)

    # -- the ResourceManager ---------------------------------------------------------------------------

    def _connect(self) -> None:
        if self._ending is None:
            self._link.connecting(self._now)
            self._commands.append(ConnectUpstream())

    def _register(self) -> None:
        if self._ending is None:
            self._link.registering()
            self._commands.append(CallUpstream("", 0, self._reporter.registration()))

    def _on_answered(self, sequence: int, response: object) -> None:
        match response:
            case RegisterNodeManagerResponse():
                self._on_registered(response)
            case NodeHeartbeatResponse():
                if self._link.answered(sequence, response, self._now):
                    self._on_heartbeat_response(response)
            case _:
                self._link.unregistered()

    def _on_refused(self, request: object, error: YoppError) -> None:
        match request:
            case RegisterNodeManagerRequest():
                self._on_registration_refused(error)
            case NodeHeartbeatRequest():
                if self._link.is_registered:
                    self._link.register_again(self._now)
            case _:
                self._link.unregistered()  # Whether or not the RM refused, no report follows.

    def _on_registered(self, response: RegisterNodeManagerResponse) -> None:
        if self._ending is not None or self._link.state is not LinkState.REGISTERING:
            return
        if response.action != "NORMAL":
            reason = response.diagnostics or f"the ResourceManager answered {response.action}"
            # It may be refused because another process of this node is alive: the containers here are not its own to
            # end.
            self._link.unregistered()
            self._begin_ending(reason, keep=self._lifetime != ON_DEMAND)
            return
        first = not self._link.was_registered
        interval = max(response.heartbeat_interval_ms, 10) / 1000
        self._link.registered(self._now, secret=response.secret, interval=interval)
        self._token_key = bytes.fromhex(response.container_token_key)
        if self._proxy is not None:
            self._proxy.registered(self._token_key)
        self._orders.clean_up(response)
        if first:
            self._commands.append(AnnounceReady())
        held, self._held = self._held, []
        for _, call in held:
            self._on_call(call)

    def _on_registration_refused(self, error: YoppError) -> None:
        if self._ending is not None or self._link.state is not LinkState.REGISTERING:
            return
        if self._link.was_registered or isinstance(error, ShuttingDownError):
            self._link.register_again(self._now)
        else:
            self._begin_ending(str(error), keep=True)

    def _on_resource_manager_lost(self) -> None:
        # No guaranteed container comes from an RM that is lost.
        self._pass(executor_events.GuaranteedAwaited(False))
        self._link.lost(self._now)

    def _patience_ends(self) -> float | None:
        """The time when this node gives its RM up; None for never: it keeps its containers and tries again."""
        lost_at = self._link.lost_at
        if self._ending is not None or lost_at is None or self._link.state is LinkState.CONNECTING:
            return None
        if not self._link.was_registered:
            return lost_at + FIRST_CONTACT_SECONDS
        return lost_at + ON_DEMAND_PATIENCE_SECONDS if self._lifetime == ON_DEMAND else None

    def _heartbeat(self) -> None:
        request = self._reporter.heartbeat(self._link, self._now)
        self._commands.append(CallUpstream("", self._link.sent(self._now), request))

    def _on_heartbeat_response(self, response: NodeHeartbeatResponse) -> None:
        if self._ending is not None:
            return
        self._lifetime = response.lifetime
        if response.action == "SHUTDOWN":
            reason = response.diagnostics or "the ResourceManager ended this node"
            self._begin_ending(reason, keep=response.keep_containers, by_resource_manager=True)
            return
        if response.action == "RESYNC":
            self._link.register_again(self._now)
            return
        self._orders.follow(response, self._epoch_ms)
        self._commands += map(AnswerByCopy, response.questions)
        if self._proxy is not None and response.nodes_for_scheduling is not None:
            self._collect(self._proxy.nodes_changed(response.nodes_for_scheduling, self._now))

    def _give_back_queued(self, why: str) -> None:
        """Return the containers that have not begun: no container can be started here, so they are requested again
        elsewhere."""
        queued = [
            status.container_id
            for status in map(self._scheduler.status, self._containers.live)
            if status is not None and status.state is ContainerState.SCHEDULED
        ]
        self._abort(queued, Cause(CauseKind.NODE_FAULT, text=why), f"{NODE_UNHEALTHY}: {why}")

    def _abort(
        self,
        container_ids: Iterable[str],
        cause: Cause,
        diagnostics: str,
        status: ContainerExitStatus = ContainerExitStatus.ABORTED,
        *,
        force: bool = False,
    ) -> None:
        """End containers whose node is at fault, unless ``status`` says otherwise; their work is requested again
        elsewhere."""
        for event in self._containers.kills(container_ids, status, cause, diagnostics, force=force):
            self._pass(event)

    # -- the end ---------------------------------------------------------------------------------------

    def _on_stop_requested(self, event: NodeStopRequested) -> None:
        if self._ending is None:
            self._begin_ending(event.reason, keep=event.keep_containers)
        else:
            self._ending.hasten(self._now)

    def _begin_ending(self, reason: str, *, keep: bool, by_resource_manager: bool = False) -> None:
        """Begin the end. Containers are kept only if the next NM process will look for them."""
        keep = keep and self._settings.recovery_enabled
        patience = self._executor_settings.sleep_delay_before_sigkill_ms / 1000
        self._ending = NodeEnding(reason, self._now, keeps=keep, patience=patience)
        for _, call in self._held:
            self._refuse(call, self._ending.refusal(self.node_id))
        self._held.clear()
        if not keep:
            ended = ContainerExitStatus.KILLED_AFTER_APP_COMPLETION
            status = ended if by_resource_manager else ContainerExitStatus.ABORTED
            cause = Cause(CauseKind.NODE_STOPPED, text=reason)
            self._abort(self._containers.live, cause, f"{NODE_ENDED}: {reason}", status)

    def _go_on_ending(self, ending: NodeEnding) -> None:
        live = self._containers.live
        match ending.next_step(self._now, live=len(live), registered=self._link.is_registered):
            case EndingStep.KILL:
                cause = Cause(CauseKind.NODE_STOPPED, text=ending.reason)
                self._abort(live, cause, NODE_ENDED, force=True)
            case EndingStep.UNREGISTER:
                if not ending.keeps:
                    self._heartbeat()  # Report the ended containers before the RM counts the others as lost.
                request = UnRegisterNodeManagerRequest(self.node_id, self._link.secret, ending.keeps)
                self._commands.append(CallUpstream("", 0, request))
            case EndingStep.STOP:
                self._stop(ending)

    def _stop(self, ending: NodeEnding) -> None:
        self._stopped = True
        if not ending.keeps:
            # Their ends were reported, or no RM is there to receive them: the next NM process need not report them.
            ended = self._containers.acknowledged(list(self._containers.unacknowledged))
            self._collect(self._scheduler.forget(ended))
        self._link.unregistered()
        self._commands.append(StopDaemon(ending.reason))

    # -- calls -----------------------------------------------------------------------------------------

    def _on_call(self, call: CallReceived) -> None:
        try:
            response = self._served(call)
        except YoppError as error:
            self._refuse(call, error)
        else:
            if response is not None:
                self._commands.append(Reply(call.call_id, response))

    def _served(self, call: CallReceived) -> object | None:
        """The response to a call; None for a call that waits, or that the AMRMProxy answers."""
        request, service = call.request, self._service
        match request:
            case protocol.StartContainersRequest() | protocol.UpdateContainersRequest():
                if self._ending is not None:
                    raise self._ending.refusal(self.node_id)
                if self._token_key is None:
                    self._held.append((self._now + HOLD_SECONDS, call))
                    return None
                if isinstance(request, protocol.StartContainersRequest):
                    return service.start_containers(request, self._token_key, machine_ms(self._now))
                return service.update_containers(request, self._token_key, machine_ms(self._now))
            case (
                master_protocol.RegisterApplicationMasterRequest()
                | master_protocol.AllocateRequest()
                | master_protocol.FinishApplicationMasterRequest()
            ):
                if self._ending is not None:
                    raise self._ending.refusal(self.node_id)
                if self._proxy is None:
                    raise NotYetSupportedError("no AMRMProxy here")
                self._commands += self._proxy.handle(call, self._now)
                return None
            case protocol.StopContainersRequest():
                return service.stop_containers(request, call.user)
            case protocol.GetContainerStatusesRequest():
                return service.container_statuses(request)
            case protocol.SignalContainerRequest():
                return service.signal_container(request)
            case protocol.PauseContainerRequest():
                return service.pause_container(request, call.user)
            case protocol.ResumeContainerRequest():
                return service.resume_container(request, call.user)
            case ForetellRequest():
                question = NodeQuestion(0, orders=(request.orders,), pauses=request.pauses)
                self._commands.append(AnswerByCopy(question, call.call_id))
                return None
            case protocol.GetNodeInfoRequest():
                return self._reporter.node_info(self._link, self._wall_offset)
            case protocol.GetUsageTracesRequest():
                return self._reporter.traces.told(request.container_ids)
            case protocol.GetNodeFiguresRequest():
                return protocol.GetNodeFiguresResponse(self.container_counts)
        raise NotYetSupportedError(f"a NodeManager does not answer {call.method}")

    def _refuse(self, call: CallReceived, error: YoppError) -> None:
        self._commands.append(ReplyError(call.call_id, error))
