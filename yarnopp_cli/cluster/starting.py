"""Starts a cluster, or joins a running one: ``yopp up``, jobs. ``one_daemon`` starts a single one.

Every call is idempotent, and safe if several commands make it at once: the command that starts daemons holds
the lock of the run directory, and the others then find the running cluster. Prints nothing and asks the user
nothing.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence

from executor.hints import TYPE_CHECKING
from executor.settings import ExecutorSettings, properties_of

from ..errors import ConnectionFailedError, ShuttingDownError, StoppedDaemonError, YoppError
from ..records.client_protocol import SetLifetimeRequest, SettleLostRequest, WaitForNodesRequest
from ..records.reports import ON_DEMAND, STAY
from ..rpc.blocking import Connection
from ..settings.declarations import DaemonSettings, NodeManagerSettings, ResourceManagerSettings, WebSettings
from ..settings.rules import SCHEDULER_ADDRESS
from ..settings.values import quoted, to_text
from .capacity import Wish, plan_capacity
from .gpus import with_gpus
from .inspection import ClusterHandle, join, look, weaker_limits
from .launching import START_SECONDS, WATCHED, Launch, nodemanager, resourcemanager
from .obstacles import await_files, clear_obstacles
from .plan import Plan, PlannedNode, forget_cluster, free_ports, read_plan, running_configuration, write_plan
from .processes import wait_for_end
from .rundir import NODES, SITE, Daemon, RunDir

if TYPE_CHECKING:
    from ..settings.loading import Configuration

ENDING_SECONDS = 15.0
"""How long a cluster may take to shut itself down before it counts as stuck."""
ORDERLY_SECONDS = 0.5
"""How long an NM may run on after its RM if both shut down cleanly."""
MOST_DIFFERENCES = 5
"""How many settings an error names in which a cluster differs."""

CALL_SECONDS = 5.0
_V2 = "/sys/fs/cgroup/cgroup.controllers"


def ensure_cluster(
    configuration: Configuration,
    run_dir: RunDir,
    *,
    lifetime: str,
    wish: Wish = Wish(),
    timeout: float = START_SECONDS,
    supervised: bool = False,
    end_lost: bool | None = None,
) -> ClusterHandle:
    """Ensure that a cluster runs: join a running one, start missing daemons, and return when all of
    them are ready.

    ``lifetime`` "on-demand" (jobs) joins any cluster; "stay" (``yopp up``) refuses a cluster that runs with
    other settings, naming each difference, and makes an on-demand cluster stay. A cluster that stays and has lost
    all daemons is started as it was, except by a ``yopp up`` that asks for something else. It waits for the end of a
    cluster that is shutting down. With ``supervised`` the caller restarts the RM if it dies, otherwise its
    nodes do. ``end_lost`` decides about the containers of lost applications. Raises YoppError; a call that fails
    ends the daemons that it started.
    """
    if lifetime == ON_DEMAND:
        run_dir.check(closing=True)
        joined = join(run_dir)
        if joined is not None and joined.info.nodes_running:
            return joined
    run_dir.prepare()
    obstacles = clear_obstacles(run_dir)
    await_files(run_dir)
    deadline = time.monotonic() + timeout
    start = _Start(configuration, run_dir, lifetime, wish, deadline, supervised)
    start.warnings += obstacles
    with run_dir.lock(timeout):
        plan, launch = start.begin()
    # Without the lock, by which a daemon that has died meanwhile is restarted.
    with launch.undone_on_failure():
        launch.finish()
    return start.result(plan, launch.names, end_lost)


class _Start:
    """One call of ``ensure_cluster``: ``begin`` under the lock, and the ``result`` of what it has begun."""

    def __init__(
        self,
        configuration: Configuration,
        run_dir: RunDir,
        lifetime: str,
        wish: Wish,
        deadline: float,
        supervised: bool,
    ) -> None:
        self.configuration = configuration
        self.run_dir = run_dir
        self.lifetime = lifetime
        self.wish = wish
        self.deadline = deadline
        self.rm_arguments = () if supervised else (WATCHED,)
        self.warnings: list[str] = []

    def begin(self) -> tuple[Plan, Launch]:
        """Find the running daemons, and begin to start the missing ones of the plan."""
        rm_runs = self._rm_runs()
        if not rm_runs:
            # NMs of a cluster that shut down cleanly end now; those whose RM was killed keep running.
            self.run_dir.wait_until_gone(ORDERLY_SECONDS)
        present = {daemon.port for daemon in self.run_dir.daemons() if daemon.port}
        goes_on = rm_runs or bool(present)
        if not goes_on and (stored := self._configuration_to_go_on_with()) is not None:
            goes_on, self.configuration = True, stored
        plan = self._plan(goes_on)
        if goes_on and self.lifetime == STAY:
            self._refuse_differences(plan)
        missing = [node for node in plan.nodes if node.port not in present]
        self.run_dir.remove_stale_files()
        self._clear_forgotten_nodes(plan, present)
        return plan, self._start(plan, goes_on, rm_runs, missing)

    def _left(self) -> float:
        return max(0.1, self.deadline - time.monotonic())

    def _set_lifetime(self, lifetime: str) -> None:
        with Connection(self.run_dir.rm_socket) as connection:
            connection.call(SetLifetimeRequest(lifetime), timeout=CALL_SECONDS)

    def _rm_runs(self) -> bool:
        """Whether an RM serves; waits for the end of one that shuts down. Raises YoppError for one that does
        not answer."""
        daemon = self.run_dir.daemon("rm")
        while daemon is not None:
            try:
                # An RM that is shutting down refuses this call; for any other RM it changes nothing.
                self._set_lifetime(look(self.run_dir, timeout=CALL_SECONDS).info.lifetime)
                return True
            except ShuttingDownError:
                ended = not wait_for_end([daemon.process], min(ENDING_SECONDS, self._left()))
            except StoppedDaemonError:
                raise
            except ConnectionFailedError as error:
                # The socket of an RM disappears shortly before its process ends, and appears shortly after it
                # starts.
                ended = not wait_for_end([daemon.process], 0.1)
                if not ended and time.monotonic() < self.deadline:
                    continue
                if not ended:
                    raise _stuck(daemon, error.because or error.message) from error
            if not ended:
                raise _stuck(daemon, "it is still shutting down")
            daemon = self.run_dir.daemon("rm")
        return False

    def _configuration_to_go_on_with(self) -> Configuration | None:
        """The stored configuration of the cluster, which has no daemon, if it is started as it was: if it stays
        (``yopp down`` removes the plan), and no ``yopp up`` asks for something else."""
        kept = read_plan(self.run_dir)
        if kept is None or kept.lifetime != STAY or (stored := running_configuration(self.run_dir)) is None:
            return None
        if self.lifetime == STAY and (
            size_differences(kept.nodes, self.wish) or self.configuration.differences(stored)
        ):
            return None
        return stored

    def _plan(self, goes_on: bool) -> Plan:
        """The nodes that the cluster must have: the stored plan, if it still applies, else a new one."""
        kept = read_plan(self.run_dir)
        if kept is not None and kept.nodes:
            if goes_on:
                return kept
            from . import cleanup

            # Nodes recover the containers that outlived them only if they have the same ports and sizes.
            outlived = any(cleanup.has_records(self.run_dir, node.port) for node in kept.nodes)
            if self.lifetime == STAY and self.wish == Wish() and outlived:
                return Plan(kept.nodes, STAY)
        shared = plan_capacity(self.configuration, self.wish)
        self.warnings += shared.warnings
        nodes = tuple(
            PlannedNode(port, one.memory, one.vcores)
            for port, one in zip(free_ports(()), shared.nodes, strict=False)
        )
        nodes = with_gpus(self.configuration, nodes)
        return Plan(nodes, kept.lifetime if kept is not None and goes_on else self.lifetime)

    def _refuse_differences(self, plan: Plan) -> None:
        running = running_configuration(self.run_dir)
        found = size_differences(plan.nodes, self.wish)
        if running is not None:
            found += setting_differences(running, self.configuration)
        if found:
            raise YoppError(
                "the cluster is running with other settings",
                because="; ".join(found[:MOST_DIFFERENCES])
                + (f"; and {more} more" if (more := len(found) - MOST_DIFFERENCES) > 0 else ""),
                hint="`yopp down` first, or leave out the options that differ",
            )

    def _clear_forgotten_nodes(self, plan: Plan, present: set[int]) -> None:
        """Remove leftovers of dead nodes that no node of the plan will recover."""
        from . import cleanup

        where = cleanup.places(self.run_dir, running_configuration(self.run_dir) or self.configuration)
        ports = cleanup.known_ports(self.run_dir, where)
        orphaned = frozenset(ports - present - {node.port for node in plan.nodes})
        if orphaned:
            self.warnings += cleanup.clear(self.run_dir, where, ports=orphaned).problems

    def _start(self, plan: Plan, goes_on: bool, rm_runs: bool, missing: Sequence[PlannedNode]) -> Launch:
        """Begin to start the missing daemons. If that fails, a cluster that did not go on has its earlier files, or
        none."""
        if rm_runs and self.lifetime == STAY:
            self._set_lifetime(STAY)
        lifetime = STAY if STAY in (self.lifetime, plan.lifetime) and goes_on else self.lifetime
        orders = [] if rm_runs else [resourcemanager(self.run_dir, lifetime, *self.rm_arguments)]
        orders += [nodemanager(self.run_dir, node, lifetime, WATCHED) for node in missing]
        files = None if goes_on else {name: self.run_dir.read(name) for name in (SITE, NODES)}
        launch = Launch(self.run_dir, orders, timeout=self._left(), undo=lambda: self._restore(files))
        with launch.undone_on_failure(locked=True):
            if not goes_on or running_configuration(self.run_dir) is None:
                self.run_dir.write(SITE, self.configuration.to_json())
            write_plan(self.run_dir, Plan(plan.nodes, lifetime))
            if orders:
                _make_room(self.configuration)
            launch.begin()
            launch.finish("rm")
        return launch

    def _restore(self, files: Mapping[str, str | None] | None) -> None:
        """Restore the files of the cluster as they were, None for one that went on, unless another command has ended
        it or started daemons."""
        if files is None or self.run_dir.daemons():
            return
        is_planned = os.path.exists(self.run_dir.nodes_file)
        forget_cluster(self.run_dir)
        for name, text in files.items() if is_planned else ():
            if text is not None:
                with contextlib.suppress(YoppError):  # the disk is full: the reason of the failure is told
                    self.run_dir.write(name, text)

    def result(self, plan: Plan, started: tuple[str, ...], end_lost: bool | None) -> ClusterHandle:
        """Wait for all nodes of the plan to register; the resulting cluster."""
        wanted = len(plan.nodes)
        with Connection(self.run_dir.rm_socket) as connection:
            satisfied = False
            while not satisfied:
                ends = time.monotonic() >= self.deadline
                request = WaitForNodesRequest(wanted, int(self._left() * 1000))
                satisfied = connection.call(request, timeout=self._left() + CALL_SECONDS).satisfied or ends
            if end_lost is not None:
                kept = connection.call(SettleLostRequest(end_lost), timeout=CALL_SECONDS).containers
                told = "are ended" if end_lost else "run to their end"
                self.warnings.append(f"containers whose applications were lost: {kept} {told}")
        seen = look(self.run_dir, timeout=CALL_SECONDS)
        self.warnings += [*seen.info.warnings, *seen.info.lost]
        if seen.info.nodes_running < wanted:
            self.warnings.append(f"{seen.info.nodes_running} of {wanted} nodes are ready: see `yopp status`")
        fresh = [node.port for node in plan.nodes if node.name in started]
        if fresh:
            self.warnings += weaker_limits(self.run_dir, fresh[0])  # this is the same for all nodes of a host
        return ClusterHandle(self.run_dir, seen.info, seen.nodes, started, tuple(self.warnings))


def _make_room(configuration: Configuration) -> None:
    """Move this process to a leaf cgroup, so that daemons started in its cgroup can delegate
    controllers (only v2)."""
    if os.path.exists(_V2):
        from executor.linux.cgroups.discovery import enter_leaf

        enter_leaf(configuration.settings(ExecutorSettings))


def _stuck(daemon: Daemon, because: str) -> YoppError:
    return YoppError(
        f"the ResourceManager (process {daemon.process.pid}) does not answer",
        because=because,
        hint="yopp down --force",
    )


def size_differences(nodes: Sequence[PlannedNode], wish: Wish) -> list[str]:
    """The differences between the running nodes and the requested ones, as sentences."""
    asked = (
        ("nodes", wish.nodes, [len(nodes)]),
        ("memory", wish.memory_mb, sorted({node.memory for node in nodes})),
        ("vcores", wish.vcores, sorted({node.vcores for node in nodes})),
    )
    return [
        f"running with {what}={' and '.join(map(str, sizes))}, you asked for {wanted}"
        for what, wanted, sizes in asked
        if wanted is not None and sizes != [wanted]
    ]


HOSTED_MASTERS = "yopp.resourcemanager.hosted-masters"
"""A property whose value false never counts as a difference: a job need not use the hosted masters
of a cluster."""


def setting_differences(running: Configuration, wanted: Configuration) -> list[str]:
    """The properties of daemons that ``wanted`` sets to other values than those the cluster runs
    with, as sentences.

    A property that ``wanted`` does not set is not a difference: ``yopp up`` without
    settings joins any cluster.
    """
    found, others = [], wanted.differences(running)
    for kind in (ResourceManagerSettings, NodeManagerSettings, ExecutorSettings, WebSettings, DaemonSettings):
        for name in (item.name for item in properties_of(kind) if item.name in others):
            there, asked = running.value(name), wanted.value(name)
            if kind is WebSettings and str(asked).endswith(":0"):
                continue  # any port is accepted, so the cluster's is
            if name == SCHEDULER_ADDRESS or (name == HOSTED_MASTERS and not asked):
                continue  # clients read these for their own job
            running_with, wish = (to_text(one) or quoted("") for one in (there, asked))
            found.append(f"running with {name}={running_with}, you asked for {wish} ({wanted.origin(name)})")
    return found
