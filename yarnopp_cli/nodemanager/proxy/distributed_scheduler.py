"""DistributedScheduler: allocates a master's opportunistic containers at its own node, without asking the RM.

YARN's interceptor of that name. It allocates on the list of the least loaded nodes, which the RM sends in answers to
allocate calls and heartbeats; all attempts of a node share the list, so that they spread over the nodes. Its tokens
are signed with the key that every node gets from the RM, its container ids are from a separate range, and its
allocations are reported to the RM with the next call, as soon as the RM is reachable. Guaranteed asks go to the RM.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from executor.light import replace
from executor.records import ExecutionType, OpportunisticContainersStatus, Resource

from ...allocation.asks import Ask, AskKey, AskTable, check_request, key_of
from ...allocation.cluster_node import Claim, ClusterNode
from ...allocation.load_monitor import NodeQueueLoadMonitor
from ...allocation.opportunistic import OpportunisticContainerAllocator, RoundRobin
from ...machine.mailbox import Mailbox
from ...machine.tokens import container_token, machine_ms
from ...records.distributed_protocol import RegisterDistributedSchedulingAMResponse, RemoteNode
from ...records.ids import ApplicationAttemptId, ContainerId, NodeId
from ...records.master_protocol import AllocateRequest, AllocateResponse
from ...records.requests import ANY, Container, ResourceRequest
from ...settings.declarations import ResourceManagerSettings
from .interceptors import AttemptFacts, RequestInterceptor

IDS_PER_EPOCH: Final = 1 << 24
"""The distance between the container ids of two NM processes: the number of containers for one attempt in one
process."""


@dataclass(slots=True, eq=False)
class ListedNode:
    """A node of the list: ``load`` is the RM's figures plus the allocations made here since."""

    remote: RemoteNode
    load: ClusterNode


class NodeDirectory:
    """The least loaded nodes as one node knows them. ``container_key`` signs container tokens; None if it is
    unknown."""

    def __init__(self, settings: ResourceManagerSettings, *, wall_offset: float) -> None:
        self.settings = settings
        self.wall_offset = wall_offset
        self.container_key: bytes | None = None
        self.nodes: dict[str, ListedNode] = {}
        self.monitor = NodeQueueLoadMonitor(replace(settings, load_comparator="FREE_THEN_QUEUE_LENGTH"))
        self.allocator = OpportunisticContainerAllocator["DistributedScheduler"](
            self.monitor, max_per_call=settings.max_allocations_per_heartbeat
        )
        self._unreported: dict[str, tuple[str, Claim, Resource]] = {}

    def replace(self, remotes: Iterable[RemoteNode]) -> None:
        """Take the RM's newest list. Allocations made here that its figures do not include yet still count."""
        listed = list(remotes)
        for node_id in self.nodes.keys() - {remote.node_id for remote in listed}:
            del self.nodes[node_id]
            self.monitor.remove(node_id)
        # Among equals the latest report comes first: nodes added in reverse stay in the RM's order.
        for remote in reversed(listed):
            if (old := self.nodes.get(remote.node_id)) is not None:
                self.monitor.remove(old.remote.node_id)
            self.nodes[remote.node_id] = _listed(remote)
        for container_id, (node_id, claim, resource) in self._unreported.items():
            if (node := self.nodes.get(node_id)) is not None:
                node.load.claim(container_id, claim, resource)
        for remote in reversed(listed):
            self.monitor.update(self.nodes[remote.node_id].load)
        self.monitor.compute()

    def claim(self, container_id: str, node: ListedNode, claim: Claim, resource: Resource) -> None:
        """A container was allocated on this node of the list."""
        self._unreported[container_id] = (node.remote.node_id, claim, resource)
        node.load.claim(container_id, claim, resource)
        self.monitor.refresh(node.load)

    def reported(self, container_ids: Iterable[str]) -> None:
        """The RM knows these containers: the figures of its next list include them."""
        for container_id in container_ids:
            found = self._unreported.pop(container_id, None)
            if found is not None and (node := self.nodes.get(found[0])) is not None:
                node.load.release_claim(container_id)
                self.monitor.refresh(node.load)


class DistributedScheduler(RequestInterceptor):
    """The DistributedScheduler of one attempt. It allocates nothing before ``registered`` has set its terms."""

    def __init__(self, facts: AttemptFacts, directory: NodeDirectory) -> None:
        super().__init__(facts)
        self.opportunistic_asks = AskTable()
        self.blacklist: set[str] = set()
        self.since_call = 0
        self._directory = directory
        self._attempt = ApplicationAttemptId.parse(facts.attempt_id)
        self._terms: RegisterDistributedSchedulingAMResponse | None = None
        self._settings = directory.settings
        self._next_id = 0
        self._allocated: Mailbox[tuple[AskKey, Container]] = Mailbox()
        self._unreported: dict[str, Container] = {}
        self._since_ms = 0

    def registered(self, terms: RegisterDistributedSchedulingAMResponse, epoch: int) -> None:
        """The RM has registered the attempt; called again after each restart of the RM. ``epoch`` counts the NM
        processes that the attempt has used.
        """
        first = terms.container_id_start - epoch * IDS_PER_EPOCH
        self._next_id = first if self._terms is None else min(first, self._next_id)  # No id is used twice.
        self._terms = terms
        self._settings = replace(
            self._directory.settings,
            opportunistic_enabled=terms.response.opportunistic_enabled,
            minimum_allocation_mb=max(1, terms.minimum.memory),
            minimum_allocation_vcores=terms.minimum.vcores,
            maximum_allocation_mb=terms.maximum.memory,
            maximum_allocation_vcores=terms.maximum.vcores,
        )

    @property
    def has_news(self) -> bool:
        """Whether the master has not received all allocations."""
        return bool(self._allocated.fresh)

    @property
    def unreported(self) -> tuple[Container, ...]:
        """The containers that were not reported to the RM."""
        return tuple(self._unreported.values())

    def reported(self, container_ids: Iterable[str]) -> None:
        """The RM has answered a call that reported these containers."""
        ids = list(container_ids)
        for container_id in ids:
            self._unreported.pop(container_id, None)
        self._directory.reported(ids)

    def forward(self, request: AllocateRequest, now: float) -> AllocateRequest:
        """Serve the opportunistic asks, and return a request with the guaranteed ones. Raises YoppError for an invalid
        ask."""
        self._allocated.acknowledge(request.response_id)
        mine, others = self._partition(request.asks)
        sizes = self._check(mine)
        self.blacklist.difference_update(request.blacklist_removals)
        self.blacklist.update(request.blacklist_additions)
        self.since_call = 0
        now_ms = self._epoch_ms(now)
        # As far as this node knows, no work of the attempt is older.
        self._since_ms = self._since_ms or now_ms
        unknown = Counter(key for key, _ in self._allocated.items()) if mine else Counter[AskKey]()
        for ask, size in zip(mine, sizes, strict=True):
            self.opportunistic_asks.put(ask, size, unknown[key_of(ask)], now_ms)
        self.allocate(now)
        return replace(request, asks=others)

    def answer(self, response: AllocateResponse, now: float) -> AllocateResponse:
        """Add the containers allocated here, until the master acknowledges them."""
        containers = tuple(container for _, container in self._allocated.take(response.response_id))
        return replace(response, allocated=response.allocated + containers) if containers else response

    def master_reconnected(self) -> None:
        """Send the unacknowledged containers again: the connection was lost."""
        self._allocated.send_again()

    def allocate(self, now: float) -> None:
        """Serve outstanding asks as far as the nodes of the list have room."""
        if self._terms is not None and self._directory.container_key is not None:

            def grant(attempt: DistributedScheduler, ask: Ask, node: ClusterNode, claim: Claim) -> None:
                attempt._grant(ask, node, claim, now)

            if self.opportunistic_asks.outstanding:
                self._directory.allocator.allocate(RoundRobin((self,)), grant)

    def forget(self) -> None:
        """The attempt has ended: drop its claims, which the RM accounts for."""
        self._directory.reported(list(self._unreported))
        self.opportunistic_asks.clear()

    def _epoch_ms(self, now: float) -> int:
        return int((now + self._directory.wall_offset) * 1000)

    def _partition(
        self, asks: tuple[ResourceRequest, ...]
    ) -> tuple[list[ResourceRequest], tuple[ResourceRequest, ...]]:
        """The asks to be served here, and the others.

        An ask for a place that is not in the list goes to the RM, which knows all nodes.
        """
        mine: list[ResourceRequest] = []
        others: list[ResourceRequest] = []
        for ask in asks:
            opportunistic = ask.execution_type_request.execution_type is ExecutionType.OPPORTUNISTIC
            local = opportunistic and (
                self.opportunistic_asks.get(key_of(ask)) is not None or self._reach(ask)
            )
            (mine if local else others).append(ask)
        return mine, tuple(others)

    def _reach(self, ask: ResourceRequest) -> bool:
        if ask.resource_name == ANY or ask.relax_locality:
            return True
        return any(node.load.names(ask.resource_name) for node in self._directory.nodes.values())

    def _check(self, asks: list[ResourceRequest]) -> list[Resource]:
        sizes = {node.remote.total for node in self._directory.nodes.values()}
        if self._terms is not None and self._terms.response.largest_node.memory:
            sizes.add(self._terms.response.largest_node)
        return [check_request(ask, self._settings, sizes) for ask in asks]

    def _grant(self, ask: Ask, load: ClusterNode, claim: Claim, now: float) -> None:
        terms, key = self._terms, self._directory.container_key
        node = self._directory.nodes[load.node_id]
        assert terms is not None and key is not None
        container_id = str(ContainerId(self._attempt, self._next_id))
        self._next_id -= 1
        container = Container(
            container_id,
            node.remote.node_id,
            node.remote.address,
            ask.resource,
            priority=ask.request.priority,
            execution_type=ExecutionType.OPPORTUNISTIC,
            allocation_request_id=ask.request.allocation_request_id,
            node_http_address=node.remote.http_address,
        )
        token = container_token(
            key,
            container,
            attempt_id=self.facts.attempt_id,
            application_id=self.facts.application_id,
            user=terms.user,
            expires_ms=machine_ms(now) + terms.container_token_expiry_ms,
            waiting_since_ms=max(ask.waiting_since_ms, self._since_ms) if ask.is_aged else 0,
        )
        container = replace(container, token=token)
        self._allocated.put(container_id, (ask.key, container))
        self._unreported[container_id] = container
        self._directory.claim(container_id, node, claim, ask.resource)


def _listed(remote: RemoteNode) -> ListedNode:
    host = NodeId.parse(remote.node_id).host
    load = ClusterNode(
        node_id=remote.node_id,
        host=host,
        rack=remote.rack,
        labels=remote.labels,
        total=remote.total,
        # Only the free resources matter here, whoever uses the others.
        guaranteed=remote.total - remote.free,
        status=OpportunisticContainersStatus(
            queued=remote.queue_length,
            wait_queue_length=remote.queue_length,
            queue_capacity=remote.queue_length + remote.queue_room,
        ),
    )
    return ListedNode(remote, load)
