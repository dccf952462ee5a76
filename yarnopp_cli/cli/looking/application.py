"""``yopp app list|status|kill``. Its other commands are in ``application_changes``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from executor.records import ExecutionType

from ...errors import EXIT_FAILURE, EXIT_TIMEOUT, UsageError, YoppError
from ...records.client_protocol import GetApplicationsRequest
from ...records.reports import FINAL_STATES, ApplicationReport, YarnApplicationState
from ...views.applications import APPLICATIONS, counts_text
from ...views.text import harmless
from ..frame.command import command
from ..frame.filters import (
    QueueFilter,
    UserFilter,
    applications_on,
    comma_words,
    node_id,
    queues_below,
)
from ..frame.listing import empty_text
from ..frame.naming import applications, words
from ..frame.options import ApplicationIds, DryRun, Live, NoWait, Timeout, Words
from ..frame.session import Session

if TYPE_CHECKING:
    from ...client.protocol import Client

KILL_SECONDS = 20.0


@command(
    "app list", "yopp app list -a", "yopp app list -a --state FAILED,KILLED -q",
    lists=APPLICATIONS, newest=True, yarn=True,
)  # fmt: skip
def list_applications(
    session: Session,
    every: Annotated[bool, typer.Option("-a", "--all", help="Ended ones too, as with --state.")] = False,
    kind: Annotated[
        str | None,
        typer.Option("--type", metavar="T,…", help="Only of these types."),
        Words(lambda: ("YARN", "MAPREDUCE")),
    ] = None,
    tag: Annotated[
        str | None, typer.Option("--tag", metavar="T,…", help="Only with one of these tags.")
    ] = None,
    user: UserFilter = "",
    queue: QueueFilter = "",
    node: Annotated[
        str | None,
        typer.Option("--node", metavar="NODE", help="Only with containers on this node."),
        Live(("node",)),
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Only with this name.")] = "",
) -> None:
    """List the live applications, in order of submission."""
    cluster, states, choice = session.cluster, session.states, session.choice
    request = GetApplicationsRequest(
        states=() if "ALL" in states else tuple(YarnApplicationState(one) for one in states),
        application_types=comma_words(kind),
        tags=comma_words(tag),
        queue=queue if session.yarn is not None else "",
        user=user,
        name=name,
        live_only=not (every or states),
    )
    queues = queues_below(cluster, queue) if queue and session.yarn is None else None
    on = node_id(cluster, node)
    _check_types(cluster, request.application_types)
    narrowed = bool(states or kind or tag or user or queue or node or name)

    def once() -> None:
        found = cluster.applications(request)
        if queues is not None:
            found = tuple(one for one in found if one.queue in queues)
        if on:
            there = applications_on(cluster, on, ended_too=not request.live_only)
            found = tuple(one for one in found if one.application_id in there)
        if choice.limit is not None and not choice.sort:
            found = found[max(0, len(found) - choice.limit) :]
        empty = empty_text("applications", choice, narrowed=narrowed, live_only=request.live_only)
        session.show(APPLICATIONS, found, empty=empty)

    session.repeat(once)


def _check_types(cluster: Client, wanted: tuple[str, ...]) -> None:
    """Raises UsageError for the type of an execution where no application is of a type of that name."""
    for word in wanted:
        if any(one.value.startswith(word.upper()) for one in ExecutionType):
            known = sorted({one.application_type for one in cluster.applications()})
            if word.upper() not in (one.upper() for one in known):
                raise UsageError(
                    f"--type has no {harmless(word)}",
                    because="--type of applications is YARN's applicationType, not the type of an execution",
                    hint=f"{', '.join(known) or 'YARN, MAPREDUCE'}; `yopp ps --type {word}` lists containers",
                )


@command("app status", "yopp app status last", "yopp app status 3 --json", yarn=True)
def status(session: Session, ids: ApplicationIds) -> None:
    """Show everything that is known of an application."""
    cluster = session.cluster
    session.details(APPLICATIONS, [cluster.application(one) for one in applications(cluster, ids)])


@command("app kill", "yopp app kill last", "yopp app list -q | yopp app kill -", asks=True, yarn=True)
def kill(
    session: Session,
    ids: ApplicationIds,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    timeout: Timeout = None,
) -> int:
    """End applications and their containers; return when that has happened. `all` means every live one."""
    cluster, printer, given = session.cluster, session.printer, words(ids)
    named = applications(cluster, given)
    if not session.agreed(given, named, "Kill", what="live application", dry_run=dry_run):
        return EXIT_FAILURE
    before = [cluster.application(one) for one in named]
    live = [one for one in before if one.state not in FINAL_STATES]
    if dry_run:
        _foretell(session, live, len(named))
        return 0
    for one in live:
        cluster.kill_application(one.application_id, "Killed by a person.")
    if not no_wait:
        _await_end(cluster, named, KILL_SECONDS if timeout is None else timeout)
    after = [cluster.application(one) for one in named] if live else before
    if not printer.for_people:
        session.details(APPLICATIONS, after, answer=lambda app: {"state": app.state.value})
        return 0
    killed = {one.application_id for one in live}
    for report in after:
        if report.application_id in killed:
            printer.text(f"{report.application_id} {report.state.value}")
        else:
            printer.note(f"{report.application_id} had already ended: {report.state.value}")
    return 0


def _foretell(session: Session, live: list[ApplicationReport], named: int) -> None:
    """Say which applications would be killed."""
    if not session.printer.for_people:
        session.details(APPLICATIONS, live)
        return
    for one in live:
        session.printer.text(f"{one.application_id} would be killed: {counts_text(one)}")
    session.printer.note(f"{len(live)} of {named} live; nothing was changed")


def _await_end(cluster: Client, named: list[str], bound: float) -> None:
    """Wait until the applications have ended. Raises YoppError (exit 124) when the time has passed."""
    deadline = time.monotonic() + bound
    while named:
        remaining = max(0.0, deadline - time.monotonic())
        response = cluster.wait_for_applications(named, wait=min(remaining, 60.0))
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
