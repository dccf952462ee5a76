"""Why something waits, when it may start, and whether it ever can: the answer as plain data.

A ``Reason`` is a value: programs read its code and its figures, users the sentence that ``views/explain``
makes of it.
"""

from __future__ import annotations

import enum

from executor.light import Record, field
from executor.records import ExecutionType, Resource

from .methods import Request
from .reports import ContainerReport, NodeReport

VCORES, MEMORY, CONTAINERS = "vcores", "memoryMB", "containers"
"""The units that a reason counts in, besides the names of other resource types."""


class ReasonCode(enum.StrEnum):
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


class ReasonKind(enum.StrEnum):
    """The exact kind of a reason. Each comment names the fields of ``Reason`` that belong to it besides the
    amounts.
    """

    # Free resources at a node.
    #: it needs more than is free; ``by``, ``holders``; ``detail``: the setting by which these are not preempted
    SHORT = "SHORT"
    PROMISED = "PROMISED"  #: guaranteed containers are promised what it needs; ``where``, ``by``, ``holders``
    NODE_FULL = "NODE_FULL"  #: all of a node is promised to guaranteed containers; ``by``
    MACHINE_BUSY = (
        "MACHINE_BUSY"  #: other programs use what is not allocated; ``used`` is left to opportunistic ones
    )
    BEHIND = "BEHIND"  #: others are before it in the queue; ``by``
    NEXT = "NEXT"  #: nothing is missing

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
    ReasonCode.BEHIND: "BEHIND NEXT",
    ReasonCode.PAUSED_BY_PERSON: "BY_PERSON",
    ReasonCode.PAUSED_FOR: "MADE_ROOM NODE_RESIZED LENT_CPU LENT_MEMORY",
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

    @property
    def code(self) -> ReasonCode:
        """The stable word that programs rely on."""
        if self.kind in (ReasonKind.SHORT, ReasonKind.PROMISED, ReasonKind.NODE_FULL):
            return _SHORT_OF.get(self.resource, ReasonCode.NO_RESOURCE)
        return _CODE_OF[self.kind]


class Group(Record):
    """``number`` containers of one application that are queued or paused at a node for the same reasons.

    ``first`` is the id of the first of them, ``position`` its place in a queue of ``queue_length`` (0: they
    are paused), ``size`` what it needs; ``equal``: all of them have that size. ``free`` of ``total`` is free
    at the node.
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
OF_RUNNING = "running-task-time"
BY_NODE = "node-queue-wait"
BASES = (DECLARED, OF_APPLICATION, OF_NODE, OF_ALL, OF_RUNNING, BY_NODE)
"""What an estimate is based on, the best basis first. OF_RUNNING: none of the application has ended, and one that
runs has run for longer than the median of others. BY_NODE: the node's own estimate of how long a new
container would wait.
"""


class Expected(Record):
    """A total running time in milliseconds; 0 where it is not known. ``basis`` is one of BASES."""

    ms: int = 0
    basis: str = ""


class Start(Record):
    """The number of milliseconds after which a container may start. ``expected`` is what that is based on: the weakest
    basis among the containers that must end before, and its running time. ``outlived`` are those of them that
    have run longer than expected.
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
    """Why there is no estimate. For BEYOND_EXPECTED: ``container_id`` has run for ``ran_ms``, while others
    took ``expected``.
    """

    why: UnknownStart
    container_id: str = ""
    ran_ms: int = 0
    expected: Expected = Expected()


class Act(enum.StrEnum):
    """What a user can do about it. ``views/explain`` has the command of each, and its effect."""

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
    """What a user can do, and the id of its target; ``size`` is the size that a node needs."""

    act: Act
    target: str = ""
    size: Resource = Resource()


class Explanation(Record):
    """Why ``id`` waits, or what state it is in. ``state`` is as shown to users, ``since_ms`` when it began
    (0: not known), ``at_ms`` the time of this explanation.

    ``satisfiable`` is false where the present cluster can never serve it. ``position`` is its place of
    ``queue_length`` (0: it is in no queue), ``queue_limit`` how many may wait there. ``groups`` are the
    waiting containers, node by node; ``ungrouped`` more wait on ``other_nodes``; ``outstanding`` are
    requested and not granted. ``start`` is the estimated start of the first waiting container, ``last`` that
    of the last, ``unknown`` why there is none. ``waited_since_submit_ms`` is the wait since the submission of
    the application, ``waited_since_eligible_ms`` since the container was requested; for an application, that
    of the container that has waited longest. -1 where it is not known.

    ``container`` or ``node`` is what is explained, ``free`` what is free at the node. ``counts`` is the
    number of an application's containers by state, or of a node's: running ones by type, the others by state.
    ``ended`` is how an application ended, ``deadline_at_ms`` when one that has not will be ended (0: never);
    ``stopped``: its cluster has stopped before its end.
    ``held_back`` tasks of a hosted job request no container, because ``max_running`` others have one.
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
    stopped: bool = False
    deadline_at_ms: int = 0
    held_back: int = 0
    max_running: int = 0

    @property
    def estimated_start_ms(self) -> int:
        """When the first container may start, in epoch milliseconds, never before ``at_ms``; 0 where there is
        no estimate.
        """
        return self.at_ms + self.start.in_ms if self.start is not None else 0

    @property
    def estimated_last_ms(self) -> int:
        """When the last container may start, likewise."""
        return self.at_ms + self.last.in_ms if self.last is not None else 0

    @property
    def estimate(self) -> str:
        """The basis of both estimates, one of BASES; "" where there is no estimate."""
        best = self.last or self.start
        return best.expected.basis if best is not None else ""

    @property
    def outlived(self) -> tuple[str, ...]:
        """Containers that must end first and have run longer than expected."""
        best = self.last or self.start
        return best.outlived if best is not None else ()


class ExplainRequest(Request["Explanation"]):
    """``id`` is a full id of an application, a container or a node."""

    id: str
