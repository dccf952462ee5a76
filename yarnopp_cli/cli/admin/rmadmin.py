"""``yopp rmadmin``: calls of administrators, under YARN's names."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from executor.hints import TYPE_CHECKING
from executor.records import Resource

from ...cluster.reloading import as_started, changes_of, refresh_of
from ...errors import EXIT_CONFIGURATION, EXIT_FAILURE, InvalidStateError, UsageError, YoppError, reason_of
from ...records.reports import DRAINED, GONE, NodeReport, NodeState
from ...views import queues as queue_view
from ...views.text import number_of
from ..frame.command import Needs, command
from ..frame.naming import one_node
from ..frame.options import Annotated, Live, Words, argument, duration, option
from ..frame.session import Session
from ..looking.node import change_sizes, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

LOCK_SECONDS = 10.0
EXCLUDE_PATH = "yarn.resourcemanager.nodes.exclude-path"


@command(
    "rmadmin refresh-nodes",
    "yopp rmadmin refresh-nodes --graceful",
    "yopp rmadmin -refreshNodes --dry-run",
    tries=True,
)
def refresh_nodes(
    session: Session,
    graceful: Annotated[
        bool, option("-g, --graceful", "Let the containers of an excluded node end first.")
    ] = False,
    kill_after: Annotated[
        float | None,
        option(
            "--kill-after DUR", "With -g: kill containers that still run after this time.", parser=duration
        ),
    ] = None,
    exclude: Annotated[
        str | None, option("--exclude FILE", f"The list of nodes. [default: {EXCLUDE_PATH}]")
    ] = None,
) -> None:
    """Read the list of excluded nodes again: nodes in it are drained, drained nodes that are not in it are
    resumed.

    Each line of the list is a node (host1:45454), a port, or a host with all its nodes; # starts a comment.
    Without -g, the containers of an excluded node are killed at once.
    """
    printer = session.printer
    client = session.client
    path = exclude or _exclude_path(session, client.cluster_info().properties)
    listed = _read(path)
    every = [one for one in client.nodes() if one.state not in GONE]
    named = [one for one in every if _is_listed(one, listed)]
    drain = tuple(one.node_id for one in named if one.state is not NodeState.DECOMMISSIONED)
    resume = tuple(one.node_id for one in every if one.state in DRAINED and one not in named)
    unknown = [word for word in listed if not any(_is_listed(one, [word]) for one in every)]
    if unknown:
        printer.note(f"{path} names nodes that do not exist: {', '.join(unknown)}")
    changed: list[NodeReport] = []
    if drain:
        limit = 0 if not graceful else -1 if kill_after is None else round(kill_after * 1000)
        changed += client.drain_nodes(drain, limit, dry_run=session.dry_run)[0]
    if resume:
        changed += client.resume_nodes(resume, dry_run=session.dry_run)
    if not changed:
        printer.note(f"{path}: nothing changes")
    tell(session, changed)


def _exclude_path(session: Session, running: dict[str, str]) -> str:
    """The exclude file, from the configuration of this command, else of the cluster. Raises YoppError."""
    named = str(session.configuration.value(EXCLUDE_PATH)) or running.get(EXCLUDE_PATH, "")
    if not named:
        raise YoppError(
            "no list of excluded nodes is configured",
            because=f"{EXCLUDE_PATH} is not set",
            hint="--exclude FILE, or `yopp node drain NODE` for one node",
            exit_code=EXIT_CONFIGURATION,
        )
    return os.path.expanduser(named)


def _read(path: str) -> list[str]:
    """The words of an exclude file. Raises YoppError."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.partition("#")[0].split() for line in file]
    except OSError as error:
        raise YoppError(
            f"cannot read {path}",
            because=reason_of(error),
            hint="name a file of node ids, one a line",
            exit_code=EXIT_CONFIGURATION,
        ) from None
    return [word for line in lines for word in line]


def _is_listed(node: NodeReport, listed: Sequence[str]) -> bool:
    host, _, port = node.node_id.rpartition(":")
    return any(word in (node.node_id, host, port) for word in listed)


@command(
    "rmadmin update-node-resource",
    "yopp rmadmin update-node-resource 45454 4096 8",
    "yopp rmadmin -updateNodeResource host1:45454 4096 8",
    tries=True,
)
def update_node_resource(
    session: Session,
    node: Annotated[str, argument("NODE", "Full id, port, or `last`."), Live(("node",))],
    memory: Annotated[int, argument("MB", "Its memory.")],
    vcores: Annotated[int, argument("VCORES", "Its vcores.")],
    overcommit: Annotated[
        int | None, argument("[MS]", "YARN's overcommit timeout; only -1 is accepted.")
    ] = None,
) -> None:
    """Resize a node until its NodeManager ends, as `yopp node resize` does."""
    if overcommit not in (None, -1):
        raise UsageError(
            f"an overcommit timeout of {overcommit} ms is not supported",
            because="guaranteed containers beyond the node's new size keep their resources until they end",
            hint="leave it out, or give -1",
        )
    change_sizes(session, {one_node(session.client, node).node_id: Resource(memory, vcores)})


@command(
    "rmadmin refresh-queues",
    "yopp rmadmin refresh-queues --conf configs/queues.toml",
    "yopp rmadmin -refreshQueues --dry-run",
    needs=Needs.JOBS,
    tries=True,
)
def refresh_queues(session: Session) -> None:
    """Read the configuration of the queues again: yarn.scheduler.capacity.* of the files that the cluster was started
    with, or of --conf; -D overrides both.

    All of it takes effect at once, and for the ResourceManager's next start; applications stay in their
    queues. If a queue to be removed has applications, the command is refused and nothing changes. Other
    properties need `yopp down` and `yopp up`.
    """
    printer = session.printer
    started = None if session.context.conf else as_started(session.run_dir, session.context.define)
    answer = session.client.ask(refresh_of(started or session.configuration, dry_run=session.dry_run))
    changes = changes_of(answer)
    if not printer.for_people:
        told = {name: list(paths) for name, paths in changes.items()} | (
            {"dryRun": True} if session.dry_run else {}
        )
        printer.listing(
            answer.queues,
            queue_view.COLUMNS,
            documents=lambda queues: queue_view.QUEUES.every(queues) | {"yopp": told},
            document=queue_view.document,
            identity=lambda queue: queue.name,
        )
        return
    will = "would be " if session.dry_run else ""
    for verb, paths in changes.items():
        if paths:
            printer.text(f"{will}{verb}: {', '.join(paths)}")
    if not any(changes.values()):
        printer.note("nothing changes")


@command("rmadmin service-state", "yopp rmadmin service-state", "yopp rmadmin -getServiceState --json")
def service_state(session: Session) -> None:
    """Print `active` if the ResourceManager answers; otherwise exit with 69. There is no standby."""
    info = session.client.cluster_info()
    state = {"state": "active", "address": info.address, "pid": info.pid}
    row = [str(value) for value in state.values()]
    session.printer.answer({"serviceState": state}, "active", ids=["active"], table=(list(state), [row]))


_ACTIONS = ("export", "import", "check")


@command(
    "rmadmin state",
    "yopp rmadmin state check",
    "yopp rmadmin state export state.jsonl",
    needs=Needs.QUIET_HOST,
    asks=True,
)
def state(
    session: Session,
    action: Annotated[str, argument("ACTION", "export, import or check."), Words(lambda: _ACTIONS)],
    file: Annotated[str | None, argument("[FILE]", "What to write or read. [default: stdout, stdin]")] = None,
) -> int:
    """Export the stored state of the ResourceManager as text, replace it, or check whether it is readable.

    The text has a line of JSON for each record, and the cluster's secret: keep it secret. import is refused while the
    ResourceManager runs, and asks before it replaces applications. Exits with 1 if something is wrong.
    """
    from ...daemons import state_transfer as transfer

    printer, run_dir = session.printer, session.run_dir
    if action not in _ACTIONS:
        raise UsageError(
            f"rmadmin state has no {action}",
            because=f"it has {', '.join(_ACTIONS)}",
            hint="yopp rmadmin state check",
        )
    path, file = run_dir.rm_state_file, None if file == "-" else file
    if action == "import":
        return _import(session, file)
    records, report = transfer.examine(path)
    for problem in report.problems:
        printer.warn(problem)
    if action == "export":
        if file is None:
            printer.raw(transfer.to_text(records))
        else:
            transfer.export(records, file)
    else:
        counted = ", ".join(f"{count} {kind}" for kind, count in report.records.items())
        row = [path, str(report.format), *map(str, report.records.values())]
        told = {"path": path, "format": report.format, "records": report.records, "live": report.live}
        printer.answer(
            {"state": {**told, "problems": list(report.problems)}},
            f"{path}: format {report.format}; records: {counted}; {report.live} of the applications are live",
            ids=[path],
            table=(["path", "format", *report.records], [row]),
        )
    return EXIT_FAILURE if report.problems else 0


def _import(session: Session, file: str | None) -> int:
    """Replace the state by that in a file. Raises InvalidStateError while the RM runs."""
    from ...daemons import state_transfer as transfer

    run_dir = session.run_dir
    try:
        text = sys.stdin.buffer.read() if file is None else Path(file).read_bytes()
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read",
            because=reason_of(error),
            hint="name a file that `rmadmin state export` wrote",
        ) from None
    records = transfer.from_text(text, file or "stdin")
    run_dir.prepare()
    with run_dir.lock(LOCK_SECONDS):
        if run_dir.daemon("rm") is not None:
            raise InvalidStateError(
                "the state was not replaced",
                because="the ResourceManager is running, and has its own state",
                hint="yopp rm stop",
            )
        live = 0
        if os.path.exists(run_dir.rm_state_file):
            with contextlib.suppress(
                YoppError
            ):  # what cannot be read is set aside; a newer one is refused below
                live = transfer.examine(run_dir.rm_state_file)[1].live
        question = f"Forget {number_of(live, 'application')} of the present state?"
        if live and not session.yes and not session.printer.confirm(question, yes=False):
            session.printer.note("nothing was changed")
            return EXIT_FAILURE
        transfer.replace_state(run_dir.rm_state_file, records)
    session.printer.answer(
        {"state": {"path": run_dir.rm_state_file, "records": len(records)}},
        f"{run_dir.rm_state_file} has {len(records)} records now; `yopp up` recovers from them",
        ids=[run_dir.rm_state_file],
        table=(["path", "records"], [[run_dir.rm_state_file, str(len(records))]]),
    )
    return 0
