"""``yopp wait``: waits for applications and containers, and returns their exit code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from executor.hints import TYPE_CHECKING
from executor.light import replace
from executor.records import ContainerState

from ...errors import EXIT_TIMEOUT, ConnectionFailedError, TimedOutError, UsageError, YoppError, one_line
from ...records.client_protocol import GetContainersRequest, KillApplicationRequest
from ...records.reports import (
    FINAL_STATES,
    LIVE_STATES,
    ApplicationReport,
    ContainerReport,
    YarnApplicationState,
    has_reached,
)
from ...views import applications as app_view
from ...views import containers as container_view
from ..frame.actions import polled
from ..frame.command import command
from ..frame.ended import here_or_ended
from ..frame.naming import by_names, is_container, jobs, words
from ..frame.options import HERE_ONLY, Annotated, ExitCode, ExitRule, JobIds, Timeout, Words, option
from ..frame.output import Printer
from ..frame.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...client.protocol import Client
    from ...records.jobs import JobSpec

HOLD_SECONDS = 30.0
"""Seconds for which the ResourceManager may hold the answer of one call."""
OUT_OF_TIME = "Killed by `yopp wait --kill`: it had not ended when --timeout expired."
_CONTAINER_ORDER = ("ALLOCATED", "QUEUED", "LAUNCHING", "RUNNING")
_ENDS = ("DONE", "FINISHED", "FAILED", "KILLED")
_ORDER = tuple(dict.fromkeys((*LIVE_STATES[:4], *_CONTAINER_ORDER)))
Any = Annotated[bool, option("--any", "Wait for any one of them, not for all.")]
For = Annotated[
    str | None,
    option("--for STATE", "Wait for this state or a later one, instead of the end."),
    Words(lambda: (*_ORDER, *_ENDS)),
]
Kill = Annotated[bool, option("--kill", "When --timeout expires, kill those that have not ended.")]
JobLog = Annotated[
    str | None,
    option(
        "--joblog FILE",
        "At the end, write a line for each task of a job that has ended, as run --joblog does.",
    ),
    HERE_ONLY,
]


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of an application or container that is waited for. ``code`` is None until it has ended."""

    id: str
    state: str
    final: str
    code: int | None
    reached: bool
    why: str = ""
    ended_ms: int = 0


@command("wait", "yopp wait last && echo all well", "yopp wait 3 4 --any --timeout 5m", yarn=True)
def wait(
    session: Session,
    ids: JobIds,
    any_of_them: Any = False,
    state: For = None,
    exit_code: ExitCode = ExitRule.highest,
    timeout: Timeout = None,
    kill: Kill = False,
    joblog: JobLog = None,
) -> int:
    """Wait until applications or containers have ended, and exit with their exit code (of several the
    highest, or as --exit-code selects).

    Ctrl-C only stops waiting. With --for, the exit code is 0 once the state is reached. When --timeout
    expires, it is 124; with --json, a document then shows the states reached. Without --kill, they keep running.
    Jobs of clusters that have ended are found too.
    """
    if kill and timeout is None:
        raise UsageError(
            "--kill needs --timeout",
            because="it kills those that have not ended by then",
            hint="`yopp wait last --timeout 5m --kill`, or `yopp app kill last` now",
        )
    printer, target = session.printer, target_of(state)
    named, ask = words(ids), partial(_known, session)
    known, histories = here_or_ended(session, named, ask) if joblog is None else (ask(named), [])
    for one in histories:
        if one.application.state not in FINAL_STATES:
            raise _not_ended(one.application)
    kept = [_application(one.application, _states(target)) for one in histories]
    if not known and kept:
        return _tell(session, kept, kept, target, exit_code)
    client = session.cluster
    some = [one for one in known if is_container(one)]
    apps = [one for one in known if one not in some]
    if joblog is not None and (some or len(apps) != 1 or target):
        raise UsageError(
            "--joblog is for one job and its end",
            because="a second job would overwrite the file",
            hint="`yopp wait ID --joblog FILE` for each",
        )
    if joblog is not None:
        _logged(session, apps[0])
    session.be_patient()

    def look(left: float) -> list[Seen]:
        hold = 0.0 if some else min(left, HOLD_SECONDS)
        seen = [_container(client.container(one), target) for one in some]
        return kept + (_applications(client, apps, target, any_of_them, hold) if apps else []) + seen

    enough = any if any_of_them else all
    seen = polled(look, lambda every: enough(one.reached for one in every), timeout)
    missing = [one for one in seen if not one.reached]
    done = [one for one in seen if one.reached]
    if not seen:
        printer.note("no application is running: there is nothing to wait for")
    if missing and not (any_of_them and done):
        if kill:
            _kill(session, [one.id for one in missing])
        if not printer.for_people and not printer.quiet:  # The states reached so far are an answer, too.
            print_seen(printer, seen, EXIT_TIMEOUT)
        raise _out_of_time(missing, f"reach {target}" if target else "end", timeout, killed=kill)
    if joblog is not None:
        _write_log(session, apps[0], joblog)
    return _tell(session, seen, done, target, exit_code)


def _tell(session: Session, seen: list[Seen], done: list[Seen], target: str, rule: ExitRule) -> int:
    code = code_of(done, target, rule)
    print_seen(session.printer, seen, code)
    return code


def _not_ended(report: ApplicationReport) -> YoppError:
    return ConnectionFailedError(
        f"{report.application_id} has not ended",
        because=f"it was {report.state.value} when its cluster stopped",
        hint="`yopp up` continues stored applications; `yopp status` shows their number",
    )


def _known(session: Session, named: Sequence[str]) -> list[str]:
    """The full ids of the applications and containers that the cluster knows. Raises as ``jobs``, and UsageError for
    containers of YARN."""
    client = session.cluster
    named = by_names(client, named)
    of_containers = [one for one in named if is_container(one)]
    if session.yarn is not None and of_containers:
        raise UsageError(
            f"cannot wait for {of_containers[0]}",
            because="YARN forgets containers and their exit codes when they end",
            hint="wait for its application",
        )
    apps, some = jobs(client, named)
    for one in apps:
        client.application(one)  # An unknown application is an error now, not at the end.
    return apps + some


def _logged(session: Session, application_id: str) -> tuple[JobSpec, Sequence[int]]:
    """A job whose log can be written, and the numbers of its tasks that succeeded. Raises YoppError."""
    from .rerun import known

    found = known(session, application_id)
    if found.job is None or found.job.pi is not None:
        raise UsageError(
            f"{application_id} has no job log",
            because="it is a `pi` job, whose maps and reduce have the same numbers",
            hint=f"`yopp ps -a --app {application_id}`",
        )
    return found.job, found.good()


def _write_log(session: Session, application_id: str, path: str) -> None:
    from ..looking.report import find
    from .joblog import containers_in, write_afterwards
    from .rerun import numbers_by_master

    job, good = _logged(session, application_id)
    ended = list(session.client.containers(GetContainersRequest(application_id, finished=True)))
    known = {one.container_id for one in ended}
    # After a restart, the RM knows ended containers only by their events, and their tasks only for a hosted master.
    ended += [one for one in containers_in(find(session, application_id)) if one.container_id not in known]
    if any(one.task is None for one in ended):
        numbers = numbers_by_master(session, application_id, len(job.phases) - 1)
        ended = [
            replace(one, task=numbers.get(one.container_id)) if one.task is None else one for one in ended
        ]
    if lacks := write_afterwards(path, job, good, ended):
        session.printer.warn(
            f"{path} lacks {lacks} tasks: the ResourceManager no longer knows their containers"
        )


def _out_of_time(missing: list[Seen], what: str, seconds: float | None, *, killed: bool) -> YoppError:
    ids, is_or_was = [one.id for one in missing], "was" if killed else "is"
    done = f", and {'was' if len(ids) == 1 else 'were'} killed" if killed else ""
    return TimedOutError(
        f"{', '.join(ids)} did not {what} within {seconds:g} s{done}",
        because=", ".join(f"{one.id} {is_or_was} {one.state}" for one in missing),
        hint=f"yopp logs {ids[0]}" if killed else f"`yopp wait {ids[0]}` waits again; --kill ends it",
    )


def target_of(state: str | None) -> str:
    """The state to wait for, "" for the end. Raises UsageError."""
    if state is None:
        return ""
    word = state.upper()
    word = "QUEUED" if word == "SCHEDULED" else word
    if word not in _ORDER and word not in _ENDS:
        raise UsageError(
            f"--for does not take {state}",
            because="neither applications nor containers have that state",
            hint="choose from " + ", ".join((*_ORDER, *_ENDS)),
        )
    return word


def code_of(done: list[Seen], target: str, rule: ExitRule) -> int:
    """The exit code of the failed ones, by the rule; with a target other than the end, 0; at least 1 if one ended in
    another state than the target."""
    if target in _ORDER:
        return 0
    failed = [(one.ended_ms, one.code) for one in done if one.code]
    if target in ("FAILED", "KILLED"):
        failed = [(one.ended_ms, one.code or 1) for one in done if target not in (one.state, one.final)]
    if not failed:
        return 0
    if rule is ExitRule.any:
        return 1
    return min(failed)[1] if rule is ExitRule.first else max(code for _, code in failed)


def _kill(session: Session, named: list[str]) -> None:
    """Kill the applications and containers that have not ended."""
    for one in named:
        if is_container(one):
            session.client.stop_container(session.client.container(one), OUT_OF_TIME)
        else:
            session.cluster.change(KillApplicationRequest(one, OUT_OF_TIME))


def _applications(
    client: Client, named: list[str], target: str, any_of_them: bool, hold: float
) -> list[Seen]:
    states = _states(target)
    response = client.wait_for_applications(named, states=states, any_of_them=any_of_them, wait=hold)
    by_id = {report.application_id: report for report in response.applications}
    return [_application(by_id[one], states) for one in named if one in by_id]


def _states(target: str) -> tuple[YarnApplicationState, ...]:
    """The application states of ``target``, none for the end."""
    if target not in _ORDER:
        return ()
    # A state of containers: an application with containers is RUNNING.
    return (YarnApplicationState(target if target in LIVE_STATES else "RUNNING"),)


def _application(report: ApplicationReport, states: tuple[YarnApplicationState, ...]) -> Seen:
    ended = report.state in FINAL_STATES
    return Seen(
        report.application_id,
        report.state.value,
        report.final_status.value,
        app_view.exit_code(report),
        has_reached(report.state, states),
        one_line(app_view.diagnostics_text(report)) if ended else "",
        report.finished_at_ms,
    )


def _container(report: ContainerReport, target: str) -> Seen:
    ended = report.state is ContainerState.DONE
    shown = container_view.shown_state(report)
    reached = ended
    if target in _ORDER and not ended:
        wanted = target if target in _CONTAINER_ORDER else "ALLOCATED"
        place = _CONTAINER_ORDER.index(shown) if shown in _CONTAINER_ORDER else len(_CONTAINER_ORDER)
        reached = place >= _CONTAINER_ORDER.index(wanted)
    code = container_view.shell_code(report)
    final = "" if code is None else "FAILED" if code else "SUCCEEDED"
    why = one_line(report.diagnostics) if ended else ""
    return Seen(report.container_id, shown, final, code, reached, why, report.finished_at_ms)


def print_seen(printer: Printer, seen: list[Seen], code: int) -> None:
    """Print the end or the reached state of each."""
    keys = ("id", "state", "finalStatus", "exit")
    rows = [(one.id, one.state, one.final or "UNDEFINED", one.code) for one in seen]
    if printer.quiet:
        return
    printer.answer(
        {
            "wait": [
                dict(zip(keys, row, strict=True), diagnostics=one.why)
                for row, one in zip(rows, seen, strict=True)
            ],
            "exit": code,
        },
        "\n".join(_line(one) for one in seen),
        ids=[one.id for one in seen if one.reached],
        table=(keys, [["-" if value is None else str(value) for value in row] for row in rows]),
    )
    for one in seen if printer.for_people else ():
        if one.why:
            printer.note(f"{one.id}: {one.why}")


def _line(one: Seen) -> str:
    final = f" {one.final}" if one.code is not None and one.final != one.state else ""
    return f"{one.id} {one.state}{final}" + (f", exit {one.code}" if one.code is not None else "")
