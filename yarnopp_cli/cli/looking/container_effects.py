"""The effects of a promotion, demotion or pause on other containers, in advance (``--dry-run``) and afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...clock import now_ms
from ...errors import ContainerNotFoundError
from ...explain.preemptions import PAUSE, Preemption, disturbed, preempted_since, promotion
from ...explain.reasons import why_not_promised
from ...explain.snapshot import Picture
from ...records.client_protocol import GetContainersRequest
from ...records.foretell_protocol import ForetellRequest
from ...records.reports import ContainerReport, is_waiting
from ...views import containers as view
from ...views.explain import consequences
from ...views.explain.reasons import text
from ...views.text import span
from ..frame.actions import polled

if TYPE_CHECKING:
    from ...client.local import LocalClient
    from ..frame.output import Printer

SETTLE_SECONDS = 2.0
"""Seconds that a promoted container gets to start before its wait is explained."""


def picture_of(client: LocalClient) -> Picture:
    """A snapshot of the cluster."""
    nodes = client.nodes()
    return Picture(now_ms(), client.cluster_info(), nodes, client.containers(nodes=nodes))


def foretell(printer: Printer, client: LocalClient, action: str, reports: Sequence[ContainerReport]) -> None:
    """Show the effects of ``action`` (promote, demote, pause) on these containers and on others."""
    picture = picture_of(client)
    for report in reports:
        preempts: list[dict[str, str]] = []
        if action == "promote":
            gives_way = client.gives_way([report], picture.nodes)
            found = promotion([report], replace(picture, gives_way=gives_way))
            effect, preempts = consequences.promote_effect(found), _documents(found.preemptions)
        elif action == "demote":
            effect = consequences.demote_effect([report])
        else:
            node = picture.node(report.node_id) or client.node(report.node_id)
            told = client.foretell(node, ForetellRequest(pauses=(report.container_id,)))
            effect = consequences.pause_effect(report, told.started)
        if printer.is_json:
            document = view.document(report, picture.taken_at_ms)
            document["yopp"]["dryRun"] = {"action": action, "effect": effect, "preempts": preempts}
            printer.document({"container": document})
        else:
            printer.text(f"{report.container_id} would be {action}d: {effect}")
    if not printer.is_json:
        printer.note("nothing was changed")


def _documents(preemptions: Sequence[Preemption], node_id: str = "") -> list[dict[str, str]]:
    return [
        {"id": one.container_id, "how": several.how}
        for several in preemptions
        for one in several.reports
        if node_id in ("", one.node_id)
    ]


@dataclass(slots=True)
class Aftermath:
    """For each promoted container: the containers that made room for it, or the reason why it waits."""

    preemptions: tuple[Preemption, ...] = ()
    waiting: dict[str, str] = field(default_factory=dict)

    def of(self, report: ContainerReport) -> dict[str, Any]:
        """The entry in a container's document."""
        return {
            "preempted": _documents(self.preemptions, report.node_id),
            "waitsFor": self.waiting.get(report.container_id, ""),
        }

    def say(self, printer: Printer) -> None:
        """Print a line for each container."""
        now = now_ms()
        for several in self.preemptions:
            word = "paused" if several.how == PAUSE else "killed"
            for one in several.reports:
                ran = span(max(0, (one.finished_at_ms or one.paused_at_ms or now) - one.started_at_ms))
                printer.note(f"{one.container_id} was {word} to make room (opportunistic, had run {ran})")
        for name, why in self.waiting.items():
            printer.note(f"{name} waits: {why}")


def aftermath(
    client: LocalClient, before: Sequence[ContainerReport], promoted: Sequence[str], *, wait: bool
) -> Aftermath:
    """The effects of the promotion of these containers; ``before`` were live. With ``wait``, they get a moment to
    start."""
    waiting = polled(
        lambda _: [one for one in map(client.container, promoted) if is_waiting(one)],
        lambda those: not those,
        SETTLE_SECONDS if wait else 0.0,
    )
    found = Aftermath()
    if others := disturbed(before, promoted):
        after = client.containers(GetContainersRequest(container_ids=others, finished=True))
        found.preemptions = preempted_since(before, after)
    found.waiting = {one.container_id: why_it_waits(client, one.container_id) for one in waiting}
    return found


def why_it_waits(client: LocalClient, container_id: str) -> str:
    """Why the container waits, in a few words."""
    try:
        found = client.explain(container_id)
    except ContainerNotFoundError:
        return "it has ended"
    return "; ".join(text(one, found.at_ms) for one in found.reasons) or "it starts shortly"


def promise_text(client: LocalClient, report: ContainerReport) -> str:
    """Why a container is not promised its resources yet: the containers that hold these promises."""
    picture = picture_of(client)
    here = picture.snapshots.get(report.node_id)
    reasons = why_not_promised(report, here) if here is not None else []
    if not reasons:
        return "a limit of its queue or user prevents it, and it waits until the limit allows it: `yopp queue list`"
    why = "; ".join(text(one, picture.taken_at_ms) for one in reasons)
    return f"{why}: the promotion waits until one of them ends"
