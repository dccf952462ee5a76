"""``yopp app queue|priority|tags|lifetime``: where an application stands among others, and when it ends."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ...errors import UsageError
from ...records.reports import ApplicationReport
from ...views import applications as view
from ...views.cluster import timeout_document
from ...views.text import timestamp
from ..frame.context import Context
from ..frame.filters import comma_words
from ..frame.naming import applications, one_of
from ..frame.options import (
    Color,
    Conf,
    Define,
    DryRun,
    Json,
    Output,
    Quiet,
    RunDirOption,
    Verbose,
    duration,
    examples,
)
from ..frame.output import Printer
from .application import now_ms

Named = Annotated[
    str, typer.Argument(metavar="ID", help="The application: its id, a suffix of it, or `last`.")
]


def register(group: typer.Typer) -> None:
    """Add the commands to the group ``app``."""
    group.command("queue", epilog=examples("yopp app queue last prod", "yopp app queue 3 root.dev.web"))(
        queue
    )
    group.command("priority", epilog=examples("yopp app priority last 5", "yopp app priority 3 0 --json"))(
        priority
    )
    group.command("tags", epilog=examples("yopp app tags last", "yopp app tags last --add nightly,big"))(tags)
    group.command("lifetime", epilog=examples("yopp app lifetime last 2h", "yopp app lifetime 3 unlimited"))(
        lifetime
    )


def lifetime(
    application: Named,
    length: Annotated[
        str,
        typer.Argument(metavar="DUR", help="How long it may live from now on: 90s, 5m, 2h; or `unlimited`."),
    ],
    dry_run: DryRun = False,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
) -> None:
    """Let a living application end after a time, counted from now; it is killed then."""
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    seconds = 0.0 if length.lower() == "unlimited" else duration(length)
    if not seconds and length.lower() != "unlimited":
        raise UsageError(
            "no time is left to live",
            because=f"{length!r} is no time at all",
            hint="`yopp app kill` ends it now; `unlimited` lifts a bound",
        )
    expires = now_ms() + round(seconds * 1000) if seconds else 0
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        one = one_of(applications(client, [application]), application)
        report = client.limit_lifetime(one, expires, dry_run=dry_run)
    until = f"may live until {timestamp(expires)}" if expires else "may live without bound"
    _show(
        printer,
        report,
        f"{report.application_id} {'would be one that ' if dry_run else ''}{until}",
        {} if dry_run else {"timeout": timeout_document(report, now_ms())},
    )


def tags(
    application: Named,
    tag: Annotated[
        list[str] | None, typer.Argument(metavar="[TAG]...", help="Have these tags, and no others.")
    ] = None,
    add: Annotated[str | None, typer.Option("--add", metavar="T,…", help="Have these too.")] = None,
    remove: Annotated[str | None, typer.Option("--remove", metavar="T,…", help="Have these no more.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Have none.")] = False,
    dry_run: DryRun = False,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
) -> None:
    """Print the tags of an application, a line each, or give a living one others.

    `yopp app list --tag` finds applications by them.
    """
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    if sum((bool(tag), clear, add is not None or remove is not None)) > 1:
        raise UsageError(
            "which tags shall it have?",
            because="TAGs, --clear, and --add or --remove exclude each other",
            hint="yopp app tags last nightly big",
        )
    changes = bool(tag) or clear or add is not None or remove is not None
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        report = client.application(one_of(applications(client, [application]), application))
        if changes:
            gone = comma_words(remove)
            wanted = [one for one in report.tags if one not in gone] + list(comma_words(add))
            wanted = [] if clear else list(tag or wanted)
            report = client.set_tags(report.application_id, wanted, dry_run=dry_run)
    told = ", ".join(report.tags) or "none"
    if changes:
        would = "would have" if dry_run else "has"
        _show(printer, report, f"{report.application_id} {would} the tags: {told}", {})
    elif printer.for_people:
        if report.tags:
            printer.text("\n".join(report.tags))
        else:
            printer.note(f"{report.application_id} has no tags")
    else:
        _show(printer, report, "", {})


def queue(
    application: Named,
    name: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue it is to be in.")],
    dry_run: DryRun = False,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
) -> None:
    """Move a living application into another queue, with all that it has."""
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        one = one_of(applications(client, [application]), application)
        report = client.move_application(one, name, dry_run=dry_run)
    _show(
        printer,
        report,
        f"{report.application_id} {'would be' if dry_run else 'is'} in queue {report.queue}",
        {} if dry_run else {"queue": report.queue},
    )


def priority(
    application: Named,
    value: Annotated[
        int,
        typer.Argument(
            metavar="N",
            min=0,
            help="A larger number is served first (of a job's containers a smaller one is: `run --priority`).",
        ),
    ],
    dry_run: DryRun = False,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
) -> None:
    """Give a living application another priority among those of its queue."""
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        one = one_of(applications(client, [application]), application)
        report = client.update_priority(one, value, dry_run=dry_run)
    if report.priority < value:
        printer.note(
            f"{value} is more than the cluster's highest priority, {report.priority} "
            "(yarn.cluster.max-application-priority): that is taken"
        )
    _show(
        printer,
        report,
        f"{report.application_id} {'would have' if dry_run else 'has'} priority {report.priority}",
        {} if dry_run else {"priority": report.priority},
    )


def _show(printer: Printer, report: ApplicationReport, sentence: str, answer: dict[str, Any]) -> None:
    if printer.for_people:
        printer.text(sentence)
        return
    now = now_ms()
    printer.details(
        [report],
        key="app",
        document=lambda app: view.document(app, now),
        fields=lambda app: view.fields(app, now),
        columns=view.columns(now),
        identity=lambda app: app.application_id,
        answer=lambda _: answer,
    )
