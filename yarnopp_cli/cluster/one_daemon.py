"""One daemon at a time: what ``yopp rm`` and ``yopp nm`` start and stop, and what they run in the
foreground."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

from executor.records import Resource

from ..errors import ConnectionFailedError, NodeNotFoundError, UsageError, YoppError
from .capacity_plan import Wish
from .launching import Order, command_line, daemon_environment, nodemanager, resourcemanager, start_daemons
from .lifecycle import (
    START_SECONDS,
    STAY,
    Plan,
    PlannedNode,
    free_ports,
    plan_capacity,
    read_plan,
    stop_daemon,
    write_plan,
)
from .rundir import Daemon, RunDir

if TYPE_CHECKING:
    from ..settings.loading import Configuration


def start_rm(configuration: Configuration, run_dir: RunDir, *, timeout: float = START_SECONDS) -> bool:
    """Start the RM alone; False if it ran already."""
    run_dir.prepare()
    with run_dir.lock(timeout):
        if run_dir.daemon("rm") is not None:
            return False
        run_dir.remove_leftovers()
        _write_site(configuration, run_dir)
        if read_plan(run_dir) is None:
            write_plan(run_dir, Plan())
        start_daemons(run_dir, [resourcemanager(run_dir, STAY)], timeout=timeout)
        return True


def stop_rm(run_dir: RunDir, *, force: bool = False, timeout: float = START_SECONDS) -> bool:
    """End the RM alone; False if it did not run. Nodes go on, and join the next RM."""
    if not run_dir.exists():
        return False
    with run_dir.lock(timeout):
        daemon = run_dir.daemon("rm")
        if daemon is not None:
            stop_daemon(daemon, run_dir, force=force, timeout=timeout)
        return daemon is not None


def start_nms(
    configuration: Configuration,
    run_dir: RunDir,
    *,
    port: int | None = None,
    memory: int | None = None,
    vcores: int | None = None,
    timeout: float = START_SECONDS,
) -> tuple[PlannedNode, ...]:
    """Start the nodes that the cluster shall have and has not; or the one of ``port``; or, sized, a new one.

    Returns those that were started. Raises ConnectionFailedError where no RM runs: a node is ready when it
    has registered.
    """
    run_dir.prepare()
    with run_dir.lock(timeout):
        if run_dir.daemon("rm") is None:
            raise ConnectionFailedError(
                "no ResourceManager runs here",
                because="nobody holds its pid file",
                hint="`yopp rm start`, or `yopp up`",
            )
        plan = read_plan(run_dir) or Plan()
        chosen = _choose(configuration, run_dir, plan, port, Wish(None, memory, vcores))
        run_dir.remove_leftovers()
        known = {node.port for node in plan.nodes}
        orders = [nodemanager(run_dir, node.port, node.memory, node.vcores, plan.lifetime) for node in chosen]
        start_daemons(run_dir, orders, timeout=timeout)
        added = tuple(node for node in chosen if node.port not in known)
        write_plan(run_dir, Plan((*plan.nodes, *added), plan.lifetime))
        return chosen


def _choose(
    configuration: Configuration, run_dir: RunDir, plan: Plan, port: int | None, wish: Wish
) -> tuple[PlannedNode, ...]:
    """The nodes to start: of those planned, those that do not live; else a new one, if any is wanted."""
    sized = wish != Wish()
    if port is not None:
        kept = next((node for node in plan.nodes if node.port == port), None)
        if run_dir.daemon(f"nm-{port}") is not None:
            return ()
        if kept is not None and sized and (kept.memory, kept.vcores) != (wish.memory_mb, wish.vcores):
            raise YoppError(
                f"the node of port {port} has another size",
                because=f"it was started with {kept.memory} MB and {kept.vcores} vcores",
                hint="leave --memory and --vcores out, or start a new node without naming a port",
            )
        return (kept,) if kept is not None else (_new_node(configuration, plan, port, wish),)
    missing = tuple(node for node in plan.nodes if run_dir.daemon(node.name) is None)
    if missing and not sized:
        return missing
    if plan.nodes and not sized:
        return ()
    return (_new_node(configuration, plan, None, wish),)


def _new_node(configuration: Configuration, plan: Plan, port: int | None, wish: Wish) -> PlannedNode:
    taken = Resource()
    for node in plan.nodes:
        taken += Resource(node.memory, node.vcores)
    sizes, _ = plan_capacity(configuration, wish, taken=taken)
    chosen = port if port is not None else next(iter(free_ports(node.port for node in plan.nodes)))
    return PlannedNode(chosen, sizes[0].memory, sizes[0].vcores)


def stop_nms(
    run_dir: RunDir, port: int | None, *, force: bool = False, timeout: float = START_SECONDS
) -> tuple[str, ...]:
    """End the node of ``port``, or the only one; names of those that were ended, none if it did not run."""
    if not run_dir.exists():
        return ()
    with run_dir.lock(timeout):
        daemon = living_nm(run_dir, port)
        if daemon is None:
            return ()
        stop_daemon(daemon, run_dir, force=force, timeout=timeout)
        return (daemon.name,)


def living_nm(run_dir: RunDir, port: int | None) -> Daemon | None:
    """The living NM of that port; without a port, the only one. UsageError where several could be meant."""
    if port is not None:
        return run_dir.daemon(f"nm-{port}")
    living = [daemon for daemon in run_dir.daemons() if daemon.port]
    if len(living) > 1:
        names = " or ".join(str(daemon.port) for daemon in living)
        raise UsageError("which node?", because=f"{len(living)} of them run", hint=f"name its port: {names}")
    return living[0] if living else None


def port_of(text: str) -> int:
    """The port in ``45454``, ``nm-45454`` or ``host:45454``. Raises NodeNotFoundError for anything else."""
    digits = text.rpartition(":")[2].removeprefix("nm-")
    if not digits.isascii() or not digits.isdigit() or not 0 < int(digits) < 65536:
        raise NodeNotFoundError(
            f"no node {text!r}",
            because="no NodeManager of this run directory has that name",
            hint="name it as `yopp node list` does, or by its port",
            sought=text,
        )
    return int(digits)


def run_rm(configuration: Configuration, run_dir: RunDir, *, announce: bool = False) -> NoReturn:
    """Become the RM, in the foreground; with ``announce`` it says in JSON when it serves. Does not return."""
    run_dir.prepare()
    with run_dir.lock():
        _refuse_living(run_dir, "rm")
        run_dir.remove_leftovers()
        _write_site(configuration, run_dir)
        if read_plan(run_dir) is None:
            write_plan(run_dir, Plan())
    _become(resourcemanager(run_dir, STAY), announce)


def run_nm(
    configuration: Configuration,
    run_dir: RunDir,
    *,
    port: int | None = None,
    memory: int | None = None,
    vcores: int | None = None,
    announce: bool = False,
) -> NoReturn:
    """Become one NM, in the foreground, of the planned size or a new one; with ``announce`` it says in JSON when it
    serves. Does not return."""
    run_dir.prepare()
    with run_dir.lock():
        if port is not None:
            _refuse_living(run_dir, f"nm-{port}")
        run_dir.remove_leftovers()
        _write_site(configuration, run_dir)
        plan = read_plan(run_dir) or Plan()
        chosen = _choose(configuration, run_dir, plan, port, Wish(None, memory, vcores))
        if not chosen:
            _refuse_living(run_dir, plan.nodes[0].name)
        node = chosen[0]
        if node not in plan.nodes:
            write_plan(run_dir, Plan((*plan.nodes, node), plan.lifetime))
    _become(nodemanager(run_dir, node.port, node.memory, node.vcores, plan.lifetime), announce)


def _refuse_living(run_dir: RunDir, name: str) -> None:
    daemon = run_dir.daemon(name)
    if daemon is not None:
        raise YoppError(
            f"{name} runs already",
            because=f"process {daemon.process.pid} holds {run_dir.pid_file(name)}",
            hint=f"`yopp {name[:2]} stop` ends it",
        )


def _write_site(configuration: Configuration, run_dir: RunDir) -> None:
    """Write the configuration down, unless daemons that live go by the one that is there."""
    if not run_dir.daemons() or run_dir.read("site.json") is None:
        run_dir.write("site.json", configuration.to_json())


def _become(order: Order, announce: bool) -> NoReturn:
    environment = daemon_environment(os.environ)
    if "NOTIFY_SOCKET" in os.environ:  # a service manager waits to hear from this very process
        environment["NOTIFY_SOCKET"] = os.environ["NOTIFY_SOCKET"]
    command = [*command_line(order), "--log-to-stderr", *(["--announce"] if announce else [])]
    os.execve(command[0], command, environment)
