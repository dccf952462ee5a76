"""Calls of clients: submission, kill, lists, waits (YARN's ``ClientRMService``).

A waiting call is held until its condition is fulfilled or its time has passed.
"""

from __future__ import annotations

from collections import Counter

from executor.light import made_of, replace
from executor.records import ExecutionType

from ...allocation.asks import check_label, check_size, normalise
from ...errors import AccessDeniedError, InvalidStateError, ShuttingDownError, UsageError
from ...machine.calls import CallReceived
from ...records import client_protocol as client
from ...records import job_protocol
from ...records.history import GetMapReduceJobRequest, GetMapReduceJobResponse
from ...records.ids import ApplicationId, NodeId
from ...records.jobs import JobSpec
from ...records.reports import ApplicationReport, ClusterInfo, NodeState, YarnApplicationState, has_reached
from ...records.requests import MOST_TAGS, ApplicationSubmissionContext, Token
from ...records.scheduler_protocol import GetSchedulerFiguresRequest, GetSchedulerFiguresResponse
from ..app_manager import RMAppManager
from ..container_ledger import ContainerLedger
from ..context import RMContext
from ..due import Due, DueKind
from ..entities import HOSTED, RMApp, RMAppAttempt
from ..lives import Phase
from ..mapreduce import map_reduce_report
from ..postponed import check_postponed
from ..reports import application_report, attempt_report, container_grant, container_report
from ..scheduler.queues import LeafQueue, total_of
from ..waits import Waits
from .queue_service import QueueService

MAX_PROMISED = 1000
"""The number of unused ids that may be given out; above it, the oldest lapses."""
LONGEST_TAG = 100

_DECIDE = "`yopp up --adopt` lets them run to their end, `yopp up --end` ends them"


class ClientRMService:
    """Answers clients; ``waits`` are their waiting calls for applications or nodes."""

    def __init__(
        self, context: RMContext, ledger: ContainerLedger, manager: RMAppManager, queues: QueueService
    ) -> None:
        self._rm = context
        self._ledger = ledger
        self._manager = manager
        self._queues = queues
        self.waits = Waits(context, DueKind.WAIT)
        self._promised: dict[str, None] = {}

    # -- submission and kill ---------------------------------------------------------------------------------

    def get_new_application(self, _: client.GetNewApplicationRequest) -> client.GetNewApplicationResponse:
        """A new id, and a summary of the cluster."""
        self._refuse_if_ending()
        application_id = str(self._next_id())
        self._promised[application_id] = None
        if len(self._promised) > MAX_PROMISED:
            del self._promised[next(iter(self._promised))]
        return client.GetNewApplicationResponse(application_id, self.info())

    def submit(
        self, call: CallReceived, request: job_protocol.SubmitApplicationRequest
    ) -> job_protocol.SubmitApplicationResponse:
        """Accept an application. A repeated submission, with the same id or key, gets the same answer."""
        app = self.take_in(call, request.context)
        tells = app.unmanaged and not app.hosted
        return self.submitted(app, app.attempt.id if tells else "", app.attempt.token if tells else None)

    def submitted(
        self, app: RMApp, attempt_id: str = "", token: Token | None = None
    ) -> job_protocol.SubmitApplicationResponse:
        """The answer to a submission."""
        return job_protocol.SubmitApplicationResponse(
            application_id=app.id,
            info=self.info(),
            attempt_id=attempt_id,
            am_token=token,
            log_directory=app.log_directory,
        )

    def take_in(
        self, call: CallReceived, submission: ApplicationSubmissionContext, job: JobSpec | None = None
    ) -> RMApp:
        """The application of a submission: a new one, or the one that this user submitted before, in whatever state
        (as in YARN).

        ``job`` is the job of its master, if the master is hosted. Raises YoppError.
        """
        if not call.user:
            raise AccessDeniedError(
                "the submitter of this application is unknown",
                because="the kernel does not show which user is calling",
            )
        user = submission.user if call.uid == 0 and submission.user else call.user
        known = self._rm.submissions.get(submission.key, submission.application_id)
        app = self._rm.applications.get(known)
        if app is None:
            self._refuse_if_ending()
            return self._take_in(call, submission, user, job)
        if app.user != user or app.hosted is not (job is not None):
            raise InvalidStateError(
                f"{app.id} has already been submitted", because=f"it is {app.state.value}"
            )
        return app

    def _take_in(
        self, call: CallReceived, submission: ApplicationSubmissionContext, user: str, job: JobSpec | None
    ) -> RMApp:
        hosted = job is not None
        self._check_submission(submission)
        check_postponed(submission, self._rm, hosted=hosted)
        by_root = call.uid == 0 and user == call.user
        leaf, submission = self._queues.place(submission, user, privileged=by_root, guest=call.guest)
        if not submission.unmanaged:
            leaf.check_size(normalise(submission.am_resource, self._rm.settings))
        if job is not None:
            self._check_tasks(job, leaf)
        if submission.application_id:
            application_id = ApplicationId.parse(submission.application_id)
            if submission.application_id not in self._promised and not self._is_earlier(submission):
                raise InvalidStateError(
                    f"{submission.application_id} was not given out by this cluster",
                    hint="leave the id empty, or request a new one",
                )
            self._promised.pop(submission.application_id, None)
        else:
            application_id = self._next_id()
        connection_id = HOSTED if hosted else call.connection_id
        return self._manager.submit(application_id, submission, user, connection_id, leaf, hosted=hosted)

    def _is_earlier(self, submission: ApplicationSubmissionContext) -> bool:
        """Whether its id may have been given out by a previous RM process. Only the canonical spelling counts: another
        spelling would be another application's id."""
        text, record = submission.application_id, ApplicationId.parse(submission.application_id)
        given = ApplicationId(self._rm.identity.cluster_timestamp, record.id)
        return text == str(given) and 1 <= record.id <= self._rm.recovered_applications

    def _check_submission(self, submission: ApplicationSubmissionContext) -> None:
        if submission.timeout_ms < 0:
            raise UsageError(
                f"a timeout of {submission.timeout_ms} ms is not valid",
                because="it must be at least 0; 0 means no timeout",
            )
        if submission.unmanaged:
            return
        spec = submission.am_container_spec
        if spec is None or not spec.command:
            raise UsageError(
                "this application has no master", because="it is managed, but has no command for a master"
            )
        scheduler, what = self._rm.scheduler, "a master's container"
        check_size(submission.am_resource, self._rm.settings, scheduler.node_sizes.keys(), what=what)
        check_label(submission.node_label_expression, scheduler.label_sets(), what=what)

    def _check_tasks(self, job: JobSpec, leaf: LeafQueue[RMAppAttempt]) -> None:
        """Refuse tasks that no node can ever hold before the job has an id. Otherwise its master would be refused
        later, which the user of a detached job does not see."""
        for task in {(one.resource, one.execution_type) for phase in job.phases for one in phase.tasks}:
            size = check_size(task[0], self._rm.settings, self._rm.scheduler.node_sizes.keys())
            if task[1] is ExecutionType.GUARANTEED:
                leaf.check_size(size)

    def _next_id(self) -> ApplicationId:
        self._rm.last_application += 1
        return ApplicationId(self._rm.identity.cluster_timestamp, self._rm.last_application)

    def _refuse_if_ending(self) -> None:
        if self._rm.ending:
            raise ShuttingDownError(
                "the cluster is shutting down", because="its last job has ended, or it was stopped"
            )

    def kill(self, call: CallReceived, request: client.KillApplicationRequest) -> client.ApplicationResponse:
        """End an application; an ended application stays as it is."""
        app = self._rm.application(request.application_id)
        who = call.user or "a user"
        self._manager.kill(app, request.diagnostics or f"Application killed by {who}.")
        return client.ApplicationResponse(self._report(app))

    # -- changes ---------------------------------------------------------------------------------------------

    def limit_lifetime(self, request: client.UpdateApplicationTimeoutsRequest) -> client.ApplicationResponse:
        """Change the end of an application's lifetime."""
        app, expires_ms = self._rm.application(request.application_id), max(0, request.expires_at_ms)
        self._rm.check_living(app)
        moment = self._rm.moment(expires_ms)
        if expires_ms and moment <= self._rm.now:
            raise InvalidStateError(
                "the expiry time is in the past",
                because="an application cannot end before now",
                hint="use a time in the future; `yopp app kill` ends it now",
            )
        key = Due(DueKind.LIFETIME, app.id)
        if not request.dry_run and expires_ms:
            self._rm.deadlines.set(key, moment)
        elif not request.dry_run:
            self._rm.deadlines.clear(key)
        if app.postponed and not request.dry_run:
            app.expires_at_ms = expires_ms
        timeout_ms = expires_ms - app.timed_from_ms if expires_ms else 0
        answer = self._rm.change_submission(app, dry_run=request.dry_run, timeout_ms=timeout_ms)
        return replace(answer, application=replace(answer.application, timeout_at_ms=expires_ms))

    def set_tags(self, request: client.UpdateApplicationTagsRequest) -> client.ApplicationResponse:
        """Change the tags of an application (YARN has no such call: it accepts tags only at submission)."""
        app = self._rm.application(request.application_id)
        self._rm.check_living(app)
        tags = tuple(dict.fromkeys(request.tags))
        _check_tags(tags)
        return self._rm.change_submission(app, dry_run=request.dry_run, tags=tags)

    def pages_served(self, address: str, warning: str) -> None:
        """Note the address of the daemon's pages."""
        self._rm.http_address = address
        self._rm.warnings = (warning,) if warning else ()
        for app in self._rm.applications.values():
            app.tracking_url = self._rm.proxy_url(app.id)

    # -- looking ---------------------------------------------------------------------------------------------

    def _report(self, app: RMApp) -> ApplicationReport:
        return application_report(app, self._rm.now)

    def get_applications(
        self, request: job_protocol.GetApplicationsRequest
    ) -> job_protocol.GetApplicationsResponse:
        """Applications by filter, in order of submission; ``limit`` keeps the latest."""
        ids = request.application_ids
        apps = list(map(self._rm.application, ids) if ids else self._rm.applications.values())
        found = [app for app in apps if _matches(app, request)]
        if request.limit > 0:
            found = found[-request.limit :]
        return job_protocol.GetApplicationsResponse(tuple(map(self._report, found)))

    def get_attempts(
        self, request: client.GetApplicationAttemptsRequest
    ) -> client.GetApplicationAttemptsResponse:
        """The attempts of one application, oldest first."""
        app = self._rm.application(request.application_id)
        return client.GetApplicationAttemptsResponse(tuple(map(attempt_report, app.attempts)))

    def get_map_reduce(self, request: GetMapReduceJobRequest) -> GetMapReduceJobResponse:
        """The tasks of one application that is a MapReduce job."""
        app = self._rm.application(request.application_id)
        return GetMapReduceJobResponse(
            self._report(app), map_reduce_report(app, self._rm.task_books.get(app.id))
        )

    def get_nodes(self, request: client.GetClusterNodesRequest) -> client.GetClusterNodesResponse:
        """The nodes, in order of their names and ports: daemons that start together register in any order."""
        nodes = [
            node
            for node in sorted(self._rm.nodes.values(), key=lambda node: NodeId.parse(node.node_id))
            if node.state is NodeState.RUNNING or not request.running_only
        ]
        return client.GetClusterNodesResponse(tuple(map(self._rm.node_report, nodes)))

    def get_containers(self, request: client.GetContainersRequest) -> client.GetContainersResponse:
        """Containers by filter, in order of allocation; containers that are requested by id are included even if they
        have ended."""
        if request.container_ids:
            found = list(map(self._rm.container, request.container_ids))
        else:
            found = list(self._rm.live_containers.values())
            if request.finished:
                found.extend(self._rm.finished_containers.values())
        if request.application_id:
            self._rm.application(request.application_id)
            found = [container for container in found if container.app.id == request.application_id]
        if request.node_id:
            self._rm.node(request.node_id)
            found = [container for container in found if container.node.node_id == request.node_id]
        found.sort(key=lambda container: container.sequence)
        if request.grants_only:
            return client.GetContainersResponse((), tuple(map(container_grant, found)))
        return client.GetContainersResponse(tuple(map(container_report, found)))

    def get_figures(self, _: GetSchedulerFiguresRequest) -> GetSchedulerFiguresResponse:
        """The RM's counters."""
        pending = total_of(
            ask.resource * ask.outstanding
            for app in self._rm.live.values()
            for table in app.attempt.tables
            for ask in table
        )
        return self._rm.metrics.figures(pending, self._ledger.assigned.last(self._rm.now))

    def info(self, _: client.GetClusterInfoRequest | None = None) -> ClusterInfo:
        """A summary of the cluster."""
        identity, scheduler = self._rm.identity, self._rm.scheduler
        nodes = self._rm.nodes.values()
        live = [app for app in self._rm.live.values() if not app.ended]
        counts: Counter[Phase] = Counter()
        for app in self._rm.live.values():
            counts.update(app.counts)
        running = sum(app.state is YarnApplicationState.RUNNING for app in live)
        kept, lost = self._rm.containers_kept, self._rm.losses
        if kept and not self._rm.adopted:
            which = "1 container is" if kept == 1 else f"{kept} containers are"
            lost += (f"{which} kept whose applications were lost with stored state: {_DECIDE}",)
        return made_of(
            ClusterInfo,
            identity,
            scheduler,
            self._rm,
            started_at_ms=identity.began_at_ms,
            maximum=scheduler.largest,
            nodes_running=sum(node.usable for node in nodes),
            nodes_lost=sum(node.state is NodeState.LOST for node in nodes),
            applications_running=running,
            applications_pending=len(live) - running,
            applications_finished=self._rm.applications_started - len(live),
            containers_running=counts[Phase.RUNNING],
            containers_queued=counts[Phase.QUEUED],
            containers_paused=counts[Phase.PAUSED],
            opportunistic_enabled=self._rm.settings.opportunistic_enabled,
            properties=dict(identity.properties),
            lost=lost,
        )

    # -- waiting ---------------------------------------------------------------------------------------------

    def wait_for_nodes(
        self, call: CallReceived, request: client.WaitForNodesRequest
    ) -> client.WaitForNodesResponse | None:
        """Answer when this number of nodes is ready, or the time has passed."""

        def answer(final: bool) -> client.WaitForNodesResponse | None:
            nodes = self._rm.nodes.values()
            satisfied = sum(node.usable for node in nodes) >= request.count
            if not (satisfied or final):
                return None
            return client.WaitForNodesResponse(satisfied, tuple(map(self._rm.node_report, nodes)))

        return self.waits.answer(call, answer, request.wait_ms)

    def wait_for_applications(
        self, call: CallReceived, request: client.WaitForApplicationsRequest
    ) -> client.WaitForApplicationsResponse | None:
        """Answer when the applications are in one of the requested states, or the time has passed."""
        for application_id in request.application_ids:
            self._rm.application(application_id)

        def answer(final: bool) -> client.WaitForApplicationsResponse | None:
            apps = list(map(self._rm.applications.get, request.application_ids))
            # An application that has left the history meanwhile has ended.
            reached = [app is None or has_reached(app.state, request.states) for app in apps]
            satisfied = any(reached) if request.any and reached else all(reached)
            if not (satisfied or final):
                return None
            reports = tuple(self._report(app) for app in apps if app is not None)
            return client.WaitForApplicationsResponse(satisfied, reports)

        return self.waits.answer(call, answer, request.wait_ms)


def _check_tags(tags: tuple[str, ...]) -> None:
    """Check YARN's limits of tags (``ApplicationSubmissionContextPBImpl``). Raises InvalidStateError."""
    problem = ""
    if len(tags) > MOST_TAGS:
        problem = f"there are {len(tags)}; at most {MOST_TAGS} are allowed"
    for tag in tags:
        if len(tag) > LONGEST_TAG:
            problem = f"one has {len(tag)} characters; at most {LONGEST_TAG} are allowed"
        elif not tag or not tag.isascii() or not tag.isprintable() or "," in tag:
            problem = "a tag is printable ASCII without a comma, and not empty"
    if problem:
        raise InvalidStateError(
            "these cannot be the tags of an application",
            because=problem,
            hint="yopp app tags last nightly big",
        )


def _matches(app: RMApp, request: job_protocol.GetApplicationsRequest) -> bool:
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
