"""The plans of ``yopp run`` and ``yopp dshell``: one phase, N equal containers of one command. Pure.

``dshell`` is YARN's distributed shell (``Client`` and ``ApplicationMaster``): one shell command or script,
with containers numbered by YARN_SHELL_ID in the order of their allocation. One difference from YARN is
intended: a container that was preempted, shed or refused is requested again, and does not count as a failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from executor.light import Record, replace

from ..errors import UsageError
from ..records.jobs import Halt, JobSpec, PhaseSpec, Sweep, TaskSpec
from ..records.requests import ANY
from ..settings.declarations import ApplicationSettings

APPLICATION_TYPE = "YARN"
NAME = "DistributedShell"
MASTER = "org.apache.hadoop.yarn.applications.distributedshell.ApplicationMaster"
"""The class of Hadoop's own master of a distributed shell."""
SHELL_ID = "YARN_SHELL_ID"
SCRIPT_NAME = "ExecScript.sh"
NUMBER_VARIABLE = "YOPP_TASK"
COUNT_VARIABLE = "YOPP_TASKS"
"""The variables with which each container of ``yopp run`` gets its number (from 1) and the number
of all tasks."""
NEVER_RETRY = 0
RETRY_ON_SPECIFIC_ERROR_CODES = 2
FOR_EVER = 2**31
"""A number of attempts that no container reaches."""

SHELLS_WORDS = frozenset((">", ">>", "<", "|", "||", "&&", "&", ";", "2>", "2>&1", "&>"))
"""Words of a command that are probably meant for a shell."""


class Tasks(Record):
    """The work of the containers of ``yopp run``: a command, or a template with its values, and the numbers of the
    tasks. ``name`` is the default name of the job; with "", the command's name is used. ``max_running`` is from
    --array (``5-50%4``), 0 for none. ``results`` is as in ``ApplicationSubmissionContext``."""

    command: tuple[str, ...]
    numbers: tuple[range, ...]
    sweep: Sweep | None = None
    name: str = ""
    max_running: int = 0
    results: str = ""


def no_command() -> UsageError:
    """The error for a command line without a command."""
    return UsageError(
        "missing argument 'COMMAND [ARG]...'",
        because="`yopp run` needs it, or --from with a file of commands",
        hint="`yopp run --help` lists its options",
    )


def plan_run(
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
    sweep: Sweep | None = None,
    numbers: Sequence[range] = (),
    max_running: int = 0,
    halt: Halt | None = None,
    own_account: bool = True,
    umask: int = -1,
) -> JobSpec:
    """The job of ``containers`` tasks like ``task``. ``retries`` is how often a failing container is run again.
    ``own_account`` and ``umask`` apply to its containers (``ContainerSpec``).

    ``numbers`` are the numbers of the tasks instead of 1, 2, 3 …; ``sweep`` makes ``command`` a template.
    ``max_running`` and ``halt`` are the job's. ``timeout_ms`` limits the whole job, ``container_timeout_ms`` the run
    time of each container (without paused time).
    """
    numbers = numbers or (range(1, containers + 1),)
    phase = PhaseSpec(
        name="run",
        tasks=tuple(replace(task, number=one.start, count=len(one), step=one.step) for one in numbers),
        command=command,
        sweep=sweep,
        environment={**(environment or {}), COUNT_VARIABLE: str(sum(map(len, numbers)))},
        own_account=own_account,
        umask=umask,
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
        max_running=max_running,
        halt=halt,
    )


class ContainerRetryContext(Record):
    """How often, and after which failures, a container is run again (YARN's record).

    ``policy`` is YARN's number; ``maximum`` is the number of retries, -1 for no limit.
    """

    policy: int = NEVER_RETRY
    error_codes: tuple[int, ...] = ()
    maximum: int = 0
    interval_ms: int = 0

    @property
    def attempts(self) -> int:
        """How many attempts a container has."""
        if self.policy == NEVER_RETRY:
            return 1
        if self.policy == RETRY_ON_SPECIFIC_ERROR_CODES and not self.error_codes:
            return 1
        return FOR_EVER if self.maximum < 0 else self.maximum + 1


def check_one(*given: bool) -> None:
    """Raise UsageError unless exactly one of command, script and argument vector is given."""
    if sum(given) != 1:
        raise UsageError(
            "more than one command specified" if any(given) else "no shell command or shell script specified",
            because="exactly one of --shell-command, --shell-script and a command after -- selects what to run",
            hint="yopp dshell --shell-command date --num-containers 2",
        )


def plan_shell(
    task: TaskSpec,
    containers: int = 1,
    *,
    shell_command: str = "",
    shell_script: str | None = None,
    argv: tuple[str, ...] = (),
    shell_args: tuple[str, ...] = (),
    shell: str = "bash",
    environment: Mapping[str, str] | None = None,
    retry: ContainerRetryContext = ContainerRetryContext(),
    promote: bool = False,
    name: str = NAME,
    timeout_ms: int = 0,
    max_preemptions: int = 100,
    exit_rule: str = "highest",
) -> JobSpec:
    """The job of ``containers`` tasks like ``task``.

    ``shell`` runs ``shell_command`` or ``shell_script`` (its text) with ``shell_args``; ``argv`` is a command
    that runs without a shell. Raises UsageError unless exactly one of the three is given.
    """
    check_one(bool(shell_command), shell_script is not None, bool(argv))
    line = ""
    if not argv:
        command = shell_command.rstrip("\n") or f"exec {shell} ./{SCRIPT_NAME}"
        line = " ".join((command, *shell_args)).rstrip()
    phase = PhaseSpec(
        name="shell",
        tasks=(replace(task, count=containers),),
        command=(shell, "-c", line) if line else (*argv, *shell_args),
        shell_line=line,
        environment=dict(environment or {}),
        files={} if shell_script is None else {SCRIPT_NAME: shell_script},
        max_attempts=retry.attempts,
        retry_codes=retry.error_codes if retry.policy == RETRY_ON_SPECIFIC_ERROR_CODES else (),
        retry_interval_ms=retry.interval_ms,
        number_variable=SHELL_ID,
        number_by_allocation=True,
        promote=promote,
    )
    return JobSpec(
        name=name,
        application_type=APPLICATION_TYPE,
        phases=(phase,),
        timeout_ms=timeout_ms,
        max_preemptions=max_preemptions,
        exit_rule=exit_rule,
    )


def under(job: JobSpec, settings: ApplicationSettings) -> JobSpec:
    """A plan from this module, with the limits of the configuration."""
    least_ms = settings.retry_minimum_interval_ms
    return replace(
        job,
        phases=tuple(
            replace(phase, retry_interval_ms=max(0, least_ms, phase.retry_interval_ms))
            for phase in job.phases
        ),
        max_preemptions=settings.max_preemptions,
        preempted_is_failure=settings.preempted_counts_as_failed,
    )
