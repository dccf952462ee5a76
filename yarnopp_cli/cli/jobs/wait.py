"""``yopp wait``: wait for applications and containers, and end with their exit code."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from executor.records import ContainerState

from ...errors import EXIT_TIMEOUT, UsageError, YoppError
from ...records.reports import FINAL_STATES, ApplicationReport, ContainerReport, YarnApplicationState
from ...views import applications as app_view
from ...views import containers as container_view
from ..frame.context import Context
from ..frame.naming import applications, containers, is_container, words
from ..frame.options import (
    Color,
    Conf,
    Define,
    ExitCode,
    ExitRule,
    Ids,
    Json,
    Output,
    Quiet,
    RunDirOption,
    Timeout,
    Verbose,
    examples,
)
from ..frame.output import Printer

if TYPE_CHECKING:
    from ...client.local import YarnClient

HOLD_SECONDS = 30.0
"""How long one call lets the ResourceManager hold its answer."""
OUT_OF_TIME = "Killed: it had not got there when the time of `yopp wait --timeout --kill` had passed."
_SLOWEST_POLL = 0.25
_APP_ORDER = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")
_CONTAINER_ORDER = ("ALLOCATED", "QUEUED", "LAUNCHING", "RUNNING")
_ENDS = ("DONE", "FINISHED", "FAILED", "KILLED")
_ORDER = tuple(dict.fromkeys((*_APP_ORDER[:4], *_CONTAINER_ORDER)))


def register(app: typer.Typer) -> None:
    """Add ``wait``."""
    app.command(
        "wait", epilog=examples("yopp wait last && echo all well", "yopp wait 3 4 --any --timeout 5m")
    )(wait)


@dataclass(frozen=True, slots=True)
class Seen:
    """One thing that is waited for, as it is now. ``code`` None while it lives."""

    id: str
    state: str
    final: str
    code: int | None
    reached: bool
    why: str = ""
    ended_ms: int = 0


def wait(
    ids: Ids,
    any_of_them: Annotated[bool, typer.Option("--any", help="Until one of them is there, not all.")] = False,
    state: Annotated[
        str | None,
        typer.Option("--for", metavar="STATE", help="Until this state, or a later one; else until the end."),
    ] = None,
    exit_code: ExitCode = ExitRule.highest,
    timeout: Timeout = None,
    kill: Annotated[
        bool, typer.Option("--kill", help="When the time of --timeout has passed, kill what is not there.")
    ] = False,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
) -> int:
    """Wait until applications or containers have ended, and end with their exit code (of several the highest, or as
    --exit-code says).

    Ctrl-C only stops waiting. With --for the code is 0 once the state is reached; --timeout ends with 124, with
    --json after a document of how far they have come. They go on then, unless --kill is given.
    """
    if kill and timeout is None:
        raise UsageError(
            "--kill goes with --timeout only",
            because="it kills what is not there by then",
            hint="`yopp wait last --timeout 5m --kill`, or `yopp app kill last` now",
        )
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    target = target_of(state)
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        named = words(ids)
        of_containers = [one for one in named if is_container(one)]
        of_applications = [one for one in named if one not in of_containers]
        some_apps = applications(client, of_applications) if of_applications else []
        some_containers = containers(client, of_containers) if of_containers else []
        waiting = _Waiting(client, some_apps, some_containers, any_of_them, target)
        seen = waiting.until(None if timeout is None else time.monotonic() + timeout)
        there = [one for one in seen if one.reached]
        if kill and not (there if any_of_them else len(there) == len(seen)):
            waiting.kill([one.id for one in seen if not one.reached])
    if not seen:
        printer.note("nothing lives: there is nothing to wait for")
    done = [one for one in seen if one.reached]
    if seen and not (any(one.reached for one in seen) if any_of_them else len(done) == len(seen)):
        if not printer.for_people and not quiet:  # how far they have come is an answer, too
            print_seen(printer, seen, EXIT_TIMEOUT)
        missing = [one.id for one in seen if not one.reached]
        raise YoppError(
            f"{', '.join(missing)} did not get there within {timeout:g} s",
            because=", ".join(f"{one.id} is {one.state}" for one in seen if not one.reached),
            hint="killed, as --kill says: `yopp logs` shows how far it came"
            if kill
            else "it goes on; `yopp wait` again, or --kill",
            exit_code=EXIT_TIMEOUT,
        )
    code = code_of(done, target, exit_code)
    print_seen(printer, seen, code)
    return code


def target_of(state: str | None) -> str:
    """The state waited for, "" for the end. Raises UsageError."""
    if state is None:
        return ""
    word = state.upper()
    word = "QUEUED" if word == "SCHEDULED" else word
    if word not in _ORDER and word not in _ENDS:
        raise UsageError(
            f"--for has no {state}",
            because="no such state is known",
            hint="choose from " + ", ".join((*_ORDER, *_ENDS)),
        )
    return word


def code_of(done: list[Seen], target: str, rule: ExitRule) -> int:
    """The code of those that failed, by the rule; with a target that is no end 0; at least 1 where one ended otherwise
    than was waited for."""
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


class _Waiting:
    """The wait for some applications (the RM holds the answer) and containers (their state is asked for)."""

    def __init__(
        self,
        client: YarnClient,
        app_ids: list[str],
        container_ids: list[str],
        any_of_them: bool,
        target: str,
    ) -> None:
        self._client = client
        self._apps = app_ids
        self._containers = container_ids
        self._any = any_of_them
        self._target = target

    def until(self, deadline: float | None) -> list[Seen]:
        """What is waited for, as it is when it is there or the time has passed. Raises
        ApplicationNotFoundError.
        """
        for one in self._apps:
            self._client.application(one)
        pause = 0.01
        while True:
            remaining = HOLD_SECONDS if deadline is None else max(0.0, deadline - time.monotonic())
            hold = 0.0 if self._containers else min(remaining, HOLD_SECONDS)
            seen = [
                *self._see_apps(hold),
                *(self._container(self._client.container(one)) for one in self._containers),
            ]
            if any(one.reached for one in seen) if self._any else all(one.reached for one in seen):
                return seen
            if deadline is not None and time.monotonic() >= deadline:
                return seen
            if self._containers:
                time.sleep(min(pause, remaining))
                pause = min(pause * 1.5, _SLOWEST_POLL)

    def kill(self, named: list[str]) -> None:
        """End those; what has ended meanwhile is left as it is."""
        for one in named:
            if one in self._apps:
                self._client.kill_application(one, OUT_OF_TIME)
            else:
                self._client.stop_container(self._client.container(one), OUT_OF_TIME)

    def _see_apps(self, hold: float) -> list[Seen]:
        if not self._apps:
            return []
        states: tuple[YarnApplicationState, ...] = ()
        if self._target in _APP_ORDER:
            states = (YarnApplicationState(self._target),)
        elif self._target in _ORDER:  # a container's word: an application with containers runs
            states = (YarnApplicationState.RUNNING,)
        response = self._client.wait_for_applications(
            self._apps, states=states, any_of_them=self._any, wait=hold
        )
        by_id = {report.application_id: report for report in response.applications}
        return [self._app(by_id[one], states) for one in self._apps if one in by_id]

    def _app(self, report: ApplicationReport, states: tuple[YarnApplicationState, ...]) -> Seen:
        ended = report.state in FINAL_STATES
        reached = ended
        if states and not ended:
            reached = _APP_ORDER.index(report.state.value) >= _APP_ORDER.index(states[0].value)
        return Seen(
            report.application_id,
            report.state.value,
            report.final_status.value,
            app_view.exit_code(report),
            reached,
            " ".join(report.diagnostics.split()) if ended else "",
            report.finished_at_ms,
        )

    def _container(self, report: ContainerReport) -> Seen:
        ended = report.state is ContainerState.DONE
        shown = container_view.shown_state(report)
        reached = ended
        if self._target in _ORDER and not ended:
            target = self._target if self._target in _CONTAINER_ORDER else "ALLOCATED"
            place = _CONTAINER_ORDER.index(shown) if shown in _CONTAINER_ORDER else len(_CONTAINER_ORDER)
            reached = place >= _CONTAINER_ORDER.index(target)
        code = container_view.shell_code(report)
        return Seen(
            report.container_id,
            shown,
            "" if code is None else _final(code),
            code,
            reached,
            "",
            report.finished_at_ms,
        )


def _final(code: int) -> str:
    return "SUCCEEDED" if code == 0 else "FAILED"


def print_seen(printer: Printer, seen: list[Seen], code: int) -> None:
    """Print how each of those waited for ended, or how far it got."""
    documents: list[dict[str, Any]] = [
        {"id": one.id, "state": one.state, "finalStatus": one.final or "UNDEFINED", "exit": one.code}
        for one in seen
    ]
    if printer.is_json:
        printer.document({"wait": documents, "exit": code})
        return
    if printer.quiet:
        return
    if printer.form == "name":
        printer.ids(one.id for one in seen if one.reached)
        return
    if printer.form == "tsv":
        printer.separated(
            ("id", "state", "finalStatus", "exit"),
            ([str("-" if value is None else value) for value in one.values()] for one in documents),
        )
        return
    for one in seen:
        told = f"{one.id} {one.state}"
        if one.code is not None:
            told += (
                f" {one.final}, exit {one.code}"
                if one.final and one.final != one.state
                else f", exit {one.code}"
            )
        printer.text(told)
        if one.code and one.why:
            printer.note(f"{one.id}: {one.why}")
