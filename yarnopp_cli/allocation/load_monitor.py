"""The load of the nodes, the least loaded ones, and how long their queues should be.

YARN's ``NodeQueueLoadMonitor``. A node's load is its last report plus the later allocations that it has not reported
yet (its *claims*), so that a burst between two heartbeats spreads as if each allocation had been reported at once. By
default the free resources of a node are compared before its queue length (yarn-gaps G8). The monitor allocates nothing
itself and knows no applications.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable

from executor.reasons import Reason
from executor.records import ContainerQueuingLimit, Resource

from ..settings.declarations import ResourceManagerSettings
from .cluster_node import Claim, ClusterNode
from .load_comparators import COMPARATORS
from .rebalancing import MayMove, Rebalancer
from .sorted_items import SortedItems

MOST_SIZES = 8
"""The number of container sizes for which the nodes that accept one are remembered."""

FEW = 8
"""If fewer than one in this many nodes accept a container, these are sorted instead of searched for among
all.
"""


class NodeQueueLoadMonitor:
    """The least loaded nodes, as of the last sorting, and the limit for the queues.

    Between two sortings, containers go to the first ``nodes_used`` of the sorted nodes; nodes beyond these
    are used only where one is idle, or when none of the first has room left, so that no node is left out.
    ``rng`` draws where to begin among the least loaded, for comparators that take the first; without it they
    take turns. ``may_move`` tells whether whatever is queued at the first node may run on the second.
    """

    def __init__(
        self,
        settings: ResourceManagerSettings,
        *,
        rng: random.Random | None = None,
        may_move: MayMove = lambda giver, taker: True,
    ) -> None:
        self._comparator = COMPARATORS[settings.load_comparator]
        self._nodes_used = settings.nodes_used
        self._rng = rng
        self._rebalancer = Rebalancer(settings, may_move, by_wait=self._comparator.by_wait)
        self._nodes: dict[str, ClusterNode] = {}
        self._cluster = Resource()
        self._counted: dict[str, Resource] = {}
        self._sorted: SortedItems[ClusterNode] = SortedItems(self._place)
        self._roomy: dict[str, ClusterNode] = {}
        self._idle: dict[str, ClusterNode] = {}
        #: the nodes that have room for a container of a size, for sizes that were hard to place
        self._takers: dict[Resource, set[str]] = {}
        self._candidates: list[ClusterNode] = []
        self._next = 0
        self._updates = 0
        self.stale = False
        """Whether anything has changed since the last sorting."""
        self.gained: dict[str, ClusterNode] = {}
        """Nodes that may accept requests that no node could accept before; the caller that allocates empties it."""

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, node_id: str) -> bool:
        return node_id in self._nodes

    def knows(self, node: ClusterNode) -> bool:
        """Whether enough is known about that node to allocate to it."""
        return self._comparator.known(node)

    def update(self, node: ClusterNode) -> None:
        """Add a node, or note that the node reported, or that a container was allocated to it."""
        self._updates += 1
        node.updated = self._updates
        if not self._comparator.known(node):
            self.remove(node.node_id)
            return
        if (old := self._nodes.get(node.node_id)) is not node:
            if old is not None:
                old.unwatch(self._sorted.changed)
            self._nodes[node.node_id] = node
            node.watch(self._sorted.changed)
            self._sorted.put(node.node_id, node)
        self._count(node.node_id, node.total)
        self.refresh(node)

    def refresh(self, node: ClusterNode) -> None:
        """Note that the room on the node may have changed without a report."""
        node_id = node.node_id
        if self._nodes.get(node_id) is not node:
            return
        self.stale = True
        if node.total is not self._counted[node_id]:
            self._count(node_id, node.total)
        self._sorted.changed[node_id] = None
        if self._comparator.roomy(node):
            self._roomy[node_id] = node
            self.gained[node_id] = node
        else:
            self._roomy.pop(node_id, None)
        for size, takers in self._takers.items():
            if node_id in self._roomy and isinstance(self._comparator.fit(node, size), Claim):
                takers.add(node_id)
            else:
                takers.discard(node_id)
        if node_id in self._roomy and node.free_memory > 0 and node.free_vcores > 0:
            self._idle[node_id] = node
        else:
            self._idle.pop(node_id, None)

    def remove(self, node_id: str) -> None:
        """Stop allocating to this node (lost, leaving, unhealthy, or its connection is down)."""
        if (node := self._nodes.pop(node_id, None)) is not None:
            node.unwatch(self._sorted.changed)
            self._sorted.drop(node_id)
            self._count(node_id, None)
            self._roomy.pop(node_id, None)
            self._idle.pop(node_id, None)
            self.gained.pop(node_id, None)
            for takers in self._takers.values():
                takers.discard(node_id)
            self._candidates = [other for other in self._candidates if other is not node]
            self._rebalancer.forget(node_id)
            self.stale = True

    def refusal(self, node: ClusterNode, resource: Resource) -> Reason | None:
        """Why a node does not accept a container of that size; None if it does."""
        found = self._comparator.fit(node, resource)
        return found if isinstance(found, Reason) else None

    def has_room(self) -> bool:
        """Whether any node has room for a container of some size."""
        return bool(self._roomy)

    def may_take(self, least: Resource) -> bool:
        """Whether a node that gained room since the last allocation accepts a container of that size."""
        return any(
            node.node_id in self._roomy and isinstance(self._comparator.fit(node, least), Claim)
            for node in self.gained.values()
        )

    def may_place(self, least: Resource) -> bool:
        """Whether any node could accept a container of that size: if none, no larger one either. True if each
        must be tried.
        """
        return self._comparator.takes_first or bool(self._takers_among(least))

    def compute(self) -> None:
        """Sort the nodes and compute the limit for the queues (YARN's periodic task)."""
        self._refill()
        self._rebalancer.compute(self._nodes.values(), self._roomy.values())
        self.stale = False

    def sorted_nodes(self) -> list[ClusterNode]:
        """All nodes that have room, the least loaded first."""
        return list(self._sorted)

    def least_loaded(self) -> list[ClusterNode]:
        """The nodes to allocate to as of the last sorting, with their present figures; then idle ones beyond
        these.

        The nodes are sorted again where some are full now or were added since, so that the list is as long as
        possible.
        """
        found = [node for node in self._candidates if node.node_id in self._roomy]
        if len(found) < min(self._nodes_used, len(self._roomy)):
            self._refill()
            found = list(self._candidates)
        known = {node.node_id for node in found}
        beyond = (node for node in self._idle.values() if node.node_id not in known)
        return found + list(itertools.islice(beyond, self._nodes_used))

    def limit(self) -> ContainerQueuingLimit:
        """The length, or the waiting time, that queues should not exceed, from the distribution of their
        loads.
        """
        return self._rebalancer.limit()

    @property
    def shown_limit(self) -> int:
        """The limit of the length as shown to users: -1 where no other node could take shed containers, or where waits
        are limited.
        """
        return self.limit().max_queue_length if self._rebalancer.tells_all or len(self._nodes) > 1 else -1

    def tell_limit(self, node_id: str) -> ContainerQueuingLimit:
        """The limit in that node's heartbeat answer, which asks it to shed; no limit if it need not shed."""
        node = self._nodes.get(node_id)
        return ContainerQueuingLimit() if node is None else self._rebalancer.tell(node)

    def shedding(self) -> tuple[str, ...]:
        """The nodes to which a limit must be sent now."""
        return self._rebalancer.shedding

    def select(
        self, resource: Resource, suitable: Callable[[ClusterNode], bool] = lambda node: True
    ) -> tuple[ClusterNode, Claim] | None:
        """The node for one more container, None if no node can accept it. ``suitable`` excludes nodes.

        Round-robin over the candidates with enough free resources; then an idle node beyond them; then the shortest
        queue; at last any node that has room. (YARN's documentation describes round robin, and its code begins
        anywhere, yarn-gaps G16: so do its comparators here.)
        """
        if not self._roomy:
            return None
        if not self._comparator.takes_first and self._takers.get(resource, True) == set():
            self._refill()  # as below; the other comparators draw a random start even if no node fits
            return None
        if len(self._candidates) < min(self._nodes_used, len(self._roomy)):
            self._refill()  # nodes were added since the last sorting
        near = self._among_candidates(resource, suitable)
        if near is not None and (near[1] is Claim.FREE or self._comparator.takes_first):
            return near
        for node in self._idle.values():
            if self._comparator.fit(node, resource) is Claim.FREE and suitable(node):
                return node, Claim.FREE
        if near is not None:
            return near
        self._refill()
        if (near := self._among_candidates(resource, suitable)) is not None:
            return near
        best: tuple[ClusterNode, Claim] | None = None
        for node in self._takers_of(resource):
            claim = self._comparator.fit(node, resource) if suitable(node) else None
            if not isinstance(claim, Claim):
                continue
            if claim is Claim.FREE or (resource.memory > 0 and resource.vcores > 0):
                return node, claim  # nodes with some of everything free were tried above
            best = best or (node, claim)
        return best

    def _takers_of(self, resource: Resource) -> Iterable[ClusterNode]:
        """The nodes to try for a container of that size, the least loaded first; includes all that have room
        for it.
        """
        names = self._takers_among(resource)
        if len(names) * FEW < len(self._roomy):
            return sorted(map(self._roomy.__getitem__, names), key=self._key)
        return self._sorted

    def _takers_among(self, resource: Resource) -> set[str]:
        """The names of the nodes that have room for a container of that size."""
        if resource not in self._takers:
            if len(self._takers) >= MOST_SIZES:
                del self._takers[next(iter(self._takers))]
            fit = self._comparator.fit
            roomy = self._roomy.items()
            self._takers[resource] = {name for name, node in roomy if isinstance(fit(node, resource), Claim)}
        return self._takers[resource]

    def _among_candidates(
        self, resource: Resource, suitable: Callable[[ClusterNode], bool]
    ) -> tuple[ClusterNode, Claim] | None:
        count = len(self._candidates)
        best: tuple[int, ClusterNode] | None = None
        takes_first = self._comparator.takes_first
        start = self._rng.randrange(count) if self._rng and takes_first and count else self._next
        for step in range(count):
            index = (start + step) % count
            node = self._candidates[index]
            claim = self._comparator.fit(node, resource) if suitable(node) else None
            if claim is Claim.FREE or (takes_first and isinstance(claim, Claim)):
                self._next = index + 1
                return node, claim
            if claim is Claim.QUEUE and (best is None or node.queue_length < best[1].queue_length):
                best = (index, node)
        if best is None:
            return None
        # An idle node elsewhere may still be chosen instead; a turn skipped then does no harm.
        self._next = best[0] + 1
        return best[1], Claim.QUEUE

    def _refill(self) -> None:
        self._candidates = list(itertools.islice(self._sorted, self._nodes_used))
        self._next = 0

    def _place(self, node: ClusterNode) -> tuple[float, ...] | None:
        """The present sort key of a node that has room; None for one without."""
        return self._key(node) if node.node_id in self._roomy else None

    def _key(self, node: ClusterNode) -> tuple[float, ...]:
        return self._comparator.order(node, self._cluster)

    def _count(self, node_id: str, total: Resource | None) -> None:
        """Record the size of a node; None removes it."""
        was = self._counted.pop(node_id, None)
        if total is not None:
            self._counted[node_id] = total
        if was != total:
            change = (total or Resource()) - (was or Resource())
            self._cluster = self._cluster + change
            if self._comparator.by_cluster:
                self._sorted.all_changed()

    def validate(self) -> None:
        """Assert that the indices agree with the nodes."""
        for size, takers in self._takers.items():
            fit = self._comparator.fit
            assert takers == {
                name for name, node in self._roomy.items() if isinstance(fit(node, size), Claim)
            }
        assert self._counted == {name: node.total for name, node in self._nodes.items()}
        assert self._roomy.keys() <= self._nodes.keys() and self._idle.keys() <= self._roomy.keys()
        self._sorted.validate()
