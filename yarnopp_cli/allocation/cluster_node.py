"""One node's load, for allocators: its last report, and later allocations.

Independent of other nodes.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from executor.records import OpportunisticContainersStatus, Resource

_NOTHING = Resource()
_NO_STATUS = OpportunisticContainersStatus()


class Claim(enum.Enum):
    """What an opportunistic container uses at its node: free resources, or a place in the queue."""

    FREE = "FREE"
    QUEUE = "QUEUE"


@dataclass(slots=True, eq=False)
class ClusterNode:
    """One node's load (YARN's ``ClusterNode``). Memory in MiB.

    ``guaranteed`` is what the scheduler has allocated here. ``claims`` are the unreported opportunistic
    containers. ``…_others`` are of countable resources alone. ``awaited``: a guaranteed container waits for
    resources here. The free resources and the queue length are derived from the other fields; ``recompute``
    updates them, and enters the node in the ``changed`` dictionaries of its watchers.
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
    claimed_others: Resource = _NOTHING
    free_others: Resource = _NOTHING
    watchers: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.recompute()

    def recompute(self) -> None:
        """Compute the free resources and the queue length, including unreported allocations."""
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
        if total.others:
            used = Resource(0, 0, status.others_used)
            held = (self.guaranteed + used + self.claimed_others).only_others
            self.free_others = (total.only_others - held).at_least_zero()
        else:
            self.free_others = _NOTHING
        for changed in self.watchers:
            changed[self.node_id] = None

    def watch(self, changed: dict[str, Any]) -> None:
        """Enter the node in ``changed`` whenever its room may have changed."""
        if not any(known is changed for known in self.watchers):
            self.watchers.append(changed)

    def unwatch(self, changed: dict[str, Any]) -> None:
        """Stop entering the node in ``changed``."""
        self.watchers = [known for known in self.watchers if known is not changed]

    def names(self, location: str) -> bool:
        """Whether ``location`` (host, node id or rack) means this node."""
        return location in (self.node_id, self.host, self.rack)

    def fits_free(self, resource: Resource) -> bool:
        """Whether the node has this much free."""
        return (
            resource.memory <= self.free_memory
            and resource.vcores <= self.free_vcores
            and (not resource.others or resource.only_others.fits_in(self.free_others))
        )

    @property
    def free(self) -> Resource:
        """The free resources."""
        return Resource(self.free_memory, self.free_vcores, self.free_others.others)

    def claim(self, container_id: str, claim: Claim, resource: Resource) -> None:
        """Count an opportunistic container that was allocated here, until the node reports it."""
        self.claims[container_id] = (claim, resource)
        self._count(claim, resource, 1)

    def release_claim(self, container_id: str) -> None:
        """Drop the claim: the node has reported the container, or it will never arrive."""
        if (entry := self.claims.pop(container_id, None)) is not None:
            self._count(*entry, -1)

    def _count(self, claim: Claim, resource: Resource, sign: int) -> None:
        if claim is Claim.FREE:
            self.claimed_memory += sign * resource.memory
            self.claimed_vcores += sign * resource.vcores
            if resource.others:
                self.claimed_others = self.claimed_others + resource.only_others * sign
        else:
            self.claimed_queue += sign
        self.recompute()
