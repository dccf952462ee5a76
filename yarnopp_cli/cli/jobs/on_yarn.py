"""Jobs on a YARN cluster: planned as everywhere, and submitted over REST to Hadoop's own distributed shell."""

from __future__ import annotations

import json
import time

from ...client.shell import body
from ...client.yarn import YarnClient, polls
from ...errors import EXIT_INTERRUPTED, EXIT_TIMEOUT, YoppError
from ...records.client_protocol import KillApplicationRequest, UpdateApplicationTimeoutsRequest
from ...records.jobs import JobSpec
from ...records.reports import FINAL_STATES, ApplicationReport
from ...records.requests import ApplicationSubmissionContext
from ...settings.declarations import ApplicationSettings
from ...views import applications as view
from ..frame.output import Printer
from ..frame.session import print_raw
from ..looking.application import KILL_SECONDS

_NO_ID = "application_0_0000"


class YarnJobs:
    """What a command that submits a job needs of a YARN cluster, as ``jobs.client.JobClient`` is it of this host's.

    No property of this host has a say there: ``settings`` are what Hadoop's client and yopp take where nothing is said.
    """

    settings = ApplicationSettings(am_memory_mb=256, am_vcores=1, retry_minimum_interval_ms=0)

    def __init__(self, client: YarnClient, printer: Printer) -> None:
        self._client = client
        self._printer = printer

    def find_node(self, name: str) -> str:
        """Nodes cannot be chosen there."""
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
        """Submit a job and see it through, or only the first with ``detach``, or neither; the exit code."""
        client, printer = self._client, self._printer
        if dry_run:
            document = body(job, submission, _NO_ID, debug=debug)
            if printer.is_json:
                printer.document(document)
            else:
                printer.text(json.dumps(document, ensure_ascii=False, indent=2))
            printer.note("this would be submitted; YARN's REST API does not tell whether it would wait")
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
            f"{application_id}  {len(phase.tasks)} {kind} at {client.rest.address}: "
            f"`yopp logs {application_id}` shows what its containers write, while it runs"
        )
        return _see_through(client, printer, application_id, timeout)


def _see_through(client: YarnClient, printer: Printer, application_id: str, timeout: float | None) -> int:
    """Wait for an application's end, and show it; Ctrl-C ends the application."""
    begin = time.monotonic()
    told = ""
    try:
        for _ in polls(None if timeout is None else begin + timeout):
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
        raise YoppError(
            f"{application_id} did not end within {timeout:g} s, and was killed",
            because=f"it was {report.state.value}",
            hint="a longer --timeout gives it more time",
            exit_code=EXIT_TIMEOUT,
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
            printer.note(" ".join(report.diagnostics.split()))
    return code


def _tell_progress(printer: Printer, report: ApplicationReport, told: str) -> str:
    """Progress on stderr: a line that changes at a terminal, a line for each change of state elsewhere; the state.
    ``told`` is that of which it was told last."""
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
    """An application as its cluster told of it."""
    body = client.body_of([report], single=True)
    assert body is not None, "it has just been asked for"
    print_raw(printer, body)


def _kill(client: YarnClient, application_id: str) -> None:
    client.change(KillApplicationRequest(application_id))
    client.wait_for_applications([application_id], wait=KILL_SECONDS)


def _interrupted(client: YarnClient, printer: Printer, application_id: str) -> int:
    """Ctrl-C: the application ends, too; a second one leaves it to itself."""
    try:
        printer.status_line("")
        printer.note(f"ending {application_id}; Ctrl-C again leaves it running")
        _kill(client, application_id)
    except KeyboardInterrupt:
        printer.note(f"left: `yopp app status {application_id}` says how it gets on")
    return EXIT_INTERRUPTED
