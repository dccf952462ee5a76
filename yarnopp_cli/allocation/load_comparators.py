"""Policies that compare nodes and decide what a node may still accept; a property chooses one.

``FREE_THEN_QUEUE_LENGTH`` is yopp's own. The others compute exactly what YARN's
``NodeQueueLoadMonitor.LoadComparator`` and ``ClusterNode.compareAndIncrementAllocation`` do.
"""

from __future__ import annotations

from typing import ClassVar

from executor.reasons import Reason, ReasonKind
from executor.records import Resource

from .cluster_node import Claim, ClusterNode

FULL = Reason(ReasonKind.QUEUES_FULL)
OFF = Reason(ReasonKind.QUEUES_OFF)
CLOSED = Reason(ReasonKind.QUEUES_CLOSED)


def no_place(node: ClusterNode) -> Reason:
    """The reason that a node has no place in its queue."""
    return FULL if node.status.queue_capacity > 0 else OFF


class LoadComparator:
    """The interface of all load comparators.

    ``by_wait``: load is measured in milliseconds of waiting instead of containers queued. ``takes_first``: a
    container goes to the first of the least loaded nodes that accepts it, beginning anywhere among them, as
    in YARN; otherwise to the best of them. ``by_cluster``: the order depends on the total resources of the
    cluster.
    """

    by_wait: ClassVar[bool] = False
    by_cluster: ClassVar[bool] = False
    takes_first: ClassVar[bool] = True

    def order(self, node: ClusterNode, cluster: Resource) -> tuple[float, ...]:
        """The sort key of a node: the least loaded has the smallest. ``cluster`` is the sum of all nodes."""
        raise NotImplementedError

    def known(self, node: ClusterNode) -> bool:
        """Whether enough is known about the node to compare it."""
        return True

    def roomy(self, node: ClusterNode) -> bool:
        """Whether the node could accept any container."""
        raise NotImplementedError

    def fit(self, node: ClusterNode, resource: Resource) -> Claim | Reason:
        """The claim of a container of that size on the node, else the reason why it does not fit."""
        raise NotImplementedError


class FreeThenQueueLength(LoadComparator):
    """yopp's own: first the node with most free, then the shortest queue, then the latest report.

    A container that fits into free resources needs no place in the queue; other containers do. No container is queued
    on a node where a guaranteed one waits: it would start between two guaranteed containers, and be killed for the
    second.
    """

    takes_first: ClassVar[bool] = False

    def order(self, node: ClusterNode, cluster: Resource) -> tuple[float, ...]:
        """Most free first, then the shortest queue, then the latest report."""
        return (-node.free_share, node.queue_length, -node.updated)

    def roomy(self, node: ClusterNode) -> bool:
        """Whether anything is free, or the queue has a place."""
        return (node.queue_room > 0 and not node.awaited) or node.free_memory > 0

    def fit(self, node: ClusterNode, resource: Resource) -> Claim | Reason:
        """Free resources if they suffice, else a place in the queue if there is one."""
        if node.fits_free(resource):
            return Claim.FREE
        if node.awaited:
            return CLOSED
        return Claim.QUEUE if node.queue_room > 0 and resource.fits_in(node.total) else no_place(node)


class QueueLength(LoadComparator):
    """YARN's QUEUE_LENGTH: compares the queue length alone; each allocation takes a place in the queue."""

    def order(self, node: ClusterNode, cluster: Resource) -> tuple[float, ...]:
        """The shortest queue first, then the latest report."""
        return (node.queue_length, -node.updated)

    def roomy(self, node: ClusterNode) -> bool:
        """Whether the queue has a place; a queue without capacity is never full, as in YARN."""
        capacity = node.status.queue_capacity
        return capacity <= 0 or node.queue_length < capacity

    def fit(self, node: ClusterNode, resource: Resource) -> Claim | Reason:
        """A place in the queue, regardless of free resources."""
        return Claim.QUEUE if node.queue_length + 1 <= node.status.queue_capacity else no_place(node)


class QueueWaitTime(QueueLength):
    """YARN's QUEUE_WAIT_TIME: compares the waiting times that the nodes estimate; a node without an estimate
    is left out.

    A node in the list accepts every container.
    """

    by_wait: ClassVar[bool] = True

    def order(self, node: ClusterNode, cluster: Resource) -> tuple[float, ...]:
        """The shortest wait first, then the latest report."""
        return (node.status.estimated_queue_wait_ms, -node.updated)

    def known(self, node: ClusterNode) -> bool:
        """Whether the node has an estimate."""
        return node.status.estimated_queue_wait_ms >= 0

    def fit(self, node: ClusterNode, resource: Resource) -> Claim | Reason:
        """Always a place in the queue."""
        return Claim.QUEUE


class QueueLengthThenResources(QueueLength):
    """YARN's QUEUE_LENGTH_THEN_RESOURCES (YARN-11005): of equal queues the one with more resources free."""

    by_cluster: ClassVar[bool] = True

    def order(self, node: ClusterNode, cluster: Resource) -> tuple[float, ...]:
        """The shortest queue; then the larger free share of the cluster, in the scarcer dimension; then more
        vcores, more memory, the latest report.
        """
        share = 0.0
        if cluster.memory > 0 and cluster.vcores > 0:
            share = min(node.free_memory / cluster.memory, node.free_vcores / cluster.vcores)
        return (node.queue_length, -share, -node.free_vcores, -node.free_memory, -node.updated)

    def roomy(self, node: ClusterNode) -> bool:
        """Whether the queue has a place; a queue without capacity has one while nothing waits."""
        return node.queue_length < max(node.status.queue_capacity, 1)

    def fit(self, node: ClusterNode, resource: Resource) -> Claim | Reason:
        """Free resources if they suffice, else a place in the queue of a node that could ever hold it."""
        if node.fits_free(resource):
            return Claim.FREE
        return super().fit(node, resource) if resource.fits_in(node.total) else no_place(node)


COMPARATORS: dict[str, LoadComparator] = {
    "FREE_THEN_QUEUE_LENGTH": FreeThenQueueLength(),
    "QUEUE_LENGTH": QueueLength(),
    "QUEUE_WAIT_TIME": QueueWaitTime(),
    "QUEUE_LENGTH_THEN_RESOURCES": QueueLengthThenResources(),
}
"""The comparators by the values of ``yarn.resourcemanager.nm-container-queuing.load-comparator``."""
