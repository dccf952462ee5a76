"""The tasks of ended jobs, for ``rerun``. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from executor.light import defaults_of, replace

from ...masters.jobmaster import JobMaster
from ...records.job_protocol import GetJobResponse
from ...records.jobs import JobSpec
from ...records.requests import ApplicationSubmissionContext

MOST_PAST_JOBS = 200
MOST_PAST_TASKS = 200_000
"""The maximum numbers of ended jobs, and of their tasks in total, that are kept."""
_SOON: int = defaults_of(JobSpec)["heartbeat_ms"]


class PastJobs:
    """The most recent ended jobs, by application id, the oldest first."""

    def __init__(self) -> None:
        self._jobs: dict[str, GetJobResponse] = {}
        self._tasks = 0

    def keep(self, application_id: str, said: GetJobResponse) -> None:
        """Keep an ended job, and drop the oldest ones above the limits. A job that is above the limit by itself
        displaces no other."""
        if _size(said) > MOST_PAST_TASKS:
            return
        self._jobs[application_id] = said
        self._tasks += _size(said)
        while len(self._jobs) > MOST_PAST_JOBS or self._tasks > MOST_PAST_TASKS:
            self._tasks -= _size(self._jobs.pop(next(iter(self._jobs))))

    def get(self, application_id: str) -> GetJobResponse | None:
        """The job with its tasks, None if it is unknown."""
        return self._jobs.get(application_id)


def _size(said: GetJobResponse) -> int:
    return 0 if said.job is None else said.job.size


def said_of(context: ApplicationSubmissionContext, master: JobMaster, *, ended: bool) -> GetJobResponse:
    """The submission of a master's job, and the tasks that ended well."""
    return as_submitted(context, master.job, rows_of(master.succeeded()), ended=ended)


def as_submitted(
    context: ApplicationSubmissionContext, job: JobSpec, succeeded: tuple[int, ...], *, ended: bool
) -> GetJobResponse:
    """The same for a job whose master has gone. A hosted master uses another heartbeat interval than the submitted
    one, which is restored."""
    return GetJobResponse(context, replace(job, heartbeat_ms=_SOON), succeeded, ended)


def rows_of(numbers: Iterable[int]) -> tuple[int, ...]:
    """Rows of consecutive numbers: the first and the last number of each, one after the other."""
    rows: list[int] = []
    for number in numbers:
        if rows and rows[-1] == number - 1:
            rows[-1] = number
        else:
            rows += (number, number)
    return tuple(rows)
