"""``yopp up``: a cluster that stays, ready when the command returns."""

from __future__ import annotations

from typing import Annotated

import typer

from ...errors import UsageError
from ...views.text import number_of
from ..frame.context import Context
from ..frame.options import (
    Color,
    Conf,
    Define,
    Json,
    Output,
    Quiet,
    RunDirOption,
    Timeout,
    Verbose,
    examples,
    size_mb,
)
from ..frame.output import Printer

Nodes = Annotated[
    int | None,
    typer.Option("--nodes", metavar="N", help="How many NodeManagers share this machine. [default: 1]"),
]
Memory = Annotated[
    int | None,
    typer.Option(
        "--memory",
        metavar="MB",
        parser=size_mb,
        help="Memory of each node: 4096, 4G. [default: all there is]",
    ),
]
Vcores = Annotated[
    int | None,
    typer.Option("--vcores", metavar="V", help="Vcores of each node. [default: the cores, divided]"),
]


Ports = Annotated[
    str | None,
    typer.Option(
        "--ports",
        metavar="auto",
        envvar="YOPP_PORTS",
        show_envvar=False,
        help="auto: serve the REST API and the pages on free ports, and say which. [env: YOPP_PORTS]",
    ),
]
AUTO_PORTS = (
    "yarn.resourcemanager.webapp.address=localhost:0",
    "yarn.nodemanager.webapp.address=localhost:0",
)


def register(app: typer.Typer) -> None:
    """Add ``up``."""
    app.command("up", epilog=examples("yopp up", "yopp up --nodes 2 --memory 1024"))(up)


def up(
    nodes: Nodes = None,
    memory: Memory = None,
    vcores: Vcores = None,
    ports: Ports = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay, and end the cluster with Ctrl-C or SIGTERM.")
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Return at once; `yopp status` says when it is ready.")
    ] = False,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    timeout: Timeout = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
) -> int:
    """Start the cluster: a ResourceManager and its NodeManagers.

    What runs already is joined, what is missing is started; a cluster that a job started for itself is made
    to stay. A cluster that runs with other settings than those asked for is left alone, and the command
    fails.
    """
    from ...cluster.capacity import Wish
    from ...cluster.inspection import cluster_document, inspect_cluster
    from ...cluster.starting import START_SECONDS, ensure_cluster
    from ...cluster.state import STAY
    from ..frame.output import flush as output_flush
    from . import up_ways

    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    context = Context.of(conf=conf, define=with_ports(ports, define), run_dir=run_dir)
    for line in context.configuration.warnings:
        printer.warn(line)
    if foreground and no_wait:
        raise UsageError(
            "--foreground and --no-wait exclude each other",
            because="one stays and the other goes at once",
            hint="give one of them",
        )
    if foreground:
        up_ways.refuse_running(context)
    if no_wait:
        again = _words(nodes, memory, vcores, ports, conf, define, run_dir, timeout)
        log = up_ways.begin_behind(context, Wish(nodes, memory, vcores), again)
        if log is not None:
            if printer.is_json:
                printer.document(cluster_document(inspect_cluster(context.run_dir)))
            elif not quiet:
                printer.text(
                    f"starting: `yopp status` says when it is ready; {log} has the rest of the story"
                )
            return 0
    handle = ensure_cluster(
        context.configuration,
        context.run_dir,
        lifetime=STAY,
        wish=Wish(nodes, memory, vcores),
        timeout=START_SECONDS if timeout is None else timeout,
    )
    for line in handle.warnings:
        printer.warn(line)
    if printer.is_json:
        printer.document(cluster_document(inspect_cluster(context.run_dir)))
    elif not printer.for_people:
        from .status import daemons

        daemons(printer, inspect_cluster(context.run_dir))
    else:
        sizes = ", ".join(
            f"nm {node.node_id} ({number_of(node.total.vcores, 'vcore')}, {node.total.memory} MB)"
            for node in sorted(handle.nodes, key=lambda one: one.node_id)
            if node.state.value == "RUNNING"
        )
        web = handle.info.http_address
        pages = f", web http://{web}/cluster/nodes" if web else ""
        printer.text(f"up: rm {context.run_dir.rm_socket}, {sizes}{pages}")
        if verbose and handle.started:
            printer.note(f"started {', '.join(handle.started)}")
    if not foreground:
        return 0
    output_flush()
    return up_ways.stay(context, printer)


def _words(
    nodes: int | None,
    memory: int | None,
    vcores: int | None,
    ports: str | None,
    conf: list[str] | None,
    define: list[str] | None,
    run_dir: str | None,
    timeout: float | None,
) -> list[str]:
    """The arguments of this command, for the process that does it instead."""
    sizes = (("--nodes", nodes), ("--memory", memory), ("--vcores", vcores), ("--ports", ports))
    more = (("--run-dir", run_dir), ("--timeout", None if timeout is None else f"{timeout}s"))
    words = [word for option, value in (*sizes, *more) if value is not None for word in (option, str(value))]
    words += [word for path in conf or () for word in ("--conf", path)]
    return words + [word for text in define or () for word in ("-D", text)]


def with_ports(ports: str | None, define: list[str] | None) -> list[str]:
    """The properties of the command line, and those that ``--ports auto`` stands for, which any of them overrides.

    Raises UsageError.
    """
    if not ports:
        return list(define or ())
    if ports != "auto":
        raise UsageError(
            f"--ports has no {ports}",
            because="it takes auto, for free ports",
            hint="-Dyarn.resourcemanager.webapp.address=localhost:18088 names one",
        )
    return [*AUTO_PORTS, *(define or ())]
