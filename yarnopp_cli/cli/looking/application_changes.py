"""``yopp app queue|priority|tags|lifetime``: where an application stands among others, and when it ends."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ...errors import UsageError
from ...records.reports import ApplicationReport
from ...views.applications import APPLICATIONS
from ...views.cluster import timeout_document
from ...views.text import timestamp
from ..frame.command import command
from ..frame.filters import comma_words
from ..frame.naming import applications, one_of
from ..frame.options import DryRun, DryRunHere, Live, duration
from ..frame.session import Session

Named = Annotated[
    str,
    typer.Argument(metavar="ID", help="The application: its id, a suffix of it, or `last`."),
    Live(("app",)),
]


@command("app lifetime", "yopp app lifetime last 2h", "yopp app lifetime 3 unlimited", yarn=True)
def lifetime(
    session: Session,
    application: Named,
    length: Annotated[
        str,
        typer.Argument(metavar="DUR", help="How long it may live from now on: 90s, 5m, 2h; or `unlimited`."),
    ],
    dry_run: DryRunHere = False,
) -> None:
    """Let a living application end after a time, counted from now; it is killed then."""
    seconds = 0.0 if length.lower() == "unlimited" else duration(length)
    if not seconds and length.lower() != "unlimited":
        raise UsageError(
            "no time is left to live",
            because=f"{length!r} is no time at all",
            hint="`yopp app kill` ends it now; `unlimited` lifts a bound",
        )
    if not seconds and session.yarn is not None:
        raise UsageError(
            "YARN cannot lift the bound of an application's life",
            because="its REST API takes a moment",
            hint="`yopp app lifetime ID 365d`",
        )
    expires = session.now_ms + round(seconds * 1000) if seconds else 0
    report = session.cluster.limit_lifetime(_one(session, application), expires, dry_run=dry_run)
    until = f"may live until {timestamp(expires)}" if expires else "may live without bound"
    _show(
        session,
        report,
        f"{report.application_id} {'would be one that ' if dry_run else ''}{until}",
        {} if dry_run else {"timeout": timeout_document(report, session.now_ms)},
    )


@command("app tags", "yopp app tags last", "yopp app tags last --add nightly,big")
def tags(
    session: Session,
    application: Named,
    tag: Annotated[
        list[str] | None, typer.Argument(metavar="[TAG]...", help="Have these tags, and no others.")
    ] = None,
    add: Annotated[str | None, typer.Option("--add", metavar="T,…", help="Have these too.")] = None,
    remove: Annotated[str | None, typer.Option("--remove", metavar="T,…", help="Have these no more.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Have none.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Print the tags of an application, a line each, or give a living one others.

    `yopp app list --tag` finds applications by them.
    """
    if sum((bool(tag), clear, add is not None or remove is not None)) > 1:
        raise UsageError(
            "which tags shall it have?",
            because="TAGs, --clear, and --add or --remove exclude each other",
            hint="yopp app tags last nightly big",
        )
    changes = bool(tag) or clear or add is not None or remove is not None
    client, printer = session.client, session.printer
    report = client.application(_one(session, application))
    if changes:
        gone = comma_words(remove)
        wanted = [one for one in report.tags if one not in gone] + list(comma_words(add))
        wanted = [] if clear else list(tag or wanted)
        report = client.set_tags(report.application_id, wanted, dry_run=dry_run)
    told = ", ".join(report.tags) or "none"
    if changes:
        would = "would have" if dry_run else "has"
        _show(session, report, f"{report.application_id} {would} the tags: {told}", {})
    elif printer.for_people:
        if report.tags:
            printer.text("\n".join(report.tags))
        else:
            printer.note(f"{report.application_id} has no tags")
    else:
        _show(session, report, "", {})


@command("app queue", "yopp app queue last prod", "yopp app queue 3 root.dev.web", yarn=True)
def queue(
    session: Session,
    application: Named,
    name: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue it is to be in."), Live(("queue",))],
    dry_run: DryRunHere = False,
) -> None:
    """Move a living application into another queue, with all that it has."""
    report = session.cluster.move_application(_one(session, application), name, dry_run=dry_run)
    _show(
        session,
        report,
        f"{report.application_id} {'would be' if dry_run else 'is'} in queue {report.queue}",
        {} if dry_run else {"queue": report.queue},
    )


@command("app priority", "yopp app priority last 5", "yopp app priority 3 0 --json", yarn=True)
def priority(
    session: Session,
    application: Named,
    value: Annotated[
        int,
        typer.Argument(
            metavar="N",
            min=0,
            help="A larger number is served first (of a job's containers a smaller one is: `run --priority`).",
        ),
    ],
    dry_run: DryRunHere = False,
) -> None:
    """Give a living application another priority among those of its queue."""
    report = session.cluster.update_priority(_one(session, application), value, dry_run=dry_run)
    if report.priority < value:
        session.printer.note(
            f"{value} is more than the cluster's highest priority, {report.priority} "
            "(yarn.cluster.max-application-priority): that is taken"
        )
    _show(
        session,
        report,
        f"{report.application_id} {'would have' if dry_run else 'has'} priority {report.priority}",
        {} if dry_run else {"priority": report.priority},
    )


def _one(session: Session, word: str) -> str:
    """The full id of the one application that a word means."""
    return one_of(applications(session.cluster, [word]), word)


def _show(session: Session, report: ApplicationReport, sentence: str, answer: dict[str, Any]) -> None:
    """How an application is now; ``sentence`` for people, REST's ``answer`` before it in JSON."""
    if session.printer.for_people:
        session.printer.text(sentence)
    else:
        session.details(APPLICATIONS, [report], answer=lambda _: answer)
