"""``yopp up``: starts a cluster that stays, and returns when it is ready."""

from __future__ import annotations

import os

from executor.hints import TYPE_CHECKING
from executor.light import replace

from ...errors import UsageError, YoppError, reason_of
from ...views.text import number_of
from ..frame.command import Needs, command
from ..frame.options import Annotated, Timeout, option, size_mb
from ..frame.output import Printer, flush
from ..frame.session import Context, Session
from .status import tell

if TYPE_CHECKING:
    from ...cluster.capacity import NodeSizeRequest
    from ...cluster.inspection import ClusterHandle

Nodes = Annotated[
    int | None,
    option("--nodes N", "Number of NodeManagers on this machine. [default: 1]"),
]
Memory = Annotated[
    int | None,
    option(
        "--memory MB", "Memory of each node: 4096, 4G. [default: this machine's, divided]", parser=size_mb
    ),
]
Vcores = Annotated[
    int | None,
    option("--vcores V", "Vcores of each node. [default: this machine's cores, divided]"),
]
Ports = Annotated[
    str | None,
    option(
        "--ports auto",
        "auto: serve the REST API and the pages on free ports, and print them. [env: YOPP_PORTS]",
        envvar="YOPP_PORTS",
        show_envvar=False,
    ),
]
AUTO_PORTS = (
    "yarn.resourcemanager.webapp.address=localhost:0",
    "yarn.nodemanager.webapp.address=localhost:0",
)
_LOG = os.O_WRONLY | os.O_TRUNC | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@command("up", "yopp up", "yopp up --nodes 2 --memory 1024", needs=Needs.HOST)
def up(
    session: Session,
    nodes: Nodes = None,
    memory: Memory = None,
    vcores: Vcores = None,
    ports: Ports = None,
    foreground: Annotated[
        bool,
        option(
            "--foreground",
            "Stay in the foreground; Ctrl-C ends the cluster like `yopp down`. SIGTERM ends it with its containers; "
            "the next `yopp up` continues its applications if yarn.resourcemanager.recovery.enabled is on. Without a "
            "terminal, SIGHUP reads the queues again.",
        ),
    ] = False,
    no_wait: Annotated[
        bool, option("--no-wait", "Return at once; `yopp status` shows when the cluster is ready.")
    ] = False,
    adopt: Annotated[
        bool, option("--adopt", "Let containers of lost applications run to their end.")
    ] = False,
    end: Annotated[bool, option("--end", "End containers of lost applications.")] = False,
    timeout: Timeout = None,
) -> int:
    """Start the cluster: a ResourceManager and its NodeManagers.

    Daemons that are already running are kept, and missing ones are started. A cluster that a job started for itself
    stays from then on. If a cluster is running with other settings than the requested ones, the command fails and
    changes nothing. If stored state was lost, containers of the lost applications run on until you decide with --adopt
    or --end. The second line is a link that has your rights in a browser (see `yopp status`).
    """
    from ...cluster.capacity import NodeSizeRequest

    printer, context = session.printer, with_ports(session.context, ports)
    for line in context.configuration.warnings:
        printer.warn(line)
    if foreground and no_wait:
        raise UsageError.exclusive("--foreground and --no-wait", "one stays and the other returns at once")
    if adopt and end:
        raise UsageError.exclusive("--adopt and --end", "containers run on or are ended")
    wish, end_lost = NodeSizeRequest(nodes, memory, vcores), end if adopt or end else None
    if foreground:
        from ...cluster.notifying import is_managed
        from .foreground import refuse_running, stay

        refuse_running(context)
        return stay(
            context,
            printer,
            lambda: _start(context, printer, wish, timeout, end_lost, supervised=is_managed()),
        )
    log = context.run_dir.log_file("up")
    if no_wait and end_lost is None and not _serves(context, wish) and _split(log):
        if printer.is_json:
            from ...cluster.inspection import inspect_cluster

            tell(printer, inspect_cluster(context.run_dir), "")
        elif not printer.quiet:
            printer.text(f"starting: `yopp status` shows when it is ready; errors are logged to {log}")
        return 0
    _start(context, printer, wish, timeout, end_lost, logged=no_wait)
    return 0


def _start(
    context: Context,
    printer: Printer,
    wish: NodeSizeRequest,
    timeout: float | None,
    end_lost: bool | None,
    *,
    supervised: bool = False,
    logged: bool = False,
) -> str:
    """Start the missing daemons and print the result. Returns the sentence for users. If the output is ``logged``, it
    has no link."""
    from ...cluster.inspection import inspect_cluster
    from ...cluster.lifecycle import ensure_cluster
    from ...cluster.resttoken import links
    from ...machine.life import START_SECONDS
    from ...records.reports import STAY

    handle = ensure_cluster(
        context.configuration,
        context.run_dir,
        lifetime=STAY,
        wish=wish,
        timeout=START_SECONDS if timeout is None else timeout,
        supervised=supervised,
        end_lost=end_lost,
    )
    for line in handle.warnings:
        printer.warn(line)
    sentence = _sentence(handle)
    if not printer.for_people:
        tell(printer, inspect_cluster(context.run_dir), "")
    else:
        owners = links(context.run_dir).get(handle.info.http_address)
        shown = f"\nbrowser, with your rights: http://{owners}/cluster" if owners else ""
        printer.text(sentence + ("" if supervised or logged else shown))
        if printer.verbose and handle.started:
            printer.note(f"started {', '.join(handle.started)}")
    return sentence


def with_ports(context: Context, ports: str | None) -> Context:
    """Add the properties of ``--ports auto``, which a -D overrides. Raises UsageError."""
    if not ports:
        return context
    if ports != "auto":
        raise UsageError(
            f"--ports has no {ports}",
            because="--ports takes auto, for free ports",
            hint="-Dyarn.resourcemanager.webapp.address=localhost:18088 names one",
        )
    return replace(context, define=(*AUTO_PORTS, *context.define))


def _sentence(handle: ClusterHandle) -> str:
    sizes = ", ".join(
        f"nm {node.node_id} ({number_of(node.total.vcores, 'vcore')}, {node.total.memory} MB)"
        for node in sorted(handle.nodes, key=lambda one: one.node_id)
        if node.state.value == "RUNNING"
    )
    web = handle.info.http_address
    return f"up: rm {handle.run_dir.rm_socket}, {sizes}" + (
        f", web http://{web}/cluster/nodes" if web else ""
    )


# -- --no-wait -----------------------------------------------------------------------------------------


def _serves(context: Context, wish: NodeSizeRequest) -> bool:
    """Whether a cluster with a node is running already. Raises YoppError for settings that are known to fail."""
    from ...cluster.capacity import plan_capacity
    from ...cluster.inspection import join

    joined = join(context.run_dir) if context.run_dir.exists() else None
    if joined is not None and joined.info.nodes_running:
        return True
    context.run_dir.prepare()
    if joined is None:
        plan_capacity(context.configuration, wish)
    return False


def _split(log: str) -> bool:
    """Fork: True in this process; False in the other, which has its own session and writes to ``log``. Raises
    YoppError."""
    flush()
    try:
        writing = os.open(log, _LOG, 0o600)
        os.set_blocking(writing, True)
        if os.fork():
            os.close(writing)
            return True
    except OSError as error:
        raise YoppError(
            "the cluster was not started",
            because=reason_of(error),
            hint="`yopp doctor` checks what this host allows",
        ) from None
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    # A caller that waits for the end of a pipe waits only for this process.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    return False
