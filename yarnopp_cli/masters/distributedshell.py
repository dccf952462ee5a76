"""The plan of ``yopp dshell``: YARN's distributed shell (``Client`` and ``ApplicationMaster``). Pure.

One shell command or script in N containers, numbered by YARN_SHELL_ID in the order in which they were
allocated. One difference to YARN is meant: a container that was preempted, shed or refused is asked for again
and fails nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from executor.records import ExecutionType, Resource

from ..errors import UsageError
from ..records.jobs import JobSpec, PhaseSpec, TaskSpec
from ..records.requests import ANY

APPLICATION_TYPE = "YARN"
SHELL_ID = "YARN_SHELL_ID"
SCRIPT_NAME = "ExecScript.sh"
NEVER_RETRY = 0
RETRY_ON_ALL_ERRORS = 1
RETRY_ON_SPECIFIC_ERROR_CODES = 2


@dataclass(frozen=True, slots=True)
class ShellOptions:
    """YARN's options, those that mean something on one host.

    Exactly one of ``shell_command`` and ``shell_script`` (its text), or ``argv``: a command that is run as it
    is, without a shell. ``retry_policy`` is YARN's number (``ContainerRetryPolicy``).
    """

    resource: Resource
    shell_command: str = ""
    shell_script: str | None = None
    argv: tuple[str, ...] = ()
    shell_args: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    containers: int = 1
    execution_type: ExecutionType = ExecutionType.GUARANTEED
    enforce: bool = False
    promote: bool = False
    container_priority: int = 0
    name: str = "DistributedShell"
    timeout_ms: int = 0
    retry_policy: int = NEVER_RETRY
    retry_error_codes: tuple[int, ...] = ()
    max_retries: int = 0
    retry_interval_ms: int = 0
    working_directory: str | None = None
    node: str = ANY
    max_preemptions: int = 100
    preempted_is_failure: bool = False


def check_one(*given: bool) -> None:
    """Raise UsageError unless exactly one of command, script and argument vector is given."""
    if sum(given) != 1:
        raise UsageError(
            "more than one command specified" if any(given) else "no shell command or shell script specified",
            because="exactly one of --shell-command, --shell-script and a command after -- says what to run",
            hint="yopp dshell --shell-command date --num-containers 2",
        )


def plan(options: ShellOptions, shell: str = "bash") -> JobSpec:
    """The job that these options ask for; ``shell`` runs the command.

    Raises UsageError where they contradict.
    """
    check_one(bool(options.shell_command), options.shell_script is not None, bool(options.argv))
    arguments = " ".join(options.shell_args)
    files: dict[str, str] = {}
    if options.argv:
        command = options.argv
    elif options.shell_script is not None:
        files[SCRIPT_NAME] = options.shell_script
        command = (shell, "-c", f"exec {shell} ./{SCRIPT_NAME} {arguments}".rstrip())
        if options.working_directory is not None:
            raise UsageError("a script runs in its container's own directory, where it is put")
    else:
        command = (shell, "-c", f"{options.shell_command} {arguments}".rstrip())
    phase = PhaseSpec(
        name="shell",
        tasks=tuple(
            TaskSpec(
                number=number,
                resource=options.resource,
                execution_type=options.execution_type,
                priority=options.container_priority,
                enforce=options.enforce,
            )
            for number in range(1, options.containers + 1)
        ),
        command=command,
        environment=options.environment,
        working_directory=options.working_directory,
        files=files,
        max_attempts=_attempts(options),
        retry_codes=options.retry_error_codes
        if options.retry_policy == RETRY_ON_SPECIFIC_ERROR_CODES
        else (),
        retry_interval_ms=options.retry_interval_ms,
        number_variable=SHELL_ID,
        number_by_allocation=True,
        promote=options.promote,
        resource_name=options.node,
    )
    return JobSpec(
        name=options.name,
        application_type=APPLICATION_TYPE,
        phases=(phase,),
        timeout_ms=options.timeout_ms,
        max_preemptions=options.max_preemptions,
        preempted_is_failure=options.preempted_is_failure,
    )


def _attempts(options: ShellOptions) -> int:
    """How often one container may fail; YARN's -1 retries mean for ever."""
    if options.retry_policy == NEVER_RETRY:
        return 1
    if options.retry_policy == RETRY_ON_SPECIFIC_ERROR_CODES and not options.retry_error_codes:
        return 1
    return 2**31 if options.max_retries < 0 else options.max_retries + 1
