"""Start a cluster, join it, and end it: what ``yopp up`` and ``yopp down`` do, and jobs that find no cluster.

All of it is idempotent, and safe when several commands do it at once: whoever starts or stops daemons holds
the lock of the run directory, and everybody else finds the cluster that is there then. Prints nothing and
asks nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from executor.records import Resource
from executor.settings import ExecutorSettings

from ..errors import ConnectionFailedError, ShuttingDownError, YoppError
from ..records.client_protocol import (
    GetClusterInfoRequest,
    GetClusterNodesRequest,
    SetLifetimeRequest,
    ShutdownClusterRequest,
    WaitForNodesRequest,
)
from ..records.reports import ClusterInfo, NodeReport
from ..rpc.blocking import Connection
from .capacity_plan import Wish
from .processes import ProcessId, end_processes, wait_for_end
from .rundir import FIRST_PORT, LAST_PORT, Daemon, RunDir

if TYPE_CHECKING:
    from ..settings.loading import Configuration
    from .leftovers import Cleared

STAY = "stay"
ON_DEMAND = "on-demand"
START_SECONDS = 30.0
ENDING_SECONDS = 15.0
"""How long a cluster that is ending itself may take, before it counts as stuck."""
ORDERLY_SECONDS = 0.5
"""How long an NM takes to end after its RM, when both end in order."""
CALL_SECONDS = 5.0
TERM_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node that the cluster shall have: its port (a name only), MB of memory and vcores."""

    port: int
    memory: int
    vcores: int

    @property
    def name(self) -> str:
        """The daemon's name in the run directory."""
        return f"nm-{self.port}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The nodes of a cluster, and whether it stays, as kept in ``nodes.json``."""

    nodes: tuple[PlannedNode, ...] = ()
    lifetime: str = STAY


@dataclass(frozen=True, slots=True)
class ClusterHandle:
    """A cluster that serves. ``started`` names the daemons that this call started; empty if it joined.

    ``warnings`` are for people, a line each.
    """

    run_dir: RunDir
    info: ClusterInfo
    nodes: tuple[NodeReport, ...]
    started: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DownReport:
    """What ``down`` did: ``ended`` daemons by name (empty: none ran), and ``cleared`` what dead ones had
    left."""

    ended: tuple[str, ...]
    cleared: Cleared


def ensure_cluster(
    configuration: Configuration,
    run_dir: RunDir,
    *,
    lifetime: str,
    nodes: int | None = None,
    memory: int | None = None,
    vcores: int | None = None,
    timeout: float = START_SECONDS,
) -> ClusterHandle:
    """Have a cluster that serves: join what runs, start what is missing, return when all of it is ready.

    ``lifetime`` "on-demand" (jobs) joins whatever cluster is there; "stay" (``yopp up``) refuses one that
    runs with other settings, naming each difference, and makes an on-demand one stay. ``memory`` (MB) and
    ``vcores`` are per node. A cluster that is ending itself is waited out. Raises YoppError; daemons
    started by a call that fails are ended again.
    """
    if lifetime == ON_DEMAND:
        run_dir.check()
        joined = join(run_dir)
        if joined is not None and joined.info.nodes_running:
            return joined
    run_dir.prepare()
    deadline = time.monotonic() + timeout
    wish = Wish(nodes, memory, vcores)
    with run_dir.lock(timeout):
        return _Start(configuration, run_dir, lifetime, wish, deadline).run()


def join(run_dir: RunDir) -> ClusterHandle | None:
    """The cluster that serves now; None if there is none, or it is ending itself. Starts and waits for
    nothing."""
    try:
        with Connection(run_dir.rm_socket) as connection:
            return _look(connection, run_dir)
    except (ConnectionFailedError, ShuttingDownError):
        return None


def _look(connection: Connection, run_dir: RunDir) -> ClusterHandle:
    info = connection.call("getClusterInfo", GetClusterInfoRequest(), timeout=CALL_SECONDS).info
    found = connection.call("getClusterNodes", GetClusterNodesRequest(), timeout=CALL_SECONDS)
    return ClusterHandle(run_dir, info, found.nodes)


def wait_until_gone(run_dir: RunDir, timeout: float) -> bool:
    """Wait until no daemon of the run directory lives; whether that is so."""
    return not wait_for_end([daemon.process for daemon in run_dir.daemons()], timeout)


def read_plan(run_dir: RunDir) -> Plan | None:
    """The plan in ``nodes.json``; None if there is none that can be read."""
    text = run_dir.read("nodes.json")
    if text is None:
        return None
    try:
        stored = json.loads(text)
        nodes = tuple(
            PlannedNode(int(one["port"]), int(one["memory"]), int(one["vcores"])) for one in stored["nodes"]
        )
        return Plan(nodes, str(stored["lifetime"]))
    except (ValueError, KeyError, TypeError):
        return None


def write_plan(run_dir: RunDir, plan: Plan) -> None:
    """Keep the plan, for the next command that starts what is missing."""
    run_dir.write("nodes.json", json.dumps(asdict(plan)) + "\n")


def running_configuration(run_dir: RunDir) -> Configuration | None:
    """The configuration that the cluster runs with; None if there is none, or it is unreadable."""
    from ..settings.loading import Configuration

    text = run_dir.read("site.json")
    try:
        return None if text is None else Configuration.from_json(text)
    except (ValueError, KeyError, TypeError, YoppError):
        return None


class _Start:
    """One run of ``ensure_cluster`` under the lock."""

    def __init__(
        self, configuration: Configuration, run_dir: RunDir, lifetime: str, wish: Wish, deadline: float
    ) -> None:
        self.configuration = configuration
        self.run_dir = run_dir
        self.lifetime = lifetime
        self.wish = wish
        self.deadline = deadline
        self.warnings: list[str] = []

    def run(self) -> ClusterHandle:
        """Find out what lives, decide what is missing, start it, and look at the result."""
        living_rm = self._living_rm()
        nms = [daemon for daemon in self.run_dir.daemons() if daemon.port]
        if not living_rm and nms:
            # Of a cluster that ended in order, they end now; of one whose RM was killed, they stay.
            wait_for_end([daemon.process for daemon in nms], ORDERLY_SECONDS)
            nms = [daemon for daemon in self.run_dir.daemons() if daemon.port]
        alive = living_rm or bool(nms)
        plan = self._plan(alive)
        if alive and self.lifetime == STAY:
            self._refuse_differences(plan)
        present = {daemon.port for daemon in nms}
        missing = [node for node in plan.nodes if node.port not in present]
        self.run_dir.remove_leftovers()
        self._clear_nodes_without_a_future(plan, present)
        started = self._start(plan, alive, living_rm, missing)
        return self._result(plan, started)

    def _left(self) -> float:
        return max(0.1, self.deadline - time.monotonic())

    def _living_rm(self) -> bool:
        """Whether an RM serves. Waits out one that is ending itself; YoppError for one that does not
        answer."""
        daemon = self.run_dir.daemon("rm")
        while daemon is not None:
            try:
                with Connection(self.run_dir.rm_socket) as connection:
                    info = connection.call(
                        "getClusterInfo", GetClusterInfoRequest(), timeout=CALL_SECONDS
                    ).info
                    # One that is ending itself refuses this; for any other it changes nothing.
                    connection.call("setLifetime", SetLifetimeRequest(info.lifetime), timeout=CALL_SECONDS)
                return True
            except ShuttingDownError:
                ended = not wait_for_end([daemon.process], min(ENDING_SECONDS, self._left()))
            except ConnectionFailedError as error:
                # Its socket is gone shortly before it is, and comes shortly after it.
                ended = not wait_for_end([daemon.process], 0.1)
                if not ended and time.monotonic() < self.deadline:
                    continue
                if not ended:
                    raise _stuck(daemon, error.because or error.message) from error
            if not ended:
                raise _stuck(daemon, "it is ending itself, and does not get to the end")
            daemon = self.run_dir.daemon("rm")
        return False

    def _plan(self, alive: bool) -> Plan:
        """What the cluster shall consist of: as kept, where that matters still, else a new plan."""
        kept = read_plan(self.run_dir)
        if kept is not None and kept.nodes:
            if alive:
                return kept
            if self.lifetime == STAY and self.wish == Wish() and self._outlived(kept):
                return Plan(kept.nodes, STAY)
        shared = plan_capacity(self.configuration, self.wish)
        self.warnings += shared[1]
        nodes = tuple(
            PlannedNode(port, one.memory, one.vcores)
            for port, one in zip(free_ports(()), shared[0], strict=False)
        )
        return Plan(nodes, kept.lifetime if kept is not None and alive else self.lifetime)

    def _outlived(self, plan: Plan) -> bool:
        """Whether containers may have outlived their nodes: these must come back as they were to find
        them."""
        from .leftovers import has_records

        return any(has_records(self.run_dir, node.port) for node in plan.nodes)

    def _refuse_differences(self, plan: Plan) -> None:
        running = running_configuration(self.run_dir)
        found = size_differences(plan.nodes, self.wish)
        if running is not None:
            found += setting_differences(running, self.configuration)
        if found:
            raise YoppError(
                "the cluster runs with other settings",
                because="; ".join(found),
                hint="`yopp down` first, or leave out what differs",
            )

    def _clear_nodes_without_a_future(self, plan: Plan, present: set[int]) -> None:
        """What dead nodes left that no node of the plan will find again."""
        from . import leftovers

        where = leftovers.places(self.run_dir, running_configuration(self.run_dir) or self.configuration)
        ports = leftovers.known_ports(self.run_dir, where)
        orphaned = frozenset(ports - present - {node.port for node in plan.nodes})
        if orphaned:
            cleared = leftovers.clear(self.run_dir, where, ports=orphaned)
            self.warnings += cleared.problems

    def _start(
        self, plan: Plan, alive: bool, living_rm: bool, missing: Sequence[PlannedNode]
    ) -> tuple[str, ...]:
        """Start what is missing. On failure of a cluster of which nothing lived, its files go too."""
        from .launching import nodemanager, resourcemanager, start_daemons

        if living_rm and self.lifetime == STAY:
            with Connection(self.run_dir.rm_socket) as connection:
                connection.call("setLifetime", SetLifetimeRequest(STAY), timeout=CALL_SECONDS)
        lifetime = STAY if STAY in (self.lifetime, plan.lifetime) and alive else self.lifetime
        with contextlib.ExitStack() as undo:
            if not alive:
                undo.callback(forget_cluster, self.run_dir)
            if not alive or running_configuration(self.run_dir) is None:
                self.run_dir.write("site.json", self.configuration.to_json())
            write_plan(self.run_dir, Plan(plan.nodes, lifetime))
            orders = [] if living_rm else [resourcemanager(self.run_dir, lifetime)]
            orders += [
                nodemanager(self.run_dir, node.port, node.memory, node.vcores, lifetime) for node in missing
            ]
            if orders:
                start_daemons(self.run_dir, orders, timeout=self._left())
            undo.pop_all()
        return tuple(order.name for order in orders)

    def _result(self, plan: Plan, started: tuple[str, ...]) -> ClusterHandle:
        with Connection(self.run_dir.rm_socket) as connection:
            seen = _look(connection, self.run_dir)
            wanted = len(plan.nodes)
            while seen.info.nodes_running < wanted and time.monotonic() < self.deadline:
                wait_ms = int(min(1000.0, self._left() * 1000))
                connection.call("waitForNodes", WaitForNodesRequest(wanted, wait_ms), timeout=CALL_SECONDS)
                seen = _look(connection, self.run_dir)
        self.warnings += seen.info.warnings
        if seen.info.nodes_running < wanted:
            self.warnings.append(f"{seen.info.nodes_running} of {wanted} nodes are ready: see `yopp status`")
        fresh = [node.port for node in plan.nodes if node.name in started]
        if fresh:
            from .inspection import weaker_limits

            self.warnings += weaker_limits(self.run_dir, fresh[0])  # all nodes of a host are alike in this
        return ClusterHandle(self.run_dir, seen.info, seen.nodes, started, tuple(self.warnings))


def plan_capacity(
    configuration: Configuration, wish: Wish, *, taken: Resource = Resource()
) -> tuple[tuple[Resource, ...], tuple[str, ...]]:
    """Sizes of the nodes on this machine, and warnings; ``taken`` is what other nodes were promised
    already."""
    from executor.linux.capacity import host_limits

    from ..settings.hardware import HardwareSettings
    from ..settings.nodemanager import NodeManagerSettings
    from .capacity_plan import Machine, plan
    from .hardware import UNDETECTED_MB, UNDETECTED_VCORES, counted_machine, size_of_node, threads_per_core

    settings = configuration.settings(NodeManagerSettings)
    hardware = configuration.settings(HardwareSettings)
    limits = host_limits()
    memory, vcores = wish.memory_mb, wish.vcores
    if memory is None:
        memory = size_of_node(settings.memory_mb, hardware, UNDETECTED_MB)
    if vcores is None:
        vcores = size_of_node(settings.vcores, hardware, UNDETECTED_VCORES)
    machine = Machine(limits.memory_bytes >> 20, limits.cores, limits.because)
    shared = plan(
        counted_machine(machine, hardware, threads_per_core()),
        Wish(wish.nodes, memory, vcores, configured=wish.memory_mb is None and memory is not None),
        reserved_memory_mb=settings.system_reserved_memory_mb,
        cpu_percentage=settings.percentage_physical_cpu_limit,
        taken=taken,
    )
    return shared.nodes, shared.warnings


def free_ports(used: Iterable[int]) -> Iterable[int]:
    """Ports for new nodes, from YARN's-like 45454 up, that are none of ``used``. They are names: nobody
    listens."""
    taken = set(used)
    return (port for port in range(FIRST_PORT, LAST_PORT + 1) if port not in taken)


def size_differences(nodes: Sequence[PlannedNode], wish: Wish) -> list[str]:
    """Where the nodes that run are not what was asked for, in words."""
    found = []
    if wish.nodes is not None and wish.nodes != len(nodes):
        found.append(f"nodes is {len(nodes)}, and {wish.nodes} is wanted")
    for what, wanted, sizes in (
        ("memory", wish.memory_mb, sorted({node.memory for node in nodes})),
        ("vcores", wish.vcores, sorted({node.vcores for node in nodes})),
    ):
        if wanted is not None and sizes != [wanted]:
            found.append(f"{what} is {' and '.join(map(str, sizes))}, and {wanted} is wanted")
    return found


def setting_differences(running: Configuration, wanted: Configuration) -> list[str]:
    """Properties of the daemons that ``wanted`` sets to something else than the cluster runs with, in words.

    A property that ``wanted`` leaves alone is no difference: ``yopp up`` without settings joins any cluster.
    """
    from executor.settings import properties_of

    from ..settings.nodemanager import NodeManagerSettings
    from ..settings.resourcemanager import ResourceManagerSettings
    from ..settings.web import WebSettings

    found = []
    for kind in (ResourceManagerSettings, NodeManagerSettings, ExecutorSettings, WebSettings):
        for item in properties_of(kind):
            origin = wanted.origin(item.name)
            if kind is WebSettings and str(wanted.value(item.name)).endswith(":0"):
                continue  # any port will do, so that of the cluster does
            if origin != "default" and wanted.value(item.name) != running.value(item.name):
                found.append(
                    f"{item.name} is {_shown(running.value(item.name))}, "
                    f"and {_shown(wanted.value(item.name))} is wanted ({origin})"
                )
    return found


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _stuck(daemon: Daemon, because: str) -> YoppError:
    return YoppError(
        f"the ResourceManager (process {daemon.process.pid}) does not answer",
        because=because,
        hint="yopp down --force",
    )


def take_down(
    run_dir: RunDir,
    *,
    keep_containers: bool = False,
    force: bool = False,
    timeout: float = START_SECONDS,
) -> DownReport:
    """End the cluster, and clear away what is left of it, also of daemons that were killed. Idempotent.

    Asks the RM first; daemons that have not ended after ``timeout`` seconds get SIGTERM, and with ``force``
    SIGKILL. With ``keep_containers`` containers go on, and the next ``up`` starts the same nodes, which find
    them (and end those of applications that the new RM does not know). Raises YoppError for daemons that do
    not end.
    """
    from . import leftovers

    if not run_dir.exists():
        return DownReport((), leftovers.Cleared())
    run_dir.check()
    with run_dir.lock(timeout):
        daemons = run_dir.daemons()
        if daemons:
            _end_daemons(run_dir, daemons, keep_containers, force, timeout)
        cleared = leftovers.Cleared()
        if not keep_containers:
            cleared = leftovers.clear(run_dir, leftovers.places(run_dir, running_configuration(run_dir)))
        run_dir.remove_leftovers()
        forget_cluster(run_dir, keep_plan=keep_containers)
    return DownReport(tuple(daemon.name for daemon in daemons), cleared)


def _end_daemons(
    run_dir: RunDir, daemons: Sequence[Daemon], keep_containers: bool, force: bool, timeout: float
) -> None:
    processes = [daemon.process for daemon in daemons]
    for process in processes:
        process.send(signal.SIGCONT)  # one that somebody stopped could not even be asked
    asked = daemons[0].name == "rm" and _ask_to_end(run_dir, keep_containers)
    left = wait_for_end(processes, timeout) if asked else tuple(processes)
    grace = min(TERM_SECONDS, timeout)
    left = end_processes(left, grace=grace, force=force)
    if left:
        names = ", ".join(f"{one.name} (process {one.process.pid})" for one in daemons if one.process in left)
        raise YoppError(
            f"{names} {'does' if len(left) == 1 else 'do'} not end",
            because=f"SIGTERM was sent, and {grace:g} s have passed",
            hint="yopp down --force",
        )


def _ask_to_end(run_dir: RunDir, keep_containers: bool) -> bool:
    """Whether the RM has heard that the cluster shall end."""
    try:
        with Connection(run_dir.rm_socket) as connection:
            connection.call("shutdownCluster", ShutdownClusterRequest(keep_containers), timeout=CALL_SECONDS)
    except ShuttingDownError:
        return True
    except YoppError:
        return False
    return True


def forget_cluster(run_dir: RunDir, *, keep_plan: bool = False) -> None:
    """Remove the files that describe a cluster that is no more. Logs stay."""
    for path in (run_dir.site_file, *(() if keep_plan else (run_dir.nodes_file,))):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    if run_dir.socket_dir != run_dir.path:
        for directory in (run_dir.socket_dir, os.path.dirname(run_dir.socket_dir)):
            with contextlib.suppress(OSError):  # another cluster's sockets, or none were made
                os.rmdir(directory)


def stop_daemon(
    daemon: Daemon, run_dir: RunDir, *, force: bool = False, timeout: float = START_SECONDS
) -> None:
    """End one daemon in order (SIGTERM), and remove its socket and pid file. Raises YoppError if it does
    not end."""
    left: tuple[ProcessId, ...] = end_processes([daemon.process], grace=timeout, force=force)
    if left:
        raise YoppError(
            f"{daemon.name} (process {daemon.process.pid}) does not end",
            because=f"SIGTERM was sent, and {timeout:g} s have passed",
            hint="say --force to kill it",
        )
    run_dir.remove_leftovers()
