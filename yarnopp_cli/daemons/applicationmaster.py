"""The master of a detached job, in a container of the cluster: the same machine and loop as in the client.

It runs as ``python -m yarnopp_cli.daemons.applicationmaster job.json`` in the container's own directory,
where the RM has also put ``am-token.json``. Its log goes to the container's stderr, the result of a `pi` job
to its stdout. It does not follow the output of containers: that is in their log files.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping

from executor.regular import read_regular

from ..cluster.clientfiles import remove_directory
from ..errors import EXIT_FAILURE, EXIT_USAGE, YoppError
from ..jobs import progress
from ..jobs.loop import MasterLoop
from ..jobs.pifiles import read_result
from ..jobs.taskrecords import TaskRecords
from ..masters import messages as m
from ..masters.ends import CONTAINER_PATIENCE_SECONDS
from ..masters.jobmaster import JobMaster
from ..masters.pi import last_lines
from ..records.ids import ApplicationAttemptId
from ..records.jobs import JobSpec, TaskReport, TaskState
from ..records.master_protocol import AM_TOKEN_FILE, ATTEMPT_VARIABLE, SCHEDULER_ADDRESS_VARIABLE
from ..records.reports import FinalApplicationStatus
from ..records.requests import Token
from ..rpc.plain import MessageError, decode
from ..started import use_utf8


class LogObserver:
    """Writes each event as one line with the time to stderr."""

    def task_changed(self, task: TaskReport) -> None:
        """Write one line for each state except WAITING and ASKED."""
        if task.state not in (TaskState.WAITING, TaskState.ASKED):
            code = "" if task.exit_code is None else f", exit code {task.exit_code}"
            self.notice(f"task {task.phase}.{task.number} {task.state.value} {task.container_id}{code}")

    def notice(self, text: str) -> None:
        """Write one line. While the disk is full, it stays in the stream's buffer, and the job continues."""
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {text}\n")
            sys.stderr.flush()

    def stopping(self, reason: str) -> None:
        """Write one line."""
        self.notice(f"stopping: {reason}")

    def tick(self, now: float) -> float | None:
        """Return None: nothing is due."""
        return None

    def stop_wanted(self) -> m.StopRequested | None:
        """Return None: no user can request a stop here."""
        return None


def read_job(path: str) -> JobSpec:
    """A job from its file. Raises YoppError."""
    return decode(JobSpec, _read_json(path))


def read_token() -> Token:
    """A master's token from the file in this directory. Raises YoppError."""
    return decode(Token, _read_json(AM_TOKEN_FILE))


def _read_json(path: str) -> object:
    try:
        return json.loads(read_regular(path))
    except (OSError, ValueError) as error:
        raise MessageError(f"cannot read {path}", because=str(error)) from None


def run_job(
    job: JobSpec, attempt_id: str, token: Token, observer: LogObserver, scheduler_address: str = ""
) -> m.EndMaster:
    """Run a job to its end. An RM or an AMRMProxy that is not running is tried again, also at the start.

    SIGTERM has its default effect: it means the end of the container, not of the job. The RM starts another
    attempt, which continues from the records of this one.
    """
    logs, application = os.environ.get("LOG_DIRS"), str(ApplicationAttemptId.parse(attempt_id).application_id)
    loop = MasterLoop(
        JobMaster(job, attempt_id, token, patience=CONTAINER_PATIENCE_SECONDS),
        job.rm_address,
        observer,
        scheduler_address=scheduler_address,
        records=TaskRecords(os.path.dirname(logs), application) if logs else None,
        crash_dir=logs,
    )
    end = loop.run()
    if loop.rm is not None:
        loop.rm.close()
    observer.notice(
        f"{end.final_status.value}, exit code {end.exit_code}: {end.diagnostics or 'no diagnostics'}"
    )
    observer.notice(progress.summary_line(end.summary, always=True))
    return end


def report_pi(job: JobSpec, end: m.EndMaster, attempt_id: str, seconds: float) -> None:
    """Print the last lines of Hadoop's client to stdout."""
    assert job.pi is not None
    succeeded = end.final_status is FinalApplicationStatus.SUCCEEDED
    application = str(ApplicationAttemptId.parse(attempt_id).application_id)
    counted = read_result(job.pi.directory) if succeeded else None
    sys.stdout.write(last_lines(application, seconds, counted) + "\n")


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the master; 0 if the job has ended, with whatever result, 1 after an error, or if the RM could not be told of
    the end. Then another attempt continues the job, and needs its files."""
    observer = LogObserver()
    if len(argv) != 1 or ATTEMPT_VARIABLE not in environ:
        observer.notice(
            "usage: python -m yarnopp_cli.daemons.applicationmaster JOB_FILE, in an AM's container"
        )
        return EXIT_USAGE
    job: JobSpec | None = None
    ended = False
    started = time.monotonic()
    try:
        job = read_job(argv[0])
        token = read_token()
        # A node with an AMRMProxy puts the proxy's token into the file, and its address into a variable.
        scheduler = environ.get(SCHEDULER_ADDRESS_VARIABLE, "")
        end = run_job(job, environ[ATTEMPT_VARIABLE], token, observer, scheduler)
        if not end.told:
            return EXIT_FAILURE
        ended = True
        if job.pi is not None:
            report_pi(job, end, environ[ATTEMPT_VARIABLE], time.monotonic() - started)
    except YoppError as error:
        observer.notice(str(error))
        return EXIT_FAILURE
    finally:
        if job is not None and job.pi is not None and ended:
            remove_directory(job.pi.directory)
    return 0


def give_up_output() -> None:
    """Drop output that still cannot be written: otherwise Python would exit with 120 although the
    job has ended."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), stream.fileno())


if __name__ == "__main__":
    use_utf8()
    code = main(sys.argv[1:], os.environ)
    give_up_output()
    sys.exit(code)
