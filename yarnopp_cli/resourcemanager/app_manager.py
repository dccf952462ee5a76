"""From submission to the end of an application, with its attempts and what each end leaves to be cleaned up.

YARN's ``RMAppManager`` and the actions of ``RMAppImpl`` and ``RMAppAttemptImpl``. Starts nothing itself: a
master's container is handed to its node in the answer to a heartbeat.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from executor.causes import Cause, CauseKind
from executor.records import PREEMPTION_STATUSES, ContainerExitStatus, exit_status_name

from ..allocation.asks import normalise
from ..machine.tokens import AM_TOKEN_FILE, AMRM_TOKEN, sign
from ..records.history import EventKind
from ..records.ids import ApplicationAttemptId, ApplicationId
from ..records.master_protocol import AllocateResponse, FinishApplicationMasterRequest
from ..records.reports import FinalApplicationStatus, YarnApplicationState
from ..records.requests import ApplicationSubmissionContext, ContainerLaunchContext, ResourceRequest
from ..records.tracker_protocol import ContainerToStart
from .container_ledger import ContainerLedger
from .context import RMContext
from .due import Due, DueKind
from .entities import RMApp, RMAppAttempt, RMContainer
from .lives import AppEvent, AttemptEvent, AttemptState
from .mapreduce import TaskBook
from .scheduler.queues import LeafQueue

FINISHING_GRACE = 5.0
"""Seconds that a master's container has to end by itself after its master has unregistered."""
AM_SHUTDOWN = "AM_SHUTDOWN"
_ENDS = {
    YarnApplicationState.FINISHED: EventKind.APPLICATION_FINISHED,
    YarnApplicationState.FAILED: EventKind.APPLICATION_FAILED,
    YarnApplicationState.KILLED: EventKind.APPLICATION_KILLED,
}
_NOT_THE_MASTERS_FAULT = PREEMPTION_STATUSES | {ContainerExitStatus.DISKS_FAILED}


class RMAppManager:
    """Carries applications through their tables, and does what each transition entails."""

    def __init__(self, context: RMContext, ledger: ContainerLedger) -> None:
        self._context = context
        self._ledger = ledger

    # -- beginnings ------------------------------------------------------------------------------------------

    def submit(
        self,
        application_id: ApplicationId,
        submission: ApplicationSubmissionContext,
        user: str,
        connection_id: int,
        now: float,
        leaf: LeafQueue[RMAppAttempt],
    ) -> RMApp:
        """Take a valid submission in and start its first attempt."""
        context = self._context
        app_id = str(application_id)
        limit = context.settings.max_attempts
        app = RMApp(
            id=app_id,
            number=application_id.id,
            context=replace(submission, application_id=app_id),
            user=user,
            log_directory=f"{context.identity.log_dir}/{app_id}",
            max_attempts=min(submission.max_attempts, limit) if submission.max_attempts > 0 else limit,
            submitted_ms=context.ms(now),
            leaf=leaf,
            counted_until=now,
            proxy_url=context.proxy_url(app_id),
        )
        if submission.map_reduce is not None:
            context.task_books[app_id] = TaskBook(submission.map_reduce)
        context.applications[app_id] = app
        context.live[app_id] = app
        context.applications_started += 1
        context.move(app, AppEvent.SUBMIT, now)
        words = {"name": submission.name, "user": user, "queue": submission.queue}
        context.history.add(EventKind.APPLICATION_SUBMITTED, app=app_id, words=words)
        context.move(app, AppEvent.ACCEPT, now)
        context.history.add(EventKind.APPLICATION_ACCEPTED, app=app_id)
        self._start_attempt(app, now, connection_id)
        if submission.timeout_ms > 0:
            context.deadlines.set(Due(DueKind.LIFETIME, app_id), now + submission.timeout_ms / 1000)
        return app

    def _start_attempt(self, app: RMApp, now: float, connection_id: int = -1) -> RMAppAttempt:
        context = self._context
        record = ApplicationAttemptId(ApplicationId.parse(app.id), len(app.attempts) + 1)
        attempt_id = str(record)
        attempt = RMAppAttempt(
            id=attempt_id,
            record=record,
            app=app,
            token=sign(context.am_key, AMRM_TOKEN, {"attempt_id": attempt_id}),
            connection_id=connection_id,
            last_contact=now,
            started_ms=context.ms(now),
        )
        app.attempts.append(attempt)
        app.leaf.attempts[attempt_id] = attempt
        words = {"attempt": attempt_id, "master": "client" if app.unmanaged else "container"}
        context.history.add(EventKind.ATTEMPT_STARTED, app=app.id, words=words)
        if app.unmanaged:
            context.move(attempt, AttemptEvent.LAUNCHED, now)
            self.expect_master(attempt, now)
        else:
            context.move(attempt, AttemptEvent.START, now)
            request = ResourceRequest(
                1, app.context.am_resource, node_label_expression=app.context.node_label_expression
            )
            table = attempt.guaranteed_asks
            table.put(request, normalise(app.context.am_resource, context.settings))
            attempt.am_ask = next(iter(table))
            context.changes.guaranteed = True
        return attempt

    def master_allocated(self, container: RMContainer, now: float) -> None:
        """A master's container was allocated: its node is to start it."""
        context, attempt, app = self._context, container.attempt, container.app
        attempt.am_ask = None
        attempt.am_container = container
        context.move(attempt, AttemptEvent.CONTAINER_ALLOCATED, now)
        container.node.to_start.put(
            container.id,
            ContainerToStart(
                container=container.container(),
                launch_context=_master_launch_context(attempt),
                application_id=app.id,
                user=app.user,
            ),
        )
        context.news_for_node(container.node)
        self.expect_master(attempt, now)

    def expect_master(self, attempt: RMAppAttempt, now: float) -> None:
        """From now its master has to be heard of within the expiry interval."""
        attempt.last_contact = now
        self._context.deadlines.ensure(
            Due(DueKind.MASTER_LIVENESS, attempt.id),
            now + self._context.settings.am_expiry_interval_ms / 1000,
        )

    def registered(self, attempt: RMAppAttempt, now: float) -> None:
        """Its master is there."""
        context, app = self._context, attempt.app
        context.move(attempt, AttemptEvent.REGISTERED, now)
        context.move(app, AppEvent.ATTEMPT_REGISTERED, now)
        context.history.add(EventKind.APPLICATION_RUNNING, app=app.id, words={"attempt": attempt.id})
        if not app.started_ms:
            app.started_ms = context.ms(now)

    # -- ends ------------------------------------------------------------------------------------------------

    def unregistered(
        self, attempt: RMAppAttempt, request: FinishApplicationMasterRequest, now: float
    ) -> None:
        """Its master says that the job has ended."""
        app = attempt.app
        self._leave(attempt, AttemptEvent.UNREGISTERED, request.diagnostics, now)
        app.tracking_url = request.tracking_url
        if request.summary is not None:
            app.summary = request.summary
        self._end(app, AppEvent.ATTEMPT_UNREGISTERED, request.final_status, request.diagnostics, now)

    def kill(self, app: RMApp, diagnostics: str, now: float) -> None:
        """Somebody wants it ended. Does nothing to one that has ended."""
        if app.ended:
            return
        self._leave(app.attempt, AttemptEvent.KILL, diagnostics, now)
        self._end(app, AppEvent.KILL, FinalApplicationStatus.KILLED, diagnostics, now)

    def fail_attempt(
        self, attempt: RMAppAttempt, diagnostics: str, now: float, *, counted: bool = True
    ) -> None:
        """An attempt has failed; ``counted`` if it is the master's own fault.

        Another follows if any is left.
        """
        app = attempt.app
        self._leave(attempt, AttemptEvent.FAIL, diagnostics, now)
        if counted:
            app.failures += 1
        if app.unmanaged or app.failures >= app.max_attempts:
            if not app.unmanaged:
                times = "once" if app.failures == 1 else f"{app.failures} times"
                diagnostics = f"Application {app.id} failed {times} due to {diagnostics}"
            self._end(app, AppEvent.ATTEMPT_FAILED, FinalApplicationStatus.FAILED, diagnostics, now)
            return
        self._silence(attempt, now)
        self._context.move(app, AppEvent.ATTEMPT_RETRIED, now)
        following = self._start_attempt(app, now)
        for container in list(attempt.containers.values()):
            if container.is_am or not app.context.keep_containers_across_attempts:
                self._end_container(container, now)
            else:
                del attempt.containers[container.id]
                container.attempt = following
                following.containers[container.id] = container
        if app.context.keep_containers_across_attempts:
            for status in attempt.completed.items():
                following.completed.put(status.container_id, status)
        attempt.forget_news()

    def refuse(self, app: RMApp, diagnostics: str, now: float) -> None:
        """Its master can never run: another attempt would fare no better."""
        self._leave(app.attempt, AttemptEvent.FAIL, diagnostics, now)
        self._end(app, AppEvent.ATTEMPT_FAILED, FinalApplicationStatus.FAILED, diagnostics, now)

    def master_ended(self, container: RMContainer, now: float) -> None:
        """A master's container has ended: as it should, or before its time."""
        attempt, app, status = container.attempt, container.app, container.status
        if app.finishing and attempt is app.attempt:
            self.finalise(app, now)
        elif not attempt.ended and status is not None:
            exit_status = status.exit_status
            name = exit_status_name(exit_status)
            named = f"{exit_status}" if name == str(exit_status) else f"{exit_status} ({name})"
            text = f"AM Container for {attempt.id} exited with exitCode: {named}"
            if status.diagnostics:
                text = f"{text}. {status.diagnostics}"
            self.fail_attempt(attempt, text, now, counted=exit_status not in _NOT_THE_MASTERS_FAULT)

    def finalise(self, app: RMApp, now: float) -> None:
        """The master's container has ended after its master, or its grace has passed: nothing is left."""
        if not app.finishing:
            return
        app.finishing = False
        context, attempt = self._context, app.attempt
        context.move(attempt, AttemptEvent.ENDED, now)
        attempt.finished_ms = context.ms(now)
        context.deadlines.clear(Due(DueKind.FINISHING, app.id))
        self._clean_up(app, now, spare_master=False)
        self._retire(app)

    def timed_out(self, application_id: str, now: float) -> None:
        """An application has lived as long as it may."""
        if (app := self._context.live.get(application_id)) is not None:
            self.kill(app, f"Application timed out after {app.context.timeout_ms} ms.", now)

    def finished_too_slowly(self, application_id: str, now: float) -> None:
        """A master that has unregistered had its time to end."""
        if (app := self._context.live.get(application_id)) is not None:
            self.finalise(app, now)

    def _leave(self, attempt: RMAppAttempt, event: AttemptEvent, diagnostics: str, now: float) -> None:
        """An attempt stops running, for that reason."""
        self._context.move(attempt, event, now)
        attempt.diagnostics = diagnostics

    def _end(
        self, app: RMApp, event: AppEvent, status: FinalApplicationStatus, diagnostics: str, now: float
    ) -> None:
        context, attempt = self._context, app.attempt
        context.move(app, event, now)
        app.final_status = status
        app.diagnostics = diagnostics
        app.finished_ms = context.ms(now)
        words = {"state": app.state.value, "finalStatus": status.value}
        context.history.add(_ENDS[app.state], app=app.id, why=diagnostics, words=words)
        if event is AppEvent.ATTEMPT_UNREGISTERED and status is not FinalApplicationStatus.KILLED:
            app.progress = 1.0  # all that it had to do has been done, well or not
        context.deadlines.clear(Due(DueKind.LIFETIME, app.id))
        self._silence(attempt, now)
        attempt.forget_news()
        master = attempt.am_container
        app.finishing = attempt.state is AttemptState.FINISHING and (
            master is not None and master.id in context.live_containers
        )
        if attempt.state is AttemptState.FINISHING and not app.finishing:
            context.move(attempt, AttemptEvent.ENDED, now)
        self._clean_up(app, now, spare_master=app.finishing)
        if app.finishing:
            context.deadlines.set(Due(DueKind.FINISHING, app.id), now + FINISHING_GRACE)
        else:
            self._retire(app)

    def _silence(self, attempt: RMAppAttempt, now: float) -> None:
        """Nothing is asked for, told to or expected of this attempt any more."""
        context = self._context
        attempt.finished_ms = context.ms(now)
        words = {"attempt": attempt.id, "state": attempt.state.value}
        context.history.add(EventKind.ATTEMPT_ENDED, app=attempt.app.id, why=attempt.diagnostics, words=words)
        attempt.guaranteed_asks.clear()
        attempt.opportunistic_asks.clear()
        attempt.updates.clear()
        attempt.am_ask = None
        attempt.app.leaf.attempts.pop(attempt.id, None)
        context.changes.guaranteed = True
        context.opportunistic_waiting.pop(attempt.id, None)
        context.changes.attempts.pop(attempt.id, None)
        context.deadlines.clear(Due(DueKind.MASTER_LIVENESS, attempt.id))
        context.deadlines.clear(Due(DueKind.HELD_ALLOCATE, attempt.id))
        context.deadlines.clear(Due(DueKind.CLIENT_GONE, attempt.app.id))
        if attempt.held is not None:
            # A master that has unregistered knows that it is to end.
            command = "" if attempt.state is AttemptState.FINISHING else AM_SHUTDOWN
            context.reply_to_master(attempt.held, AllocateResponse(attempt.response_id, command=command))
            attempt.held = None

    def _clean_up(self, app: RMApp, now: float, *, spare_master: bool) -> None:
        """End all that runs of an ended application; with ``spare_master`` leave its master's container
        alone.
        """
        context = self._context
        spared = app.attempt.am_container if spare_master else None
        master_node = spared.node if spared else None
        for container in list(app.containers()):
            if container is spared:
                continue
            if container.status is None:
                reason = ContainerExitStatus.KILLED_AFTER_APP_COMPLETION
                cause = Cause(CauseKind.APPLICATION_ENDED)
                self._ledger.abort(container, now, cause, "The application has ended", reason)
            elif container.node is master_node:
                self._end_container(container, now)
        for node_id in sorted(app.nodes):
            node = context.nodes.get(node_id)
            if node is not None and node is not master_node:
                node.applications_to_cleanup.put_new(app.id, app.id)
                context.news_for_node(node)

    def _end_container(self, container: RMContainer, now: float) -> None:
        """End one container at the RM's own wish."""
        cause = Cause(CauseKind.RESOURCEMANAGER)
        self._ledger.end_at_node(container, now, cause, "Ended by the ResourceManager")

    def _retire(self, app: RMApp) -> None:
        """Move an application to the history, and the oldest out of it."""
        context = self._context
        context.live.pop(app.id, None)
        context.completed.append(app.id)
        context.retired[app.id] = app
        while len(context.completed) > context.settings.max_completed_applications:
            context.applications.pop(context.completed.popleft(), None)
        context.changes.awaited = True


def _master_launch_context(attempt: RMAppAttempt) -> ContainerLaunchContext:
    """What was submitted, and what a master needs to speak for its attempt."""
    submitted = attempt.app.context.am_container_spec
    assert submitted is not None, "a managed application was accepted without its master's launch context"
    return replace(
        submitted,
        environment={
            **submitted.environment,
            "APP_SUBMIT_TIME_ENV": str(attempt.app.submitted_ms),
            "APPLICATION_ATTEMPT_ID": attempt.id,
        },
        files={**submitted.files, AM_TOKEN_FILE: json.dumps(asdict(attempt.token))},
    )
