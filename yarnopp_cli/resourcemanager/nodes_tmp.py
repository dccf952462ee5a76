"""A node as the RM keeps it, and what it is told in the answers to its heartbeats (YARN's ``RMNodeImpl``).

Keeps its own books; decides nothing about placement.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from executor.records import ContainerQueuingLimit, ExecutionType, Resource, ResourceUtilization

from ..allocation.asks import Place
from ..allocation.load_monitor import ClusterNode
from ..machine.mailbox import Mailbox
from ..records.distributed_protocol import RemoteNode
from ..records.ids import NodeId
from ..records.reports import NodeReport, NodeState
from ..records.tracker_protocol import (
    ContainerToStart,
    ContainerToUpdate,
    NodeHeartbeatResponse,
    RegisterNodeManagerRequest,
)

if TYPE_CHECKING:
    from .container_ledger import RMContainer

_IDLE = ResourceUtilization()


@dataclass(frozen=True, slots=True)
class HeldCall:
    """A call that waits for news, and the number of the last answer that its caller had.

    ``distributed``: the caller is a node's DistributedScheduler, which is told the least loaded nodes too.
    """

    call_id: int
    response_id: int
    distributed: bool = False


@dataclass(slots=True, eq=False)
class RMNode:
    """One registered node. ``load`` is its opportunistic side, ``used`` what guaranteed containers have of
    it.

    ``last_contact`` and ``state_since``, when it came into its state, are in seconds, monotonic. ``response_id``
    numbers the answers to its heartbeats from 0 at each registration, ``sent_here`` is the last one on this
    connection. ``unregistered`` nodes will not come back by themselves. ``resized``: its size is the RM's word, and
    no longer its own.
    """

    node_id: str
    secret: str
    place: Place
    registration: RegisterNodeManagerRequest
    load: ClusterNode
    connection_id: int
    last_contact: float
    state: NodeState = NodeState.RUNNING
    state_since: float = 0.0
    connected: bool = True
    unregistered: bool = False
    shutdown_told: bool = False
    resized: bool = False
    used: Resource = field(default_factory=Resource)
    guaranteed_containers: int = 0
    containers: dict[str, RMContainer] = field(default_factory=dict)
    node_utilization: ResourceUtilization = _IDLE
    containers_utilization: ResourceUtilization = _IDLE
    health_report: str = ""
    response_id: int = 0
    sent_here: int = 0
    queue_limit: int = -1
    held: HeldCall | None = None
    answer_due: bool = False
    guaranteed_awaited: bool = False
    awaited_told: bool = False
    acknowledged: tuple[str, ...] = ()
    to_start: Mailbox[ContainerToStart] = field(default_factory=Mailbox)
    to_cleanup: Mailbox[str] = field(default_factory=Mailbox)
    to_update: Mailbox[ContainerToUpdate] = field(default_factory=Mailbox)
    applications_to_cleanup: Mailbox[str] = field(default_factory=Mailbox)

    def enter(self, state: NodeState, now: float) -> None:
        """It is in a state from now on, unless it was."""
        if state is not self.state:
            self.state, self.state_since = state, now

    @property
    def total(self) -> Resource:
        """What the node has for containers."""
        return self.load.total

    @property
    def usable(self) -> bool:
        """Whether containers may be allocated here now."""
        return self.connected and self.state is NodeState.RUNNING

    def fits_guaranteed(self, resource: Resource) -> bool:
        """Whether a guaranteed container fits beside the guaranteed ones."""
        total, used = self.load.total, self.used
        return used.memory + resource.memory <= total.memory and used.vcores + resource.vcores <= total.vcores

    def take(self, container: RMContainer) -> None:
        """A container was allocated here."""
        self.containers[container.id] = container
        if container.execution_type is ExecutionType.GUARANTEED:
            self.change_used(container.resource, 1)

    def give_back(self, container: RMContainer) -> None:
        """A container of this node has ended."""
        del self.containers[container.id]
        if container.execution_type is ExecutionType.GUARANTEED:
            self.change_used(container.resource, -1)
        self.load.release_claim(container.id)

    def change_used(self, resource: Resource, sign: int) -> None:
        """Guaranteed containers take (1) or give back (-1) ``resource``."""
        self.used = self.used + resource if sign > 0 else self.used - resource
        self.guaranteed_containers += sign
        self.load.guaranteed = self.used
        self.load.recompute()

    def has_news(self) -> bool:
        """Whether a waiting heartbeat is to be answered now."""
        return bool(
            self.to_start.fresh
            or self.to_cleanup.fresh
            or self.applications_to_cleanup.fresh
            or self.to_update.fresh
            or (self.guaranteed_awaited and not self.awaited_told)  # that it is over can wait
        )

    def connect(self, connection_id: int) -> None:
        """The node speaks over this connection; what was sent over another may be lost."""
        if connection_id != self.connection_id or not self.connected:
            self.send_again()
            self.sent_here = 0
            self.awaited_told = False
        self.connection_id = connection_id
        self.connected = True

    def send_again(self) -> None:
        """Everything that was sent and not acknowledged may be lost."""
        self.to_start.send_again()
        self.to_cleanup.send_again()
        self.to_update.send_again()
        self.applications_to_cleanup.send_again()

    def restart(self) -> None:
        """It has registered again: the numbers of the answers begin anew."""
        self.response_id = self.sent_here = 0
        self.awaited_told = False
        self.to_start.restart()
        self.to_cleanup.restart()
        self.to_update.restart()
        self.applications_to_cleanup.restart()

    def forget(self) -> None:
        """Nothing will be told to it any more."""
        self.to_start.clear()
        self.to_cleanup.clear()
        self.to_update.clear()
        self.applications_to_cleanup.clear()

    def acknowledge(self, response_id: int, running_applications: tuple[str, ...]) -> None:
        """The node has received answers up to ``response_id``.

        What it is to start is told until it speaks of the container; that an application ended, until it
        lists it no longer.
        """
        self.to_cleanup.acknowledge(response_id)
        self.to_update.acknowledge(response_id)
        if len(self.applications_to_cleanup):
            running = set(running_applications)
            for application_id in self.applications_to_cleanup.keys_received(response_id):
                if application_id not in running:
                    self.applications_to_cleanup.drop(application_id)

    def response(self, limit: ContainerQueuingLimit, lifetime: str) -> NodeHeartbeatResponse:
        """The next answer, with everything that is not acknowledged."""
        self.response_id += 1
        self.sent_here = self.response_id
        self.awaited_told = self.guaranteed_awaited
        number = self.response_id
        return NodeHeartbeatResponse(
            number,
            containers_to_start=self.to_start.take(number),
            containers_to_cleanup=self.to_cleanup.take(number),
            containers_to_update=self.to_update.take(number),
            applications_to_cleanup=self.applications_to_cleanup.take(number),
            completed_acknowledged=self.acknowledged,
            queuing_limit=limit,
            lifetime=lifetime,
            resource=self.total if self.resized else None,
            guaranteed_awaited=self.guaranteed_awaited,
        )

    def remote(self) -> RemoteNode:
        """As a DistributedScheduler sees it. Where a guaranteed container waits the queue has no room."""
        load = self.load
        return RemoteNode(
            node_id=self.node_id,
            address=self.registration.address,
            rack=load.rack,
            labels=load.labels,
            total=load.total,
            free=Resource(load.free_memory, load.free_vcores),
            queue_length=load.queue_length,
            queue_room=0 if load.awaited else max(0, load.queue_room),
            http_address=self.registration.http_address,
        )

    def report(self, wall_offset: float) -> NodeReport:
        """As people see it."""
        registration = self.registration
        return NodeReport(
            node_id=self.node_id,
            state=self.state,
            address=registration.address,
            http_address=registration.http_address,
            rack=registration.rack,
            labels=registration.labels,
            total=self.total,
            used=self.used,
            num_containers=self.guaranteed_containers,
            opportunistic=self.load.status,
            node_utilization=self.node_utilization,
            containers_utilization=self.containers_utilization,
            queue_limit=self.queue_limit,
            last_heartbeat_ms=int((self.last_contact + wall_offset) * 1000),
            state_since_ms=int((self.state_since + wall_offset) * 1000),
            health_report=self.health_report,
            version=registration.version,
            connected=self.connected,
            pid=registration.pid,
        )


def new_node(request: RegisterNodeManagerRequest, secret: str, connection_id: int, now: float) -> RMNode:
    """The node that a registration describes. Raises InvalidIdError for a malformed node id."""
    node_id = NodeId.parse(request.node_id)
    place = Place(request.node_id, node_id.host, request.rack, request.labels)
    load = ClusterNode(
        node_id=request.node_id,
        host=node_id.host,
        rack=request.rack,
        labels=request.labels,
        total=request.resource,
        status=request.opportunistic,
    )
    return RMNode(request.node_id, secret, place, request, load, connection_id, now, state_since=now)
