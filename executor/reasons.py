"""Why something does not start: a value, returned by the decision that refuses the start, and shown everywhere.

A scheduler's decision returns what starts, or a ``Reason``: so no rule can refuse a start in silence. A rule that is
not among the kinds brings its own name and sentence (``by_rule``), and every view shows these. Programs read the code
and the figures; users read the sentence that a view makes of them.

Decisions: reasons-are-data.
"""

from __future__ import annotations

import enum

from .hints import TYPE_CHECKING, Any
from .light import QuickEnum, Record
from .resource import Resource

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_NAMED = 20
"""A reason names at most this many ids."""

VCORES, MEMORY, CONTAINERS = "vcores", "memoryMB", "containers"
"""The units that a reason counts in, besides the names of other resource types."""


class ReasonCode(enum.StrEnum, metaclass=QuickEnum):
    """Why something waits or is paused. The words are stable: programs may rely on them."""

    NO_VCORES = "NO_VCORES"
    NO_MEMORY = "NO_MEMORY"
    NO_RESOURCE = "NO_RESOURCE"
    BEHIND = "BEHIND"
    PAUSED_FOR = "PAUSED_FOR"
    PAUSED_BY_PERSON = "PAUSED_BY_PERSON"
    QUEUE_CAPACITY = "QUEUE_CAPACITY"
    USER_LIMIT = "USER_LIMIT"
    NO_NODE = "NO_NODE"
    NODE_DRAINING = "NODE_DRAINING"
    NODE_UNUSABLE = "NODE_UNUSABLE"
    TOO_BIG = "TOO_BIG"
    AM_PENDING = "AM_PENDING"
    NODE_LOST = "NODE_LOST"
    PRESSURE = "PRESSURE"
    NOT_BEGUN = "NOT_BEGUN"
    WINDOW = "WINDOW"


class ReasonKind(enum.StrEnum, metaclass=QuickEnum):
    """The exact kind of a reason. Each comment names the fields of ``Reason`` that belong to it besides the
    amounts.
    """

    #: a rule with its own words: ``rule`` is its name, ``detail`` its sentence
    RULE = "RULE"

    # Free resources at a node.
    #: it needs more than is free; ``by``, ``holders``; ``detail``: the setting by which these are not preempted
    SHORT = "SHORT"
    PROMISED = "PROMISED"  #: guaranteed containers are promised what it needs; ``where``, ``by``, ``holders``
    NODE_FULL = "NODE_FULL"  #: all of a node is promised to guaranteed containers; ``by``
    #: other programs use what is not allocated; ``used`` is left to opportunistic ones
    MACHINE_BUSY = "MACHINE_BUSY"
    ONE_BY_ONE = "ONE_BY_ONE"  #: other programs need all cores: one opportunistic container starts at a time
    BEHIND = "BEHIND"  #: ``number`` others start before it; ``by``
    RESERVED = "RESERVED"  #: the ``number`` guaranteed containers ``by`` wait, and need what is free
    BARRED = "BARRED"  #: no opportunistic container starts while the guaranteed one ``by`` waits
    EXPECTED = "EXPECTED"  #: what is free is held for a guaranteed container that is about to come
    OVERTAKEN = "OVERTAKEN"  #: the container ``by`` was overtaken ``number`` times, and is overtaken no more
    FOLLOWS = "FOLLOWS"  #: it starts when the container ``by`` ends
    NEXT = "NEXT"  #: nothing is missing

    # The node starts nothing.
    UNHEALTHY = "UNHEALTHY"  #: ``detail`` is its health report
    RECOVERING = "RECOVERING"  #: it takes back the containers of its earlier life

    # It is paused.
    BY_PERSON = "BY_PERSON"  #: by a user; ``detail`` names the user
    MADE_ROOM = "MADE_ROOM"  #: to make room for guaranteed containers; ``by``, ``holders``
    NODE_RESIZED = "NODE_RESIZED"  #: its node was made smaller; ``by``, ``holders``
    OUTSIDE_CPU = "OUTSIDE_CPU"  #: processes outside yopp need the CPU
    LENT_CPU = "LENT_CPU"  #: guaranteed containers use the CPU that it had borrowed
    MACHINE_MEMORY = "MACHINE_MEMORY"  #: the machine runs out of memory; ``needs`` MB must stay available
    LENT_MEMORY = "LENT_MEMORY"  #: others use the memory that it had borrowed

    # A limit; ``used`` of ``limit``.
    QUEUE_MAXIMUM = "QUEUE_MAXIMUM"  #: of a queue; ``where`` its path
    USER_LIMIT = "USER_LIMIT"  #: of a user in a queue; ``where``, ``detail`` the user
    MASTERS_LIMIT = "MASTERS_LIMIT"  #: of masters in a queue; ``where``

    # Nodes' queues; ``by`` are the nodes, ``size`` what is asked for.
    QUEUES_FULL = "QUEUES_FULL"  #: neither free resources nor a place in a queue
    QUEUES_OFF = "QUEUES_OFF"  #: their length is 0
    QUEUES_CLOSED = "QUEUES_CLOSED"  #: no container is queued ahead of guaranteed ones that wait
    NODE_QUEUE_FULL = "NODE_QUEUE_FULL"  #: a node's own queue is full

    # No node is eligible.
    NO_NODES = "NO_NODES"  #: there is none
    NO_LABEL = "NO_LABEL"  #: ``detail`` is the label asked for, ``names`` are those that nodes have
    BLACKLISTED = "BLACKLISTED"  #: ``names`` are on the master's blacklist
    ELSEWHERE = "ELSEWHERE"  #: it may run on ``names`` only; ``by`` are the nodes
    EXCLUDED = "EXCLUDED"  #: the place, label or blacklist of the ask excludes the node ``where``

    # It never fits; ``size`` is what it needs.
    TOO_BIG_HERE = "TOO_BIG_HERE"  #: into the node ``where``, which has ``limit`` in all
    TOO_BIG = "TOO_BIG"  #: into any of the nodes ``by``, the largest of which has ``limit``
    BESIDE_MASTER = "BESIDE_MASTER"  #: beside its own master, which holds ``used`` of ``limit``; ``where``

    # The node ``where`` accepts no new containers, or does not answer; ``detail`` is its health report.
    DRAINING = "DRAINING"
    DRAINED = "DRAINED"
    EXPIRED = "EXPIRED"
    SHUT_DOWN = "SHUT_DOWN"
    SILENT = "SILENT"
    UNUSABLE = "UNUSABLE"  #: ``names`` has its state
    GONE = "GONE"  #: the node is gone, and its containers with it

    # It begins later.
    WINDOW_CLOSED = "WINDOW_CLOSED"  #: opportunistic containers do not run on ``where`` before ``at_ms``
    BEGINS_AT = "BEGINS_AT"  #: at the time ``at_ms``
    AFTER = "AFTER"  #: when the application ``where`` has ended; ``detail`` how: ok, failed or any

    # Another party has to act first.
    MASTER_IN_CLIENT = "MASTER_IN_CLIENT"  #: the master in the client has not registered
    MASTER_WAITS = "MASTER_WAITS"  #: the master waits for a container
    MASTER_STARTS = "MASTER_STARTS"  #: the master's container is on ``where`` and has not registered; ``by``
    NOT_STARTED = "NOT_STARTED"  #: ``number`` were granted and not started; ``by``


_CODES = {
    ReasonCode.BEHIND: "BEHIND NEXT RESERVED BARRED EXPECTED OVERTAKEN FOLLOWS",
    ReasonCode.PAUSED_BY_PERSON: "BY_PERSON",
    ReasonCode.PAUSED_FOR: "MADE_ROOM NODE_RESIZED LENT_CPU LENT_MEMORY",
    ReasonCode.PRESSURE: "MACHINE_BUSY ONE_BY_ONE OUTSIDE_CPU MACHINE_MEMORY",
    ReasonCode.QUEUE_CAPACITY: "QUEUE_MAXIMUM QUEUES_FULL QUEUES_OFF QUEUES_CLOSED NODE_QUEUE_FULL",
    ReasonCode.USER_LIMIT: "USER_LIMIT",
    ReasonCode.AM_PENDING: "MASTERS_LIMIT MASTER_IN_CLIENT MASTER_WAITS MASTER_STARTS NOT_STARTED",
    ReasonCode.NO_NODE: "NO_NODES NO_LABEL BLACKLISTED ELSEWHERE EXCLUDED",
    ReasonCode.TOO_BIG: "TOO_BIG_HERE TOO_BIG BESIDE_MASTER",
    ReasonCode.NODE_DRAINING: "DRAINING DRAINED",
    ReasonCode.NODE_LOST: "EXPIRED SHUT_DOWN GONE",
    ReasonCode.NODE_UNUSABLE: "SILENT UNUSABLE UNHEALTHY RECOVERING",
    ReasonCode.NOT_BEGUN: "BEGINS_AT AFTER",
    ReasonCode.WINDOW: "WINDOW_CLOSED",
}
_CODE_OF: dict[str, ReasonCode] = {kind: code for code, kinds in _CODES.items() for kind in kinds.split()}
_OF_AMOUNTS = (ReasonKind.SHORT, ReasonKind.PROMISED, ReasonKind.NODE_FULL)
_SHORT_OF = {VCORES: ReasonCode.NO_VCORES, MEMORY: ReasonCode.NO_MEMORY}


class Holders(Record):
    """The containers that hold what is missing: their number by type, the oldest one, and since when that
    holds it.
    """

    guaranteed: int = 0
    opportunistic: int = 0
    oldest: str = ""
    since_ms: int = 0


class Reason(Record):
    """One reason: a kind, and what belongs to it, as ``ReasonKind`` says.

    For a reason about an amount: ``needs`` of ``resource`` (VCORES, MEMORY, CONTAINERS, or a type's name) are
    needed, and ``free`` of ``total`` are free. ``by`` are the ids of the containers that hold it, or are
    before it in the queue. ``number`` containers share the reason. ``resumed``: the cause of the pause is
    over, and this is what the container has waited for since.
    """

    kind: ReasonKind
    resource: str = ""
    needs: int = 0
    free: int = 0
    total: int = 0
    by: tuple[str, ...] = ()
    holders: Holders = Holders()
    number: int = 1
    where: str = ""
    detail: str = ""
    names: tuple[str, ...] = ()
    size: Resource = Resource()
    used: Resource = Resource()
    limit: Resource = Resource()
    resumed: bool = False
    at_ms: int = 0
    rule: str = ""

    @property
    def code(self) -> str:
        """The stable word that programs rely on: one of ReasonCode, or the name of a rule that is not among the
        kinds."""
        if self.kind is ReasonKind.RULE:
            return self.rule
        found = _SHORT_OF.get(self.resource, ReasonCode.NO_RESOURCE)
        return (found if self.kind in _OF_AMOUNTS else _CODE_OF[self.kind]).value


def by_rule(name: str, sentence: str) -> Reason:
    """The reason of a rule that brings its own words: ``name`` is its code, in capitals; ``sentence`` has no full
    stop."""
    return Reason(ReasonKind.RULE, rule=name, detail=sentence)


# -- reasons about amounts ------------------------------------------------------------------------------------


def amount_of(size: Resource, name: str) -> int:
    """How much of a type, which a reason calls so, is in ``size``."""
    return size.memory if name == MEMORY else size.amount(name)


def missing(needs: Resource, free: Resource) -> list[str]:
    """The types of which ``needs`` has more than ``free``: vcores, memory, then others."""
    names = (VCORES, MEMORY, *(one.name for one in needs.others))
    return [name for name in names if amount_of(needs, name) > amount_of(free, name)]


def about(
    kind: ReasonKind, name: str, needs: Resource, free: Resource, total: Resource, **more: Any
) -> Reason:
    """A reason about one type: what is needed, free, and the total of it."""
    return Reason(kind, name, amount_of(needs, name), amount_of(free, name), amount_of(total, name), **more)


def lacking(kind: ReasonKind, needs: Resource, free: Resource, total: Resource, **more: Any) -> Reason:
    """A reason about what is missing: vcores before memory where several are, and memory where nothing is."""
    return about(kind, next(iter(missing(needs, free)), MEMORY), needs, free, total, **more)


def too_big(needs: Resource, nodes: Sequence[tuple[str, Resource]], kind: ReasonKind) -> Reason:
    """The reason that no node can ever hold it; ``nodes`` are the ids with each node's total."""
    largest = max(
        (total for _, total in nodes),
        key=lambda one: (
            needs.only_others.fits_in(one),
            needs.memory <= one.memory,
            needs.vcores <= one.vcores,
            one,
        ),
    )
    ids = tuple(node_id for node_id, _ in nodes[:MOST_NAMED])
    facts = {"by": ids, "where": ids[0], "size": needs, "limit": largest}
    return about(kind, _never(needs, largest), needs, Resource(), largest, **facts)


def beside_master(needs: Resource, master: Resource, total: Resource, where: str = "") -> Reason | None:
    """Why a container never fits on ``where`` beside its own application's master, which lives as long as the
    container; None where it fits, or where the node is too small even without the master.
    """
    left = (total - master).at_least_zero()
    if needs.fits_in(left) or not needs.fits_in(total):
        return None
    facts = {"where": where, "size": needs, "used": master, "limit": total}
    return about(ReasonKind.BESIDE_MASTER, _never(needs, left), needs, left, total, **facts)


def _never(needs: Resource, most: Resource) -> str:
    """The resource type whose amount exceeds ``most``: memory first, vcores last; vcores where none does."""
    names = sorted(missing(needs, most), key=lambda name: (name == VCORES, name != MEMORY))
    return names[0] if names else VCORES
