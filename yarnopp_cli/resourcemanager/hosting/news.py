"""The changes of a job's tasks, in order, for any number of watchers, each with its own position."""

from __future__ import annotations

from collections import Counter

from executor.causes import paused_for
from executor.records import ContainerState, ExecutionType

from ...masters.tasks import Task
from ...records.jobs import TaskReport
from ..entities import RMApp

MOST_ROWS = 1000
"""The maximum number of tasks in one answer."""


class TaskNews:
    """A log of tasks. A task that changes again before it was reported keeps its place, and is reported in its
    present state. So the log grows with reports, not with changes.
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
        """A task's container has ended without ending it, and ``report`` is what was of it: the next container will be
        another. It is told to who follows the job from its beginning, and shows what the container wrote; nobody else
        who has heard of nothing yet misses it.
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
                self._log[place] = None  # it is for those who follow the job as it goes
            elif entry is not None and self._places[entry] == place:
                found.append(entry.report())
            place += 1
        self._heard = max(self._heard, place)
        return found, place


def why_paused(app: RMApp) -> str:
    """Why most of its paused containers are paused now, in the words of ``causes.paused_for``."""
    told = (one.status for one in app.attempt.containers.values())
    paused = (status.cause for status in told if status is not None and status.state is ContainerState.PAUSED)
    words = Counter(paused_for(cause) for cause in paused if cause is not None)
    return max(words, key=words.__getitem__, default="")


def why_queued(app: RMApp) -> str:
    """Why its first queued opportunistic container may not start even where there is room, in the same words."""
    for one in app.attempt.containers.values():
        waits = one.status is not None and one.status.state is ContainerState.SCHEDULED
        if waits and one.execution_type is ExecutionType.OPPORTUNISTIC:
            told = one.node.load.status
            return "WINDOW" if told.closed_until_ms else "LOAD" if told.lent_vcores < 0 else ""
    return ""
