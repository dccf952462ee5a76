"""What an action on containers or applications will cause, in words, before it is done. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from executor.core.victims import fewest
from executor.records import ContainerState, ExecutionType, Resource

from ..records.ids import dotted
from ..records.reports import ApplicationReport, ContainerReport, NodeReport
from .applications import counts_text
from .containers import shown_state, time_ms
from .picture import Picture
from .text import megabytes, short_span
from .waiting import free_of, is_waiting

_NAMED = 3
_STANDS = (ContainerState.PAUSED, ContainerState.PAUSING, ContainerState.RESUMING)


def suffix(identifier: str) -> str:
    """The part of an id by which people know it: ``_000009``."""
    return "_" + identifier.rpartition("_")[2]


def short_id(identifier: str) -> str:
    """An id with its middle left out: ``container_…_000009``."""
    return f"{identifier.partition('_')[0]}_…{suffix(identifier)}"


def _what(report: ContainerReport, now_ms: int) -> str:
    kind = report.execution_type.value.lower()
    state = shown_state(report).lower()
    return f"{kind}, {state} {short_span(_span_ms(report, now_ms))}, of application {suffix(report.application_id)}"


def _span_ms(report: ContainerReport, now_ms: int) -> int:
    """How long it has run or waited; of one that is paused, how long it stands still."""
    if report.state is ContainerState.PAUSED and report.paused_at_ms:
        return max(0, now_ms - report.paused_at_ms)
    return time_ms(report, now_ms)


def _names(reports: Sequence[ContainerReport]) -> str:
    """As they can be typed: those of different applications have the same last digits."""
    named = ", ".join(f"container {dotted(one.container_id)}" for one in reports[:_NAMED])
    return named + (f" and {len(reports) - _NAMED} more" if len(reports) > _NAMED else "")


def kill_containers(reports: Sequence[ContainerReport], picture: Picture) -> str:
    """The question before containers are killed."""
    if len(reports) == 1:
        one = reports[0]
        question = f"Kill container {dotted(one.container_id)} ({_what(one, picture.taken_at_ms)})?"
    else:
        running = sum(1 for one in reports if one.started_at_ms)
        question = f"Kill {len(reports)} containers ({running} have run): {_names(reports)}?"
    losing = [one for one in reports if one.started_at_ms]
    effect = []
    if losing:
        whose = "Its" if len(reports) == 1 else "Their" if len(losing) > 1 else "Its"
        effect.append(f"{whose} work is lost.")
    else:
        effect.append(f"No work is lost: nothing of {'it' if len(reports) == 1 else 'them'} has run.")
    masters = sum(1 for one in reports if one.is_am)
    if masters and len(reports) == 1:
        effect.append("It is its application's master: the application will try again, or fail.")
    elif masters:
        effect.append(f"{masters} of them are masters: their applications will try again, or fail.")
    else:
        killed = "it" if len(reports) == 1 else "them"
        effect.append(f"The application is told that a person killed {killed}, and decides what follows.")
    return f"{question}\n{' '.join(effect)}"


_USE_PAUSE = "yarn.nodemanager.opportunistic-containers-use-pause-for-preemption"


@dataclass(frozen=True, slots=True)
class GivingWay:
    """Who makes room, and how: "pause" or "kill"."""

    reports: tuple[ContainerReport, ...] = ()
    how: str = ""


def giving_way(reports: Sequence[ContainerReport], picture: Picture) -> GivingWay:
    """Who would probably give way if these containers of one node were guaranteed now: the fewest opportunistic ones
    that suffice, the newest of them. Nobody where no room is needed, or where all of them would not be enough.
    """
    node = picture.node(reports[0].node_id) if reports else None
    wanted = [one for one in reports if is_waiting(one)]
    if node is None or not wanted:
        return GivingWay()
    needs = Resource()
    for one in wanted:
        paused = one.state in _STANDS
        needs = needs + (Resource(0, one.resource.vcores) if paused else one.resource)
    short = (needs - free_of(node)).at_least_zero()
    promoted = {one.container_id for one in reports}
    there = [
        one
        for one in picture.containers
        if one.node_id == node.node_id
        and one.execution_type is ExecutionType.OPPORTUNISTIC
        and one.container_id not in promoted
    ]
    # Newest first; of those that started in the same millisecond, the one that came last.
    running = [one for one in there if one.state is ContainerState.RUNNING]
    running = sorted(running, key=lambda one: one.started_at_ms)[::-1]
    if picture.info.properties.get(_USE_PAUSE, "").lower() == "true":
        gains = [Resource(0, one.resource.vcores) for one in running]
        if chosen := fewest(gains, short):
            return GivingWay(tuple(running[index] for index in chosen), "pause")
    standing = [one for one in there if one.state is ContainerState.PAUSED]
    candidates = [*running, *standing]
    gains = [
        one.resource if one.state is ContainerState.RUNNING else Resource(one.resource.memory)
        for one in candidates
    ]
    return GivingWay(tuple(candidates[index] for index in fewest(gains, short)), "kill")


def victims(report: ContainerReport, picture: Picture) -> list[ContainerReport]:
    """Who would probably give way for one container."""
    return list(giving_way([report], picture).reports)


def promote(reports: Sequence[ContainerReport], picture: Picture) -> str:
    """The question before opportunistic containers become guaranteed."""
    first = reports[0]
    if len(reports) == 1:
        question = f"Promote container {dotted(first.container_id)} ({_what(first, picture.taken_at_ms)})?"
    else:
        question = f"Promote {len(reports)} containers: {_names(reports)}?"
    return f"{question}\n{promote_effect(reports, picture)}"


def promote_effect(reports: Sequence[ContainerReport], picture: Picture) -> str:
    """What follows when opportunistic containers become guaranteed: who gives way for them, or what they wait for."""
    by_node: dict[str, list[ContainerReport]] = {}
    for report in reports:
        by_node.setdefault(report.node_id, []).append(report)
    one = len(reports) == 1
    effect = [f"Guaranteed, nobody preempts {'it' if one else 'them'}."]
    found = [giving_way(some, picture) for some in by_node.values()]
    making_room = [each for each in found if each.reports]
    full = [report for report in reports if not room_to_promise(report, picture)]
    for each in making_room if not full else ():
        node = "its node" if one else "their node" if len(by_node) == 1 else "a node of theirs"
        effect.append(f"To make room, {node} will {each.how} {_names(each.reports)}.")
    if not making_room and not full:
        if any(is_waiting(report) for report in reports):
            who = "It starts" if one else "Those that wait start"
            effect.append(f"{who} before all opportunistic ones, as soon as there is room.")
        else:
            effect.append(f"{'It runs' if one else 'They run'} already: nobody has to give way.")
    if full and one:
        effect.append("Its node has promised all it has: the promotion waits until a guaranteed one ends.")
    elif full:
        effect.append(f"For {len(full)} there is no room to promise: they wait until guaranteed ones end.")
    return " ".join(effect)


def room_to_promise(report: ContainerReport, picture: Picture) -> bool:
    """Whether its node could promise it its resources now."""
    node = picture.node(report.node_id)
    return node is None or report.resource.fits_in((node.total - node.used).at_least_zero())


def demote(reports: Sequence[ContainerReport], picture: Picture) -> str:
    """The question before guaranteed containers become opportunistic."""
    first = reports[0]
    if len(reports) == 1:
        question = f"Demote container {dotted(first.container_id)} ({_what(first, picture.taken_at_ms)})?"
    else:
        question = f"Demote {len(reports)} containers: {_names(reports)}?"
    return f"{question}\n{demote_effect(reports)}"


def demote_effect(reports: Sequence[ContainerReport]) -> str:
    """What follows when guaranteed containers become opportunistic."""
    if len(reports) == 1:
        return "It goes on, but gives way (paused or killed) when a guaranteed one needs its room."
    return "They go on, but give way (paused or killed) when guaranteed ones need their room."


def pause_effect(report: ContainerReport, picture: Picture) -> str:
    """What follows when a person pauses a container that runs: who has its vcores then."""
    node = picture.node(report.node_id)
    vcores = f"{report.resource.vcores} vcore{'' if report.resource.vcores == 1 else 's'}"
    effect = [
        f"All its processes stand still until `resume`; it keeps its {megabytes(report.resource.memory)}."
    ]
    if node is None or not report.resource.vcores:
        return effect[0]
    free = free_of(node) + Resource(0, report.resource.vcores)
    waiting = sorted(
        (
            one
            for one in picture.containers
            if one.node_id == report.node_id and one.state is ContainerState.SCHEDULED
        ),
        key=lambda one: (one.execution_type is ExecutionType.OPPORTUNISTIC, one.position, one.container_id),
    )
    next_one = next((one for one in waiting if one.resource.fits_in(free)), None)
    if next_one is None:
        effect.append(f"Its {vcores} {'is' if report.resource.vcores == 1 else 'are'} free for others then.")
    else:
        effect.append(
            f"With its {vcores}, container {dotted(next_one.container_id)} starts, which waits in the queue."
        )
    return " ".join(effect)


def drain(node: NodeReport) -> str:
    """The question before a node is drained."""
    running, queued = node.num_containers + node.opportunistic.running, node.opportunistic.queued
    return (
        f"Drain {node.node_id}?\nIt is given nothing new. What is there ({running} running, {queued} queued) goes on "
        "to its end; then it is DECOMMISSIONED. `n` again uses it again."
    )


def kill_applications(reports: Sequence[ApplicationReport]) -> str:
    """The question before applications are killed."""
    if len(reports) == 1:
        one = reports[0]
        question = f"Kill {short_id(one.application_id)} ({one.name})?"
        return f"{question}\nAll its containers end ({counts_text(one)}), and their work is lost."
    return (
        f"Kill {len(reports)} applications: "
        + ", ".join(short_id(one.application_id) for one in reports[:_NAMED])
        + (f" and {len(reports) - _NAMED} more" if len(reports) > _NAMED else "")
        + "?\nAll their containers end, and their work is lost."
    )
