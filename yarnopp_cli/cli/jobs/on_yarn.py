"""Jobs on a YARN cluster: planned as for this host, and submitted over REST to Hadoop's own distributed shell; ``pi``
is Hadoop's example, run by Hadoop's own client, with its output and exit code."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence

from executor.records import shell_code

from ... import started
from ...client.choice import ENGINE_VARIABLE, LOCAL, RM_VARIABLE
from ...client.polling import polls
from ...client.shell import body
from ...client.yarn import PACE, YarnClient
from ...errors import EXIT_INTERRUPTED, EXIT_NOT_FOUND, TimedOutError, UsageError, YoppError, one_line
from ...jobs.watching import heeded
from ...masters.pi import PERCENT
from ...records.client_protocol import KillApplicationRequest, UpdateApplicationTimeoutsRequest
from ...records.jobs import JobSpec
from ...records.reports import FINAL_STATES, ApplicationReport
from ...records.requests import ApplicationSubmissionContext
from ...settings.declarations import ApplicationSettings
from ...views import applications as view
from ..frame.output import Printer
from ..frame.session import Session, print_raw
from ..looking.application import KILL_SECONDS

_NO_ID = "application_0_0000"
EXAMPLES = "share/hadoop/mapreduce/hadoop-mapreduce-examples-*.jar"
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)


class YarnJobs:
    """The counterpart of ``jobs.client.JobClient`` for YARN clusters: submits jobs through the REST API.

    Local properties do not apply to YARN clusters; ``settings`` holds the defaults of Hadoop's client and of yopp.
    """

    settings = ApplicationSettings(am_memory_mb=256, am_vcores=1, retry_minimum_interval_ms=0)

    def __init__(self, client: YarnClient, printer: Printer) -> None:
        self._client = client
        self._printer = printer

    def find_node(self, name: str) -> str:
        """The node as it was named: --node is refused before, because YARN's REST API has no such choice."""
        return name

    def start(
        self,
        job: JobSpec,
        submission: ApplicationSubmissionContext,
        *,
        detach: bool,
        dry_run: bool,
        debug: bool,
    ) -> int:
        """Submit a job and wait for its end; only submit it with ``detach``; do neither with ``dry_run``. Returns the
        exit code."""
        client, printer = self._client, self._printer
        if dry_run:
            document = body(job, submission, _NO_ID, debug=debug)
            if printer.is_json:
                printer.document(document)
            else:
                printer.text(json.dumps(document, ensure_ascii=False, indent=2))
            printer.note("this would be submitted; YARN's REST API does not show whether it would wait")
            return 0
        timeout = job.timeout_ms / 1000 or None
        application_id = client.submit(lambda given: body(job, submission, given, debug=debug))
        if detach:
            if timeout is not None:
                until = round((time.time() + timeout) * 1000)
                client.change(UpdateApplicationTimeoutsRequest(application_id, until))
            if printer.is_json:
                _print(client, printer, client.application(application_id))
            else:
                printer.text(application_id)
                printer.note(f"detached: `yopp wait {application_id}` waits for its end")
            return 0
        (phase,) = job.phases
        kind = phase.tasks[0].execution_type.value.lower()
        printer.note(
            f"{application_id}  {phase.size} {kind} at {client.rest.address}: "
            f"`yopp logs {application_id}` shows its output while it runs"
        )
        return _see_through(client, printer, application_id, timeout)


def _see_through(client: YarnClient, printer: Printer, application_id: str, timeout: float | None) -> int:
    """Wait for the end of an application, and show its progress; Ctrl-C ends the application."""
    begin = time.monotonic()
    told = ""
    try:
        for _ in polls(None if timeout is None else begin + timeout, **PACE):
            report = client.application(application_id)
            if report.state in FINAL_STATES:
                break
            told = _tell_progress(printer, report, told)
    except KeyboardInterrupt:
        return _interrupted(client, printer, application_id)
    finally:
        printer.status_line("")
    if report.state not in FINAL_STATES:
        _kill(client, application_id)
        raise TimedOutError(
            f"{application_id} did not end within {timeout:g} s, and was killed",
            because=f"it was {report.state.value}",
            hint="use a longer --timeout",
        )
    code = view.exit_code(report) or 0
    if printer.is_json:
        _print(client, printer, report)
    elif printer.quiet:
        printer.text(application_id)
    else:
        elapsed, final = time.monotonic() - begin, report.final_status.value
        printer.note(f"done in {elapsed:.1f} s: {report.state.value} {final}, exit {code}")
        if code and report.diagnostics:
            printer.note(one_line(report.diagnostics))
    return code


def _tell_progress(printer: Printer, report: ApplicationReport, told: str) -> str:
    """Print progress on stderr: a line that changes on a terminal, otherwise a line for each change of state. Returns
    the state; ``told`` is the state that was printed last."""
    state = report.state.value
    text = f"{report.application_id} {state}"
    if state == "RUNNING":
        text += f", {report.containers_running} containers, {100 * report.progress:.0f}%"
    if printer.progress:
        printer.status_line(text)
    elif state != told:
        printer.note(text)
    return state


def _print(client: YarnClient, printer: Printer, report: ApplicationReport) -> None:
    """Print an application as its cluster describes it."""
    body = client.body_of([report], single=True)
    assert body is not None, "it has just been submitted"
    print_raw(printer, body)


def _kill(client: YarnClient, application_id: str) -> None:
    client.change(KillApplicationRequest(application_id))
    client.wait_for_applications([application_id], wait=KILL_SECONDS)


def _interrupted(client: YarnClient, printer: Printer, application_id: str) -> int:
    """Ctrl-C: kill the application; a second Ctrl-C leaves it running."""
    try:
        printer.status_line("")
        printer.note(f"ending {application_id}; Ctrl-C again leaves it running")
        _kill(client, application_id)
    except KeyboardInterrupt:
        printer.note(f"left running: `yopp app status {application_id}` shows its progress")
    return EXIT_INTERRUPTED


# -- pi: by Hadoop's own client -----------------------------------------------------------------------------------


def hadoops_pi(session: Session, maps: int, samples: int, percent: int | None) -> int:
    """Run Hadoop's example; its exit code."""
    printer = session.printer
    if printer.is_json:
        raise UsageError(
            "pi on YARN has no --json",
            because="its output is Hadoop's own",
            hint="leave out --json",
        )
    words = pi_words(session.context.define, maps, samples, percent)
    hadoop = shutil.which("hadoop")
    jar = examples_jar(hadoop, os.environ) if hadoop else ""
    line = shlex.join(["hadoop", "jar", jar or f"$HADOOP_HOME/{EXAMPLES}", *words])
    if not jar:
        line = line.replace("'", "")
    if session.dry_run:
        printer.text(line)
        return 0
    if not hadoop or not jar:
        raise YoppError(
            "cannot run pi on YARN from here",
            because="there is no `hadoop` on PATH"
            if not hadoop
            else "the jar of Hadoop's examples was not found next to it",
            hint=f"run on a host with Hadoop: {line}",
            exit_code=EXIT_NOT_FOUND,
        )
    printer.note(line)
    environment = started.environment()
    environment.pop(RM_VARIABLE, None)
    environment[ENGINE_VARIABLE] = LOCAL  # A `hadoop` that is a link to yopp must not come back here.
    return _in_a_directory_of_its_own(
        [os.path.abspath(hadoop), "jar", os.path.abspath(jar), *words], environment, printer
    )


def _in_a_directory_of_its_own(command: list[str], environment: dict[str, str], printer: Printer) -> int:
    """Run Hadoop's client; its exit code.

    If the default file system is local, the client makes QuasiMonteCarlo_* in its working directory, and leaves it
    there when it is interrupted. The client therefore runs in a directory below this one, which is removed with all
    its files.
    """
    place: str | None = None
    # If no directory can be made here, the client cannot leave files either.
    with contextlib.suppress(OSError):
        made = f"{os.getcwd()}/.yopp-pi-{os.getpid()}-{os.urandom(4).hex()}"
        os.mkdir(made)
        place = made
    left: list[str] = []
    try:
        process = subprocess.Popen(command, env=environment, cwd=place)
        # Ctrl-C reaches the client by itself; in either case the client ends by itself.
        kept = {
            number: signal.signal(number, lambda got, _: process.send_signal(got))
            for number in heeded(_PASSED_ON)
        }
        kept[signal.SIGINT] = signal.signal(signal.SIGINT, lambda *_: None)
        code = process.wait()
        for number, handler in kept.items():
            signal.signal(number, handler)
    finally:
        if place is not None:
            left = os.listdir(place)
            shutil.rmtree(place, ignore_errors=True)
    if left:
        printer.note(
            f"removed files that Hadoop's client left: {', '.join(left)}; `yopp app list` shows whether its job runs"
        )
    return shell_code(code)


def pi_words(defines: Sequence[str], maps: int, samples: int, percent: int | None) -> list[str]:
    """The words after the jar: ``pi``, the properties other than yopp's, and the two numbers."""
    kept = [one for one in defines if not one.startswith("yopp.")]
    if percent is not None:
        kept.append(f"{PERCENT}={percent}")
    return ["pi", *(f"-D{one}" for one in kept), str(maps), str(samples)]


def examples_jar(hadoop: str, environ: dict[str, str] | os._Environ[str]) -> str:
    """The jar of Hadoop's examples beside a ``hadoop``; "" if there is none."""
    homes = [environ.get(name, "") for name in ("HADOOP_MAPRED_HOME", "HADOOP_HOME")]
    homes.append(os.path.dirname(os.path.dirname(os.path.realpath(hadoop))))
    for home in filter(None, homes):
        if found := sorted(glob.glob(os.path.join(glob.escape(home), EXAMPLES))):
            return found[-1]
    return ""
