"""The nodes, ordered by the resources still free for guaranteed containers, the best first among equals.

The choice of a node therefore costs the same for one node and for ten thousand: nodes without room are not examined.
Nodes report their changes (``ClusterNode.watch``). Decides nothing about asks.

Decisions: core-costs-what-changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from executor.records import Resource

from ...allocation.sorted_items import SortedItems
from ..entities import RMNode

Cost = tuple[bool, float, int, int]
"""Whether opportunistic containers would be preempted, then the remaining resources, the number of guaranteed
containers, and the order of registration."""


class NodeIndex:
    """All nodes of the scheduler; the caller skips unusable ones."""

    def __init__(self) -> None:
        self.nodes: dict[str, RMNode] = {}
        self._changed: dict[str, Any] = {}
        self._order: dict[str, int] = {}
        self._added = 0
        self._by_room: dict[Resource, SortedItems[RMNode]] = {}
        self._room_of: dict[str, Resource] = {}
        self._by_name: dict[str, dict[str, RMNode]] = {}
        self.sizes: Counter[Resource] = Counter()
        """The number of nodes of each size."""
        self.labels: Counter[tuple[str, ...]] = Counter()
        """The number of nodes with these labels."""

    def add(self, node: RMNode) -> None:
        """Add a node, behind the others."""
        self.nodes[node.node_id] = node
        self._added += 1
        self._order[node.node_id] = self._added
        self.sizes[node.total] += 1
        self.labels[node.load.labels] += 1
        node.load.watch(self._changed)
        for name in {node.node_id, node.load.host}:
            self._by_name.setdefault(name, {})[node.node_id] = node
        self._changed[node.node_id] = None

    def remove(self, node: RMNode) -> bool:
        """Remove a node; return whether the index had it."""
        if self.nodes.pop(node.node_id, None) is None:
            return False
        del self._order[node.node_id]
        node.load.unwatch(self._changed)
        _take_one(self.sizes, node.total)
        _take_one(self.labels, node.load.labels)
        for name in {node.node_id, node.load.host}:
            del self._by_name[name][node.node_id]
            if not self._by_name[name]:
                del self._by_name[name]
        self._leave(node.node_id)
        self._changed.pop(node.node_id, None)
        return True

    def has_room(self, least: Resource) -> bool:
        """Whether any node, usable or not, has room for a container of this size."""
        self._settle()
        return any(least.fits_in(room) for room in self._by_room)

    def best(
        self, resource: Resource, suitable: Callable[[RMNode], bool], among: str | None = None
    ) -> RMNode | None:
        """The node of the least cost that has room and is ``suitable``; among equals the first to register.

        ``among``: consider only nodes with this id or host.
        """
        self._settle()
        if among is not None:
            near = (node for node in self._by_name.get(among, {}).values() if node.fits_guaranteed(resource))
            return min(filter(suitable, near), key=lambda node: self._cost(node, resource), default=None)
        best: tuple[Cost, RMNode] | None = None
        least_free = self._least_free(resource)
        for room, nodes in self._by_room.items():
            if not resource.fits_in(room):
                continue
            waits: RMNode | None = None
            for node in nodes:
                if waits is not None and node.load.free_share < least_free:
                    break  # The nodes behind it have less free resources.
                if not suitable(node):
                    continue
                if node.load.fits_free(resource):
                    waits = node
                    break
                waits = waits or node
            if waits is not None:
                cost = self._cost(waits, resource)
                if best is None or cost < best[0]:
                    best = cost, waits
        return best[1] if best is not None else None

    def _least_free(self, resource: Resource) -> float:
        """A lower bound of the free share of every node that has room for ``resource``."""
        memory = max((size.memory for size in self.sizes), default=0)
        vcores = max((size.vcores for size in self.sizes), default=0)
        share = min(
            resource.memory / memory if memory else 0.0,
            resource.vcores / vcores if vcores else 0.0,
        )
        return share * (1 - 1e-9)

    def _cost(self, node: RMNode, resource: Resource) -> Cost:
        return (not node.load.fits_free(resource), *self._place(node))

    def _place(self, node: RMNode) -> tuple[float, int, int]:
        return (-node.load.free_share, node.guaranteed_containers, self._order[node.node_id])

    def _settle(self) -> None:
        for node_id in self._changed:
            node = self.nodes.get(node_id)
            if node is None:
                continue
            used, total = node.used, node.total
            room = total - used
            if self._room_of.get(node_id) != room:
                self._leave(node_id)
                self._room_of[node_id] = room
                if room not in self._by_room:
                    self._by_room[room] = SortedItems(self._place)
            self._by_room[room].put(node_id, node)
        self._changed.clear()

    def _leave(self, node_id: str) -> None:
        room = self._room_of.pop(node_id, None)
        if room is not None:
            nodes = self._by_room[room]
            nodes.drop(node_id)
            if not nodes:
                del self._by_room[room]

    def validate(self) -> None:
        """Assert that every node has its right place in the index."""
        self._settle()
        assert self._room_of == {name: node.total - node.used for name, node in self.nodes.items()}
        for room, nodes in self._by_room.items():
            nodes.validate()
            assert [node.node_id for node in nodes if self._room_of[node.node_id] != room] == []
        assert sum(len(nodes) for nodes in self._by_room.values()) == len(self.nodes)
        assert self.sizes == Counter(node.total for node in self.nodes.values())
        assert self.labels == Counter(node.load.labels for node in self.nodes.values())


def _take_one(counter: Counter[Any], key: Any) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
