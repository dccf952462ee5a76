"""Requests to end a job, the end of its master, and the time limits without the ResourceManager.

It is separate from ``messages.py``, since a client that only follows a job needs no other messages of a master.
"""

from __future__ import annotations

from executor.light import Record

from ..errors import YoppError
from ..records.reports import FinalApplicationStatus, JobSummary

RETRY_SECONDS = 0.2
PATIENCE_SECONDS = 20.0
"""The pause between calls to a lost RM, and the time after which a client gives up."""
CONTAINER_PATIENCE_SECONDS = 300.0
"""The time after which a master in a container gives up. It is longer, because no user waits for it, and because the
work of its running containers ends with it. By then a node has been restarted, if that is possible, and the RM does
not yet count the node as lost.
"""
LONGEST_TRY = 5.0
"""The longest time of a failing try, in seconds, with the pause before it."""
TELL_SECONDS = 1.0
"""The time after which the loss of the RM is reported to the user."""


class Loss:
    """The loss of the ResourceManager or a node: the time since when it is unreachable (None: it is reachable), and
    whether the user was notified. ``patience``: the seconds for which it is tried again."""

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self.patience = patience
        self.since: float | None = None
        self.told = False
        self._tried_at = 0.0

    def lasts(self, now: float) -> bool:
        """Note that a try has failed. Returns whether to try again: False after ``patience`` seconds. A time without
        tries, in which this process was stopped, counts as one try."""
        if self.since is None:
            self.since = self._tried_at = now
        self.since += max(0.0, now - self._tried_at - LONGEST_TRY)
        self._tried_at = now
        return now - self.since < self.patience

    def worth_telling(self, now: float) -> bool:
        """Whether to notify the user now; true once per loss."""
        due = not self.told and self.since is not None and now - self.since >= TELL_SECONDS
        self.told |= due
        return due

    def over(self) -> None:
        """Note that a call was answered."""
        self.since, self.told = None, False


def retrying(error: YoppError, patience: float = PATIENCE_SECONDS) -> str:
    """The notice for the user about a loss."""
    start = error.hint if error.hint.startswith("yopp ") else "yopp up"
    return f"{error.message}: retrying for {patience:g} s (`{start}` starts what is missing)"


class StopRequested(Record):
    """End the job now, with ``final_status`` and ``exit_code``."""

    reason: str
    exit_code: int
    final_status: FinalApplicationStatus = FinalApplicationStatus.KILLED


class EndMaster(Record):
    """The job has ended. ``error`` is the fatal error.

    ``told`` is false if the end could not be reported to the RM, which then starts another attempt of a master in a
    container; this attempt continues the job.
    """

    exit_code: int
    final_status: FinalApplicationStatus
    diagnostics: str
    summary: JobSummary
    error: YoppError | None = None
    told: bool = True
