"""An explanation as sentences, as lines and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from executor.records import ContainerState, ExecutionType

from ...errors import one_line
from ...records import explanation as basis
from ...records.explanation import (
    Act,
    Expected,
    Explanation,
    Holders,
    Reason,
    ReasonCode,
    ReasonKind,
    Start,
    Suggestion,
    Unknown,
    UnknownStart,
    WaitingGroup,
)
from ...records.ids import short
from ...records.reports import NodeReport, NodeState
from ...records.times import timestamp
from ..containers import waits_text
from ..text import about, are, listed, number_of, ordinal, sentence, vcores
from .reasons import amount, by_type, lacks, names, oldest, text

_BUSY = frozenset((ReasonCode.PRESSURE, ReasonCode.WINDOW))
_ABOUT_NODE = (ReasonCode.NODE_DRAINING, ReasonCode.NODE_UNUSABLE, ReasonCode.NODE_LOST, *sorted(_BUSY))
_IN_TURN = (ReasonKind.BEHIND, ReasonKind.NEXT)
_SHORTAGES = (ReasonCode.NO_VCORES, ReasonCode.NO_MEMORY, ReasonCode.NO_RESOURCE)


def sentences(found: Explanation) -> list[str]:
    """The sentences of an explanation."""
    told = (
        _node_lines if found.kind == "node" else _container_lines if found.container else _application_lines
    )
    return [sentence(one) for one in told(found) if one]


def document(found: Explanation) -> dict[str, Any]:
    """The object of ``yopp explain --json``."""
    return {
        "id": found.id,
        "kind": found.kind,
        "state": found.state,
        "since": found.since_ms,
        "waits": found.waits,
        "satisfiable": found.satisfiable,
        "can_ever": found.satisfiable,
        "sentence": " ".join(sentences(found)),
        "reasons": [_reason(one, found.at_ms, _app(found)) for one in found.reasons],
        "position": found.position,
        "queueLength": found.queue_length,
        "queueLimit": found.queue_limit,
        "estimatedStart": found.estimated_start_ms,
        "estimatedLast": found.estimated_last_ms,
        "estimate": found.estimate,
        "deadlineAt": found.deadline_at_ms,
        "heldBack": found.held_back,
        "maxRunning": found.max_running,
        "outlived": list(found.outlived),
        "waitedSinceSubmitMs": None if found.waited_since_submit_ms < 0 else found.waited_since_submit_ms,
        "waitedSinceEligibleMs": None
        if found.waited_since_eligible_ms < 0
        else found.waited_since_eligible_ms,
        "actions": [{"command": command(one), "effect": _ACTIONS[one.act][1]} for one in found.actions],
    }


def _reason(reason: Reason, now_ms: int, of: str) -> dict[str, Any]:
    amounts = {"needs": reason.needs, "free": reason.free, "total": reason.total, "by": list(reason.by)}
    told = {"code": reason.code, "text": text(reason, now_ms, of), "resource": reason.resource}
    return told | amounts


def _app(found: Explanation) -> str:
    """The application whose containers are named by the ends of their ids."""
    return found.container.application_id if found.container is not None else found.id


def lines(found: Explanation) -> list[str]:
    """One sentence a line, then the commands that can be typed."""
    first, *others = sentences(found)
    actions = [f"  `{command(one)}`: {_ACTIONS[one.act][1]}" for one in found.actions]
    return [first, *(f"  {line}" for line in others), *actions]


# -- commands to type
# -----------------------------------------------------------------------------------------


_ACTIONS = {
    Act.UP: ("up", "restarts what is missing of the cluster"),
    Act.DOCTOR: ("doctor", "shows what is wrong on this host"),
    Act.EXPLAIN_FIRST: ("explain {target}", "explains the first that queues"),
    Act.RESUME_CONTAINER: ("container resume {target}", "resumes it as soon as there is room"),
    Act.PROMOTE_QUEUED: ("container promote {target}", "starts it now, guaranteed: before all opportunistic ones"),
    Act.PROMOTE_PAUSED: ("container promote {target}", "resumes it before all opportunistic ones"),
    Act.PROMOTE_UNDER_PRESSURE: ("container promote {target}", "resumes it: pressure pauses no guaranteed one"),
    Act.KILL_QUEUED: ("container kill {target}", "removes it from the queue; it has not run"),
    Act.KILL_PAUSED: ("container kill {target}", "ends it; its work is lost"),
    Act.KILL_APPLICATION: ("app kill {target}", "ends its application"),
    Act.MOVE_APPLICATION: ("app queue {target} QUEUE", "moves it to another queue"),
    Act.SHOW_QUEUE: ("queue status {target}", "shows who uses its queue"),
    Act.LIST_NODES: ("node list -a", "shows the nodes and their labels; `yopp nm start` adds one"),
    Act.RESUME_NODE: ("node resume {target}", "uses it again"),
    Act.ENLARGE_NODE: (
        "node resize --memory {size.memory} --vcores {size.vcores} {target}",
        "makes the node large enough for it, if the host is",
    ),
    Act.START_NODE: ("nm start {port}", "starts it again, if its NodeManager has ended"),
    Act.SHOW_CONTAINERS: ("ps --node {target}", "shows the containers there"),
}  # fmt: skip


def command(suggestion: Suggestion) -> str:
    """The command of a suggestion."""
    target, port = suggestion.target, suggestion.target.rpartition(":")[2]
    return "yopp " + _ACTIONS[suggestion.act][0].format(target=target, port=port, size=suggestion.size)


# -- containers -----------------------------------------------------------------------------------------------


def _container_lines(found: Explanation) -> Iterable[str]:
    one = found.container
    assert one is not None
    since, waited = about(found.at_ms - found.since_ms), "It has waited"
    where = f"{found.id} is {found.state} on {one.node_id}"
    match found.state:
        case "DONE":
            why = one_line(one.diagnostics)
            yield f"{found.id} has ended with exit status {one.exit_status}{f': {why}' if why else ''}"
            yield _waited(found, "It had waited")
        case "LOST":
            yield f"{found.id} is on {one.node_id}, which is gone: its application will request another one"
        case "ALLOCATED":
            starter = f"its {'node' if one.is_am else 'master'} has not started it yet"
            yield f"{found.id} was granted on {one.node_id} {since} ago, and {starter}"
            yield from (text(reason) for reason in found.reasons[1:])
            yield _waited(found, waited)
        case "QUEUED":
            place = f", {ordinal(found.position)} of {found.queue_length}" if found.position else ""
            yield f"{where} for {since}{place}"
            yield from _group(found, found.groups[0])
            if found.node is not None:
                yield _limit(found.node, found.queue_limit)
            yield _waited(found, waited)
            yield from _when(found, 1) if found.satisfiable else ("It can never start there",)
        case "PAUSED":
            yield from _paused(found, f"{where} for {since}")
        case _:
            for_how_long = f" for {since}" if found.since_ms else ""
            if one.resumed_at_ms:
                started = about(found.at_ms - one.started_at_ms)
                for_how_long += f", since it was resumed (started {started} ago)"
            yield f"{where}{for_how_long}: it is not waiting"
            if one.execution_type is ExecutionType.OPPORTUNISTIC and one.state is ContainerState.RUNNING:
                yield "It is opportunistic: it is preempted when a guaranteed container needs its resources"
            yield _waited(found, "It had waited")


def _paused(found: Explanation, since: str) -> Iterable[str]:
    reason, *others = found.reasons
    told = text(reason, found.at_ms, _app(found))
    if reason.kind is ReasonKind.BY_PERSON:
        yield f"{since}: {told}, and it has not been resumed"
    elif reason.kind in (ReasonKind.MADE_ROOM, ReasonKind.NODE_RESIZED):
        made_room = reason.kind is ReasonKind.MADE_ROOM
        wanted = f"{vcores(reason.needs)} {are(reason.needs)} free ({reason.free} now)"
        yield f"{since}: {'it made room for guaranteed containers' if made_room else 'the node was made smaller'}"
        yield f"It resumes when {wanted}{_held_by(reason.holders, found)}"
    else:
        yield f"{since}: {told}"
        if not reason.resumed:
            yield "It resumes by itself when that is over"
    yield from (text(one) for one in others)
    if found.start is not None:
        yield f"It {_begins(found.start, _app(found), 'resumes', 'resume')}"


def _held_by(holders: Holders, found: Explanation) -> str:
    who = by_type(holders)
    of = "" if found.kind == "node" else _app(found)
    return f", held by {who}{oldest(holders, found.at_ms, of)}" if who else ""


def _waited(found: Explanation, who: str) -> str:
    waits = found.waited_since_eligible_ms, found.waited_since_submit_ms
    told = waits_text(found.container, *waits, about)
    return f"{who} {told}" if told else ""


def _limit(node: NodeReport, limit: int) -> str:
    asked = f" (the ResourceManager asks it to keep {node.queue_limit})" if node.queue_limit >= 0 else ""
    return f"The node's queue holds {number_of(limit, 'opportunistic container')}{asked}"


def _group(found: Explanation, group: WaitingGroup, who: str = "It") -> Iterable[str]:
    """What the containers queued at a node need and what is free, what is missing and which containers hold
    it, and the state of the node.
    """
    needs, free = group.size, group.free
    told = f"{who} needs {amount(needs)}; free: {amount(free)}"
    codes = {one.code: one for one in group.reasons}
    missing = [one for one in group.reasons if one.code in _SHORTAGES]
    if ReasonCode.TOO_BIG in codes and needs.fits_in(group.total):
        yield told
        yield from (text(one) for one in group.reasons)
    elif ReasonCode.TOO_BIG in codes:
        yield f"{told}, and the node has no more than {amount(group.total)}"
    elif missing:
        short, named, until = (needs - free).of_types_in(needs), missing[0], ""
        what = listed(lacks(short))
        if kept := next((one for one in missing if one.detail), None):
            what, named, until = listed(lacks(short.only_others)), kept, f", until they end (`{kept.detail}`)"
        elif group.execution_type is ExecutionType.GUARANTEED:
            what = "opportunistic containers to make room"
        yield f"{told}: it waits for {what}{_held_by(named.holders, found)}{until}"
    elif codes.keys() & _BUSY:
        yield f"{told}, but that is not available to opportunistic containers"
    elif others := [one for one in group.reasons if one.kind not in _IN_TURN and one.code not in _ABOUT_NODE]:
        yield f"{told}, but {'; '.join(text(one, found.at_ms, _app(found)) for one in others)}"
    elif ReasonCode.BEHIND in codes:
        yield f"{told}: there is room for it, but others are before it"
    elif all(one.kind is ReasonKind.NEXT for one in group.reasons):
        yield f"{told}: there is room for it, so it starts at any moment"
    yield from (text(one) for one in group.reasons if one.code in _ABOUT_NODE)


# -- nodes ----------------------------------------------------------------------------------------------------


def _node_lines(found: Explanation) -> Iterable[str]:
    node, counts = found.node, found.counts
    assert node is not None
    silent = node.state is NodeState.RUNNING and not node.connected
    guaranteed, opportunistic = (counts.get(kind.value, 0) for kind in ExecutionType)
    running = guaranteed + opportunistic
    runs = f"{by_type(Holders(guaranteed, opportunistic)) or 'no containers'} {are(running, 'runs', 'run')}"
    queued, paused = counts.get("queued", 0), counts.get("paused", 0)
    waits = f"{queued} {are(queued, 'waits', 'wait')}, {paused} {are(paused)} paused"
    yield f"{node.node_id} is {node.state.value}{' and silent' if silent else ''}: {runs}, {waits}"
    # The vcores of a paused guaranteed container are free, and no other guaranteed one gets them.
    promised = found.free.vcores - max(0, node.total.vcores - node.used.vcores)
    of = (
        f"; {vcores(promised)} of it {are(promised)} promised to guaranteed containers"
        if promised > 0
        else ""
    )
    yield f"Free: {amount(found.free)} of {amount(node.total)}{of}"
    yield _limit(node, found.queue_limit)
    group = found.groups[0] if found.groups else None
    own = [one for one in found.reasons if group is None or one not in group.reasons]
    yield from (text(one, found.at_ms) for one in own)
    if group is not None:
        why = (
            " and ".join(text(one) for one in group.reasons)
            or (any(one.kind is ReasonKind.WINDOW_CLOSED for one in own) and "it waits until then")
            or (any(one.code == ReasonCode.PRESSURE for one in own) and "it waits until that is over")
            or "there is room for it, or room is being made"
        )
        held = _held_by(group.reasons[0].holders, found) if group.reasons else ""
        yield f"First in its queue is {short(group.first)}: {why}{held}"
        if found.start is not None:
            last = (
                f"the last of the {found.queue_length} in about {about(found.last.in_ms)}"
                if found.last
                else _NO_LAST
            )
            yield f"It {_begins(found.start)}{f'; {last}' if found.queue_length > 1 else ''}"
    newcomer, last_ms = node.opportunistic.estimated_queue_wait_ms, found.last.in_ms if found.last else 0
    known = found.start is not None or not found.queue_length  # it waits behind all that wait
    if node.state is NodeState.RUNNING and node.connected and newcomer > 0 and known:
        # The node's own estimate is as old as its last heartbeat.
        whose = "the node's estimate" if newcomer >= last_ms else "behind all that wait"
        yield f"A further opportunistic container would wait about {about(max(newcomer, last_ms))} ({whose})"


# -- applications ---------------------------------------------------------------------------------------------


_COUNTED = ("running", "starting", "queued", "paused", "granted", "ending")


def _application_lines(found: Explanation) -> Iterable[str]:
    if found.stopped:
        yield f"{found.id} was {found.state} when its cluster stopped; `yopp up` continues what that has stored"
        return
    if found.ended:
        yield f"{found.id} has ended: {found.ended}"
        return
    counts = [f"{found.counts[word]} {word}" for word in _COUNTED if word in found.counts]
    if found.outstanding:
        counts.append(f"{found.outstanding} requested and not granted yet")
    yield f"{found.id} is {found.state}: {listed(counts) or 'no containers'}"
    for group in found.groups:
        if group.position:
            yield from _queued_there(found, group)
        else:
            why = text(group.reasons[0], found.at_ms, found.id)
            yield f"{group.number} {are(group.number)} paused on {group.node_id}: {why}"
    if found.ungrouped:
        yield f"{found.ungrouped} more queue on {number_of(found.other_nodes, 'other node')}"
    told = {one for group in found.groups for one in group.reasons}
    for reason in found.reasons:
        if reason not in told:
            late = ": its master has to start them" if reason.kind is ReasonKind.NOT_STARTED else ""
            yield f"{text(reason, found.at_ms, found.id)}{late}"
    waiting = found.outstanding + sum(one.number for one in found.groups if one.position) + found.ungrouped
    yield from _when(found, waiting)
    several = any(one.position for one in found.groups) or found.outstanding > 1
    yield _waited(found, "The longest-waiting one has waited" if several else "It has waited")
    if not found.waits:
        yield "No container of it is waiting"
    if found.held_back:
        more = number_of(found.held_back, "more task")
        waits = are(found.held_back, "waits", "wait")
        yield f"{more} {waits} until others end: at most {found.max_running} may have a container (--max-running)"
    if found.deadline_at_ms:
        left = about(max(0, found.deadline_at_ms - found.at_ms))
        yield f"It will be ended at {timestamp(found.deadline_at_ms)}, its deadline (in {left})"


def _queued_there(found: Explanation, group: WaitingGroup) -> Iterable[str]:
    named, place = names([group.first], found.id), f"{ordinal(group.position)} of {group.queue_length}"
    if group.number == 1:
        yield f"One queues on {group.node_id}, {named}, {place}"
    else:
        yield f"{group.number} queue on {group.node_id}; the first, {named}, is {place}"
    yield from _group(found, group, "It" if group.number == 1 else "Each" if group.equal else "The first")


# -- estimates ------------------------------------------------------------------------------------------------


_NO_LAST = "the start of the last is unknown"


def _when(found: Explanation, waiting: int) -> Iterable[str]:
    """When the first and the last waiting container may start, or why that is unknown."""
    first, last, of = found.start, found.last, _app(found)
    if first is None:
        if found.unknown is not None:
            yield f"Start time unknown: {_unknown(found.unknown, of)}"
    elif waiting <= 1:
        yield f"It {_begins(first, of)}"
    elif last is None:
        yield f"The first {_begins(first, of)}; {_NO_LAST}"
    else:
        begin = "at any moment" if first.in_ms == 0 else f"in about {about(first.in_ms)}"
        end = f"in about {about(last.in_ms)} ({_rests_on(last.expected)}){_later(last, of)}"
        yield f"The first may start {begin}, the last of the {waiting} {end}"


def _unknown(unknown: Unknown, of: str) -> str:
    match unknown.why:
        case UnknownStart.OTHER_PROGRAMS:
            return "it depends on other programs"
        case UnknownStart.WINDOW_CLOSED:
            return "the window for opportunistic containers is closed"
        case UnknownStart.BEYOND_EXPECTED:
            on_node = unknown.expected.basis == basis.OF_NODE
            where = "its node's median" if on_node else "the median in this cluster"
            ran = f"{short(unknown.container_id, of)} has run {about(unknown.ran_ms)}"
            return f"{ran}, and {where} is {about(unknown.expected.ms)}; `yopp run --expect 30s …` helps"
        case UnknownStart.NO_DURATION:
            return (
                "no similar container has ended yet, and no run time was declared (`yopp run --expect 30s …`)"
            )
    return "it waits for containers whose run time is unknown"


_BASES = {
    "": "estimate",
    basis.DECLARED: "declared {}; estimate",
    basis.OF_APPLICATION: "median task {}; estimate",
    basis.OF_NODE: "median on its node {}; estimate",
    basis.OF_ALL: "median in this cluster {}; estimate",
    basis.OF_RUNNING: "running tasks suggest {}; estimate",
    basis.BY_NODE: "its node's own estimate for its queue",
}


def _rests_on(expected: Expected) -> str:
    """The basis of an estimate: ``median task 10 s; estimate``."""
    return _BASES[expected.basis].format(about(expected.ms))


def _begins(start: Start, of: str = "", verb: str = "starts", may: str = "start") -> str:
    """When a container may start: ``starts in about 20 s (median task 10 s; estimate)``."""
    rests = f"({_rests_on(start.expected)})"
    if start.in_ms:
        return f"{verb} in about {about(start.in_ms)} {rests}{_later(start, of)}"
    late = f", as {names(start.outlived, of)} {_outlived(start)}" if start.outlived else ""
    return f"may {may} at any moment{late} {rests}"


def _later(start: Start, of: str) -> str:
    """The possible delays of the start: the containers that have run longer than expected; "" for none. What is derived
    from how long they run is no expectation that they have outlived."""
    if not start.outlived:
        return ""
    go = are(len(start.outlived), "keeps", "keep")
    which = "" if start.expected.basis == basis.OF_RUNNING else f", which {_outlived(start)},"
    return f", later if {names(start.outlived, of)}{which} {go} running"


def _outlived(start: Start) -> str:
    return f"{are(len(start.outlived), 'has', 'have')} run longer than expected"
