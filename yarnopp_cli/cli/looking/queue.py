"""``yopp queue list|status``."""

from __future__ import annotations

from ...records.reports import QueueReport
from ...views.queues import QUEUES
from ..frame.command import command
from ..frame.filters import QueueFilter, named_queue, queues_below
from ..frame.naming import ALL, one_application, words
from ..frame.options import Annotated, Live, QueueNames, option
from ..frame.session import Session


@command("queue list", "yopp queue list", "yopp queue list --json", lists=QUEUES, yarn=True)
def list_queues(
    session: Session,
    user: Annotated[str, option("--user NAME", "Only queues that this user uses.")] = "",
    app: Annotated[
        str | None, option("--app ID", "Only the queue of this application."), Live(("app",))
    ] = None,
    queue: QueueFilter = "",
) -> None:
    """List the queues, parents first, with their share of the cluster and its use."""
    client, states = session.cluster, session.states
    below = queues_below(client, queue) if queue else None

    def once() -> None:
        if session.yarn is not None and session.printer.form == "json":
            session.raw(session.yarn.scheduler().body)  # The answer depends on the scheduler.
            return
        home = client.application(one_application(client, app)).queue if app else None

        def passes(one: QueueReport) -> bool:
            return (
                (not states or "ALL" in states or one.state in states)
                and (not user or any(part.user == user for part in one.users))
                and (below is None or one.name in below)
                and (home is None or one.name == home)
            )

        session.show(QUEUES, [one for one in client.queues() if passes(one)], empty="no such queue")

    session.repeat(once)


@command("queue status", "yopp queue status default", "yopp queue status default --json", yarn=True)
def status(session: Session, ids: QueueNames) -> None:
    """Show queues by name."""
    queues, given = session.cluster.queues(), words(ids)
    session.details(QUEUES, queues if given == [ALL] else [named_queue(queues, name) for name in given])
