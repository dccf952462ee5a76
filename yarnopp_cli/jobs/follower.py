"""Follows a job whose master the ResourceManager hosts: one connection, signals, an observer (distributedshell's
``Client``). It decides nothing.

If the connection is lost, the follower tries for a while to reach the RM again, and continues at its position. The RM
ends an attached job whose client does not return.
"""

from __future__ import annotations

import time

from ..errors import ConnectionFailedError, TimedOutError, YoppError
from ..masters.ends import RETRY_SECONDS, EndMaster, Loss, StopRequested, retrying
from ..masters.tasks import Tally
from ..records.job_protocol import (
    JobEnd,
    StopJobRequest,
    WatchJobRequest,
    WatchJobResponse,
)
from ..records.jobs import TaskState, from_rows
from ..records.reports import FLAWS, FinalApplicationStatus, JobSummary
from ..rpc.blocking import Connection
from .watching import Observer, SignalWatch, Stops, readable

_LONGEST_WAIT = 2.0
"""The longest wait in seconds before a check whether the RM's process is stopped."""


class JobFollower:
    """Follows one job to its end. ``rm`` is the connection over which it was submitted; ``tally`` is kept up to date.

    The job's time limit expires at ``until`` (monotonic): the follower needs it because a stopped RM ends no job.
    Without ``rows`` the observer gets no changes of tasks, and the tally is correct only at the end.
    """

    def __init__(
        self,
        rm: Connection,
        application_id: str,
        tally: Tally,
        observer: Observer,
        signals: SignalWatch,
        *,
        rows: bool = True,
        until: float = float("inf"),
    ) -> None:
        self.rm: Connection | None = rm
        self._address = rm.address
        self._id = application_id
        self._tally = tally
        self._observer = observer
        self._signals = signals
        self._stops = Stops(observer, signals)
        self._rows = rows
        self._position = self._notices = self._attempt = 0
        self._paused = -1
        self._watch = -1
        self._stop: StopRequested | None = None
        self._retry_at: float | None = None
        self._loss = Loss()
        self._stopped = 0
        self._deadline = until
        self._end: EndMaster | None = None

    def run(self) -> EndMaster:
        """Follow the job until it has ended. Raises Left when the user asks a second time to stop."""
        self._ask()
        while self._end is None:
            self._step()
        return self._end

    def _step(self) -> None:
        wanted = self._observer.stop_wanted()
        if wanted is not None:
            self._ask_to_stop(wanted)
        now = time.monotonic()
        times = [self._observer.tick(now), self._retry_at, now + _LONGEST_WAIT]
        times += [self._deadline] if self._stopped else []
        answered = self._wait(max(0.0, min(t for t in times if t is not None) - time.monotonic()))
        if self._retry_at is not None and time.monotonic() >= self._retry_at:
            self._reconnect()
        if not answered:
            self._probe()

    def _probe(self) -> None:
        """Notice once that the RM's process is stopped: the connection is open, but no answer comes."""
        stopped = self.rm.stopped_peer() if self.rm is not None else 0
        if stopped and stopped != self._stopped:
            self._observer.notice(
                f"the ResourceManager does not answer: its process is stopped; `kill -CONT {stopped}` continues it"
            )
        self._stopped = stopped
        if stopped and time.monotonic() >= self._deadline:
            self._give_up(
                TimedOutError(
                    "the job's time limit has expired",
                    because="the ResourceManager, which would end it, does not answer: its process is stopped",
                    hint=f"`kill -CONT {stopped}`: it then ends the job",
                )
            )

    def _wait(self, seconds: float) -> bool:
        """Wait for answers and signals, and process them. Returns whether there were answers."""
        descriptors = [self._signals.fileno()]
        if self.rm is not None:
            descriptors.append(self.rm.fileno())
            seconds = 0 if self.rm.has_answers else seconds
        ready = readable(descriptors, seconds)
        if self._signals.fileno() in ready:
            for stop in self._stops.received():
                self._ask_to_stop(stop)
        answered = self.rm is not None and (self.rm.fileno() in ready or self.rm.has_answers)
        if self.rm is not None and answered:
            self._receive(self.rm)
        return answered

    # --- calls

    def _send(self, request: WatchJobRequest | StopJobRequest) -> int:
        if self.rm is None:
            return -1
        try:
            return self.rm.send(request)
        except ConnectionFailedError as error:
            self._lose(error)
            return -1

    def _ask(self) -> None:
        self._watch = self._send(
            WatchJobRequest(
                self._id,
                self._position,
                self._notices,
                tasks=self._rows,
                attempt=self._attempt,
                paused=self._paused,
            )
        )

    def _ask_to_stop(self, stop: StopRequested) -> None:
        if self._stop is None:
            self._stop = stop
            self._send(StopJobRequest(self._id, stop.reason, stop.exit_code, stop.final_status))

    def _receive(self, connection: Connection) -> None:
        try:
            answers = connection.receive()
        except ConnectionFailedError as error:
            self._lose(error)
            return
        for call_id, answer in answers:
            if call_id == self._watch:  # The result of a stop is part of this answer, too.
                self._loss.over()
                if isinstance(answer, YoppError):
                    self._give_up(answer)
                else:
                    self._take_news(answer)

    def _take_news(self, news: WatchJobResponse) -> None:
        self._position, self._notices, self._paused = news.position, news.notices, news.paused
        tally = self._tally
        if news.attempt != self._attempt and self._rows:
            tally.failures.clear()  # A restarted ResourceManager sends all tasks again.
        self._attempt = news.attempt
        if news.counts:
            tally.counts = {state: news.counts.get(state.value, 0) for state in TaskState}
        tally.paused, tally.paused_for, tally.queued_for = news.paused, news.paused_for, news.queued_for
        tally.noted |= {"preempted": news.preempted, "shed": news.shed, "lost": news.lost}
        for text in news.said:
            self._observer.notice(text)
        for task in from_rows(news.tasks):
            if task.state is TaskState.FAILED:
                tally.failures.append(task)
            self._observer.task_changed(task)
        if news.end is None:
            self._ask()
        else:
            tally.noted |= {name: getattr(news.end.summary, name) for name in FLAWS}
            self._end = _end_of(news.end)

    # --- a lost ResourceManager

    def _lose(self, error: ConnectionFailedError) -> None:
        if self.rm is not None:
            self.rm.close()
            self.rm = None
        now = time.monotonic()
        if not self._loss.lasts(now):
            self._give_up(error)
            return
        self._retry_at = now + RETRY_SECONDS
        if self._loss.worth_telling(now):
            self._observer.notice(retrying(error))

    def _reconnect(self) -> None:
        self._retry_at = None
        try:
            self.rm = Connection(self._address)
        except ConnectionFailedError as error:
            self._lose(error)
            return
        self._ask()
        if (stop := self._stop) is not None:
            self._stop = None
            self._ask_to_stop(stop)

    def _give_up(self, error: YoppError) -> None:
        code = error.exit_code if self._stop is None else self._stop.exit_code
        status = FinalApplicationStatus.FAILED if self._stop is None else FinalApplicationStatus.KILLED
        summary = JobSummary(total=self._tally.total)
        self._end = EndMaster(code, status, error.message, summary, error)


def _end_of(end: JobEnd) -> EndMaster:
    error = None
    if end.message:
        error = YoppError(end.message, because=end.because, hint=end.hint, exit_code=end.exit_code)
    return EndMaster(end.exit_code, end.final_status, end.diagnostics, end.summary, error)
