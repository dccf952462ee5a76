"""``yopp node list|status``. Its other commands are in ``node_changes``."""

from __future__ import annotations

from typing import Annotated

import typer

from ...records.reports import NodeReport, NodeState
from ...views import nodes as view
from ..frame.context import Context
from ..frame.filters import nodes_of
from ..frame.listing import Documents, chosen, repeat, show, words_of
from ..frame.naming import nodes as named_nodes
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
from . import node_changes

_STATES = ("ALL", *(state.value for state in NodeState))


def register(app: typer.Typer) -> None:
    """Add the group ``node``."""
    group = new_typer(
        help="List, show, drain and resize nodes.",
        no_args_is_help=True,
        epilog=examples("yopp node list", "yopp node status 45454 --json"),
    )
    group.command("list", epilog=examples("yopp node list -o wide", "yopp node list -a --json"))(list_nodes)
    group.command("status", epilog=examples("yopp node status last", "yopp node status 45454 --json"))(status)
    node_changes.add_to(group)
    app.add_typer(group, name="node")


def _wanted(nodes: tuple[NodeReport, ...], states: tuple[str, ...], every: bool) -> list[NodeReport]:
    if every or "ALL" in states:
        return list(nodes)
    if states:
        return [node for node in nodes if node.state.value in states]
    return [node for node in nodes if node.state in (NodeState.RUNNING, NodeState.DECOMMISSIONING)]


def list_nodes(
    every: Annotated[bool, typer.Option("-a", "--all", help="Lost and ended nodes too.")] = False,
    state: Annotated[
        str | None, typer.Option("--state", metavar="S,…", help="Only nodes in these states.")
    ] = None,
    app: Annotated[
        str | None, typer.Option("--app", metavar="ID", help="Only nodes with live containers of this one.")
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
    """List the running nodes: what runs on them, guaranteed (G) and opportunistic (O), and what waits."""
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    choice = chosen(printer, view.COLUMNS, columns=columns, sort=sort, limit=limit)
    states = words_of(state, _STATES, "--state")
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:

        def once() -> None:
            on = nodes_of(client, app) if app else None
            show(
                printer,
                [one for one in _wanted(client.nodes(), states, every) if on is None or one.node_id in on],
                view.COLUMNS,
                Documents(view.documents, view.document),
                choice,
                identity=lambda node: node.node_id,
                empty="no nodes",
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
    """Show everything that is known of a node."""
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        found = named_nodes(client.nodes(), ids)
    printer.details(
        found,
        key="node",
        document=view.document,
        fields=view.fields,
        columns=view.COLUMNS,
        identity=lambda node: node.node_id,
    )
