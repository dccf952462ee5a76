"""Texts about a job for users: its first line, its states, its end, its failures. Prints nothing."""

from __future__ import annotations

from collections.abc import Sequence

from executor.light import replace
from executor.records import ContainerExitStatus, ExecutionType

from ..errors import one_line
from ..masters.tasks import Tally
from ..records.jobs import JobSpec, TaskReport, TaskState
from ..records.reports import (
    FINAL_STATES,
    ApplicationReport,
    FinalApplicationStatus,
    JobSummary,
    YarnApplicationState,
    flaws_text,
    plain_diagnostics,
)
from ..views.text import SHED, number_of

SHOWN_FAILURES = 10

_WORDS = (
    ("running", (TaskState.RUNNING,)),
    ("queued", (TaskState.QUEUED,)),
    ("starting", (TaskState.STARTING,)),
    ("waiting", (TaskState.ASKED, TaskState.WAITING)),
    ("ok", (TaskState.SUCCEEDED,)),
    ("failed", (TaskState.FAILED,)),
    ("stopped", (TaskState.KILLED,)),
)

_BAR = (
    ("ok", "=", "green"),
    ("failed", "x", "red"),
    ("stopped", "x", "red"),
    ("running", ">", "cyan"),
    ("paused", "p", "yellow"),
    ("starting", "s", "blue"),
    ("queued", "q", "dim"),
    ("waiting", ".", "dim"),
)
"""How each state is drawn in a bar."""


def kinds_text(job: JobSpec) -> str:
    """The number of tasks of each type: ``20 opportunistic, 31 guaranteed``."""
    counts = dict.fromkeys((ExecutionType.OPPORTUNISTIC, ExecutionType.GUARANTEED), 0)
    for phase in job.phases:
        for task in phase.tasks:
            counts[task.execution_type] += task.count
    return ", ".join(f"{count} {kind.value.lower()}" for kind, count in counts.items() if count)


def states_text(tally: Tally) -> str:
    """The number of tasks in each state that has any, the reason of most pauses, and the reason why queued tasks may
    not start."""
    told = {"paused": tally.paused_for, "queued": tally.queued_for}
    why = {word: f" ({cause.lower()})" for word, cause in told.items() if cause}
    return ", ".join(f"{count} {word}{why.get(word, '')}" for word, count in _counted(tally).items() if count)


def _counted(tally: Tally) -> dict[str, int]:
    """Tasks by state, in words; paused tasks count as running for their master, and are separated here."""
    counts = {word: sum(tally.counts[state] for state in states) for word, states in _WORDS}
    paused = min(tally.paused, counts["running"])
    ordered = {"running": counts.pop("running") - paused, "paused": paused, **counts}
    shed = tally.noted["shed"]
    return {**ordered, "preempted": tally.noted["preempted"] - shed, SHED: shed, "lost": tally.noted["lost"]}


class RemainingTime:
    """Estimates the remaining time of a job from the tasks that have ended; called from time to time."""

    def __init__(self) -> None:
        self._ended = 0
        self._ended_at = 0.0

    def left(self, tally: Tally, elapsed: float) -> float | None:
        """Seconds until the last task ends, None while nothing has ended or nothing is left.

        A remaining task takes as long as an ended one took on average up to the last end; the time since then
        is subtracted. But the estimate is not less than if all running tasks ended now, so that it grows
        again if nothing ends.
        """
        counts = tally.counts
        ended = counts[TaskState.SUCCEEDED] + counts[TaskState.FAILED] + counts[TaskState.KILLED]
        if ended != self._ended:
            self._ended, self._ended_at = ended, elapsed
        rest = tally.total - ended
        if not ended or not rest:
            return None
        running = counts[TaskState.RUNNING]
        planned = self._ended_at * rest / ended - (elapsed - self._ended_at)
        return max(planned, elapsed * (rest - running) / (ended + running), 0.0)


def bar(tally: Tally, cells: int) -> list[tuple[str, str]]:
    """A bar over all tasks, as pieces of text with their styles: ended tasks first, waiting ones last.

    Each state with tasks has at least one cell, if there are enough cells; a letter shows the state without
    colours.
    """
    counted = _counted(tally)
    pieces = [(counted[word], letter, style) for word, letter, style in _BAR if counted[word]]
    total = sum(count for count, _, _ in pieces)
    if not total or cells < len(pieces):
        return []
    widths = [max(1, count * cells // total) for count, _, _ in pieces]
    while sum(widths) > cells:
        widths[widths.index(max(widths))] -= 1
    widths[widths.index(max(widths))] += cells - sum(widths)
    return [(letter * width, style) for width, (_, letter, style) in zip(widths, pieces, strict=True)]


def first_line(application_id: str, job: JobSpec, nodes: int, states: str) -> str:
    """The line printed once the job has started."""
    where = number_of(nodes, "node")
    return f"{application_id}  {kinds_text(job)} on {where}" + (f": {states}" if states else "")


def end_line(
    status: FinalApplicationStatus, seconds: float, tally: Tally, diagnostics: str, *, halted: bool = False
) -> str:
    """The line printed at the end: ``done in 51.2 s: 10 ok``. ``halted``: the job was ended because of the
    number of failed tasks.
    """
    states = ", ".join(filter(None, (states_text(tally), flaws_text(tally.summary()))))
    if status is FinalApplicationStatus.SUCCEEDED:
        return f"done in {duration_text(seconds)}: {states}"
    if status is FinalApplicationStatus.FAILED:
        why = f" ({diagnostics})" if halted else ""
        return f"failed after {duration_text(seconds)}{why}: {states}"
    why = f" ({diagnostics})" if diagnostics else ""
    if tally.counts[TaskState.WAITING] == tally.total:  # a master that works leaves no task in this state
        return f"stopped after {duration_text(seconds)}, before it had begun{why}"
    return f"stopped after {duration_text(seconds)}{why}: {states}"


def summary_line(summary: JobSummary, *, always: bool = False) -> str:
    """How many containers of each type ran, queued (for how long), were preempted, lost and tried again; "" if there
    is nothing to report.
    """
    told = (
        summary.queued
        or summary.awaited
        or summary.preempted
        or summary.lost
        or summary.retried
        or summary.promoted
        or summary.upgraded
        or summary.paused
    )
    if not (always or told):
        return ""
    parts = [f"ran {summary.opportunistic} opportunistic, {summary.guaranteed} guaranteed"]
    waited = summary.waited or summary.queued
    if waited:
        mean, longest = summary.wait_ms_total / waited / 1000, summary.wait_ms_max / 1000
        first = f"{summary.awaited} waited to be granted, " if summary.awaited else ""
        parts.append(
            f"{first}{summary.queued} queued (waited {mean:.1f} s on average, {longest:.1f} s at most)"
        )
    else:
        parts.append("0 queued")
    again = {"preempted": summary.preempted - summary.shed, SHED: summary.shed, "lost": summary.lost}
    told_again = [f"{number} {word}" for word, number in again.items() if number]
    parts.append(f"{' and '.join(told_again)} and requested again" if told_again else "0 preempted")
    if summary.retried:
        parts.append(f"{summary.retried} failed and tried again")
    if summary.paused:
        from ..views.applications import pauses_text

        parts.append(pauses_text(summary))
    if summary.promoted:
        parts.append(f"{summary.promoted} promoted")
    if summary.upgraded:
        parts.append(f"{summary.upgraded} requested as opportunistic ran guaranteed, because there was room")
    return ", ".join(parts)


def failure_lines(failures: Sequence[TaskReport], total: int, log_directory: str) -> list[str]:
    """One line for each of the first failures: the task, what happened, and where its output is if
    ``log_directory`` is not "".
    """
    lines = []
    for task in sorted(failures, key=lambda task: (task.phase, task.number))[:SHOWN_FAILURES]:
        who = f"task {task.number}" if total > 1 else "the container"
        where = (
            f"; output in {log_directory}/{task.container_id}"
            if log_directory and task.container_id and total > 1
            else ""
        )
        lines.append(f"{who} {_what_happened(task)}{where}")
    if len(failures) > SHOWN_FAILURES:
        lines.append(f"and {len(failures) - SHOWN_FAILURES} more failed")
    return lines


def _what_happened(task: TaskReport) -> str:
    diagnostics = one_line(task.diagnostics).removesuffix(".")
    if task.exit_status == ContainerExitStatus.KILLED_EXCEEDED_PMEM:
        return f"was OOM-killed: {task.memory_mb} MB limit ({diagnostics or 'exit code 137'})"
    own = f"ended with exit code {task.exit_code}"
    if not diagnostics or diagnostics.lower() in (own, f"exit code {task.exit_code}"):
        return own
    return f"{own}: {diagnostics}"


def duration_text(seconds: float) -> str:
    """``0.3 s``, ``51.2 s``, ``3 min 20 s``."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def elapsed_text(seconds: float, left: float | None) -> str:
    """``12 s``, ``12 s, about 40 s left``."""
    if left is None or left < 1:
        return f"{int(seconds)} s"
    rest = f"{left:.0f} s" if left < 120 else duration_text(left)
    return f"{int(seconds)} s, about {rest} left"


def where_text(report: ApplicationReport) -> str:
    """Whether a job that was just submitted runs, on which node, and where its output is."""
    if report.state in FINAL_STATES:
        ended = " ".join(dict.fromkeys((report.state.value, report.final_status.value)))
        succeeded = report.final_status is FinalApplicationStatus.SUCCEEDED
        why = "" if succeeded else plain_diagnostics(report.diagnostics, report.summary)
        return f"{ended} already{f': {one_line(why)}' if why else ''}"
    where = f" on {report.am_node_id}" if report.am_node_id else ""
    running = max(0, report.containers_running - (1 if report.am_node_id else 0))
    if report.postponed:
        return f"{report.state.value}: {one_line(report.diagnostics)}"
    if report.state is not YarnApplicationState.RUNNING:
        return f"{report.state.value}{where}: `yopp explain {report.application_id}` shows what it waits for"
    if report.hosted:
        where = " in the ResourceManager"
    from ..views.applications import counts_text

    counts = counts_text(replace(report, containers_running=running))
    output = f"to {report.results}" if report.results else f"under {report.log_directory}"
    return f"RUNNING, its master{where}; containers: {counts}; output {output}"
