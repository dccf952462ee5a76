"""The plan of ``yopp run``: one phase, N equal containers of one command. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from executor.records import ExecutionType, Resource

from ..records.jobs import JobSpec, PhaseSpec, TaskSpec
from ..records.requests import ANY

APPLICATION_TYPE = "YARN"
NUMBER_VARIABLE = "YOPP_TASK"
COUNT_VARIABLE = "YOPP_TASKS"
"""What each container finds its number (from 1) and the number of all in."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What ``yopp run`` was asked for. ``retries`` is how often a failing container is run again.

    ``timeout_ms`` bounds the whole job, ``container_timeout_ms`` what each container runs (paused time left out).
    """

    command: tuple[str, ...]
    resource: Resource
    containers: int = 1
    execution_type: ExecutionType = ExecutionType.GUARANTEED
    enforce: bool = False
    promote: bool = False
    priority: int = 0
    duration_hint_ms: int = 0
    environment: dict[str, str] = field(default_factory=dict)
    working_directory: str | None = None
    node: str = ANY
    name: str = ""
    timeout_ms: int = 0
    container_timeout_ms: int = 0
    retries: int = 0
    max_preemptions: int = 100


def plan(options: RunOptions) -> JobSpec:
    """The job that these options ask for."""
    tasks = tuple(
        TaskSpec(
            number=number,
            resource=options.resource,
            execution_type=options.execution_type,
            priority=options.priority,
            duration_hint_ms=options.duration_hint_ms,
            enforce=options.enforce,
        )
        for number in range(1, options.containers + 1)
    )
    phase = PhaseSpec(
        name="run",
        tasks=tasks,
        command=options.command,
        environment={**options.environment, COUNT_VARIABLE: str(options.containers)},
        own_account=True,
        working_directory=options.working_directory,
        timeout_ms=options.container_timeout_ms,
        max_attempts=options.retries + 1,
        number_variable=NUMBER_VARIABLE,
        promote=options.promote,
        resource_name=options.node,
    )
    return JobSpec(
        name=options.name or options.command[0].rsplit("/", 1)[-1],
        application_type=APPLICATION_TYPE,
        phases=(phase,),
        timeout_ms=options.timeout_ms,
        max_preemptions=options.max_preemptions,
    )
