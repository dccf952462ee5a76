"""``yopp nm``: one NodeManager."""

from __future__ import annotations

from typing import Annotated

import typer

from ...errors import UsageError
from ...records.reports import NodeState
from ..frame.command import Needs, command
from ..frame.context import Context
from ..frame.options import (
    Color,
    Conf,
    Define,
    DryRun,
    Format,
    Json,
    NoWait,
    Output,
    Quiet,
    RunDirOption,
    Timeout,
    examples,
    new_typer,
)
from ..frame.output import WORDS, Printer
from ..frame.session import Session
from ..looking import node_changes
from .down import Force
from .rm import as_it_is
from .up import Memory, Vcores

Node = Annotated[
    str | None,
    typer.Argument(
        metavar="[NODE]", help="Its port, or its name as in `yopp node list`. [default: the only one]"
    ),
]


def register(app: typer.Typer) -> None:
    """Add the group ``nm``."""
    group = new_typer(help="Start, stop or run one NodeManager.")
    group.command("start", epilog=examples("yopp nm start", "yopp nm start --memory 512 --vcores 1"))(start)
    group.command("stop", epilog=examples("yopp nm stop", "yopp nm stop 45455"))(stop)
    group.command("restart", epilog=examples("yopp nm restart", "yopp nm restart 45455"))(restart)
    group.command("status", epilog=examples("yopp nm status", "yopp nm status 45455 --json"))(status)
    group.command("run", epilog=examples("yopp nm run", "yopp nm run 45454 --memory 2G --vcores 2"))(run)
    app.add_typer(group, name="nm")


def _port(node: str | None) -> int | None:
    from ...cluster.starting import port_of

    return None if node is None else port_of(node)


NewNode = Annotated[
    str | None,
    typer.Argument(
        metavar="[NODE]", help="Its port, or its name as in `yopp node list`. [default: all that are missing]"
    ),
]


def start(
    node: NewNode = None,
    memory: Memory = None,
    vcores: Vcores = None,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    timeout: Timeout = None,
    quiet: Quiet = False,
    json: Json = False,
    output: Output = None,
) -> None:
    """Start the missing nodes, NODE, or a new one.

    A size (--memory, --vcores) asks for a new node, beside those that there are. The ResourceManager has to
    run.
    """
    from ...cluster.capacity import Wish
    from ...cluster.starting import START_SECONDS, start_nms

    context = Context.of(conf=conf, define=define, run_dir=run_dir)
    printer = Printer.of(output=output, json=json, quiet=quiet)
    for line in context.configuration.warnings:
        printer.warn(line)
    started = start_nms(
        context.configuration,
        context.run_dir,
        port=_port(node),
        wish=Wish(None, memory, vcores),
        timeout=timeout or START_SECONDS,
    )
    for one in started:
        printer.note(f"{one.name} started: {one.vcores} vcores, {one.memory} MB")
    if not started:
        printer.note("every node runs already")
    as_it_is(printer, context)


def stop(
    node: Node = None,
    force: Force = False,
    run_dir: RunDirOption = None,
    timeout: Timeout = None,
    quiet: Quiet = False,
    json: Json = False,
    output: Output = None,
) -> None:
    """End one NodeManager.

    Its containers go on if yarn.nodemanager.recovery.enabled is on, and its next life finds them. It does not
    run: fine.
    """
    from ...cluster.ending import STOP_SECONDS, stop_daemon
    from ...cluster.starting import running_nm

    printer = Printer.of(output=output, json=json, quiet=quiet)
    context = Context.of(run_dir=run_dir)
    daemon = running_nm(context.run_dir, _port(node))
    stopped = daemon is not None and stop_daemon(
        context.run_dir, daemon.name, force=force, timeout=timeout or STOP_SECONDS
    )
    printer.note(f"{daemon.name} stopped" if daemon is not None and stopped else "no such node is running")
    as_it_is(printer, context)


def restart(
    node: Node = None,
    force: Force = False,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    timeout: Timeout = None,
    quiet: Quiet = False,
    json: Json = False,
    output: Output = None,
) -> None:
    """Stop and start one NodeManager, of the same size."""
    from ...cluster.starting import running_nm

    Printer.of(output=output, json=json, quiet=quiet)  # what is wrong with these is said before anything ends
    context = Context.of(conf=conf, define=define, run_dir=run_dir)
    living = running_nm(context.run_dir, _port(node))
    chosen = node if living is None else str(living.port)
    stop(chosen, force, run_dir, timeout, quiet, output=Format.name)  # of the two answers, the second
    start(chosen, None, None, conf, define, run_dir, timeout, quiet, json, output)


def status(
    node: Node = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    color: Color = None,
) -> int:
    """Say whether NODE, or every node, runs.

    Exit code 0 if it does, 3 if it is stopped, 4 if it is not ready.
    """
    from ...cluster.inspection import cluster_document, inspect_cluster
    from ...errors import EXIT_NOT_RUNNING, NodeNotFoundError
    from .status import EXIT_PARTLY, daemons, node_line

    printer = Printer.of(output=output, json=json, quiet=quiet, color=color)
    seen = inspect_cluster(Context.of(run_dir=run_dir).run_dir)
    port = _port(node)
    chosen = [one for one in seen.nodes if port is None or one.port == port]
    if port is not None and seen.nodes and not chosen:
        raise NodeNotFoundError(
            f"no node {node}",
            because="no NodeManager of this run directory has that port",
            hint="`yopp nm status` lists those of this cluster",
            sought=node or "",
        )
    if printer.is_json:
        printer.document(cluster_document(seen))
    elif not printer.for_people:
        daemons(printer, seen, rm=False, port=port)
    elif not chosen:
        printer.text("nm stopped")
    else:
        printer.text("\n".join(f"nm {node_line(seen, one)}" for one in chosen))
    if all(one.daemon is None for one in chosen):
        return EXIT_NOT_RUNNING
    return 0 if all(one.ready for one in chosen) else EXIT_PARTLY


def run(
    node: Node = None,
    memory: Memory = None,
    vcores: Vcores = None,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
) -> None:
    """Be one NodeManager, in the foreground.

    For systemd, or to watch it. It ends with SIGTERM or Ctrl-C. With --json it prints one object when it serves.
    """
    from ...cluster.capacity import Wish
    from ...cluster.starting import run_nm

    printer = Printer.of(output=output, json=json, forms=WORDS)
    context = Context.of(conf=conf, define=define, run_dir=run_dir)
    for line in context.configuration.warnings:
        printer.warn(line)
    run_nm(
        context.configuration,
        context.run_dir,
        port=_port(node),
        wish=Wish(None, memory, vcores),
        announce=printer.is_json,
    )


@command("nm drain", "yopp nm drain 45455", "yopp nm drain 45455 --kill-after 10m", needs=Needs.HOST)
def drain(
    session: Session,
    node: Node = None,
    kill_after: node_changes.KillAfter = None,
    no_wait: NoWait = False,
    timeout: Timeout = None,
    dry_run: DryRun = False,
) -> int:
    """Give NODE nothing more, and wait until what it has has ended, as `yopp node drain` does."""
    session.yes = True
    chosen = _the_node(node, session.context, "drain")
    return node_changes.drain(session, chosen, kill_after, no_wait, timeout, dry_run)


@command("nm resume", "yopp nm resume", "yopp nm resume 45455", needs=Needs.HOST)
def resume(session: Session, node: Node = None, dry_run: DryRun = False) -> int:
    """Use a drained (or draining) NODE again, as `yopp node resume` does."""
    session.yes = True
    return node_changes.resume(session, _the_node(node, session.context, "resume"), dry_run)


_DRAINED = (NodeState.DECOMMISSIONING, NodeState.DECOMMISSIONED)


def _the_node(node: str | None, context: Context, verb: str) -> list[str]:
    """The node that was named, or the only one that is meant: to ``resume``, of several, the drained one.

    Raises UsageError.
    """
    if node is not None:
        return [node]
    with context.client() as client:
        there = [one for one in client.nodes() if one.state not in (NodeState.LOST, NodeState.SHUTDOWN)]
    known = [one.node_id for one in there]
    drained = [one.node_id for one in there if one.state in _DRAINED]
    if verb == "resume" and drained:
        known = drained
    if len(known) != 1:
        raise UsageError(
            "which node?",
            because=f"there are {len(known)}: {', '.join(known)}" if known else "there is none",
            hint=f"yopp nm {verb} {known[0]}" if known else "yopp nm start",
        )
    return known
