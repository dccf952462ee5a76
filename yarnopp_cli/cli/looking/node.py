"""``yopp node``: lists, shows, drains and resizes nodes; each command returns when the change has been made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from executor.hints import Any
from executor.records import Resource

from ...errors import UsageError
from ...records.reports import NodeReport, NodeState
from ...views.nodes import NODES, state_text
from ...views.text import listed, number_of
from ..frame.command import command
from ..frame.filters import nodes_of
from ..frame.options import Annotated, Live, NodeIds, argument, duration, option
from ..frame.session import Session
from .sizes import NewSize

REGISTER_SECONDS = 2.0
"""Seconds that running nodes have to register before they count as missing."""
KillAfter = Annotated[
    float | None,
    option("--kill-after DUR", "Kill containers that still run on it after this time.", parser=duration),
]


@command("node list", "yopp node list -o wide", "yopp node list -a --json", lists=NODES, yarn=True)
def list_nodes(
    session: Session,
    every: Annotated[bool, option("-a, --all", "Show also lost and ended nodes.")] = False,
    app: Annotated[
        str | None, option("--app ID", "Only nodes with live containers of this application."), Live(("app",))
    ] = None,
) -> None:
    """List the running nodes, with their guaranteed (G), opportunistic (O) and queued containers."""
    states = session.states or (NodeState.RUNNING.value, NodeState.DECOMMISSIONING.value)
    all_states = every or "ALL" in states

    def once() -> None:
        on = nodes_of(session.cluster, app) if app else None
        known, empty = session.cluster.nodes(), "no nodes"
        if not known and (running := _node_managers(session)):
            session.client.wait_for_nodes(len(running), REGISTER_SECONDS)
            known = session.cluster.nodes()
            empty = f"no node has registered yet: {', '.join(running)}"
        found = [
            one
            for one in known
            if (all_states or one.state.value in states) and (on is None or one.node_id in on)
        ]
        session.show(NODES, found, empty=empty if not known else "no nodes")

    session.repeat(once)


def _node_managers(session: Session) -> list[str]:
    """The NodeManagers that run here: they register a moment after the ResourceManager has started."""
    return (
        []
        if session.yarn is not None
        else [one.name for one in session.run_dir.daemons() if one.name != "rm"]
    )


@command("node status", "yopp node status last", "yopp node status 45454 --json", yarn=True)
def status(
    session: Session,
    ids: Annotated[
        list[str] | None,
        argument(
            "[ID]...", "Full id, port, unique part, `last`, `all`, or - for stdin. [default: the only node]"
        ),
        Live(("node",)),
    ] = None,
) -> None:
    """Show everything that is known about a node."""
    from ..frame.naming import nodes as named_nodes

    cluster = session.cluster
    every = cluster.nodes()
    if not ids and len(every) > 1:
        raise UsageError(
            "no node was named",
            because=f"there are {len(every)}: {listed([one.node_id for one in every[:3]], len(every) - 3)}",
            hint="yopp node status all",
        )
    session.details(NODES, [cluster.node(one.node_id) for one in named_nodes(every, ids or ["last"])])


@command("node labels", "yopp node labels", "yopp node labels --json", yarn=True)
def labels(session: Session) -> None:
    """List the labels of the running nodes, and the nodes that have each."""
    found: dict[str, list[str]] = {}
    for node in session.cluster.nodes():
        if node.state is NodeState.RUNNING:
            for label in node.labels:
                found.setdefault(label, []).append(node.node_id)
    rows = sorted(found.items())
    if session.printer.as_yarn:
        from ...views.yarn import labels_line

        text = labels_line([label for label, _ in rows])
    else:
        text = "\n".join(f"{label}: {', '.join(nodes)}" for label, nodes in rows)
        if not rows:
            session.printer.note("no node has a label (yopp.nodemanager.node-labels)")
    session.printer.answer(
        {"nodeLabelInfo": [{"name": label, "exclusivity": True, "nodes": nodes} for label, nodes in rows]},
        text,
        ids=[label for label, _ in rows],
        table=(("label", "nodes"), [(label, ",".join(nodes)) for label, nodes in rows]),
    )


def _agreed(session: Session, ids: Sequence[str], verb: str) -> list[NodeReport]:
    """The nodes named, after a confirmation if one is needed."""
    from ..frame import actions
    from ..frame.naming import nodes as named_nodes
    from ..frame.naming import words

    given = words(ids)
    found = named_nodes(session.client.nodes(), given)
    named = [one.node_id for one in found]
    actions.agree(session, given, named, verb, what="node")
    return found


@command(
    "node drain",
    "yopp node drain 45455",
    "yopp node drain last --kill-after 10m --no-wait",
    changes=True,
)
def drain(session: Session, ids: NodeIds, kill_after: KillAfter = None) -> None:
    """Stop scheduling on a node and wait for its containers to end: then it is DECOMMISSIONED.

    Its NodeManager keeps running, and `resume` uses it again. --timeout and Ctrl-C only stop waiting.
    """
    client = session.client
    named = [one.node_id for one in _agreed(session, ids, "Drain")]
    limit_ms = -1 if kill_after is None else round(kill_after * 1000)
    found: Sequence[NodeReport]
    found, containers = client.drain_nodes(named, limit_ms, dry_run=session.dry_run)
    if containers:
        what = "would wait" if session.dry_run else "waiting"
        ends = f", and end them after {kill_after:g} s" if kill_after is not None else ""
        session.printer.note(f"{what} for {number_of(containers, 'container')} to end{ends}")
    if not (session.no_wait or session.dry_run):
        from ..frame import actions

        found = actions.awaited(
            NODES,
            lambda _: [one for one in client.nodes() if one.node_id in named],
            lambda one: one.state is not NodeState.DECOMMISSIONING,
            "finish its containers",
            session.timeout,
            because=lambda _: "they may run as long as they need; nothing new is scheduled on it",
            hint="`yopp ps --node NODE` shows them; `yopp node drain --kill-after 0 …` ends them",
        )
    tell(session, found)


@command(
    "node resume", "yopp node resume 45455", "yopp node list -q | yopp node resume -", asks=True, tries=True
)
def resume(session: Session, ids: NodeIds) -> None:
    """Use a drained (or draining) node again."""
    named = [one.node_id for one in _agreed(session, ids, "Use again")]
    tell(session, session.client.resume_nodes(named, dry_run=session.dry_run))


@command(
    "node resource",
    "yopp node resource --vcores 8 45454",
    "yopp node resource --memory 4G last",
    asks=True,
    tries=True,
    help="The same as `yopp node resize`, under YARN's name.",
)
@command(
    "node resize",
    "yopp node resize --vcores 8 45454",
    "yopp node resize --memory 4G last --dry-run",
    asks=True,
    tries=True,
)
def resize(session: Session, ids: NodeIds, size: NewSize) -> None:
    """Change the memory or vcores of a node, until its NodeManager ends.

    All nodes together get no more memory than the host has. Opportunistic containers beyond the new size are
    preempted; guaranteed ones are not affected.
    """
    size.check()
    named = _agreed(session, ids, "Resize")
    sizes = {node.node_id: size.of(node.total) for node in named}
    change_sizes(session, sizes)
    for node in named:
        if not node.used.fits_in(sizes[node.node_id]):
            session.printer.note(f"{node.node_id}: guaranteed containers use {node.used}, and keep them")


def change_sizes(session: Session, sizes: Mapping[str, Resource]) -> None:
    """Resize nodes, or try it, and print their sizes and the answer of REST. Raises YoppError for sizes that the host
    or no node can have."""
    answer = session.client.resize_nodes(sizes, dry_run=session.dry_run)
    for line in answer.warnings:
        session.printer.warn(line)
    tell(
        session,
        answer.nodes,
        text=lambda node: f"{node.total.memory} MB, {number_of(node.total.vcores, 'vcore')}",
        answer=lambda node: {"memory": node.total.memory, "vCores": node.total.vcores},
    )


def tell(
    session: Session,
    found: Sequence[NodeReport],
    *,
    text: Callable[[NodeReport], str] = state_text,
    answer: Callable[[NodeReport], Mapping[str, Any]] | None = None,
) -> None:
    """Print the outcome for each node, or the outcome of a dry run."""
    from ..frame import actions

    tried = {"dryRun": True} if session.dry_run else {}
    actions.tell(
        session,
        NODES,
        found,
        lambda node: f"{'would be ' if session.dry_run else ''}{text(node)}",
        document=lambda node: {**NODES.document(node, session.now_ms), **tried},
        answer=None if session.dry_run else answer,
    )
