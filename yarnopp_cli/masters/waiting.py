"""The tasks of a phase that wait until containers may be requested for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import islice

from .tasks import Task

MOST_ASKED = 5_000
"""The number of tasks that may wait for containers at once; a larger phase creates its other tasks when these have
containers. No step of the machine therefore takes long, however large the job is.
"""


class WaitingTasks:
    """The tasks of a phase that wait until containers may be requested for them, in order. A task to be retried later
    goes to the end when its time has come. ``planned`` is the number of tasks that are not created yet."""

    def __init__(self) -> None:
        self._plan: Iterator[Task] = iter(())
        self.planned = 0
        self._due: deque[Task] = deque()
        self._later: list[tuple[float, int, Task]] = []

    def __len__(self) -> int:
        return len(self._due) + len(self._later)

    def begin(self, plan: Iterator[Task], count: int) -> None:
        """Begin a phase with this number of planned tasks."""
        self.clear()
        self._plan, self.planned = plan, count

    def make(self, asked: int) -> list[Task]:
        """Create and return further tasks, if few others wait here or, with ``asked``, for their containers."""
        waiting = asked + len(self)
        made = list(islice(self._plan, MOST_ASKED - waiting)) if waiting <= MOST_ASKED // 2 else []
        self.planned -= len(made)
        self.add(made)
        return made

    def add(self, tasks: Iterable[Task]) -> None:
        """Add tasks that need not wait for a time."""
        self._due.extend(tasks)

    def add_later(self, task: Task, not_before: float) -> None:
        """Add a task that requests no container before this time."""
        heappush(self._later, (not_before, task.number, task))

    def take(self, now: float, most: int) -> list[Task]:
        """Remove and return the first ``most`` tasks that are due. The cost does not depend on the number of waiting
        tasks."""
        while self._later and self._later[0][0] <= now:
            self._due.append(heappop(self._later)[2])
        return [self._due.popleft() for _ in range(min(most, len(self._due)))]

    def remove(self, task: Task) -> None:
        """Remove a task."""
        if task in self._due:
            self._due.remove(task)
        else:
            self._later = [one for one in self._later if one[2] is not task]
            heapify(self._later)

    def next_time(self) -> float | None:
        """The time of the next retry that is not due yet; None if there is none."""
        return self._later[0][0] if self._later else None

    def clear(self) -> int:
        """Remove all tasks. Returns the number of tasks that were not created yet."""
        unmade, self.planned, self._plan = self.planned, 0, iter(())
        self._due.clear()
        self._later.clear()
        return unmade
