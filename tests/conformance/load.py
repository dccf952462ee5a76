"""Nodes and monitors for the cases of Hadoop's tests about load, under ``configs/yarn-rules.toml``."""

from __future__ import annotations

import random
from collections.abc import Set
from dataclasses import replace
from typing import Any

from executor.records import OpportunisticContainersStatus, Resource
from yarnopp_cli.allocation.cluster_node import ClusterNode
from yarnopp_cli.allocation.load_monitor import NodeQueueLoadMonitor
from yarnopp_cli.settings.declarations import ResourceManagerSettings
from yarnopp_cli.settings.loading import load

from .yarn_node import RULES

CAPACITY = 200
TOTAL = Resource(1024, 8)
UNIT = Resource(128, 1)


def rules() -> ResourceManagerSettings:
    """The RM's settings under YARN's rules."""
    configuration = load([str(RULES)], (), environ={"HOME": "/nonexistent"}, state_dir="/nonexistent")
    return configuration.settings(ResourceManagerSettings)


class YarnMonitor:
    """A NodeQueueLoadMonitor as Hadoop's tests make it, and the nodes h1, h2, … that it knows."""

    def __init__(self, comparator: str = "", **more: Any) -> None:
        settings = rules()
        settings = replace(settings, load_comparator=comparator or settings.load_comparator, **more)
        self.monitor = NodeQueueLoadMonitor(settings, rng=random.Random(7))
        self.nodes: dict[str, ClusterNode] = {}
        self.claimed = 0

    def update(
        self,
        number: int,
        queue: int,
        *,
        wait: int = -1,
        capacity: int = CAPACITY,
        allocated: Resource | None = None,
        total: Resource = TOTAL,
        rack: str = "/default",
    ) -> None:
        """A heartbeat of node hN, port N."""
        name = f"h{number}:{number}"
        node = self.nodes.setdefault(name, ClusterNode(name, f"h{number}", rack, (), total))
        node.total = total
        node.guaranteed = allocated or Resource()
        node.status = OpportunisticContainersStatus(
            queued=queue, wait_queue_length=queue, estimated_queue_wait_ms=wait, queue_capacity=capacity
        )
        for container_id in list(node.claims):  # a heartbeat overwrites what the allocator counted
            node.release_claim(container_id)
        node.recompute()
        self.monitor.update(node)

    def leave(self, number: int) -> None:
        """Node hN is DECOMMISSIONING, or is removed."""
        self.monitor.remove(f"h{number}:{number}")

    def compute(self) -> list[str]:
        """One run of the periodic task; the hosts in order."""
        self.monitor.compute()
        return self.hosts()

    def hosts(self) -> list[str]:
        """The hosts of the sorted list."""
        return [node.host for node in self.monitor.sorted_nodes()]

    def select(
        self, *, host: str = "", rack: str = "", blacklist: Set[str] = frozenset(), size: Resource = UNIT
    ) -> str:
        """The host that a container goes to (at ``host``, in ``rack``, or anywhere), "" for none."""

        def suitable(node: ClusterNode) -> bool:
            return node.host not in blacklist and node.host == (host or node.host) and node.rack == (
                rack or node.rack
            )  # fmt: skip

        found = self.monitor.select(size, suitable)
        if found is None:
            return ""
        self.claimed += 1
        found[0].claim(f"c{self.claimed}", found[1], size)
        self.monitor.refresh(found[0])
        return found[0].host

    @property
    def limits(self) -> tuple[int, int]:
        """The queue limit as every node is told it: length, wait."""
        limit = self.monitor.limit()
        return limit.max_queue_length, limit.max_queue_wait_time_ms
