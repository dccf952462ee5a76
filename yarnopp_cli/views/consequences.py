"""What an action on containers or applications will cause, in words, before it is done. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from executor.records import ContainerState, ExecutionType, Resource

from ..records.reports import ApplicationReport, ContainerReport, NodeReport
from .applications import counts_text
from .cells import short_span
from .containers import shown_state, time_ms
from .picture import Picture
from .waiting import free_of, is_waiting

_NAMED = 3


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
    """Those of different applications have the same last digits, so both are said."""
    named = ", ".join(
        f"container {suffix(one.application_id)} {suffix(one.container_id)}" for one in reports[:_NAMED]
    )
    return named + (f" and {len(reports) - _NAMED} more" if len(reports) > _NAMED else "")


def kill_containers(reports: Sequence[ContainerReport], picture: Picture) -> str:
    """The question before containers are killed."""
    if len(reports) == 1:
        one = reports[0]
        question = f"Kill {short_id(one.container_id)} ({_what(one, picture.taken_at_ms)})?"
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


def victims(report: ContainerReport, picture: Picture) -> list[ContainerReport]:
    """Who would probably give way if this container were guaranteed now: newest opportunistic ones first, and only
    as many as it needs. Empty where it needs none, or where all of them would not be enough.
    """
    node = picture.node(report.node_id)
    if node is None or not is_waiting(report):
        return []
    free = free_of(node)
    candidates = sorted(
        (
            one
            for one in picture.containers
            if one.node_id == report.node_id
            and one.state is ContainerState.RUNNING
            and one.execution_type is ExecutionType.OPPORTUNISTIC
        ),
        key=lambda one: -one.started_at_ms,
    )
    needs = Resource(0, report.resource.vcores) if report.state is ContainerState.PAUSED else report.resource
    taken: list[ContainerReport] = []
    while not needs.fits_in(free):
        if not candidates:
            return []
        victim = candidates.pop(0)
        taken.append(victim)
        free = free + victim.resource
    return taken


def promote(reports: Sequence[ContainerReport], picture: Picture) -> str:
    """The question before opportunistic containers become guaranteed."""
    first = reports[0]
    if len(reports) == 1:
        question = f"Promote {short_id(first.container_id)} ({_what(first, picture.taken_at_ms)})?"
    else:
        question = f"Promote {len(reports)} containers: {_names(reports)}?"
    giving_way = {one.container_id: one for report in reports for one in victims(report, picture)}
    for report in reports:
        giving_way.pop(report.container_id, None)
    one = len(reports) == 1
    effect = [f"Guaranteed, nobody preempts {'it' if one else 'them'}."]
    if giving_way:
        nodes = "its node" if len({report.node_id for report in reports}) == 1 else "their nodes"
        effect.append(f"To make room, {nodes} will pause or kill {_names(list(giving_way.values()))}.")
    elif any(is_waiting(report) for report in reports):
        who = "It starts" if one else "Those that wait start"
        effect.append(f"{who} before all opportunistic ones, as soon as there is room.")
    else:
        effect.append(f"{'It runs' if one else 'They run'} already: nobody has to give way.")
    full = [report for report in reports if not _room_to_promise(report, picture)]
    if full and one:
        effect.append("Its node has promised all it has: the promotion waits until a guaranteed one ends.")
    elif full:
        effect.append(f"For {len(full)} there is no room to promise: they wait until guaranteed ones end.")
    return f"{question}\n{' '.join(effect)}"


def _room_to_promise(report: ContainerReport, picture: Picture) -> bool:
    node = picture.node(report.node_id)
    return node is None or report.resource.fits_in((node.total - node.used).at_least_zero())


def demote(reports: Sequence[ContainerReport], picture: Picture) -> str:
    """The question before guaranteed containers become opportunistic."""
    first = reports[0]
    if len(reports) == 1:
        question = f"Demote {short_id(first.container_id)} ({_what(first, picture.taken_at_ms)})?"
    else:
        question = f"Demote {len(reports)} containers: {_names(reports)}?"
    if len(reports) == 1:
        return (
            f"{question}\nIt goes on, but gives way (paused or killed) when a guaranteed one needs its room."
        )
    return f"{question}\nThey go on, but give way (paused or killed) when guaranteed ones need their room."


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
