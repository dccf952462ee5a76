"""Starts a cluster, or one of its daemons, or joins a running cluster: ``yopp up``, ``rm start``,
``nm run``, jobs.

Every call is idempotent, and safe if several commands make it at once: the command that starts daemons holds
the lock of the run directory, and the others then find the running cluster. Prints nothing and asks the user
nothing.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from executor.hints import TYPE_CHECKING
from executor.records import Resource
from executor.settings import ExecutorSettings, properties_of

from ..errors import (
    ConnectionFailedError,
    NodeNotFoundError,
    ShuttingDownError,
    StoppedDaemonError,
    UsageError,
    YoppError,
)
from ..records.client_protocol import SetLifetimeRequest, WaitForNodesRequest
from ..records.lifetimes import ON_DEMAND, STAY
from ..rpc.blocking import Connection
from ..settings.declarations import DaemonSettings, NodeManagerSettings, ResourceManagerSettings, WebSettings
from ..settings.values import quoted, to_text
from .capacity import Wish, plan_capacity
from .gpus import with_gpus
from .inspection import ClusterHandle, join, look, weaker_limits
from .launching import (
    WATCHED,
    Launch,
    Order,
    command_line,
    daemon_environment,
    nodemanager,
    resourcemanager,
    start_daemons,
)
from .notifying import SOCKET, is_managed
from .obstacles import set_aside
from .plan import Plan, PlannedNode, forget_cluster, read_plan, running_configuration, write_plan
from .processes import wait_for_end
from .rundir import FIRST_PORT, LAST_PORT, NODES, SITE, Daemon, RunDir
from .watched import watched_names

if TYPE_CHECKING:
    from typing import NoReturn

    from ..settings.loading import Configuration

START_SECONDS = 30.0
ENDING_SECONDS = 15.0
"""How long a cluster may take to shut itself down before it counts as stuck."""
ORDERLY_SECONDS = 0.5
"""How long an NM may run on after its RM if both shut down cleanly."""
MOST_DIFFERENCES = 5
"""How many settings an error names in which a cluster differs."""

CALL_SECONDS = 5.0
_V2 = "/sys/fs/cgroup/cgroup.controllers"


# -- a cluster -----------------------------------------------------------------------------------------


def ensure_cluster(
    configuration: Configuration,
    run_dir: RunDir,
    *,
    lifetime: str,
    wish: Wish = Wish(),
    timeout: float = START_SECONDS,
    supervised: bool = False,
) -> ClusterHandle:
    """Ensure that a cluster runs: join a running one, start missing daemons, and return when all of
    them are ready.

    ``lifetime`` "on-demand" (jobs) joins any cluster; "stay" (``yopp up``) refuses a cluster that runs with
    other settings, naming each difference, and makes an on-demand cluster stay. A cluster that stays and has lost
    all daemons is started as it was, except by a ``yopp up`` that asks for something else. It waits for the end of a
    cluster that is shutting down. With ``supervised`` the caller restarts the RM if it dies, otherwise its
    nodes do. Raises YoppError; a call that fails ends the daemons that it started.
    """
    if lifetime == ON_DEMAND:
        run_dir.check(closing=True)
        joined = join(run_dir)
        if joined is not None and joined.info.nodes_running:
            return joined
    run_dir.prepare()
    set_aside(run_dir)
    deadline = time.monotonic() + timeout
    start = _Start(configuration, run_dir, lifetime, wish, deadline, supervised)
    with run_dir.lock(timeout):
        plan, launch = start.begin()
    # Without the lock, by which a daemon that has died meanwhile is restarted.
    with launch.undone_on_failure():
        launch.finish()
    return start.result(plan, launch.names)


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
            for port, one in zip(_free_ports(()), shared.nodes, strict=False)
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

    def result(self, plan: Plan, started: tuple[str, ...]) -> ClusterHandle:
        """Wait for all nodes of the plan to register; the resulting cluster."""
        wanted = len(plan.nodes)
        with Connection(self.run_dir.rm_socket) as connection:
            request = WaitForNodesRequest(wanted, int(self._left() * 1000))
            connection.call(request, timeout=self._left() + CALL_SECONDS)
        seen = look(self.run_dir, timeout=CALL_SECONDS)
        self.warnings += seen.info.warnings
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
            if name == HOSTED_MASTERS and not asked:
                continue
            running_with, wish = (to_text(one) or quoted("") for one in (there, asked))
            found.append(f"running with {name}={running_with}, you asked for {wish} ({wanted.origin(name)})")
    return found


# -- one daemon ----------------------------------------------------------------------------------------


def start_rm(configuration: Configuration, run_dir: RunDir, *, timeout: float = START_SECONDS) -> bool:
    """Start the RM alone; False if it was already running."""
    with _prepared(configuration, run_dir, timeout) as plan:
        if run_dir.daemon("rm") is not None:
            return False
        write_plan(run_dir, Plan(plan.nodes, STAY))
        start_daemons(run_dir, [resourcemanager(run_dir, STAY, WATCHED)], timeout=timeout)
        return True


def run_rm(configuration: Configuration, run_dir: RunDir, *, announce: bool = False) -> NoReturn:
    """Become the RM, in the foreground; with ``announce`` it prints JSON when it serves. Does not return."""
    with _prepared(configuration, run_dir, START_SECONDS) as plan:
        _refuse_running(run_dir, "rm")
        write_plan(run_dir, Plan(plan.nodes, STAY))
    _become(resourcemanager(run_dir, STAY), announce)


def start_nms(
    configuration: Configuration,
    run_dir: RunDir,
    *,
    port: int | None = None,
    wish: Wish = Wish(),
    timeout: float = START_SECONDS,
) -> tuple[PlannedNode, ...]:
    """Start the planned nodes that do not run; or the one at ``port``; or, if a size is given, a new one.

    Returns the started nodes. Raises ConnectionFailedError if no RM runs: a node is ready
    only after it has registered.
    """
    run_dir.prepare()
    if run_dir.daemon("rm") is None:
        raise ConnectionFailedError(
            "the ResourceManager is not running",
            because=f"no process holds {run_dir.pid_file('rm')}",
            hint="`yopp rm start`, or `yopp up`",
        )
    with _prepared(configuration, run_dir, timeout) as plan:
        chosen = _choose(configuration, run_dir, plan, port, wish)
        orders = [nodemanager(run_dir, node, plan.lifetime, WATCHED) for node in chosen]
        new = [node for node in chosen if node not in plan.nodes]
        launch = Launch(run_dir, orders, timeout=timeout, undo=lambda: _take_from_plan(run_dir, new))
        with launch.undone_on_failure(locked=True):
            launch.begin()
            _add_to_plan(run_dir, plan, chosen)
    with launch.undone_on_failure():
        launch.finish()
    return chosen


def run_nm(
    configuration: Configuration,
    run_dir: RunDir,
    *,
    port: int | None = None,
    wish: Wish = Wish(),
    announce: bool = False,
) -> NoReturn:
    """Become an NM, in the foreground: a planned one or a new one. Does not return."""
    with _prepared(configuration, run_dir, START_SECONDS) as plan:
        if port is not None:
            _refuse_running(run_dir, f"nm-{port}")
        chosen = _choose(configuration, run_dir, plan, port, wish)
        if not chosen:
            _refuse_running(run_dir, plan.nodes[0].name)
        _add_to_plan(run_dir, plan, chosen[:1])
    _become(nodemanager(run_dir, chosen[0], plan.lifetime), announce)


@contextlib.contextmanager
def _prepared(configuration: Configuration, run_dir: RunDir, timeout: float) -> Iterator[Plan]:
    """Hold the lock of the run directory; remove the files of dead daemons, write the configuration if no
    daemon runs or it is missing, and an empty plan if there is none, or only that of a job's cluster that has ended.
    A cluster that stays keeps its stored configuration, unless this command sets something else. Yields the plan."""
    run_dir.prepare()
    set_aside(run_dir)
    with run_dir.lock(timeout):
        run_dir.remove_stale_files()
        alive, plan = bool(run_dir.daemons()), read_plan(run_dir)
        stays = plan is not None and plan.lifetime == STAY
        stored = running_configuration(run_dir) if stays else None
        goes_on = alive or (stored is not None and not configuration.differences(stored))
        if not goes_on or run_dir.read(SITE) is None:
            run_dir.write(SITE, configuration.to_json())
        if plan is None or not (alive or stays):
            write_plan(run_dir, plan := Plan())
        yield plan


def _choose(
    configuration: Configuration, run_dir: RunDir, plan: Plan, port: int | None, wish: Wish
) -> tuple[PlannedNode, ...]:
    """The nodes to start: planned ones that do not run, or a new one, if a size or an unknown port is given,
    or nothing is planned."""
    if port is not None and run_dir.daemon(f"nm-{port}") is not None:
        return ()
    sized = wish != Wish()
    kept = tuple(node for node in plan.nodes if port in (None, node.port))
    if (
        port is not None
        and kept
        and sized
        and (kept[0].memory, kept[0].vcores) != (wish.memory_mb, wish.vcores)
    ):
        raise YoppError(
            f"the node on port {port} has another size",
            because=f"it has {kept[0].memory} MB and {kept[0].vcores} vcores",
            hint="leave --memory and --vcores out, or start a new node without naming a port",
        )
    if kept and (port is not None or not sized):
        return tuple(node for node in kept if run_dir.daemon(node.name) is None)
    taken = sum((Resource(node.memory, node.vcores) for node in plan.nodes), Resource())
    size = plan_capacity(configuration, wish, taken=taken).nodes[0]
    new = port if port is not None else next(_free_ports(node.port for node in plan.nodes))
    others = [node for node in plan.nodes if node.port != new]
    return with_gpus(configuration, (PlannedNode(new, size.memory, size.vcores),), others)


def _add_to_plan(run_dir: RunDir, plan: Plan, nodes: Sequence[PlannedNode]) -> None:
    added = tuple(node for node in nodes if node not in plan.nodes)
    write_plan(run_dir, Plan((*plan.nodes, *added), plan.lifetime))


def _take_from_plan(run_dir: RunDir, nodes: Container[PlannedNode]) -> None:
    """Undo ``_add_to_plan``; another command may have ended the cluster meanwhile."""
    if (plan := read_plan(run_dir)) is not None:
        write_plan(run_dir, Plan(tuple(node for node in plan.nodes if node not in nodes), plan.lifetime))


def _free_ports(used: Iterable[int]) -> Iterator[int]:
    """Ports for new nodes, from 45454 up, without those in ``used``. They are only names: nothing
    listens on them."""
    taken = set(used)
    return (port for port in range(FIRST_PORT, LAST_PORT + 1) if port not in taken)


def running_nm(run_dir: RunDir, port: int | None) -> str:
    """The name of the NM at ``port`` that runs, or has died and is being restarted; without a port, of the
    only such NM; "" for none. Raises UsageError if there are several."""
    known = {daemon.name for daemon in run_dir.daemons()} | {*watched_names(run_dir)}
    ports = sorted(found for name in known - {"rm"} if port in (None, found := int(name.removeprefix("nm-"))))
    if len(ports) > 1:
        names = " or ".join(map(str, ports))
        raise UsageError("which node?", because=f"{len(ports)} are running", hint=f"name its port: {names}")
    return f"nm-{ports[0]}" if ports else ""


def port_of(text: str | None) -> int | None:
    """The port in ``45454``, ``nm-45454`` or ``host:45454``; None for None. Raises NodeNotFoundError for
    other text."""
    if text is None:
        return None
    digits = text.rpartition(":")[2].removeprefix("nm-")
    if not digits.isascii() or not digits.isdigit() or not 0 < int(digits) < 65536:
        raise NodeNotFoundError(
            f"no node {text!r}",
            because="no NodeManager of this run directory has that name",
            hint="name it as `yopp node list` does, or by its port",
            sought=text,
        )
    return int(digits)


def _refuse_running(run_dir: RunDir, name: str) -> None:
    daemon = run_dir.daemon(name)
    if daemon is not None:
        raise YoppError(
            f"{name} is already running",
            because=f"process {daemon.process.pid} holds {run_dir.pid_file(name)}",
            hint=f"`yopp {name[:2]} stop` ends it",
        )


def _become(order: Order, announce: bool) -> NoReturn:
    environment = daemon_environment(os.environ)
    if is_managed():  # a service manager expects messages from this very process
        environment[SOCKET] = os.environ[SOCKET]
    command = [*command_line(order), "--log-to-stderr", *(["--announce"] if announce else [])]
    os.execve(command[0], command, environment)
