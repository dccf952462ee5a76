"""``run --on-end``: a command that runs as a separate job after the end of the job, whatever its result.

It is an application that begins ``--after ID:any``: it outlives the client, and also the RM if the RM keeps its state.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from executor.hints import TYPE_CHECKING
from executor.records import ExecutionType, Resource

from ... import started
from ...jobs.client import JobClient
from ...masters.commands import plan_run
from ...records.jobs import TaskSpec
from ...records.requests import MOST_TAGS, ApplicationSubmissionContext
from ..frame.naming import ON_END
from ..frame.output import Printer
from .running import submit_in_cluster

if TYPE_CHECKING:
    from .on_yarn import YarnJobs

_TELLS = """set -- "$@" "$("$0" -P -m yarnopp_cli app status "$1" --run-dir "$2" --json)"
[ "$4" ] || exit
printf '%s\\n' "$4" | /bin/sh -c "$3\""""
"""Passes the job's document to the command; the words are Python, the application, the run directory, the command. It
sets no variable, because the command would inherit it if the caller exports a variable of that name."""


def on_end(
    command: str,
    client: JobClient | YarnJobs,
    printer: Printer,
    submission: ApplicationSubmissionContext,
    environment: Mapping[str, str],
    directory: str | None,
) -> Callable[[str], None]:
    """A function that submits the application which runs ``command`` after the application with the given id.
    ``submission`` is the first job's. The command runs as the caller, even if the job runs as another user. Raises
    YoppError."""

    assert isinstance(client, JobClient), "the option is not supported on a YARN cluster"

    def submitted(application_id: str) -> None:
        settings = client.settings
        job = plan_run(
            ("/bin/sh", "-c", _TELLS, sys.executable, application_id, client.run_dir.path, command),
            TaskSpec(1, Resource(settings.run_memory_mb, settings.run_vcores), ExecutionType.GUARANTEED),
            name=f"{submission.name[:51]} (on-end)",
            environment=environment,
            working_directory=directory,
            umask=started.umask(),
        )
        following = ApplicationSubmissionContext(
            "",
            job.name,
            application_type=job.application_type,
            queue=submission.queue,
            priority=submission.priority,
            tags=(ON_END, *submission.tags)[:MOST_TAGS],
            am_resource=submission.am_resource,
            command_line=submission.command_line,
            after=(f"{application_id}:any",),
        )
        response = submit_in_cluster(client, job, following)
        following_id = response.application_id
        printer.note(
            f"{following_id} runs the --on-end command once {application_id} has ended; "
            f"`yopp wait {following_id}` shows how the command ends"
        )

    return submitted
