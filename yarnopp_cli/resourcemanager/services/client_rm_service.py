"""What clients ask: submission, kill, lists, waits (YARN's ``ClientRMService``).

Waits are held until they are satisfied or their time has passed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from executor.records import Resource

from ...allocation.asks import check_label, check_size, normalise
from ...errors import (
    AccessDeniedError,
    InvalidStateError,
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
    UpdateApplicationTagsRequest,
    UpdateApplicationTimeoutsRequest,
    WaitForApplicationsRequest,
    WaitForApplicationsResponse,
    WaitForNodesRequest,
    WaitForNodesResponse,
)
from ...records.history import GetMapReduceJobRequest, GetMapReduceJobResponse
from ...records.ids import ApplicationId, NodeId
from ...records.reports import FINAL_STATES, ApplicationReport, ClusterInfo, NodeState, YarnApplicationState
from ...records.requests import ApplicationSubmissionContext
from ..app_manager import RMAppManager
from ..container_ledger import ContainerLedger
from ..context import RMContext
from ..due import Due, DueKind
from ..entities import RMApp
from ..lives import Phase
from ..mapreduce import map_reduce_report
from ..reports import application_report, attempt_report, container_report, node_report
from ..scheduler.queues import total_of
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

    def __init__(
        self, context: RMContext, ledger: ContainerLedger, manager: RMAppManager, queues: QueueService
    ) -> None:
        self._context = context
        self._ledger = ledger
        self._manager = manager
        self._queues = queues
        self._waiters: dict[int, _Waiter] = {}
        self._last_application = 0
        self._promised: dict[str, None] = {}

    # -- submission and kill ---------------------------------------------------------------------------------

    def get_new_application(self, now: float) -> GetNewApplicationResponse:
        """A fresh id, and the cluster in short."""
        self._refuse_if_ending()
        application_id = str(self._next_id())
        self._promised[application_id] = None
        if len(self._promised) > MAX_PROMISED:
            del self._promised[next(iter(self._promised))]
        return GetNewApplicationResponse(application_id, self.info(now))

    def submit(
        self, call: CallReceived, request: SubmitApplicationRequest, now: float
    ) -> SubmitApplicationResponse:
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
        return SubmitApplicationResponse(
            application_id=app.id,
            info=self.info(now),
            attempt_id=app.attempt.id if unmanaged else "",
            am_token=app.attempt.token if unmanaged else None,
            log_directory=app.log_directory,
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

    def kill(self, call: CallReceived, request: KillApplicationRequest, now: float) -> ApplicationResponse:
        """End an application; one that has ended stays as it is."""
        app = self._context.application(request.application_id)
        who = call.user or "a user"
        self._manager.kill(app, request.diagnostics or f"Application killed by {who}.", now)
        return ApplicationResponse(application_report(app, now))

    # -- looking ---------------------------------------------------------------------------------------------

    def get_applications(self, request: GetApplicationsRequest, now: float) -> GetApplicationsResponse:
        """Applications by filter, in order of submission; ``limit`` keeps the latest."""
        context = self._context
        apps: list[RMApp]
        if request.application_ids:
            apps = [context.application(application_id) for application_id in request.application_ids]
        else:
            apps = list(context.applications.values())
        found = [app for app in apps if _matches(app, request)]
        if request.limit > 0:
            found = found[-request.limit :]
        return GetApplicationsResponse(tuple(application_report(app, now) for app in found))

    def get_attempts(self, request: GetApplicationAttemptsRequest) -> GetApplicationAttemptsResponse:
        """The attempts of one application, oldest first."""
        app = self._context.application(request.application_id)
        return GetApplicationAttemptsResponse(tuple(attempt_report(attempt) for attempt in app.attempts))

    def get_map_reduce(self, request: GetMapReduceJobRequest, now: float) -> GetMapReduceJobResponse:
        """The tasks of one application that is a MapReduce job."""
        app = self._context.application(request.application_id)
        tasks, offset = self._context.task_books.get(app.id), self._context.identity.wall_offset
        found = map_reduce_report(app, tasks, offset)
        return GetMapReduceJobResponse(application_report(app, now), found)

    def get_nodes(self, request: GetClusterNodesRequest) -> GetClusterNodesResponse:
        """The nodes, in order of their names and ports: daemons that start together register in any order."""
        offset = self._context.identity.wall_offset
        nodes = tuple(
            node_report(node, offset)
            for node in sorted(self._context.nodes.values(), key=lambda node: NodeId.parse(node.node_id))
            if node.state is NodeState.RUNNING or not request.running_only
        )
        return GetClusterNodesResponse(nodes)

    def get_containers(self, request: GetContainersRequest) -> GetContainersResponse:
        """Containers by filter, in order of allocation; those asked for by id are shown even if ended."""
        context = self._context
        if request.container_ids:
            found = [context.container(container_id) for container_id in request.container_ids]
        else:
            found = list(context.live_containers.values())
            if request.finished:
                found.extend(context.finished_containers.values())
        if request.application_id:
            self._context.application(request.application_id)
            found = [container for container in found if container.app.id == request.application_id]
        if request.node_id:
            context.node(request.node_id)
            found = [container for container in found if container.node.node_id == request.node_id]
        found.sort(key=lambda container: container.sequence)
        offset = context.identity.wall_offset
        return GetContainersResponse(tuple(container_report(container, offset) for container in found))

    def get_queues(self, request: GetQueueInfoRequest) -> GetQueueInfoResponse:
        """The queues of guaranteed containers."""
        return GetQueueInfoResponse(self._queues.reports(request.queue))

    def move(self, call: CallReceived, request: MoveApplicationRequest, now: float) -> ApplicationResponse:
        """Put an application into another queue, with what it has."""
        app = self._context.application(request.application_id)
        self._queues.move(app, request.queue, call.user, privileged=call.uid == 0, dry_run=request.dry_run)
        report = application_report(app, now)
        if request.dry_run:
            report = replace(report, queue=self._queues.leaf(request.queue).label)
        return ApplicationResponse(report)

    def prioritise(
        self, call: CallReceived, request: UpdateApplicationPriorityRequest, now: float
    ) -> ApplicationResponse:
        """Give an application another priority."""
        app = self._context.application(request.application_id)
        self._queues.prioritise(
            app, request.priority, call.user, privileged=call.uid == 0, dry_run=request.dry_run
        )
        report = replace(application_report(app, now), priority=self._queues.capped(request.priority))
        return ApplicationResponse(report)

    def limit_lifetime(self, request: UpdateApplicationTimeoutsRequest, now: float) -> ApplicationResponse:
        """Another end of its lifetime."""
        context = self._context
        app = self._living(request.application_id)
        key = Due(DueKind.LIFETIME, app.id)
        moment = request.expires_at_ms / 1000 - context.identity.wall_offset
        if request.expires_at_ms > 0 and moment <= now:
            raise InvalidStateError(
                "the expiry time is in the past",
                because="an application cannot end before now",
                hint="name a time that is to come; `yopp app kill` ends it now",
            )
        report = replace(application_report(app, now), timeout_at_ms=max(0, request.expires_at_ms))
        if not request.dry_run and request.expires_at_ms <= 0:
            context.deadlines.clear(key)
            app.context = replace(app.context, timeout_ms=0)
        elif not request.dry_run:
            context.deadlines.set(key, moment)
            app.context = replace(app.context, timeout_ms=request.expires_at_ms - app.submitted_ms)
        return ApplicationResponse(report)

    def set_tags(self, request: UpdateApplicationTagsRequest, now: float) -> ApplicationResponse:
        """Other tags (no call of YARN's, which takes them at submission only)."""
        app = self._living(request.application_id)
        tags = tuple(dict.fromkeys(request.tags))
        _check_tags(tags)
        report = replace(application_report(app, now), tags=tags)
        if not request.dry_run:
            app.context = replace(app.context, tags=tags)
        return ApplicationResponse(report)

    def get_figures(self, call: CallReceived, now: float) -> None:
        """What is counted beside the reports."""
        pending = total_of(
            Resource(ask.outstanding * ask.resource.memory, ask.outstanding * ask.resource.vcores)
            for app in self._context.live.values()
            for table in app.attempt.tables
            for ask in table
        )
        assigned = self._ledger.assigned.last(now)
        self._context.reply(call.call_id, self._context.metrics.figures(pending, assigned))

    def pages_served(self, address: str, warning: str) -> None:
        """The daemon's pages are at ``address`` from now on."""
        context = self._context
        context.http_address = address
        context.warnings = (warning,) if warning else ()
        for app in context.applications.values():
            app.proxy_url = context.proxy_url(app.id)

    def get_info(self, now: float) -> GetClusterInfoResponse:
        """The cluster in short."""
        return GetClusterInfoResponse(self.info(now))

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
                self._context.application(application_id)
        if self._satisfied(waiter) or request.wait_ms <= 0 or self._context.ending:
            self._end_wait(waiter, now)
            return
        self._waiters[call.call_id] = waiter
        self._context.deadlines.set(Due(DueKind.WAIT, str(call.call_id)), now + request.wait_ms / 1000)

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
            nodes = tuple(node_report(node, context.identity.wall_offset) for node in context.nodes.values())
            context.reply(waiter.call_id, WaitForNodesResponse(satisfied, nodes))
            return
        reports: list[ApplicationReport] = [
            application_report(context.applications[application_id], now)
            for application_id in request.application_ids
            if application_id in context.applications
        ]
        context.reply(waiter.call_id, WaitForApplicationsResponse(satisfied, tuple(reports)))

    def _forget(self, waiter: _Waiter) -> None:
        self._waiters.pop(waiter.call_id, None)
        self._context.deadlines.clear(Due(DueKind.WAIT, str(waiter.call_id)))

    # -- finding ---------------------------------------------------------------------------------------------

    def _next_id(self) -> ApplicationId:
        self._last_application += 1
        return ApplicationId(self._context.identity.cluster_timestamp, self._last_application)

    def _living(self, application_id: str) -> RMApp:
        app = self._context.application(application_id)
        if app.ended:
            raise InvalidStateError(
                f"Application {app.id} cannot be changed",
                because=f"it is {app.state.value}",
                hint="`yopp app list` shows those that live",
            )
        return app

    def _refuse_if_ending(self) -> None:
        if self._context.ending:
            raise ShuttingDownError(
                "the cluster is shutting down", because="its last job has ended, or somebody ended it"
            )


MOST_TAGS = 10
LONGEST_TAG = 100


def _check_tags(tags: tuple[str, ...]) -> None:
    """YARN's bounds of tags (``ApplicationSubmissionContextPBImpl``). Raises InvalidStateError."""
    problem = ""
    if len(tags) > MOST_TAGS:
        problem = f"there are {len(tags)}, and {MOST_TAGS} are the most"
    for tag in tags:
        if len(tag) > LONGEST_TAG:
            problem = f"one has {len(tag)} characters, and {LONGEST_TAG} are the most"
        elif not tag or not tag.isascii() or not tag.isprintable() or "," in tag:
            problem = "a tag is printable ASCII without a comma, and not empty"
    if problem:
        raise InvalidStateError(
            "these cannot be the tags of an application",
            because=problem,
            hint="yopp app tags last nightly big",
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
