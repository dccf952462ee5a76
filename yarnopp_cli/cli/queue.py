"""``yopp queue list|status``."""

from __future__ import annotations

import typer

from ..errors import YoppError
from ..views import queues as view
from .context import Context
from .listing import Documents, chosen, show
from .naming import words
from .options import (
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
    examples,
    new_typer,
)
from .output import Printer

EXIT_NO_SUCH = 66


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
    sort: Sort = None,
    columns: Columns = None,
    limit: Limit = None,
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
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        found = client.queues()
    show(
        printer,
        found,
        view.COLUMNS,
        Documents(view.documents, view.document),
        choice,
        identity=lambda queue: queue.name,
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
    """Show queues by name."""
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        queues = client.queues()
    known = {queue.name: queue for queue in queues} | {queue.path: queue for queue in queues if queue.path}
    found = []
    for name in words(ids):
        if name not in known:
            raise YoppError(
                f"no queue {name}",
                hint=f"there is {', '.join(queue.name for queue in queues) or 'none'}",
                exit_code=EXIT_NO_SUCH,
            )
        found.append(known[name])
    printer.details(
        found,
        key="queue",
        document=view.document,
        fields=view.fields,
        columns=view.COLUMNS,
        identity=lambda queue: queue.name,
    )
