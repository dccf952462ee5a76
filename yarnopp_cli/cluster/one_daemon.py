"""Starts one daemon of a cluster: ``yopp rm start``, ``nm start``, and in the foreground ``rm run``, ``nm run``.

The daemon is added to the plan of the run directory, whose lock is held meanwhile. Prints nothing and asks the user
nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Container, Iterator, Sequence

from executor.hints import TYPE_CHECKING
from executor.records import Resource

from ..errors import ConnectionFailedError, NodeNotFoundError, UsageError, YoppError
from ..records.client_protocol import WaitForNodesRequest
from ..records.reports import STAY
from ..rpc.blocking import Connection
from .capacity import Wish, plan_capacity
from .gpus import with_gpus
from .launching import (
    START_SECONDS,
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
from .obstacles import await_files, clear_obstacles
from .plan import Plan, PlannedNode, free_ports, read_plan, running_configuration, write_plan
from .rundir import SITE, RunDir
from .watched import watched_names

if TYPE_CHECKING:
    from typing import NoReturn

    from ..settings.loading import Configuration

JOIN_SECONDS = 2.0
"""How long the start of an RM waits for running nodes; one that hangs, is drained or is unhealthy costs all of it."""


def start_rm(configuration: Configuration, run_dir: RunDir, *, timeout: float = START_SECONDS) -> bool:
    """Start the RM alone, and have the running nodes join it; False if it was already running."""
    with _prepared(configuration, run_dir, timeout) as plan:
        if run_dir.daemon("rm") is not None:
            return False
        write_plan(run_dir, Plan(plan.nodes, STAY))
        start_daemons(run_dir, [resourcemanager(run_dir, STAY, WATCHED)], timeout=timeout)
    nodes = sum(bool(daemon.port) for daemon in run_dir.daemons())
    # Until they have joined, it knows no container, and lists would say that none is live.
    with contextlib.suppress(YoppError), Connection(run_dir.rm_socket) as connection:
        connection.call(WaitForNodesRequest(nodes, int(JOIN_SECONDS * 1000)), timeout=2 * JOIN_SECONDS)
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
    clear_obstacles(run_dir)
    await_files(run_dir)
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
    new = port if port is not None else next(free_ports(node.port for node in plan.nodes))
    others = [node for node in plan.nodes if node.port != new]
    return with_gpus(configuration, (PlannedNode(new, size.memory, size.vcores),), others)


def _add_to_plan(run_dir: RunDir, plan: Plan, nodes: Sequence[PlannedNode]) -> None:
    added = tuple(node for node in nodes if node not in plan.nodes)
    write_plan(run_dir, Plan((*plan.nodes, *added), plan.lifetime))


def _take_from_plan(run_dir: RunDir, nodes: Container[PlannedNode]) -> None:
    """Undo ``_add_to_plan``; another command may have ended the cluster meanwhile."""
    if (plan := read_plan(run_dir)) is not None:
        write_plan(run_dir, Plan(tuple(node for node in plan.nodes if node not in nodes), plan.lifetime))


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
