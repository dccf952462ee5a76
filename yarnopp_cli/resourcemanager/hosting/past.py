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
"""The numbers of ended jobs, and of their tasks together, that are kept."""
_SOON: int = defaults_of(JobSpec)["heartbeat_ms"]


class PastJobs:
    """The last ones, by application, the oldest first."""

    def __init__(self) -> None:
        self._jobs: dict[str, GetJobResponse] = {}
        self._tasks = 0

    def keep(self, application_id: str, said: GetJobResponse) -> None:
        """Remember one, and forget the oldest that are too many. One that is too large by itself displaces no other."""
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
    """The submission of a master's job, and its tasks that ended well."""
    return as_submitted(context, master.job, rows_of(master.succeeded()), ended=ended)


def as_submitted(
    context: ApplicationSubmissionContext, job: JobSpec, succeeded: tuple[int, ...], *, ended: bool
) -> GetJobResponse:
    """The same of a job whose master has gone; a hosted one had another interval of heartbeats than was asked for."""
    return GetJobResponse(context, replace(job, heartbeat_ms=_SOON), succeeded, ended)


def rows_of(numbers: Iterable[int]) -> tuple[int, ...]:
    """Numbers in order, as the first and the last of each row of them."""
    rows: list[int] = []
    for number in numbers:
        if rows and rows[-1] == number - 1:
            rows[-1] = number
        else:
            rows += (number, number)
    return tuple(rows)
