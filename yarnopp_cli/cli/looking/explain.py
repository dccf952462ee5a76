"""``yopp explain``: why something waits, what would let it start, and whether it ever can."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import NodeNotFoundError, UsageError, YoppError
from ...records.explanation import Explanation
from ...views.explain import explanations as view
from ...views.text import timestamp
from ..frame.command import command
from ..frame.naming import applications, containers, is_container, nodes, spread, words
from ..frame.options import AnyIds
from ..frame.session import Session

if TYPE_CHECKING:
    from ...client.local import LocalClient


@command("explain", "yopp explain last", "yopp explain 3.2 --json")
def explain(session: Session, ids: AnyIds) -> None:
    """Explain why an application, a container or a node waits: what it needs, which containers hold that, and
    when it may start.

    With --json, `can_ever` is false if it can never start. A number alone is an application, 3.2 is container
    2 of application 3.
    """
    client, printer = session.client, session.printer
    found = [_explain(client, word) for word in spread(client, words(ids))]
    if printer.is_json:
        for one in found:
            printer.document({"explain": view.document(one)})
        return
    rows = [
        (
            one.id,
            one.state,
            str(one.satisfiable).lower(),
            ",".join(reason.code.value for reason in one.reasons),
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


def _explain(client: LocalClient, word: str) -> Explanation:
    if is_container(word):
        return client.explain(containers(client, [word])[0])
    if ":" in word:
        return client.explain(nodes(client.nodes(), [word])[0].node_id)
    try:
        return client.explain(applications(client, [word])[0])
    except YoppError as problem:
        try:
            node = nodes(client.nodes(), [word])[0].node_id
        except NodeNotFoundError:
            if any(word in (one.name, one.path) for one in client.queues()):
                raise UsageError(
                    f"{word} is a queue",
                    because="applications, containers and nodes are explained",
                    hint=f"yopp queue status {word}",
                ) from None
            raise problem from None
        return client.explain(node)
