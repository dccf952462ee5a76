"""The end of a job: its tasks decide it, unless something else ended the job. Pure."""

from __future__ import annotations

from executor.light import replace

from ..errors import YoppError
from ..records.jobs import TaskState
from ..records.reports import FinalApplicationStatus, JobSummary
from .ends import EndMaster
from .tasks import Tally


class MasterOutcome:
    """The outcome of one job. ``reason``: the cause other than its tasks that ended the job, "" if there is none;
    ``error`` is the fatal error."""

    def __init__(self, tally: Tally, exit_rule: str) -> None:
        self._tally = tally
        self._exit_rule = exit_rule
        self._exit_code: int | None = None
        self._status = FinalApplicationStatus.UNDEFINED
        self.reason = ""
        self.error: YoppError | None = None

    def decide(self, reason: str, exit_code: int | None, status: FinalApplicationStatus) -> None:
        """A cause other than its tasks ends the job. With ``exit_code`` None, the failed tasks decide the exit code."""
        self.reason, self._exit_code, self._status = reason, exit_code, status

    def expelled(self, error: YoppError) -> None:
        """The RM does not know the job any more. An exit code that was decided before is kept."""
        self.error = self.error or error
        if self._exit_code is None:
            self.decide(error.message, error.exit_code, FinalApplicationStatus.KILLED)

    @property
    def exit_code(self) -> int:
        """The exit code of the job."""
        return self._tally.exit_code(self._exit_rule) if self._exit_code is None else self._exit_code

    @property
    def status(self) -> FinalApplicationStatus:
        """The final status of its application."""
        if self._status is not FinalApplicationStatus.UNDEFINED:
            return self._status
        failed = self._tally.counts[TaskState.FAILED] > 0
        return FinalApplicationStatus.FAILED if failed else FinalApplicationStatus.SUCCEEDED

    @property
    def summary(self) -> JobSummary:
        """The final counts."""
        return replace(self._tally.summary(self.exit_code), first_failure=self._first_failure)

    @property
    def _first_failure(self) -> str:
        """The number and diagnostics of the first task that failed; "" if something else ended the job."""
        if self.reason or not self._tally.failures:
            return ""
        first = self._tally.failures[0]
        return f"task {first.number}: {first.diagnostics or f'exit code {first.exit_code}'}"

    @property
    def diagnostics(self) -> str:
        """YARN's diagnostics (``ApplicationMaster.finish``), with the first failure."""
        if self.reason:
            return self.reason
        if not (first := self._first_failure):
            return ""
        summary = self._tally.summary()
        return (
            f"Diagnostics., total={summary.total}, completed={summary.completed}, "
            f"allocated={summary.completed + self._tally.live}, "
            f"failed={summary.failed}; {first}"
        )

    def end(self, *, told: bool) -> EndMaster:
        """The command that ends the master; ``told``: whether the end was reported to the RM."""
        return EndMaster(self.exit_code, self.status, self.diagnostics, self.summary, self.error, told)
