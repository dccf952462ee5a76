"""Counters of opportunistic containers (YARN's ``OpportunisticSchedulerMetrics``). Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from executor.records import Resource

from ..allocation.cluster_node import ClusterNode
from ..records.requests import ANY
from ..records.scheduler_protocol import PERCENTILES, GetSchedulerFiguresResponse

SAMPLES = 1000
"""The number of recent waiting times kept for percentiles."""
MAX_ASKS = 20_000
"""The number of requests kept with their times; the oldest are dropped."""


class PerSecond:
    """Counts the occurrences in the last whole second."""

    def __init__(self) -> None:
        self._second = -1
        self._number = 0
        self._before = 0

    def count(self, now: float) -> None:
        """Count one occurrence at ``now`` (seconds, monotonic)."""
        self._turn(now)
        self._number += 1

    def last(self, now: float) -> int:
        """The count of the second before the second of ``now``."""
        self._turn(now)
        return self._before

    def _turn(self, now: float) -> None:
        if int(now) != self._second:
            self._before = self._number if int(now) == self._second + 1 else 0
            self._second, self._number = int(now), 0


class OpportunisticSchedulerMetrics:
    """Counts since the RM's start. Waiting times are from an ask's arrival to each allocation, in milliseconds."""

    def __init__(self) -> None:
        self.allocated = 0
        self.released = 0
        self.node_local = 0
        self.rack_local = 0
        self.off_switch = 0
        self._asked_at: dict[tuple[str, object], float] = {}
        self._waits: deque[int] = deque(maxlen=SAMPLES)
        self.waits = 0
        self.waited_ms = 0

    def asked(self, attempt_id: str, key: object, now: float) -> None:
        """An ask has arrived; the time of its first arrival counts until the ask is forgotten."""
        if len(self._asked_at) >= MAX_ASKS:
            del self._asked_at[next(iter(self._asked_at))]
        self._asked_at.setdefault((attempt_id, key), now)

    def granted(
        self,
        attempt_id: str,
        key: object,
        locations: Mapping[str, int],
        node: ClusterNode,
        outstanding: int,
        now: float,
    ) -> None:
        """One container was allocated; ``outstanding`` includes it, ``locations`` are the places that the ask names."""
        self.allocated += 1
        self._count_level(locations, node)
        asked_at = self._asked_at.get((attempt_id, key))
        if outstanding <= 1:
            self._asked_at.pop((attempt_id, key), None)
        if asked_at is not None:
            self.waits += 1
            waited = round((now - asked_at) * 1000)
            self.waited_ms += waited
            self._waits.append(waited)

    def adopted(self) -> None:
        """A node's DistributedScheduler has allocated a container."""
        self.allocated += 1
        self.node_local += 1

    def ended(self) -> None:
        """A container was released, or has ended."""
        self.released += 1

    def figures(self, pending: Resource, assigned_per_second: int) -> GetSchedulerFiguresResponse:
        """All counters, with the counters of other modules. Percentiles are of the recent waiting times; 0 if there
        are none."""
        ordered = sorted(self._waits)
        last = len(ordered) - 1
        return GetSchedulerFiguresResponse(
            pending,
            self.allocated,
            self.released,
            self.node_local,
            self.rack_local,
            self.off_switch,
            self.waits,
            PERCENTILES,
            tuple(ordered[min(last, len(ordered) * one // 100)] if ordered else 0 for one in PERCENTILES),
            self.waited_ms,
            assigned_per_second,
        )

    def _count_level(self, locations: Iterable[str], node: ClusterNode) -> None:
        named = [one for one in locations if one != ANY and node.names(one)]
        if any(not one.startswith("/") for one in named):
            self.node_local += 1
        elif named:
            self.rack_local += 1
        else:
            self.off_switch += 1
