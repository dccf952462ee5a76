"""Why an application's containers wait, in numbers: how many where, what they lack, who has it, and when the first and
the last may start. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from executor.core.estimates import Node
from executor.records import ContainerState, ExecutionType, Resource

from ..records.explanation import Explanation, Reason, ReasonCode, Suggestion
from ..records.reports import ContainerReport
from .containers import (
    NodeSight,
    WhyPaused,
    beyond_text,
    enlarge,
    estimated,
    estimated_start,
    limit_of,
    needs_text,
    never_here,
    queue_reasons,
    resumed_reason,
    sum_of,
    unknown_because,
    ways_out,
    why_paused,
)
from .estimates import Durations, Expected, Start, Wanted, lane, starts
from .waited import Waited, waited
from .words import are, begins, capital, count, later, listed, names, ordinal, rests_on, span, waited_text

MOST_NODES = 3
"""So many nodes with containers that wait are told of one by one."""
_STAND = (ContainerState.PAUSED, ContainerState.RESUMING, ContainerState.PAUSING)
_NEVER = (ReasonCode.TOO_BIG, ReasonCode.NO_NODE)
LATE_MS = 3000
"""A container that was granted so long ago, and not started, is told of."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Equal containers that an application has asked for and not been granted. ``nodes`` are the ids of those that
    could serve it, ``duration`` how long each is expected to run. ``limited``: a limit of its queue stands against it.
    """

    number: int
    resource: Resource
    kind: ExecutionType
    duration: Expected
    asked_ms: int
    nodes: frozenset[str]
    reasons: tuple[Reason, ...] = ()
    limited: bool = False
    queue: str = ""


@dataclass(frozen=True, slots=True)
class ApplicationSight:
    """An application that lives, its live containers, the nodes, what it has asked for, and what others before it
    have. ``master`` is why its master does not work yet; ``unusable`` are ids of nodes that take nothing new.
    """

    id: str
    state: str
    counts: str
    since_ms: int
    submitted_ms: int
    containers: Sequence[ContainerReport]
    sights: Sequence[NodeSight]
    finished: Sequence[ContainerReport]
    asked: Sequence[Asked] = ()
    ahead: Sequence[Asked] = ()
    master: Reason | None = None


def explain_application(app: ApplicationSight, now_ms: int) -> Explanation:
    """What is the matter with an application."""
    queued = _by_node(app, (ContainerState.SCHEDULED,))
    paused = _by_node(app, _STAND)
    late = [
        one for one in app.containers
        if one.state is None and not one.is_am and now_ms - one.allocated_at_ms > LATE_MS
    ]  # fmt: skip
    parts = [f"{app.id} is {app.state}: {app.counts}."]
    reasons: list[Reason] = [app.master] if app.master is not None else []
    for sight, mine in queued[:MOST_NODES]:
        said, why = _queue_text(sight, mine, now_ms)
        parts.append(said)
        reasons += [one for one in why if one not in reasons]
    if len(queued) > MOST_NODES:
        rest = sum(len(mine) for _, mine in queued[MOST_NODES:])
        parts.append(f"{rest} more queue on {count(len(queued) - MOST_NODES, 'other node')}.")
    for sight, mine in paused[:MOST_NODES]:
        for kind in WhyPaused:
            if alike := [one for one in mine if why_paused(one) is kind]:
                said, because = _paused_text(sight, alike, kind)
                parts.append(said)
                reasons.append(because)
    if late:
        text = f"{count(len(late), 'container')} {are(len(late), 'was', 'were')} granted and not started yet"
        by = tuple(one.container_id for one in late[:20])
        reasons.append(Reason(ReasonCode.AM_PENDING, text, by=by))
        parts.append(f"{text}: that is its master's to do.")
    if app.master is not None:
        parts.append(f"{capital(app.master.text)}.")
    for ask in app.asked:
        fresh = [one for one in ask.reasons if one not in reasons]
        parts += [f"{capital(one.text)}." for one in fresh]
        reasons += fresh
    outstanding = sum(one.number for one in app.asked)
    waits = bool(queued or paused or late or reasons or outstanding)
    impossible = [any(one.code in _NEVER for one in ask.reasons) for ask in app.asked]
    impossible += [never_here(one, sight) is not None for sight, mine in queued for one in mine]
    first, last, said = _when(app, queued, now_ms)
    parts.append(said)
    times = _longest(app, queued, now_ms) if waits else None
    if times is not None:
        who = "What waits for longest has waited" if queued or outstanding > 1 else "It has waited"
        parts.append(waited_text(times, who))
    if not waits:
        parts.append("Nothing of it waits.")
    place = _place(queued)
    found = Explanation(
        app.id,
        "application",
        app.state,
        " ".join(part for part in parts if part),
        since_ms=app.since_ms,
        satisfiable=not (impossible and all(impossible)),
        waits=waits,
        reasons=tuple(reasons),
        position=place[0],
        queue_length=place[1],
        queue_limit=place[2],
        actions=tuple(_actions(app, queued, paused, reasons)),
        waited_since_submit_ms=times.since_submit if times is not None else -1,
        waited_since_eligible_ms=times.since_eligible if times is not None else -1,
    )
    return estimated(found, first, last, now_ms)


Here = tuple[NodeSight, list[ContainerReport]]


def _by_node(app: ApplicationSight, states: Sequence[ContainerState]) -> list[Here]:
    """Its containers in these states, node by node, in the order of each one's queue; the node with most first."""
    found = []
    for sight in app.sights:
        order = {one.container_id: place for place, one in enumerate(sight.queued())}
        mine = [
            one for one in app.containers if one.node_id == sight.node.node_id and one.state in states
        ]  # fmt: skip
        if mine:
            found.append(
                (sight, sorted(mine, key=lambda one: (order.get(one.container_id, 0), one.container_id)))
            )
    return sorted(found, key=lambda pair: -len(pair[1]))


def _queue_text(sight: NodeSight, mine: Sequence[ContainerReport], now_ms: int) -> tuple[str, list[Reason]]:
    """Those of its containers that queue at one node: how many, where in the queue, and why."""
    first, queue = mine[0], [one.container_id for one in sight.queued()]
    place = queue.index(first.container_id)
    reasons = queue_reasons(first, sight, queue[:place])
    equal = all(one.resource == first.resource for one in mine)
    subject = "It" if len(mine) == 1 else "Each" if equal else "The first"
    node = sight.node.node_id
    where = f"{ordinal(place + 1)} of {len(queue)}"
    if len(mine) == 1:
        head = f"One queues on {node}, {names([first.container_id], first.application_id)}, {where}."
    else:
        named = names([first.container_id], first.application_id)
        head = f"{len(mine)} queue on {node}, the first of them, {named}, as {where}."
    about = [
        f"{capital(one.text)}."
        for one in reasons
        if one.code in (ReasonCode.NODE_DRAINING, ReasonCode.NODE_UNUSABLE, ReasonCode.PRESSURE)
    ]
    return " ".join([head, needs_text(first, sight, reasons, now_ms, subject), *about]), reasons


def _paused_text(sight: NodeSight, mine: Sequence[ContainerReport], why: WhyPaused) -> tuple[str, Reason]:
    """Those of its containers that stand still at one node for the same sake."""
    text = f"{len(mine)} {are(len(mine), 'stands', 'stand')} still on {sight.node.node_id}"
    by = tuple(one.container_id for one in mine[:20])
    if why is WhyPaused.PERSON:
        text += f": a person paused {are(len(mine), 'it', 'them')}"
        return f"{text}.", Reason(ReasonCode.PAUSED_BY_PERSON, text, by=by)
    if why is WhyPaused.RESUMED:
        reason = resumed_reason(mine, sight)
        return f"{text}: {reason.text}.", reason
    if why is WhyPaused.PRESSURE:
        text += ": processes outside yopp need the room"
        return f"{text}.", Reason(ReasonCode.PRESSURE, text, by=by)
    holders = [
        one.container_id for one in sight.running()
        if one.execution_type is ExecutionType.GUARANTEED and one.resource.vcores
    ]  # fmt: skip
    free = sight.free()
    who = are(len(mine), "it", "they")
    text += f": {who} made room for guaranteed containers; {count(free.vcores, 'vcore')} {are(free.vcores)} free now"
    reason = Reason(
        ReasonCode.PAUSED_FOR, text, "vcores", mine[0].resource.vcores, free.vcores, sight.node.total.vcores,
        tuple(holders[:20]),
    )  # fmt: skip
    return f"{text}.", reason


def _when(
    app: ApplicationSight, queued: Sequence[Here], now_ms: int
) -> tuple[Start | None, Start | None, str]:
    """When the first and the last of what waits may start, in numbers and in words."""
    durations = Durations(app.finished)
    expected = [durations.of(one) for _, mine in queued for one in mine]
    ids = [one.container_id for _, mine in queued for one in mine]
    hopeful = [ask for ask in app.asked if ask.nodes and not ask.limited]
    total = len(ids) + sum(ask.number for ask in app.asked)
    if not total or (not ids and any(ask.limited for ask in app.asked)):
        return None, None, ""
    pressed = [sight for sight in app.sights if sight.pressed()]
    found = [] if pressed else _opportunistic(app, ids, hopeful, durations, now_ms)
    found += _guaranteed(app, hopeful, durations, now_ms)
    if not found:
        if len(ids) == total == 1:
            alone = estimated_start(queued[0][1][0], queued[0][0], now_ms)
            if alone is not None:
                return alone, alone, f"It {begins(alone, app.id)}."
        if not ids and not hopeful:
            return None, None, ""  # the reasons have said that it is in vain
        if pressed or ids:
            sight, mine = (queued[0][0], queued[0][1][0]) if queued else (pressed[0], app.containers[0])
            return (
                None,
                None,
                f"When the next starts cannot be said: {unknown_because((), sight, mine, now_ms)}.",
            )
        for sight in app.sights:
            if told := beyond_text(sight, app.id, now_ms):
                return None, None, f"When the next starts cannot be said: {told}."
        nothing = "nothing like them has ended yet, and nobody declared how long they run (`yopp run --expect 30s …`)"
        return None, None, f"When the next starts cannot be said: {nothing}."
    first, last = min(found, key=lambda one: one.in_ms), max(found, key=lambda one: one.in_ms)
    if total == 1:
        return first, first, f"It {begins(first, app.id)}."
    if len(found) < total:
        return first, None, f"The first {begins(first, app.id)}; when the last does cannot be said."
    which = last.expected if last.expected.basis else (expected[0] if expected else Expected())
    basis = f"{rests_on(which)}; " if which.basis else ""
    begin = "at any moment" if first.in_ms == 0 else f"in about {span(first.in_ms)}"
    return (
        first,
        last,
        (
            f"The first may start {begin}, the last of the {total} in about {span(last.in_ms)} "
            f"({basis}estimate){later(last, app.id)}."
        ),
    )


def _opportunistic(
    app: ApplicationSight, ids: Sequence[str], hopeful: Sequence[Asked], durations: Durations, now_ms: int
) -> list[Start]:
    """The starts of what queues, and behind it of opportunistic asks: those that others made before come first."""
    lanes = {sight.node.node_id: sight.lane(durations, now_ms) for sight in app.sights}
    wanted = [one for one in hopeful if one.kind is ExecutionType.OPPORTUNISTIC]
    before = [one for one in app.ahead if one.kind is ExecutionType.OPPORTUNISTIC]
    return _race(lanes, before, wanted, ids)


def _guaranteed(
    app: ApplicationSight, hopeful: Sequence[Asked], durations: Durations, now_ms: int
) -> list[Start]:
    """The starts of guaranteed asks: what opportunistic containers have is as good as free for them."""
    wanted = [one for one in hopeful if one.kind is ExecutionType.GUARANTEED]
    if not wanted:
        return []
    lanes: dict[str, Node] = {}
    for sight in app.sights:
        holders = [one for one in sight.live if one.execution_type is ExecutionType.GUARANTEED]
        left = (sight.node.total - sight.node.used).at_least_zero()
        lanes[sight.node.node_id] = lane(left, holders, (), durations, now_ms)
    before = [one for one in app.ahead if one.kind is ExecutionType.GUARANTEED]
    return _race(lanes, before, wanted, ())


def _race(
    lanes: dict[str, Node], before: Sequence[Asked], wanted: Sequence[Asked], ids: Sequence[str]
) -> list[Start]:
    pools = [
        Wanted(f"before {n}", one.number, one.resource, one.duration, one.nodes)
        for n, one in enumerate(before)
    ]
    ours = [
        Wanted(f"ask {n}", one.number, one.resource, one.duration, one.nodes) for n, one in enumerate(wanted)
    ]
    keys = frozenset((*ids, *(one.key for one in ours)))
    return [one for several in starts(lanes, [*pools, *ours], keys).values() for one in several]


def _longest(app: ApplicationSight, queued: Sequence[Here], now_ms: int) -> Waited | None:
    """How long that one has waited which has waited for longest."""
    times = [waited(one, now_ms).since_eligible for _, mine in queued for one in mine]
    times += [now_ms - one.asked_ms for one in app.asked if one.asked_ms]
    since_submit = max(0, now_ms - app.submitted_ms) if app.submitted_ms else -1
    return Waited(since_submit, max(times)) if times else None


def _place(queued: Sequence[Here]) -> tuple[int, int, int]:
    """The best place that one of its containers has in a queue, how long that is, and may be."""
    best = (0, 0, -1)
    for sight, mine in queued:
        queue = [one.container_id for one in sight.queued()]
        place = queue.index(mine[0].container_id) + 1
        if not best[0] or place < best[0]:
            best = (place, len(queue), limit_of(sight.node))
    return best


def _actions(
    app: ApplicationSight, queued: Sequence[Here], paused: Sequence[Here], reasons: Sequence[Reason]
) -> list[Suggestion]:
    """What can be typed, the most helpful first."""
    found: list[Suggestion] = []
    codes = {one.code for one in reasons}
    nodes = {sight.node.node_id: sight.node for sight in app.sights}
    if queued:
        sight, mine = queued[0]
        found += [one for one in ways_out(mine[0], sight) if "promote" in one.command]
        found.append(Suggestion(f"yopp explain {mine[0].container_id}", "says more of the first that queues"))
    by_person = [
        one.container_id for _, mine in paused for one in mine if why_paused(one) is WhyPaused.PERSON
    ]
    if by_person:
        found.append(Suggestion(f"yopp container resume {' '.join(by_person[:3])}", "lets it go on"))
    drained = [one.by[0] for one in reasons if one.code is ReasonCode.NODE_DRAINING and one.by]
    found += [Suggestion(f"yopp node resume {one}", "uses it again") for one in drained[:1]]
    if ReasonCode.NO_NODE in codes:
        found.append(
            Suggestion("yopp node list -a", "shows the nodes and their labels; `yopp nm start` adds one")
        )
    if ReasonCode.TOO_BIG in codes and nodes:
        wanted = [one for one in app.asked if any(why.code is ReasonCode.TOO_BIG for why in one.reasons)]
        largest = max(nodes.values(), key=lambda node: node.total)
        master = sum_of(one.resource for one in app.containers if one.is_am)
        for one in wanted[:1]:
            beside = one.resource.fits_in(largest.total)  # so it is its own master that is in the way
            found.append(enlarge(largest, one.resource + master if beside else one.resource))
    limited = [one.queue for one in app.asked if one.limited]
    if limited:
        found.append(Suggestion(f"yopp queue status {limited[0]}", "shows who uses its queue"))
        found.append(Suggestion(f"yopp app queue {app.id} QUEUE", "moves it to another queue"))
    found.append(Suggestion(f"yopp app kill {app.id}", "ends it"))
    return found


def counts_text(containers: Sequence[ContainerReport], outstanding: int) -> str:
    """``2 running, 6 queued, 4 asked for and not granted yet``; its master is named."""
    states: dict[str, int] = {}
    for one in containers:
        if one.is_am:
            continue
        word = {
            None: "granted", ContainerState.SCHEDULED: "queued", ContainerState.LAUNCHING: "starting",
            ContainerState.RUNNING: "running", ContainerState.KILLING: "ending",
        }.get(one.state, "paused")  # fmt: skip
        states[word] = states.get(word, 0) + 1
    order = ("running", "starting", "queued", "paused", "granted", "ending")
    parts = [f"{states[word]} {word}" for word in order if word in states]
    if outstanding:
        parts.append(f"{outstanding} asked for and not granted yet")
    return listed(parts) or "no containers"
