"""``yopp rm``: the ResourceManager alone."""

from __future__ import annotations

import typer

from ..frame.context import Context
from ..frame.options import (
    Color,
    Conf,
    Define,
    Format,
    Json,
    Output,
    Quiet,
    RunDirOption,
    Timeout,
    examples,
    new_typer,
)
from ..frame.output import WORDS, Printer
from .down import Force


def register(app: typer.Typer) -> None:
    """Add the group ``rm``."""
    group = new_typer(help="Start, stop or run the ResourceManager alone.")
    group.command("start", epilog=examples("yopp rm start", "yopp rm start -q"))(start)
    group.command("stop", epilog=examples("yopp rm stop", "yopp rm stop --force"))(stop)
    group.command("restart", epilog=examples("yopp rm restart", "yopp rm restart --force"))(restart)
    group.command("status", epilog=examples("yopp rm status", "yopp rm status --json"))(status)
    group.command("run", epilog=examples("yopp rm run", "exec yopp rm run --run-dir /run/yopp"))(run)
    app.add_typer(group, name="rm")


def start(
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    timeout: Timeout = None,
    quiet: Quiet = False,
    json: Json = False,
    output: Output = None,
) -> None:
    """Start the ResourceManager alone.

    `yopp nm start` gives it nodes. It runs already: fine.
    """
    from ...cluster.starting import START_SECONDS, start_rm

    context = Context.of(conf=conf, define=define, run_dir=run_dir)
    printer = Printer.of(output=output, json=json, quiet=quiet)
    for line in context.configuration.warnings:
        printer.warn(line)
    started = start_rm(context.configuration, context.run_dir, timeout=timeout or START_SECONDS)
    printer.note(f"rm {'started' if started else 'runs already'}: {context.run_dir.rm_socket}")
    as_it_is(printer, context)


def stop(
    force: Force = False,
    run_dir: RunDirOption = None,
    timeout: Timeout = None,
    quiet: Quiet = False,
    json: Json = False,
    output: Output = None,
) -> None:
    """End the ResourceManager alone.

    Its nodes go on, and join the next one. It does not run: fine.
    """
    from ...cluster.ending import STOP_SECONDS, stop_daemon

    printer = Printer.of(output=output, json=json, quiet=quiet)
    context = Context.of(run_dir=run_dir)
    stopped = stop_daemon(context.run_dir, "rm", force=force, timeout=timeout or STOP_SECONDS)
    printer.note("rm stopped" if stopped else "rm did not run")
    as_it_is(printer, context)


def as_it_is(printer: Printer, context: Context) -> None:
    """The cluster as it is after what was done, for those who want it in JSON or with tabs."""
    from ...cluster.inspection import cluster_document, inspect_cluster
    from .status import daemons

    if printer.is_json:
        printer.document(cluster_document(inspect_cluster(context.run_dir)))
    elif printer.form == "tsv":
        daemons(printer, inspect_cluster(context.run_dir))


def restart(
    force: Force = False,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    timeout: Timeout = None,
    quiet: Quiet = False,
    json: Json = False,
    output: Output = None,
) -> None:
    """Stop and start the ResourceManager.

    Applications that ran are forgotten.
    """
    Printer.of(output=output, json=json, quiet=quiet)  # what is wrong with these is said before anything ends
    stop(force, run_dir, timeout, quiet, output=Format.name)  # of the two answers, the second
    start(conf, define, run_dir, timeout, quiet, json, output)


def status(
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    color: Color = None,
) -> int:
    """Say whether the ResourceManager runs.

    Exit code 0 if it answers, 3 if it is stopped, 4 if it does not answer.
    """
    from ...cluster.inspection import cluster_document, inspect_cluster
    from ...errors import EXIT_NOT_RUNNING
    from .status import EXIT_PARTLY, daemons

    printer = Printer.of(output=output, json=json, quiet=quiet, color=color)
    seen = inspect_cluster(Context.of(run_dir=run_dir).run_dir)
    code = EXIT_NOT_RUNNING if seen.rm is None else 0 if seen.info is not None else EXIT_PARTLY
    if printer.is_json:
        printer.document(cluster_document(seen))
    elif printer.ids_only:
        printer.ids(["rm"] if seen.rm is not None else [])
    elif printer.form == "tsv":
        daemons(printer, seen, port=0)
    elif seen.rm is None:
        printer.text("rm stopped")
    else:
        words = "running" if code == 0 else "does not answer"
        printer.text(f"rm {words}: process {seen.rm.process.pid}, {seen.run_dir.rm_socket}")
    return code


def run(
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
) -> None:
    """Be the ResourceManager, in the foreground.

    For systemd, or to watch it. It ends with SIGTERM or Ctrl-C. With --json it prints one object when it serves.
    """
    from ...cluster.starting import run_rm

    printer = Printer.of(output=output, json=json, forms=WORDS)
    context = Context.of(conf=conf, define=define, run_dir=run_dir)
    for line in context.configuration.warnings:
        printer.warn(line)
    run_rm(context.configuration, context.run_dir, announce=printer.is_json)
