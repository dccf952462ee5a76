"""The states of a task, the effect of its container's end, and the counts over all tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from executor.causes import FLAWS, CauseKind, of_kind
from executor.hints import Any
from executor.light import Record, made_of
from executor.records import PREEMPTION_STATUSES, ContainerExitStatus, ContainerStatus, ExecutionType

from ..errors import EXIT_CANNOT_START, EXIT_TRY_AGAIN
from ..records.jobs import PhaseSpec, TaskReport, TaskSpec, TaskState
from ..records.reports import JobSummary
from ..records.requests import Container

FIRST_BACKOFF_SECONDS = 0.05
LONGEST_BACKOFF_SECONDS = 2.0
"""The pause before asking again for a container that was refused or shed: doubled each time, up to the longest."""

NOTICEABLE_WAIT_MS = 250
"""A container that waited this long at its node counts as queued, even if the master received no report of the wait. A
container granted this long after its request counts as having waited for its grant.
"""

LIVE = frozenset({TaskState.STARTING, TaskState.QUEUED, TaskState.RUNNING})
"""The states of a task that has a container."""

_CODES: dict[int, int] = {
    ContainerExitStatus.ABORTED: EXIT_TRY_AGAIN,
    ContainerExitStatus.PREEMPTED: EXIT_TRY_AGAIN,
    ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER: EXIT_TRY_AGAIN,
    ContainerExitStatus.KILLED_EXCEEDED_VMEM: 137,
    ContainerExitStatus.KILLED_EXCEEDED_PMEM: 137,
    ContainerExitStatus.KILLED_FOR_EXCESS_LOGS: 137,
    ContainerExitStatus.KILLED_BY_APPMASTER: 143,
    ContainerExitStatus.KILLED_BY_RESOURCEMANAGER: 143,
    ContainerExitStatus.KILLED_AFTER_APP_COMPLETION: 143,
}


def exit_code_of(status: ContainerStatus) -> int:
    """The exit code of an ended container as in a shell: its own, 137 if it exceeded a limit, 75 if it was preempted.

    Never 0 for a container that was killed, even if it exited with 0.
    """
    if status.exit_status >= 0:
        return status.exit_status
    if status.exit_status in PREEMPTION_STATUSES:
        return EXIT_TRY_AGAIN
    if status.exit_code:
        return status.exit_code
    return _CODES.get(status.exit_status, EXIT_CANNOT_START)


class Task(Record, frozen=False):
    """One task. Only ``jobmaster.JobMaster`` and ``resuming`` change it; times are seconds of the
    master's clock."""

    phase_index: int
    phase: PhaseSpec
    spec: TaskSpec
    number: int
    execution_type: ExecutionType
    priority: int
    state: TaskState = TaskState.WAITING
    container: Container | None = None
    shown_number: int = 0
    attempts: int = 0
    preemptions: int = 0
    losses: int = 0
    refusals: int = 0
    start_failures: int = 0
    first_asked: float = -1.0
    asked_at: float = 0.0
    ask_wait_ms: int = 0
    exit_code: int | None = None
    exit_status: int = int(ContainerExitStatus.INVALID)
    diagnostics: str = ""
    flaw: str = ""
    has_queued: bool = False
    promoted: bool = False
    upgraded: bool = False
    wait_ms: int = 0
    started_at_ms: int = 0
    finished_at_ms: int = 0

    __eq__ = object.__eq__  # a task is equal only to itself
    __hash__ = object.__hash__

    @classmethod
    def all_of(cls, phase_index: int, phase: PhaseSpec) -> Iterator[Task]:
        """The planned tasks of a phase."""
        return (
            cls(phase_index, phase, spec, number, spec.execution_type, spec.priority, shown_number=number)
            for spec in phase.tasks
            for number in spec.numbers
        )

    @property
    def launch(self) -> tuple[tuple[str, ...], dict[str, str]]:
        """The task's own part of its container's launch context: words after the command of the phase's context, and
        variables."""
        if self.phase.sweep is None:
            return self.spec.arguments, {}
        from .sweeps import launch_of

        return launch_of(self.phase.command, self.phase.sweep, self.number)

    def report(self) -> TaskReport:
        """The current report of the task."""
        container = self.container
        return made_of(
            TaskReport,
            self,
            phase=self.phase_index,
            number=self.shown_number,
            execution_type=container.execution_type if container else self.execution_type,
            container_id=container.id if container else "",
            node_id=container.node_id if container else "",
            memory_mb=container.resource.memory if container else self.spec.resource.memory,
            planned_number=self.number,
        )

    def may_try_again(self, code: int) -> bool:
        """Whether another attempt is allowed after a failure with this code, which is already counted."""
        codes = self.phase.retry_codes
        return self.attempts < self.phase.max_attempts and (not codes or code in codes)

    def backoff(self, status: ContainerStatus) -> float:
        """Seconds to wait before requesting another container after a preemption.

        0 for a container that ran, or that was shed for the first time; the wait grows for a container that repeatedly
        reaches a node and never runs there. If the node's queue was full, or the node could not start containers, even
        the first request waits, since an immediate one would fail again.
        """
        at_once = of_kind(status.cause, CauseKind.QUEUE_FULL, CauseKind.NODE_FAULT)
        if status.started_at_ms and not at_once:
            self.refusals = 0
            return 0.0
        self.refusals += 1
        doublings = self.refusals - (1 if at_once else 2)
        if doublings < 0:
            return 0.0
        return min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** min(doublings, 10))

    def note_end(self, status: ContainerStatus) -> None:
        """Note the lost time of an ended container, and its waits: for its grant, and then at its node."""
        self.flaw = status.cause.kind.value.lower() if of_kind(status.cause, *FLAWS) else ""
        if status.queued_at_ms and status.started_at_ms:
            at_node = max(0, status.started_at_ms - status.queued_at_ms)
            self.wait_ms = at_node + (self.ask_wait_ms if self.has_awaited else 0)
            if at_node >= NOTICEABLE_WAIT_MS:
                self.has_queued = True

    @property
    def has_awaited(self) -> bool:
        """Whether the task had to wait for the grant of its container."""
        return self.ask_wait_ms >= NOTICEABLE_WAIT_MS


class Tally:
    """The counts over all tasks, updated with each change: reading them costs the same for 5
    and 50,000 tasks.

    ``counts`` are the numbers of tasks in each state, ``paused`` is the number of tasks whose containers are paused
    now, ``paused_for`` the reason of most pauses, if known, ``queued_for`` the reason why queued containers may not
    start; ``noted`` holds the counters of a JobSummary, by the names of its fields.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.counts = dict.fromkeys(TaskState, 0)
        self.counts[TaskState.WAITING] = total
        self.noted: Counter[str] = Counter()
        self.paused = 0
        self.paused_for = ""
        self.queued_for = ""
        self.worst_code = 0
        self.failures: list[TaskReport] = []
        self._paused_ms: Counter[str] = Counter()

    @property
    def live(self) -> int:
        """How many tasks have a container."""
        return sum(self.counts[state] for state in LIVE)

    def move(self, task: Task, state: TaskState) -> None:
        """Set a task's state; the only way to do so."""
        self.counts[task.state] -= 1
        self.counts[state] += 1
        task.state = state
        if state is TaskState.FAILED:
            self.worst_code = max(self.worst_code, task.exit_code or 1)
            self.failures.append(task.report())
        if state in (TaskState.SUCCEEDED, TaskState.FAILED) and task.container is not None:
            self.noted[task.container.execution_type.value.lower()] += 1
            self.noted["upgraded"] += task.upgraded
            if task.flaw:
                self.noted[task.flaw] += 1
            if task.has_queued or task.has_awaited:  # shorter waits are the time of a normal launch
                self.noted["queued"] += task.has_queued
                self.noted["awaited"] += task.has_awaited
                self.noted["waited"] += 1
                self.noted["wait_ms_total"] += task.wait_ms
                self.noted["wait_ms_max"] = max(self.noted["wait_ms_max"], task.wait_ms)

    def drop(self, count: int) -> None:
        """Count this number of tasks, which were never created, as killed."""
        self.counts[TaskState.WAITING] -= count
        self.counts[TaskState.KILLED] += count

    def note_pauses(self, status: ContainerStatus) -> None:
        """Add the time of an ended container's pauses, by their cause."""
        if status.stood_ms > 0:
            self.noted["paused"] += 1
            self._paused_ms[status.stood_for] += status.stood_ms

    def exit_code(self, rule: str = "highest") -> int:
        """The job's exit code by a rule of ``JobSpec.exit_rule``; 0 if no task has finally failed."""
        if rule == "first" and self.failures:
            return self.failures[0].exit_code or 1
        return min(1, self.worst_code) if rule == "any" else self.worst_code

    def summary(self, exit_code: int = -1) -> JobSummary:
        """The complete summary, for the RM and the user."""
        failed = self.counts[TaskState.FAILED]
        noted: dict[str, Any] = dict(self.noted)
        return JobSummary(
            total=self.total,
            completed=self.counts[TaskState.SUCCEEDED] + failed,
            failed=failed,
            running=self.counts[TaskState.RUNNING],
            paused_ms_total=self._paused_ms.total(),
            paused_for=max(self._paused_ms, key=self._paused_ms.__getitem__, default=""),
            exit_code=exit_code,
            **noted,
        )
