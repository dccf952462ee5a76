"""Hosted masters: jobs whose machines run in the RM, within its steps and without network calls.

A hosted master's call to the RM is a call of the service that also answers other masters; its requests to a node are
in the answer to the node's next heartbeat. A client only submits, watches and stops the job.

A bug in a job's machine ends only its job. ``_perform`` notes the changes of tasks that the machine returns, for
storage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field

from executor.core.cell import Cell, MachineCrashed
from executor.light import replace

from ...errors import (
    EXIT_CANNOT_START,
    EXIT_FAILURE,
    AccessDeniedError,
    ApplicationNotFoundError,
    MastersNotHostedError,
)
from ...machine.calls import CallReceived
from ...masters import messages as m
from ...masters.jobmaster import JobMaster
from ...masters.resuming import is_written
from ...records import job_protocol
from ...records.ids import ApplicationId
from ...records.jobs import ENDED, JOB_FILE, JobSpec, TaskState, as_rows
from ...records.reports import FinalApplicationStatus
from ...records.state import StoredApplication, StoredLife
from ..app_manager import RMAppManager
from ..commands import KeepCrash
from ..context import RMContext
from ..due import Due, DueKind
from ..entities import RMApp
from ..services.client_rm_service import ClientRMService
from .calls import HostedCalls
from .checking import check_job
from .news import JobWatchers
from .past import MOST_PAST_JOBS, MOST_PAST_TASKS, PastJobs, as_submitted, rows_of, said_of

KEPT_SECONDS = 60.0
"""Seconds for which the tasks of an ended job are kept for watchers that have not received all of them. They are kept
for the job's own client as long as it is connected.
"""
EXIT_ENDED = 143
"""The exit code of a job that was killed: as after SIGTERM."""
_NOT_SOON = 2**31 - 1


@dataclass(slots=True, eq=False)
class HostedJob:
    """One job. ``client_connection`` is the connection of the client on which the job depends: -1 if it was lost, None
    if the job depends on no client.
    """

    app: RMApp
    master: JobMaster
    client_connection: int | None
    began_at: InitVar[float]
    cell: Cell[m.Event, m.Command] = field(init=False)
    audience: JobWatchers = field(init=False)
    events: deque[m.Event] = field(default_factory=deque)
    busy: bool = False
    end: job_protocol.JobEnd | None = None

    def __post_init__(self, began_at: float) -> None:
        self.cell = Cell(self.master)
        self.audience = JobWatchers(self.app, self.master.tally, began_at)

    @property
    def id(self) -> str:
        """The id of the application."""
        return self.app.id


class HostedMasters:
    """All hosted jobs, by application id."""

    def __init__(
        self, context: RMContext, manager: RMAppManager, clients: ClientRMService, calls: HostedCalls
    ) -> None:
        self._rm = context
        self._manager = manager
        self._clients = clients
        self._calls = calls
        self._jobs: dict[str, HostedJob] = {}
        self._stops: dict[str, job_protocol.StopJobRequest] = {}
        self._ends: dict[str, job_protocol.JobEnd] = {}
        #: what jobs have run whose tasks are not kept any more
        self._past = PastJobs()

    # -- what clients ask ------------------------------------------------------------------------------------

    def submit(
        self, call: CallReceived, request: job_protocol.SubmitJobRequest
    ) -> job_protocol.SubmitApplicationResponse:
        """Accept a job, and let its master begin. A repeated submission gets the same answer."""
        if not self._rm.settings.hosted_masters or self._rm.distributed:
            raise MastersNotHostedError(
                "this cluster does not host masters",
                because="nodes allocate containers themselves (distributed scheduling)"
                if self._rm.distributed
                else "yopp.resourcemanager.hosted-masters is false",
            )
        check_job(request.job)
        if call.guest and request.context.application_id not in self._rm.applications:
            self._check_submitter(call.user, request.job)
        context = replace(request.context, unmanaged=True, am_container_spec=None)
        app = self._clients.take_in(call, context, request.job)
        if app.id not in self._jobs and not app.ended:
            job = replace(request.job, heartbeat_ms=_NOT_SOON)
            attempt = app.attempt
            master = JobMaster(job, attempt.id, attempt.token, hosted=True)
            hosted = HostedJob(app, master, call.connection_id if request.attached else None, self._rm.now)
            self._jobs[app.id] = hosted
            if not app.postponed:
                self._tell(hosted, m.MasterStarted())
        return self._clients.submitted(app)

    def _check_submitter(self, user: str, job: JobSpec) -> None:
        """Raise AccessDeniedError if ``user``, who is not the cluster's user, would have too many applications or
        tasks with this job."""
        sizes = [
            one.master.job.size for one in self._jobs.values() if one.app.user == user and not one.app.ended
        ]
        settings, tasks = self._rm.settings, sum(sizes) + job.size
        if len(sizes) >= settings.submitter_applications:
            has, most = f"{len(sizes):,} living applications", settings.submitter_applications
            name = "applications"
        elif tasks > settings.submitter_tasks:
            has, most, name = f"{tasks:,} tasks with this job", settings.submitter_tasks, "tasks"
        else:
            return
        raise AccessDeniedError(
            f"user {user} cannot have more {name} in this cluster",
            because=f"{user} has {has}, and yopp.resourcemanager.submitter.maximum-{name} is {most:,}",
            hint="wait for one to end, or ask the administrator of the cluster",
        )

    def watch(
        self, call: CallReceived, request: job_protocol.WatchJobRequest
    ) -> job_protocol.WatchJobResponse | None:
        """The news of a job; None if they are reported later."""
        job = self._jobs.get(request.application_id)
        if job is None:
            self._check_life(request.application_id)
            app = self._rm.application(request.application_id)
            if (end := self._ends.get(app.id)) is None:
                raise ApplicationNotFoundError(
                    f"the ResourceManager does not host the master of {app.id}",
                    because="it runs in its client or in a container"
                    if not app.hosted
                    else "it ended long ago",
                    hint=f"yopp app status {app.id}",
                    sought=app.id,
                )
            # Only the end is reported: the follower's knowledge of the tasks stays valid.
            known = (request.position, request.notices)
            return job_protocol.WatchJobResponse(
                *known, as_rows(()), (), {}, end=end, attempt=request.attempt
            )
        if job.client_connection == -1:
            job.client_connection = call.connection_id
            self._rm.deadlines.clear(Due(DueKind.CLIENT_GONE, job.id))
        if request.attempt not in (0, len(job.app.attempts)):  # The position is from a previous RM process.
            request = replace(request, position=0, notices=0)
        job.audience.add(call, request, self._rm.now)
        self._show(job)
        return None

    def _check_life(self, application_id: str) -> None:
        """Raise ApplicationNotFoundError for a job whose hosted master ended with a previous RM process."""
        started = self._rm.identity.cluster_timestamp
        if ApplicationId.parse(application_id).cluster_timestamp != started:
            raise ApplicationNotFoundError(
                f"{application_id} doesn't exist in the RM",
                because="the ResourceManager was restarted, and its hosted master ended with it",
                hint="submit the job again",
                sought=application_id,
            )

    def stop(self, request: job_protocol.StopJobRequest) -> job_protocol.StopJobResponse:
        """End a job in order."""
        job = self._jobs.get(request.application_id)
        if job is None:
            self._rm.application(request.application_id)
        elif job.app.postponed:
            self._manager.kill(job.app, request.reason, request.exit_code)
        else:
            self._stops[job.id] = request
            self._rm.changes.lives[job.id] = job.app
            self._tell(job, m.StopRequested(request.reason, request.exit_code, request.final_status))
        return job_protocol.StopJobResponse()

    def get(self, request: job_protocol.GetJobRequest) -> job_protocol.GetJobResponse:
        """The tasks and commands of a job."""
        job = self._jobs.get(request.application_id)
        if job is not None:
            return said_of(job.app.context, job.master, ended=job.end is not None)
        if (found := self._past.get(request.application_id)) is not None:
            return found
        app = self._rm.application(request.application_id)
        master, typed = app.context.am_container_spec, app.context.command_line
        if master is not None and JOB_FILE in master.files:
            return job_protocol.GetJobResponse(app.context, None, ended=app.ended)
        raise ApplicationNotFoundError(
            f"the tasks of {app.id} are no longer known",
            because=f"the ResourceManager keeps the last {MOST_PAST_JOBS} jobs that it has hosted, up to "
            f"{MOST_PAST_TASKS:,} tasks together"
            if app.hosted
            else "its master ran in its client, and the ResourceManager does not know its tasks",
            hint=f"type the command again: {typed}"
            if typed
            else f"`yopp app status {app.id}` shows what is known",
            sought=app.id,
        )

    def postponed(self, app: RMApp, why: str) -> None:
        """A postponed job waits: report the reason to its watchers."""
        if (job := self._jobs.get(app.id)) is not None:
            job.audience.notice(why)
            self._show(job)

    def begin(self, app: RMApp) -> None:
        """A postponed job begins, if its master is hosted."""
        if (job := self._jobs.get(app.id)) is not None:
            self._tell(job, m.MasterStarted())

    def never_began(self, app: RMApp) -> None:
        """A postponed job has ended before it began. This is an error only if the job could never begin: otherwise a
        user stopped it, or its deadline passed.
        """
        if (job := self._jobs.get(app.id)) is not None and job.end is None:
            code = app.summary.exit_code if app.summary is not None else EXIT_ENDED
            summary = replace(job.master.tally.summary(code), total=job.master.tally.total)
            end = job_protocol.JobEnd(code, app.final_status, app.diagnostics, summary)
            if code == EXIT_CANNOT_START:
                what, hint = f"{app.id} has not begun", f"yopp app status {app.id}"
                end = replace(end, message=what, because=app.diagnostics, hint=hint)
            self._ended(job, end)
            self._show(job)

    def connection_lost(self, connection_id: int) -> None:
        """A connection was lost: drop its calls, and end its jobs unless a client follows them again within the grace
        period.
        """
        for job in list(self._jobs.values()):
            job.audience.leave(connection_id)
            if job.client_connection != connection_id:
                continue
            job.client_connection = -1
            if job.end is not None:
                self._forget(job)
                continue
            self._rm.await_client(job.id)

    # -- another life of the RM ------------------------------------------------------------------------------

    def submitted(self, application_id: str) -> tuple[JobSpec | None, bool]:
        """The submitted job, None if its master is not hosted; and whether its client has to stay connected."""
        job = self._jobs.get(application_id)
        return (None, False) if job is None else (job.master.job, job.client_connection is not None)

    def end_of(
        self, application_id: str
    ) -> tuple[job_protocol.StopJobRequest | None, job_protocol.JobEnd | None]:
        """The request to end a job, and the end of the job, if there are any."""
        job = self._jobs.get(application_id)
        end = job.end if job is not None else self._ends.get(application_id)
        return self._stops.get(application_id), end

    def held_back(self, application_id: str) -> tuple[int, int]:
        """The number of tasks that request no container because the job's bound of running containers is reached, and
        this bound; 0 for none."""
        job = self._jobs.get(application_id)
        most = 0 if job is None else job.master.job.max_running
        if job is None or not most:
            return 0, 0
        counts = job.master.tally.counts
        having = sum(number for state, number in counts.items() if state not in (TaskState.WAITING, *ENDED))
        return (counts[TaskState.WAITING] if having >= most else 0), most

    def succeeded(self, application_id: str) -> tuple[int, ...]:
        """The numbers of the tasks that ended well in a job that has ended, as rows."""
        if (job := self._jobs.get(application_id)) is not None:
            return rows_of(job.master.succeeded()) if job.end is not None else ()
        past = self._past.get(application_id)
        return () if past is None else past.succeeded

    def restore_end(self, app: RMApp, stored: StoredApplication, life: StoredLife) -> None:
        """Restore the end of a job that had ended in a previous RM process."""
        if life.end is not None:
            self._ends[app.id] = life.end
        if stored.job is not None:
            self._past.keep(app.id, as_submitted(app.context, stored.job, life.succeeded, ended=True))

    def resume(
        self,
        app: RMApp,
        stored: StoredApplication,
        life: StoredLife,
        started: m.MasterStarted,
        notice: str,
    ) -> None:
        """Continue a stored job as another attempt of its application, or let it wait to begin."""
        assert stored.job is not None
        attempt = app.attempt
        master = JobMaster(stored.job, attempt.id, attempt.token, hosted=True)
        job = HostedJob(app, master, -1 if stored.attached else None, self._rm.now)
        self._jobs[app.id] = job
        if stored.attached:
            self._rm.await_client(job.id)
        if app.postponed:
            return
        job.audience.notice(notice)
        self._tell(job, started)
        self._rm.changes.tasks.clear()  # These changes come from the records.
        if life.stop is not None:
            self.stop(life.stop)

    # -- what masters are told -------------------------------------------------------------------------------

    def hear(self) -> None:
        """Deliver the answers of this step to masters whose calls were deferred."""
        for application_id, event in self._calls.answered():
            if (job := self._jobs.get(application_id)) is not None:
                self._tell(job, event)

    def due(self, application_id: str) -> None:
        """A master's deadline has come, or the tasks of an ended job were kept long enough."""
        if (job := self._jobs.get(application_id)) is None:
            return
        if job.end is not None:
            self._forget(job)
        else:
            self._drive(job, lambda: job.cell.advance(self._rm.now))

    def _tell(self, job: HostedJob, event: m.Event) -> None:
        """Let a master handle an event, and perform all commands that follow from it, in order."""
        if job.end is not None:
            return
        job.events.append(event)
        if not job.busy:
            self._drive(job, list)

    def _drive(self, job: HostedJob, begin: Callable[[], list[m.Command]]) -> None:
        job.busy = True
        try:
            self._perform(job, begin())
            while job.events and job.end is None:
                self._perform(job, job.cell.handle(job.events.popleft(), self._rm.now))
        except MachineCrashed as crash:
            self._crashed(job, crash)
        job.busy = False
        if job.end is None:
            due = job.master.next_deadline()
            key = Due(DueKind.HOSTED_MASTER, job.id)
            if due is None:
                self._rm.deadlines.clear(key)
            else:
                self._rm.deadlines.set(key, max(due, self._rm.now))
        self._show(job)

    # -- what masters want -----------------------------------------------------------------------------------

    def _perform(self, job: HostedJob, commands: list[m.Command]) -> None:
        for command in commands:
            match command:
                case m.TaskChanged(task):
                    if is_written(task):
                        self._rm.changes.tasks[task] = job.id
                    job.audience.changed(command, followed=job.client_connection is not None)
                case m.CallRM() | m.CallNode():
                    if (event := self._calls.call(job.app, command)) is not None:
                        job.events.append(event)
                case m.StartTasks():
                    self._calls.start(job.app, command)
                case m.Notice(text):
                    job.audience.notice(text)
                case m.EndMaster():
                    self._end(job, command)

    # -- what watchers hear ----------------------------------------------------------------------------------

    def tell(self, application_id: str) -> None:
        """Report to the watchers of a job now."""
        if (job := self._jobs.get(application_id)) is not None:
            self._show(job)

    def _show(self, job: HostedJob) -> None:
        """Answer watchers that have news or whose wait has expired; set a deadline for the rest."""
        if not job.audience:
            if job.end is not None and job.client_connection is None:
                self._forget(job)
            return
        key, finished = Due(DueKind.HOSTED_NEWS, job.id), False
        for call_id, response in job.audience.tell(job.end, self._rm.now):
            finished |= response.end is not None
            self._rm.reply(call_id, response)
        if (due := job.audience.next_time(job.end)) is not None:
            self._rm.deadlines.set(key, max(due, self._rm.now))
        else:
            self._rm.deadlines.clear(key)
        if finished and not job.audience:
            self._forget(job)

    # -- ends ------------------------------------------------------------------------------------------------

    def _end(self, job: HostedJob, end: m.EndMaster) -> None:
        error = end.error
        told = job_protocol.JobEnd(end.exit_code, end.final_status, end.diagnostics, end.summary)
        if error is not None:
            told = replace(told, message=error.message, because=error.because, hint=error.hint)
        self._ended(job, told)

    def _crashed(self, job: HostedJob, crash: MachineCrashed) -> None:
        """A bug in a job's machine: fail its application and write down its events; the other jobs continue."""
        told = f"its master failed: {crash}"
        self._rm.changes.commands.append(KeepCrash(job.id, crash))
        end = job_protocol.JobEnd(
            EXIT_FAILURE,
            FinalApplicationStatus.FAILED,
            told,
            job.master.tally.summary(EXIT_FAILURE),
            message=f"the master of {job.id} failed",
            because=f"this is a bug in yopp: {crash}",
            hint=f"details are in a file crash-*.jsonl in {self._rm.identity.run_dir}",
        )
        self._ended(job, end)
        if not job.app.ended:
            self._manager.fail_attempt(job.app.attempt, told)

    def _ended(self, job: HostedJob, end: job_protocol.JobEnd) -> None:
        job.end = end
        self._rm.changes.lives[job.id] = job.app
        job.events.clear()
        self._calls.ended(job.app)
        if job.client_connection is not None and job.client_connection >= 0:
            # The client may be suspended; it receives the end when it calls again.
            self._rm.unheard.add(job.id)
            self._rm.deadlines.clear(Due(DueKind.HOSTED_MASTER, job.id))
        else:
            self._rm.deadlines.set(Due(DueKind.HOSTED_MASTER, job.id), self._rm.now + KEPT_SECONDS)

    def _forget(self, job: HostedJob) -> None:
        """Forget an ended job and its tasks; the job's result is kept for a while."""
        if job.end is None or self._jobs.pop(job.id, None) is None:
            return
        self._rm.unheard.discard(job.id)
        for kind in (DueKind.HOSTED_MASTER, DueKind.HOSTED_NEWS):
            self._rm.deadlines.clear(Due(kind, job.id))
        self._stops.pop(job.id, None)
        self._ends[job.id] = job.end
        self._past.keep(job.id, said_of(job.app.context, job.master, ended=True))
        while len(self._ends) > max(1, self._rm.settings.max_completed_applications):
            del self._ends[next(iter(self._ends))]

    def validate(self) -> None:
        """Assert the invariants between two steps."""
        assert not self._rm.changes.hosted
        for job in self._jobs.values():
            job.master.validate()
            assert not job.busy and not job.events
            assert job.end is None or job.app.ended or self._rm.ending, f"{job.id} has no master and goes on"
            assert (job.end is not None) or not job.app.ended, (
                f"the master of {job.id} has not heard of its end"
            )
            if job.end is not None:
                assert job.id in self._rm.unheard or Due(DueKind.HOSTED_MASTER, job.id) in self._rm.deadlines
            assert not job.audience or Due(DueKind.HOSTED_NEWS, job.id) in self._rm.deadlines
        self._calls.validate()
