"""Which containers make room when others are promoted or paused. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from executor.causes import CauseKind
from executor.light import Record
from executor.records import PREEMPTION_STATUSES, ContainerState, ExecutionType

from ..records.reports import ContainerReport
from .snapshot import Picture, can_promise

PAUSE, KILL = "pause", "kill"
_PAUSED = (ContainerState.PAUSING, ContainerState.PAUSED)
_DISTURBED = (ContainerState.RUNNING, ContainerState.LAUNCHING, ContainerState.PAUSED)


class Preemption(Record):
    """The containers that make room, and how: PAUSE or KILL."""

    reports: tuple[ContainerReport, ...] = ()
    how: str = ""


class Promotion(Record):
    """The effect of promoting containers: which are preempted for them, node by node, and which of the
    promoted wait because their node cannot promise them their resources.
    """

    reports: tuple[ContainerReport, ...]
    preemptions: tuple[Preemption, ...]
    unpromised: tuple[ContainerReport, ...]
    nodes: int


def promotion(reports: Sequence[ContainerReport], picture: Picture) -> Promotion:
    """The effect of a promotion now; which containers give way is taken from the nodes' answers in
    ``picture``.
    """
    known = [one for one in reports if one.node_id in picture.snapshots]
    full = [one for one in known if not can_promise(picture.snapshots[one.node_id].node, one.resource)]
    found: dict[tuple[str, str], list[ContainerReport]] = {}
    for container_id, how in picture.gives_way.items():
        if (victim := picture.container(container_id)) is not None and not full:
            found.setdefault((victim.node_id, how), []).append(victim)
    preemptions = [Preemption(tuple(victims), how) for (_, how), victims in found.items()]
    return Promotion(tuple(reports), tuple(preemptions), tuple(full), len({one.node_id for one in reports}))


def preempted_since(
    before: Sequence[ContainerReport], after: Iterable[ContainerReport]
) -> tuple[Preemption, Preemption]:
    """Which containers have been paused, and which killed, to make room for promoted ones; ``after`` are the
    present reports of those of ``disturbed``.
    """
    was_paused = {one.container_id for one in before if one.state is ContainerState.PAUSED}
    gave_way = [one for one in after if one.cause is not None and one.cause.kind is CauseKind.MAKE_ROOM]
    done = [one for one in gave_way if one.state is ContainerState.DONE]
    ended = [one for one in done if one.exit_status in PREEMPTION_STATUSES]
    paused = [one for one in gave_way if one.state in _PAUSED and one.container_id not in was_paused]
    killed = [one for one in gave_way if one.state is ContainerState.KILLING or one in ended]
    return Preemption(tuple(paused), PAUSE), Preemption(tuple(killed), KILL)


def disturbed(before: Sequence[ContainerReport], promoted: Sequence[str]) -> tuple[str, ...]:
    """The containers that promoting these may preempt: the other opportunistic ones on their nodes."""
    nodes = {one.node_id for one in before if one.container_id in promoted}
    return tuple(
        one.container_id for one in before
        if one.node_id in nodes
        and one.container_id not in promoted
        and one.execution_type is ExecutionType.OPPORTUNISTIC
        and one.state in _DISTURBED
    )  # fmt: skip
