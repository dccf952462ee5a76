"""``yopp app list|status|kill``, and those of ``application_changes``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from executor.records import ExecutionType

from ...errors import EXIT_TIMEOUT, UsageError, YoppError
from ...records.client_protocol import GetApplicationsRequest
from ...records.reports import FINAL_STATES, ApplicationReport, YarnApplicationState
from ...views import applications as view
from ...views.text import harmless
from ..frame.context import Context
from ..frame.filters import QueueFilter, UserFilter, applications_on, comma_words, node_id, queues_below
from ..frame.listing import Documents, chosen, empty_text, repeat, show, words_of
from ..frame.naming import agreed, applications, words
from ..frame.options import (
    Color,
    Columns,
    Conf,
    Define,
    DryRun,
    Ids,
    Json,
    Newest,
    NoWait,
    Output,
    Quiet,
    RunDirOption,
    Sort,
    Timeout,
    Verbose,
    Watch,
    Yes,
    examples,
    new_typer,
)
from ..frame.output import Printer

if TYPE_CHECKING:
    from ...client.local import YarnClient

_STATES = ("ALL", *(state.value for state in YarnApplicationState))
KILL_SECONDS = 20.0


def register(app: typer.Typer) -> None:
    """Add the group ``app``."""
    group = new_typer(
        help="List, show, kill and move applications.",
        no_args_is_help=True,
        epilog=examples("yopp app list", "yopp app kill last"),
    )
    group.command("list", epilog=examples("yopp app list -a", "yopp app list -a --state FAILED,KILLED -q"))(
        list_applications
    )
    group.command("status", epilog=examples("yopp app status last", "yopp app status 3 --json"))(status)
    group.command("kill", epilog=examples("yopp app kill last", "yopp app list -q | yopp app kill -"))(kill)
    from .application_changes import register as register_changes

    register_changes(group)
    app.add_typer(group, name="app")


def now_ms() -> int:
    """The time of day, in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def _listed(
    client: YarnClient,
    request: GetApplicationsRequest,
    passes: Callable[[ApplicationReport], bool],
    limit: int | None,
) -> list[ApplicationReport]:
    found = [one for one in client.applications(request) if passes(one)]
    return found[len(found) - limit :] if limit is not None and limit < len(found) else found


def list_applications(
    every: Annotated[bool, typer.Option("-a", "--all", help="Ended applications too.")] = False,
    state: Annotated[
        str | None, typer.Option("--state", metavar="S,…", help="Only in these states (implies -a).")
    ] = None,
    kind: Annotated[str | None, typer.Option("--type", metavar="T,…", help="Only of these types.")] = None,
    tag: Annotated[
        str | None, typer.Option("--tag", metavar="T,…", help="Only with one of these tags.")
    ] = None,
    user: UserFilter = "",
    queue: QueueFilter = "",
    node: Annotated[
        str | None, typer.Option("--node", metavar="NODE", help="Only with containers on this node.")
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Only with this name.")] = "",
    sort: Sort = None,
    columns: Columns = None,
    limit: Newest = None,
    watch: Watch = None,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
) -> None:
    """List the applications that live, in order of submission."""
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    choice = chosen(printer, view.columns(0), columns=columns, sort=sort, limit=limit)
    states = words_of(state, _STATES, "--state")
    named = () if "ALL" in states else tuple(YarnApplicationState(one) for one in states)
    request = GetApplicationsRequest(
        states=named,
        application_types=comma_words(kind),
        tags=comma_words(tag),
        user=user,
        name=name,
        live_only=not (every or states),
    )
    context = Context.looking(conf=conf, define=define, run_dir=run_dir)
    with context.client(printer) as client:
        there: frozenset[str] = frozenset()
        queues = queues_below(client, queue) if queue else None
        on = node_id(client, node)
        _check_types(client, request.application_types)

        def passes(report: ApplicationReport) -> bool:
            return (queues is None or report.queue in queues) and (not on or report.application_id in there)

        def once() -> None:
            nonlocal there
            now = now_ms()
            there = applications_on(client, on, ended_too=not request.live_only) if on else frozenset()
            show(
                printer,
                _listed(client, request, passes, None if sort else limit),
                view.columns(now),
                Documents(lambda apps: view.documents(apps, now), lambda app: view.document(app, now)),
                choice,
                identity=lambda app: app.application_id,
                empty=empty_text(
                    "applications",
                    choice,
                    narrowed=bool(states or kind or tag or user or queue or node or name),
                    live_only=request.live_only,
                ),
            )

        repeat(printer, watch, once)


def _check_types(client: YarnClient, wanted: tuple[str, ...]) -> None:
    """Raises UsageError for the type of an execution where no application is of a type of that name."""
    for word in wanted:
        if any(one.value.startswith(word.upper()) for one in ExecutionType):
            known = sorted({one.application_type for one in client.applications()})
            if word.upper() not in (one.upper() for one in known):
                raise UsageError(
                    f"--type has no {harmless(word)}",
                    because="--type of applications is YARN's applicationType, not the type of an execution",
                    hint=f"{', '.join(known) or 'YARN, MAPREDUCE'}; `yopp ps --type {word}` lists containers",
                )


def status(
    ids: Ids,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
) -> None:
    """Show everything that is known of an application."""
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        found = [client.application(one) for one in applications(client, ids)]
    _details(printer, found)


def _details(
    printer: Printer,
    found: list[ApplicationReport],
    answer: Callable[[ApplicationReport], Mapping[str, Any]] | None = None,
) -> None:
    now = now_ms()
    printer.details(
        found,
        key="app",
        document=lambda app: view.document(app, now),
        fields=lambda app: view.fields(app, now),
        columns=view.columns(now),
        identity=lambda app: app.application_id,
        answer=answer,
    )


def kill(
    ids: Ids,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    timeout: Timeout = None,
    yes: Yes = False,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
) -> int:
    """End applications and their containers; return when that has happened. `all` means every live one."""
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    bound = KILL_SECONDS if timeout is None else timeout
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        given = words(ids)
        named = applications(client, given)
        if not agreed(printer, given, named, "Kill", yes=yes or dry_run, what="live application"):
            return 1
        before = {one: client.application(one) for one in named}
        if dry_run:
            would = [before[one] for one in named if before[one].state not in FINAL_STATES]
            if printer.for_people:
                for report in would:
                    printer.text(f"{report.application_id} would be killed: {view.counts_text(report)}")
                printer.note(f"{len(would)} of {len(named)} live; nothing was changed")
            else:
                _details(printer, would)
            return 0
        for one in named:
            if before[one].state not in FINAL_STATES:
                client.kill_application(one, "Killed by a person.")
        if not no_wait:
            _await_end(client, named, bound)
        after = [client.application(one) for one in named]
    if printer.for_people:
        for report in after:
            if before[report.application_id].state in FINAL_STATES:
                printer.note(f"{report.application_id} had already ended: {report.state.value}")
            else:
                printer.text(f"{report.application_id} {report.state.value}")
    else:
        _details(printer, after, lambda app: {"state": app.state.value})
    return 0


def _await_end(client: YarnClient, named: list[str], bound: float) -> None:
    """Wait until the applications have ended. Raises YoppError (exit 124) when the time has passed."""
    deadline = time.monotonic() + bound
    while named:
        remaining = max(0.0, deadline - time.monotonic())
        response = client.wait_for_applications(named, wait=min(remaining, 60.0))
        living = [one.application_id for one in response.applications if one.state not in FINAL_STATES]
        if response.satisfied or not living:
            return
        if time.monotonic() >= deadline:
            raise YoppError(
                f"{', '.join(living)} did not end within {bound:g} s",
                because="an application ends when its containers have, which have some time after SIGTERM",
                hint="look at it with `yopp app status`; --timeout waits longer",
                exit_code=EXIT_TIMEOUT,
            )
