"""How long the queues of nodes should be, and which nodes give up containers that others can start sooner.

YARN's ``QueueLimitCalculator``, with a plan of moves: YARN sends every node the same limit, even if no node has room
for the shed containers. Here a node sheds only as many containers as other nodes have room for. Pure arithmetic on
loads; the node chooses which containers it sheds, and the allocator where they go.

Decisions: shedding-moves-work.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from executor.light import replace
from executor.records import ContainerQueuingLimit, Resource

from ..settings.declarations import ResourceManagerSettings
from .cluster_node import ClusterNode

LEAST_EXCESS = 2
"""The excess over the limit at which a node begins to shed: moving a single container gains one place, and the
container might be moved back a moment later.
"""


MayMove = Callable[[ClusterNode, ClusterNode], bool]


@dataclass(frozen=True, slots=True)
class LimitBounds:
    """``sigma`` standard deviations beyond the mean, but between ``minimum`` and ``maximum``: containers, or
    milliseconds of waiting."""

    sigma: float
    minimum: int
    maximum: int

    def clamp(self, value: float) -> float:
        """``value`` within the bounds; where they contradict each other the maximum holds, as in YARN."""
        return min(self.maximum, max(self.minimum, value))


def queue_threshold(loads: Sequence[int], bounds: LimitBounds) -> float:
    """Mean plus ``sigma`` standard deviations (of the population), in floats; clamped. The minimum if there
    are no loads.

    Yarn-gaps G7: YARN truncates the mean and leaves full nodes out.
    """
    if not loads:
        return bounds.clamp(0)
    mean = sum(loads) / len(loads)
    deviation = math.sqrt(sum((load - mean) ** 2 for load in loads) / len(loads))
    return bounds.clamp(mean + bounds.sigma * deviation)


def yarn_queue_threshold(loads: Sequence[int], bounds: LimitBounds) -> float:
    """Exactly YARN's computation: integer mean, deviation from it rounded half up to an integer, sum
    truncated.
    """
    if not loads:
        return bounds.clamp(0)
    mean = sum(loads) // len(loads)
    deviation = math.floor(math.sqrt(sum((load - mean) ** 2 for load in loads) / len(loads)) + 0.5)
    return bounds.clamp(int(mean + bounds.sigma * deviation))


class _Side:
    """A node as it would be after the moves planned so far.

    ``load``, and ``step``, which one container adds to it, are in containers, or in milliseconds where loads
    are waits. ``typical`` is the mean size of the containers queued there, rounded up, at least 1 MiB.
    """

    def __init__(self, node: ClusterNode, load: float, *, by_wait: bool) -> None:
        status, queued = node.status, max(node.status.queued, 1)
        self.node = node
        self.load = load
        self.step = load / (node.queue_length + 1) if by_wait else 1.0
        self.wait_ms = status.estimated_queue_wait_ms
        self.free = node.free
        self.queue_room = node.queue_room
        self.typical = Resource(
            max(1, -(-status.queued_memory // queued)),
            -(-status.queued_vcores // queued),
            tuple(replace(one, value=-(-one.value // queued)) for one in status.queued_others),
        )

    def starts_at_once(self, giver: _Side) -> bool:
        """Whether one more of ``giver``'s containers would start here at once."""
        return self.node is not giver.node and giver.typical.fits_in(self.free)

    def take_from(self, giver: _Side) -> None:
        """Count one of ``giver``'s containers as moved here."""
        giver.load -= giver.step
        if giver.typical.fits_in(self.free):
            self.free = self.free - giver.typical
        else:
            self.load += self.step or giver.step
            self.queue_room -= 1


@dataclass(frozen=True, slots=True)
class _Shed:
    """A node sheds ``count`` containers, so that ``kept`` stay; none below ``bound``."""

    count: int
    kept: int
    bound: float


class Rebalancer:
    """Mean and deviation of the loads, the resulting limit, and how many containers each node sheds.

    ``by_wait``: loads are estimated waiting times instead of queue lengths. ``tells_all``: every node is
    always told the limit (YARN). As takers, only as many of the least loaded nodes are considered as are
    allocated to.
    """

    def __init__(self, settings: ResourceManagerSettings, may_move: MayMove, *, by_wait: bool) -> None:
        lengths = (settings.min_queue_length, settings.max_queue_length)
        waits = (settings.min_queue_wait_time_ms, settings.max_queue_wait_time_ms)
        self._bounds = LimitBounds(settings.queue_limit_stdev, *(waits if by_wait else lengths))
        self._may_move = may_move
        self._by_wait = by_wait
        self._width = settings.nodes_used
        self.tells_all = settings.limit_policy == "YARN"
        self._threshold = self._bounds.clamp(0)
        self._sheds: dict[str, _Shed] = {}
        self._in_flight = 0

    def compute(self, nodes: Iterable[ClusterNode], roomy: Iterable[ClusterNode]) -> None:
        """Compute the limit from the loads of all ``nodes`` (YARN: of the ``roomy`` ones), and make a new
        plan.

        Containers shed since the last time may still be under way, and count as used room.
        """
        roomy = list(roomy)
        if self.tells_all:
            if roomy:  # else the old limit stays, as in YARN
                self._threshold = yarn_queue_threshold([self._load(node) for node in roomy], self._bounds)
            return
        known = [node for node in nodes if not self._by_wait or node.status.estimated_queue_wait_ms >= 0]
        self._threshold = queue_threshold([self._load(node) for node in known], self._bounds)
        self._sheds = self._plan(known, roomy)
        self._in_flight = 0

    def limit(self) -> ContainerQueuingLimit:
        """The limit for queues, from the distribution of their loads."""
        limit = int(self._threshold)
        if self._by_wait:
            return ContainerQueuingLimit(max_queue_wait_time_ms=limit)
        return ContainerQueuingLimit(max_queue_length=limit)

    @property
    def shedding(self) -> tuple[str, ...]:
        """The nodes that must shed and have not been notified."""
        return tuple(self._sheds)

    def tell(self, node: ClusterNode) -> ContainerQueuingLimit:
        """The limit for that node's heartbeat answer: once for each plan, so that containers that arrive
        afterwards are not shed for the same reason; with YARN's policy, the limit every time.
        """
        if self.tells_all:
            return self.limit()
        shed = self._sheds.pop(node.node_id, None)
        if shed is None:
            return ContainerQueuingLimit()
        self._in_flight += shed.count
        kept = max(shed.kept, node.status.queued - shed.count)
        if self._by_wait:
            return ContainerQueuingLimit(kept, int(shed.bound))
        return ContainerQueuingLimit(kept)

    def forget(self, node_id: str) -> None:
        """Remove that node."""
        self._sheds.pop(node_id, None)

    def _load(self, node: ClusterNode) -> int:
        return node.status.estimated_queue_wait_ms if self._by_wait else node.queue_length

    def _plan(self, nodes: Sequence[ClusterNode], roomy: Sequence[ClusterNode]) -> dict[str, _Shed]:
        """The number of containers that each node is to shed.

        First, containers that start at once elsewhere, down to the minimum: no node stays idle while others have
        queues. Then containers beyond the threshold, if another node starts them sooner.
        """
        minimum = self._bounds.minimum
        givers = sorted(
            (self._side(node) for node in nodes if self._beyond(node, minimum) > 0),
            key=lambda side: -side.load,
        )
        if not givers:
            return {}
        all_takers = self._takers(roomy)
        for _ in range(self._in_flight):
            if (taker := _idle(givers[0], all_takers) or self._taker(givers[0], all_takers)) is None:
                break
            taker.take_from(givers[0])
        plan: dict[str, _Shed] = {}
        for giver in givers:
            count = 0
            takers = [
                one
                for one in all_takers
                if one.node is not giver.node and self._may_move(giver.node, one.node)
            ]
            while count < self._beyond(giver.node, minimum) and (taker := _idle(giver, takers)) is not None:
                taker.take_from(giver)
                count += 1
            bound = minimum if count else self._threshold
            excess = self._beyond(giver.node, self._threshold)
            if excess - count >= LEAST_EXCESS:
                while count < excess and (taker := self._taker(giver, takers)) is not None:
                    taker.take_from(giver)
                    count += 1
            if count:
                plan[giver.node.node_id] = _Shed(count, giver.node.status.queued - count, bound)
        return plan

    def _takers(self, roomy: Sequence[ClusterNode]) -> list[_Side]:
        """The least loaded nodes below the threshold."""
        below = (
            node
            for node in roomy
            if not node.awaited and (self._load(node) < self._threshold or node.free_share > 0)
        )
        least = heapq.nsmallest(
            self._width, below, key=lambda node: (-node.free_share, self._load(node), node.node_id)
        )
        return [self._side(node) for node in least]

    def _side(self, node: ClusterNode) -> _Side:
        return _Side(node, self._load(node), by_wait=self._by_wait)

    def _beyond(self, node: ClusterNode, bound: float) -> int:
        """How many of the containers queued there are beyond ``bound``."""
        queued = node.status.queued
        if not self._by_wait:
            return min(queued, node.queue_length - int(bound))
        wait = node.status.estimated_queue_wait_ms
        return 0 if wait <= bound else queued - int(queued * bound / wait)

    def _taker(self, giver: _Side, takers: Sequence[_Side]) -> _Side | None:
        """The least loaded node that can take one more of ``giver``'s containers, starts it sooner, and does
        not exceed the threshold.
        """
        best: _Side | None = None
        for taker in takers:
            if (
                taker.node is giver.node or taker.queue_room <= 0
            ):  # the giver is among the takers while containers under way are counted
                continue
            load = taker.load + (taker.step or giver.step)
            sooner = load < giver.load and not 0 <= giver.wait_ms <= taker.wait_ms
            if sooner and load <= self._threshold and (best is None or taker.load < best.load):
                best = taker
        return best


def _idle(giver: _Side, takers: Sequence[_Side]) -> _Side | None:
    """The node that starts one more of ``giver``'s containers at once."""
    return next((one for one in takers if one.starts_at_once(giver)), None)
