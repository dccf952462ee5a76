"""Submits a job and follows it, or detaches: the common part of ``run``, ``dshell`` and ``pi``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from executor.hints import TYPE_CHECKING, Any
from executor.light import Record, replace

from ...errors import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    EXIT_READER_GONE,
    ConnectionFailedError,
    YoppError,
    one_line,
)
from ...jobs import progress
from ...jobs.client import JobClient
from ...jobs.commands import without_values
from ...jobs.follower import JobFollower
from ...jobs.watching import Left, SignalWatch
from ...masters.ends import EndMaster
from ...masters.tasks import Tally
from ...records.job_protocol import (
    GetApplicationsRequest,
    SubmitApplicationRequest,
    SubmitApplicationResponse,
    SubmitJobRequest,
)
from ...records.jobs import JOB_FILE, JobSpec, TaskReport
from ...records.reports import FINAL_STATES, ON_DEMAND, ApplicationReport, FinalApplicationStatus
from ...records.requests import ApplicationSubmissionContext, ContainerLaunchContext
from ...rpc.blocking import Connection
from ...settings.declarations import ResourceManagerSettings
from ..frame.output import Printer
from ..frame.session import Session
from .console import Display, JobConsole

if TYPE_CHECKING:
    from ...jobs.loop import MasterLoop
    from .on_yarn import YarnJobs

BEGIN_SECONDS = 2.0
"""Seconds for which a detached job is watched, to print whether and where it runs."""
SETTLED_SECONDS = 0.025
"""Seconds after which a queued container of a detached job counts as waiting."""
KILL_SECONDS = 2.0
"""Seconds that the second Ctrl-C waits for the ResourceManager."""
MINIMUM_MB = "yarn.scheduler.minimum-allocation-mb"


class JobOutcome(Record):
    """The result of a foreground job. ``report`` is the RM's last report, None if the RM cannot be reached."""

    end: EndMaster
    response: SubmitApplicationResponse
    report: ApplicationReport | None
    tasks: dict[tuple[int, int], TaskReport]

    @property
    def succeeded(self) -> bool:
        """Whether every container ended with 0."""
        return self.end.final_status is FinalApplicationStatus.SUCCEEDED


def client_of(session: Session, timeout_ms: int) -> JobClient | YarnJobs:
    """The cluster that the command line selects; it connects at the first use."""
    if session.yarn is None:
        return client_here(session, timeout_ms)
    from .on_yarn import YarnJobs

    return YarnJobs(session.yarn, session.printer)


def client_here(session: Session, timeout_ms: int) -> JobClient:
    """This host's cluster; it connects at the first use, and starts the cluster if necessary. ``timeout_ms`` is the
    job's time limit, 0 for none."""
    session.configured()
    return JobClient(session.run_dir, session.of_jobs, session.printer.note, timeout_ms / 1000)


def start(
    session: Session,
    client: JobClient | YarnJobs,
    job: JobSpec,
    submission: ApplicationSubmissionContext,
    shown: Display,
    *,
    detach: bool,
    debug: bool = False,
    submitted: Callable[[str], None] = lambda application_id: None,
    ended: Callable[[JobOutcome], dict[str, Any]] = lambda outcome: {},
) -> int:
    """Submit a job and follow it; only submit it with ``detach``; do neither with --dry-run. Returns the exit code.

    ``submission`` is the application's submission; ``submitted`` gets its id. ``ended`` gets the result before it is
    printed, and returns additions to the job's document. ``debug`` makes YARN's master log more.
    """
    if not isinstance(client, JobClient):
        return client.start(job, submission, detach=detach, dry_run=session.dry_run, debug=debug)
    printer = session.printer
    submission = replace(
        submission,
        application_type=job.application_type,
        user=submission.user or os.environ.get("HADOOP_USER_NAME", ""),
        unmanaged=not detach,
        command_line=submission.command_line or command_line(),
        map_reduce=job.map_reduce,
    )
    if session.dry_run:
        return _foretell(session, job, submission, detach=detach)
    if detach:
        submit_detached(client, job, printer, submission, submitted)
        return 0
    outcome = run_foreground(client, job, printer, submission, shown, submitted)
    more = ended(outcome)
    if printer.is_json:
        printer.document(final_document(outcome, more))
    return outcome.end.exit_code


def _foretell(
    session: Session,
    job: JobSpec,
    submission: ApplicationSubmissionContext,
    *,
    detach: bool,
) -> int:
    """Print what would happen to ``job``. Returns the exit code, 1 if it would be refused or could never begin."""
    from ...records.explanation import ForeseeJobRequest, JobForecast
    from ...views.explain import consequences

    found: JobForecast | None = None
    ended: dict[str, str] = {}
    printer = session.printer
    try:
        found = session.client.ask(ForeseeJobRequest(submission, job, detach))
        if submission.after:
            parents = tuple(one.rpartition(":")[0] for one in submission.after)
            known_ones = session.client.applications(GetApplicationsRequest(application_ids=parents))
            ended = {one.application_id: consequences.how_ended(one) for one in known_ones}
    except ConnectionFailedError:
        pass  # A cluster would be started for it.
    if printer.is_json:
        printer.document(
            {
                "dryRun": consequences.job_document(job, found, _commands(job))
                | consequences.later_document(submission, ended)
            }
        )
    else:
        lines = consequences.job_lines(job, progress.kinds_text(job), found, _commands(job))
        printer.text("\n".join((*lines, *consequences.later_lines(submission, ended))))
        printer.note("nothing was changed")
    vain = found is not None and (found.refused or found.impossible)
    return EXIT_FAILURE if vain or consequences.why_never(submission, ended) else 0


def _commands(job: JobSpec) -> Iterator[tuple[int, Sequence[str]]]:
    """The commands that the tasks of a sweep would run, by number."""
    phase = job.phases[0]
    if phase.sweep is not None:
        from ...masters.sweeps import launch_of

        sweep = replace(phase.sweep, prefix=())
        for number in phase.numbers():
            yield number, launch_of(phase.command, sweep, number)[0]


def warn_of_ignored(client: JobClient, printer: Printer) -> None:
    """Warn that a running or restarted cluster keeps the properties that its daemons were started with."""
    if client.started_here or not client.configuration.from_command_line():
        return
    from ...cluster.reloading import setting_differences
    from ...cluster.state import running_configuration

    running = running_configuration(client.run_dir)
    found = [] if running is None else setting_differences(running, client.configuration)
    if found := [one for one in found if one.endswith("(-D)")]:
        is_so = "was restarted as it was" if client.restarted else "is already running"
        printer.warn(
            f"the cluster {is_so}, and -D does not change: {'; '.join(found)}. "
            "`yopp down` first, or set it with `yopp up`"
        )


def command_line(variables: Sequence[str] = ()) -> str:
    """The command line as typed, for listings, which all users may see; the values of ``variables`` are left out."""
    words = ["yopp", *without_values(sys.argv[1:], variables)]
    letters = "".join(words).replace("-", "").replace("/", "").replace(".", "")
    if all(words) and letters.isascii() and letters.isalnum():
        line = " ".join(words)  # No word needs quotes, for which shlex would be imported.
    else:
        import shlex

        line = shlex.join(words)
    return line.encode(errors="backslashreplace").decode()[:1000]


def run_foreground(
    client: JobClient,
    job: JobSpec,
    printer: Printer,
    submission: ApplicationSubmissionContext,
    shown: Display,
    submitted: Callable[[str], None],
) -> JobOutcome:
    """Submit the job and run it to its end: follow its master in the RM, or run the master here if the RM hosts none.
    Raises YoppError.

    After a second interrupt, it asks the RM to kill the job at once, and returns (exit 130).
    """
    hosted = SubmitJobRequest(submission, job) if _may_be_hosted(client) else None
    response = client.submit(hosted, lambda: _with_master_here(client, job, submission))
    warn_of_ignored(client, printer)
    if printer.ids_only:
        printer.text(response.application_id)
    submitted(response.application_id)
    tally = Tally(job.size)
    console = JobConsole(printer, job, tally, response, shown, client.submitted_at)
    with SignalWatch() as signals:
        loop: JobFollower | MasterLoop
        if response.am_token is None:
            rows = shown.stream or shown.log is not None or printer.is_json or not printer.quiet
            loop = JobFollower(
                client.open(),
                response.application_id,
                tally,
                console,
                signals,
                rows=rows,
                until=client.until,
            )
        else:
            loop = _master_here(client, job, response, tally, console, signals)
        try:
            end = loop.run()
            client.connection = loop.rm
            console.drain(signals)
        except Left:
            console.close()
            client.close()
            raise killed_at_once(client.run_dir.rm_socket, response.application_id) from None
        finally:
            console.close()
    report = client.report(response.application_id) if printer.is_json or end.error else None
    client.leave(response.info)
    if end.error is not None:
        raise _final_error(end, end.error, report)
    if end.exit_code != EXIT_READER_GONE:
        console.say_end(end, shown)
        console.check_output(end)
    return JobOutcome(end, response, report, console.tasks)


def _may_be_hosted(client: JobClient) -> bool:
    """Whether a job's master may run in an RM that hosts masters: not if the client must call a node's AMRMProxy."""
    settings = client.configuration.settings(ResourceManagerSettings)
    return settings.hosted_masters and not settings.scheduler_address


def _with_master_here(
    client: JobClient, job: JobSpec, submission: ApplicationSubmissionContext
) -> SubmitApplicationRequest:
    """The submission of a job with its master in this process."""
    _check(client, job)
    return SubmitApplicationRequest(submission)


def _check(client: JobClient, job: JobSpec) -> None:
    """Refuse jobs that the RM would refuse if it hosted their masters. Raises YoppError."""
    from ...masters.lengths import check_length

    check_length(job)
    client.check_sizes(task.resource for phase in job.phases for task in phase.tasks)


def _master_here(
    client: JobClient,
    job: JobSpec,
    response: SubmitApplicationResponse,
    tally: Tally,
    console: JobConsole,
    signals: SignalWatch,
) -> MasterLoop:
    """The job's master in this process."""
    from ...jobs.loop import MasterLoop
    from ...masters.jobmaster import JobMaster

    assert response.am_token is not None
    master = JobMaster(client.charged(job), response.attempt_id, response.am_token, tally=tally)
    scheduler = client.configuration.settings(ResourceManagerSettings).scheduler_address
    return MasterLoop(master, client.open(), console, signals, scheduler, crash_dir=client.run_dir.path)


def killed_at_once(rm_socket: str, application_id: str) -> YoppError:
    """Ask the RM to kill an application whose client was interrupted twice. Returns the error to print.

    If the RM does not answer within KILL_SECONDS, the client returns anyway: the RM ends a job that has lost its
    client.
    """
    from ...records.client_protocol import KillApplicationRequest

    what, because = f"killed {application_id}", "interrupted twice"
    request = KillApplicationRequest(application_id, "interrupted twice by Ctrl-C")
    try:
        with Connection(rm_socket, timeout=KILL_SECONDS) as connection:
            connection.call(request, timeout=KILL_SECONDS)
    except YoppError as problem:
        what = f"left {application_id}: the cluster ends its remaining containers"
        because = f"interrupted twice, and {problem.message}"
    return YoppError(
        what,
        because=because,
        hint=f"`yopp app status {application_id}` and `yopp logs {application_id}` show how it ended",
        exit_code=EXIT_INTERRUPTED,
    )


def _final_error(end: EndMaster, error: YoppError, report: ApplicationReport | None) -> YoppError:
    """The error that ended the job, with the RM's diagnostics."""
    because = error.because
    if not because and report is not None and report.diagnostics != error.message:
        because = one_line(report.diagnostics)
    return type(error)(error.message, because=because, hint=error.hint, exit_code=end.exit_code)


def submit_in_cluster(
    client: JobClient, job: JobSpec, submission: ApplicationSubmissionContext
) -> SubmitApplicationResponse:
    """Submit a job that needs no client: its master runs in the RM, or in a container of the cluster. Raises
    YoppError.

    The master of a `pi` job reads and removes files of its user, which the RM never does.
    """
    hosted = None
    if _may_be_hosted(client) and job.pi is None:
        hosted = SubmitJobRequest(submission, job, attached=False)
    return client.submit(hosted, lambda: _with_master_in_container(client, job, submission))


def submit_detached(
    client: JobClient,
    job: JobSpec,
    printer: Printer,
    submission: ApplicationSubmissionContext,
    submitted: Callable[[str], None],
) -> None:
    """Submit the job and return when it has begun, or has to wait. Raises YoppError."""
    response = submit_in_cluster(client, job, submission)
    warn_of_ignored(client, printer)
    application_id = response.application_id
    submitted(application_id)
    if printer.is_json:
        report = client.report(application_id)
    else:
        report = None if printer.quiet else _report_once_begun(client, application_id)
    if not printer.quiet and (never := _never(client, application_id, report)):
        printer.note(f"warning: it cannot start on the present nodes: {never}")
    client.close()
    if printer.is_json:
        printer.document({"app": _app_document(application_id, report)})
    else:
        printer.text(application_id)
        shows = f"detached: {progress.kinds_text(job)}"
        if not submission.results:  # The place of the output is printed below.
            shows += f"; `yopp logs -f {application_id}` shows its output"
        # After the end of the cluster no daemon can answer for the job.
        if response.info.lifetime == ON_DEMAND:
            printer.note(f"{shows}, also after this cluster has ended; `yopp up` starts one that stays")
        else:
            printer.note(f"{shows}, `yopp wait {application_id}` waits for its end")
        if report is not None:
            printer.note(progress.where_text(report))


def _with_master_in_container(
    client: JobClient, job: JobSpec, submission: ApplicationSubmissionContext
) -> SubmitApplicationRequest:
    """The submission of a job with its master in a container, as in YARN."""
    import json

    from ...cluster.launching import daemon_environment
    from ...rpc.plain import encode

    _check(client, job)
    spec = json.dumps(encode(replace(client.charged(job), rm_address=f"unix:{client.run_dir.rm_socket}")))
    environment = daemon_environment(os.environ)
    master = ContainerLaunchContext(
        command=(sys.executable, "-P", "-m", "yarnopp_cli.daemons.applicationmaster", JOB_FILE),
        environment={name: environment[name] for name in ("PYTHONPATH", "PATH") if name in environment},
        files={JOB_FILE: spec},
    )
    return SubmitApplicationRequest(replace(submission, am_container_spec=master))


def _never(client: JobClient, application_id: str, report: ApplicationReport | None) -> str:
    """Why none of its containers can start on the present nodes; "" if one can. Only a warning: nodes may be added."""
    if report is None or report.state in FINAL_STATES:
        return ""
    found = client.explain(application_id)
    if found is None or not found.waits or found.satisfiable:
        return ""
    from ...records.explanation import ReasonCode
    from ...views.explain.reasons import text

    return "; ".join(text(one) for one in found.reasons if one.code == ReasonCode.TOO_BIG)


def _report_once_begun(client: JobClient, application_id: str) -> ApplicationReport | None:
    """A detached job when its first containers run, or no container was allocated to it; or when its master's
    container and the first others run; or after BEGIN_SECONDS. A queued container may be about to start: a node with
    room reports it as queued before it reports it as running.
    """
    since = time.monotonic()

    def begun(report: ApplicationReport | None) -> bool:
        if report is None or report.state in FINAL_STATES:
            return True
        spoken_of = report.containers_running + report.containers_queued + report.containers_done
        spoken_of += report.containers_killed
        if report.hosted:
            if not report.containers_queued or time.monotonic() - since >= SETTLED_SECONDS:
                return spoken_of > 0 or not report.containers_allocated
            return False
        # The master's own container is one of the running ones.
        return spoken_of > 1

    from ..frame.actions import polled

    return polled(lambda _: client.report(application_id), begun, BEGIN_SECONDS)


def final_document(outcome: JobOutcome, extra: dict[str, Any] | None = None) -> dict[str, Any]:
    """The document of ``--json`` at the end of a job: YARN's AppInfo, with the end of each task under ``yopp``."""
    app = _app_document(outcome.response.application_id, outcome.report)
    ours = app.setdefault("yopp", {})
    ours["exit"] = outcome.end.exit_code
    ours["tasks"] = [
        {
            "phase": task.phase,
            "task": task.number,
            "container": task.container_id,
            "node": task.node_id,
            "executionType": task.execution_type.value,
            "state": task.state.value,
            "exit": task.exit_code,
            "preemptions": task.preemptions,
            "losses": task.losses,
            "flaw": task.flaw or None,
            "failedAttempts": task.attempts,
            "diagnostics": task.diagnostics,
        }
        for _, task in sorted(outcome.tasks.items())
    ]
    ours.update(extra or {})
    return {"app": app}


def _app_document(application_id: str, report: ApplicationReport | None) -> dict[str, Any]:
    if report is None:
        return {"id": application_id}
    from ...clock import now_ms
    from ...views.applications import document

    return document(report, now_ms())
