"""The scheduler of guaranteed containers: which ask is next, and which node serves it.

Order and limits are the queues' (``queues``). It allocates whenever there is room, not only on heartbeats. It
decides; granting is the caller's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from executor.records import Resource

from ...allocation.asks import Ask, admits, levels
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
        self.used = self.used + resource if sign > 0 else self.used - resource
        app.leaf.charge(app.user, resource, sign, master=master)

    def refuses(self, app: RMApp, need: Resource) -> str:
        """Which limit of its queue stands against ``need`` more for an application; "" for none."""
        if self.queues.plain or need == Resource():
            return ""
        return app.leaf.refuses(app.user, need, master=False)

    @property
    def largest(self) -> Resource:
        """The total of the largest node; nothing where there is none."""
        return max(self.node_sizes, default=Resource())

    def available(self) -> Resource:
        """What guaranteed containers could still take, over all nodes."""
        return (self.total - self.used).at_least_zero()

    def assign(self, grant: Grant, nodes: Iterable[RMNode] | None = None) -> None:
        """Serve what can be served, in the queue's order, on ``nodes`` (all by default)."""
        self.starving = False
        limited = False
        candidates = [node for node in (self.nodes.values() if nodes is None else nodes) if node.usable]
        if not candidates:
            return
        passed: list[tuple[Ask, RMAppAttempt]] = []
        kept: set[str] = set()
        if self.queues.plain:
            [leaf] = self.queues.leaves.values()
            for attempt in leaf.waiting():
                for group in attempt.guaranteed_asks.groups():
                    self._serve(attempt, group, candidates, grant, passed, kept)
        else:
            limited = self._serve_by_turns(candidates, grant, passed, kept)
        self.starving = self.starving or bool(passed)
        for node in candidates:
            waiting = any(could_serve(ask, attempt, node) for ask, attempt in passed)
            if waiting is not node.load.awaited or (waiting or limited) is not node.guaranteed_awaited:
                self._awaited(node, waiting, waiting or limited)

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
                self._pass(ask, attempt, candidates, passed, kept)
                return
            self._take(ask, attempt, choice, grant, passed)

    def _serve_by_turns(
        self,
        candidates: list[RMNode],
        grant: Grant,
        passed: list[tuple[Ask, RMAppAttempt]],
        kept: set[str],
    ) -> bool:
        """Serve one container a turn, as queues, users and applications take turns, within their limits; whether
        such a limit stopped one."""
        turns = Turns(self.queues)
        limited = False
        while (turn := turns.next()) is not None:
            attempt, ask = turn.attempt, next(iter(turn.group.values()))
            refused = turn.leaf.refuses(
                attempt.app.user, ask.resource, master=ask is attempt.am_ask, active=turn.active
            )
            limited = limited or refused in (QUEUE_CAPACITY, USER_LIMIT)
            if refused == QUEUE_CAPACITY:
                self.starving = True
                turns.limited(turn, ask, MAX_OVERTAKES)
                continue
            choice = None if refused else self._choose(ask, attempt, candidates, kept)
            if choice is None:
                turns.pass_over()
                if not refused:
                    self._pass(ask, attempt, candidates, passed, kept)
                continue
            turns.served(turn)
            self._take(ask, attempt, choice, grant, passed)
        return limited

    def _pass(
        self,
        ask: Ask,
        attempt: RMAppAttempt,
        candidates: list[RMNode],
        passed: list[tuple[Ask, RMAppAttempt]],
        kept: set[str],
    ) -> None:
        """No node has room for it; overtaken often enough, it keeps those that could serve it."""
        passed.append((ask, attempt))
        if ask.overtaken >= MAX_OVERTAKES:
            kept.update(node.node_id for node in candidates if could_serve(ask, attempt, node))

    def _take(
        self,
        ask: Ask,
        attempt: RMAppAttempt,
        choice: tuple[RMNode, str],
        grant: Grant,
        passed: list[tuple[Ask, RMAppAttempt]],
    ) -> None:
        """Grant one container; those that waited for its node were overtaken."""
        node, location = choice
        for other, owner in passed:
            if could_serve(other, owner, node):
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


def could_serve(ask: Ask, attempt: RMAppAttempt, node: RMNode) -> bool:
    """Whether the ask could be served on that node if it were empty."""
    return ask.resource.fits_in(node.total) and admits(ask, node.place, attempt.blacklist)
