"""``yopp status``: whether the cluster runs, in words, in YARN's JSON, and by exit code (LSB: 0, 3, 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import EXIT_NOT_RUNNING
from ...views.text import megabytes, timestamp
from ..frame.command import command
from ..frame.output import Printer
from ..frame.session import Session

if TYPE_CHECKING:
    from ...cluster.inspection import ClusterStatus, NodeStatus

EXIT_PARTLY = 4


@command("status", "yopp status", "yopp status --json", yarn=True)
def status(session: Session) -> int:
    """Say whether the cluster runs: exit code 0 if it does, 3 if it is stopped, 4 if it is neither."""
    from ...cluster.inspection import inspect_cluster

    if session.yarn is not None:
        from . import yarn_status

        return yarn_status.report(session.printer, session.yarn)
    session.context.warn_of_slips(session.printer)
    return report(session.printer, inspect_cluster(session.run_dir))


def report(printer: Printer, seen: ClusterStatus) -> int:
    """Print a status in the form asked for; its exit code."""
    if printer.is_json:
        from ...cluster.inspection import cluster_document

        printer.document(cluster_document(seen))
    elif not printer.for_people:
        daemons(printer, seen)
    else:
        printer.text("\n".join(_lines(seen)))
    if not printer.is_json:
        for line in seen.warnings:
            printer.warn(line)
    return exit_code(seen)


def daemons(printer: Printer, seen: ClusterStatus, *, rm: bool = True, port: int | None = None) -> None:
    """The daemons as ids, or as rows with tabs: the ResourceManager (``rm``), and its nodes (those of one ``port``).

    Ids are the nodes'; ``rm`` is none.
    """
    from ...cluster.inspection import cluster_document

    if printer.ids_only:
        printer.ids(node.node_id for node in seen.nodes if port in (None, node.port))
        return
    ours = cluster_document(seen)["clusterInfo"]["yopp"]
    rows = [{"node": "rm", "state": seen.state.upper()} | ours["rm"]] if rm else []
    rows += [one for one, node in zip(ours["nms"], seen.nodes, strict=True) if port in (None, node.port)]
    keys = ("node", "state", "pid", "vcores", "memoryMB", "address", "http")
    printer.separated(keys, ([_text(row.get(key)) for key in keys] for row in rows))


def _text(value: object) -> str:
    return "-" if value in (None, "") else str(value)


def exit_code(seen: ClusterStatus) -> int:
    """0 running, 3 stopped, 4 partly or unknown."""
    return {"running": 0, "stopped": EXIT_NOT_RUNNING}.get(seen.state, EXIT_PARTLY)


def _lines(seen: ClusterStatus) -> list[str]:
    if seen.state == "stopped":
        return ["stopped", f"  run directory {seen.run_dir.path}"]
    info = seen.info
    head = seen.state
    if info is not None:
        stays = "until `yopp down`" if info.lifetime == "stay" else "until its last job has ended"
        head += f" since {timestamp(info.started_at_ms)}, {stays}"
    lines = [head]
    web = f", http://{info.http_address}/cluster" if info is not None and info.http_address else ""
    rm = (
        f"process {seen.rm.process.pid}, {seen.run_dir.rm_socket}"
        if seen.rm is not None
        else "is not running"
    )
    lines.append(f"  rm {rm}{web}")
    lines += [f"  nm {node_line(seen, node)}" for node in seen.nodes]
    if info is not None:
        lines.append(
            f"  {info.applications_running} applications; containers: {info.containers_running} running, "
            f"{info.containers_queued} queued, {info.containers_paused} paused"
        )
    lines.append(f"  run directory {seen.run_dir.path}")
    return lines


def node_line(seen: ClusterStatus, node: NodeStatus) -> str:
    """One node in words."""
    if node.daemon is None:
        return f"{node.node_id} is not running"
    from ...cluster.inspection import node_state

    state = node_state(node)
    words = {
        "DISCONNECTED": "has not reached the ResourceManager since "
        + timestamp(node.own.rm_lost_at_ms if node.own is not None else 0),
        "UNRESPONSIVE": "is running and does not answer",
        "NEW": "is registering with the ResourceManager",
    }
    parts = [words.get(state, state), f"process {node.daemon.process.pid}"]
    size = node.report.total if node.report is not None else node.own.total if node.own is not None else None
    if size is not None:
        parts.append(f"{size.vcores} vcores, {megabytes(size.memory)}")
    parts.append(seen.run_dir.nm_socket(node.port))
    return f"{node.node_id} " + ", ".join(parts)
