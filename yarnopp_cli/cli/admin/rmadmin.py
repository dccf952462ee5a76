"""``yopp rmadmin``: calls of administrators, under YARN's names."""

from __future__ import annotations

import os

from executor.hints import TYPE_CHECKING
from executor.records import Resource

from ...cluster.reloading import as_started, changes_of, refresh_of
from ...errors import EXIT_CONFIGURATION, EXIT_FAILURE, UsageError, YoppError, reason_of
from ...records.reports import DRAINED, GONE, NodeReport, NodeState
from ...views import queues as queue_view
from ..frame.command import Needs, command
from ..frame.naming import one_node
from ..frame.options import Annotated, Live, Words, argument, duration, option
from ..frame.session import Session
from ..looking.node import change_sizes, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """The exclude file, from the configuration of this command, else from the cluster's. Raises YoppError."""
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
    """Read the configuration of the queues again: yarn.scheduler.capacity.* from the files with which the cluster was
    started, or from --conf; -D overrides both.

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


@command(
    "rmadmin state",
    "yopp rmadmin state check",
    "yopp rmadmin state check --json",
    needs=Needs.QUIET_HOST,
)
def state(
    session: Session, action: Annotated[str, argument("ACTION", "check."), Words(lambda: ("check",))]
) -> int:
    """Check whether the stored state of the ResourceManager is readable. Exits with 1 if there are errors."""
    from ...daemons.state_report import examine

    printer, path = session.printer, session.run_dir.rm_state_file
    if action != "check":
        raise UsageError(
            f"rmadmin state has no {action}",
            because="it has check; a copy of the state file is a backup",
            hint="yopp rmadmin state check",
        )
    _, report = examine(path)
    for problem in report.problems:
        printer.warn(problem)
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
