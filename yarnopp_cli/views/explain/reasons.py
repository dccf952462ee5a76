"""A reason as a sentence, in a few words for a row, and in up to 16 cells for a narrow column. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from executor.records import ContainerState

from ...explain.reasons import why_waits
from ...explain.snapshot import is_waiting
from ...records.explanation import MEMORY, VCORES, Reason, ReasonCode, ReasonKind
from ...records.reports import ContainerReport
from ..picture import Picture
from ..text import megabytes, number_of, vcores, width
from .words import amount, are, by_type, lacks, listed, names, oldest

Kind = ReasonKind


def text(reason: Reason, now_ms: int = 0, of: str = "") -> str:
    """A reason in full, without a full stop. Spans are counted to ``now_ms``; containers of application ``of`` are
    named by the ends of their ids.
    """
    told = _text(reason, now_ms, of)
    if not reason.resumed:
        return told
    went_on = "resumed" if reason.detail else "the pressure is over"
    if reason.kind is Kind.SHORT:
        held = f"; held by {names(reason.by, of)}" if reason.by else ""
        lacking = listed(lacks(*_lacks(reason)))
        return f"{went_on}, and {are(reason.number, 'waits', 'wait')} for {lacking}{held}"
    return f"{went_on}, and {told}"


def _lacks(reason: Reason) -> tuple[int, int]:
    """How many vcores and MB are missing."""
    missing = reason.needs - reason.free
    return (0, missing) if reason.resource == MEMORY else (missing, 0)


def _amounts(reason: Reason) -> str:
    """``1 vcore``, ``512 MB of memory``."""
    return f"{reason.needs} MB of memory" if reason.resource == MEMORY else vcores(reason.needs)


def _text(reason: Reason, now_ms: int, of: str) -> str:
    number, needs, free, total = reason.number, reason.needs, reason.free, reason.total
    unit = " MB" if reason.resource == MEMORY else ""
    it = are(number, "it", "they")
    match reason.kind:
        case Kind.SHORT if reason.resource == MEMORY:
            return f"it needs {needs} MB, and {free} of {total} MB are free"
        case Kind.SHORT:
            return f"it needs {vcores(needs)}, and {free} of {total} {are(free)} free"
        case Kind.PROMISED:
            unit = " MB" if reason.resource == MEMORY else " vcores"
            who = f" to {by_type(reason.holders)}{oldest(reason.holders, now_ms, of)}" if reason.by else ""
            promised = f"{reason.where} has promised {total - free} of {total}{unit}{who}"
            return f"a guaranteed container needs {_amounts(reason)}, and {promised}"
        case Kind.NODE_FULL:
            return "guaranteed containers have all of it: no further guaranteed one fits, and none can be promoted"
        case Kind.MACHINE_BUSY:
            left = f"{amount(reason.used)} {are(reason.used.vcores)} left to opportunistic containers"
            return f"other programs keep this machine busy: {left}"
        case Kind.BEHIND if reason.resumed:
            waiting = reason.holders.guaranteed
            return f"waits behind {by_type(reason.holders)} that {are(waiting, 'waits', 'wait')} for room"
        case Kind.BEHIND:
            return f"{number_of(number, 'container')} {are(number)} before it"
        case Kind.NEXT if reason.resumed:
            return "goes on at any moment"
        case Kind.NEXT:
            return "there is room for it: it is served in the next step, or others of its queue are before it"
        case Kind.BY_PERSON:
            return f"{reason.detail or 'a person'} paused {are(number, 'it', 'them')}"
        case Kind.MADE_ROOM:
            free_now = f"{vcores(free)} {are(free)} free now"
            return f"{it} made room for guaranteed containers; {free_now}"
        case Kind.OUTSIDE_CPU:
            return "other programs need the CPU"
        case Kind.LENT_CPU:
            return f"guaranteed containers use the CPU that {it} had on loan"
        case Kind.MACHINE_MEMORY:
            return (
                f"this machine runs out of memory: {free} MB are left, and {needs} MB are to stay available"
            )
        case Kind.LENT_MEMORY:
            return f"other containers use the memory that {it} had on loan"
        case Kind.QUEUE_MAXIMUM | Kind.USER_LIMIT | Kind.MASTERS_LIMIT:
            return _limit_text(reason)
        case Kind.QUEUES_FULL | Kind.QUEUES_OFF | Kind.QUEUES_CLOSED:
            return _queues_text(reason)
        case Kind.NODE_QUEUE_FULL:
            return f"its queue is full: {number} of {total} opportunistic containers wait, and no more are sent to it"
        case Kind.NO_NODES:
            return "there is no node"
        case Kind.NO_LABEL:
            there = f"the nodes have {listed(reason.names)}" if reason.names else "no node has a label"
            wanted = f"no node has the label {reason.detail} that it names"
            return f"{wanted if reason.detail else 'it names no node label'}: {there}"
        case Kind.BLACKLISTED:
            return f"its master has blacklisted {listed(reason.names)}, and there is no other"
        case Kind.ELSEWHERE:
            return (
                f"it may go to {listed(reason.names) or 'nowhere'} only, and there is {listed(reason.by[:5])}"
            )
        case Kind.EXCLUDED:
            return "the ask's place, label or blacklist excludes this node"
        case Kind.TOO_BIG_HERE | Kind.TOO_BIG:
            only = (
                f"the only node for it, {reason.where}," if len(reason.by) == 1 else "the largest node for it"
            )
            where = only if reason.kind is Kind.TOO_BIG else reason.where
            return f"it needs {amount(reason.size)}, and {where} has {amount(reason.limit)} in all"
        case Kind.BESIDE_MASTER:
            holds = reason.used.memory if unit else reason.used.vcores
            of_all = f"{holds}{unit or are(holds, ' vcore', ' vcores')} of the {total}{unit or ' vcores'}"
            most = f"{free}{unit}" if unit else vcores(free)
            return (
                f"its own master holds {of_all} of {reason.where}: ask for at most {most}, or run without -d"
            )
        case Kind.MASTER_IN_CLIENT:
            return "its master, in the client, has not registered yet"
        case Kind.MASTER_WAITS:
            return "its master waits for a container"
        case Kind.MASTER_STARTS:
            return f"its master's container is on {reason.where}, and the master has not registered yet"
        case Kind.NOT_STARTED if number > 1 or not reason.by:
            return f"{number_of(number, 'container')} were granted and not started yet"
        case Kind.NOT_STARTED:
            return "it was granted and has not been started yet"
    return _node_text(reason)


def _node_text(reason: Reason) -> str:
    told = {
        Kind.DRAINING: "is being drained: nothing new comes there",
        Kind.DRAINED: "has been drained: nothing new comes there",
        Kind.EXPIRED: "was silent for too long",
        Kind.SHUT_DOWN: "has ended",
        Kind.SILENT: "is silent",
        Kind.GONE: "has gone",
    }.get(reason.kind) or f"is {reason.names[0]}"
    health = f": {reason.detail}" if reason.detail and reason.code is ReasonCode.NODE_UNUSABLE else ""
    return f"{reason.where} {told}{health}"


def _limit_text(reason: Reason) -> str:
    have = f"{amount(reason.used)} of the {amount(reason.limit)}"
    if reason.kind is Kind.QUEUE_MAXIMUM:
        return f"queue {reason.where} has {have} that are its maximum-capacity"
    if reason.kind is Kind.USER_LIMIT:
        return f"user {reason.detail} has {have} that one user may have in queue {reason.where} now"
    return f"masters have {have} that they may have in queue {reason.where}"


def _queues_text(reason: Reason) -> str:
    one = len(reason.by) == 1
    no_room = f"{'the node has no' if one else 'no node has'} room for {amount(reason.size)} now"
    places = f"({reason.number} of {reason.total} places)"
    if reason.kind is Kind.QUEUES_CLOSED:
        return f"guaranteed containers wait for room, and nothing is queued before them {places}"
    if reason.kind is Kind.QUEUES_OFF:
        return f"{no_room}, and the queue length is 0: nothing waits at a node"
    return f"{no_room}, and {'its queue is' if one else 'their queues are'} full {places}"


# -- rows and narrow columns ----------------------------------------------------------------------------------


_BRIEF = {
    Kind.NEXT: ("next: there is room for it", "next"),
    Kind.BY_PERSON: ("paused by a person: `r` resumes it", "paused by hand"),
    Kind.MADE_ROOM: ("paused to make room for guaranteed containers", "made room"),
    Kind.LENT_CPU: ("paused: guaranteed containers use the CPU that it had on loan", "made room"),
    Kind.LENT_MEMORY: ("paused: others use the memory that it had on loan", "memory is short"),
    Kind.OUTSIDE_CPU: ("paused: busy with higher-priority work; it resumes by itself", "machine is busy"),
    Kind.MACHINE_MEMORY: ("paused: this machine runs out of memory", "memory is short"),
    Kind.MACHINE_BUSY: ("other programs keep this machine busy", "machine is busy"),
    Kind.NOT_STARTED: ("granted; its master has not started it yet", "not started yet"),
    Kind.SILENT: ("its node is silent: this data is stale", "node is silent"),
    Kind.GONE: ("its node has gone", "node has gone"),
    Kind.BESIDE_MASTER: ("never: its own master holds too much of its node", "never: too big"),
}


def briefly(reasons: Sequence[Reason], cells: int = 1 << 16) -> str:
    """Why one container waits, in a few words without a full stop; in 16 cells at most where they take more than
    ``cells``. "" where it does not wait.
    """
    if not reasons:
        return ""
    about_node = [one for one in reasons if one.code in _ABOUT_NODE]
    first = next(iter(about_node), reasons[0])
    short = [one for one in reasons if one.kind is Kind.SHORT]
    if first.kind in _BRIEF:
        full, few = _BRIEF[first.kind]
    elif first.kind is Kind.TOO_BIG_HERE:
        has = f"{megabytes(first.limit.memory)}, {vcores(first.limit.vcores)}"
        full, few = f"never: it asks for more than its node has ({has})", "never: too big"
    elif first.kind is Kind.BEHIND:
        full = few = f"behind {first.number}" + (" in the queue" if not first.resumed else "")
        few = f"behind {first.number}"
    elif about_node:
        state = first.names[0] if first.names else "unknown"
        full, few = f"its node is {state}", f"node {state}"
    elif short:
        full = f"waits for {' and '.join(map(_short_of, short))}"
        few = f"no {', '.join('memory' if one.resource == MEMORY else 'vcore' for one in short)} free"
    else:
        full = few = text(first)
    return full if width(full) <= cells else few


_ABOUT_NODE = frozenset(
    {ReasonCode.NODE_LOST, ReasonCode.NODE_UNUSABLE, ReasonCode.NODE_DRAINING, ReasonCode.TOO_BIG}
)


def _short_of(reason: Reason) -> str:
    """``a vcore (0 free)``, ``15.6 GB of memory (7680 MB free)``: what it needs, of which less is free."""
    if reason.resource == VCORES:
        return f"{'a vcore' if reason.needs == 1 else vcores(reason.needs)} ({reason.free} free)"
    return f"{megabytes(reason.needs)} of memory ({megabytes(reason.free)} free)"


def why(report: ContainerReport, picture: Picture, cells: int = 1 << 16) -> str:
    """Why a container of a picture does not run, in a few words; "" for one that does not wait."""
    if not is_waiting(report):
        return ""
    if report.state is ContainerState.RESUMING:
        return "goes on in a moment"
    reasons = why_waits(report, picture.snapshots.get(report.node_id))
    return briefly(reasons or [Reason(Kind.NEXT)], cells)
