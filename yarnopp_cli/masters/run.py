"""The plan of ``yopp run``: one phase, N equal containers of one command. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ..records.jobs import JobSpec, PhaseSpec, TaskSpec, alike
from ..records.requests import ANY

APPLICATION_TYPE = "YARN"
NUMBER_VARIABLE = "YOPP_TASK"
COUNT_VARIABLE = "YOPP_TASKS"
"""What each container finds its number (from 1) and the number of all in."""


def plan(
    command: tuple[str, ...],
    task: TaskSpec,
    containers: int = 1,
    *,
    name: str = "",
    environment: Mapping[str, str] | None = None,
    working_directory: str | None = None,
    node: str = ANY,
    promote: bool = False,
    retries: int = 0,
    timeout_ms: int = 0,
    container_timeout_ms: int = 0,
    max_preemptions: int = 100,
    exit_rule: str = "highest",
) -> JobSpec:
    """The job of ``containers`` tasks like ``task``. ``retries`` is how often a failing container is run again.

    ``timeout_ms`` bounds the whole job, ``container_timeout_ms`` what each container runs (paused time left out).
    """
    phase = PhaseSpec(
        name="run",
        tasks=alike(task, containers),
        command=command,
        environment={**(environment or {}), COUNT_VARIABLE: str(containers)},
        own_account=True,
        working_directory=working_directory,
        timeout_ms=container_timeout_ms,
        max_attempts=retries + 1,
        number_variable=NUMBER_VARIABLE,
        promote=promote,
        resource_name=node,
    )
    return JobSpec(
        name=name or command[0].rsplit("/", 1)[-1],
        application_type=APPLICATION_TYPE,
        phases=(phase,),
        timeout_ms=timeout_ms,
        max_preemptions=max_preemptions,
        exit_rule=exit_rule,
    )
