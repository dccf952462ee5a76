"""A reason as a sentence, as a few words for a row, and as at most 16 cells for a narrow column. Pure.

Decisions: reasons-are-data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from executor.records import ContainerState, Resource, counted

from ...records.explanation import (
    CONTAINERS,
    MEMORY,
    VCORES,
    Holders,
    Reason,
    ReasonCode,
    ReasonKind,
    why_waits,
)
from ...records.ids import short
from ...records.reports import ContainerReport, NodeReport, is_waiting
from ...records.requests import AFTER
from ...records.times import timestamp
from ..text import about, are, listed, megabytes, number_of, others, vcores, width

Kind = ReasonKind


class _Words(NamedTuple):
    """The words for a kind of reason: in full, in a few words, and in 16 cells. Names in braces are filled in
    from ``_facts``.
    """

    full: str
    brief: str = ""
    few: str = ""


_STATE = ("its node is {state}", "node {state}")
_WORDS = {
    Kind.RULE: _Words("{detail}", few="{rule}"),
    Kind.SHORT: _Words("it needs {needed}, and {free} of {of_total} free"),
    Kind.PROMISED: _Words("a guaranteed container needs {wanted}, and {where} has promised {promised}"),
    Kind.NODE_FULL: _Words(
        "guaranteed containers have all of it: no further guaranteed one fits, and none can be promoted"),
    Kind.MACHINE_BUSY: _Words(
        "other programs keep this machine busy: {left} left to opportunistic containers",
        "other programs keep this machine busy", "machine is busy"),
    Kind.BEHIND: _Words("{containers} {are} before it", "behind {number} in the queue", "behind {number}"),
    Kind.ONE_BY_ONE: _Words(
        "other programs need all cores, so one opportunistic container starts at a time",
        "other programs keep this machine busy", "machine is busy"),
    Kind.RESERVED: _Words("what is free is needed by {containers} that {wait}, and {are} guaranteed",
                          "behind {number} guaranteed", "behind {number}"),
    Kind.BARRED: _Words("no opportunistic container starts while a guaranteed one waits ({names_by})",
                        "behind a guaranteed container", "behind 1"),
    Kind.EXPECTED: _Words("what is free is held for a guaranteed container that is about to come",
                          "behind a guaranteed container", "behind 1"),
    Kind.OVERTAKEN: _Words("{names_by} was overtaken {number} times, and no later container starts before it now",
                           "behind one that is overtaken no more", "behind 1"),
    Kind.FOLLOWS: _Words("it starts when {names_by} ends", "starts when {names_by} ends", "next"),
    Kind.UNHEALTHY: _Words("its node starts nothing: {detail}", "its node is unhealthy", "node unhealthy"),
    Kind.RECOVERING: _Words("its node was restarted, and is taking back its containers", "its node was restarted",
                            "node restarted"),
    Kind.NEXT: _Words("there is room for it: it is served in the next step, or after others of its queue",
                      "next: there is room for it", "next"),
    Kind.BY_PERSON: _Words("{person} paused {them}", "paused by the user: `r` resumes it", "paused by user"),
    Kind.MADE_ROOM: _Words("{it} made room for guaranteed containers; {free_vcores} free now",
                           "paused to make room for guaranteed containers", "made room"),
    Kind.NODE_RESIZED: _Words("the node was made smaller; {free_vcores} free now",
                              "paused: the node was made smaller", "node is smaller"),
    Kind.OUTSIDE_CPU: _Words("other programs need the CPU",
                             "paused: busy with higher-priority work; it resumes by itself", "machine is busy"),
    Kind.LENT_CPU: _Words("guaranteed containers use the CPU that {it} had borrowed",
                          "paused: guaranteed containers use the CPU that it had borrowed", "made room"),
    Kind.MACHINE_MEMORY: _Words(
        "this machine is short of memory: {free} MB are available, {needs} MB must stay available",
        "paused: this machine is short of memory", "memory is short"),
    Kind.LENT_MEMORY: _Words("other containers use the memory that {it} had borrowed",
                             "paused: others use the memory that it had borrowed", "memory is short"),
    Kind.QUEUE_MAXIMUM: _Words("queue {where} uses {used} of its maximum-capacity, {limit}"),
    Kind.USER_LIMIT: _Words("user {detail} uses {used} of the {limit} that a user may use in queue {where} now"),
    Kind.MASTERS_LIMIT: _Words("masters use {used} of the {limit} that they may use in queue {where}"),
    Kind.QUEUES_FULL: _Words("{no_room}, and {queues_are} full {places}"),
    Kind.QUEUES_OFF: _Words("{no_room}, and the queue length is 0: containers cannot queue at a node"),
    Kind.QUEUES_CLOSED: _Words(
        "while guaranteed containers wait for room, no opportunistic one gets a place in a queue"),
    Kind.NODE_QUEUE_FULL: _Words(
        "its queue is full: {number} of {total} opportunistic containers wait, and no more are sent to it"),
    Kind.NO_NODES: _Words("there is no node"),
    Kind.NO_LABEL: _Words("{label}: {labels}"),
    Kind.BLACKLISTED: _Words("its master has blacklisted {names}, and there is no other node"),
    Kind.ELSEWHERE: _Words("it may run on {names} only, and the nodes are {nodes}"),
    Kind.EXCLUDED: _Words("the request's node, rack, label or blacklist excludes this node"),
    Kind.TOO_BIG_HERE: _Words("it needs {size}, and {where} has {limit} in all",
                              "never: it asks for more than its node has ({has})", "never: too big"),
    Kind.TOO_BIG: _Words("it needs {size}, and {largest} has {limit} in all", *_STATE),
    Kind.BESIDE_MASTER: _Words(
        "its own master holds {held} of {where}: ask for at most {beside}, or run without -d",
        "never: its own master holds too much of its node", "never: too big"),
    Kind.DRAINING: _Words("{where} is draining: nothing new is scheduled there", *_STATE),
    Kind.DRAINED: _Words("{where} is drained: nothing new is scheduled there", *_STATE),
    Kind.EXPIRED: _Words("{where} sent no heartbeat for too long", *_STATE),
    Kind.SHUT_DOWN: _Words("{where} has shut down", *_STATE),
    Kind.SILENT: _Words("{where} is silent{health}", "its node is silent: this data is stale", "node is silent"),
    Kind.UNUSABLE: _Words("{where} is {state}{health}", *_STATE),
    Kind.GONE: _Words("{where} is gone", "its node is gone", "node is gone"),
    Kind.WINDOW_CLOSED: _Words(
        "opportunistic containers do not run before {at}{in_time}: yopp.nodemanager.opportunistic.window",
        "paused until the window for opportunistic containers opens", "window is closed"),
    Kind.BEGINS_AT: _Words("it does not begin before {at}{in_time}"),
    Kind.AFTER: _Words("it waits for {where} {condition} before it begins"),
    Kind.MASTER_IN_CLIENT: _Words("its master, in the client, has not registered yet"),
    Kind.MASTER_WAITS: _Words("its master waits for a container"),
    Kind.MASTER_STARTS: _Words("its master's container is on {where}, and the master has not registered yet"),
    Kind.NOT_STARTED: _Words("{granted} yet", "granted; its master has not started it yet", "not started yet"),
}  # fmt: skip
_RESUMED = {
    Kind.SHORT: "{are_waiting} for {missing}{held_by}",
    Kind.BEHIND: "waits behind {waiting} for room",
    Kind.NEXT: "resumes at any moment",
}
"""The words for a container whose pause is over, where they differ."""


def amount(resource: Resource) -> str:
    """``1 vcore, 512 MB``, and the amounts of other types."""
    return f"{vcores(resource.vcores)}, {resource.memory} MB{others(resource)}"


def names(identifiers: Sequence[str], of: str = "", most: int = 3) -> str:
    """The first few ids of containers, for a sentence about application ``of``."""
    return listed([short(one, of) for one in identifiers[:most]], len(identifiers) - most)


def by_type(holders: Holders) -> str:
    """``1 guaranteed and 2 opportunistic containers``; "" for none."""
    parts = [
        f"{number} {kind}"
        for number, kind in ((holders.guaranteed, "guaranteed"), (holders.opportunistic, "opportunistic"))
        if number
    ]
    several = holders.guaranteed + holders.opportunistic != 1
    return f"{' and '.join(parts)} container{'s' if several else ''}" if parts else ""


def oldest(holders: Holders, now_ms: int, of: str = "") -> str:
    """`` (oldest …_000002, for 11 s)``; without the word "oldest" for a single one; "" for none."""
    if not holders.oldest:
        return ""
    age = f", for {about(now_ms - holders.since_ms)}" if holders.since_ms and now_ms else ""
    word = "oldest " if holders.guaranteed + holders.opportunistic > 1 else ""
    return f" ({word}{short(holders.oldest, of)}{age})"


def lacks(short: Resource) -> list[str]:
    """The missing amounts: ``a vcore``, ``512 MB of memory``, ``1 yarn.io/gpu``; only those above 0."""
    found = [("a vcore" if short.vcores == 1 else vcores(short.vcores))] if short.vcores > 0 else []
    found += [f"{short.memory} MB of memory"] if short.memory > 0 else []
    return found + [f"{one.value} {one.name}" for one in short.others if one.value > 0]


def _in_units(number: int, of: str) -> str:
    """An amount of memory (MB), of vcores, or of another type, in words."""
    if of in (MEMORY, CONTAINERS, ""):
        return f"{number} MB" if of == MEMORY else vcores(number)
    return vcores(number) if of == VCORES else f"{number} {of}"


def _facts(reason: Reason, now_ms: int, of: str) -> dict[str, object]:
    """The values that are filled into the words of a reason."""
    number, needs, free, total = reason.number, reason.needs, reason.free, reason.total
    one, holders, used, of_type = len(reason.by) == 1, reason.holders, reason.used, reason.resource
    memory, other = of_type == MEMORY, of_type not in (MEMORY, VCORES, CONTAINERS, "")
    missing = Resource(needs - free) if memory else Resource(0, needs - free)
    if other:
        missing = Resource(0, 0, counted({of_type: needs - free}))
    to = f" to {by_type(holders)}{oldest(holders, now_ms, of)}" if reason.by else ""
    held, unit = (used.memory, " MB") if memory else (used.vcores, " vcores")
    if other:
        held, unit = used.amount(of_type), f" {of_type}"
    held_unit = unit if memory or other or held != 1 else " vcore"
    several = f"{number_of(number, 'container')} were granted and not started"
    label = f"no node has the requested label {reason.detail}"
    return {
        "rule": reason.rule.replace("_", " ").lower()[:16],
        "names_by": names(reason.by, of),
        "wait": are(number, "waits", "wait"),
        "number": number,
        "it": are(number, "it", "they"),
        "them": are(number, "it", "them"),
        "are": are(number),
        "containers": number_of(number, "container"),
        "are_waiting": are(number, "waits", "wait"),
        "granted": "it was granted and has not been started" if number <= 1 and reason.by else several,
        "needs": needs,
        "needed": _in_units(needs, of_type),
        "wanted": f"{needs} MB of memory" if memory else _in_units(needs, of_type),
        "free": free,
        "left": f"{free} MB of memory are" if memory else f"{_in_units(free, of_type)} {are(free)}",
        "free_vcores": f"{vcores(free)} {are(free)}",
        "total": total,
        "of_total": f"{total} MB are" if memory else f"{total} {are(free)}",
        "promised": f"{total - free} of {total}{unit}{to}",
        "missing": listed(lacks(missing)),
        "held_by": f"; held by {names(reason.by, of)}" if reason.by else "",
        "waiting": f"{by_type(holders)} that {are(holders.guaranteed, 'waits', 'wait')}",
        "where": reason.where,
        "detail": reason.detail,
        "person": reason.detail or "a user",
        "health": f": {reason.detail}" if reason.detail else "",
        "label": label if reason.detail else "it requests no node label",
        "labels": f"the nodes have {listed(reason.names)}" if reason.names else "no node has a label",
        "names": listed(reason.names) or "nowhere",
        "state": reason.names[0] if reason.names else "unknown",
        "nodes": listed(reason.by[:5]),
        "largest": f"the only node for it, {reason.where}," if one else "the largest node for it",
        "no_room": f"{'the node has no' if one else 'no node has'} room for {amount(reason.size)} now",
        "queues_are": "its queue is" if one else "their queues are",
        "places": f"({number} of {total} places)",
        "size": amount(reason.size),
        "used": amount(used),
        "limit": amount(reason.limit),
        "has": f"{megabytes(reason.limit.memory)}, {vcores(reason.limit.vcores)}{others(reason.limit)}",
        "held": f"{held}{held_unit} of the {total}{unit}",
        "at": timestamp(reason.at_ms),
        "in_time": f" (in {about(reason.at_ms - now_ms)})" if 0 < now_ms < reason.at_ms else "",
        "condition": AFTER.get(reason.detail, ""),
        "beside": _in_units(free, of_type),
    }


def text(reason: Reason, now_ms: int = 0, of: str = "") -> str:
    """A reason in full, without a full stop. Durations are counted to ``now_ms``; containers of application
    ``of`` are named by the last part of their ids.
    """
    words = _WORDS[reason.kind].full
    if reason.resumed:
        over = "resumed" if reason.detail else "the pressure is over"
        words = f"{over}, and {_RESUMED.get(reason.kind, words)}"
    return words.format_map(_facts(reason, now_ms, of))


# -- rows and narrow columns ----------------------------------------------------------------------------------


_ABOUT_NODE = (ReasonCode.NODE_LOST, ReasonCode.NODE_UNUSABLE, ReasonCode.NODE_DRAINING, ReasonCode.TOO_BIG)


def briefly(reasons: Sequence[Reason], cells: int = 1 << 16) -> str:
    """Why one container waits, in a few words without a full stop; in at most 16 cells if those need more
    than ``cells``. "" if it does not wait.
    """
    if not reasons:
        return ""
    first = next((one for one in reasons if one.code in _ABOUT_NODE), reasons[0])
    short = [one for one in reasons if one.kind is Kind.SHORT]
    words = _WORDS[first.kind]
    if short and not words.brief:
        full = f"waits for {' and '.join(map(_short_of, short))}"
        few = f"no {', '.join(_short_name(one.resource) for one in short)} free"
    else:
        facts = _facts(first, 0, "")
        full = (words.brief or words.full).format_map(facts)
        few = (words.few or words.full).format_map(facts)
        if first.kind is Kind.BEHIND and first.resumed:
            full = few
    return full if width(full) <= cells else few


def _short_name(of: str) -> str:
    """``memory``, ``vcore``, ``gpu``: a type without its domain."""
    return {MEMORY: "memory", VCORES: "vcore"}.get(of, of.rpartition("/")[2])


def _short_of(reason: Reason) -> str:
    """``a vcore (0 free)``, ``15.6 GB of memory (7680 MB free)``: what the container needs, and what is free."""
    if reason.resource == VCORES:
        return f"{'a vcore' if reason.needs == 1 else vcores(reason.needs)} ({reason.free} free)"
    if reason.resource != MEMORY:
        return f"{reason.needs} {reason.resource} ({reason.free} free)"
    return f"{megabytes(reason.needs)} of memory ({megabytes(reason.free)} free)"


def why(report: ContainerReport, node: NodeReport | None, cells: int = 1 << 16) -> str:
    """Why a container on ``node`` does not run, in a few words; "" for one that does not wait."""
    if not is_waiting(report):
        return ""
    if report.state is ContainerState.RESUMING:
        return "resumes in a moment"
    return briefly(why_waits(report, node), cells) or "its node has not said why"
