"""Refuses invalid jobs at submission. Pure."""

from __future__ import annotations

from ...errors import UsageError
from ...masters.lengths import too_long
from ...records.jobs import JobSpec, PhaseSpec

MOST_TASKS = 1_000_000
HIGHEST_NUMBER = 2**53
"""The highest number of a task: all JSON readers read numbers up to it exactly."""


def check_job(job: JobSpec) -> None:
    """Raise UsageError for a job that its master could not run."""
    problem = ""
    if not job.phases or not all(phase.tasks for phase in job.phases):
        problem = "it has no tasks"
    elif any(task.count < 1 or task.step < 1 for phase in job.phases for task in phase.tasks):
        problem = "a number of equal tasks is less than 1"
    elif any(task.numbers[-1] > HIGHEST_NUMBER for phase in job.phases for task in phase.tasks):
        problem = f"a task's number is above {HIGHEST_NUMBER:,}"
    elif job.max_running < 0:
        problem = "the limit of running containers is below 0"
    elif job.size > MOST_TASKS:
        problem = f"it has {job.size:,} tasks, and the limit is {MOST_TASKS:,}"
    else:
        problem = next(filter(None, map(_misfit, job.phases)), "") or too_long(job)
    if problem:
        raise UsageError("this job cannot be run", because=problem)


def _misfit(phase: PhaseSpec) -> str:
    """The reason why a phase's template cannot be filled in, "" if it can."""
    if phase.sweep is None:
        return ""
    size = phase.sweep.size
    if not all(task.number >= 1 and task.numbers[-1] <= size for task in phase.tasks):
        return "a task's number is not in its sweep"
    from ...masters.sweeps import problem_of  # Imported only for sweeps, as in masters/tasks.py.

    return problem_of(phase.sweep)
