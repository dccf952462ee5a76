"""The state of a cluster: which of its daemons run, which of them answer, and what is wrong.
Changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from executor.hints import Any
from executor.light import Record
from executor.linux.procfs import read_stat
from executor.records import Resource

from .. import __version__
from ..errors import ConnectionFailedError, ShuttingDownError, YoppError
from ..machine.life import PlannedNode
from ..records.client_protocol import GetClusterInfoRequest, GetClusterNodesRequest
from ..records.container_protocol import GetNodeInfoRequest, GetNodeInfoResponse
from ..records.reports import ClusterInfo, NodeReport, NodeState
from ..rpc.blocking import Connection
from .resttoken import links
from .rundir import Daemon, RunDir
from .state import read_plan, read_watched, running_configuration

RUNNING = "running"
STOPPED = "stopped"
PARTLY = "partly"
CALL_SECONDS = 3.0
JOIN_SECONDS = 5.0
NODE_SECONDS = 1.0


class ClusterHandle(Record):
    """A running cluster. ``started`` names the daemons that this call started; it is empty after
    joining a cluster.

    ``warnings`` are for the user, a line each.
    """

    run_dir: RunDir
    info: ClusterInfo
    nodes: tuple[NodeReport, ...]
    started: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def look(run_dir: RunDir, *, timeout: float = CALL_SECONDS) -> ClusterHandle:
    """The cluster as its ResourceManager describes it. Raises YoppError if the ResourceManager does
    not answer."""
    with Connection(run_dir.rm_socket, timeout=timeout) as connection:
        info = connection.call(GetClusterInfoRequest(), timeout=timeout)
        nodes = connection.call(GetClusterNodesRequest(), timeout=timeout).nodes
        return ClusterHandle(run_dir, info, nodes)


def join(run_dir: RunDir) -> ClusterHandle | None:
    """The running cluster; None if there is none, or it is shutting down. Starts nothing."""
    try:
        return look(run_dir, timeout=JOIN_SECONDS)
    except (ConnectionFailedError, ShuttingDownError):
        return None


class NodeStatus(Record):
    """One node: its running daemon, its planned size, and the RM's report of it, each None if there is none.
    ``own`` is the node's own report, requested only if the RM has none."""

    port: int
    daemon: Daemon | None
    planned: PlannedNode | None
    report: NodeReport | None
    own: GetNodeInfoResponse | None = None

    @property
    def node_id(self) -> str:
        """The node's id in YARN, or the daemon's name if the id is unknown."""
        if self.report is not None:
            return self.report.node_id
        return self.own.node_id if self.own is not None else f"nm-{self.port}"

    @property
    def ready(self) -> bool:
        """Whether the node runs and is connected to the RM."""
        report = self.report
        return bool(self.daemon and report and report.connected and report.state in _SERVING)

    @property
    def state(self) -> str:
        """YARN's state of the node; STOPPED if its daemon does not run. If the RM has no report of it: NEW
        while the node registers, DISCONNECTED while it cannot reach the RM, UNRESPONSIVE while it does not
        answer."""
        if self.daemon is None:
            return "STOPPED"
        if self.report is not None:
            return self.report.state.value if self.report.connected else "LOST"
        if self.own is None:
            return "UNRESPONSIVE"
        return "DISCONNECTED" if self.own.rm_lost_at_ms else "NEW"


_SERVING = (NodeState.RUNNING, NodeState.DECOMMISSIONING, NodeState.DECOMMISSIONED)
"""The states of nodes without a problem: a drained node is out of service on purpose."""


class ClusterStatus(Record):
    """The state of a cluster: RUNNING, STOPPED or PARTLY. ``info`` is None if no RM answers. ``warnings``
    report problems, a line each."""

    run_dir: RunDir
    state: str
    rm: Daemon | None
    info: ClusterInfo | None
    nodes: tuple[NodeStatus, ...]
    warnings: tuple[str, ...]


def inspect_cluster(run_dir: RunDir) -> ClusterStatus:
    """Inspect the daemons of a run directory. Raises YoppError only if the directory is unsafe to use."""
    run_dir.check()
    daemons = {daemon.name: daemon for daemon in run_dir.daemons()}
    rm = daemons.pop("rm", None)
    plan = read_plan(run_dir)
    planned = {node.port: node for node in plan.nodes} if plan is not None else {}
    warnings: list[str] = []
    seen: ClusterHandle | None = None
    if rm is not None:
        try:
            seen = look(run_dir)
        except YoppError as error:
            because = error.because or error.message
            warnings.append(f"the ResourceManager (process {rm.process.pid}) does not answer: {because}")
    # The latest report for each port: a node id ends with its port.
    ports = {one.node_id.rpartition(":")[2]: one for one in (seen.nodes if seen is not None else ())}
    reports = {int(port): one for port, one in ports.items() if port.isdigit()}
    living = {daemon.port: daemon for daemon in daemons.values()}
    if rm is None and not living:
        return ClusterStatus(run_dir, STOPPED, None, None, (), _leftover_warnings(run_dir))
    nodes = tuple(
        NodeStatus(
            port,
            living.get(port),
            planned.get(port),
            reports.get(port),
            _ask_node(run_dir, port) if port in living and port not in reports else None,
        )
        for port in sorted(planned.keys() | living.keys())
    )
    if rm is None and read_watched(run_dir, "rm") is not None:
        warnings.append(
            "the ResourceManager died: a node restarts it, or its log says why not; `yopp up` restarts it now"
        )
    elif rm is None:
        warnings.append(f"the ResourceManager is not running: `yopp up` {_effect_of_up(run_dir)}")
    info = seen.info if seen is not None else None
    warnings += info.lost if info is not None else ()
    warnings += other_version(info, nodes)
    if not nodes:
        warnings.append("the cluster has no node: `yopp nm start` starts one")
    warnings += [line for node in nodes if (line := _node_warning(node, seen is not None))]
    state = RUNNING if seen is not None and nodes and all(node.ready for node in nodes) else PARTLY
    return ClusterStatus(run_dir, state, rm, info, nodes, tuple(warnings))


def _effect_of_up(run_dir: RunDir) -> str:
    """What a start of the missing RM means for its applications."""
    from ..settings.declarations import ResourceManagerSettings

    running = running_configuration(run_dir)
    if running is not None and running.settings(ResourceManagerSettings).recovery_enabled:
        return "starts it, and continues its applications"
    return "starts it without its applications, and ends their containers"


def other_version(info: ClusterInfo | None, nodes: Iterable[NodeStatus]) -> list[str]:
    """A warning if daemons have another version than this command: yopp was upgraded while they ran."""
    told = [info.version] if info is not None else []
    told += [one.version for node in nodes if (one := node.report or node.own) is not None]
    others = sorted(set(told) - {__version__, ""})
    if not others:
        return []
    return [
        f"daemons run yopp {', '.join(others)}, but this command is version {__version__}: "
        "`yopp down --keep-containers` and `yopp up` replace them"
    ]


def weaker_limits(run_dir: RunDir, port: int) -> tuple[str, ...]:
    """A warning if a node limits its containers less strictly than configured; none if cgroups are switched
    off in the configuration."""
    node = _ask_node(run_dir, port, CALL_SECONDS)
    if node is None:  # the node has already ended, which the RM reports
        return ()
    if not node.warnings or "switched off" in node.warnings[0]:
        return ()
    advice = "`yopp doctor` shows why, and what to type"
    if node.cgroups == "none":
        return (
            "no cgroups can be written here: memory limits are enforced by polling, and CPU limits are not enforced; "
            + advice,
        )
    return (f"limits are weaker here than they could be (cgroups: {node.cgroups}); {advice}",)


def _ask_node(run_dir: RunDir, port: int, timeout: float = NODE_SECONDS) -> GetNodeInfoResponse | None:
    """A node's own report; None if the node does not answer."""
    try:
        with Connection(run_dir.nm_socket(port), timeout=timeout) as connection:
            return connection.call(GetNodeInfoRequest(), timeout=timeout)
    except YoppError:
        return None


def _node_warning(node: NodeStatus, rm_answers: bool) -> str:
    if node.daemon is None:
        return f"{node.node_id} is not running: `yopp nm start {node.port}` starts it again"
    if not rm_answers or node.ready:
        return ""
    state = node.report.state.value if node.report is not None else "not registered"
    if node.report is not None and node.report.health_report:
        state += f", {node.report.health_report}"
    pid = node.daemon.process.pid
    found = read_stat(pid)
    if found is not None and found.state in "Tt":
        return f"{node.node_id} is {state}: its process is stopped; `kill -CONT {pid}` continues it"
    return f"{node.node_id} (process {pid}) is {state}: its log is nm-{node.port}.log"


def _leftover_warnings(run_dir: RunDir) -> tuple[str, ...]:
    """Warnings about leftovers of a stopped cluster: a daemon that ends cleanly removes its pid file and
    its socket."""
    warnings = []
    if run_dir.stale_files():
        warnings.append(
            "its daemons did not shut down cleanly: `yopp up` starts them again, `yopp down` removes what they left"
        )
    if os.path.isdir(run_dir.state_dir):
        from .cleanup import live_records

        if count := len(live_records(run_dir)):
            running = "1 container is" if count == 1 else f"{count} containers are"
            warnings.append(f"{running} still running without a cluster: `yopp down` ends what is left")
    return tuple(warnings)


def cluster_document(seen: ClusterStatus, *, owner: bool) -> dict[str, Any]:
    """YARN's answer to ``GET /ws/v1/cluster/info``, with the daemons below ``yopp``; for the ``owner`` with the links
    for a browser."""
    owners = links(seen.run_dir) if owner else {}
    info = seen.info or ClusterInfo(0, 0, 0, __version__, "", seen.run_dir.path, "")
    started, rm = seen.info is not None, seen.rm
    return {
        "clusterInfo": {
            "id": info.cluster_timestamp,
            "startedOn": info.started_at_ms,
            "state": "STARTED" if started else "STOPPED",
            "haState": "ACTIVE" if started else "STOPPING",
            "rmStateStoreName": "",
            "resourceManagerVersion": info.version,
            "resourceManagerBuildVersion": f"yopp {info.version}",
            "resourceManagerVersionBuiltOn": "",
            "hadoopVersion": "",
            "hadoopBuildVersion": "",
            "hadoopVersionBuiltOn": "",
            "haZooKeeperConnectionState": "ResourceManager HA is not enabled.",
            "yopp": {
                "state": seen.state,
                "lifetime": info.lifetime or None,
                "rm": {
                    "pid": rm.process.pid if rm is not None else None,
                    "address": f"unix:{seen.run_dir.rm_socket}",
                    "run_dir": seen.run_dir.path,
                    "http": info.http_address,
                    "link": _url(owners, info.http_address),
                },
                "nms": [_node_document(seen, node, owners) for node in seen.nodes],
                "applications": {"running": info.applications_running, "pending": info.applications_pending},
                "containers": {
                    "running": info.containers_running,
                    "queued": info.containers_queued,
                    "paused": info.containers_paused,
                    "kept": info.containers_kept,
                },
                "properties": dict(info.properties),
                "stateDir": seen.run_dir.state_dir,
                "warnings": list(seen.warnings),
            },
        }
    }


def _url(owners: Mapping[str, str], address: str) -> str:
    return f"http://{owners[address]}/" if address in owners else ""


def _node_document(seen: ClusterStatus, node: NodeStatus, owners: Mapping[str, str]) -> dict[str, Any]:
    planned = node.planned or PlannedNode(node.port, 0, 0)
    address = node.report.http_address if node.report is not None else ""
    total = node.report.total if node.report is not None else Resource(planned.memory, planned.vcores)
    return {
        "node": node.node_id,
        "pid": node.daemon.process.pid if node.daemon is not None else None,
        "address": f"unix:{seen.run_dir.nm_socket(node.port)}",
        "state": node.state,
        "rmUnreachableSince": node.own.rm_lost_at_ms if node.own is not None else 0,
        "http": address,
        "link": _url(owners, address),
        "memoryMB": total.memory,
        "vcores": total.vcores,
    }
