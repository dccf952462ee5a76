"""The scheduler of guaranteed containers: which ask is next, and which node serves it.

One FIFO queue (application priority, then submission); a hierarchy of queues will be another queue object
of the same shape. It allocates whenever there is room, not only on heartbeats. It decides; granting is the
caller's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from executor.records import Resource

from ..records.reports import QueueReport
from ..records.requests import ANY
from .applications import RMAppAttempt
from .asks import Ask, admits, levels
from .nodes import RMNode

MAX_OVERTAKES = 100
"""How often later asks may be served on nodes that an ask waits for, before these nodes are kept for it."""

Grant = Callable[[RMAppAttempt, Ask, RMNode], None]


class Queue(Protocol):
    """In which order attempts are served."""

    name: str

    def waiting(self) -> list[RMAppAttempt]:
        """Attempts with outstanding guaranteed asks, the next to be served first."""

    def add(self, attempt: RMAppAttempt) -> None:
        """An attempt may ask from now on."""

    def remove(self, attempt: RMAppAttempt) -> None:
        """An attempt has ended."""


class FifoQueue:
    """Applications of higher priority first (a larger number, as YARN's), then in order of submission."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._attempts: dict[str, RMAppAttempt] = {}

    def __len__(self) -> int:
        return len(self._attempts)

    def add(self, attempt: RMAppAttempt) -> None:
        """An attempt may ask from now on."""
        self._attempts[attempt.id] = attempt

    def remove(self, attempt: RMAppAttempt) -> None:
        """An attempt has ended."""
        self._attempts.pop(attempt.id, None)

    def waiting(self) -> list[RMAppAttempt]:
        """Attempts with outstanding guaranteed asks, the next to be served first."""
        asking = [attempt for attempt in self._attempts.values() if attempt.guaranteed_asks.outstanding]
        return sorted(asking, key=lambda attempt: (-attempt.app.context.priority, attempt.app.number))

    def report(self, used: Resource) -> QueueReport:
        """As people see it. One queue has the whole cluster."""
        return QueueReport(
            name=self.name,
            used=used,
            applications=len(self._attempts),
            pending_containers=sum(
                attempt.guaranteed_asks.outstanding + attempt.opportunistic_asks.outstanding
                for attempt in self._attempts.values()
            ),
        )


class GuaranteedScheduler:
    """Cluster-wide books of guaranteed resources, and the choice of nodes.

    ``awaited`` is told when asks begin or cease to wait for room on a node. ``dirty`` says that an
    assignment may find something to do: an ask came, or something was freed.
    """

    def __init__(self, queue: FifoQueue, awaited: Callable[[RMNode, bool], None]) -> None:
        self.queue = queue
        self._awaited = awaited
        self.nodes: dict[str, RMNode] = {}
        self.total = Resource()
        self.used = Resource()
        self.node_sizes: Counter[Resource] = Counter()
        self.dirty = False

    def add_node(self, node: RMNode) -> None:
        """A node has registered."""
        self.nodes[node.node_id] = node
        self.total = self.total + node.total
        self.node_sizes[node.total] += 1
        self.dirty = True

    def remove_node(self, node: RMNode) -> None:
        """A node is no more; its containers have been completed."""
        if self.nodes.pop(node.node_id, None) is not None:
            self.total = self.total - node.total
            self.node_sizes[node.total] -= 1
            if not self.node_sizes[node.total]:
                del self.node_sizes[node.total]

    def change_used(self, resource: Resource, sign: int) -> None:
        """Guaranteed containers take (1) or give back (-1) ``resource``, somewhere."""
        self.used = self.used + resource if sign > 0 else self.used - resource

    @property
    def largest(self) -> Resource:
        """The total of the largest node; nothing where there is none."""
        return max(self.node_sizes, default=Resource())

    def available(self) -> Resource:
        """What guaranteed containers could still take, over all nodes."""
        return (self.total - self.used).at_least_zero()

    def assign(self, grant: Grant, nodes: Iterable[RMNode] | None = None) -> None:
        """Serve what can be served, in the queue's order, on ``nodes`` (all by default)."""
        self.dirty = False
        candidates = [node for node in (self.nodes.values() if nodes is None else nodes) if node.usable]
        if not candidates:
            return
        passed: list[tuple[Ask, RMAppAttempt]] = []
        kept: set[str] = set()
        for attempt in self.queue.waiting():
            for group in attempt.guaranteed_asks.groups():
                self._serve(attempt, group, candidates, grant, passed, kept)
        for node in candidates:
            waiting = any(_could_serve(ask, attempt, node) for ask, attempt in passed)
            if waiting is not node.load.awaited:
                self._awaited(node, waiting)

    def _serve(
        self,
        attempt: RMAppAttempt,
        group: dict[tuple[int, int, int, int], Ask],
        candidates: list[RMNode],
        grant: Grant,
        passed: list[tuple[Ask, RMAppAttempt]],
        kept: set[str],
    ) -> None:
        """Serve asks of one shape until one finds no node; note that one as passed over."""
        while group:
            ask = next(iter(group.values()))
            choice = self._choose(ask, attempt, candidates, kept)
            if choice is None:
                passed.append((ask, attempt))
                if ask.overtaken >= MAX_OVERTAKES:
                    kept.update(node.node_id for node in candidates if _could_serve(ask, attempt, node))
                return
            node, location = choice
            for other, owner in passed:
                if _could_serve(other, owner, node):
                    other.overtaken += 1
            grant(attempt, ask, node)
            attempt.guaranteed_asks.take(ask, location)

    def _choose(
        self, ask: Ask, attempt: RMAppAttempt, candidates: list[RMNode], kept: set[str]
    ) -> tuple[RMNode, str] | None:
        """A node with room, at the nearest level that has one, and the location it counts for."""
        resource = ask.resource
        fitting = [
            node
            for node in candidates
            if node.fits_guaranteed(resource)
            and node.node_id not in kept
            and admits(ask, node.place, attempt.blacklist)
        ]
        if not fitting:
            return None
        for level in levels(ask):
            for location in level:
                near = (
                    fitting if location == ANY else [node for node in fitting if node.place.names(location)]
                )
                if near:
                    return min(near, key=lambda node: _cost(node, resource)), location
        return None


def _cost(node: RMNode, resource: Resource) -> tuple[bool, float, int]:
    """Whether opportunistic containers would have to make room, then how little would be free."""
    load = node.load
    preempts = resource.memory > load.free_memory or resource.vcores > load.free_vcores
    return (preempts, -load.free_share, node.guaranteed_containers)


def _could_serve(ask: Ask, attempt: RMAppAttempt, node: RMNode) -> bool:
    """Whether the ask could be served on that node if it were empty."""
    return ask.resource.fits_in(node.total) and admits(ask, node.place, attempt.blacklist)
