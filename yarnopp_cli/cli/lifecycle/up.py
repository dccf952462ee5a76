"""``yopp up``: a cluster that stays, ready when the command returns."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from executor.hints import TYPE_CHECKING
from executor.light import replace

from ...errors import EXIT_INTERRUPTED, InvalidStateError, UsageError, YoppError, reason_of
from ...views.text import number_of
from ..frame.command import Needs, command
from ..frame.options import Annotated, Timeout, option, size_mb
from ..frame.output import Printer, flush
from ..frame.session import Context, Session
from .status import tell

if TYPE_CHECKING:
    from ...cluster.capacity import Wish
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
_LONG_SECONDS = 86_400.0
_LOG = os.O_WRONLY | os.O_TRUNC | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@command("up", "yopp up", "yopp up --nodes 2 --memory 1024", needs=Needs.HOST)
def up(
    session: Session,
    nodes: Nodes = None,
    memory: Memory = None,
    vcores: Vcores = None,
    ports: Ports = None,
    foreground: Annotated[
        bool, option("--foreground", "Stay in the foreground; Ctrl-C or SIGTERM ends the cluster.")
    ] = False,
    no_wait: Annotated[
        bool, option("--no-wait", "Return at once; `yopp status` shows when the cluster is ready.")
    ] = False,
    timeout: Timeout = None,
) -> int:
    """Start the cluster: a ResourceManager and its NodeManagers.

    Daemons that are already running are kept, and missing ones are started. A cluster that a job started for
    itself stays from then on. If a cluster is running with other settings than you ask for, the command fails
    and changes nothing.
    """
    from ...cluster.capacity import Wish
    from ...cluster.inspection import inspect_cluster
    from ...cluster.rundir import STAY
    from ...cluster.starting import START_SECONDS, ensure_cluster

    printer, context = session.printer, with_ports(session.context, ports)
    for line in context.configuration.warnings:
        printer.warn(line)
    if foreground and no_wait:
        raise UsageError(
            "--foreground and --no-wait exclude each other",
            because="one stays and the other returns at once",
            hint="give one of them",
        )
    if foreground:
        _refuse_running(context)
    wish = Wish(nodes, memory, vcores)
    log = context.run_dir.log_file("up")
    if no_wait and not _serves(context, wish) and _split(log):
        if printer.is_json:
            tell(printer, inspect_cluster(context.run_dir), "")
        elif not printer.quiet:
            printer.text(f"starting: `yopp status` says when it is ready; errors are logged to {log}")
        return 0
    handle = ensure_cluster(
        context.configuration,
        context.run_dir,
        lifetime=STAY,
        wish=wish,
        timeout=START_SECONDS if timeout is None else timeout,
    )
    for line in handle.warnings:
        printer.warn(line)
    if not printer.for_people:
        tell(printer, inspect_cluster(context.run_dir), "")
    else:
        printer.text(_sentence(handle))
        if printer.verbose and handle.started:
            printer.note(f"started {', '.join(handle.started)}")
    if not foreground:
        return 0
    flush()
    return _stay(context, printer)


def with_ports(context: Context, ports: str | None) -> Context:
    """The same with the properties that ``--ports auto`` stands for, which a -D overrides. Raises UsageError."""
    if not ports:
        return context
    if ports != "auto":
        raise UsageError(
            f"--ports has no {ports}",
            because="it takes auto, for free ports",
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


def _serves(context: Context, wish: Wish) -> bool:
    """Whether a cluster with a node serves already. What can be known to be wrong is refused here. Raises YoppError."""
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
    """Become two processes: True in this one; False in the other, which has a session of its own and writes to
    ``log``. Raises YoppError."""
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
            hint="`yopp doctor` looks at what this host allows",
        ) from None
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    os.closerange(
        3, os.sysconf("SC_OPEN_MAX")
    )  # whoever waits for the end of a pipe waits for this process alone
    return False


# -- --foreground --------------------------------------------------------------------------------------


def _refuse_running(context: Context) -> None:
    """Raise InvalidStateError where daemons are running already, which Ctrl-C would end."""
    if context.run_dir.exists() and (there := context.run_dir.daemons()):
        raise InvalidStateError(
            "a cluster is already running here",
            because=f"{there[0].name} is process {there[0].process.pid}, and --foreground ends what it started",
            hint="`yopp down` first, or leave out --foreground",
        )


class _Received(Exception):
    """A signal that asks this command to end."""


def _ring(number: int, frame: object) -> NoReturn:
    raise _Received(signal.Signals(number))


def _stay(context: Context, printer: Printer) -> int:
    """Wait for a signal and end the cluster, or until it has been ended; the exit code."""
    from ...cluster.ending import TERM_SECONDS, take_down
    from ...cluster.processes import wait_for_end

    run_dir = context.run_dir
    before = {number: signal.getsignal(number) for number in _ENDING}
    try:
        for number in _ENDING:
            signal.signal(number, _ring)
        if (daemon := run_dir.daemon("rm")) is not None:
            printer.note("in the foreground: Ctrl-C or SIGTERM ends the cluster")
            while wait_for_end([daemon.process], _LONG_SECONDS):
                pass
    except _Received as received:
        for number in _ENDING:  # once is enough
            signal.signal(number, signal.SIG_IGN)
        [number] = received.args
        printer.note(f"{number.name}: ending the cluster")
        take_down(run_dir, force=True, timeout=TERM_SECONDS)
        return EXIT_INTERRUPTED if number == signal.SIGINT else 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
    if os.path.exists(run_dir.nodes_file) and run_dir.daemons():
        raise YoppError(
            "the ResourceManager has ended",
            because="this command did not end it",
            hint=f"its log is {run_dir.log_file('rm')}; `yopp up` starts it again, `yopp down` ends the nodes",
        )
    printer.note("the cluster has been ended")
    return 0
