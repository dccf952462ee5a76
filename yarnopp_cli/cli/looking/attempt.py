"""``yopp attempt list|status``."""

from __future__ import annotations

from typing import Annotated

import typer

from ...errors import ApplicationNotFoundError
from ...records.ids import ApplicationAttemptId
from ...records.reports import ApplicationAttemptReport
from ...views import applications as view
from ..frame.context import Context
from ..frame.filters import node_id
from ..frame.listing import Documents, chosen, repeat, show, words_of
from ..frame.naming import applications, one_of, words
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

_STATES = (
    "NEW",
    "SCHEDULED",
    "ALLOCATED",
    "LAUNCHED",
    "RUNNING",
    "FINISHING",
    "FINISHED",
    "FAILED",
    "KILLED",
)


def register(app: typer.Typer) -> None:
    """Add the group ``attempt``."""
    group = new_typer(
        help="List and show the attempts to run an application's master.",
        no_args_is_help=True,
        epilog=examples("yopp attempt list last", "yopp attempt status appattempt_1765400000000_0001_000001"),
    )
    group.command("list", epilog=examples("yopp attempt list last", "yopp attempt list 3 --json"))(
        list_attempts
    )
    group.command(
        "status",
        epilog=examples(
            "yopp attempt status appattempt_1765400000000_0001_000001",
            "yopp attempt list last -q | yopp attempt status -",
        ),
    )(status)
    app.add_typer(group, name="attempt")


def list_attempts(
    application: Annotated[
        str, typer.Argument(metavar="APPLICATION", help="Full id, `last`, or unique suffix.")
    ],
    state: Annotated[
        str | None, typer.Option("--state", metavar="S,…", help="Only attempts in these states.")
    ] = None,
    node: Annotated[
        str | None, typer.Option("--node", metavar="NODE", help="Only those whose master is on this node.")
    ] = None,
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
    """List the attempts of an application, oldest first."""
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    choice = chosen(printer, view.ATTEMPT_COLUMNS, columns=columns, sort=sort, limit=limit)
    states = words_of(state, _STATES, "--state")
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        one_app = one_of(applications(client, [application]), application)
        on = node_id(client, node)

        def once() -> None:
            show(
                printer,
                [
                    one
                    for one in client.attempts(one_app)
                    if (not states or one.state in states) and (not on or one.am_node_id == on)
                ],
                view.ATTEMPT_COLUMNS,
                Documents(view.attempt_documents, view.attempt_document),
                choice,
                identity=lambda attempt: attempt.attempt_id,
                empty="no attempts",
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
    """Show attempts by their full ids; `last` is the newest attempt of the newest application."""
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    found: list[ApplicationAttemptReport] = []
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        for word in words(ids):
            if word == "last":
                found += client.attempts(applications(client, [word])[0])[-1:]
                continue
            wanted = ApplicationAttemptId.parse(word)
            matching = [
                one for one in client.attempts(str(wanted.application_id)) if one.attempt_id == str(wanted)
            ]
            if not matching:
                raise ApplicationNotFoundError(
                    f"no attempt {word}",
                    because=f"{wanted.application_id} has none of that number",
                    hint=f"`yopp attempt list {wanted.application_id}` shows those there are",
                    sought=str(wanted),
                )
            found += matching
    printer.details(
        found,
        key="appAttempt",
        document=view.attempt_document,
        fields=view.attempt_fields,
        columns=view.ATTEMPT_COLUMNS,
        identity=lambda attempt: attempt.attempt_id,
    )
