"""``yopp run``: runs a command in containers, like docker and srun. It shows the output, and returns the exit code."""

# No `from __future__ import annotations`: each start would compile the options below from their text, in 3 ms.

import os
import stat
from collections.abc import Mapping, Sequence

from executor.hints import TYPE_CHECKING, Any
from executor.light import replace
from executor.records import ExecutionType, Resource

from ... import started
from ...errors import ApplicationNotFoundError, UsageError
from ...jobs.commands import check_text, find_command
from ...masters.commands import SHELLS_WORDS, Tasks, no_command, plan_run
from ...records.jobs import Halt, JobSpec, TaskSpec
from ...records.requests import AFTER, ANY, ApplicationSubmissionContext, check_deadline
from ..frame.command import Needs, command
from ..frame.options import (
    WITHOUT_UPLOAD,
    Annotated,
    ExitCode,
    ExitRule,
    JobTimeout,
    Live,
    Options,
    Queue,
    Tags,
    argument,
    beginning,
    coming,
    duration,
    option,
    size_mb,
)
from ..frame.session import Session
from .common import Count, Detach, Gpus, Resources, both_types, check_size, others_of, tags
from .kept import KeepOrder, NoPrefix, Outputs
from .variables import assignments, past_shells, surroundings, surroundings_of, with_values

if TYPE_CHECKING:
    from ...jobs.client import JobClient
    from ..frame.output import Printer
    from .on_yarn import YarnJobs


class RunProgram(Options):
    """The containers' command and directory."""

    command: Annotated[
        list[str] | None,
        argument("COMMAND [ARG]...", "The command, its arguments, and after ::: values, one for each task."),
    ] = None
    lines: Annotated[
        str | None,
        option(
            "--from FILE",
            "A container for each line of FILE (- is standard input): the line is its command, or replaces "
            "{} in COMMAND.",
        ),
        WITHOUT_UPLOAD,
    ] = None
    shell: Annotated[
        bool, option("--shell", "The command, or each line of --from, is a line for /bin/sh.")
    ] = False
    null: Annotated[
        bool,
        option("-0, --null", "Values of --from and :::: end with a NUL byte (find -print0)."),
        WITHOUT_UPLOAD,
    ] = False
    colsep: Annotated[
        str | None,
        option("--colsep REGEX", "Split each value into columns where this matches: {1}, {2} and so on."),
        WITHOUT_UPLOAD,
    ] = None
    array: Annotated[
        str | None,
        option(
            "--array N-M:S,…", "The numbers of the tasks: 5-50:5, 1,3,7-9; only these tasks of --from or :::."
        ),
        WITHOUT_UPLOAD,
    ] = None
    stdin: Annotated[
        str | None,
        option("--stdin FILE", "Each container reads FILE, which may have replacement strings: in/{1}.txt."),
        WITHOUT_UPLOAD,
    ] = None
    pipe: Annotated[
        bool,
        option("--pipe", "Each container reads one piece of the standard input; see --block."),
        WITHOUT_UPLOAD,
    ] = False
    block: Annotated[
        str,
        option("--block SIZE", "Size of the pieces of --pipe, each of whole lines: 10M, or 1000L for lines."),
        WITHOUT_UPLOAD,
    ] = "1M"
    env: Annotated[
        list[str] | None,
        option(
            "-e, --env K[=V]",
            "Set a variable (repeatable), also HOME, but not a variable that the node sets (CONTAINER_ID, "
            "PWD, …). Without =V the variable keeps its present value.",
        ),
    ] = None
    cwd: Annotated[
        str | None,
        option("-C, --cwd DIR", "The working directory. [default: the current one]"),
        WITHOUT_UPLOAD,
    ] = None

    def pieces(self, *, detach: bool) -> str | None:
        """The size of the pieces of --pipe, None without it. Raises UsageError."""
        if not self.pipe:
            return None
        if self.stdin is not None or detach or self.shell:
            other = "--stdin" if self.stdin is not None else "-d" if detach else "--shell"
            raise UsageError.exclusive(
                f"--pipe and {other}",
                "each task reads one piece, without a shell, and the pieces "
                "are removed when this client ends",
                hint=f"leave out {other}",
            )
        return self.block

    def tasks(self, count: int, environment: Mapping[str, str], directory: str | None) -> Tasks:
        """The tasks of the command line; ``directory`` is None for another host. Raises YoppError."""
        tasks = Tasks(tuple(self.command or ()), (range(1, count + 1),))
        marked = any(word.startswith(":::") for word in tasks.command)
        given = (self.lines, self.array, self.colsep)
        if marked or self.shell or self.null or any(one is not None for one in given):
            from .sweep import varied

            return varied(
                tasks,
                self.lines,
                self.array,
                shell=self.shell,
                environment=environment,
                directory=directory,
                null=self.null,
                colsep=self.colsep,
            )
        if not tasks.command:
            raise no_command()
        if directory is not None:
            find_command(tasks.command[0], environment, directory)
        return tasks

    def check_input(self, printer: "Printer | None" = None) -> None:
        """Raise UsageError if data was piped into this command that no task reads; with ``printer``, after the job has
        ended, only warn."""
        if not self.pipe and not stat.S_ISCHR(os.fstat(0).st_mode):
            from .inputs import refuse_unread

            try:
                refuse_unread()
            except UsageError as error:
                if printer is None:
                    raise
                printer.warn(f"the standard input was not read: {error.hint}")


class RunContainers(Options):
    """The number, size and type of the containers."""

    count: Count = 1
    opportunistic: Annotated[
        bool, option("-O, --opportunistic", "Run opportunistic containers, which may queue at a node.")
    ] = False
    guaranteed: Annotated[bool, option("-G, --guaranteed", "Run guaranteed containers (the default).")] = (
        False
    )
    memory: Annotated[
        int | None, option("--memory SIZE", "Memory of each container: 512, 512M, 2G.", parser=size_mb)
    ] = None
    vcores: Annotated[int | None, option("--vcores V", "Vcores of each container.")] = None
    gpus: Gpus = None
    resource: Resources = None
    exclusive: Annotated[
        bool,
        option("--exclusive", "Give each container a node of its own, with all of its resources."),
        WITHOUT_UPLOAD,
    ] = False
    node: Annotated[str, option("--node N", "Run on this node only."), WITHOUT_UPLOAD] = ANY
    priority: Annotated[
        int,
        option(
            "--priority P",
            "Priority of these containers: smaller numbers go first (larger ones with `app priority`).",
        ),
    ] = 0
    expect: Annotated[
        float | None,
        option(
            "--expect DUR",
            "Expected run time of each container, for estimates and for SHORTEST_FIRST.",
            parser=duration,
        ),
        WITHOUT_UPLOAD,
    ] = None
    container_timeout: Annotated[
        float | None,
        option(
            "--container-timeout DUR",
            "Kill each container that has run for this time; paused time does not count.",
            parser=duration,
        ),
        WITHOUT_UPLOAD,
    ] = None
    retries: Annotated[int, option("--retries N", "Retry a failing container up to N times.", min=0)] = 0
    promote: Annotated[
        bool, option("--promote", "Promote opportunistic containers once they have started.")
    ] = False
    enforce: Annotated[
        bool, option("--enforce", "Never use an execution type other than the requested one.")
    ] = False

    def check(self) -> None:
        """Raise UsageError for containers that cannot exist."""
        if self.opportunistic and self.guaranteed:
            raise both_types()
        check_size(self.vcores, self.memory)
        if others_of(self.gpus, self.resource or ()) and self.exclusive:
            raise UsageError.exclusive(
                "--exclusive and --gpus or --resource", "an exclusive container gets all of its node"
            )

    def task(self, session: Session, client: "JobClient | YarnJobs") -> TaskSpec:
        """The task of one container. Raises YoppError."""
        settings = client.settings
        size = Resource(
            settings.run_memory_mb if self.memory is None else self.memory,
            settings.run_vcores if self.vcores is None else self.vcores,
            others_of(self.gpus, self.resource or ()),
        )
        if self.exclusive:
            from .exclusive import size_of_node

            size = size_of_node(session, client, self.node, self.memory, self.vcores)
        return TaskSpec(
            1,
            size,
            ExecutionType.OPPORTUNISTIC if self.opportunistic else ExecutionType.GUARANTEED,
            self.priority,
            self.enforce,
            duration_hint_ms=round((self.expect or 0) * 1000),
        )


class RunApplication(Options):
    """The options of the job."""

    name: Annotated[str, option("--name NAME", "The application's name.")] = ""
    queue: Queue = "default"
    tag: Tags = None
    app_priority: Annotated[
        int,
        option("--app-priority P", "Priority of the job: larger numbers go first.", min=0),
        WITHOUT_UPLOAD,
    ] = 0
    begin: Annotated[
        int | None,
        option(
            "--begin TIME",
            "Begin at this time: now, +2h, 19:00, 2026-01-31T12:00:00Z. --timeout counts from then.",
            parser=beginning,
        ),
        WITHOUT_UPLOAD,
    ] = None
    after: Annotated[
        list[str] | None,
        option(
            "--after ID[:HOW]",
            "Begin when this job has succeeded (ok, the default), failed (failed) or just ended (any); repeatable.",
        ),
        Live(("app",), ended=True),
        WITHOUT_UPLOAD,
    ] = None
    deadline: Annotated[
        int | None,
        option(
            "--deadline TIME", "End the job at this time, even if it has not begun; exit 124.", parser=coming
        ),
        WITHOUT_UPLOAD,
    ] = None
    timeout: JobTimeout = None
    user: Annotated[
        str,
        option(
            "--user NAME",
            "Run as this user, with the user's groups and home, only the variables of -e, and in --cwd or a private "
            "directory. Only for root, in root's cluster.",
        ),
        WITHOUT_UPLOAD,
    ] = ""
    max_running: Annotated[
        int,
        option("--max-running N", "At most N containers of this job at once; 0 for no limit.", min=0),
        WITHOUT_UPLOAD,
    ] = 0
    halt: Annotated[
        str | None,
        option(
            "--halt WHEN,fail=N",
            "End the job when N tasks, or N%, have failed: at once (now), or when the running ones have ended (soon).",
        ),
        WITHOUT_UPLOAD,
    ] = None
    exit_code: Annotated[ExitCode, WITHOUT_UPLOAD] = ExitRule.highest
    on_end: Annotated[
        str | None,
        option(
            "--on-end CMD",
            "Run CMD with /bin/sh in a container once the job has ended; its standard input is the job's "
            "document (JSON). It is a separate job: `run` does not wait for it, and `yopp wait` with its id "
            "shows its result.",
        ),
        WITHOUT_UPLOAD,
    ] = None

    @property
    def timeout_ms(self) -> int:
        """The job's time limit, 0 for none."""
        return round((self.timeout or 0) * 1000)

    @property
    def begins_later(self) -> bool:
        """Whether the job waits for a time or for other jobs, and its time limit counts from then."""
        return self.begin is not None or bool(self.after)

    def check(self, now_ms: int) -> None:
        """Raise UsageError for a job that no cluster could begin."""
        check_text([self.name, self.on_end or ""], "the name")
        check_deadline(self.begin or 0, self.deadline or 0, now_ms)

    def context(
        self, session: Session, client: "JobClient | YarnJobs", name: str, words: Sequence[str]
    ) -> ApplicationSubmissionContext:
        """The job's submission; ``words`` are the variables, whose values are not shown to any user. Raises
        YoppError."""
        from .running import command_line

        return ApplicationSubmissionContext(
            "",
            name,
            user=self.user,
            queue=self.queue,
            priority=self.app_priority,
            tags=tags(self.tag),
            am_resource=client.settings.am_resource,
            command_line=command_line(words),
            begin_at_ms=self.begin or 0,
            after=parents(session, self.after) if self.after else (),
            deadline_at_ms=self.deadline or 0,
        )


@command(
    "run",
    "yopp run -n 10 -O sleep 10",
    "yopp run -O ./train.py --rate {1} --seed {2} ::: 0.1 0.01 ::: 1 2 3",
    needs=Needs.JOBS,
    progress=True,
    tries=True,
    yarn=True,
    context_settings={"allow_interspersed_args": False},
)
def run(
    session: Session,
    program: RunProgram,
    containers: RunContainers,
    application: RunApplication,
    kept: Outputs,
    detach: Detach = False,
    no_prefix: NoPrefix = False,
    keep_order: KeepOrder = False,
) -> int:
    """Run a command in containers, and exit with its exit code.

    Each container gets this environment, directory and umask, its number in YOPP_TASK, the number of all tasks in
    YOPP_TASKS (2 with --array 3,7), and /dev/null as standard input unless --stdin or --pipe is given. The output is
    shown here; --json prints the job as JSON when it ends instead, and -q only the application's id. If several
    containers fail, the job's exit code is the highest of their codes, or the one that --exit-code selects. A job that
    begins later (--begin, --after) uses no resources until then. If a job given to --after ends with another result,
    this job ends with exit code 125.

    With ::: or --from, each task has its own values, also in YOPP_ARGS. The values replace {} in the command, or are
    appended to it. {1} is the value of the first source, {.} a value without its extension, {/} without its directory,
    {//} its directory, {/.} its base name, {#} the task's number (without values it stays as it is). Several ::: make
    all combinations; :::+ is paired with the source before it; :::: names a file of values, or alone a file of
    commands, as --from does. Nothing runs if a task has no program, or more arguments than Linux accepts.
    """
    from .console import Display
    from .running import client_of, start

    containers.check()
    kept.check(detach=detach, piped=program.pipe)
    words = with_values(program.env or [])
    check_text([*(program.command or ()), program.lines or ""], "the argument")
    application.check(session.now_ms)
    environment, directory = assignments(words), None
    if application.user:
        environment, directory = surroundings_of(application.user, words, program.cwd)
        if not session.run_dir.daemons():  # A running cluster may have other directories.
            from ...cluster.doctor.users import refuse_user

            refuse_user(application.user, session.configuration, session.run_dir)
        if program.stdin is not None or program.pipe:
            raise UsageError(
                "--user excludes --stdin and --pipe",
                because="the input is stored in files that other users cannot read",
                hint="name a file in the command that this user can read",
            )
    elif session.yarn is None:
        environment, directory = surroundings(words, program.cwd, session.printer)
    tasks = program.tasks(containers.count, environment, directory)
    if not program.shell and (tasks.sweep is not None or not SHELLS_WORDS.isdisjoint(tasks.command)):
        from .sweep import without_a_shell

        if told := without_a_shell(tasks):
            session.printer.warn(told)
    program.check_input()
    tasks, all_of_them = kept.left(tasks), any(tasks.numbers)
    if application.max_running and tasks.max_running:
        raise UsageError.exclusive("--max-running and the % of --array", "both limit the running containers")
    if not any(tasks.numbers):
        why = f"{kept.joblog} already contains all tasks" if all_of_them else "no values were given"
        session.printer.note(f"there is nothing to run: {why}")
        return 0

    def submit(given: Tasks) -> int:
        client = client_of(session, 0 if application.begins_later else application.timeout_ms)
        given = kept.written(given, directory)
        planned = _planned(session, client, given, containers, application, environment, directory)
        shown = Display(
            stream=not (session.printer.ids_only or session.printer.is_json),
            prefixed=planned.size > 1 and not no_prefix,
            elsewhere=kept.results is not None,
            in_order=keep_order,
        )
        submission = application.context(session, client, planned.name, words)
        submission = replace(submission, results=given.results)
        more: dict[str, Any] = {}
        if application.on_end is not None:
            from .on_end import on_end

            follows = on_end(application.on_end, client, session.printer, submission, environment, directory)
            more["submitted"] = follows
        if kept.joblog is None or session.dry_run:
            return start(session, client, planned, submission, shown, detach=detach, **more)
        with kept.log(tasks) as log:
            return start(session, client, planned, submission, replace(shown, log=log), detach=detach, **more)

    inner = tasks  # The job log has the command as it was typed.
    if program.stdin is not None or program.pipe or kept.results is not None:
        inner, environment = past_shells(tasks, environment)
    if program.stdin is None and not program.pipe:
        code = submit(inner)
        program.check_input(session.printer)
        return code
    from .inputs import fed

    with fed(inner, program.stdin, program.pieces(detach=detach), directory or "", session.run_dir) as given:
        return submit(given)


def _planned(
    session: Session,
    client: "JobClient | YarnJobs",
    tasks: Tasks,
    containers: RunContainers,
    application: RunApplication,
    environment: Mapping[str, str],
    directory: str | None,
) -> JobSpec:
    return plan_run(
        tasks.command,
        containers.task(session, client),
        sweep=tasks.sweep,
        numbers=tasks.numbers,
        max_running=application.max_running or tasks.max_running,
        halt=None if application.halt is None else halt_of(application.halt, sum(map(len, tasks.numbers))),
        name=application.name or (tasks.name if session.yarn is None else " ".join(tasks.command)[:60]),
        environment=environment,
        working_directory=directory,
        node=containers.node if session.dry_run else client.find_node(containers.node),
        promote=containers.promote,
        retries=containers.retries,
        timeout_ms=application.timeout_ms,
        container_timeout_ms=round((containers.container_timeout or 0) * 1000),
        max_preemptions=client.settings.max_preemptions,
        exit_rule=application.exit_code.value,
        umask=-1 if application.user else started.umask(),
    )


def halt_of(text: str, total: int) -> Halt:
    """When a job of this many tasks halts: ``soon,fail=1``, ``now,fail=10%`` (at least one task). Raises
    UsageError."""
    when, _, number = text.partition(",fail=")
    digits = number.removesuffix("%")
    possible = digits.isdecimal() and 0 < int(digits[:10]) <= (100 if number.endswith("%") else 999_999_999)
    if when not in ("now", "soon") or not possible:
        raise UsageError(
            f"--halt {text} is not a condition",
            because="it has now or soon, and a number or a percentage of failed tasks",
            hint="--halt soon,fail=1, or --halt now,fail=10%",
        )
    failures = max(1, -(-total * int(digits) // 100)) if number.endswith("%") else int(digits)
    return Halt(failures, when == "now")


def parents(session: Session, after: list[str]) -> tuple[str, ...]:
    """The applications of ``--after`` by their full ids, each with its condition. Raises YoppError."""
    from ..frame.naming import applications

    found: list[str] = []
    for word in after:
        named, _, condition = word.rpartition(":")
        if condition not in AFTER or not named:
            named, condition = word, "ok"
        try:
            found += [f"{one}:{condition}" for one in applications(session.client, [named])]
        except ApplicationNotFoundError:
            before, colon, behind = word.rpartition(":")
            if not colon or behind in AFTER or not before:
                raise
            raise UsageError(
                f"--after {word}: {behind!r} is not a condition",
                because="it is ok (the job has succeeded, the default), failed, or any (it has ended)",
                hint=f"--after {before}:failed",
            ) from None
    return tuple(dict.fromkeys(found))
