"""Why a container does not run, why a node accepts nothing, why a request is not served: reasons as values.
Pure.

The reasons describe the rules of the schedulers and decide nothing. The ResourceManager derives them from its
own state, the command line and ``yopp top`` from the nodes' fresher figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from executor.causes import Cause, CauseKind
from executor.light import replace
from executor.reasons import beside_master, lacking, too_big
from executor.records import MIB, ContainerState, ExecutionType, Resource

from ..records.explanation import CONTAINERS, MEMORY, VCORES, Reason, ReasonKind, unusable
from ..records.reports import GONE, ContainerReport, NodeReport
from .snapshot import NodeSnapshot, holders_of, queue_limit, unpromised

Amounts = tuple[Resource, Resource, Resource]
KEPT = "yopp.nodemanager.paused-resources = keep"
"""The setting by which guaranteed containers wait for the devices of opportunistic ones."""
MOST_NAMED = 20
"""A reason names at most this many ids."""


def _ids(reports: Sequence[ContainerReport]) -> tuple[str, ...]:
    return tuple(one.container_id for one in reports[:MOST_NAMED])


def _of(size: Resource, name: str) -> int:
    return size.memory if name == MEMORY else size.amount(name)


def _about(
    kind: ReasonKind, name: str, amounts: Amounts, holders: Sequence[ContainerReport] = (), **more: Any
) -> Reason:
    """A reason about one resource type; ``amounts`` are what is needed, free and the total, ``holders`` the
    containers that may hold it.
    """
    having = [one for one in holders if _of(one.resource, name)]
    needs, free, total = (_of(size, name) for size in amounts)
    return replace(Reason(kind, name, needs, free, total, _ids(having), holders_of(having)), **more)


def _missing(needs: Resource, free: Resource) -> list[str]:
    names = (VCORES, MEMORY, *(one.name for one in needs.others))
    return [name for name in names if _of(needs, name) > _of(free, name)]


def why_waits(report: ContainerReport, here: NodeSnapshot | None) -> list[Reason]:
    """Why a container does not run; empty for one that runs or has ended. ``here`` is its node, None where
    that is unknown.
    """
    if report.state is ContainerState.DONE:
        return []
    if here is None or here.node.state in GONE:
        return [Reason(ReasonKind.GONE, where=report.node_id)]
    if report.state is None:
        return [Reason(ReasonKind.NOT_STARTED, by=(report.container_id,)), *unusable(here.node)]
    if report.state is ContainerState.SCHEDULED:
        place = here.queue.get(report.container_id, report.position)
        return why_queued(report, here, max(0, place - 1))
    if report.state in (ContainerState.PAUSED, ContainerState.PAUSING, ContainerState.RESUMING):
        return [why_paused([report], here), *unusable(here.node)]
    return []


def why_queued(report: ContainerReport, here: NodeSnapshot, ahead: int) -> list[Reason]:
    """Why a container queued behind ``ahead`` others does not start: missing resources, the containers before
    it, the state of its node.
    """
    if (never := never_here(report, here)) is not None:
        return [never]
    reasons = _shortages(report.resource, here, [*here.running, *here.paused])
    if report.execution_type is ExecutionType.GUARANTEED:
        reasons = [replace(one, detail=KEPT) if _is_kept(one, here) else one for one in reasons]
    if not reasons:
        reasons = _machine_busy(report.resource, here, report.execution_type)
    if ahead:
        before = _ids(here.queued[:ahead])
        reasons.append(Reason(ReasonKind.BEHIND, CONTAINERS, 1, 0, len(here.queued), before, number=ahead))
    return [*reasons, *unusable(here.node)]


def _is_kept(short: Reason, here: NodeSnapshot) -> bool:
    """Whether opportunistic containers that are not being ended hold the countable resource that a guaranteed one
    lacks: nodes end them at once, unless they are told to leave them their devices."""
    return short.resource not in (VCORES, MEMORY) and any(
        one.execution_type is ExecutionType.OPPORTUNISTIC
        and one.state is not ContainerState.KILLING
        and _of(one.resource, short.resource)
        for one in (*here.running, *here.paused)
    )


def _shortages(needs: Resource, here: NodeSnapshot, keep_memory: Sequence[ContainerReport]) -> list[Reason]:
    """The missing resources and their holders: running containers for vcores, those in ``keep_memory`` for
    all others.
    """
    amounts = (needs, here.free, here.node.total)
    return [
        _about(ReasonKind.SHORT, name, amounts, here.running if name == VCORES else keep_memory)
        for name in _missing(needs, here.free)
    ]


def _machine_busy(needs: Resource, here: NodeSnapshot, kind: ExecutionType) -> list[Reason]:
    """The reason that the machine uses what is not allocated, or that the window for opportunistic containers
    is closed; else empty.
    """
    if kind is ExecutionType.OPPORTUNISTIC and (closed := window_closed(here.node)):
        return closed
    left = here.free_for(kind)
    if needs.fits_in(left):
        return []
    return [lacking(ReasonKind.MACHINE_BUSY, needs, left, here.node.total, used=left)]


def window_closed(node: NodeReport) -> list[Reason]:
    """The reason that no opportunistic container runs on the node before a time; empty where its window is
    open.
    """
    at_ms = node.opportunistic.closed_until_ms
    return [Reason(ReasonKind.WINDOW_CLOSED, where=node.node_id, at_ms=at_ms)] if at_ms else []


def why_paused(alike: Sequence[ContainerReport], here: NodeSnapshot) -> Reason:
    """Why containers that were paused for the same cause do not run."""
    cause = alike[0].cause or Cause(CauseKind.MAKE_ROOM)
    if cause.kind is CauseKind.RESUMED:
        return replace(_since_resumed(alike[0], here), detail=cause.by, number=len(alike), resumed=True)
    return replace(_reason_of(cause, alike[0], here), number=len(alike))


def _reason_of(cause: Cause, report: ContainerReport, here: NodeSnapshot) -> Reason:
    needs, free, total = Resource(0, report.resource.vcores), here.free, here.node.total
    match cause.kind:
        case CauseKind.PERSON:
            return Reason(ReasonKind.BY_PERSON, detail=cause.by, by=(report.container_id,))
        case CauseKind.OUTSIDE_WINDOW:
            return Reason(ReasonKind.WINDOW_CLOSED, where=here.node.node_id, at_ms=cause.until_ms)
        case CauseKind.OUTSIDE_CPU:
            room = here.free_for(report.execution_type)
            found = lacking(
                ReasonKind.OUTSIDE_CPU, Resource(0, max(needs.vcores, room.vcores + 1)), room, total
            )
            return replace(found, needs=needs.vcores)
        case CauseKind.MACHINE_MEMORY:
            least, left = cause.limit // MIB, cause.measured // MIB
            return Reason(ReasonKind.MACHINE_MEMORY, MEMORY, least, left, total.memory)
        case CauseKind.LENT_MEMORY:
            return _about(ReasonKind.LENT_MEMORY, MEMORY, (report.resource, free, total))
        case CauseKind.LENT_CPU:
            kind = ReasonKind.LENT_CPU
        case CauseKind.NODE_RESIZED:
            kind = ReasonKind.NODE_RESIZED
        case _:
            kind = ReasonKind.MADE_ROOM
    having = [one for one in here.running if one.resource.vcores]
    holders = [one for one in having if one.execution_type is ExecutionType.GUARANTEED] or having
    return _about(kind, VCORES, (needs, free, total), holders)


def _since_resumed(report: ContainerReport, here: NodeSnapshot) -> Reason:
    """The reasons why a container whose pause is over still waits: the holders of its vcores, the machine's load, or
    the containers before it.
    """
    needs = Resource(0, report.resource.vcores)
    for found in (*_shortages(needs, here, here.running), *_machine_busy(needs, here, report.execution_type)):
        return found
    ahead = [one for one in here.queued if one.execution_type is ExecutionType.GUARANTEED]
    if ahead:
        return Reason(ReasonKind.BEHIND, by=_ids(ahead), holders=holders_of(ahead))
    return Reason(ReasonKind.NEXT)


def never_here(report: ContainerReport, here: NodeSnapshot) -> Reason | None:
    """Why a container queued at a node can never start there: it is too large for the node, or for what its
    own master leaves of it.
    """
    node = here.node
    if not report.resource.fits_in(node.total):
        return too_big(report.resource, [(node.node_id, node.total)], ReasonKind.TOO_BIG_HERE)
    if report.is_am:
        return None
    of = report.application_id
    master = sum((one.resource for one in here.live if one.is_am and one.application_id == of), Resource())
    return beside_master(report.resource, master, node.total, node.node_id)


def promised(
    needs: Resource, node_id: str, free: Resource, total: Resource, holders: Sequence[ContainerReport]
) -> list[Reason]:
    """The reasons that a node has promised what a guaranteed container needs to others; empty where it has
    not.
    """
    kind, amounts = ReasonKind.PROMISED, (needs, free, total)
    return [_about(kind, name, amounts, holders, where=node_id) for name in _missing(needs, free)]


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
        room = here.free_for(ExecutionType.OPPORTUNISTIC)
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
