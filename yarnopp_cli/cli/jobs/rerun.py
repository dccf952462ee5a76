"""``yopp rerun``: runs a job again, or some of its tasks, with the same numbers, values, variables and directory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence

from executor.hints import TYPE_CHECKING
from executor.light import replace

from ...errors import UsageError
from ...records.job_protocol import GetJobResponse
from ...records.jobs import JOB_FILE, JobSpec, PhaseSpec, TaskState
from ...records.requests import ApplicationSubmissionContext
from ..frame.command import Needs, command
from ..frame.naming import one_application
from ..frame.options import Annotated, OneApplication, option
from ..frame.session import Session
from .common import Detach
from .inputs import READS
from .joblog import ranges_of
from .kept import KeepOrder, NoPrefix
from .sweep import numbers_of

if TYPE_CHECKING:
    from ...records.state import StoredTask

Failed = Annotated[bool, option("--failed", "Only the tasks that have not ended with 0.")]
_SPANS = 5
"""How many spans of numbers an error names."""
These = Annotated[str | None, option("--task N,…", "Only these tasks: 3,7 or 10-20.")]


@command(
    "rerun",
    "yopp rerun last --failed",
    "yopp rerun 4 --task 3,7 -d",
    needs=Needs.JOBS,
    progress=True,
    tries=True,
)
def rerun(
    session: Session,
    job: OneApplication,
    failed: Failed = False,
    task: These = None,
    detach: Detach = False,
    no_prefix: NoPrefix = False,
    keep_order: KeepOrder = False,
) -> int:
    """Run a job again, all of it or some tasks, as another application, and exit with its exit code.

    The tasks keep their numbers, commands, variables and directory; --begin, --after and --deadline are not repeated.
    The ResourceManager stores the tasks of recent jobs, but not of jobs whose master ran in a client, as for
    foreground jobs with distributed allocation. A `pi` job is run again as a whole.
    """
    from .console import Display
    from .running import client_of, start

    if failed and task is not None:
        raise UsageError.exclusive("--failed and --task", "both select tasks")
    application_id = one_application(session.client, job)
    found = known(session, application_id)
    assert found.job is not None
    submission = replace(
        found.context,
        application_id="",
        begin_at_ms=0,
        after=(),
        deadline_at_ms=0,
        command_line="",
        am_container_spec=None,
    )
    if found.job.pi is not None:
        return _pi_again(
            session, application_id, found.job, submission, some=failed or bool(task), detach=detach
        )
    phase = _phase_of(application_id, found.job)
    chosen = _chosen(application_id, phase, found, failed=failed, task=task)
    if not chosen:
        session.printer.note(f"there is nothing to run: all tasks of {application_id} have ended with 0")
        return 0
    again = _with_tasks(found.job, phase, chosen)
    printer = session.printer
    shown = Display(
        stream=not (printer.ids_only or printer.is_json),
        prefixed=found.job.size > 1 and not no_prefix,
        elsewhere=bool(submission.results),
        in_order=keep_order,
    )
    return start(session, client_of(session, again.timeout_ms), again, submission, shown, detach=detach)


def known(session: Session, application_id: str) -> GetJobResponse:
    """The tasks of a job, wherever its master ran. Raises ApplicationNotFoundError."""
    found = session.client.job(application_id)
    return found if found.job is not None else _from_its_master(session, application_id, found)


def _from_its_master(session: Session, application_id: str, found: GetJobResponse) -> GetJobResponse:
    """The same for a master in a container, from its job file and from its records beside the logs."""
    from ...rpc.plain import decode

    master = found.context.am_container_spec
    assert master is not None
    job = replace(decode(JobSpec, json.loads(master.files[JOB_FILE])), rm_address="")
    records = _records(session, application_id, len(job.phases) - 1)
    good = sorted(one.shown_number for one in records if one.state is TaskState.SUCCEEDED)
    return replace(
        found, job=job, succeeded=tuple(end for one in ranges_of(good) for end in (one[0], one[-1]))
    )


def numbers_by_master(session: Session, application_id: str, phase: int) -> dict[str, int]:
    """The task of each container, from the records of a master in a container; empty for other masters. A restarted RM
    knows the times and exit codes of such containers, but not their tasks."""
    return {one.container_id: one.shown_number for one in _records(session, application_id, phase)}


def _records(session: Session, application_id: str, phase: int) -> list[StoredTask]:
    """The records of a phase's tasks that a master in a container has written beside the logs."""
    from ...jobs.taskrecords import TaskRecords

    directory = session.client.application(application_id).log_directory
    return [one for one in TaskRecords(directory, application_id).read() if one.phase_index == phase]


def _pi_again(
    session: Session,
    application_id: str,
    job: JobSpec,
    submission: ApplicationSubmissionContext,
    *,
    some: bool,
    detach: bool,
) -> int:
    from .pi import pi_again

    if some:
        raise UsageError(
            f"{application_id} can only be run again as a whole",
            because="it is a `pi` job: the reduce needs the counts of all maps, and their files are gone",
            hint=f"`yopp rerun {application_id}`",
        )
    return pi_again(session, job, submission, detach=detach)


def _phase_of(application_id: str, job: JobSpec) -> PhaseSpec:
    """The only phase of the job. Raises UsageError if the files that its tasks read are gone."""
    (phase,) = job.phases
    pieces = phase.sweep is not None and phase.command[: len(READS)] == READS and phase.sweep.sources[0]
    if pieces and os.path.isabs(pieces[0]) and not os.path.exists(pieces[0]):
        raise UsageError(
            f"{application_id} cannot be run again",
            because="its tasks read files that no longer exist, such as the pieces of --pipe",
            hint="pipe the data in again: `yopp run --pipe …`",
        )
    return phase


def _spans(numbers: Iterable[int]) -> str:
    """The numbers as spans, ``1-3, 7``; of many, only the first."""
    spans = [f"{one[0]}-{one[-1]}" if len(one) > 1 else str(one[0]) for one in ranges_of(numbers)]
    return ", ".join(spans[:_SPANS]) + (", …" if len(spans) > _SPANS else "")


def _chosen(
    application_id: str, phase: PhaseSpec, found: GetJobResponse, *, failed: bool, task: str | None
) -> Sequence[int]:
    """The numbers of the tasks to run, in order. Raises UsageError."""
    every = list(phase.numbers())
    if task is not None:
        asked = {number for some in numbers_of(task, "--task 3,7, or --task 10-20") for number in some}
        if strange := sorted(asked.difference(every)):
            raise UsageError(
                f"{application_id} has no task {strange[0]}",
                because=f"its {'task is' if len(every) == 1 else 'tasks are'} {_spans(every)}",
                hint=f"`yopp ps -a --app {application_id} --columns task,exit,command` lists them",
            )
        return [number for number in every if number in asked]
    if not failed:
        return every
    if not found.ended:
        raise UsageError(
            f"{application_id} has not ended",
            because="its tasks may still succeed",
            hint=f"`yopp wait {application_id}` first, or name tasks with --task",
        )
    good = set(found.good())
    return [number for number in every if number not in good]


def _with_tasks(job: JobSpec, phase: PhaseSpec, chosen: Iterable[int]) -> JobSpec:
    """The job with only these tasks."""
    wanted = set(chosen)
    tasks = [
        replace(spec, number=one.start, count=len(one), step=one.step)
        for spec in phase.tasks
        for one in ranges_of(number for number in spec.numbers if number in wanted)
    ]
    return replace(job, phases=(replace(phase, tasks=tuple(tasks)),))
