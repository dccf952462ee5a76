"""How long what a task runs may be: so long that an answer to a node, or a call to it, has room for it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import UsageError
from ..records.jobs import JobSpec, PhaseSpec
from ..records.methods import MOST_TEXT
from ..records.requests import ContainerLaunchContext


def length(texts: Iterable[str]) -> int:
    """How many characters these texts have in a message, at one more for each text."""
    return sum(len(text) + 1 for text in texts)


def length_of(context: ContainerLaunchContext) -> int:
    """The length of a launch context."""
    variables, files = context.environment, context.files
    return length((*context.command, *variables, *variables.values(), *files, *files.values()))


def too_long(job: JobSpec) -> str:
    """Why no message has room for what a task of the job runs; "" if one has."""
    if any(length_of(phase.context) + _longest_own(phase) > MOST_TEXT for phase in job.phases):
        return f"what a task runs would have more than {MOST_TEXT:,} characters"
    return ""


def check_length(job: JobSpec) -> None:
    """Raise UsageError for a job with a task that no message has room for."""
    if problem := too_long(job):
        raise UsageError("this job cannot be run", because=problem)


def _longest_own(phase: PhaseSpec) -> int:
    """The most that a task of the phase has besides what they have in common."""
    if phase.sweep is None:
        return max((length(task.arguments) for task in phase.tasks), default=0)
    from .sweeps import longest_of  # only for sweeps, as in tasks.py

    return longest_of(phase.command, phase.sweep)
