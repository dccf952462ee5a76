"""Jobs on a YARN cluster: Hadoop's own distributed shell submitted over REST, and ``pi`` by the ``hadoop`` on PATH."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shlex
import shutil
import signal
import subprocess
import time

from executor.records import ExecutionType, Resource

from ...client.choice import ENGINE_VARIABLE, LOCAL, RM_VARIABLE
from ...client.shell import ShellJob, body
from ...client.yarn import YarnRestClient, polls
from ...errors import EXIT_INTERRUPTED, EXIT_NOT_FOUND, EXIT_TIMEOUT, UsageError, YoppError
from ...jobs.commands import check_text
from ...masters import distributedshell as shell
from ...masters import pi as masters_pi
from ...records.reports import FINAL_STATES, ApplicationReport
from ...views import applications as view
from ..frame.output import Printer
from ..frame.session import print_raw
from ..looking.application import KILL_SECONDS
from ..remote import Values
from .dshell import (
    DEFAULT_TIMEOUT_MS,
    container_size,
    error_codes,
    execution_kind,
    in_hadoops_codes,
    master_size,
)
from .pi import PERCENT
from .run import assignments, both_types, check_counts, tags

_NO_ID = "application_0_0000"
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
EXAMPLES = "share/hadoop/mapreduce/hadoop-mapreduce-examples-*.jar"


def run(engine: YarnRestClient, printer: Printer, values: Values) -> int:
    """``yopp run``: the words reach each container as they are; its number is in YARN_SHELL_ID."""
    if values["opportunistic"] and values["guaranteed"]:
        raise both_types()
    memory, vcores, retries = values["memory"], values["vcores"], values["retries"]
    check_counts(values["count"], vcores, memory)
    if retries < 0:
        raise UsageError(
            f"--retries {retries} is negative",
            because="it says how often a failing container is run again",
            hint="--retries 3",
        )
    check_text(values["command"], "the argument")
    check_text([values["name"]], "the name")
    job = ShellJob(
        argv=tuple(values["command"]),
        environment=assignments(values["env"] or []),
        containers=values["count"],
        execution_type=ExecutionType.OPPORTUNISTIC if values["opportunistic"] else ExecutionType.GUARANTEED,
        resource=Resource(512 if memory is None else memory, 1 if vcores is None else vcores),
        container_priority=values["priority"],
        promote=values["promote"],
        enforce=values["enforce"],
        retry_policy=1 if retries else 0,
        max_retries=retries,
        name=values["name"] or " ".join(values["command"])[:60],
        queue=values["queue"],
        tags=tags(values["tag"]),
    )
    return _submit(
        engine, printer, job, values["timeout"], detach=values["detach"], dry_run=values["dry_run"]
    )


def dshell(engine: YarnRestClient, printer: Printer, values: Values) -> int:
    """``yopp dshell``: the options of YARN's client that need no upload."""
    return in_hadoops_codes(lambda: _dshell(engine, printer, values))


def _dshell(engine: YarnRestClient, printer: Printer, values: Values) -> int:
    argv = tuple(values["argv"] or ())
    shell.check_one(bool(values["shell_command"]), False, bool(argv))
    arguments = tuple(values["shell_args"] or ())
    check_counts(values["count"], None, None)
    check_text([*argv, values["shell_command"], *arguments, values["appname"]], "the argument")
    if values["container_retry_policy"] not in (0, 1, 2):
        raise UsageError(
            f"no retry policy {values['container_retry_policy']}",
            because="there are 0, 1 and 2",
            hint="1: any error",
        )
    job = ShellJob(
        line=values["shell_command"],
        argv=argv,
        arguments=arguments,
        environment=assignments(list(values["shell_env"] or ())),
        containers=values["count"],
        execution_type=execution_kind(
            values["container_type"], values["opportunistic"], values["guaranteed"]
        ),
        resource=container_size(
            values["container_memory"], values["container_vcores"], values["container_resources"]
        ),
        container_priority=values["shell_cmd_priority"],
        promote=values["promote"],
        enforce=values["enforce"],
        retry_policy=values["container_retry_policy"],
        retry_error_codes=error_codes(values["container_retry_error_codes"]),
        max_retries=values["container_max_retries"],
        retry_interval_ms=max(0, values["container_retry_interval"]),
        keep_containers=values["keep_containers"],
        name=values["appname"],
        queue=values["queue"],
        priority=values["priority"],
        tags=tuple(filter(None, (tag.strip() for tag in values["application_tags"].split(",")))),
        node_label=values["node_label_expression"],
        master=master_size(values["master_memory"], values["master_vcores"], values["master_resources"])
        or ShellJob().master,
        debug=values["debug"],
    )
    timeout = max(0, values["timeout"]) / 1000 or None
    if values["detach"] and values["timeout"] == DEFAULT_TIMEOUT_MS:
        timeout = None  # the client's own patience, which a detached job does not need
    return _submit(engine, printer, job, timeout, detach=values["detach"], dry_run=values["dry_run"])


def _submit(
    engine: YarnRestClient,
    printer: Printer,
    job: ShellJob,
    timeout: float | None,
    *,
    detach: bool,
    dry_run: bool,
) -> int:
    if dry_run:
        document = body(job, _NO_ID)
        if printer.is_json:
            printer.document(document)
        else:
            printer.text(json.dumps(document, ensure_ascii=False, indent=2))
        printer.note("this would be submitted; whether it would wait, YARN's REST API does not say")
        return 0
    application_id = engine.submit(lambda given: body(job, given))
    if detach:
        if timeout is not None:
            engine.limit_lifetime(application_id, round((time.time() + timeout) * 1000))
        if printer.is_json:
            _print(engine, printer, engine.application(application_id))
        else:
            printer.text(application_id)
            printer.note(f"detached: `yopp wait {application_id}` waits for its end")
        return 0
    kind = job.execution_type.value.lower()
    printer.note(
        f"{application_id}  {job.containers} {kind} at {engine.rest.address}: "
        f"`yopp logs {application_id}` shows what its containers write, while it lives"
    )
    return _see_through(engine, printer, application_id, timeout)


def _see_through(engine: YarnRestClient, printer: Printer, application_id: str, timeout: float | None) -> int:
    """Wait for an application's end, and tell of it; Ctrl-C ends it."""
    begin = time.monotonic()
    teller = _Teller(printer)

    until = None if timeout is None else begin + timeout
    try:
        for _ in polls(until):
            report = engine.application(application_id)
            teller.tell(report)
            if report.state in FINAL_STATES:
                break
    except KeyboardInterrupt:
        return _interrupted(engine, printer, application_id)
    finally:
        printer.status_line("")
    if report.state not in FINAL_STATES:
        engine.kill_application(application_id)
        engine.wait_for_applications([application_id], wait=KILL_SECONDS)
        raise YoppError(
            f"{application_id} did not end within {timeout:g} s, and was killed",
            because=f"it was {report.state.value}",
            hint="a longer --timeout gives it more time",
            exit_code=EXIT_TIMEOUT,
        )
    code = view.exit_code(report) or 0
    if printer.is_json:
        _print(engine, printer, report)
    elif printer.quiet:
        printer.text(application_id)
    else:
        elapsed = time.monotonic() - begin
        printer.note(
            f"done in {elapsed:.1f} s: {report.state.value} {report.final_status.value}, exit {code}"
        )
        if code and report.diagnostics:
            printer.note(" ".join(report.diagnostics.split()))
    return code


def _print(engine: YarnRestClient, printer: Printer, report: ApplicationReport) -> None:
    """An application as its cluster told of it."""
    body = engine.body_of([report], single=True)
    assert body is not None, "it has just been asked for"
    print_raw(printer, body)


def _interrupted(engine: YarnRestClient, printer: Printer, application_id: str) -> int:
    """Ctrl-C: the application ends, too; a second one leaves it to itself."""
    try:
        printer.status_line("")
        printer.note(f"ending {application_id}; Ctrl-C again leaves it running")
        engine.kill_application(application_id)
        engine.wait_for_applications([application_id], wait=KILL_SECONDS)
    except KeyboardInterrupt:
        printer.note(f"left: `yopp app status {application_id}` says how it gets on")
    return EXIT_INTERRUPTED


class _Teller:
    """Progress on stderr: a line that changes at a terminal, a line for each change of state elsewhere."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._state = ""

    def tell(self, report: ApplicationReport) -> None:
        """Tell of an application as it is now."""
        state = report.state.value
        text = f"{report.application_id} {state}"
        if state == "RUNNING":
            text += f", {report.containers_running} containers, {100 * report.progress:.0f}%"
        if self._printer.progress:
            self._printer.status_line(text)
        elif state != self._state and report.state not in FINAL_STATES:
            self._printer.note(text)
        self._state = state


# -- pi --------------------------------------------------------------------------------------------------------


def pi(engine: YarnRestClient, printer: Printer, values: Values) -> int:
    """``yopp pi``: Hadoop's own example by Hadoop's own client, whose output and exit code these are."""
    masters_pi.check_size(values["maps"], values["samples"])
    if printer.is_json:
        raise UsageError(
            "pi on YARN has no --json",
            because="what it prints is Hadoop's own output",
            hint="leave --json away",
        )
    words = pi_words(values)
    hadoop = shutil.which("hadoop")
    jar = examples_jar(hadoop, os.environ) if hadoop else ""
    line = shlex.join(["hadoop", "jar", jar or f"$HADOOP_HOME/{EXAMPLES}", *words])
    if not jar:
        line = line.replace("'", "")
    if values["dry_run"]:
        printer.text(line)
        return 0
    if not hadoop or not jar:
        raise YoppError(
            "cannot run pi on YARN from here",
            because="there is no `hadoop` on PATH"
            if not hadoop
            else "the jar of Hadoop's examples is not beside it",
            hint=f"where Hadoop is installed: {line}",
            exit_code=EXIT_NOT_FOUND,
        )
    printer.note(line)
    environment = {name: value for name, value in os.environ.items() if name != RM_VARIABLE}
    environment[ENGINE_VARIABLE] = LOCAL  # a `hadoop` that leads back to yopp must not come back here
    return _in_a_directory_of_its_own(
        [os.path.abspath(hadoop), "jar", os.path.abspath(jar), *words], environment, printer
    )


def _in_a_directory_of_its_own(command: list[str], environment: dict[str, str], printer: Printer) -> int:
    """Run Hadoop's client; its exit code.

    Where the default file system is local, it makes QuasiMonteCarlo_* in its working directory, and leaves that there
    when it is interrupted. So it works in a directory below this one, which goes with all that it left.
    """
    place: str | None = None
    with contextlib.suppress(OSError):  # where nothing can be made, nothing can be left
        made = f"{os.getcwd()}/.yopp-pi-{os.getpid()}-{os.urandom(4).hex()}"
        os.mkdir(made)
        place = made
    left: list[str] = []
    try:
        process = subprocess.Popen(command, env=environment, cwd=place)
        # Ctrl-C reaches the client by itself; either way it ends in its own time
        kept = {
            number: signal.signal(number, lambda got, _: process.send_signal(got)) for number in _PASSED_ON
        }
        kept[signal.SIGINT] = signal.signal(signal.SIGINT, lambda *_: None)
        code = process.wait()
        for number, handler in kept.items():
            signal.signal(number, handler)
    finally:
        if place is not None:
            left = os.listdir(place)
            shutil.rmtree(place, ignore_errors=True)
    if left:
        printer.note(
            f"removed what Hadoop's client left: {', '.join(left)}; `yopp app list` shows whether its job runs"
        )
    return code if code >= 0 else 128 - code


def pi_words(values: Values) -> list[str]:
    """What follows the jar: ``pi``, the properties that are not yopp's own, and the two numbers."""
    defines = [one for one in values.get("define") or () if not one.startswith("yopp.")]
    if values["percent"] is not None:
        defines.append(f"{PERCENT}={values['percent']}")
    return ["pi", *(f"-D{one}" for one in defines), str(values["maps"]), str(values["samples"])]


def examples_jar(hadoop: str, environ: dict[str, str] | os._Environ[str]) -> str:
    """The jar of Hadoop's examples beside a ``hadoop``, "" where it is not found."""
    homes = [environ.get(name, "") for name in ("HADOOP_MAPRED_HOME", "HADOOP_HOME")]
    homes.append(os.path.dirname(os.path.dirname(os.path.realpath(hadoop))))
    for home in filter(None, homes):
        if found := sorted(glob.glob(os.path.join(glob.escape(home), EXAMPLES))):
            return found[-1]
    return ""
