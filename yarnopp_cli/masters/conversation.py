"""What a master says to the RM, and when: registration, one allocate call always waiting, asks that survive a
lost RM.

It knows nothing of tasks' ends. Like everything here it returns commands, and never makes a call itself.
"""

from __future__ import annotations

from ..records.client_protocol import KillApplicationRequest
from ..records.ids import ApplicationAttemptId
from ..records.mapreduce import TaskAssignment
from ..records.master_protocol import (
    AllocateRequest,
    AllocateResponse,
    FinishApplicationMasterRequest,
    RegisterApplicationMasterRequest,
)
from ..records.reports import FinalApplicationStatus, JobSummary
from ..records.requests import Token, UpdateContainerRequest
from . import messages as m
from .asks import Asks

RETRY_SECONDS = 0.2
PATIENCE_SECONDS = 20.0
"""How often a lost RM is tried again, and how long before the job gives up."""
TELL_SECONDS = 1.0
"""How long an RM may be lost before people hear of it."""


class Conversation:
    """One attempt's side of the ApplicationMasterProtocol.

    ``releases``, ``updates`` and ``tasks`` go with the next allocate call. ``registered`` is false before the first
    registration and after the RM asked for another one. ``in_flight`` counts allocate calls that have not
    been answered.
    """

    def __init__(self, attempt_id: str, token: Token, heartbeat_ms: int) -> None:
        self.asks = Asks()
        self.releases: list[str] = []
        self.updates: list[UpdateContainerRequest] = []
        self.tasks: list[TaskAssignment] = []
        self._said: list[TaskAssignment] = []
        self.registered = False
        self.in_flight = 0
        self.retry_at: float | None = None
        self._attempt_id = attempt_id
        self._token = token
        self._heartbeat_ms = heartbeat_ms
        self._response_id = 0
        self._lost_at: float | None = None
        self._told = False

    def register(self) -> m.Register:
        """Say that this master is there, for the first time or again."""
        self.registered = False
        self._response_id = 0
        return m.Register(RegisterApplicationMasterRequest(self._attempt_id, self._token))

    def allocate(self, progress: float, summary: JobSummary) -> m.Allocate | None:
        """The allocate call that is due: there is something to say, or none is waiting at the RM."""
        if not self.registered or self.retry_at is not None:
            return None
        if self.in_flight and not (self.asks.has_unsent or self.releases or self.updates or self.tasks):
            return None
        return self._allocate(progress, summary, self._heartbeat_ms)

    def last_word(self, summary: JobSummary) -> m.Allocate:
        """An allocate call that is not to be held, so that the RM has the final counts."""
        done = summary.completed / summary.total if summary.total else 1.0
        return self._allocate(done, summary, 0)

    def _allocate(self, progress: float, summary: JobSummary, wait_ms: int) -> m.Allocate:
        self.in_flight += 1
        request = AllocateRequest(
            attempt_id=self._attempt_id,
            token=self._token,
            response_id=self._response_id,
            progress=progress,
            asks=self.asks.take_unsent(),
            releases=tuple(self.releases),
            updates=tuple(self.updates),
            wait_ms=wait_ms,
            summary=summary,
            tasks=tuple(self.tasks),
        )
        self._said += self.tasks
        self.tasks.clear()
        self.releases.clear()
        self.updates.clear()
        return m.Allocate(request)

    def take_token(self, token: Token | None) -> None:
        """An AMRMProxy speaks for this master at the RM from now on: this token is for it."""
        if token is not None:
            self._token = token

    def heard(self) -> None:
        """The RM has answered something: it is there."""
        self._lost_at = None
        self._told = False

    def acknowledge(self, response: AllocateResponse) -> None:
        """This answer has arrived; the next call says so."""
        self._response_id = max(self._response_id, response.response_id)
        if response.token is not None:
            self._token = response.token

    def lost(self, now: float) -> bool:
        """The RM could not be reached: everything will be said again. False once patience is at its end."""
        if self._lost_at is None:
            self._lost_at = now
        self.asks.repeat_all()
        self.tasks, self._said = self._said + self.tasks, []
        self.retry_at = now + RETRY_SECONDS
        return now - self._lost_at < PATIENCE_SECONDS

    def worth_telling(self, now: float) -> bool:
        """Whether people should hear now that the RM is lost; true once for each loss."""
        due = not self._told and self._lost_at is not None and now - self._lost_at >= TELL_SECONDS
        self._told |= due
        return due

    def finish(self, status: FinalApplicationStatus, diagnostics: str, summary: JobSummary) -> m.Finish:
        """Take leave."""
        return m.Finish(
            FinishApplicationMasterRequest(
                self._attempt_id, self._token, status, diagnostics, summary=summary
            )
        )

    def kill(self, reason: str) -> m.Kill:
        """Have the application ended as KILLED:

        one whose master takes leave ends as FINISHED, whatever it says.
        """
        application_id = str(ApplicationAttemptId.parse(self._attempt_id).application_id)
        return m.Kill(KillApplicationRequest(application_id, reason))
