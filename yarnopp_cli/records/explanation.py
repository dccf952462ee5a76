"""Why something waits, when it may start, and whether it ever can: the answer as plain data.

A ``Reason`` is a value: programs read its code and its figures, people the sentence that ``views/explain`` makes of it.
"""

from __future__ import annotations

import enum

from executor.light import Record, field
from executor.records import ExecutionType, Resource

from .methods import Request
from .reports import ContainerReport, NodeReport

VCORES, MEMORY, CONTAINERS = "vcores", "memoryMB", "containers"
"""What a reason counts; or the name of a resource type that is neither vcores nor memory."""


class ReasonCode(enum.StrEnum):
    """Why something does not go on. Programs may rely on the words."""

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


class ReasonKind(enum.StrEnum):
    """What exactly it is. Beside each, the fields of ``Reason`` that belong to it beyond the amounts."""

    # Room at a node.
    SHORT = "SHORT"  #: it needs more than is free; ``by``, ``holders``
    PROMISED = "PROMISED"  #: guaranteed ones have been promised what it needs; ``where``, ``by``, ``holders``
    NODE_FULL = "NODE_FULL"  #: guaranteed containers have been promised all of a node; ``by``
    MACHINE_BUSY = (
        "MACHINE_BUSY"  #: other programs need what nobody has; ``used`` is left to opportunistic ones
    )
    BEHIND = "BEHIND"  #: others are before it; ``by``
    NEXT = "NEXT"  #: nothing is missing

    # It is paused.
    BY_PERSON = "BY_PERSON"  #: by a user; ``detail`` who
    MADE_ROOM = "MADE_ROOM"  #: to make room for guaranteed containers; ``by``, ``holders``
    OUTSIDE_CPU = "OUTSIDE_CPU"  #: processes outside yopp need the CPU
    LENT_CPU = "LENT_CPU"  #: guaranteed containers use the CPU that it had borrowed
    MACHINE_MEMORY = "MACHINE_MEMORY"  #: the machine runs out of memory; ``needs`` MB are to stay available
    LENT_MEMORY = "LENT_MEMORY"  #: others use the memory that it had borrowed

    # A limit; ``used`` of ``limit``.
    QUEUE_MAXIMUM = "QUEUE_MAXIMUM"  #: of a queue; ``where`` its path
    USER_LIMIT = "USER_LIMIT"  #: of a user in a queue; ``where``, ``detail`` the user
    MASTERS_LIMIT = "MASTERS_LIMIT"  #: of masters in a queue; ``where``

    # Nodes' queues; ``by`` are the nodes, ``size`` what is asked for.
    QUEUES_FULL = "QUEUES_FULL"  #: there is neither room nor a place
    QUEUES_OFF = "QUEUES_OFF"  #: their length is 0
    QUEUES_CLOSED = "QUEUES_CLOSED"  #: nothing is queued before guaranteed containers that wait
    NODE_QUEUE_FULL = "NODE_QUEUE_FULL"  #: a node's own queue is full

    # No node is one where it may go.
    NO_NODES = "NO_NODES"  #: there is none
    NO_LABEL = "NO_LABEL"  #: ``detail`` is the label asked for, ``names`` are those that nodes have
    BLACKLISTED = "BLACKLISTED"  #: ``names`` are on the master's blacklist
    ELSEWHERE = "ELSEWHERE"  #: it may go to ``names`` only; ``by`` are the nodes
    EXCLUDED = "EXCLUDED"  #: the place, label or blacklist of the ask excludes the node ``where``

    # It never fits; ``size`` is what it needs.
    TOO_BIG_HERE = "TOO_BIG_HERE"  #: into the node ``where``, which has ``limit`` in all
    TOO_BIG = "TOO_BIG"  #: into any of the nodes ``by``, the largest of which has ``limit``
    BESIDE_MASTER = (
        "BESIDE_MASTER"  #: beside its own master, which holds ``used`` of the ``limit``; ``where``
    )

    # The node ``where`` takes nothing new, or does not answer; ``detail`` its health report.
    DRAINING = "DRAINING"
    DRAINED = "DRAINED"
    EXPIRED = "EXPIRED"
    SHUT_DOWN = "SHUT_DOWN"
    SILENT = "SILENT"
    UNUSABLE = "UNUSABLE"  #: ``names`` has its state
    GONE = "GONE"  #: it has gone, and its containers with it

    # It begins later.
    WINDOW_CLOSED = "WINDOW_CLOSED"  #: opportunistic ones do not run on ``where`` before ``at_ms``
    BEGINS_AT = "BEGINS_AT"  #: at a time; ``at_ms``
    AFTER = "AFTER"  #: when the application ``where`` has ended; ``detail`` how: ok, failed or any

    # Somebody has to act first.
    MASTER_IN_CLIENT = "MASTER_IN_CLIENT"  #: the master in the client has not registered
    MASTER_WAITS = "MASTER_WAITS"  #: the master waits for a container
    MASTER_STARTS = "MASTER_STARTS"  #: the master's container is on ``where`` and has not registered; ``by``
    NOT_STARTED = "NOT_STARTED"  #: ``number`` were granted and not started; ``by``


_CODES = {
    ReasonCode.BEHIND: "BEHIND NEXT",
    ReasonCode.PAUSED_BY_PERSON: "BY_PERSON",
    ReasonCode.PAUSED_FOR: "MADE_ROOM LENT_CPU LENT_MEMORY",
    ReasonCode.PRESSURE: "MACHINE_BUSY OUTSIDE_CPU MACHINE_MEMORY",
    ReasonCode.QUEUE_CAPACITY: "QUEUE_MAXIMUM QUEUES_FULL QUEUES_OFF QUEUES_CLOSED NODE_QUEUE_FULL",
    ReasonCode.USER_LIMIT: "USER_LIMIT",
    ReasonCode.AM_PENDING: "MASTERS_LIMIT MASTER_IN_CLIENT MASTER_WAITS MASTER_STARTS NOT_STARTED",
    ReasonCode.NO_NODE: "NO_NODES NO_LABEL BLACKLISTED ELSEWHERE EXCLUDED",
    ReasonCode.TOO_BIG: "TOO_BIG_HERE TOO_BIG BESIDE_MASTER",
    ReasonCode.NODE_DRAINING: "DRAINING DRAINED",
    ReasonCode.NODE_LOST: "EXPIRED SHUT_DOWN GONE",
    ReasonCode.NODE_UNUSABLE: "SILENT UNUSABLE",
    ReasonCode.NOT_BEGUN: "BEGINS_AT AFTER",
    ReasonCode.WINDOW: "WINDOW_CLOSED",
}
_SHORT_OF = {VCORES: ReasonCode.NO_VCORES, MEMORY: ReasonCode.NO_MEMORY}
_CODE_OF = {ReasonKind(kind): code for code, kinds in _CODES.items() for kind in kinds.split()}


class Holders(Record):
    """Who has what is missing: so many containers of each type, the oldest of them and since when it has it."""

    guaranteed: int = 0
    opportunistic: int = 0
    oldest: str = ""
    since_ms: int = 0


class Reason(Record):
    """One reason: a kind, and what belongs to it, as ``ReasonKind`` says.

    Where it is about an amount: ``needs`` of ``resource`` (VCORES, MEMORY, CONTAINERS, or a type's name), of which
    ``free`` of ``total`` is there. ``by`` are the ids of those who have it, or stand before. ``number`` containers
    share it. ``resumed``: what had paused it has let it go, and this is what it waits for since.
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

    @property
    def code(self) -> ReasonCode:
        """The word that programs rely on."""
        if self.kind in (ReasonKind.SHORT, ReasonKind.PROMISED, ReasonKind.NODE_FULL):
            return _SHORT_OF.get(self.resource, ReasonCode.NO_RESOURCE)
        return _CODE_OF[self.kind]


class Group(Record):
    """``number`` containers of one application that wait at a node, or are paused there, for the same.

    ``first`` is the id of the first of them, ``position`` its place in a queue of ``queue_length`` (0: they are
    paused), ``size`` what it needs; ``equal``: they all need that. ``free`` of ``total`` is free at the node.
    """

    node_id: str
    number: int
    first: str
    execution_type: ExecutionType
    size: Resource
    free: Resource
    total: Resource
    reasons: tuple[Reason, ...]
    equal: bool = True
    position: int = 0
    queue_length: int = 0


DECLARED = "declared"
OF_APPLICATION = "median-task-time"
OF_NODE = "median-node-time"
OF_ALL = "median-cluster-time"
BY_NODE = "node-queue-wait"
BASES = (DECLARED, OF_APPLICATION, OF_NODE, OF_ALL, BY_NODE)
"""What an estimate rests on, the best first. BY_NODE: the node's own word on how long a newcomer would wait."""


class Expected(Record):
    """A running time in all, in milliseconds; 0 where nothing is known. ``basis`` is one of BASES."""

    ms: int = 0
    basis: str = ""


class Start(Record):
    """In how many milliseconds one may start. ``expected`` is what that rests on: the weakest basis of all that must
    end before, and its running time. ``outlived`` are those of them that have run longer than was expected of them.
    """

    in_ms: int
    expected: Expected
    outlived: tuple[str, ...] = ()


class UnknownStart(enum.StrEnum):
    """Why there is no estimate."""

    OTHER_PROGRAMS = "OTHER_PROGRAMS"
    WINDOW_CLOSED = "WINDOW_CLOSED"
    BEYOND_EXPECTED = "BEYOND_EXPECTED"
    NO_DURATION = "NO_DURATION"
    DURATION_OF_OTHERS = "DURATION_OF_OTHERS"


class Unknown(Record):
    """Why there is no estimate: of BEYOND_EXPECTED, that ``container_id`` has run for ``ran_ms``, and others took
    ``expected``.
    """

    why: UnknownStart
    container_id: str = ""
    ran_ms: int = 0
    expected: Expected = Expected()


class Act(enum.StrEnum):
    """What a person can do about it. ``views/explain`` knows the command of each, and what it effects."""

    UP = "UP"
    DOCTOR = "DOCTOR"
    EXPLAIN_FIRST = "EXPLAIN_FIRST"
    RESUME_CONTAINER = "RESUME_CONTAINER"
    PROMOTE_QUEUED = "PROMOTE_QUEUED"
    PROMOTE_PAUSED = "PROMOTE_PAUSED"
    PROMOTE_UNDER_PRESSURE = "PROMOTE_UNDER_PRESSURE"
    KILL_QUEUED = "KILL_QUEUED"
    KILL_PAUSED = "KILL_PAUSED"
    KILL_APPLICATION = "KILL_APPLICATION"
    MOVE_APPLICATION = "MOVE_APPLICATION"
    SHOW_QUEUE = "SHOW_QUEUE"
    LIST_NODES = "LIST_NODES"
    RESUME_NODE = "RESUME_NODE"
    ENLARGE_NODE = "ENLARGE_NODE"
    START_NODE = "START_NODE"
    SHOW_CONTAINERS = "SHOW_CONTAINERS"


class Suggestion(Record):
    """What a person can do, and to what; ``size`` is that which a node has to have."""

    act: Act
    target: str = ""
    size: Resource = Resource()


class Explanation(Record):
    """What is the matter with ``id``. ``state`` is as shown to people, ``since_ms`` when it began (0: not known),
    ``at_ms`` when this was so.

    ``satisfiable`` is false where waiting is in vain: nothing that is there now can ever serve it. ``position`` is its
    place of ``queue_length`` (0: it is in no queue), ``queue_limit`` how many may wait there. ``groups`` are those that
    wait, node by node, ``ungrouped`` more wait on ``other_nodes``; ``outstanding`` are asked for and not granted.
    ``start`` is that of the first that waits, ``last`` that of the last, ``unknown`` why there is none. What waits, or
    has waited, did so for ``waited_since_submit_ms`` since its application was submitted, ``waited_since_eligible_ms``
    since it was asked for; of an application that is its container that waits for longest. -1 where it is not known.

    ``container`` or ``node`` is what is explained, ``free`` what is free at the node. ``counts`` are an application's
    containers by state, or a node's: those that run by type, and the others by state. ``ended`` is how an application
    ended.
    """

    id: str
    kind: str
    state: str
    at_ms: int = 0
    since_ms: int = 0
    satisfiable: bool = True
    waits: bool = False
    reasons: tuple[Reason, ...] = ()
    position: int = 0
    queue_length: int = 0
    queue_limit: int = -1
    groups: tuple[Group, ...] = ()
    ungrouped: int = 0
    other_nodes: int = 0
    outstanding: int = 0
    start: Start | None = None
    last: Start | None = None
    unknown: Unknown | None = None
    actions: tuple[Suggestion, ...] = ()
    waited_since_submit_ms: int = -1
    waited_since_eligible_ms: int = -1
    container: ContainerReport | None = None
    node: NodeReport | None = None
    free: Resource = Resource()
    counts: dict[str, int] = field(default_factory=dict)
    ended: str = ""

    @property
    def estimated_start_ms(self) -> int:
        """When the first may start, in epoch milliseconds and never in the past; 0 where nothing is known."""
        return self.at_ms + self.start.in_ms if self.start is not None else 0

    @property
    def estimated_last_ms(self) -> int:
        """When the last may."""
        return self.at_ms + self.last.in_ms if self.last is not None else 0

    @property
    def estimate(self) -> str:
        """What both rest on, one of BASES; "" where nothing is known."""
        best = self.last or self.start
        return best.expected.basis if best is not None else ""

    @property
    def outlived(self) -> tuple[str, ...]:
        """Containers that have run longer than was expected of them, and have to end before."""
        best = self.last or self.start
        return best.outlived if best is not None else ()


class ExplainRequest(Request["Explanation"]):
    """``id`` is a full id of an application, a container or a node."""

    id: str
