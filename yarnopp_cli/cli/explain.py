"""``yopp explain``: why something waits, what would let it start, and whether it ever can."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from ..errors import NodeNotFoundError, YoppError
from ..records.client_protocol import GetContainersRequest
from ..records.explanation import Explanation
from ..views import explanation as view
from ..views.text import timestamp
from .context import Context
from .naming import applications, containers, is_container, nodes, spread, words
from .options import Color, Conf, Define, Ids, Json, Output, Quiet, RunDirOption, Verbose, examples
from .output import Printer

if TYPE_CHECKING:
    from ..client import YarnClient


def register(app: typer.Typer) -> None:
    """Add ``explain``."""
    app.command("explain", epilog=examples("yopp explain last", "yopp explain 3.2 --json"))(explain)


def explain(
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
    """Say why an application, a container or a node waits: what it needs, who has it, and when it may start.

    With --json also `can_ever`: false where it waits in vain. A number alone is an application, 3.2 is container 2
    of application 3.
    """
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        found = [_explain(client, word) for word in spread(client, words(ids))]
    if printer.ids_only:
        printer.ids(one.id for one in found)
    elif printer.form == "tsv":
        printer.separated(
            ("id", "state", "satisfiable", "reasons", "estimatedStart"),
            (
                (
                    one.id,
                    one.state,
                    str(one.satisfiable).lower(),
                    ",".join(reason.code.value for reason in one.reasons),
                    timestamp(one.estimated_start_ms),
                )
                for one in found
            ),
        )
    else:
        for one in found:
            if printer.is_json:
                printer.document({"explain": view.document(one)})
            else:
                printer.text("\n".join(view.lines(one)))


def _explain(client: YarnClient, word: str) -> Explanation:
    if is_container(word):
        return _container(client, containers(client, [word])[0])
    if ":" in word:
        return client.explain(nodes(client.nodes(), [word])[0].node_id)
    try:
        return client.explain(applications(client, [word])[0])
    except YoppError as problem:
        try:
            node = nodes(client.nodes(), [word])[0].node_id
        except NodeNotFoundError:
            raise problem from None
        return client.explain(node)


def _container(client: YarnClient, container_id: str) -> Explanation:
    """One container, by its node's own figures: the queue there moves faster than the RM is told."""
    from ..core.explain import NodeSight, explain_container

    every = client.nodes()
    known = client.containers(GetContainersRequest(finished=True), nodes=every)
    report = next((one for one in known if one.container_id == container_id), None)
    if report is None:
        report = client.container(container_id)
    node = next((one for one in every if one.node_id == report.node_id), None)
    sight = None
    if node is not None:
        here = [one for one in known if one.node_id == node.node_id and one.finished_at_ms == 0]
        sight = NodeSight(node, here, [one for one in known if one.finished_at_ms])
    return explain_container(report, sight, time.time_ns() // 1_000_000)
