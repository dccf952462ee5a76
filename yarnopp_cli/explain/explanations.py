"""Why a container, a node or an application waits, and what a user can do about it. Pure.

The functions describe the rules of the schedulers and decide nothing. Statements about the future come from
``estimates`` and are marked as estimates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from executor.causes import CauseKind
from executor.light import Record, replace
from executor.records import ContainerState, ExecutionType, Resource

from ..errors import one_line
from ..records.explanation import (
    Act,
    Explanation,
    Reason,
    ReasonCode,
    ReasonKind,
    Start,
    Suggestion,
    Unknown,
    UnknownStart,
    WaitingGroup,
    unusable,
)
from ..records.reports import (
    DRAINED,
    FINAL_STATES,
    GONE,
    ApplicationReport,
    ContainerReport,
    NodeReport,
    NodeState,
    plain_diagnostics,
)
from .estimates import Asked
from .reasons import MOST_NAMED, why_takes_nothing, why_waits
from .snapshot import PAUSED, NodeSnapshot, begun, can_promise, queue_limit

MOST_NODES = 3
"""At most this many nodes with waiting containers are explained individually."""
LATE_MS = 3000
"""A container that was granted this long ago and has not started is reported."""
_STAND = (*PAUSED, ContainerState.PAUSING)
_STOPPED = (ReasonKind.SILENT, ReasonKind.EXPIRED, ReasonKind.SHUT_DOWN)
_OF_NODE = (ReasonKind.MACHINE_BUSY, ReasonKind.WINDOW_CLOSED, ReasonKind.NEXT)
"""Reasons of a container that its node has told already."""
_VAIN = (ReasonCode.TOO_BIG, ReasonCode.NO_NODE)


# -- ended applications ---------------------------------------------------------------------------------------


def explain_ended(report: ApplicationReport, now_ms: int) -> Explanation:
    """Say how an application ended, or that its cluster was stopped before, from its last report."""
    why = one_line(plain_diagnostics(report.diagnostics, report.summary))
    how = " ".join(dict.fromkeys((report.state.value, report.final_status.value)))
    return Explanation(
        report.application_id,
        "application",
        report.state.value,
        now_ms,
        report.finished_at_ms,
        ended=f"{how}{f' ({why})' if why else ''}" if report.state in FINAL_STATES else "",
        stopped=report.state not in FINAL_STATES,
    )


# -- containers -----------------------------------------------------------------------------------------------


def explain_container(report: ContainerReport, here: NodeSnapshot | None, now_ms: int) -> Explanation:
    """Explain one container. ``here`` is its node, None where that is unknown."""
    reasons = why_waits(report, here)
    found = Explanation(
        report.container_id,
        "container",
        report.state.value if report.state is not None else "ALLOCATED",
        now_ms,
        begun(report),
        waits=bool(reasons),
        reasons=tuple(reasons),
        waited_since_submit_ms=report.waited_ms(report.submitted_at_ms, now_ms),
        waited_since_eligible_ms=report.waited_ms(report.eligible_at_ms, now_ms),
        container=report,
    )
    if report.state is ContainerState.DONE:
        return replace(found, since_ms=report.finished_at_ms)
    if here is None or (reasons and reasons[0].kind is ReasonKind.GONE):
        actions = (Suggestion(Act.UP),)
        return replace(found, state="LOST", since_ms=0, satisfiable=False, waits=True, actions=actions)
    if report.state is None:
        end = Suggestion(Act.KILL_APPLICATION, report.application_id)
        return replace(found, since_ms=report.allocated_at_ms, actions=(*_start_nodes(reasons), end))
    if report.state is ContainerState.SCHEDULED:
        return _queued(found, report, here)
    return _paused(found, report, here) if report.state in PAUSED else found


def _queued(found: Explanation, report: ContainerReport, here: NodeSnapshot) -> Explanation:
    satisfiable = _can_start(report)
    start, unknown = _start_of(report, here)
    group = _group([report], here, found.reasons)
    return replace(
        found,
        state="QUEUED",
        since_ms=report.queued_at_ms or report.allocated_at_ms,
        satisfiable=satisfiable,
        waits=True,
        position=group.position,
        queue_length=group.queue_length,
        queue_limit=queue_limit(here.node),
        groups=(group,),
        start=start,
        last=start,
        unknown=unknown if satisfiable else None,
        actions=(*_start_nodes(found.reasons), *_ways_out(report, here)),
        node=here.node,
    )


def _paused(found: Explanation, report: ContainerReport, here: NodeSnapshot) -> Explanation:
    reason, start, act = found.reasons[0], None, Act.PROMOTE_UNDER_PRESSURE
    if reason.kind is ReasonKind.BY_PERSON:
        act = Act.RESUME_CONTAINER
    elif reason.resumed or reason.kind in (ReasonKind.MADE_ROOM, ReasonKind.NODE_RESIZED):
        start, act = _start_of(report, here)[0], Act.PROMOTE_PAUSED
    helps = act is not Act.PROMOTE_PAUSED or can_promise(here.node, report.resource)
    return replace(
        found,
        state="PAUSED",
        since_ms=report.paused_at_ms,
        groups=(_group([report], here, (reason,)),),
        start=start,
        last=start,
        actions=(
            *_start_nodes(found.reasons),
            *(Suggestion(one, report.container_id) for one in (*[act] * helps, Act.KILL_PAUSED)),
        ),
    )


def _can_start(report: ContainerReport) -> bool:
    """Whether a container that waits at a node could ever start there."""
    return not any(one.code == ReasonCode.TOO_BIG for one in report.why)


def _start_of(report: ContainerReport, here: NodeSnapshot) -> tuple[Start | None, Unknown | None]:
    """When a container that waits at a node will probably start or resume, or why that is unknown."""
    if here.answer is None:
        return None, None
    start = here.answer.starts.get(report.container_id)
    return start, here.answer.unknown if start is None else None


def _group(mine: Sequence[ContainerReport], here: NodeSnapshot, reasons: Iterable[Reason]) -> WaitingGroup:
    """Containers of one application that wait at one node for the same reasons."""
    first = mine[0]
    return WaitingGroup(
        here.node.node_id,
        len(mine),
        first.container_id,
        first.execution_type,
        first.resource,
        here.free,
        here.node.total,
        tuple(reasons),
        all(one.resource == first.resource for one in mine),
        first.position,
        here.waiting,
    )


def _ways_out(report: ContainerReport, here: NodeSnapshot) -> list[Suggestion]:
    """The actions that help a queued container."""
    found, node = [], here.node
    if report.execution_type is ExecutionType.OPPORTUNISTIC and can_promise(node, report.resource):
        found.append(Suggestion(Act.PROMOTE_QUEUED, report.container_id))
    if not report.resource.fits_in(node.total) and report.resource.only_others.fits_in(node.total):
        found.append(_enlarge(node, report.resource))
    return [*found, Suggestion(Act.KILL_QUEUED, report.container_id)]


def _start_nodes(reasons: Iterable[Reason]) -> list[Suggestion]:
    """The start of the first node that does not answer."""
    stopped = [one.where for one in reasons if one.kind in _STOPPED]
    return [Suggestion(Act.START_NODE, one) for one in stopped[:1]]


def _enlarge(node: NodeReport, needs: Resource) -> Suggestion:
    size = Resource(max(node.total.memory, needs.memory), max(node.total.vcores, needs.vcores))
    return Suggestion(Act.ENLARGE_NODE, node.node_id, size)


# -- nodes ----------------------------------------------------------------------------------------------------


def explain_node(here: NodeSnapshot, now_ms: int) -> Explanation:
    """Explain a node: its resources, which containers hold them, what waits there, and why it accepts nothing
    more; ``start`` is the estimated start of the first in its queue, ``last`` that of the last.
    """
    node, queue = here.node, here.queued
    reasons = why_takes_nothing(here)
    groups: tuple[WaitingGroup, ...] = ()
    types = Counter(one.execution_type.value for one in here.running)
    start = last = None
    if queue:
        lacks = [one for one in why_waits(queue[0], here) if one.kind not in _OF_NODE and one not in reasons]
        reasons, groups = [*reasons, *lacks], (_group(queue[:1], here, lacks),)
        start, last = (_start_of(one, here)[0] for one in (queue[0], _last(queue)))
    return Explanation(
        node.node_id,
        "node",
        node.state.value,
        now_ms,
        node.state_since_ms,
        satisfiable=node.state in (NodeState.RUNNING, NodeState.UNHEALTHY, NodeState.DECOMMISSIONING),
        waits=bool(queue),
        reasons=tuple(reasons),
        queue_length=here.waiting,
        queue_limit=queue_limit(node),
        groups=groups,
        start=start,
        last=last,
        actions=tuple(_node_actions(node, queue[0].container_id if queue else "")),
        waited_since_submit_ms=max([-1, *(one.waited_ms(one.submitted_at_ms, now_ms) for one in queue)]),
        waited_since_eligible_ms=max([-1, *(one.waited_ms(one.eligible_at_ms, now_ms) for one in queue)]),
        node=node,
        free=here.free,
        counts={**types, "queued": len(queue), "paused": len(here.paused)},
    )


def _node_actions(node: NodeReport, first_queued: str) -> list[Suggestion]:
    found = []
    if node.state in DRAINED:
        found.append(Suggestion(Act.RESUME_NODE, node.node_id))
    elif node.state in GONE or not node.connected:
        found.append(Suggestion(Act.START_NODE, node.node_id))
    elif node.state is NodeState.UNHEALTHY:
        found.append(Suggestion(Act.DOCTOR))
    if first_queued:
        found.append(Suggestion(Act.EXPLAIN_FIRST, first_queued))
    return [*found, Suggestion(Act.SHOW_CONTAINERS, node.node_id)]


# -- applications ---------------------------------------------------------------------------------------------


class ApplicationSnapshot(Record):
    """A live application, its live containers, the nodes, and its outstanding requests. ``outstanding`` is the number
    of requested containers without the master, ``master`` the reason why the master does not work yet, or why the
    application has not begun.
    """

    id: str
    state: str
    since_ms: int
    submitted_ms: int
    containers: Sequence[ContainerReport]
    nodes: Sequence[NodeSnapshot]
    asked: Sequence[Asked] = ()
    outstanding: int = 0
    master: tuple[Reason, ...] = ()


Here = tuple[NodeSnapshot, list[ContainerReport]]


def _silent_nodes(app: ApplicationSnapshot) -> dict[str, Reason]:
    """The silent nodes that have live containers of the application: the state of these containers is
    unknown.
    """
    theirs = {one.node_id for one in app.containers if one.state is not ContainerState.DONE}
    nodes = [here.node for here in app.nodes if here.node.node_id in theirs]
    reasons = [(node.node_id, reason) for node in nodes for reason in unusable(node)]
    return {name: reason for name, reason in reasons if reason.kind is ReasonKind.SILENT}


def explain_application(app: ApplicationSnapshot, now_ms: int) -> Explanation:
    """Explain an application."""
    queued, paused = _by_node(app, (ContainerState.SCHEDULED,)), _by_node(app, _STAND)
    groups = [_group(mine, here, why_waits(mine[0], here)) for here, mine in queued[:MOST_NODES]]
    for here, mine in paused[:MOST_NODES]:
        alike: dict[str, list[ContainerReport]] = {}
        for one in mine:
            alike.setdefault(one.cause.kind if one.cause is not None else "", []).append(one)
        for several in alike.values():
            reason = replace(why_waits(several[0], here)[0], number=len(several), where=here.node.node_id)
            groups.append(replace(_group(several, here, (reason,)), position=0))
    silent = _silent_nodes(app)
    found = [*app.master, *silent.values()]
    found += [reason for one in groups for reason in one.reasons]
    late = [
        one for one in app.containers
        if one.state is None and not one.is_am and now_ms - one.allocated_at_ms > LATE_MS and one.node_id not in silent
    ]  # fmt: skip
    if late:
        names = tuple(one.container_id for one in late[:MOST_NAMED])
        found.append(Reason(ReasonKind.NOT_STARTED, by=names, number=len(late)))
    found += [reason for ask in app.asked for reason in ask.reasons]
    reasons = list(dict.fromkeys(found))
    impossible = [any(one.code in _VAIN for one in ask.reasons) for ask in app.asked]
    impossible += [not _can_start(one) for _, mine in queued for one in mine]
    start, last, unknown = _when(app, queued)
    times = [one.waited_ms(one.eligible_at_ms, now_ms) for _, mine in queued for one in mine]
    times += [now_ms - one.asked_ms for one in app.asked if one.asked_ms]
    best = min((one for one in groups if one.position), key=lambda one: one.position, default=None)
    nodes = {here.node.node_id: here.node for here in app.nodes}
    return Explanation(
        app.id,
        "application",
        app.state,
        now_ms,
        app.since_ms,
        satisfiable=not (impossible and all(impossible)),
        waits=bool(reasons or queued or app.asked),
        reasons=tuple(reasons),
        position=best.position if best is not None else 0,
        queue_length=best.queue_length if best is not None else 0,
        queue_limit=queue_limit(nodes[best.node_id]) if best is not None else -1,
        groups=tuple(groups),
        ungrouped=sum(len(mine) for _, mine in queued[MOST_NODES:]),
        other_nodes=len(queued[MOST_NODES:]),
        outstanding=app.outstanding,
        start=start,
        last=last,
        unknown=unknown,
        actions=tuple(_application_actions(app, queued, reasons)),
        waited_since_submit_ms=max(0, now_ms - app.submitted_ms) if times and app.submitted_ms else -1,
        waited_since_eligible_ms=max(times, default=-1),
        counts=Counter(_STATE_NAMES.get(one.state, "paused") for one in app.containers if not one.is_am),
    )


_STATE_NAMES = {
    None: "granted", ContainerState.SCHEDULED: "queued", ContainerState.LAUNCHING: "starting",
    ContainerState.RUNNING: "running", ContainerState.KILLING: "ending",
}  # fmt: skip


def _by_node(app: ApplicationSnapshot, states: Sequence[ContainerState]) -> list[Here]:
    """The application's containers in these states, node by node, in the order of each node's queue; the node
    with most first.
    """
    found = []
    for here in app.nodes:
        known = (*here.queued, *here.paused, *here.live)
        mine = dict.fromkeys(one for one in known if one.application_id == app.id and one.state in states)
        found.append((here, list(mine)))
    return sorted((pair for pair in found if pair[1]), key=lambda pair: -len(pair[1]))


def _last(queue: Sequence[ContainerReport]) -> ContainerReport:
    """The last of those that wait, as its node says."""
    return max(queue, key=lambda one: one.position)


def _when(
    app: ApplicationSnapshot, queued: Sequence[Here]
) -> tuple[Start | None, Start | None, Unknown | None]:
    """When the first and the last waiting container may start, or why there is no estimate; all None where
    nothing waits, or the reasons already say that it can never start.
    """
    hopeful = [ask for ask in app.asked if ask.nodes and not ask.limited]
    if not queued and (not hopeful or any(ask.limited for ask in app.asked)):
        return None, None, None
    ends = [(_start_of(mine[0], here), _start_of(_last(mine), here)) for here, mine in queued]
    answers = [here.answer for here in app.nodes if here.answer is not None]
    arrivals = [answer.arrivals for answer in answers if app.asked]
    found = [start for pair in ends for start, _ in pair if start is not None]
    found += [start for several in arrivals for start in several]
    if found:
        first, last = min(found, key=lambda one: one.in_ms), max(found, key=lambda one: one.in_ms)
        complete = all(start is not None for pair in ends for start, _ in pair)
        complete = complete and len(hopeful) == len(app.asked) and all(len(one) != 1 for one in arrivals)
        return first, last if complete else None, None
    unknown = [answer.unknown for answer in answers if answer.unknown is not None]
    return None, None, unknown[0] if unknown else Unknown(UnknownStart.NO_DURATION)


def _application_actions(
    app: ApplicationSnapshot, queued: Sequence[Here], reasons: Sequence[Reason]
) -> list[Suggestion]:
    """The actions of a user, the most helpful first."""
    found = _start_nodes(reasons)
    codes = {one.code for one in reasons}
    if queued:
        here, mine = queued[0]
        found += [one for one in _ways_out(mine[0], here) if one.act is Act.PROMOTE_QUEUED]
        found.append(Suggestion(Act.EXPLAIN_FIRST, mine[0].container_id))
    by_person = [
        one.container_id
        for one in app.containers
        if one.state in _STAND and one.cause is not None and one.cause.kind is CauseKind.PERSON
    ]
    if by_person:
        found.append(Suggestion(Act.RESUME_CONTAINER, " ".join(by_person[:3])))
    drained = [one.by[0] for one in reasons if one.code == ReasonCode.NODE_DRAINING and one.by]
    found += [Suggestion(Act.RESUME_NODE, one) for one in drained[:1]]
    if ReasonCode.NO_NODE in codes:
        found.append(Suggestion(Act.LIST_NODES))
    vain = [one for one in app.asked if any(why.code == ReasonCode.TOO_BIG for why in one.reasons)]
    if vain and app.nodes:
        largest = max((here.node for here in app.nodes), key=lambda node: node.total)
        needs = vain[0].resource
        if needs.fits_in(largest.total):  # so its own master takes the room
            needs = needs + sum((one.resource for one in app.containers if one.is_am), Resource())
        found.append(_enlarge(largest, needs))
    limited = [one.queue for one in app.asked if one.limited]
    if limited:
        found += [Suggestion(Act.SHOW_QUEUE, limited[0]), Suggestion(Act.MOVE_APPLICATION, app.id)]
    return [*found, Suggestion(Act.KILL_APPLICATION, app.id)]
