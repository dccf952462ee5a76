"""``yopp attempt list|status``."""

from __future__ import annotations

from typing import Annotated

import typer

from ...errors import ApplicationNotFoundError
from ...records.ids import ApplicationAttemptId
from ...records.reports import ApplicationAttemptReport
from ...views.applications import ATTEMPTS
from ..frame.command import command
from ..frame.filters import node_id
from ..frame.naming import applications, one_of, words
from ..frame.options import Ids, Live
from ..frame.session import Session


@command("attempt list", "yopp attempt list last", "yopp attempt list 3 --json", lists=ATTEMPTS, yarn=True)
def list_attempts(
    session: Session,
    application: Annotated[
        str,
        typer.Argument(metavar="APPLICATION", help="Full id, `last`, or unique suffix."),
        Live(("app",)),
    ],
    node: Annotated[
        str | None,
        typer.Option("--node", metavar="NODE", help="Only those whose master is on this node."),
        Live(("node",)),
    ] = None,
) -> None:
    """List the attempts of an application, oldest first."""
    cluster, states = session.cluster, session.states
    one_app = one_of(applications(cluster, [application]), application)
    on = node_id(cluster, node)

    def once() -> None:
        found = [
            one
            for one in cluster.attempts(one_app)
            if (not states or one.state in states) and (not on or one.am_node_id == on)
        ]
        session.show(ATTEMPTS, found, empty="no attempts")

    session.repeat(once)


@command(
    "attempt status",
    "yopp attempt status appattempt_1765400000000_0001_000001",
    "yopp attempt list last -q | yopp attempt status -",
    yarn=True,
)
def status(session: Session, ids: Ids) -> None:
    """Show attempts by their full ids; `last` is the newest attempt of the newest application."""
    cluster = session.cluster
    found: list[ApplicationAttemptReport] = []
    for word in words(ids):
        if word == "last":
            found += cluster.attempts(applications(cluster, [word])[0])[-1:]
            continue
        wanted = ApplicationAttemptId.parse(word)
        owner = str(wanted.application_id)
        matching = [one for one in cluster.attempts(owner) if one.attempt_id == str(wanted)]
        if not matching:
            raise ApplicationNotFoundError(
                f"no attempt {word}",
                because=f"{owner} has none of that number",
                hint=f"`yopp attempt list {owner}` shows those there are",
                sought=str(wanted),
            )
        found += matching
    session.details(ATTEMPTS, found)
