"""The part of ApplicationClientProtocol with which a job is submitted, followed and stopped: most clients of a job
need no other part.
"""

from __future__ import annotations

from executor.light import Record

from .jobs import JobSpec, TaskRows
from .methods import Request
from .reports import (
    ApplicationReport,
    ClusterInfo,
    FinalApplicationStatus,
    JobSummary,
    YarnApplicationState,
)
from .requests import ApplicationSubmissionContext, Token


class SubmitApplicationRequest(Request["SubmitApplicationResponse"]):
    """Run this application. An empty ``context.application_id`` lets the RM choose it."""

    context: ApplicationSubmissionContext


class SubmitApplicationResponse(Record):
    """``am_token`` and ``attempt_id`` are set for an unmanaged application, whose master is the client.

    ``log_directory`` is where the output of its containers is written.
    """

    application_id: str
    info: ClusterInfo
    attempt_id: str = ""
    am_token: Token | None = None
    log_directory: str = ""


class SubmitJobRequest(Request["SubmitApplicationResponse"]):
    """Run this job with its master in the ResourceManager's process. The answer has no token.

    ``attached``: the job ends when the connection of this call is lost and no other connection follows the
    job within the grace period; otherwise the job outlives its client. ``context`` is as for a submission,
    without ``am_container_spec``.

    Refused with MastersNotHostedError if the cluster's masters run in clients and containers.
    """

    context: ApplicationSubmissionContext
    job: JobSpec
    attached: bool = True


class WatchJobRequest(Request["WatchJobResponse"]):
    """The changes of a job whose master the ResourceManager hosts. The answer is held for up to ``wait_ms``, at most 5
    s, until there are changes.

    ``position``, ``notices``, ``attempt`` and ``paused`` repeat the last answer; the first call has none. After the
    connection of an attached job's client was lost, a call over another connection takes the job over. Without
    ``tasks`` no rows are sent: the answer comes when the job ends, has a notice, or the time has passed. In another
    attempt, after a restart of the ResourceManager, everything is sent again.
    """

    application_id: str
    position: int = 0
    notices: int = 0
    wait_ms: int = 5_000
    tasks: bool = True
    attempt: int = 0
    paused: int = -1


class JobEnd(Record):
    """The end of a job. ``exit_code`` is for the caller's shell. ``message``, with ``because`` and ``hint``, is the
    error that stopped the job, "" for none.
    """

    exit_code: int
    final_status: FinalApplicationStatus
    diagnostics: str
    summary: JobSummary
    message: str = ""
    because: str = ""
    hint: str = ""


class WatchJobResponse(Record):
    """``tasks`` have changed since the position of the request, at most 1,000 in an answer; the next call,
    with the new ``position`` and ``notices``, returns what follows. A task that changed several times has one
    row, its present state; a task whose container ended without ending the task has a row for each such
    container.

    ``counts`` is the number of tasks in each state (states without tasks are left out), ``paused`` the number of tasks
    whose containers are paused now, ``paused_for`` the reason of most pauses (``causes.paused_for``), ``preempted``,
    ``shed`` and ``lost`` the numbers of preempted, shed and lost containers. ``end`` is set once the job has ended and
    every row was sent. ``queued_for`` is the reason why queued opportunistic containers may not start even if there is
    room, in the same words.
    """

    position: int
    notices: int
    tasks: TaskRows
    said: tuple[str, ...]
    counts: dict[str, int]
    paused: int = 0
    preempted: int = 0
    shed: int = 0
    end: JobEnd | None = None
    paused_for: str = ""
    attempt: int = 0
    queued_for: str = ""
    lost: int = 0


class StopJobRequest(Request["StopJobResponse"]):
    """Stop a hosted job: its containers end first; then it unregisters with ``final_status`` and
    ``exit_code``.
    """

    application_id: str
    reason: str
    exit_code: int
    final_status: FinalApplicationStatus = FinalApplicationStatus.KILLED


class StopJobResponse(Record):
    """The job is being stopped, or has already ended; ``watchJob`` returns the end."""


class GetJobRequest(Request["GetJobResponse"]):
    """The specification of a job: a job that the RM hosts or hosted, or whose master ran in a container. The RM keeps
    the ended jobs up to a total number of tasks.
    """

    application_id: str


class GetJobResponse(Record):
    """``context`` and ``job`` as they were submitted, with the values of their variables; ``job`` is None if the
    master ran in a container, which has the job in a file. ``succeeded``: the numbers of the last phase's tasks that
    succeeded, as pairs: the first and the last number of each range. ``ended``: no further task will succeed.
    """

    context: ApplicationSubmissionContext
    job: JobSpec | None
    succeeded: tuple[int, ...] = ()
    ended: bool = False

    def good(self) -> list[int]:
        """The numbers in the ranges of ``succeeded``, one by one."""
        rows = zip(self.succeeded[::2], self.succeeded[1::2], strict=True)
        return [number for first, last in rows for number in range(first, last + 1)]


class GetApplicationsRequest(Request["GetApplicationsResponse"]):
    """Filters for applications; an empty filter matches all. ``live_only`` leaves out ended applications."""

    application_ids: tuple[str, ...] = ()
    states: tuple[YarnApplicationState, ...] = ()
    application_types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    queue: str = ""
    user: str = ""
    name: str = ""
    live_only: bool = False
    limit: int = 0


class GetApplicationsResponse(Record):
    """The applications in order of submission."""

    applications: tuple[ApplicationReport, ...]
