"""The scheduler of guaranteed containers: which ask is next, and which node serves it (YARN's ``CapacityScheduler``).

Order and limits are the queues' (``queues``). It assigns containers whenever there is room, not only on heartbeats. It
only decides; the caller grants. The cost of a round depends on requests and grants, not on the number of nodes or
applications: ``NodeIndex`` finds nodes with room, queues know which applications have requests, and nodes are notified
only if containers begin or cease to wait for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable

from executor.light import replace
from executor.reasons import Reason, ReasonKind, by_rule
from executor.records import Resource

from ...allocation.asks import Ask, admits, could_serve, levels
from ...records.requests import ANY
from ..entities import RMApp, RMAppAttempt, RMNode
from .node_index import NodeIndex
from .queues import QueueTree, Turns

MAX_OVERTAKES = 100
"""The number of later asks that may be served on nodes for which an ask waits, before these nodes are kept for this
ask."""

MOST_SHAPES = 1000
"""The number of shapes of asks for which the scheduler remembers whether all nodes could serve them."""

_ENDLESS = Resource(2**63, 2**63)

NO_ROOM = Reason(ReasonKind.PROMISED)
KEPT = by_rule(
    "NODES_KEPT", "the nodes that could serve it are kept for requests that were overtaken too often"
)

Grant = Callable[[RMAppAttempt, Ask, RMNode], None]


class CapacityScheduler:
    """Cluster-wide books of guaranteed resources, and the choice of nodes.

    ``awaited`` is called when requests begin or cease to wait for room on a node, or, because of a limit, for the end
    of containers there. ``starving``: the last assignment left requests for which no node, or no queue, had room.
    """

    def __init__(
        self, queues: QueueTree[RMAppAttempt], awaited: Callable[[RMNode, bool, bool], None]
    ) -> None:
        self.queues = queues
        self._awaited = awaited
        self.index = NodeIndex()
        self.total = Resource()
        self.used = Resource()
        self.starving = False
        #: no outstanding ask is below that
        self.least = _ENDLESS
        #: nodes that were told of who waits for them
        self._told: dict[str, RMNode] = {}
        #: all usable nodes were told that somebody waits for room on them
        self._all_told = False
        self._served_by_all: dict[tuple[object, ...], bool] = {}
        #: the last assignment
        self._last: _Round | None = None

    @property
    def nodes(self) -> dict[str, RMNode]:
        """The nodes of the scheduler, by id."""
        return self.index.nodes

    @property
    def node_sizes(self) -> Counter[Resource]:
        """The number of nodes of each size."""
        return self.index.sizes

    def add_node(self, node: RMNode) -> None:
        """Add a node that has registered."""
        self.index.add(node)
        if node.load.awaited or node.guaranteed_awaited:
            self._told[node.node_id] = node
        self.total = self.total + node.total
        self.queues.resize(self.total)
        self.nodes_changed()

    def remove_node(self, node: RMNode) -> None:
        """Remove a node; its containers have been completed."""
        if self.index.remove(node):
            self._told.pop(node.node_id, None)
            self.total = self.total - node.total
            self.queues.resize(self.total)
            self.nodes_changed()

    def nodes_changed(self) -> None:
        """Nodes came, went, or changed: drop cached facts about all nodes."""
        self._all_told = False
        self._served_by_all.clear()

    def asked(self, attempt: RMAppAttempt, size: Resource | None) -> None:
        """An attempt requests guaranteed containers of this size; None if it requests no more."""
        attempt.app.leaf.asks(attempt)
        if size is not None:
            self.least = self.least.lesser(size)
        elif not self.is_asked:
            self.least = _ENDLESS

    @property
    def is_asked(self) -> bool:
        """Whether guaranteed requests are waiting."""
        return any(leaf.is_asked for leaf in self.queues.leaves.values())

    def change_used(self, app: RMApp, resource: Resource, sign: int, *, master: bool) -> None:
        """A guaranteed container of ``app`` takes (1) or gives back (-1) ``resource`` on some node."""
        self.used = self.used + resource * sign
        app.leaf.charge(app.user, resource, sign, master=master)

    def refuses(
        self, app: RMApp, need: Resource, *, master: bool = False, active: int | None = None
    ) -> Reason | None:
        """The limit of the application's queue that refuses ``need`` more resources."""
        if self.queues.plain or need == Resource():
            return None
        return app.leaf.refuses(app.user, need, master=master, active=active)

    @property
    def largest(self) -> Resource:
        """The total of the largest node, with the maximum of each further resource type; zero if there is no node."""
        largest, some = max(self.node_sizes, default=Resource()), Resource()
        for size in self.node_sizes:
            some = some.greater(size) if size.others else some
        return replace(largest, others=some.others) if some.others else largest

    def available(self) -> Resource:
        """The resources still free for guaranteed containers, over all nodes."""
        return (self.total - self.used).at_least_zero()

    def label_sets(self) -> Collection[tuple[str, ...]]:
        """The combinations of labels of the nodes, which asks may name."""
        return self.index.labels.keys()

    def assign(self, grant: Grant, nodes: Collection[RMNode] | None = None) -> None:
        """Serve requests in the order of the queues, on ``nodes`` (all by default)."""
        self.starving = False
        index = self.index
        if nodes is not None:
            index = NodeIndex()
            for node in nodes:
                index.add(node)
        self._last = found = _Round(self, index)
        if found.usable():
            found.serve(grant)
            self.starving = found.starving
        self._tell(found, index.nodes.values(), everybody=nodes is None)
        for node in nodes or ():
            index.remove(node)

    def why_not(self, attempt: RMAppAttempt, ask: Ask) -> Reason | None:
        """Why a request is not served now, by the rules of ``assign``; None if it is served when its turn comes."""
        refused = self.refuses(attempt.app, ask.resource, master=ask is attempt.am_ask)
        if refused is not None:
            return refused
        found = (self._last or _Round(self, self.index)).choose(ask, attempt.blacklist)
        return found if isinstance(found, Reason) else None

    def serves_all(self, ask: Ask, blacklist: set[str]) -> bool:
        """Whether every usable node could serve the ask if the node were empty."""
        shape = (*ask.shape()[2:], frozenset(blacklist))
        known = self._served_by_all.get(shape)
        if known is None:
            if len(self._served_by_all) >= MOST_SHAPES:
                self._served_by_all.clear()
            known = all(could_serve(ask, node.load, blacklist) for node in self.nodes.values() if node.usable)
            self._served_by_all[shape] = known
        return known

    def _tell(self, found: _Round, nodes: Iterable[RMNode], *, everybody: bool) -> None:
        """Notify nodes for which asks begin or cease to wait."""
        if everybody and not found.passed and not found.limited:
            self._all_told = False
            nodes = list(self._told.values())
        elif everybody:
            if self._all_told and found.for_all:
                return
            self._all_told = found.for_all
        for node in nodes:
            if not node.usable:
                continue
            waiting = any(could_serve(ask, node.load, blacklist) for ask, blacklist in found.passed)
            followed = waiting or found.limited
            if waiting is not node.load.awaited or followed is not node.guaranteed_awaited:
                self._awaited(node, waiting, followed)
            if followed:
                self._told[node.node_id] = node
            else:
                self._told.pop(node.node_id, None)

    def validate(self) -> None:
        """Assert that the indices agree with nodes and asks."""
        self.index.validate()
        for leaf in self.queues.leaves.values():
            leaf.validate()
            for attempt in leaf.waiting():
                assert all(self.least.fits_in(ask.resource) for ask in attempt.guaranteed_asks)
        for node in self.nodes.values():
            told = node.load.awaited or node.guaranteed_awaited
            assert not told or node.node_id in self._told, f"{node.node_id} would be awaited for ever"


def _delays(ask: Ask, waiting: Ask, node: RMNode) -> bool:
    """Whether serving ``ask`` on ``node`` takes resources for which ``waiting`` waits."""
    size = waiting.resource
    return not size.others or ask.resource.delays(size, node.total - node.used)


class _Round:
    """One assignment: each turn serves one container, as queues, users and applications take turns, within their
    limits.

    ``passed`` are asks for which no node had room, with their masters' blacklists. The nodes that could serve an ask
    that was overtaken too often are kept for it. ``limited``: a limit of a queue or user stopped an ask. ``for_all``:
    an ask that was passed over waits for every node, so the other asks need not be examined to find the nodes with
    waiting asks.
    """

    def __init__(self, scheduler: CapacityScheduler, index: NodeIndex) -> None:
        self._scheduler = scheduler
        self._index = index
        self._kept: set[str] = set()
        self._all_kept = False
        self.passed: list[tuple[Ask, set[str]]] = []
        self.limited = False
        self.starving = False
        self.for_all = False

    def usable(self) -> bool:
        """Whether any node is usable."""
        return any(node.usable for node in self._index.nodes.values())

    def serve(self, grant: Grant) -> None:
        """Serve the asks until each was served or passed over, or no node has room for another container."""
        scheduler, plain = self._scheduler, self._scheduler.queues.plain
        turns = Turns(scheduler.queues)
        while (turn := turns.next()) is not None:
            attempt, ask = turn.attempt, turn.ask
            master = ask is attempt.am_ask
            refused = scheduler.refuses(attempt.app, ask.resource, master=master, active=turn.active)
            if refused is not None:
                self.limited = self.limited or refused.kind is not ReasonKind.MASTERS_LIMIT
                if refused.kind is ReasonKind.QUEUE_MAXIMUM:
                    self.starving = True
                    turns.limited(turn, MAX_OVERTAKES)
                else:
                    turn.pass_over()
            elif isinstance(choice := self.choose(ask, attempt.blacklist), Reason):
                turn.pass_over()
                self._pass(ask, attempt.blacklist)
                full = self._all_kept or not self._index.has_room(scheduler.least)
                if plain and self.for_all and full:
                    return  # All other asks are passed over as well, and overtaken by none.
            else:
                turns.served(turn)
                node, location = choice
                for other, blacklist in self.passed:
                    if could_serve(other, node.load, blacklist) and _delays(ask, other, node):
                        other.overtaken += 1
                grant(attempt, ask, node)
                attempt.guaranteed_asks.take(ask, location)

    def _pass(self, ask: Ask, blacklist: set[str]) -> None:
        """Pass over an ask for which no node has room. If it was overtaken often enough, the nodes that could serve it
        are kept for it."""
        self.starving = True
        self.passed.append((ask, blacklist))
        any_node = self._scheduler.serves_all(ask, blacklist)
        self.for_all = self.for_all or any_node
        if ask.overtaken >= MAX_OVERTAKES and any_node:
            self._all_kept = True
        elif ask.overtaken >= MAX_OVERTAKES:
            self._kept.update(
                node.node_id
                for node in self._index.nodes.values()
                if node.usable and could_serve(ask, node.load, blacklist)
            )

    def choose(self, ask: Ask, blacklist: set[str]) -> tuple[RMNode, str] | Reason:
        """A node with room, at the nearest level that has one, and the location that counts as served; else the reason
        why no node was found."""
        if self._all_kept:
            return KEPT
        for level in levels(ask):
            for location in level:
                anywhere, rack = location == ANY, location.startswith("/")

                def suitable(node: RMNode, location: str = location, anywhere: bool = anywhere) -> bool:
                    return (
                        node.usable
                        and node.node_id not in self._kept
                        and (anywhere or node.load.names(location))
                        and admits(ask, node.load, blacklist)
                    )

                named = None if anywhere or rack else location
                if (node := self._index.best(ask.resource, suitable, named)) is not None:
                    return node, location
        return KEPT if self._kept else NO_ROOM
