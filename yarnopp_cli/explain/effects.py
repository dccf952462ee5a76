"""What an action on containers does to others, before it is done and afterwards. Pure.

A forecast by the node's own rules; nothing is reserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from executor.causes import CauseKind
from executor.core.victims import fewest
from executor.records import PREEMPTION_STATUSES, ContainerState, ExecutionType, Resource

from ..records.reports import ContainerReport
from .snapshot import NodeSnapshot, can_promise, is_waiting, needs_of, sum_of

PAUSE, KILL = "pause", "kill"
_PAUSED = (ContainerState.PAUSING, ContainerState.PAUSED)
_DISTURBED = (ContainerState.RUNNING, ContainerState.LAUNCHING, ContainerState.PAUSED)


@dataclass(frozen=True, slots=True)
class Preemption:
    """Who makes room, and how: PAUSE or KILL."""

    reports: tuple[ContainerReport, ...] = ()
    how: str = ""


def preempted_for(
    reports: Sequence[ContainerReport], here: NodeSnapshot | None, *, pauses: bool
) -> Preemption:
    """Who would probably be preempted if these containers of one node were guaranteed now: the fewest opportunistic
    ones that suffice, the newest of them. Nobody where no room is needed, or where all of them would not be enough.
    ``pauses``: the node pauses where that is enough.
    """
    wanted = [one for one in reports if is_waiting(one)]
    if here is None or not wanted:
        return Preemption()
    missing = (sum_of(map(needs_of, wanted)) - here.free).at_least_zero()
    promoted = {one.container_id for one in reports}
    there = [
        one for one in here.live
        if one.execution_type is ExecutionType.OPPORTUNISTIC and one.container_id not in promoted
    ]  # fmt: skip
    # Newest first; of those that started in the same millisecond, the one that came last.
    running = [one for one in there if one.state is ContainerState.RUNNING]
    running = sorted(running, key=lambda one: one.started_at_ms)[::-1]
    if pauses and (chosen := fewest([Resource(0, one.resource.vcores) for one in running], missing)):
        return Preemption(tuple(running[index] for index in chosen), PAUSE)
    paused = [one for one in there if one.state is ContainerState.PAUSED]
    gains = [*(one.resource for one in running), *(Resource(one.resource.memory) for one in paused)]
    every = [*running, *paused]
    return Preemption(tuple(every[index] for index in fewest(gains, missing)), KILL)


@dataclass(frozen=True, slots=True)
class Promotion:
    """What becomes of containers that are made guaranteed: who is preempted for them, node by node, and which of them
    wait because their node cannot promise them their resources.
    """

    reports: tuple[ContainerReport, ...]
    preemptions: tuple[Preemption, ...]
    unpromised: tuple[ContainerReport, ...]
    nodes: int


def promotion(
    reports: Sequence[ContainerReport], nodes: dict[str, NodeSnapshot], *, pauses: bool
) -> Promotion:
    """As it would be now."""
    by_node: dict[str, list[ContainerReport]] = {}
    for one in reports:
        by_node.setdefault(one.node_id, []).append(one)
    full = [
        one for one in reports
        if (here := nodes.get(one.node_id)) is not None and not can_promise(here.node, one.resource)
    ]  # fmt: skip
    found = [preempted_for(some, nodes.get(name), pauses=pauses) for name, some in by_node.items()]
    preemptions = [one for one in found if one.reports and not full]
    return Promotion(tuple(reports), tuple(preemptions), tuple(full), len(by_node))


def starts_instead(report: ContainerReport, here: NodeSnapshot | None) -> ContainerReport | None:
    """Who starts on the vcores of a container that is paused; None for nobody."""
    if here is None or not report.resource.vcores:
        return None
    free = here.free + Resource(0, report.resource.vcores)
    return next((one for one in here.queued if one.resource.fits_in(free)), None)


def preempted_since(
    before: Sequence[ContainerReport], after: Iterable[ContainerReport]
) -> tuple[Preemption, Preemption]:
    """Who has been paused, and who killed, to make room for promoted containers; ``after`` are those of ``disturbed``
    as they are now.
    """
    was_paused = {one.container_id for one in before if one.state is ContainerState.PAUSED}
    paused, killed = [], []
    for one in after:
        if one.cause is None or one.cause.kind is not CauseKind.MAKE_ROOM:
            continue
        if one.state in _PAUSED and one.container_id not in was_paused:
            paused.append(one)
        elif one.state is ContainerState.KILLING or (
            one.state is ContainerState.DONE and one.exit_status in PREEMPTION_STATUSES
        ):
            killed.append(one)
    return Preemption(tuple(paused), PAUSE), Preemption(tuple(killed), KILL)


def disturbed(before: Sequence[ContainerReport], promoted: Sequence[str]) -> tuple[str, ...]:
    """Whom promoting these may preempt: the other opportunistic containers on their nodes."""
    nodes = {one.node_id for one in before if one.container_id in promoted}
    return tuple(
        one.container_id for one in before
        if one.node_id in nodes
        and one.container_id not in promoted
        and one.execution_type is ExecutionType.OPPORTUNISTIC
        and one.state in _DISTURBED
    )  # fmt: skip
