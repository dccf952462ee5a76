"""What clients ask: submission, kill, lists, waits (YARN's ``ClientRMService``).

Waits are held until they are satisfied or their time has passed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...allocation.asks import check_label, check_size, normalise
from ...errors import (
    AccessDeniedError,
    ApplicationNotFoundError,
    ContainerNotFoundError,
    InvalidStateError,
    NodeNotFoundError,
    ShuttingDownError,
    UsageError,
)
from ...machine.calls import CallReceived
from ...records.client_protocol import (
    ApplicationResponse,
    GetApplicationAttemptsRequest,
    GetApplicationAttemptsResponse,
    GetApplicationsRequest,
    GetApplicationsResponse,
    GetClusterInfoResponse,
    GetClusterNodesRequest,
    GetClusterNodesResponse,
    GetContainersRequest,
    GetContainersResponse,
    GetNewApplicationResponse,
    GetQueueInfoRequest,
    GetQueueInfoResponse,
    KillApplicationRequest,
    MoveApplicationRequest,
    SubmitApplicationRequest,
    SubmitApplicationResponse,
    UpdateApplicationPriorityRequest,
    WaitForApplicationsRequest,
    WaitForApplicationsResponse,
    WaitForNodesRequest,
    WaitForNodesResponse,
)
from ...records.ids import ApplicationId, NodeId
from ...records.mapreduce_report import GetMapReduceJobRequest, GetMapReduceJobResponse
from ...records.reports import FINAL_STATES, ApplicationReport, ClusterInfo, NodeState, YarnApplicationState
from ...records.requests import ApplicationSubmissionContext
from ..apps import mapreduce
from ..apps.applications import Phase, RMApp
from ..apps.manager import RMAppManager
from ..containers.containers import RMContainer
from ..context import RMContext
from .queue_service import QueueService

MAX_PROMISED = 1000
"""How many ids may be given out and not used yet; the oldest lapses."""
_RANK = {state: rank for rank, state in enumerate(YarnApplicationState)}


@dataclass(frozen=True, slots=True)
class _Waiter:
    """A wait that is not satisfied yet."""

    call_id: int
    connection_id: int
    request: WaitForApplicationsRequest | WaitForNodesRequest


class ClientRMService:
    """Answers clients, and keeps those that wait."""

    def __init__(self, context: RMContext, manager: RMAppManager, queues: QueueService) -> None:
        self._context = context
        self._manager = manager
        self._queues = queues
        self._waiters: dict[int, _Waiter] = {}
        self._last_application = 0
        self._promised: dict[str, None] = {}

    # -- submission and kill ---------------------------------------------------------------------------------

    def get_new_application(self, call: CallReceived, now: float) -> None:
        """A fresh id, and the cluster in short."""
        self._refuse_if_ending()
        application_id = str(self._next_id())
        self._promised[application_id] = None
        if len(self._promised) > MAX_PROMISED:
            del self._promised[next(iter(self._promised))]
        self._context.reply(call.call_id, GetNewApplicationResponse(application_id, self.info(now)))

    def submit(self, call: CallReceived, request: SubmitApplicationRequest, now: float) -> None:
        """Take an application in. Submitting the same one twice (a repeated call) gives the same answer."""
        self._refuse_if_ending()
        context = self._context
        submission = request.context
        if not call.user:
            raise AccessDeniedError(
                "nobody submits this application", because="the kernel does not tell whose call it is"
            )
        user = submission.user if call.uid == 0 and submission.user else call.user
        if submission.application_id in context.applications:
            app = context.applications[submission.application_id]
            if app.ended or app.user != user:
                raise InvalidStateError(f"{app.id} was submitted already", because=f"it is {app.state.value}")
        else:
            self._check_submission(submission)
            by_root = call.uid == 0 and user == call.user
            leaf, submission = self._queues.place(submission, user, privileged=by_root)
            if not submission.unmanaged:
                leaf.check_size(normalise(submission.am_resource, context.settings))
            if submission.application_id:
                application_id = ApplicationId.parse(submission.application_id)
                if submission.application_id not in self._promised:
                    raise InvalidStateError(
                        f"{submission.application_id} was not given out by this cluster",
                        hint="leave the id empty, or ask for a new one",
                    )
                del self._promised[submission.application_id]
            else:
                application_id = self._next_id()
            app = self._manager.submit(application_id, submission, user, call.connection_id, now, leaf)
        unmanaged = app.unmanaged
        context.reply(
            call.call_id,
            SubmitApplicationResponse(
                application_id=app.id,
                info=self.info(now),
                attempt_id=app.attempt.id if unmanaged else "",
                am_token=app.attempt.token if unmanaged else None,
                log_directory=app.log_directory,
            ),
        )

    def _check_submission(self, submission: ApplicationSubmissionContext) -> None:
        context = self._context
        if submission.timeout_ms < 0:
            raise UsageError(f"a timeout of {submission.timeout_ms} ms makes no sense", because="0 is none")
        if submission.unmanaged:
            return
        spec = submission.am_container_spec
        if spec is None or not spec.command:
            raise UsageError(
                "this application has no master", because="it names no command for one and is not unmanaged"
            )
        check_size(
            submission.am_resource,
            context.settings,
            context.scheduler.node_sizes.keys(),
            what="a master's container",
        )
        places = [node.place for node in context.scheduler.nodes.values()]
        check_label(submission.node_label_expression, places, what="a master's container")

    def kill(self, call: CallReceived, request: KillApplicationRequest, now: float) -> None:
        """End an application; one that has ended stays as it is."""
        app = self.application(request.application_id)
        who = call.user or "a user"
        self._manager.kill(app, request.diagnostics or f"Application killed by {who}.", now)
        self._context.reply(call.call_id, ApplicationResponse(app.report(now)))

    # -- looking ---------------------------------------------------------------------------------------------

    def get_applications(self, call: CallReceived, request: GetApplicationsRequest, now: float) -> None:
        """Applications by filter, in order of submission; ``limit`` keeps the latest."""
        context = self._context
        apps: list[RMApp]
        if request.application_ids:
            apps = [self.application(application_id) for application_id in request.application_ids]
        else:
            apps = list(context.applications.values())
        found = [app for app in apps if _matches(app, request)]
        if request.limit > 0:
            found = found[-request.limit :]
        context.reply(call.call_id, GetApplicationsResponse(tuple(app.report(now) for app in found)))

    def get_attempts(self, call: CallReceived, request: GetApplicationAttemptsRequest) -> None:
        """The attempts of one application, oldest first."""
        app = self.application(request.application_id)
        self._context.reply(
            call.call_id,
            GetApplicationAttemptsResponse(tuple(attempt.report() for attempt in app.attempts)),
        )

    def get_map_reduce(self, call: CallReceived, request: GetMapReduceJobRequest, now: float) -> None:
        """The tasks of one application that is a MapReduce job."""
        app = self.application(request.application_id)
        found = mapreduce.report(app, self._context.identity.wall_offset)
        self._context.reply(call.call_id, GetMapReduceJobResponse(app.report(now), found))

    def get_nodes(self, call: CallReceived, request: GetClusterNodesRequest) -> None:
        """The nodes, in order of their names and ports: daemons that start together register in any order."""
        offset = self._context.identity.wall_offset
        nodes = tuple(
            node.report(offset)
            for node in sorted(self._context.nodes.values(), key=lambda node: NodeId.parse(node.node_id))
            if node.state is NodeState.RUNNING or not request.running_only
        )
        self._context.reply(call.call_id, GetClusterNodesResponse(nodes))

    def get_containers(self, call: CallReceived, request: GetContainersRequest) -> None:
        """Containers by filter, in order of allocation; those asked for by id are shown even if ended."""
        context = self._context
        ledger = context.containers
        if request.container_ids:
            found = [self._container(container_id) for container_id in request.container_ids]
        else:
            found = list(ledger.live.values())
            if request.finished:
                found.extend(ledger.finished.values())
        if request.application_id:
            self.application(request.application_id)
            found = [container for container in found if container.app.id == request.application_id]
        if request.node_id:
            if request.node_id not in context.nodes:
                raise NodeNotFoundError(
                    f"Node {request.node_id} doesn't exist",
                    because="none of that id has registered",
                    hint="yopp node list",
                    sought=request.node_id,
                )
            found = [container for container in found if container.node.node_id == request.node_id]
        found.sort(key=lambda container: container.sequence)
        offset = context.identity.wall_offset
        context.reply(
            call.call_id, GetContainersResponse(tuple(container.report(offset) for container in found))
        )

    def get_queues(self, call: CallReceived, request: GetQueueInfoRequest) -> None:
        """The queues of guaranteed containers."""
        self._context.reply(call.call_id, GetQueueInfoResponse(self._queues.reports(request.queue)))

    def move(self, call: CallReceived, request: MoveApplicationRequest, now: float) -> None:
        """Put an application into another queue, with what it has."""
        app = self.application(request.application_id)
        self._queues.move(app, request.queue, call.user, privileged=call.uid == 0, dry_run=request.dry_run)
        report = app.report(now)
        if request.dry_run:
            report = replace(report, queue=self._queues.leaf(request.queue).label)
        self._context.reply(call.call_id, ApplicationResponse(report))

    def prioritise(self, call: CallReceived, request: UpdateApplicationPriorityRequest, now: float) -> None:
        """Give an application another priority."""
        app = self.application(request.application_id)
        self._queues.prioritise(
            app, request.priority, call.user, privileged=call.uid == 0, dry_run=request.dry_run
        )
        report = replace(app.report(now), priority=self._queues.capped(request.priority))
        self._context.reply(call.call_id, ApplicationResponse(report))

    def get_info(self, call: CallReceived, now: float) -> None:
        """The cluster in short."""
        self._context.reply(call.call_id, GetClusterInfoResponse(self.info(now)))

    def info(self, now: float) -> ClusterInfo:
        """The cluster in short."""
        context, identity = self._context, self._context.identity
        nodes = context.nodes.values()
        live = [app for app in context.live.values() if not app.ended]
        counts = {
            phase: sum(app.counts[phase] for app in context.live.values())
            for phase in (Phase.RUNNING, Phase.QUEUED, Phase.PAUSED)
        }
        running = sum(1 for app in live if app.state is YarnApplicationState.RUNNING)
        return ClusterInfo(
            started_at_ms=identity.cluster_timestamp,
            cluster_timestamp=identity.cluster_timestamp,
            pid=identity.pid,
            version=identity.version,
            lifetime=context.lifetime,
            run_dir=identity.run_dir,
            address=identity.address,
            total=context.scheduler.total,
            used=context.scheduler.used,
            maximum=context.scheduler.largest,
            nodes_running=sum(1 for node in nodes if node.usable),
            nodes_lost=sum(1 for node in nodes if node.state is NodeState.LOST),
            applications_running=running,
            applications_pending=len(live) - running,
            applications_finished=context.applications_started - len(live),
            containers_running=counts[Phase.RUNNING],
            containers_queued=counts[Phase.QUEUED],
            containers_paused=counts[Phase.PAUSED],
            opportunistic_enabled=context.settings.opportunistic_enabled,
            properties=dict(identity.properties),
            http_address=context.http_address,
            warnings=context.warnings,
        )

    # -- waiting ---------------------------------------------------------------------------------------------

    def wait(
        self,
        call: CallReceived,
        request: WaitForApplicationsRequest | WaitForNodesRequest,
        now: float,
    ) -> None:
        """Answer once the wait is satisfied, or its time has passed."""
        waiter = _Waiter(call.call_id, call.connection_id, request)
        if isinstance(request, WaitForApplicationsRequest):
            for application_id in request.application_ids:
                self.application(application_id)
        if self._satisfied(waiter) or request.wait_ms <= 0 or self._context.ending:
            self._end_wait(waiter, now)
            return
        self._waiters[call.call_id] = waiter
        self._context.deadlines.set(("wait", str(call.call_id)), now + request.wait_ms / 1000)

    def check_waiters(self, now: float) -> None:
        """Something changed that somebody may wait for."""
        for waiter in list(self._waiters.values()):
            if self._satisfied(waiter):
                self._end_wait(waiter, now)

    def wait_is_over(self, call_id: int, now: float) -> None:
        """The time of a wait has passed."""
        if (waiter := self._waiters.get(call_id)) is not None:
            self._end_wait(waiter, now)

    def end_waits(self, now: float) -> None:
        """The RM ends: nobody shall wait for it."""
        for waiter in list(self._waiters.values()):
            self._end_wait(waiter, now)

    def connection_lost(self, connection_id: int) -> None:
        """Nobody waits for these answers any more."""
        for waiter in list(self._waiters.values()):
            if waiter.connection_id == connection_id:
                self._forget(waiter)

    def _satisfied(self, waiter: _Waiter) -> bool:
        request = waiter.request
        if isinstance(request, WaitForNodesRequest):
            return len(self._context.running_nodes()) >= request.count
        wanted = request.states or tuple(FINAL_STATES)
        # One that has left the history meanwhile has ended.
        reached = [
            app is None or _reached(app.state, wanted)
            for app in map(self._context.applications.get, request.application_ids)
        ]
        return any(reached) if request.any and reached else all(reached)

    def _end_wait(self, waiter: _Waiter, now: float) -> None:
        self._forget(waiter)
        context, request = self._context, waiter.request
        satisfied = self._satisfied(waiter)
        if isinstance(request, WaitForNodesRequest):
            nodes = tuple(node.report(context.identity.wall_offset) for node in context.nodes.values())
            context.reply(waiter.call_id, WaitForNodesResponse(satisfied, nodes))
            return
        reports: list[ApplicationReport] = [
            context.applications[application_id].report(now)
            for application_id in request.application_ids
            if application_id in context.applications
        ]
        context.reply(waiter.call_id, WaitForApplicationsResponse(satisfied, tuple(reports)))

    def _forget(self, waiter: _Waiter) -> None:
        self._waiters.pop(waiter.call_id, None)
        self._context.deadlines.clear(("wait", str(waiter.call_id)))

    # -- finding ---------------------------------------------------------------------------------------------

    def _next_id(self) -> ApplicationId:
        self._last_application += 1
        return ApplicationId(self._context.identity.cluster_timestamp, self._last_application)

    def application(self, application_id: str) -> RMApp:
        """Alive or ended. Raises ApplicationNotFoundError."""
        if (app := self._context.applications.get(application_id)) is not None:
            return app
        ApplicationId.parse(application_id)
        raise ApplicationNotFoundError(
            f"Application with id '{application_id}' doesn't exist in RM.",
            because=self._context.why_unknown(application_id),
            hint="yopp app list -a",
            sought=application_id,
        )

    def _container(self, container_id: str) -> RMContainer:
        found = self._context.containers.find(container_id)
        if found is None:
            raise ContainerNotFoundError(
                f"Container with id '{container_id}' doesn't exist in RM.",
                because=self._context.why_unknown(container_id),
                hint="yopp ps -a",
                sought=container_id,
            )
        return found

    def _refuse_if_ending(self) -> None:
        if self._context.ending:
            raise ShuttingDownError(
                "the cluster is shutting down", because="its last job has ended, or somebody ended it"
            )


def _matches(app: RMApp, request: GetApplicationsRequest) -> bool:
    context = app.context
    return not (
        (request.states and app.state not in request.states)
        or (request.application_types and context.application_type not in request.application_types)
        or (request.tags and not set(request.tags) & set(context.tags))
        or (request.queue and context.queue != request.queue)
        or (request.user and app.user != request.user)
        or (request.name and context.name != request.name)
        or (request.live_only and app.ended)
    )


def _reached(state: YarnApplicationState, wanted: tuple[YarnApplicationState, ...]) -> bool:
    """Whether ``state`` is one of ``wanted`` or later.

    The three ends are equally late, as none follows another.
    """
    if state in wanted or state in FINAL_STATES:
        return True
    return any(_RANK[state] >= _RANK[one] for one in wanted if one not in FINAL_STATES)
