"""The maximum length of a task's work: one answer to a node, or one call to it, must have room for it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import UsageError
from ..records.jobs import JobSpec, PhaseSpec
from ..records.methods import MOST_TEXT
from ..records.requests import ContainerLaunchContext


def length(texts: Iterable[str]) -> int:
    """The number of characters of these texts in a message; each text counts one more."""
    return sum(len(text) + 1 for text in texts)


def length_of(context: ContainerLaunchContext) -> int:
    """The length of a launch context."""
    variables, files = context.environment, context.files
    return length((*context.command, *variables, *variables.values(), *files, *files.values()))


def too_long(job: JobSpec) -> str:
    """The error text if no message has room for the work of one of the job's tasks; "" if all fit."""
    if any(length_of(phase.context) + _longest_own(phase) > MOST_TEXT for phase in job.phases):
        return f"what a task runs would have more than {MOST_TEXT:,} characters"
    return ""


def check_length(job: JobSpec) -> None:
    """Raise UsageError for a job with a task that no message has room for."""
    if problem := too_long(job):
        raise UsageError("this job cannot be run", because=problem)


def _longest_own(phase: PhaseSpec) -> int:
    """The largest number of characters that a task of the phase has in addition to the common ones."""
    if phase.sweep is None:
        return max((length(task.arguments) for task in phase.tasks), default=0)
    from .sweeps import longest_of  # Imported only for sweeps, as in tasks.py.

    return longest_of(phase.command, phase.sweep)
