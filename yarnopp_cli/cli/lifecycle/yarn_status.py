"""``yopp status`` of a YARN cluster."""

from __future__ import annotations

from ...client.yarn import ALIVE, YarnClient
from ...views.text import timestamp
from ..frame.output import Printer
from ..frame.session import print_raw


def report(printer: Printer, yarn: YarnClient) -> int:
    """Print how it is: 0 where an active ResourceManager has started, 4 otherwise."""
    answer = yarn.info()
    if printer.is_json:
        print_raw(printer, answer.body)
        return 0
    if printer.quiet or printer.form == "name":
        for node in yarn.nodes_in(ALIVE):
            printer.text(node.node_id)
        return 0
    info, metrics = answer.document().get("clusterInfo") or {}, yarn.metrics()
    state = str(info.get("state") or "unknown")
    since = info.get("startedOn")
    lines = [
        ("running" if state == "STARTED" else state.lower())
        + (f" since {timestamp(since)}" if isinstance(since, int) and since else ""),
        f"  rm {yarn.rest.address}, {info.get('resourceManagerVersion') or 'of unknown version'}, "
        f"{str(info.get('haState') or 'unknown').lower()}",
        f"  nodes: {metrics.get('activeNodes', 0)} active, {metrics.get('lostNodes', 0)} lost, "
        f"{metrics.get('unhealthyNodes', 0)} unhealthy",
        f"  {metrics.get('appsRunning', 0)} applications run, {metrics.get('appsPending', 0)} wait; "
        f"{metrics.get('containersAllocated', 0)} guaranteed containers, "
        f"{metrics.get('containersPending', 0)} asked for",
    ]
    printer.text("\n".join(lines))
    return 0 if state == "STARTED" else 4
