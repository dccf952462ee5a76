"""The life of an application from submission to its end, with its attempts and the cleanup after each end.

YARN's ``RMAppManager`` and the actions of ``RMAppImpl`` and ``RMAppAttemptImpl``. Starts nothing itself: a
master's container is handed to its node in the answer to a heartbeat.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from executor.causes import Cause, CauseKind
from executor.light import replace
from executor.records import PREEMPTION_STATUSES, ContainerExitStatus, exit_status_name

from ..allocation.asks import normalise
from ..machine.tokens import AMRM_TOKEN, sign
from ..records.history import EventKind
from ..records.ids import ApplicationAttemptId, ApplicationId
from ..records.master_protocol import (
    AM_SHUTDOWN,
    AM_TOKEN_FILE,
    ATTEMPT_VARIABLE,
    AllocateResponse,
    FinishApplicationMasterRequest,
)
from ..records.reports import (
    FinalApplicationStatus,
    JobSummary,
    YarnApplicationState,
    plain_diagnostics,
)
from ..records.requests import ApplicationSubmissionContext, ContainerLaunchContext, ResourceRequest
from ..records.tracker_protocol import ContainerToStart
from .container_ledger import ContainerLedger
from .context import RMContext
from .due import Due, DueKind
from .entities import RMApp, RMAppAttempt, RMContainer
from .lives import AppEvent, AttemptEvent, AttemptState
from .mapreduce import TaskBook
from .postponed import waiting_for
from .scheduler.queues import LeafQueue

FINISHING_GRACE = 5.0
"""Seconds that a master's container has to end after its master has unregistered."""
_ENDS = {
    YarnApplicationState.FINISHED: EventKind.APPLICATION_FINISHED,
    YarnApplicationState.FAILED: EventKind.APPLICATION_FAILED,
    YarnApplicationState.KILLED: EventKind.APPLICATION_KILLED,
}
_NOT_THE_MASTERS_FAULT = PREEMPTION_STATUSES | {ContainerExitStatus.DISKS_FAILED}


class RMAppManager:
    """Moves applications through their tables, and performs the consequences of each transition."""

    def __init__(self, context: RMContext, ledger: ContainerLedger) -> None:
        self._rm = context
        self._ledger = ledger

    # -- beginnings ------------------------------------------------------------------------------------------

    def submit(
        self,
        application_id: ApplicationId,
        submission: ApplicationSubmissionContext,
        user: str,
        connection_id: int,
        leaf: LeafQueue[RMAppAttempt],
        *,
        hosted: bool = False,
    ) -> RMApp:
        """Accept a valid submission and start its first attempt."""
        submission = replace(submission, application_id=str(application_id))
        app = self.enter(submission, user, leaf, self._rm.now_ms, hosted=hosted)
        words = {"name": submission.name, "user": user, "queue": submission.queue}
        self._rm.history.add(EventKind.APPLICATION_SUBMITTED, app=app.id, words=words)
        self._rm.history.add(EventKind.APPLICATION_ACCEPTED, app=app.id)
        attempt = self.new_attempt(app, connection_id)
        app.leaf.enter(attempt)
        if submission.begin_at_ms or submission.after:
            self.postpone(app)
        else:
            self._begin(attempt)
        return app

    def enter(
        self,
        context: ApplicationSubmissionContext,
        user: str,
        leaf: LeafQueue[RMAppAttempt],
        submitted_at_ms: int,
        *,
        hosted: bool,
    ) -> RMApp:
        """Enter a new application, in state ACCEPTED, into all books."""
        app_id, limit = context.application_id, self._rm.settings.max_attempts
        app = RMApp(
            id=app_id,
            number=ApplicationId.parse(app_id).id,
            context=context,
            user=user,
            log_directory=f"{self._rm.identity.log_dir}/{app_id}",
            max_attempts=min(context.max_attempts, limit) if context.max_attempts > 0 else limit,
            submitted_at_ms=submitted_at_ms,
            leaf=leaf,
            hosted=hosted,
            counted_until=self._rm.now,
            tracking_url=self._rm.proxy_url(app_id),
        )
        if context.map_reduce is not None:
            self._rm.task_books[app_id] = TaskBook(context.map_reduce)
        self._rm.applications[app_id] = app
        self._rm.live[app_id] = app
        if context.key:
            self._rm.submissions[context.key] = app_id
        self._rm.applications_started += 1
        self._rm.move(app, AppEvent.SUBMIT)
        self._rm.move(app, AppEvent.ACCEPT)
        if context.deadline_at_ms:
            self._rm.deadlines.set(Due(DueKind.DEADLINE, app_id), self._rm.moment(context.deadline_at_ms))
        return app

    def postpone(self, app: RMApp) -> None:
        """Let the application begin when the conditions of its submission are fulfilled."""
        app.postponed = True
        self._rm.postponed[app.id] = app
        self._rm.changes.postponed.append(app)

    def begin(self, app: RMApp) -> None:
        """Begin a postponed application."""
        app.postponed = False
        del self._rm.postponed[app.id]
        self._rm.deadlines.clear(Due(DueKind.BEGIN, app.id))
        app.diagnostics = ""
        self._begin(app.attempt)

    def _begin(self, attempt: RMAppAttempt) -> None:
        app = attempt.app
        app.began_at_ms = self._rm.now_ms
        self.start(attempt)
        if app.expires_at_ms:  # The deadline is a time of day, and does not depend on the beginning.
            app.context = replace(app.context, timeout_ms=max(1, app.expires_at_ms - app.began_at_ms))
            self._rm.changes.applications[app.id] = app
        if app.context.timeout_ms > 0:
            due = self._rm.now + app.context.timeout_ms / 1000
            self._rm.deadlines.set(Due(DueKind.LIFETIME, app.id), due)

    def new_attempt(self, app: RMApp, connection_id: int = -1) -> RMAppAttempt:
        """Add another attempt, which is then the application's last one, in state NEW."""
        record = ApplicationAttemptId(ApplicationId.parse(app.id), len(app.attempts) + 1)
        attempt_id = str(record)
        attempt = RMAppAttempt(
            id=attempt_id,
            record=record,
            app=app,
            token=sign(self._rm.am_key, AMRM_TOKEN, {"attempt_id": attempt_id}),
            connection_id=connection_id,
            last_contact=self._rm.now,
            started_at_ms=self._rm.now_ms,
        )
        attempt.opportunistic_asks.watch = self._rm.opportunistic_waiting.asked
        attempt.guaranteed_asks.watch = lambda size: self._rm.scheduler.asked(attempt, size)
        app.attempts.append(attempt)
        return attempt

    def start(self, attempt: RMAppAttempt) -> None:
        """Start the attempt's master, or expect calls of a master that runs already."""
        app = attempt.app
        place = "ResourceManager" if app.hosted else "client" if app.unmanaged else "container"
        words = {"attempt": attempt.id, "master": place}
        self._rm.history.add(EventKind.ATTEMPT_STARTED, app=app.id, words=words)
        if app.unmanaged:
            self._rm.move(attempt, AttemptEvent.LAUNCHED)
            self.expect_master(attempt)
        else:
            self._rm.move(attempt, AttemptEvent.START)
            request = ResourceRequest(
                1, app.context.am_resource, node_label_expression=app.context.node_label_expression
            )
            table = attempt.guaranteed_asks
            table.put(request, normalise(app.context.am_resource, self._rm.settings))
            attempt.am_ask = next(iter(table))
            self._rm.changes.guaranteed = True

    def master_allocated(self, container: RMContainer) -> None:
        """A master's container was allocated: let its node start it."""
        attempt, app = container.attempt, container.app
        attempt.am_ask = None
        attempt.am_container = container
        self._rm.move(attempt, AttemptEvent.CONTAINER_ALLOCATED)
        container.node.to_start.put(
            container.id,
            ContainerToStart(
                container=container.container(),
                launch_context=_master_launch_context(attempt),
                application_id=app.id,
                user=app.user,
            ),
        )
        self._rm.news_for_node(container.node)
        self.expect_master(attempt)

    def expect_master(self, attempt: RMAppAttempt) -> None:
        """Begin to expect calls of the attempt's master, each within the expiry interval."""
        attempt.last_contact = self._rm.now
        self._rm.deadlines.ensure(
            Due(DueKind.MASTER_LIVENESS, attempt.id),
            self._rm.now + self._rm.settings.am_expiry_interval_ms / 1000,
        )

    def registered(self, attempt: RMAppAttempt) -> None:
        """The attempt's master has registered."""
        app = attempt.app
        self._rm.move(attempt, AttemptEvent.REGISTERED)
        self._rm.move(app, AppEvent.ATTEMPT_REGISTERED)
        self._rm.history.add(EventKind.APPLICATION_RUNNING, app=app.id, words={"attempt": attempt.id})
        if not app.started_at_ms:
            app.started_at_ms = self._rm.now_ms

    # -- ends ------------------------------------------------------------------------------------------------

    def unregistered(self, attempt: RMAppAttempt, request: FinishApplicationMasterRequest) -> None:
        """The attempt's master has reported the end of the job."""
        app = attempt.app
        self.leave(attempt, AttemptEvent.UNREGISTERED, request.diagnostics)
        if request.summary is not None:
            app.summary = request.summary
        self._end(app, AppEvent.ATTEMPT_UNREGISTERED, request.final_status, request.diagnostics)

    def kill(self, app: RMApp, diagnostics: str, exit_code: int = -1) -> None:
        """End the application, with the given exit code if any. An ended application does not change."""
        if not app.ended:
            if exit_code >= 0:
                app.summary = replace(app.summary or JobSummary(), exit_code=exit_code)
            self.leave(app.attempt, AttemptEvent.KILL, diagnostics)
            self._end(app, AppEvent.KILL, FinalApplicationStatus.KILLED, diagnostics)

    def refuse(self, app: RMApp, diagnostics: str) -> None:
        """Fail an application whose master can never run: another attempt would fail, too."""
        self.leave(app.attempt, AttemptEvent.FAIL, diagnostics)
        self._end(app, AppEvent.ATTEMPT_FAILED, FinalApplicationStatus.FAILED, diagnostics)

    def fail_attempt(self, attempt: RMAppAttempt, diagnostics: str, *, counted: bool = True) -> None:
        """An attempt has failed; ``counted`` if it is the master's own fault.

        Another attempt follows if the application has any left.
        """
        app = attempt.app
        self.leave(attempt, AttemptEvent.FAIL, diagnostics)
        app.failures += counted
        if app.unmanaged or app.failures >= app.max_attempts:
            told = diagnostics
            if not app.unmanaged:
                times = "once" if app.failures == 1 else f"{app.failures} times"
                told = f"Application {app.id} failed {times} due to {diagnostics}"
            self._end(app, AppEvent.ATTEMPT_FAILED, FinalApplicationStatus.FAILED, told)
        else:
            self._retry(attempt)

    def _retry(self, attempt: RMAppAttempt) -> None:
        """Start another attempt, which takes over the containers that are to be kept."""
        app, kept = attempt.app, attempt.app.context.keep_containers_across_attempts
        self._silence(attempt)
        self._rm.move(app, AppEvent.ATTEMPT_RETRIED)
        following = self.new_attempt(app)
        app.leaf.enter(following)
        self.start(following)
        for container in list(attempt.containers.values()):
            if container.is_am or not kept:
                self._end_container(container)
            else:
                del attempt.containers[container.id]
                container.attempt = following
                following.containers[container.id] = container
        for status in attempt.completed.items():
            self._ledger.ended_untold(app, status)
            if kept:
                following.completed.put(status.container_id, status)
        attempt.forget_news()

    def master_ended(self, container: RMContainer) -> None:
        """A master's container has ended, after its master or before it."""
        attempt, app, status = container.attempt, container.app, container.status
        if app.finishing and attempt is app.attempt:
            self._finalise(app)
        elif not attempt.ended and status is not None:
            name = exit_status_name(status.exit_status)
            named = name if name == str(status.exit_status) else f"{status.exit_status} ({name})"
            text = f"AM Container for {attempt.id} exited with exitCode: {named}"
            if status.diagnostics:
                text = f"{text}. {status.diagnostics}"
            self.fail_attempt(attempt, text, counted=status.exit_status not in _NOT_THE_MASTERS_FAULT)

    def finished_too_slowly(self, application_id: str) -> None:
        """The grace period of a master that has unregistered has passed."""
        if (app := self._rm.live.get(application_id)) is not None and app.finishing:
            self._finalise(app)

    def _finalise(self, app: RMApp) -> None:
        """The master's container has ended after its master, or its grace period has passed: finish the application."""
        app.finishing = False
        self._rm.move(app.attempt, AttemptEvent.ENDED)
        app.attempt.finished_at_ms = self._rm.now_ms
        self._rm.deadlines.clear(Due(DueKind.FINISHING, app.id))
        self._clean_up(app, spared=None)
        self.retire(app)

    def timed_out(self, application_id: str) -> None:
        """The lifetime of an application has passed."""
        if (app := self._rm.live.get(application_id)) is not None:
            self.kill(app, f"Application timed out after {app.context.timeout_ms} ms.")

    def leave(self, attempt: RMAppAttempt, event: AttemptEvent, diagnostics: str) -> None:
        """An attempt has ended, or is about to."""
        self._rm.move(attempt, event)
        attempt.diagnostics = diagnostics

    def _end(self, app: RMApp, event: AppEvent, status: FinalApplicationStatus, diagnostics: str) -> None:
        attempt = app.attempt
        self._rm.move(app, event)
        app.final_status = status
        app.diagnostics = diagnostics
        app.finished_at_ms = self._rm.now_ms
        words = {"state": app.state.value, "finalStatus": status.value}
        why = plain_diagnostics(diagnostics, app.summary)
        self._rm.history.add(_ENDS[app.state], app=app.id, why=why, words=words)
        if event is AppEvent.ATTEMPT_UNREGISTERED and status is not FinalApplicationStatus.KILLED:
            app.progress = 1.0  # The master reports no progress any more: the work has ended, well or not.
        for kind in (DueKind.LIFETIME, DueKind.BEGIN, DueKind.DEADLINE):
            self._rm.deadlines.clear(Due(kind, app.id))
        if self._rm.postponed.pop(app.id, None) is not None:
            app.postponed = False
            self._rm.changes.postponed.append(app)
        self._rm.changes.postponed += waiting_for(app.id, self._rm.postponed.values())
        self._silence(attempt)
        attempt.forget_news()
        master = attempt.am_container
        finishing = attempt.state is AttemptState.FINISHING
        app.finishing = finishing and master is not None and master.id in self._rm.live_containers
        if finishing and not app.finishing:
            self._rm.move(attempt, AttemptEvent.ENDED)
        self._clean_up(app, spared=master if app.finishing else None)
        if app.finishing:
            self._rm.deadlines.set(Due(DueKind.FINISHING, app.id), self._rm.now + FINISHING_GRACE)
        else:
            self.retire(app)

    def _silence(self, attempt: RMAppAttempt) -> None:
        """Drop all asks, news and deadlines of this attempt."""
        attempt.finished_at_ms = self._rm.now_ms
        words = {"attempt": attempt.id, "state": attempt.state.value}
        self._rm.history.add(
            EventKind.ATTEMPT_ENDED, app=attempt.app.id, why=attempt.diagnostics, words=words
        )
        for table in attempt.tables:
            table.clear()
        attempt.updates.clear()
        attempt.am_ask = None
        attempt.app.leaf.leave(attempt)
        self._rm.changes.guaranteed = True
        self._rm.opportunistic_waiting.remove(attempt.id)
        self._rm.changes.attempts.pop(attempt.id, None)
        self._rm.deadlines.clear(Due(DueKind.MASTER_LIVENESS, attempt.id))
        self._rm.deadlines.clear(Due(DueKind.CLIENT_GONE, attempt.app.id))
        if attempt.held is not None:
            # A master that has unregistered knows that it is to end.
            command = "" if attempt.state is AttemptState.FINISHING else AM_SHUTDOWN
            self._rm.reply_to_master(attempt.held, AllocateResponse(attempt.response_id, command=command))
        self._rm.forget_held(attempt)

    def _clean_up(self, app: RMApp, *, spared: RMContainer | None) -> None:
        """End all containers of an ended application, except the ``spared`` container of its master."""
        master_node = spared.node if spared else None
        for container in list(app.containers()):
            if container is spared:
                continue
            if container.status is None:
                reason = ContainerExitStatus.KILLED_AFTER_APP_COMPLETION
                cause = Cause(CauseKind.APPLICATION_ENDED)
                self._ledger.abort(container, cause, "The application has ended", reason)
            elif container.node is master_node:
                self._end_container(container)
        for node_id in sorted(app.nodes):
            node = self._rm.nodes.get(node_id)
            if node is not None and node is not master_node:
                node.applications_to_cleanup.put_new(app.id, app.id)
                self._rm.news_for_node(node)

    def _end_container(self, container: RMContainer) -> None:
        cause = Cause(CauseKind.RESOURCEMANAGER)
        self._ledger.end_at_node(container, cause, "Ended by the ResourceManager")

    def retire(self, app: RMApp) -> None:
        """Move an application to the history, and the oldest out of the history."""
        self._rm.live.pop(app.id, None)
        self._rm.completed.append(app.id)
        self._rm.retired[app.id] = app
        while len(self._rm.completed) > self._rm.settings.max_completed_applications:
            forgotten = self._rm.completed.popleft()
            self._rm.submissions.pop(self._rm.applications.pop(forgotten).context.key, None)
            self._rm.changes.forgotten.append(forgotten)
        self._rm.changes.awaited = True


def _master_launch_context(attempt: RMAppAttempt) -> ContainerLaunchContext:
    """The submitted launch context, with the environment that a master needs to call the RM for its attempt."""
    submitted = attempt.app.context.am_container_spec
    assert submitted is not None, "a managed application was accepted without its master's launch context"
    return replace(
        submitted,
        environment={
            **submitted.environment,
            "APP_SUBMIT_TIME_ENV": str(attempt.app.submitted_at_ms),
            ATTEMPT_VARIABLE: attempt.id,
        },
        files={**submitted.files, AM_TOKEN_FILE: json.dumps(asdict(attempt.token))},
    )
