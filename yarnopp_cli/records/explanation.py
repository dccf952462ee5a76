"""The answer to ``explain`` as plain data: why an entity waits, when it may start, and whether it can start at all.

A ``Reason`` is a value: programs read its code and its figures, users the sentence that ``views/explain``
makes of it.
"""

from __future__ import annotations

import enum

from executor.light import Record, field, replace
from executor.reasons import CONTAINERS as CONTAINERS
from executor.reasons import MEMORY as MEMORY
from executor.reasons import VCORES as VCORES
from executor.reasons import Holders as Holders
from executor.reasons import Reason as Reason
from executor.reasons import ReasonCode as ReasonCode
from executor.reasons import ReasonKind as ReasonKind
from executor.records import ExecutionType, Resource

from .jobs import JobSpec
from .methods import Request
from .reports import GONE, ContainerReport, NodeReport, NodeState
from .requests import ApplicationSubmissionContext

_STATES = {
    NodeState.DECOMMISSIONING: ReasonKind.DRAINING,
    NodeState.DECOMMISSIONED: ReasonKind.DRAINED,
    NodeState.LOST: ReasonKind.EXPIRED,
    NodeState.SHUTDOWN: ReasonKind.SHUT_DOWN,
}


def unusable(node: NodeReport) -> list[Reason]:
    """Why a node accepts no new containers, or does not answer; empty if it works."""
    if node.state is NodeState.RUNNING and node.connected:
        return []
    silent = node.state is NodeState.RUNNING
    kind = ReasonKind.SILENT if silent else _STATES.get(node.state, ReasonKind.UNUSABLE)
    told = (node.state.value,)
    return [Reason(kind, by=(node.node_id,), where=node.node_id, detail=node.health_report, names=told)]


def why_waits(report: ContainerReport, node: NodeReport | None) -> list[Reason]:
    """Why a container does not run: its node's reasons, and the state of the node; None if the node is unknown."""
    if node is None or node.state in GONE:
        return [Reason(ReasonKind.GONE, where=report.node_id)]
    if report.state is None:
        return [Reason(ReasonKind.NOT_STARTED, by=(report.container_id,)), *unusable(node)]
    return [*(replace(one, where=one.where or node.node_id) for one in report.why), *unusable(node)]


class WaitingGroup(Record):
    """``number`` containers of one application that are queued or paused at a node for the same reasons.

    ``first`` is the id of the first container, ``position`` its place in a queue of ``queue_length`` (0: they are
    paused), ``size`` its size; ``equal``: all containers have that size. ``free`` of ``total`` resources are free at
    the node.
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
"""The bases of estimates, the best first. OF_RUNNING: no container of the application has ended, and a running one has
run for longer than the median of other applications. BY_NODE: the node's own estimate of how long a new container
would wait.
"""


class Expected(Record):
    """A total running time in milliseconds; 0 if it is not known. ``basis`` is one of BASES."""

    ms: int = 0
    basis: str = ""


class Start(Record):
    """The number of milliseconds after which a container may start. ``expected`` is the basis of this estimate: the
    weakest basis among the containers that must end before, and its running time. ``outlived`` are the ones among
    these containers that have run longer than expected.
    """

    in_ms: int
    expected: Expected
    outlived: tuple[str, ...] = ()


class UnknownStart(enum.StrEnum):
    """The reasons why there is no estimate."""

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
    """The actions of a user that may help. ``views/explain`` has the command of each, and its effect."""

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
    """An action of a user, and the id of its target; ``size`` is the size that a node needs."""

    act: Act
    target: str = ""
    size: Resource = Resource()


class Explanation(Record):
    """Why ``id`` waits, or its state. ``state`` is as shown to users, ``since_ms`` the time when it began (0: not
    known), ``at_ms`` the time of this explanation.

    ``satisfiable`` is false if the present cluster can never serve it. ``position`` is its place of ``queue_length``
    (0: it is in no queue), ``queue_limit`` the number of containers that may wait there. ``groups`` are the waiting
    containers, node by node; ``ungrouped`` more wait on ``other_nodes``; ``outstanding`` containers are requested and
    not granted. ``start`` is the estimated start of the first waiting container, ``last`` the estimated start of the
    last, ``unknown`` the reason why there is no estimate. ``waited_since_submit_ms`` is the wait since the submission
    of the application, ``waited_since_eligible_ms`` since the container was requested; for an application, the wait of
    the container that has waited longest. -1 if it is not known.

    ``container`` or ``node`` is the explained entity, ``free`` are the free resources of the node. ``counts`` is the
    number of an application's containers by state; for a node, running containers are counted by type, the others by
    state. ``ended`` is the result of an application that has ended, ``deadline_at_ms`` the time when a live one will
    be ended (0: never); ``stopped``: its cluster has stopped before its end. ``held_back`` tasks of a hosted job
    request no container, because ``max_running`` others have one.
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
    groups: tuple[WaitingGroup, ...] = ()
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
        """The time when the first container may start, in epoch milliseconds, never before ``at_ms``; 0 if there is no
        estimate.
        """
        return self.at_ms + self.start.in_ms if self.start is not None else 0

    @property
    def estimated_last_ms(self) -> int:
        """The time when the last container may start, likewise."""
        return self.at_ms + self.last.in_ms if self.last is not None else 0

    @property
    def estimate(self) -> str:
        """The basis of both estimates, one of BASES; "" if there is no estimate."""
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


class NodeForecast(Record):
    """The effects of a job on one node: ``starts`` of its containers start at once, ``queued`` wait, the first of them
    after ``ahead`` other containers and for ``reasons``. The containers with the ids in ``paused`` and ``killed`` make
    room. ``unknown`` containers would go to the node, which has not answered.
    """

    node_id: str
    starts: int = 0
    queued: int = 0
    ahead: int = 0
    reasons: tuple[Reason, ...] = ()
    paused: tuple[str, ...] = ()
    killed: tuple[str, ...] = ()
    unknown: int = 0

    @property
    def preempting(self) -> int:
        """The maximum number of starting containers that take resources from opportunistic ones."""
        return min(self.starts, len(self.paused) + len(self.killed))


class JobForecast(Record):
    """What would happen to a job that is submitted now.

    ``waiting`` containers find no node yet, for the reasons ``why``; ``held`` of them wait for nodes that accept no new
    containers, for the reasons in ``unusable``. ``impossible`` containers never find one, ``because`` of that reason.
    ``later`` tasks ask for no container yet. ``refused`` is the error of the submission, "" for none. ``rounded``: the
    size that is allocated for each that the minimum allocation makes larger.
    """

    nodes: tuple[NodeForecast, ...] = ()
    waiting: int = 0
    why: tuple[Reason, ...] = ()
    held: int = 0
    unusable: tuple[Reason, ...] = ()
    impossible: int = 0
    because: Reason | None = None
    later: int = 0
    refused: str = ""
    rounded: tuple[tuple[Resource, Resource], ...] = ()


class ForeseeJobRequest(Request["JobForecast"]):
    """What would happen to this job? Nothing is changed. ``detached``: its master does not live in the client."""

    context: ApplicationSubmissionContext
    job: JobSpec
    detached: bool = False
