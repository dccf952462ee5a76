"""``yopp dshell``:

YARN's distributed shell with all its options; options without an effect on one host print a notice once.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Sequence

from executor.hints import Any
from executor.records import ExecutionType, Others, Resource, counted

from ...errors import (
    EXIT_FAILURE,
    EXIT_HADOOP_USAGE,
    EXIT_NOT_EXECUTABLE,
    EXIT_NOT_FOUND,
    UsageError,
    YoppError,
    reason_of,
)
from ...jobs.commands import check_text, find_command, portable_environment
from ...masters import commands as shell
from ...records.jobs import TaskSpec
from ...records.requests import ApplicationSubmissionContext
from ..frame.command import REGISTERED, Needs, command
from ..frame.options import (
    WITHOUT_UPLOAD,
    Annotated,
    BadValueError,
    ExitCode,
    ExitRule,
    Options,
    Queue,
    argument,
    duration,
    option,
    size_mb,
)
from ..frame.output import wants_hadoops_codes
from ..frame.reading import Parameter, parameter, parameters
from ..frame.session import Session
from .common import Count, Detach, Gpus, Resources, both_types, check_size, others_of, resources, tags
from .variables import assignments

HADOOP_FAILED = 2
DEFAULT_TIMEOUT_MS = 600_000
LARGEST_SCRIPT = 4 * 1024 * 1024

WITHOUT_MEANING = {
    "jar": "",  # YARN requires it; here no jar is shipped.
    "master_resource_profile": "resource profiles are not part of yopp",
    "container_resource_profile": "resource profiles are not part of yopp",
    "log_properties": "yopp does not use log4j; output goes to the containers' log files",
    "rolling_log_pattern": "logs are not aggregated; they stay where they are written",
    "attempt_failures_validity_interval": "every failed attempt counts here",
    "container_failures_validity_interval": "every failure counts here",
    "domain": "there is no timeline server",
    "view_acls": "there is no timeline server",
    "modify_acls": "there is no timeline server",
    "create": "there is no timeline server",
    "flow_name": "there is no timeline server",
    "flow_version": "there is no timeline server",
    "flow_run_id": "there is no timeline server",
    "node_attributes": "yopp's nodes have no attributes",
    "docker_client_config": "containers here are process groups, not images",
    "placement_spec": "placement constraints are not part of yopp; --num-containers counts",
    "localize_files": "containers see this host's own files",
}
"""YARN's options that are accepted without an effect, and the reasons."""
FLAGS_WITHOUT_MEANING = frozenset({"create"})


def milliseconds(text: str) -> int:
    """YARN's plain milliseconds, or a duration with a unit. Raises BadValueError."""
    if isinstance(text, int):
        return text
    plain = text.strip()
    if re.fullmatch(r"[-+]?\d{1,15}", plain):
        return int(plain)
    return round(duration(plain) * 1000)


def error_codes(text: str) -> tuple[int, ...]:
    """The exit codes of a comma list. Raises BadValueError."""
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise BadValueError(f"{text!r} is not a list of exit codes; write 1,75") from None


Follow = Annotated[bool, option("-f, --follow", "Show the containers' output here."), WITHOUT_UPLOAD]
Debug = Annotated[bool, option("--debug", "The same as -v.")]


class ShellProgram(Options):
    """The containers' command: one of a command, a command line and a script."""

    argv: Annotated[list[str] | None, argument("[-- COMMAND ARG...]", "A command, run without a shell.")] = (
        None
    )
    shell_command: Annotated[
        str, option("--shell-command LINE", "The command line that bash runs in each container.")
    ] = ""
    shell_script: Annotated[
        str, option("--shell-script FILE", "A script that bash runs in each container."), WITHOUT_UPLOAD
    ] = ""
    shell_args: Annotated[
        list[str] | None, option("--shell-args ARG", "Arguments of the command or script (repeatable).")
    ] = None
    shell_env: Annotated[
        list[str] | None, option("--shell-env K=V", "Variables of the containers (repeatable).")
    ] = None

    def check(self, environment: dict[str, str], *, elsewhere: bool) -> None:
        """Raise UsageError for a program that cannot be run; ``elsewhere``: on another host."""
        shell.check_one(bool(self.shell_command), bool(self.shell_script), bool(self.argv))
        check_text(
            [*(self.argv or ()), self.shell_command, *(self.shell_args or ()), self.shell_script],
            "the argument",
        )
        if self.argv and not elsewhere:
            find_command(self.argv[0], {**os.environ, **environment}, os.getcwd())


class ShellContainers(Options):
    """The number, size and type of the containers."""

    count: Count = 1
    container_type: Annotated[str, option("--container-type TYPE", "GUARANTEED or OPPORTUNISTIC.")] = (
        "GUARANTEED"
    )
    opportunistic: Annotated[
        bool, option("-O, --opportunistic", "Short for --container-type OPPORTUNISTIC.")
    ] = False
    guaranteed: Annotated[bool, option("-G, --guaranteed", "Short for --container-type GUARANTEED.")] = False
    container_memory: Annotated[
        int, option("--container-memory MB", "Memory of each container.", parser=size_mb)
    ] = 10
    container_vcores: Annotated[int, option("--container-vcores V", "Vcores of each container.")] = 1
    container_resources: Annotated[
        str, option("--container-resources R=N,...", "Memory, vcores and others together.")
    ] = ""
    gpus: Gpus = None
    resource: Resources = None
    shell_cmd_priority: Annotated[
        int, option("--shell-cmd-priority, --container-priority P", "Priority of the containers.")
    ] = 0
    promote: Annotated[
        bool,
        option("--promote-opportunistic-after-start", "Promote opportunistic containers that have started."),
    ] = False
    enforce: Annotated[
        bool, option("--enforce-execution-type", "Never use an execution type other than the requested one.")
    ] = False

    def task(self) -> TaskSpec:
        """The task of one container. Raises UsageError."""
        return TaskSpec(
            1,
            container_size(
                self.container_memory,
                self.container_vcores,
                self.container_resources,
                others_of(self.gpus, self.resource or ()),
            ),
            execution_kind(self.container_type, self.opportunistic, self.guaranteed),
            self.shell_cmd_priority,
            self.enforce,
        )


class Retries(Options):
    """The conditions on which a container is run again."""

    container_retry_policy: Annotated[
        int,
        option(
            "--container-retry-policy 0|1|2",
            "Retry failed containers: never, always, or on certain codes.",
            min=0,
            max=2,
        ),
    ] = shell.NEVER_RETRY
    container_retry_error_codes: Annotated[
        str, option("--container-retry-error-codes A,B", "The exit codes for policy 2.")
    ] = ""
    container_max_retries: Annotated[
        int, option("--container-max-retries N", "Retries of each container, at most; -1 for no limit.")
    ] = 0
    container_retry_interval: Annotated[
        int, option("--container-retry-interval MS", "The delay before a retry.", parser=milliseconds)
    ] = 0

    def context(self) -> shell.ContainerRetryContext:
        """YARN's record of these options. Raises BadValueError."""
        return shell.ContainerRetryContext(
            self.container_retry_policy,
            error_codes(self.container_retry_error_codes),
            self.container_max_retries,
            self.container_retry_interval,
        )


class ShellApplication(Options):
    """The application and its master."""

    appname: Annotated[str, option("--appname, --name NAME", "The application's name.")] = "DistributedShell"
    queue: Queue = "default"
    priority: Annotated[int, option("--priority P", "The application's priority.")] = 0
    application_tags: Annotated[str, option("--application-tags A,B", "Tags of the application.")] = ""
    timeout: Annotated[
        int,
        option(
            "--timeout MS",
            "Stop the job itself after this time, in ms or as 90s, 5m; 0 for never; exit 124. The start of its cluster "
            "counts.",
            parser=milliseconds,
        ),
    ] = DEFAULT_TIMEOUT_MS
    master_memory: Annotated[int | None, option("--master-memory MB", "Memory of a detached master.")] = None
    master_vcores: Annotated[int | None, option("--master-vcores V", "Vcores of a detached master.")] = None
    master_resources: Annotated[
        str, option("--master-resources R=N,...", "Memory and vcores together: memory-mb=100,vcores=1.")
    ] = ""
    keep_containers: Annotated[
        bool,
        option(
            "--keep-containers-across-application-attempts",
            "A new master takes over the old one's containers.",
        ),
    ] = False
    node_label_expression: Annotated[
        str, option("--node-label-expression LABEL", "Run only on nodes with this label.")
    ] = ""
    exit_code: Annotated[ExitCode, WITHOUT_UPLOAD] = ExitRule.highest

    def master(self) -> Resource | None:
        """The size of its master, None for the configured one. Raises UsageError."""
        return master_size(self.master_memory, self.master_vcores, self.master_resources)

    def context(self, name: str, master: Resource, words: Sequence[str]) -> ApplicationSubmissionContext:
        """The job's submission, with a master of this size; ``words`` are the variables, whose values are secret."""
        from .running import command_line

        return ApplicationSubmissionContext(
            "",
            name,
            queue=self.queue,
            priority=self.priority,
            tags=tags([self.application_tags]),
            keep_containers_across_attempts=self.keep_containers,
            node_label_expression=self.node_label_expression,
            am_resource=master,
            command_line=command_line(words),
        )


@functools.cache
def long_options() -> dict[str, bool]:
    """Each long option in YARN's spelling, with underscores, and whether it takes a value."""
    return {"help": False} | {
        spelling[2:].replace("-", "_"): one.takes_value
        for one in parameters(REGISTERED["dshell"].function)
        for spelling in one.spellings
        if spelling.startswith("--")
    }


def _with_options_that_mean_nothing(function: Callable[..., int]) -> Callable[..., int]:
    """Add YARN's other options, hidden; the given ones arrive as ``without_meaning``."""

    def with_all(session: Session, **values: Any) -> int:
        given = [name for name in WITHOUT_MEANING if values.pop(name) not in (None, False)]
        return in_hadoops_codes(lambda: function(session, **values, without_meaning=given))

    with_all.__doc__ = function.__doc__
    with_all.parameters = [*parameters(function), *map(_without_meaning, WITHOUT_MEANING)]  # type: ignore[attr-defined]
    return with_all


def _without_meaning(name: str) -> Parameter:
    """A hidden option without an effect."""
    why, flag = WITHOUT_MEANING[name], name in FLAGS_WITHOUT_MEANING
    hidden = option(f"--{name.replace('_', '-')}", why or "Accepted, not needed.", hidden=True)
    kind: Any = Annotated[bool if flag else str | None, hidden, WITHOUT_UPLOAD if why else None]
    return parameter(name, kind, False if flag else None)


def dshell(
    session: Session,
    program: ShellProgram,
    containers: ShellContainers,
    retries: Retries,
    application: ShellApplication,
    follow: Follow = False,
    detach: Detach = False,
    debug: Debug = False,
    *,
    without_meaning: list[str] | None = None,
) -> int:
    """Run a shell command or script in containers: YARN's distributed shell, with all its options.

    YARN_SHELL_ID is each container's number, in order of allocation. Output goes to log files (`yopp logs`); with
    --follow it is shown here, too. Hadoop's own spellings work too: -shell_command, -num_containers, -container_type.
    """
    from .console import Display
    from .running import JobOutcome, client_of, start

    printer = session.printer
    printer.verbose += debug
    for name in without_meaning or []:
        if WITHOUT_MEANING[name]:
            printer.warn(f"--{name.replace('_', '-')} has no effect: {WITHOUT_MEANING[name]}")
    check_text([application.appname], "the argument")
    words = program.shell_env or []
    environment, _ = portable_environment(assignments(words))
    elsewhere = session.yarn is not None
    program.check(environment, elsewhere=elsewhere)
    endless = elsewhere and detach and application.timeout == DEFAULT_TIMEOUT_MS
    planned = shell.plan_shell(
        containers.task(),
        containers.count,
        shell_command=program.shell_command,
        shell_script=read_script(program.shell_script) if program.shell_script else None,
        argv=tuple(program.argv or ()),
        shell_args=tuple(program.shell_args or ()),
        shell=shell_program(),
        environment=environment,
        retry=retries.context(),
        promote=containers.promote,
        name=application.appname,
        timeout_ms=0 if endless else max(0, application.timeout),
        exit_rule=application.exit_code.value,
    )
    master = application.master()
    client = client_of(session, planned.timeout_ms)
    job = shell.under(planned, client.settings)
    submission = application.context(job.name, master or client.settings.am_resource, words)
    shown = Display(
        stream=follow and not (printer.ids_only or printer.is_json), prefixed=containers.count > 1
    )

    def ended(outcome: JobOutcome) -> dict[str, Any]:
        if not (follow or printer.is_json or printer.ids_only):
            told = outcome.response
            printer.note(f"output: {told.log_directory}/ (`yopp logs {told.application_id}` shows it)")
        return {}

    return start(session, client, job, submission, shown, detach=detach, debug=debug, ended=ended)


command(
    "dshell",
    "yopp dshell --shell-command date --num-containers 2",
    "yopp dshell -n 10 -O -- sleep 10",
    needs=Needs.JOBS,
    progress=True,
    tries=True,
    yarn=True,
)(_with_options_that_mean_nothing(dshell))


def in_hadoops_codes(run: Callable[[], int]) -> int:
    """With ``YOPP_HADOOP_EXIT=1``, Hadoop's exit codes: 0, 2 not successful, 1 exception, 255 usage."""
    if not wants_hadoops_codes():
        return run()
    try:
        return HADOOP_FAILED if run() else 0
    except UsageError as error:
        error.exit_code = EXIT_HADOOP_USAGE
        raise
    except YoppError as error:
        error.exit_code = EXIT_FAILURE
        raise


def shell_program() -> str:
    """bash, as in YARN; else the system's sh."""
    path = os.environ.get("PATH", "/usr/bin:/bin")
    has_bash = any(os.access(os.path.join(folder, "bash"), os.X_OK) for folder in path.split(os.pathsep))
    return "bash" if has_bash else "sh"


def read_script(path: str) -> str:
    """A script's text.

    Raises YoppError: 127 if it does not exist, 126 if it cannot be read, 2 if it is not text.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_SCRIPT + 1)
    except FileNotFoundError:
        raise YoppError(
            f"no script {path}",
            because="there is no such file",
            hint="check the path",
            exit_code=EXIT_NOT_FOUND,
        ) from None
    except OSError as error:
        raise YoppError(
            f"cannot read the script {path}",
            because=reason_of(error),
            hint=f"ls -l {path}",
            exit_code=EXIT_NOT_EXECUTABLE,
        ) from None
    if len(data) > LARGEST_SCRIPT:
        raise UsageError(
            f"the script {path} is too large",
            because=f"it has more than {LARGEST_SCRIPT:,} bytes, and each container gets a copy",
            hint="name it in --shell-command instead",
        )
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError(
            f"the script {path} is not UTF-8",
            because="a binary cannot be a script",
            hint=f"yopp dshell --shell-command {path}",
        ) from None


def execution_kind(container_type: str, opportunistic: bool, guaranteed: bool) -> ExecutionType:
    """The requested execution type, by YARN's option or by ours. Raises UsageError."""
    if opportunistic and guaranteed:
        raise both_types()
    if opportunistic or guaranteed:
        return ExecutionType.OPPORTUNISTIC if opportunistic else ExecutionType.GUARANTEED
    try:
        return ExecutionType[container_type.upper()]
    except KeyError:
        raise UsageError(
            f"Invalid container_type: {container_type}",
            because="there are two execution types",
            hint="--container-type GUARANTEED or --container-type OPPORTUNISTIC",
        ) from None


def _size(memory: int | None, vcores: int | None, both: str) -> tuple[int | None, int | None, Others]:
    """The size, from the options of memory and vcores, or from the common option, which has precedence. YARN's -1
    means unset."""
    wanted = resources(both)
    memory = memory if wanted.memory == -1 else wanted.memory
    vcores = vcores if wanted.vcores == -1 else wanted.vcores
    return None if memory == -1 else memory, None if vcores == -1 else vcores, wanted.others


def container_size(memory: int, vcores: int, both: str, others: Others = ()) -> Resource:
    """The size of each container; ``others`` come from other options. Raises UsageError."""
    some_memory, some_vcores, more = _size(memory, vcores, both)
    check_size(some_vcores, some_memory)
    return Resource(
        10 if some_memory is None else some_memory,
        1 if some_vcores is None else some_vcores,
        counted({one.name: one.value for one in (*more, *others)}),
    )


def master_size(memory: int | None, vcores: int | None, both: str) -> Resource | None:
    """The size of a detached job's master, None for the configured one. Raises UsageError."""
    memory, vcores, others = _size(memory, vcores, both)
    if memory is not None and memory < 1:
        raise UsageError(
            f"Invalid memory specified for application master: {memory}",
            because="a master needs memory",
            hint="--master-memory 128, or -1 for the configured size",
        )
    if vcores is not None and vcores < 0:
        raise UsageError(
            f"Invalid virtual cores specified for application master: {vcores}",
            because="a number of vcores is not negative",
            hint="--master-vcores 0, or -1 for the configured number",
        )
    if memory is None and vcores is None and not others:
        return None
    return Resource(128 if memory is None else memory, vcores or 0, others)
