"""``yopp queue list|status``."""

from __future__ import annotations

from typing import Annotated

import typer

from ...records.reports import QueueReport
from ...views import queues as view
from ..frame.context import Context
from ..frame.filters import QueueFilter, named_queue, queues_below
from ..frame.listing import Documents, chosen, repeat, show, words_of
from ..frame.naming import ALL, applications, one_of, words
from ..frame.options import (
    Color,
    Columns,
    Conf,
    Define,
    Ids,
    Json,
    Limit,
    Output,
    Quiet,
    RunDirOption,
    Sort,
    Verbose,
    Watch,
    examples,
    new_typer,
)
from ..frame.output import Printer

_STATES = ("ALL", "RUNNING", "STOPPED", "DRAINING")


def register(app: typer.Typer) -> None:
    """Add the group ``queue``."""
    group = new_typer(
        help="List and show queues of guaranteed containers.",
        no_args_is_help=True,
        epilog=examples("yopp queue list", "yopp queue status default"),
    )
    group.command("list", epilog=examples("yopp queue list", "yopp queue list --json"))(list_queues)
    group.command("status", epilog=examples("yopp queue status default", "yopp queue status default --json"))(
        status
    )
    app.add_typer(group, name="queue")


def list_queues(
    state: Annotated[
        str | None, typer.Option("--state", metavar="S,…", help="Only queues in these states.")
    ] = None,
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="Only queues in which this user has something.")
    ] = "",
    app: Annotated[
        str | None, typer.Option("--app", metavar="ID", help="Only the queue that this application is in.")
    ] = None,
    queue: QueueFilter = "",
    sort: Sort = None,
    columns: Columns = None,
    limit: Limit = None,
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
    """List the queues, parents first: their part of the cluster, and what is used of it."""
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    choice = chosen(printer, view.COLUMNS, columns=columns, sort=sort, limit=limit)
    states = words_of(state, _STATES, "--state")
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:

        def passes(one: QueueReport) -> bool:
            return (
                (not states or "ALL" in states or one.state in states)
                and (not user or any(part.user == user for part in one.users))
                and (below is None or one.name in below)
                and (home is None or one.name == home)
            )

        below = queues_below(client, queue) if queue else None
        home: str | None = None

        def once() -> None:
            nonlocal home
            home = client.application(one_of(applications(client, [app]), app)).queue if app else None
            show(
                printer,
                [one for one in client.queues() if passes(one)],
                view.COLUMNS,
                Documents(view.documents, view.document),
                choice,
                identity=lambda one: one.name,
                empty="no such queue",
            )

        repeat(printer, watch, once)


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
    """Show queues by name."""
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        queues = client.queues()
    given = words(ids)
    found = list(queues) if given == [ALL] else [named_queue(queues, name) for name in given]
    printer.details(
        found,
        key="queue",
        document=view.document,
        fields=view.fields,
        columns=view.COLUMNS,
        identity=lambda queue: queue.name,
    )
