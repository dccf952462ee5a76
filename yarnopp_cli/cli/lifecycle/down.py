"""``yopp down``: the end of the cluster, and of whatever dead daemons left behind."""

from __future__ import annotations

from typing import Annotated

import typer

from ...errors import EXIT_FAILURE, YoppError
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
    Yes,
    examples,
)
from ..frame.output import Printer

KeepContainers = Annotated[
    bool,
    typer.Option(
        "--keep-containers",
        help="Leave containers running. The next `yopp up` starts a ResourceManager that knows nothing of them, "
        "and ends them; so does `yopp down`.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Kill daemons that do not end when they are asked to.")]

ANSWER_SECONDS = 3.0
"""How long the ResourceManager has to say what would be lost."""


def register(app: typer.Typer) -> None:
    """Add ``down``."""
    app.command("down", epilog=examples("yopp down", "yopp down -y --force"))(down)


def down(
    keep_containers: KeepContainers = False,
    force: Force = False,
    yes: Yes = False,
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
    """End the cluster: its applications, its nodes and the ResourceManager.

    It also clears up after daemons that were killed. With containers running it asks first. Nothing running
    is fine.
    """
    from ...cluster.ending import STOP_SECONDS, take_down

    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    context = Context.looking(conf=conf, define=define, run_dir=run_dir)
    if not keep_containers and not _may_end(context, printer, yes):
        printer.note("nothing was ended")
        return EXIT_FAILURE
    report = take_down(
        context.run_dir,
        keep_containers=keep_containers,
        force=force,
        timeout=STOP_SECONDS if timeout is None else timeout,
    )
    for line in report.cleared.problems:
        printer.warn(line)
    if printer.is_json:
        cleared = {"containers": list(report.cleared.containers), "cgroups": list(report.cleared.cgroups)}
        printer.document({"yopp": {"ended": list(report.ended), "cleared": cleared}})
    elif quiet:
        pass
    elif printer.form == "name":
        printer.ids(report.ended)
    elif printer.form == "tsv":
        printer.separated(("ended",), ([one] for one in report.ended))
    else:
        printer.text(_sentence(report.ended, report.cleared.containers))
    return EXIT_FAILURE if report.cleared.problems else 0


def _may_end(context: Context, printer: Printer, yes: bool) -> bool:
    """Whether nothing would be lost, or the person agrees. Raises UsageError where nobody can be asked."""
    if yes:
        return True
    try:
        with context.client() as client:
            info = client.cluster_info(timeout=ANSWER_SECONDS)
    except YoppError:
        return True  # what does not answer cannot be asked; its containers are its own no more
    live = info.containers_running + info.containers_queued + info.containers_paused
    if not live:
        return True
    return printer.confirm(
        f"End the cluster, and with it {live} container{'' if live == 1 else 's'}?", yes=False
    )


def _sentence(ended: tuple[str, ...], containers: tuple[str, ...]) -> str:
    said = f"down: ended {', '.join(ended)}" if ended else "down: nothing was running"
    if containers:
        said += f"; ended {number_of(len(containers), 'container')} that dead nodes had left"
    return said
