"""Why a node accepts nothing, and why it does not promise resources: reasons as values. Pure.

Why a container waits is what its node's decision returns (``ContainerReport.why``).
"""

from __future__ import annotations

from collections.abc import Sequence

from executor.light import replace
from executor.reasons import about, amount_of, by_rule, lacking, missing
from executor.records import ContainerState, ExecutionType, Resource

from ..records import explanation
from ..records.explanation import CONTAINERS, MEMORY, VCORES, Reason, ReasonKind, unusable
from ..records.reports import ContainerReport, NodeReport, is_waiting
from .snapshot import NodeSnapshot, holders_of, queue_limit, unpromised

MOST_NAMED = 20
"""A reason names at most this many ids."""
UNTOLD = by_rule("UNKNOWN", "its node has not said why within 2 s")


def _ids(reports: Sequence[ContainerReport]) -> tuple[str, ...]:
    return tuple(one.container_id for one in reports[:MOST_NAMED])


def why_waits(report: ContainerReport, here: NodeSnapshot | None) -> list[Reason]:
    """Why a container does not run; empty for one that runs or has ended. ``here`` is its node, None where
    that is unknown.
    """
    if report.state is ContainerState.DONE:
        return []
    if report.state is ContainerState.RESUMING and not report.why:
        return [Reason(ReasonKind.NEXT, resumed=True)]
    found = explanation.why_waits(report, None if here is None else here.node)
    return found or ([UNTOLD] if is_waiting(report) else [])


def window_closed(node: NodeReport) -> list[Reason]:
    """The reason that no opportunistic container runs on the node before a time; empty where its window is
    open.
    """
    at_ms = node.opportunistic.closed_until_ms
    return [Reason(ReasonKind.WINDOW_CLOSED, where=node.node_id, at_ms=at_ms)] if at_ms else []


def promised(
    needs: Resource, node_id: str, free: Resource, total: Resource, holders: Sequence[ContainerReport]
) -> list[Reason]:
    """The reasons that a node has promised what a guaranteed container needs to others; empty where it has
    not.
    """
    found = []
    for name in missing(needs, free):
        having = [one for one in holders if amount_of(one.resource, name)]
        told = about(ReasonKind.PROMISED, name, needs, free, total, where=node_id)
        found.append(replace(told, by=_ids(having), holders=holders_of(having)))
    return found


def why_not_promised(report: ContainerReport, here: NodeSnapshot) -> list[Reason]:
    """Why a node cannot promise a container its resources yet; empty where it can."""
    guaranteed = [one for one in here.live if one.execution_type is ExecutionType.GUARANTEED]
    holders = sorted(guaranteed, key=lambda one: one.allocated_at_ms)
    node = here.node
    return promised(report.resource, node.node_id, unpromised(node), node.total, holders)


def why_takes_nothing(here: NodeSnapshot) -> list[Reason]:
    """The reasons why a node accepts no containers, or no more of a type."""
    node, found = here.node, unusable(here.node)
    if found:
        return found
    if closed := window_closed(node):
        found += closed
    elif here.pressed:
        room = here.free_for_opportunistic
        short_of_vcores = Resource(0, room.vcores + 1) if node.opportunistic.lent_vcores < 0 else Resource()
        busy = lacking(ReasonKind.MACHINE_BUSY, short_of_vcores, room, node.total, used=room)
        found.append(replace(busy, needs=1))
    queued, limit = node.opportunistic.queued, queue_limit(node)
    if queued >= limit and here.queued:
        amounts = (1, max(0, limit - queued), limit)
        found.append(Reason(ReasonKind.NODE_QUEUE_FULL, CONTAINERS, *amounts, number=queued))
    left = unpromised(node)
    if not left.vcores or not left.memory:
        holders = [one for one in here.running if one.execution_type is ExecutionType.GUARANTEED]
        name, total = (MEMORY, node.total.memory) if left.vcores else (VCORES, node.total.vcores)
        found.append(Reason(ReasonKind.NODE_FULL, name, 1, 0, total, _ids(holders), holders_of(holders)))
    return found
