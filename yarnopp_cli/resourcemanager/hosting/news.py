"""News for the watchers of a job: changes of its tasks, notices, and its end, for each watcher from its own position.
Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import inf

from executor.causes import paused_for
from executor.records import ContainerState, ExecutionType

from ...machine.calls import LONGEST_HOLD_MS, CallReceived
from ...masters.messages import TaskChanged
from ...masters.tasks import Tally, Task
from ...records.job_protocol import JobEnd, WatchJobRequest, WatchJobResponse
from ...records.jobs import TaskReport, TaskState, as_rows
from ..entities import RMApp

MOST_ROWS = 1000
"""The maximum number of tasks in one answer."""
NEWS_SECONDS = 0.1
"""How long an answer to a watcher collects changes."""
SMALL_JOB = 16
"""The start of a task is reported at once for a job of at most this many tasks, because its user waits for the first
output."""


class TaskNews:
    """A log of changed tasks. A task that changes again before it was reported keeps its place and is reported in its
    present state, so the log grows with reports, not with changes.
    """

    def __init__(self) -> None:
        self._log: list[Task | TaskReport | None] = []
        self._places: dict[Task, int] = {}
        self._heard = 0

    def __len__(self) -> int:
        return len(self._log)

    def changed(self, task: Task) -> None:
        """A task has another state or container."""
        place = self._places.get(task)
        if place is None or place < self._heard:
            self._places[task] = len(self._log)
            self._log.append(task)

    def left(self, task: Task, report: TaskReport, *, followed: bool) -> None:
        """A task's container has ended without ending the task; ``report`` describes this container. The next
        container is a new one.

        Watchers that follow the job from its beginning get the report, and show the output of the container. Other
        watchers that have received no news yet do not need it.
        """
        if self._heard or followed:
            self._log.append(report)
            self._places[task] = -1
        self.changed(task)

    def since(self, position: int) -> tuple[list[TaskReport], int]:
        """The changes after ``position``, at most MOST_ROWS, and the position after them."""
        found: list[TaskReport] = []
        place = max(0, position)
        while place < len(self._log) and len(found) < MOST_ROWS:
            entry = self._log[place]
            if isinstance(entry, TaskReport):
                found.append(entry)
                self._log[place] = None  # Only a watcher that follows the running job gets this report.
            elif entry is not None and self._places[entry] == place:
                found.append(entry.report())
            place += 1
        self._heard = max(self._heard, place)
        return found, place


@dataclass(slots=True)
class _Watcher:
    """A held watchJob call: it is answered at ``until`` at the latest."""

    call: CallReceived
    request: WatchJobRequest
    until: float


class JobWatchers:
    """The watchers of a job, and the news for them."""

    def __init__(self, app: RMApp, tally: Tally, now: float) -> None:
        self._app = app
        self._tally = tally
        self._news = TaskNews()
        self._notices: list[str] = []
        self._watchers: list[_Watcher] = []
        self._told_at = now
        self._urgent = False

    def __len__(self) -> int:
        return len(self._watchers)

    def changed(self, change: TaskChanged, *, followed: bool) -> None:
        """A task has changed; ``followed`` as in ``TaskNews.left``."""
        if change.report is not None:
            self._news.left(change.task, change.report, followed=followed)
        else:
            self._news.changed(change.task)
            self._urgent |= change.task.state is TaskState.RUNNING and self._tally.total <= SMALL_JOB

    def notice(self, text: str) -> None:
        """Add one sentence for all watchers; it is sent once."""
        if self._notices[-1:] != [text]:
            self._notices.append(text)

    def add(self, call: CallReceived, request: WatchJobRequest, now: float) -> None:
        """Hold a watchJob call."""
        wait_ms = min(max(0, request.wait_ms), LONGEST_HOLD_MS)
        self._watchers.append(_Watcher(call, request, now + wait_ms / 1000))

    def leave(self, connection_id: int) -> None:
        """Drop the calls of a lost connection."""
        self._watchers = [one for one in self._watchers if one.call.connection_id != connection_id]

    def tell(self, end: JobEnd | None, now: float) -> list[tuple[int, WatchJobResponse]]:
        """The answers to watchers that have news or whose wait has expired, by call."""
        at_once = end is not None or self._urgent or now >= self._told_at + NEWS_SECONDS
        told, waiting = list[_Watcher](), list[_Watcher]()
        for one in self._watchers:
            many = one.request.tasks and len(self._news) - one.request.position >= MOST_ROWS
            answered = now >= one.until or (self._knows_more(one, end) and (at_once or many))
            (told if answered else waiting).append(one)
        if told:
            self._told_at, self._urgent = now, False
        self._watchers = waiting
        return [(one.call.call_id, self._answer(one.request, end)) for one in told]

    def next_time(self, end: JobEnd | None) -> float | None:
        """The time when the next watcher must be answered; None without watchers."""
        soon = self._told_at + NEWS_SECONDS
        return min(
            (min(one.until, soon if self._knows_more(one, end) else inf) for one in self._watchers),
            default=None,
        )

    def _knows_more(self, watcher: _Watcher, end: JobEnd | None) -> bool:
        heard = watcher.request
        if end is not None or len(self._notices) > heard.notices:
            return True
        paused = heard.paused >= 0 and heard.paused != self._tally.paused
        return heard.tasks and (len(self._news) > heard.position or paused)

    def _answer(self, heard: WatchJobRequest, end: JobEnd | None) -> WatchJobResponse:
        app, tally = self._app, self._tally
        reports, position = self._news.since(heard.position) if heard.tasks else ([], heard.position)
        complete = not heard.tasks or position >= len(self._news)
        return WatchJobResponse(
            position,
            len(self._notices),
            as_rows(reports),
            tuple(self._notices[max(0, heard.notices) :]),
            {state.value: count for state, count in tally.counts.items() if count},
            tally.paused,
            tally.noted["preempted"],
            tally.noted["shed"],
            end if complete else None,
            why_paused(app) if tally.paused else "",
            len(app.attempts),
            why_queued(app) if tally.counts[TaskState.QUEUED] else "",
            tally.noted["lost"],
        )


def why_paused(app: RMApp) -> str:
    """The reason why most of its paused containers are paused now, in the words of ``causes.paused_for``."""
    told = (one.status for one in app.attempt.containers.values())
    paused = (status.cause for status in told if status is not None and status.state is ContainerState.PAUSED)
    words = Counter(paused_for(cause) for cause in paused if cause is not None)
    return max(words, key=words.__getitem__, default="")


def why_queued(app: RMApp) -> str:
    """The reason why its first queued opportunistic container may not start even if there is room, in the same
    words."""
    for one in app.attempt.containers.values():
        waits = one.status is not None and one.status.state is ContainerState.SCHEDULED
        if waits and one.execution_type is ExecutionType.OPPORTUNISTIC:
            told = one.node.load.status
            return "WINDOW" if told.closed_until_ms else "LOAD" if told.host_is_busy else ""
    return ""
