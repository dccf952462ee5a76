"""``yopp status``: whether the cluster is running, in words, in YARN's JSON, and as an exit code (LSB: 0, 3, 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import EXIT_NOT_RUNNING
from ...records.reports import STAY
from ...records.times import timestamp
from ...views.text import megabytes, vcores
from ..frame.command import command
from ..frame.output import Printer
from ..frame.session import Session, print_raw

if TYPE_CHECKING:
    from ...client.yarn import YarnClient
    from ...cluster.inspection import ClusterStatus, NodeStatus
    from ...records.reports import ClusterInfo

EXIT_PARTLY = 4


@command("status", "yopp status", "yopp status --json", yarn=True)
def status(session: Session) -> int:
    """Show whether the cluster is running: exit code 0 if it is, 3 if it is stopped, 4 otherwise.

    The link below the ResourceManager has your rights in a browser: to make changes, and to read the output of
    containers. It is secret, and valid until the ResourceManager ends; at the other address a browser can only read.
    """
    from ...cluster.inspection import inspect_cluster

    printer = session.printer
    if session.yarn is not None:
        return _report_yarn(printer, session.yarn)
    session.context.warn_of_slips(printer)
    seen = inspect_cluster(session.run_dir)
    tell(printer, seen, "\n".join(_lines(seen)))
    if not printer.is_json:
        for line in seen.warnings:
            printer.warn(line)
    return {"running": 0, "stopped": EXIT_NOT_RUNNING}.get(seen.state, EXIT_PARTLY)


def tell(
    printer: Printer,
    seen: ClusterStatus,
    text: str,
    *,
    ids: Sequence[str] | None = None,
    rm: bool = True,
    port: int | None = None,
) -> None:
    """Print the state of a cluster: all of it as JSON, ``text`` for users, the ResourceManager (``rm``) and the nodes
    (of one ``port``) as tsv, and with -q the ``ids``, by default the nodes'."""
    from ...cluster.inspection import cluster_document

    document = cluster_document(seen, owner=True)
    ours = document["clusterInfo"]["yopp"]
    if seen.rm is None:
        ours["applications"] = _stored(seen)
    rows = [{"node": "rm", "state": seen.state.upper()} | ours["rm"]] if rm else []
    shown = [one for one, node in zip(ours["nms"], seen.nodes, strict=True) if port in (None, node.port)]
    keys = ("node", "state", "pid", "vcores", "memoryMB", "address", "http")
    cells = [["-" if row.get(key) in (None, "") else str(row[key]) for key in keys] for row in rows + shown]
    printer.answer(
        document, text, ids=[one["node"] for one in shown] if ids is None else ids, table=(keys, cells)
    )


def _report_yarn(printer: Printer, yarn: YarnClient) -> int:
    """Print the state of a YARN cluster; 0 if an active ResourceManager has started, otherwise 4."""
    from ...client.yarn import ALIVE

    answer = yarn.info()
    if printer.is_json:
        print_raw(printer, answer.body)
        return 0
    if printer.ids_only:
        printer.ids(node.node_id for node in yarn.nodes_in(ALIVE))
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
        f"  applications: {metrics.get('appsRunning', 0)} running, {metrics.get('appsPending', 0)} waiting; "
        f"{metrics.get('containersAllocated', 0)} guaranteed containers, "
        f"{metrics.get('containersPending', 0)} asked for",
    ]
    printer.text("\n".join(lines))
    return 0 if state == "STARTED" else EXIT_PARTLY


def _lines(seen: ClusterStatus) -> list[str]:
    from ...cluster.resttoken import links

    if seen.state == "stopped":
        stored = _stored(seen)
        if stored is None:
            told = ["  applications: unknown; `yopp rmadmin state check` says why their state cannot be read"]
        elif any(stored.values()):
            counts = f"{stored['running']} running, {stored['pending']} waiting when it stopped"
            told = [f"  applications: {counts}; `yopp up` continues them"]
        else:
            told = []
        return ["stopped", *told, f"  run directory {seen.run_dir.path}"]
    info = seen.info
    head = seen.state
    if info is not None:
        stays = "until `yopp down`" if info.lifetime == STAY else "until its last job has ended"
        head += f" since {timestamp(info.started_at_ms)}, {stays}"
    lines = [head]
    web = f", http://{info.http_address}/cluster" if info is not None and info.http_address else ""
    rm = (
        f"process {seen.rm.process.pid}, {seen.run_dir.rm_socket}"
        if seen.rm is not None
        else "is not running"
    )
    lines.append(f"  rm {rm}{web}")
    if info is not None and (owners := links(seen.run_dir).get(info.http_address)):
        lines.append(f"  browser, with your rights: http://{owners}/cluster")
    lines += [f"  nm {node_line(seen, node)}" for node in seen.nodes]
    if info is not None:
        lines.append(f"  {load_text(info)}")
    lines.append(f"  run directory {seen.run_dir.path}")
    return lines


def _stored(seen: ClusterStatus) -> dict[str, int] | None:
    """The applications that an ended ResourceManager has stored, by state; None if its state cannot be read."""
    from ...daemons.state_report import stored_applications

    stored = stored_applications(seen.run_dir)
    return None if stored is None else dict(zip(("running", "pending"), stored, strict=True))


def load_text(info: ClusterInfo) -> str:
    """The load of the cluster, in words."""
    return (
        f"applications: {info.applications_running} running, {info.applications_pending} waiting; "
        f"containers: {info.containers_running} running, {info.containers_queued} queued, "
        f"{info.containers_paused} paused"
    )


def node_line(seen: ClusterStatus, node: NodeStatus) -> str:
    """One node in words."""
    if node.daemon is None:
        return f"{node.node_id} is not running"
    state = node.state
    words = {
        "DISCONNECTED": "has not reached the ResourceManager since "
        + timestamp(node.own.rm_lost_at_ms if node.own is not None else 0),
        "UNRESPONSIVE": "is running and does not answer",
        # If the ResourceManager does not answer, a warning says so.
        "NEW": "is running" if seen.info is None else "is registering with the ResourceManager",
    }
    parts = [words.get(state, state), f"process {node.daemon.process.pid}"]
    size = node.report.total if node.report is not None else node.own.total if node.own is not None else None
    if size is not None:
        parts.append(f"{vcores(size.vcores)}, {megabytes(size.memory)}")
    parts.append(seen.run_dir.nm_socket(node.port))
    return f"{node.node_id} " + ", ".join(parts)
