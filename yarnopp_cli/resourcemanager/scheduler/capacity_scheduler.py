"""The scheduler of guaranteed containers: which ask is next, and which node serves it.

Order and limits are the queues' (``queues``). It allocates whenever there is room, not only on heartbeats. It
decides; granting is the caller's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from executor.records import Resource

from ...allocation.asks import Ask, admits, could_serve, levels
from ...allocation.cluster_node import ClusterNode
from ...records.requests import ANY
from ..entities import RMApp, RMAppAttempt, RMNode
from .queues import QUEUE_CAPACITY, USER_LIMIT, QueueTree, Turns

MAX_OVERTAKES = 100
"""How often later asks may be served on nodes that an ask waits for, before these nodes are kept for it."""

Grant = Callable[[RMAppAttempt, Ask, RMNode], None]


class CapacityScheduler:
    """Cluster-wide books of guaranteed resources, and the choice of nodes.

    ``awaited`` is told when asks begin or cease to wait for room on a node, and for the end of what runs there, be it
    for a limit of theirs. ``starving`` says that the last assignment left asks for which no node, or a queue, had room.
    """

    def __init__(
        self, queues: QueueTree[RMAppAttempt], awaited: Callable[[RMNode, bool, bool], None]
    ) -> None:
        self.queues = queues
        self._awaited = awaited
        self.nodes: dict[str, RMNode] = {}
        self.total = Resource()
        self.used = Resource()
        self.node_sizes: Counter[Resource] = Counter()
        self.starving = False

    def add_node(self, node: RMNode) -> None:
        """A node has registered."""
        self.nodes[node.node_id] = node
        self.total = self.total + node.total
        self.node_sizes[node.total] += 1
        self.queues.resize(self.total)

    def remove_node(self, node: RMNode) -> None:
        """A node is no more; its containers have been completed."""
        if self.nodes.pop(node.node_id, None) is not None:
            self.total = self.total - node.total
            self.node_sizes[node.total] -= 1
            if not self.node_sizes[node.total]:
                del self.node_sizes[node.total]
            self.queues.resize(self.total)

    def change_used(self, app: RMApp, resource: Resource, sign: int, *, master: bool) -> None:
        """A guaranteed container of ``app`` takes (1) or gives back (-1) ``resource``, somewhere."""
        self.used = self.used + resource * sign
        app.leaf.charge(app.user, resource, sign, master=master)

    def refuses(self, app: RMApp, need: Resource, *, master: bool = False, active: int | None = None) -> str:
        """Which limit of its queue stands against ``need`` more for an application; "" for none."""
        if self.queues.plain or need == Resource():
            return ""
        return app.leaf.refuses(app.user, need, master=master, active=active)

    @property
    def largest(self) -> Resource:
        """The total of the largest node; nothing where there is none."""
        return max(self.node_sizes, default=Resource())

    def available(self) -> Resource:
        """What guaranteed containers could still take, over all nodes."""
        return (self.total - self.used).at_least_zero()

    def places(self) -> list[ClusterNode]:
        """The nodes as asks may name them."""
        return [node.load for node in self.nodes.values()]

    def assign(self, grant: Grant, nodes: Iterable[RMNode] | None = None) -> None:
        """Serve what can be served, in the queue's order, on ``nodes`` (all by default)."""
        self.starving = False
        candidates = [node for node in (self.nodes.values() if nodes is None else nodes) if node.usable]
        if not candidates:
            return
        found = _Round(self, candidates)
        found.serve(grant)
        self.starving = found.starving
        for node in candidates:
            waiting = any(could_serve(ask, node.load, blacklist) for ask, blacklist in found.passed)
            followed = waiting or found.limited
            if waiting is not node.load.awaited or followed is not node.guaranteed_awaited:
                self._awaited(node, waiting, followed)


class _Round:
    """One assignment: containers are served one a turn, as queues, users and applications take turns, within their
    limits.

    ``passed`` are asks for which no node had room, with their masters' blacklists; ``kept`` are nodes that are kept for
    such as were overtaken too often. ``limited``: a limit of a queue or user stopped one.
    """

    def __init__(self, scheduler: CapacityScheduler, candidates: list[RMNode]) -> None:
        self._scheduler = scheduler
        self._candidates = candidates
        self._kept: set[str] = set()
        self.passed: list[tuple[Ask, set[str]]] = []
        self.limited = False
        self.starving = False

    def serve(self, grant: Grant) -> None:
        turns = Turns(self._scheduler.queues)
        while (turn := turns.next()) is not None:
            attempt, ask = turn.attempt, turn.ask
            master = ask is attempt.am_ask
            refused = self._scheduler.refuses(attempt.app, ask.resource, master=master, active=turn.active)
            self.limited = self.limited or refused in (QUEUE_CAPACITY, USER_LIMIT)
            if refused == QUEUE_CAPACITY:
                self.starving = True
                turns.limited(turn, MAX_OVERTAKES)
            elif refused:
                turn.pass_over()
            elif (choice := self._choose(ask, attempt.blacklist)) is None:
                turn.pass_over()
                self._pass(ask, attempt.blacklist)
            else:
                turns.served(turn)
                node, location = choice
                for other, blacklist in self.passed:
                    if could_serve(other, node.load, blacklist):
                        other.overtaken += 1
                grant(attempt, ask, node)
                attempt.guaranteed_asks.take(ask, location)

    def _pass(self, ask: Ask, blacklist: set[str]) -> None:
        """No node has room for it; overtaken often enough, it keeps those that could serve it."""
        self.starving = True
        self.passed.append((ask, blacklist))
        if ask.overtaken >= MAX_OVERTAKES:
            self._kept.update(
                node.node_id for node in self._candidates if could_serve(ask, node.load, blacklist)
            )

    def _choose(self, ask: Ask, blacklist: set[str]) -> tuple[RMNode, str] | None:
        """A node with room, at the nearest level that has one, and the location it counts for."""
        fitting = [
            node
            for node in self._candidates
            if node.fits_guaranteed(ask.resource)
            and node.node_id not in self._kept
            and admits(ask, node.load, blacklist)
        ]
        for level in levels(ask) if fitting else ():
            for location in level:
                near = [node for node in fitting if location == ANY or node.load.names(location)]
                if near:
                    return min(near, key=lambda node: _cost(node, ask.resource)), location
        return None


def _cost(node: RMNode, resource: Resource) -> tuple[bool, float, int]:
    """Whether opportunistic containers would have to make room, then how little would be free."""
    return (not node.load.fits_free(resource), -node.load.free_share, node.guaranteed_containers)
