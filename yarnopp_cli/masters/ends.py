"""Requests to end a job, the end of its master, and the time limits without the ResourceManager.

Apart from ``messages.py``, since a client that only follows a job needs no more of a master than this.
"""

from __future__ import annotations

from executor.light import Record

from ..errors import YoppError
from ..records.reports import FinalApplicationStatus, JobSummary

RETRY_SECONDS = 0.2
PATIENCE_SECONDS = 20.0
"""How often a lost RM is called again, and how long before the job gives up."""
TELL_SECONDS = 1.0
"""The time after which the loss of the RM is reported to the user."""


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
