"""``yopp rm`` and ``yopp nm``: start, stop, run and show the ResourceManager alone, or one NodeManager."""

from __future__ import annotations

from executor.hints import TYPE_CHECKING, Any

from ...errors import EXIT_NOT_RUNNING, NodeNotFoundError, UsageError
from ...machine.life import START_SECONDS, STOP_SECONDS, NodeSizeRequest, OneRm, Plan, SomeNodes, Stop
from ...records.reports import DRAINED, GONE
from ...views.text import vcores as vcores_text
from ..frame.command import Needs, command
from ..frame.options import Annotated, Live, Timeout, argument
from ..frame.output import WORDS
from ..frame.session import Session
from ..looking import node as node_commands
from .down import Force
from .status import EXIT_PARTLY, node_line, tell
from .up import Memory, Vcores

if TYPE_CHECKING:
    from ...cluster.rundir import RunDir


def _node(default: str) -> Any:
    """The argument that names a node of this host."""
    return argument("[NODE]", f"Its port or its id in `yopp node list`. [default: {default}]")


_NODES = Live(("node",))
Node = Annotated[str | None, _node("the only one"), _NODES]
NewNode = Annotated[str | None, _node("all that are not running"), _NODES]
AnyNode = Annotated[str | None, _node("every node"), _NODES]
OneNode = Annotated[str | None, _node("the first that is not running, or a new one"), _NODES]


# -- the ResourceManager -------------------------------------------------------------------------------


@command("rm start", "yopp rm start", "yopp rm start -q", needs=Needs.HOST)
def start_rm(session: Session, timeout: Timeout = None) -> None:
    """Start only the ResourceManager.

    Add nodes with `yopp nm start`. Succeeds if it is already running.
    """
    started = _start(session, OneRm(), timeout)
    session.printer.note(f"rm {'started' if started else 'is already running'}: {session.run_dir.rm_socket}")
    _answer(session)


@command("rm stop", "yopp rm stop", "yopp rm stop --force", needs=Needs.HOST)
def stop_rm(session: Session, force: Force = False, timeout: Timeout = None) -> None:
    """Stop only the ResourceManager.

    Its nodes keep running, and register with the next ResourceManager. Succeeds if it is already stopped.
    """
    _stop(session, "rm", force, timeout)
    _answer(session)


@command("rm restart", "yopp rm restart", "yopp rm restart --force", needs=Needs.HOST)
def restart_rm(session: Session, force: Force = False, timeout: Timeout = None) -> None:
    """Stop and start the ResourceManager.

    Applications continue if yarn.resourcemanager.recovery.enabled is on; otherwise the new ResourceManager does not
    know them.
    """
    _stop(session, "rm", force, timeout)
    start_rm(session, timeout)


@command("rm status", "yopp rm status", "yopp rm status --json", needs=Needs.HOST)
def status_of_rm(session: Session) -> int:
    """Show whether the ResourceManager is running.

    Exit code 0 if it answers, 3 if it is stopped, 4 if it does not answer.
    """
    from ...cluster.inspection import inspect_cluster

    seen = inspect_cluster(session.run_dir)
    if seen.rm is None:
        tell(session.printer, seen, "rm stopped", ids=[], port=0)
        return EXIT_NOT_RUNNING
    words = "running" if seen.info is not None else "does not answer"
    text = f"rm {words}: process {seen.rm.process.pid}, {seen.run_dir.rm_socket}"
    tell(session.printer, seen, text, ids=["rm"], port=0)
    return 0 if seen.info is not None else EXIT_PARTLY


@command(
    "rm run",
    "yopp rm run",
    "exec yopp rm run --run-dir /run/yopp",
    needs=Needs.QUIET_HOST,
    forms=WORDS,
    bounded=False,
)
def run_rm(session: Session) -> None:
    """Run the ResourceManager in the foreground.

    For systemd or for debugging. SIGTERM or Ctrl-C ends it. With --json it prints one object when it is
    ready.
    """
    _become(session, OneRm(foreground=True))


# -- one NodeManager -----------------------------------------------------------------------------------


@command("nm start", "yopp nm start", "yopp nm start --memory 512 --vcores 1", needs=Needs.HOST)
def start_nm(
    session: Session,
    node: NewNode = None,
    memory: Memory = None,
    vcores: Vcores = None,
    timeout: Timeout = None,
) -> None:
    """Start all nodes that are not running, only NODE, or a new one.

    With a size (--memory, --vcores), a new node is added to the existing ones. The ResourceManager must be
    running.
    """
    from ...cluster.state import read_plan

    started = _start(session, SomeNodes(port_of(node), NodeSizeRequest(None, memory, vcores)), timeout)
    for one in (read_plan(session.run_dir) or Plan()).nodes:
        if one.name in started:
            session.printer.note(f"{one.name} started: {vcores_text(one.vcores)}, {one.memory} MB")
    if not started:
        session.printer.note("every node is already running")
    _answer(session)


@command("nm stop", "yopp nm stop", "yopp nm stop 45455", needs=Needs.HOST)
def stop_nm(session: Session, node: Node = None, force: Force = False, timeout: Timeout = None) -> None:
    """Stop one NodeManager.

    Its containers keep running if yarn.nodemanager.recovery.enabled is on, and the next start recovers them. Succeeds
    if it is already stopped.
    """
    _stop(session, running_nm(session.run_dir, port_of(node)), force, timeout)
    _answer(session)


@command("nm restart", "yopp nm restart", "yopp nm restart 45455", needs=Needs.HOST)
def restart_nm(session: Session, node: Node = None, force: Force = False, timeout: Timeout = None) -> None:
    """Stop one NodeManager, and start it with the same size."""
    name = running_nm(session.run_dir, port_of(node))
    _stop(session, name, force, timeout)
    start_nm(session, name or node, timeout=timeout)


@command("nm status", "yopp nm status", "yopp nm status 45455 --json", needs=Needs.HOST)
def status_of_nm(session: Session, node: AnyNode = None) -> int:
    """Show whether NODE, or every node, is running.

    Exit code 0 if it is running, 3 if it is stopped, 4 if it is not ready.
    """
    from ...cluster.inspection import inspect_cluster

    port = port_of(node)
    seen = inspect_cluster(session.run_dir)
    chosen = [one for one in seen.nodes if port is None or one.port == port]
    if port is not None and seen.nodes and not chosen:
        raise NodeNotFoundError(
            f"no node {node}",
            because="no NodeManager of this run directory has that port",
            hint="`yopp nm status` lists those of this cluster",
            sought=node or "",
        )
    text = "\n".join(f"nm {node_line(seen, one)}" for one in chosen) or "nm stopped"
    tell(session.printer, seen, text, rm=False, port=port)
    if all(one.daemon is None for one in chosen):
        return EXIT_NOT_RUNNING
    return 0 if all(one.ready for one in chosen) else EXIT_PARTLY


@command(
    "nm run",
    "yopp nm run",
    "yopp nm run 45454 --memory 2G --vcores 2",
    needs=Needs.QUIET_HOST,
    forms=WORDS,
    bounded=False,
)
def run_nm(session: Session, node: OneNode = None, memory: Memory = None, vcores: Vcores = None) -> None:
    """Run one NodeManager in the foreground.

    For systemd or for debugging. SIGTERM or Ctrl-C ends it. With --json it prints one object when it is
    ready.
    """
    _become(session, SomeNodes(port_of(node), NodeSizeRequest(None, memory, vcores), foreground=True))


@command(
    "nm drain",
    "yopp nm drain 45455",
    "yopp nm drain 45455 --kill-after 10m",
    needs=Needs.HOST,
    tries=True,
    waits=True,
)
def drain(session: Session, node: Node = None, kill_after: node_commands.KillAfter = None) -> None:
    """Stop scheduling on NODE and wait for its containers to end, as `yopp node drain` does."""
    session.yes = True
    chosen = _the_node(node, session, "drain")
    node_commands.drain(session, chosen, kill_after)


@command("nm resume", "yopp nm resume", "yopp nm resume 45455", needs=Needs.HOST, tries=True)
def resume(session: Session, node: Node = None) -> None:
    """Use a drained (or draining) NODE again, as `yopp node resume` does."""
    session.yes = True
    node_commands.resume(session, _the_node(node, session, "resume"))


# -- common parts --------------------------------------------------------------------------------------


def _start(session: Session, wanted: OneRm | SomeNodes, timeout: float | None) -> tuple[str, ...]:
    from ...cluster.lifecycle import start

    return start(session.run_dir, wanted, session.configured(), timeout or START_SECONDS)


def _become(session: Session, wanted: OneRm | SomeNodes) -> None:
    from ...cluster.lifecycle import become

    become(session.run_dir, wanted, session.configured(), announce=session.printer.is_json)


def _stop(session: Session, name: str, force: bool, timeout: float | None) -> None:
    from ...cluster.lifecycle import end

    if name and end(session.run_dir, Stop(name, timeout or STOP_SECONDS), force=force).names:
        session.printer.note(f"{name} stopped")
    else:
        session.printer.note(f"{name or 'the node'} was not running")


def _answer(session: Session) -> None:
    """Print the cluster afterwards, for programs; users have read the result."""
    from ...cluster.inspection import inspect_cluster

    if session.printer.is_json or session.printer.form == "tsv":
        tell(session.printer, inspect_cluster(session.run_dir), "")


def _the_node(node: str | None, session: Session, verb: str) -> list[str]:
    """The named node, or the only one; for ``resume`` the only drained one.

    Raises UsageError.
    """
    if node is not None:
        return [node]
    there = [one for one in session.client.nodes() if one.state not in GONE]
    known = [one.node_id for one in there]
    drained = [one.node_id for one in there if one.state in DRAINED]
    if verb == "resume" and drained:
        known = drained
    if len(known) != 1:
        raise UsageError(
            "which node?",
            because=f"there are {len(known)}: {', '.join(known)}" if known else "there is none",
            hint=f"yopp nm {verb} {known[0]}" if known else "yopp nm start",
        )
    return known


def running_nm(run_dir: RunDir, port: int | None) -> str:
    """The name of the NM at ``port`` that runs, or has died and is being restarted; without a port, of the
    only such NM; "" for none. Raises UsageError if there are several."""
    from ...cluster.state import watched_names

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
