"""``yopp node list|status``. Its other commands are in ``node_changes``."""

from __future__ import annotations

from typing import Annotated

import typer

from ...records.reports import NodeReport, NodeState
from ...views.nodes import NODES
from ..frame.command import command
from ..frame.filters import nodes_of
from ..frame.naming import nodes as named_nodes
from ..frame.options import Live, NodeIds
from ..frame.session import Session


def _wanted(nodes: tuple[NodeReport, ...], states: tuple[str, ...], every: bool) -> list[NodeReport]:
    if every or "ALL" in states:
        return list(nodes)
    if states:
        return [node for node in nodes if node.state.value in states]
    return [node for node in nodes if node.state in (NodeState.RUNNING, NodeState.DECOMMISSIONING)]


@command("node list", "yopp node list -o wide", "yopp node list -a --json", lists=NODES, yarn=True)
def list_nodes(
    session: Session,
    every: Annotated[bool, typer.Option("-a", "--all", help="Lost and ended nodes too.")] = False,
    app: Annotated[
        str | None,
        typer.Option("--app", metavar="ID", help="Only nodes with live containers of this one."),
        Live(("app",)),
    ] = None,
) -> None:
    """List the running nodes: what runs on them, guaranteed (G) and opportunistic (O), and what waits."""

    def once() -> None:
        on = nodes_of(session.cluster, app) if app else None
        wanted = _wanted(session.cluster.nodes(), session.states, every)
        session.show(NODES, [one for one in wanted if on is None or one.node_id in on], empty="no nodes")

    session.repeat(once)


@command("node status", "yopp node status last", "yopp node status 45454 --json", yarn=True)
def status(session: Session, ids: NodeIds) -> None:
    """Show everything that is known of a node."""
    cluster = session.cluster
    session.details(NODES, [cluster.node(one.node_id) for one in named_nodes(cluster.nodes(), ids)])
