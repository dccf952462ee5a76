"""What promoting, demoting or pausing containers does to others: said beforehand (``--dry-run``), and afterwards."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from executor.causes import CauseKind, of_kind
from executor.records import PREEMPTION_STATUSES, ContainerState, ExecutionType

from ...errors import ContainerNotFoundError
from ...records.client_protocol import GetContainersRequest
from ...records.reports import ContainerReport
from ...views import consequences
from ...views import containers as view
from ...views.picture import Picture
from ...views.text import span
from ...views.waiting import is_waiting

if TYPE_CHECKING:
    from ...client.local import YarnClient
    from ..frame.output import Printer

SETTLE_SECONDS = 2.0
"""How long a promoted container is given to start, before it is said what it waits for."""
_STANDS = (ContainerState.PAUSING, ContainerState.PAUSED)


def picture_of(client: YarnClient) -> Picture:
    """The cluster as it is now."""
    nodes = client.nodes()
    return Picture(time.time_ns() // 1_000_000, client.cluster_info(), nodes, client.containers(nodes=nodes))


def foretell(printer: Printer, action: str, reports: Sequence[ContainerReport], picture: Picture) -> None:
    """Say what ``action`` (promote, demote, pause) would do to these containers and to others."""
    told = [(report, *_effect(action, report, picture)) for report in reports]
    if printer.is_json:
        for report, text, preempts in told:
            document = view.document(report, picture.taken_at_ms)
            document["yopp"]["dryRun"] = {"action": action, "effect": text, "preempts": preempts}
            printer.document({"container": document})
        return
    for report, text, _ in told:
        printer.text(f"{report.container_id} would be {action}d: {text}")
    printer.note("nothing was changed")


def _effect(action: str, report: ContainerReport, picture: Picture) -> tuple[str, list[dict[str, str]]]:
    if action == "promote":
        found = consequences.giving_way([report], picture)
        if not consequences.room_to_promise(report, picture):
            found = consequences.GivingWay()
        preempts = [{"id": one.container_id, "how": found.how} for one in found.reports]
        return consequences.promote_effect([report], picture), preempts
    if action == "demote":
        return consequences.demote_effect([report]), []
    return consequences.pause_effect(report, picture), []


@dataclass(slots=True)
class Aftermath:
    """Who made room for promoted containers, and what those that do not run yet wait for, by container."""

    paused: list[ContainerReport] = field(default_factory=list)
    killed: list[ContainerReport] = field(default_factory=list)
    waiting: dict[str, str] = field(default_factory=dict)

    def of(self, report: ContainerReport) -> dict[str, Any]:
        """What a container's document says of it."""
        gave = [("pause", one) for one in self.paused] + [("kill", one) for one in self.killed]
        return {
            "preempted": [
                {"id": one.container_id, "how": how} for how, one in gave if one.node_id == report.node_id
            ],
            "waitsFor": self.waiting.get(report.container_id, ""),
        }

    def say(self, printer: Printer) -> None:
        """Tell people, a line each."""
        now_ms = time.time_ns() // 1_000_000
        for word, several in (("paused", self.paused), ("killed", self.killed)):
            for one in several:
                ran = span(max(0, (one.finished_at_ms or one.paused_at_ms or now_ms) - one.started_at_ms))
                printer.note(f"{one.container_id} was {word} to make room (opportunistic, had run {ran})")
        for name, why in self.waiting.items():
            printer.note(f"{name} waits: {why}")


def aftermath(
    client: YarnClient, before: Sequence[ContainerReport], promoted: Sequence[str], *, wait: bool
) -> Aftermath:
    """What promoting these containers did, ``before`` being all that lived. ``wait``: they are given a moment first."""
    deadline = time.monotonic() + (SETTLE_SECONDS if wait else 0.0)
    while True:
        waiting = [one for one in map(client.container, promoted) if is_waiting(one) and view.is_live(one)]
        if not waiting or time.monotonic() >= deadline:
            break
        time.sleep(0.02)
    found = Aftermath()
    by_id = {one.container_id: one for one in before}
    nodes = {by_id[name].node_id for name in promoted if name in by_id}
    others = tuple(
        name
        for name, one in by_id.items()
        if one.node_id in nodes
        and name not in promoted
        and one.execution_type is ExecutionType.OPPORTUNISTIC
        and one.state in (ContainerState.RUNNING, ContainerState.LAUNCHING, ContainerState.PAUSED)
    )
    if others:
        for one in client.containers(GetContainersRequest(container_ids=others, finished=True)):
            had = by_id[one.container_id].state
            if not of_kind(one.cause, CauseKind.MAKE_ROOM):
                continue
            if one.state in _STANDS and had is not ContainerState.PAUSED:
                found.paused.append(one)
            elif one.state is ContainerState.KILLING or (
                one.state is ContainerState.DONE and one.exit_status in PREEMPTION_STATUSES
            ):
                found.killed.append(one)
    for one in waiting:
        found.waiting[one.container_id] = why_it_waits(client, one.container_id)
    return found


def why_it_waits(client: YarnClient, container_id: str) -> str:
    """The reasons in a few words."""
    from ...client.explaining import explain

    try:
        found = explain(client, container_id)
    except ContainerNotFoundError:
        return "it has ended"
    return "; ".join(one.text for one in found.reasons) or "it starts at any moment"


def promise_text(client: YarnClient, report: ContainerReport) -> str:
    """Why a container is not promised its resources yet: who has been promised them."""
    node = client.node(report.node_id)
    if report.resource.fits_in((node.total - node.used).at_least_zero()):
        return "a limit of its queue or user stands against it, and it waits until that allows it: `yopp queue list`"
    holders = [
        one
        for one in client.containers()
        if one.node_id == node.node_id
        and one.execution_type is ExecutionType.GUARANTEED
        and one.resource.vcores
    ]
    oldest = min(holders, key=lambda one: one.started_at_ms or one.allocated_at_ms, default=None)
    who = f" (oldest {oldest.container_id})" if oldest is not None else ""
    have = f"{len(holders)} guaranteed container{'' if len(holders) == 1 else 's'}{who}"
    return (
        f"{node.node_id} has promised {node.used.vcores} of {node.total.vcores} vcores and {node.used.memory} of "
        f"{node.total.memory} MB to {have}, and the promotion waits until one of them ends"
    )
