"""How loaded each node is, which nodes are the least loaded, and how long their queues should be.

YARN's ``NodeQueueLoadMonitor`` and ``QueueLimitCalculator``. A node's load is what it last reported plus
what was allocated to it since and not yet reported (its *claims*), so that a burst between two heartbeats
spreads as if each allocation had been reported at once. What is free on a node counts before how long its
queue is (yarn-gaps G8). Allocates nothing itself and knows no application.
"""

from __future__ import annotations

import enum
import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from executor.records import ContainerQueuingLimit, OpportunisticContainersStatus, Resource

NO_LIMIT = ContainerQueuingLimit()
_NOTHING = Resource()
_NO_STATUS = OpportunisticContainersStatus()


class Claim(enum.Enum):
    """What an opportunistic container is expected to find at its node: free resources, or a place in the
    queue.
    """

    FREE = "FREE"
    QUEUE = "QUEUE"


@dataclass(slots=True, eq=False)
class ClusterNode:
    """One node's load (YARN's ``ClusterNode``). Memory in MiB.

    ``guaranteed`` is what the scheduler has allocated here. ``claims`` are the unreported opportunistic
    containers. ``awaited``: a guaranteed container waits for room here. What is claimed in sum, what is free
    and how long the queue is follow from the other fields; ``recompute`` keeps them so.
    """

    node_id: str
    host: str
    rack: str
    labels: tuple[str, ...]
    total: Resource
    guaranteed: Resource = _NOTHING
    status: OpportunisticContainersStatus = _NO_STATUS
    claims: dict[str, tuple[Claim, Resource]] = field(default_factory=dict)
    updated: int = 0
    awaited: bool = False
    claimed_memory: int = 0
    claimed_vcores: int = 0
    claimed_queue: int = 0
    free_memory: int = 0
    free_vcores: int = 0
    queue_length: int = 0
    queue_room: int = 0
    free_share: float = 0.0

    def __post_init__(self) -> None:
        self.recompute()

    def recompute(self) -> None:
        """Derive what is free and how long the queue is, unreported allocations included."""
        status, total = self.status, self.total
        memory = total.memory - self.guaranteed.memory - status.memory_used - self.claimed_memory
        vcores = total.vcores - self.guaranteed.vcores - status.vcores_used - self.claimed_vcores
        memory, vcores = memory + status.lent_memory, vcores + status.lent_vcores
        self.free_memory = memory if memory > 0 else 0
        self.free_vcores = vcores if vcores > 0 else 0
        self.queue_length = status.wait_queue_length + self.claimed_queue
        self.queue_room = status.queue_capacity - status.queued - self.claimed_queue
        self.free_share = min(
            self.free_memory / total.memory if total.memory > 0 else 0.0,
            self.free_vcores / total.vcores if total.vcores > 0 else 0.0,
        )

    def claim(self, container_id: str, claim: Claim, resource: Resource) -> None:
        """An opportunistic container was allocated here; it counts until the node speaks of it."""
        self.claims[container_id] = (claim, resource)
        self._count(claim, resource, 1)

    def release_claim(self, container_id: str) -> None:
        """The node has spoken of that container, or it will never come."""
        if (entry := self.claims.pop(container_id, None)) is not None:
            self._count(*entry, -1)

    def _count(self, claim: Claim, resource: Resource, sign: int) -> None:
        if claim is Claim.FREE:
            self.claimed_memory += sign * resource.memory
            self.claimed_vcores += sign * resource.vcores
        else:
            self.claimed_queue += sign
        self.recompute()


class LoadComparator(Protocol):
    """How nodes are compared and what one may still take. Policies of one shape; settings choose one."""

    def order(self, node: ClusterNode) -> tuple[float, ...]:
        """The sort key of a node: the least loaded has the smallest."""

    def roomy(self, node: ClusterNode) -> bool:
        """Whether the node could take any container at all."""

    def fit(self, node: ClusterNode, resource: Resource) -> Claim | None:
        """What a container of that size would find there; None if it must not go there."""


class FreeThenQueueLength:
    """Ours: first where most is free, then where the queue is shortest, then the most recently heard of.

    What fits into free resources needs no place in the queue; what does not takes one. No place is taken
    where a guaranteed container waits: the one that queues would start in the moment between two guaranteed
    ones, only to be killed for the second.
    """

    def order(self, node: ClusterNode) -> tuple[float, ...]:
        """Most free first, then the shortest queue, then the latest news."""
        return (-node.free_share, node.queue_length, -node.updated)

    def roomy(self, node: ClusterNode) -> bool:
        """Whether anything is free, or the queue has a place."""
        return (node.queue_room > 0 and not node.awaited) or node.free_memory > 0

    def fit(self, node: ClusterNode, resource: Resource) -> Claim | None:
        """Free resources if they suffice, else a place in the queue if there is one."""
        if resource.memory <= node.free_memory and resource.vcores <= node.free_vcores:
            return Claim.FREE
        if node.queue_room > 0 and not node.awaited and resource.fits_in(node.total):
            return Claim.QUEUE
        return None


class QueueLength:
    """YARN's QUEUE_LENGTH comparator: the queue's length and nothing else; each allocation takes a place in
    it.
    """

    def order(self, node: ClusterNode) -> tuple[float, ...]:
        """The shortest queue first, then the latest news."""
        return (node.queue_length, -node.updated)

    def roomy(self, node: ClusterNode) -> bool:
        """Whether the queue has a place; one of no capacity is never full, as in YARN."""
        capacity = node.status.queue_capacity
        return capacity <= 0 or node.queue_length < capacity

    def fit(self, node: ClusterNode, resource: Resource) -> Claim | None:
        """A place in the queue, whatever is free."""
        return Claim.QUEUE if node.queue_length + 1 <= node.status.queue_capacity else None


def queue_limit(lengths: Sequence[int], sigma: float, minimum: int, maximum: int) -> int:
    """Mean plus ``sigma`` standard deviations (of the population), over all nodes, in floats; clamped.

    Yarn-gaps G7: YARN truncates the mean and leaves full nodes out. No nodes: the minimum.
    """
    if not lengths:
        return min(maximum, minimum)
    mean = sum(lengths) / len(lengths)
    deviation = math.sqrt(sum((length - mean) ** 2 for length in lengths) / len(lengths))
    return min(maximum, max(minimum, int(mean + sigma * deviation)))


def yarn_queue_limit(lengths: Sequence[int], sigma: float, minimum: int, maximum: int) -> int:
    """YARN's ``QueueLimitCalculator`` to the digit: integer mean, deviation from it rounded to an integer."""
    if not lengths:
        return min(maximum, minimum)
    mean = sum(lengths) // len(lengths)
    deviation = math.floor(math.sqrt(sum((length - mean) ** 2 for length in lengths) / len(lengths)) + 0.5)
    return min(maximum, max(minimum, int(mean + sigma * deviation)))


QueueLimit = Callable[[Sequence[int], float, int, int], int]


class NodeQueueLoadMonitor:
    """The least loaded nodes, as of the last sorting, and the limit of the queues.

    ``nodes_used`` is how many of the sorted nodes are allocated to between two sortings; nodes beyond them
    are used only where one is idle, or when none of them has room left, so that none is left out.
    """

    def __init__(
        self,
        *,
        nodes_used: int,
        sigma: float,
        min_queue_length: int,
        max_queue_length: int,
        comparator: LoadComparator | None = None,
        limit: QueueLimit = queue_limit,
    ) -> None:
        self._comparator = comparator or FreeThenQueueLength()
        self._limit_of = limit
        self._nodes_used = nodes_used
        self._sigma = sigma
        self._bounds = (min_queue_length, max_queue_length)
        self._nodes: dict[str, ClusterNode] = {}
        self._roomy: dict[str, ClusterNode] = {}
        self._idle: dict[str, ClusterNode] = {}
        self._candidates: list[ClusterNode] = []
        self._next = 0
        self._updates = 0
        self._limit = limit((), sigma, min_queue_length, max_queue_length)
        self._takers: tuple[str, ...] = ()
        self.stale = False
        """Whether anything changed since the last sorting."""
        self.gained = False
        """Whether a node may be able to take what none could take before; whoever allocates lowers it."""

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, node_id: str) -> bool:
        return node_id in self._nodes

    def update(self, node: ClusterNode) -> None:
        """Take a node in, or note that the node reported, or that it was given something."""
        self._updates += 1
        node.updated = self._updates
        self._nodes[node.node_id] = node
        self.refresh(node)

    def refresh(self, node: ClusterNode) -> None:
        """What the node can take may have changed, without its having spoken."""
        node_id = node.node_id
        if self._nodes.get(node_id) is not node:
            return
        self.stale = True
        if self._comparator.roomy(node):
            self._roomy[node_id] = node
            self.gained = True
        else:
            self._roomy.pop(node_id, None)
        if node.free_memory > 0 and node.free_vcores > 0:
            self._idle[node_id] = node
        else:
            self._idle.pop(node_id, None)

    def remove(self, node_id: str) -> None:
        """Allocate to this node no more (lost, leaving, unhealthy, or its connection is down)."""
        if (node := self._nodes.pop(node_id, None)) is not None:
            self._roomy.pop(node_id, None)
            self._idle.pop(node_id, None)
            self._candidates = [other for other in self._candidates if other is not node]
            self._takers = tuple(taker for taker in self._takers if taker != node_id)
            self.stale = True

    def has_room(self) -> bool:
        """Whether any node could take any container."""
        return bool(self._roomy)

    def compute(self) -> None:
        """Sort the nodes and derive the limit of the queues (YARN's periodic task)."""
        self._refill()
        if self._nodes:
            lengths = [node.queue_length for node in self._nodes.values()]
            self._limit = self._limit_of(lengths, self._sigma, *self._bounds)
        takers = (node.node_id for node in self._roomy.values() if node.queue_length < self._limit)
        self._takers = tuple(itertools.islice(takers, 2))
        self.stale = False

    def sorted_nodes(self) -> list[ClusterNode]:
        """All nodes that have room, the least loaded first."""
        return sorted(self._roomy.values(), key=self._comparator.order)

    def least_loaded(self) -> list[ClusterNode]:
        """The nodes to allocate to as of the last sorting, with the figures of now; idle ones beyond them too.

        Sorted anew where some are full now, or were not there then, so that the list is as long as it may be.
        """
        found = [node for node in self._candidates if node.node_id in self._roomy]
        if len(found) < min(self._nodes_used, len(self._roomy)):
            self._refill()
            found = list(self._candidates)
        known = {node.node_id for node in found}
        beyond = (
            node for node in self._idle.values() if node.node_id in self._roomy and node.node_id not in known
        )
        return found + list(itertools.islice(beyond, self._nodes_used))

    def limit(self) -> ContainerQueuingLimit:
        """The length that queues should not exceed, by the distribution of their lengths."""
        return ContainerQueuingLimit(max_queue_length=self._limit)

    def limit_for(self, node_id: str) -> ContainerQueuingLimit:
        """What that node is told in a heartbeat's answer: the limit, where another node had room below it.

        Rebalancing moves containers. Where they could only come back to the node that sheds them, it is told no
        limit (decision 17; YARN tells it all the same, and the containers are killed in vain).
        """
        return self.limit() if any(taker != node_id for taker in self._takers) else NO_LIMIT

    def select(
        self, resource: Resource, suitable: Callable[[ClusterNode], bool] | None = None
    ) -> tuple[ClusterNode, Claim] | None:
        """The node for one more container, None where none can take it. ``suitable`` rules nodes out.

        Round-robin over the candidates: first where it fits into what is free, then on an idle node beyond
        them, then where the queue is shortest; at last on any node that has room.
        """
        if not self._roomy:
            return None
        if not self._candidates:
            self._refill()
        queued = self._among_candidates(resource, suitable)
        if queued is not None and queued[1] is Claim.FREE:
            return queued
        for node in self._idle.values():
            if self._comparator.fit(node, resource) is Claim.FREE and (suitable is None or suitable(node)):
                return node, Claim.FREE
        if queued is not None:
            return queued
        self._refill()
        return self._among_candidates(resource, suitable) or self._best_of(
            self._roomy.values(), resource, suitable
        )

    def _among_candidates(
        self, resource: Resource, suitable: Callable[[ClusterNode], bool] | None
    ) -> tuple[ClusterNode, Claim] | None:
        count = len(self._candidates)
        best: ClusterNode | None = None
        best_index = 0
        for step in range(count):
            index = (self._next + step) % count
            node = self._candidates[index]
            if suitable is not None and not suitable(node):
                continue
            claim = self._comparator.fit(node, resource)
            if claim is Claim.FREE:
                self._next = index + 1
                return node, claim
            if claim is Claim.QUEUE and (best is None or node.queue_length < best.queue_length):
                best, best_index = node, index
        if best is None:
            return None
        # An idle node elsewhere may still be chosen instead; a turn skipped then does no harm.
        self._next = best_index + 1
        return best, Claim.QUEUE

    def _best_of(
        self,
        nodes: Iterable[ClusterNode],
        resource: Resource,
        suitable: Callable[[ClusterNode], bool] | None,
    ) -> tuple[ClusterNode, Claim] | None:
        fitting = (
            (node, claim)
            for node in nodes
            if (suitable is None or suitable(node))
            and (claim := self._comparator.fit(node, resource)) is not None
        )
        return min(
            fitting,
            key=lambda pair: (pair[1] is not Claim.FREE, self._comparator.order(pair[0])),
            default=None,
        )

    def _refill(self) -> None:
        self._candidates = heapq.nsmallest(self._nodes_used, self._roomy.values(), key=self._comparator.order)
        self._next = 0
