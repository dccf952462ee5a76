"""``yopp node drain|resume|resize``: each returns when it has happened."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from executor.records import Resource

from ...errors import EXIT_FAILURE, EXIT_TIMEOUT, UsageError, YoppError
from ...records.reports import NodeReport, NodeState
from ...views import nodes as view
from ..frame.context import Context
from ..frame.naming import agreed, words
from ..frame.naming import nodes as named_nodes
from ..frame.options import (
    Color,
    Conf,
    Define,
    DryRun,
    Ids,
    Json,
    NoWait,
    Output,
    Quiet,
    RunDirOption,
    Timeout,
    Verbose,
    Yes,
    duration,
    examples,
    size_mb,
)
from ..frame.output import Printer

if TYPE_CHECKING:
    from ...client.local import YarnClient

_POLL_SECONDS = 0.05

KillAfter = Annotated[
    float | None,
    typer.Option(
        "--kill-after", metavar="DUR", parser=duration, help="End what still lives on it after this time."
    ),
]


def add_to(group: typer.Typer) -> None:
    """Add these commands to the group ``node``."""
    group.command(
        "drain", epilog=examples("yopp node drain 45455", "yopp node drain last --kill-after 10m --no-wait")
    )(drain)
    group.command(
        "resume", epilog=examples("yopp node resume 45455", "yopp node list -q | yopp node resume -")
    )(resume)
    group.command(
        "resize",
        epilog=examples("yopp node resize --vcores 8 45454", "yopp node resize --memory 4G last --dry-run"),
    )(resize)
    group.command(
        "resource",
        help="Short for what YARN calls the resource of a node: the same as `yopp node resize`.",
        epilog=examples("yopp node resource --vcores 8 45454", "yopp node resource --memory 4G last"),
    )(resize)


def drain(
    ids: Ids,
    kill_after: KillAfter = None,
    no_wait: NoWait = False,
    timeout: Timeout = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
) -> int:
    """Give a node nothing more, and wait until what it has has ended: it is DECOMMISSIONED then.

    Its NodeManager goes on, and `resume` uses it again. --timeout and Ctrl-C only stop waiting.
    """
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        given = words(ids)
        named = tuple(node.node_id for node in named_nodes(client.nodes(), given))
        if not agreed(printer, given, named, "Drain", yes=yes or dry_run, what="node"):
            return EXIT_FAILURE
        found, containers = client.drain_nodes(
            named, -1 if kill_after is None else round(kill_after * 1000), dry_run=dry_run
        )
        if containers:
            what = "would wait" if dry_run else "waiting"
            ends = f", and end them after {kill_after:g} s" if kill_after is not None else ""
            printer.note(f"{what} for {containers} container{'s' if containers > 1 else ''} to end{ends}")
        if not (no_wait or dry_run):
            found = _drained(client, named, timeout)
    tell(printer, found, dry_run=dry_run)
    return 0


def _drained(client: YarnClient, named: tuple[str, ...], timeout: float | None) -> tuple[NodeReport, ...]:
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


def resume(
    ids: Ids,
    dry_run: DryRun = False,
    yes: Yes = False,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
) -> int:
    """Use a drained (or draining) node again."""
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        given = words(ids)
        named = tuple(node.node_id for node in named_nodes(client.nodes(), given))
        if not agreed(printer, given, named, "Use again", yes=yes or dry_run, what="node"):
            return EXIT_FAILURE
        found = client.resume_nodes(named, dry_run=dry_run)
    tell(printer, found, dry_run=dry_run)
    return 0


def resize(
    ids: Ids,
    memory: Annotated[
        int | None,
        typer.Option("--memory", metavar="SIZE", parser=size_mb, help="Its new memory: 4096, 4G."),
    ] = None,
    vcores: Annotated[int | None, typer.Option("--vcores", metavar="V", help="Its new vcores.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
) -> int:
    """Let a node's containers have more or less in all, until its NodeManager ends.

    What opportunistic containers have beyond it is taken back; guaranteed ones are left alone.
    """
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    if memory is None and vcores is None:
        raise UsageError(
            "no new size was given",
            because="a resize needs memory, vcores or both",
            hint="--memory 4G, --vcores 8, or both",
        )
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        found = []
        given = words(ids)
        chosen = named_nodes(client.nodes(), given)
        names = [node.node_id for node in chosen]
        if not agreed(printer, given, names, "Resize", yes=yes or dry_run, what="node"):
            return EXIT_FAILURE
        for node in chosen:
            size = Resource(
                node.total.memory if memory is None else memory,
                node.total.vcores if vcores is None else vcores,
            )
            if not node.used.fits_in(size) and size.memory > 0 and size.vcores > 0:
                printer.note(f"{node.node_id}: guaranteed containers have {node.used}, and keep it")
            found.append(client.resize_node(node.node_id, size, dry_run=dry_run))
    tell(
        printer,
        found,
        dry_run=dry_run,
        text=lambda node: f"{node.total.memory} MB, {node.total.vcores} vcores",
        answer=size_document,
    )
    return 0


def size_document(node: NodeReport) -> dict[str, Any]:
    """What REST answers to another size."""
    return {"memory": node.total.memory, "vCores": node.total.vcores}


def tell(
    printer: Printer,
    found: list[NodeReport] | tuple[NodeReport, ...],
    *,
    dry_run: bool,
    text: object = None,
    answer: Callable[[NodeReport], Mapping[str, Any]] | None = None,
) -> None:
    """What became of the nodes, or would have."""
    if not printer.for_people:
        printer.details(
            found,
            key="node",
            document=lambda node: view.document(node) | ({"dryRun": True} if dry_run else {}),
            fields=view.fields,
            columns=view.COLUMNS,
            identity=lambda node: node.node_id,
            answer=None if dry_run else answer,
        )
        return
    shown = text if callable(text) else view.state_text
    for node in found:
        printer.text(f"{node.node_id} {'would be ' if dry_run else ''}{shown(node)}")
