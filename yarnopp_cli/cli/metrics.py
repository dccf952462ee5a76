"""``yopp metrics``: the figures of ``/metrics`` and ``/jmx`` by call, so that no port need be open for them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..records import container_protocol as nm
from ..records.reports import NodeReport, NodeState
from ..views import cluster as cluster_view
from ..views import jmx, prometheus
from .context import Context
from .naming import nodes
from .options import Color, Conf, Define, Json, Output, Quiet, RunDirOption, Verbose, examples
from .output import Printer

if TYPE_CHECKING:
    from ..client import YarnClient

_LIVE = (NodeState.RUNNING, NodeState.UNHEALTHY, NodeState.DECOMMISSIONING)


def register(app: typer.Typer) -> None:
    """Add ``metrics``."""
    app.command("metrics", epilog=examples("yopp metrics", "yopp metrics --json"))(metrics)


def metrics(
    named: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NODE]...", help="These NodeManagers' own, `all` for each. [default: the RM's]"
        ),
    ] = None,
    query: Annotated[
        str, typer.Option("--query", metavar="BEAN", help="With --json: only beans of that name; * fits any.")
    ] = "",
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
) -> None:
    """Print the figures of the ResourceManager, or of a NodeManager, in Prometheus' text format.

    With --json they are Hadoop's beans, as at /jmx. No web server need run.
    """
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        if named:
            every = [one for one in client.nodes() if one.state in _LIVE or named != ["all"]]
            chosen = nodes(every, named) if every else []
            samples, beans = _of_nodes(client, chosen)
        else:
            samples, beans = _of_cluster(client)
    if printer.is_json:
        printer.document(jmx.chosen(beans, query, ""))
    else:
        printer.text(prometheus.text(samples).rstrip("\n"))


_Found = tuple[list[prometheus.Sample], list[dict[str, Any]]]


def _of_cluster(client: YarnClient) -> _Found:
    info, apps, every = client.cluster_info(), client.applications(), client.nodes()
    counted = client.scheduler_figures()
    found = cluster_view.metrics(info, apps, every, counted.pending)["clusterMetrics"]
    process = process_figures(info.pid)
    samples = [
        *prometheus.of_cluster(found, counted),
        *prometheus.of_nodes(every),
        *prometheus.of_process("resourcemanager", process),
    ]
    return samples, jmx.cluster_beans(found, every, counted, process)


def _of_nodes(client: YarnClient, chosen: Sequence[NodeReport]) -> _Found:
    samples: list[prometheus.Sample] = []
    beans: list[dict[str, Any]] = []
    for node in chosen:
        info = client.node_info(node)
        figures: nm.GetNodeFiguresResponse = client.node_call(
            node, "getNodeFigures", nm.GetNodeFiguresRequest()
        )
        every = nm.GetContainerStatusesRequest(finished=True)
        found: nm.GetContainerStatusesResponse = client.node_call(node, "getContainerStatuses", every)
        process = process_figures(info.pid)
        samples += prometheus.of_node(info, found.statuses, figures.counts)
        samples += prometheus.of_process("nodemanager", process, node=info.node_id)
        told = jmx.node_beans(info, found.statuses, figures.counts, process)
        if len(chosen) > 1:  # Hadoop's names do not tell two nodes of one host apart
            told = [{**one, "tag.Node": info.node_id} for one in told]
        beans += told
    return samples, beans


def process_figures(pid: int) -> dict[str, float]:
    """A daemon's memory (bytes) and processor time (seconds); 0 where its entry in /proc cannot be read."""
    from executor.linux.processes import read_stat

    found = read_stat(pid)
    if found is None:
        return {"resident_bytes": 0.0, "cpu_seconds": 0.0}
    return {
        "resident_bytes": float(found.resident_pages * os.sysconf("SC_PAGE_SIZE")),
        "cpu_seconds": found.cpu_ticks / os.sysconf("SC_CLK_TCK"),
    }
