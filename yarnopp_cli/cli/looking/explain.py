"""``yopp explain``: why an application, a container or a node waits, what would let it start, and whether it can ever
start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import ApplicationNotFoundError, UsageError
from ...explain.explanations import explain_ended
from ...records.times import timestamp
from ...views.explain import explanations as view
from ..frame.command import command
from ..frame.ended import here_or_ended
from ..frame.naming import things, words
from ..frame.options import AnyIds
from ..frame.session import Session

if TYPE_CHECKING:
    from ...client.local import LocalClient
    from ...records.explanation import Explanation


@command("explain", "yopp explain last", "yopp explain 3.2 --json")
def explain(session: Session, ids: AnyIds) -> None:
    """Explain why an application, a container or a node waits: the resources that it needs, the containers that hold
    them, and when it may start.

    With --json, `can_ever` is false if it can never start. A number alone is an application, 3.2 is the newest
    container of its task 2, and 3.c2 is its container 2. Jobs of clusters that have ended are found too.
    """
    printer = session.printer

    def ask(named: Sequence[str]) -> list[Explanation]:
        client = session.client
        return [client.explain(one) for one in _things(client, named)]

    found, kept = here_or_ended(session, words(ids), ask)
    found += [explain_ended(one.application, session.now_ms) for one in kept]
    if printer.is_json:
        for one in found:
            printer.document({"explain": view.document(one)})
        return
    rows = [
        (
            one.id,
            one.state,
            str(one.satisfiable).lower(),
            ",".join(reason.code for reason in one.reasons),
            timestamp(one.estimated_start_ms),
        )
        for one in found
    ]
    printer.answer(
        None,
        "\n".join(line for one in found for line in view.lines(one)),
        ids=[one.id for one in found],
        table=(("id", "state", "satisfiable", "reasons", "estimatedStart"), rows),
    )


def _things(client: LocalClient, ids: Sequence[str]) -> list[str]:
    try:
        return things(client, ids)
    except ApplicationNotFoundError as problem:
        if any(problem.sought in (one.name, one.path) for one in client.queues()):
            raise UsageError(
                f"{problem.sought} is a queue",
                because="explain takes applications, containers and nodes",
                hint=f"yopp queue status {problem.sought}",
            ) from None
        raise
