"""``yopp metrics``: the figures of ``/metrics`` and ``/jmx``, without an open port."""

from __future__ import annotations

import time
from collections.abc import Sequence

from executor.hints import TYPE_CHECKING

from ...cluster.processes import process_figures
from ...errors import ConnectionFailedError, UsageError
from ...records import container_protocol as nm
from ...records.reports import NodeReport, NodeState
from ...records.scheduler_protocol import GetSchedulerFiguresRequest
from ...views.rest.metrics import Bean, Figure, of_cluster, of_node, prometheus, query_beans
from ..frame.command import command
from ..frame.naming import nodes
from ..frame.options import Annotated, Live, argument, option
from ..frame.output import Printer
from ..frame.session import Session

if TYPE_CHECKING:
    from ...client.local import LocalClient


BUSY_SECONDS = 0.1
"""Seconds over which the load of the ResourceManager is measured."""
NODE_SECONDS = 5.0
"""The timeout of each call of a node: shorter than that of the RM, since one silent node must not hold up the rest."""
_LIVE = (NodeState.RUNNING, NodeState.UNHEALTHY, NodeState.DECOMMISSIONING)


@command("metrics", "yopp metrics", "yopp metrics --json")
def metrics(
    session: Session,
    named: Annotated[
        list[str] | None,
        argument("[NODE]...", "Of these NodeManagers, or `all`. [default: of the RM]"),
        Live(("node",)),
    ] = None,
    query: Annotated[
        str, option("--query BEAN", "With --json: only beans with this name; * is a wildcard.")
    ] = "",
) -> None:
    """Print the metrics of the ResourceManager, or of NodeManagers, in Prometheus' text format.

    With --json they are Hadoop's beans, as at /jmx. It works without a web server.
    """
    if (status := query_beans((), query, ""))[0] != 200:
        raise UsageError(
            f"--query {query} does not name beans", because=status[1]["message"], hint="--query 'Hadoop:*'"
        )
    printer, client = session.printer, session.client
    if named:
        every = [one for one in client.nodes() if one.state in _LIVE or named != ["all"]]
        chosen = nodes(every, named) if every else []
        samples, beans = _of_nodes(client, chosen, printer if "all" in named else None)
    else:
        samples, beans = _of_cluster(client)
    if printer.is_json:
        printer.document(query_beans(beans, query, "")[1])
    else:
        printer.text(prometheus(samples).rstrip("\n"))


_Found = tuple[list[Figure], list[Bean]]


def _of_cluster(client: LocalClient) -> _Found:
    info = client.cluster_info()
    found = of_cluster(
        info,
        client.applications(),
        client.nodes(),
        client.ask(GetSchedulerFiguresRequest()),
        busy_percent(info.pid),
        process_figures(info.pid),
    )
    return found.samples, found.beans


def _of_nodes(client: LocalClient, chosen: Sequence[NodeReport], printer: Printer | None) -> _Found:
    """The figures of these nodes. With a ``printer``, nodes that do not answer are left out with a warning. Raises
    YoppError if none answers."""
    samples: list[Figure] = []
    beans: list[Bean] = []
    silent: list[ConnectionFailedError] = []
    for node in chosen:
        try:
            found, told = _of_node(client, node)
        except ConnectionFailedError as error:
            silent.append(error)
            if printer is None or len(silent) == len(chosen):
                raise
            continue
        samples += found
        if len(chosen) > 1:  # Hadoop's names do not distinguish two nodes of one host.
            told = [{**one, "tag.Node": node.node_id} for one in told]
        beans += told
    for silence in silent:
        if printer is not None:
            printer.warn(f"{silence.message}: its metrics are left out")
    return samples, beans


def _of_node(client: LocalClient, node: NodeReport) -> _Found:
    info = client.ask_node(node, nm.GetNodeInfoRequest(), timeout=NODE_SECONDS)
    counted = client.ask_node(node, nm.GetNodeFiguresRequest(), timeout=NODE_SECONDS)
    every = nm.GetContainerStatusesRequest(finished=True)
    found = client.ask_node(node, every, timeout=NODE_SECONDS)
    figures = of_node(info, found.statuses, counted.counts, process_figures(info.pid))
    return figures.samples, figures.beans


def busy_percent(pid: int) -> int:
    """Percent of a processor that the first thread of a process uses: in our daemons, the event loop."""
    before, began = _running_seconds(pid), time.monotonic()
    time.sleep(BUSY_SECONDS)
    used = _running_seconds(pid) - before
    return max(0, min(100, round(100 * used / (time.monotonic() - began))))


def _running_seconds(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/task/{pid}/schedstat") as file:
            return int(file.read().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0  # It has just ended, or the kernel has no such statistics.
