"""Requests to end a job, the end of its master, and the time limits without the ResourceManager.

It is separate from ``messages.py``, since a client that only follows a job needs nothing else of a master.
"""

from __future__ import annotations

from executor.light import Record

from ..errors import YoppError
from ..records.reports import FinalApplicationStatus, JobSummary

RETRY_SECONDS = 0.2
PATIENCE_SECONDS = 20.0
"""The pause between calls to a lost RM, and the time after which the job gives up."""
TELL_SECONDS = 1.0
"""The time after which the loss of the RM is reported to the user."""


class Loss:
    """Since when the ResourceManager is lost (None: it is not), and whether the user was told."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.told = False

    def lasts(self, now: float) -> bool:
        """Note that the RM could not be reached. Whether to try again: False after PATIENCE_SECONDS."""
        if self.since is None:
            self.since = now
        return now - self.since < PATIENCE_SECONDS

    def worth_telling(self, now: float) -> bool:
        """Whether the user must be told now; true once per loss."""
        due = not self.told and self.since is not None and now - self.since >= TELL_SECONDS
        self.told |= due
        return due

    def over(self) -> None:
        """Note that the RM has answered."""
        self.since, self.told = None, False


def retrying(error: YoppError) -> str:
    """The notice for the user about a loss."""
    return f"{error.message}: retrying for {PATIENCE_SECONDS:g} s (`yopp up` starts what is missing)"


class StopRequested(Record):
    """End the job now, with ``final_status`` and ``exit_code``."""

    reason: str
    exit_code: int
    final_status: FinalApplicationStatus = FinalApplicationStatus.KILLED


class EndMaster(Record):
    """The job has ended, and the RM knows (or is unavailable).

    ``error`` is the fatal error.
    """

    exit_code: int
    final_status: FinalApplicationStatus
    diagnostics: str
    summary: JobSummary
    error: YoppError | None = None
