"""Filters of lists that need more than the row: by queues, nodes and applications."""

from __future__ import annotations

from executor.hints import TYPE_CHECKING

from ...errors import EXIT_NO_SUCH, YoppError
from ...records.client_protocol import GetContainersRequest
from ...records.job_protocol import GetApplicationsRequest
from ...records.reports import QueueReport
from ...views.text import harmless
from .options import Annotated, Live, option

if TYPE_CHECKING:
    from ...client.protocol import Client

QueueFilter = Annotated[
    str, option("--queue NAME", "Only in this queue, or in a queue below it."), Live(("queue",))
]
NodeFilter = Annotated[str | None, option("--node NODE", "Only on this node."), Live(("node",))]
UserFilter = Annotated[str, option("--user NAME", "Only of this user.")]
NameFilter = Annotated[str, option("--name NAME", "Containers of applications with this name.")]
TagFilter = Annotated[str | None, option("--tag T,…", "Containers of applications with one of these tags.")]


def comma_words(text: str | None) -> tuple[str, ...]:
    """The words of a comma list."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def queues_below(client: Client, name: str) -> frozenset[str]:
    """The names of a queue and of the queues below it. Raises YoppError (exit 66) if no queue has that name."""
    every = client.queues()
    found = named_queue(every, name)
    if not found.path:
        return frozenset({found.name})
    below = f"{found.path}."
    return frozenset(one.name for one in every if one is found or one.path.startswith(below))


def named_queue(every: tuple[QueueReport, ...], name: str) -> QueueReport:
    """The queue with this name or path. Raises YoppError (exit 66)."""
    for one in every:
        if name in (one.name, one.path or one.name):
            return one
    raise YoppError(
        f"no queue {harmless(name)}",
        because="no queue has that name or path",
        hint=f"there is {', '.join(one.name for one in every) or 'none'}",
        exit_code=EXIT_NO_SUCH,
    )


def node_id(client: Client, word: str | None) -> str:
    """The full id of the node that a word names, "" for none. Raises NodeNotFoundError, UsageError."""
    if not word:
        return ""
    from .naming import one_node

    return one_node(client, word).node_id


def applications_on(client: Client, node: str, *, ended_too: bool) -> frozenset[str]:
    """The applications that have containers on a node; with ``ended_too``, also those that had some."""
    request = GetContainersRequest(node_id=node, finished=ended_too)
    return frozenset(one.application_id for one in client.container_reports(request))


def nodes_of(client: Client, word: str) -> frozenset[str]:
    """The nodes on which the application that ``word`` means has live containers."""
    from .naming import one_application

    request = GetContainersRequest(application_id=one_application(client, word))
    return frozenset(one.node_id for one in client.container_reports(request))


def applications_with(client: Client, *, queue: str, name: str, tag: str | None) -> frozenset[str] | None:
    """The ids of the applications that match these filters; None if no filter is given."""
    tags = comma_words(tag)
    if not (queue or name or tags):
        return None
    chosen = queues_below(client, queue) if queue else frozenset()
    return frozenset(
        report.application_id
        for report in client.applications(GetApplicationsRequest(tags=tags, name=name))
        if not queue or report.queue in chosen
    )
