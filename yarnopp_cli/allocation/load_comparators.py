"""How nodes are compared, and what a node may still take: policies of one shape; a property chooses one.

``FREE_THEN_QUEUE_LENGTH`` is ours. The others are YARN's ``NodeQueueLoadMonitor.LoadComparator`` and
``ClusterNode.compareAndIncrementAllocation`` to the digit.
"""

from __future__ import annotations

from typing import ClassVar

from executor.records import Resource

from .cluster_node import Claim, ClusterNode


class LoadComparator:
    """The shape of all of them.

    ``by_wait``: load is measured in milliseconds of waiting instead of containers queued. ``takes_first``: a
    container goes to the first of the least loaded nodes that takes it, beginning anywhere among them, as in
    YARN; otherwise to the best of them. ``by_cluster``: the order depends on what all nodes have together.
    """

    by_wait: ClassVar[bool] = False
    by_cluster: ClassVar[bool] = False
    takes_first: ClassVar[bool] = True

    def order(self, node: ClusterNode, cluster: Resource) -> tuple[float, ...]:
        """The sort key of a node: the least loaded has the smallest. ``cluster`` is the sum of all nodes."""
        raise NotImplementedError

    def known(self, node: ClusterNode) -> bool:
        """Whether enough is known of the node to compare it at all."""
        return True

    def roomy(self, node: ClusterNode) -> bool:
        """Whether the node could take any container at all."""
        raise NotImplementedError

    def fit(self, node: ClusterNode, resource: Resource) -> Claim | None:
        """The place for a container of that size there; None if there is none."""
        raise NotImplementedError


class FreeThenQueueLength(LoadComparator):
    """Ours: first where most is free, then where the queue is shortest, then the most recently heard of.

    A container that fits into free resources needs no place in the queue; others need one. No container is queued
    where a guaranteed one waits: it would start between two guaranteed ones, and be killed for the second.
    """

    takes_first: ClassVar[bool] = False

    def order(self, node: ClusterNode, cluster: Resource) -> tuple[float, ...]:
        """Most free first, then the shortest queue, then the latest news."""
        return (-node.free_share, node.queue_length, -node.updated)

    def roomy(self, node: ClusterNode) -> bool:
        """Whether anything is free, or the queue has a place."""
        return (node.queue_room > 0 and not node.awaited) or node.free_memory > 0

    def fit(self, node: ClusterNode, resource: Resource) -> Claim | None:
        """Free resources if they suffice, else a place in the queue if there is one."""
        if node.fits_free(resource):
            return Claim.FREE
        room = node.queue_room > 0 and not node.awaited and resource.fits_in(node.total)
        return Claim.QUEUE if room else None


class QueueLength(LoadComparator):
    """YARN's QUEUE_LENGTH: the queue's length and nothing else; each allocation takes a place in it."""

    def order(self, node: ClusterNode, cluster: Resource) -> tuple[float, ...]:
        """The shortest queue first, then the latest news."""
        return (node.queue_length, -node.updated)

    def roomy(self, node: ClusterNode) -> bool:
        """Whether the queue has a place; one of no capacity is never full, as in YARN."""
        capacity = node.status.queue_capacity
        return capacity <= 0 or node.queue_length < capacity

    def fit(self, node: ClusterNode, resource: Resource) -> Claim | None:
        """A place in the queue, whatever is free."""
        return Claim.QUEUE if node.queue_length + 1 <= node.status.queue_capacity else None


class QueueWaitTime(QueueLength):
    """YARN's QUEUE_WAIT_TIME: the waiting time that the node estimates; of which none is known is left out.

    A node in the list takes whatever comes.
    """

    by_wait: ClassVar[bool] = True

    def order(self, node: ClusterNode, cluster: Resource) -> tuple[float, ...]:
        """The shortest wait first, then the latest news."""
        return (node.status.estimated_queue_wait_ms, -node.updated)

    def known(self, node: ClusterNode) -> bool:
        """Whether it has an estimate."""
        return node.status.estimated_queue_wait_ms >= 0

    def fit(self, node: ClusterNode, resource: Resource) -> Claim | None:
        """Always a place in the queue."""
        return Claim.QUEUE


class QueueLengthThenResources(QueueLength):
    """YARN's QUEUE_LENGTH_THEN_RESOURCES (YARN-11005): of equal queues the one with more resources free."""

    by_cluster: ClassVar[bool] = True

    def order(self, node: ClusterNode, cluster: Resource) -> tuple[float, ...]:
        """The shortest queue; the larger share of the cluster free, in the dimension that is scarcer; more
        vcores, more memory, the latest news."""
        share = 0.0
        if cluster.memory > 0 and cluster.vcores > 0:
            share = min(node.free_memory / cluster.memory, node.free_vcores / cluster.vcores)
        return (node.queue_length, -share, -node.free_vcores, -node.free_memory, -node.updated)

    def roomy(self, node: ClusterNode) -> bool:
        """Whether the queue has a place; one of no capacity has room while nothing waits."""
        return node.queue_length < max(node.status.queue_capacity, 1)

    def fit(self, node: ClusterNode, resource: Resource) -> Claim | None:
        """Free resources if they suffice, else a place in the queue of a node that could ever hold it."""
        if node.fits_free(resource):
            return Claim.FREE
        return super().fit(node, resource) if resource.fits_in(node.total) else None


COMPARATORS: dict[str, LoadComparator] = {
    "FREE_THEN_QUEUE_LENGTH": FreeThenQueueLength(),
    "QUEUE_LENGTH": QueueLength(),
    "QUEUE_WAIT_TIME": QueueWaitTime(),
    "QUEUE_LENGTH_THEN_RESOURCES": QueueLengthThenResources(),
}
"""By the values of ``yarn.resourcemanager.nm-container-queuing.load-comparator``."""
