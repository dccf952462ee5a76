"""``yopp node drain|resume|resize``: each returns when it has happened."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from executor.records import Resource

from ...errors import EXIT_FAILURE, EXIT_TIMEOUT, UsageError, YoppError
from ...records.reports import NodeReport, NodeState
from ...views.nodes import NODES, state_text
from ...views.text import number_of
from ..frame.command import command
from ..frame.naming import nodes as named_nodes
from ..frame.naming import words
from ..frame.options import DryRun, NodeIds, NoWait, Timeout, duration, size_mb
from ..frame.session import Session

if TYPE_CHECKING:
    from ...client.local import LocalClient

_POLL_SECONDS = 0.05

KillAfter = Annotated[
    float | None,
    typer.Option(
        "--kill-after", metavar="DUR", parser=duration, help="End what still lives on it after this time."
    ),
]


@command("node drain", "yopp node drain 45455", "yopp node drain last --kill-after 10m --no-wait", asks=True)
def drain(
    session: Session,
    ids: NodeIds,
    kill_after: KillAfter = None,
    no_wait: NoWait = False,
    timeout: Timeout = None,
    dry_run: DryRun = False,
) -> int:
    """Give a node nothing more, and wait until what it has has ended: it is DECOMMISSIONED then.

    Its NodeManager goes on, and `resume` uses it again. --timeout and Ctrl-C only stop waiting.
    """
    named = _named(session, ids, "Drain", dry_run)
    if named is None:
        return EXIT_FAILURE
    limit_ms = -1 if kill_after is None else round(kill_after * 1000)
    found, containers = session.client.drain_nodes(named, limit_ms, dry_run=dry_run)
    if containers:
        what = "would wait" if dry_run else "waiting"
        ends = f", and end them after {kill_after:g} s" if kill_after is not None else ""
        session.printer.note(f"{what} for {number_of(containers, 'container')} to end{ends}")
    if not (no_wait or dry_run):
        found = _drained(session.client, named, timeout)
    tell(session, found, dry_run=dry_run)
    return 0


def _named(session: Session, ids: Sequence[str], verb: str, dry_run: bool) -> tuple[str, ...] | None:
    """The full ids of the nodes named; None where a person does not want them changed."""
    given = words(ids)
    named = tuple(node.node_id for node in named_nodes(session.client.nodes(), given))
    return named if session.agreed(given, named, verb, what="node", dry_run=dry_run) else None


def _drained(client: LocalClient, named: tuple[str, ...], timeout: float | None) -> tuple[NodeReport, ...]:
    """The nodes when they are empty. Raises YoppError (exit 124) when the time has passed."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        found = tuple(node for node in client.nodes() if node.node_id in named)
        waiting = [node.node_id for node in found if node.state is NodeState.DECOMMISSIONING]
        if not waiting:
            return found
        if deadline is not None and time.monotonic() >= deadline:
            raise YoppError(
                f"{', '.join(waiting)} still has containers after {timeout:g} s",
                because="they are given the time they need; it gets nothing more",
                hint=f"`yopp ps --node {waiting[0]}` shows them; `yopp node drain --kill-after 0 …` ends them",
                exit_code=EXIT_TIMEOUT,
            )
        time.sleep(_POLL_SECONDS)


@command("node resume", "yopp node resume 45455", "yopp node list -q | yopp node resume -", asks=True)
def resume(
    session: Session,
    ids: NodeIds,
    dry_run: DryRun = False,
) -> int:
    """Use a drained (or draining) node again."""
    named = _named(session, ids, "Use again", dry_run)
    if named is None:
        return EXIT_FAILURE
    tell(session, session.client.resume_nodes(named, dry_run=dry_run), dry_run=dry_run)
    return 0


@command(
    "node resource",
    "yopp node resource --vcores 8 45454",
    "yopp node resource --memory 4G last",
    asks=True,
    help="Short for what YARN calls the resource of a node: the same as `yopp node resize`.",
)
@command(
    "node resize",
    "yopp node resize --vcores 8 45454",
    "yopp node resize --memory 4G last --dry-run",
    asks=True,
)
def resize(
    session: Session,
    ids: NodeIds,
    memory: Annotated[
        int | None,
        typer.Option("--memory", metavar="SIZE", parser=size_mb, help="Its new memory: 4096, 4G."),
    ] = None,
    vcores: Annotated[int | None, typer.Option("--vcores", metavar="V", help="Its new vcores.")] = None,
    dry_run: DryRun = False,
) -> int:
    """Let a node's containers have more or less in all, until its NodeManager ends.

    What opportunistic containers have beyond it is taken back; guaranteed ones are left alone.
    """
    if memory is None and vcores is None:
        raise UsageError(
            "no new size was given",
            because="a resize needs memory, vcores or both",
            hint="--memory 4G, --vcores 8, or both",
        )
    client, given, found = session.client, words(ids), []
    chosen = named_nodes(client.nodes(), given)
    if not session.agreed(given, [node.node_id for node in chosen], "Resize", what="node", dry_run=dry_run):
        return EXIT_FAILURE
    for node in chosen:
        size = Resource(
            node.total.memory if memory is None else memory, node.total.vcores if vcores is None else vcores
        )
        if not node.used.fits_in(size) and size.memory > 0 and size.vcores > 0:
            session.printer.note(f"{node.node_id}: guaranteed containers have {node.used}, and keep it")
        found.append(client.resize_node(node.node_id, size, dry_run=dry_run))
    tell(session, found, dry_run=dry_run, text=size_text, answer=size_document)
    return 0


def size_text(node: NodeReport) -> str:
    """A node's size in words."""
    return f"{node.total.memory} MB, {node.total.vcores} vcores"


def size_document(node: NodeReport) -> dict[str, Any]:
    """What REST answers to another size."""
    return {"memory": node.total.memory, "vCores": node.total.vcores}


def tell(
    session: Session,
    found: Sequence[NodeReport],
    *,
    dry_run: bool,
    text: Callable[[NodeReport], str] = state_text,
    answer: Callable[[NodeReport], Mapping[str, Any]] | None = None,
) -> None:
    """What became of the nodes, or would have."""
    if session.printer.for_people:
        for node in found:
            session.printer.text(f"{node.node_id} {'would be ' if dry_run else ''}{text(node)}")
        return
    tried = {"dryRun": True} if dry_run else {}
    session.details(
        NODES,
        found,
        document=lambda node: {**NODES.document(node, session.now_ms), **tried},
        answer=None if dry_run else answer,
    )
