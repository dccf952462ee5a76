"""A node, and a cluster, at one moment: the input of every explanation and forecast, and of ``yopp top``.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from executor.light import Record, replace
from executor.records import ContainerState, ExecutionType, Resource

from ..records.explanation import Holders
from ..records.reports import ApplicationReport, ClusterInfo, ContainerReport, NodeReport, NodeState
from ..records.tracker_protocol import NodeAnswer

RUNS = (ContainerState.RUNNING, ContainerState.LAUNCHING, ContainerState.PAUSING, ContainerState.KILLING)
PAUSED = (ContainerState.PAUSED, ContainerState.RESUMING)


def begun(report: ContainerReport) -> int:
    """When a container began to hold its resources."""
    return report.resumed_at_ms or report.started_at_ms or report.queued_at_ms or report.allocated_at_ms


def holders_of(reports: Sequence[ContainerReport]) -> Holders:
    """The record of containers that hold what another one needs."""
    if not reports:
        return Holders()
    oldest = min(reports, key=begun)
    guaranteed = sum(one.execution_type is ExecutionType.GUARANTEED for one in reports)
    return Holders(guaranteed, len(reports) - guaranteed, oldest.container_id, begun(oldest))


def unpromised(node: NodeReport) -> Resource:
    """The resources that a node has not promised to guaranteed containers."""
    return (node.total - node.used).at_least_zero()


def can_promise(node: NodeReport, size: Resource) -> bool:
    """Whether a node could promise a container its resources now."""
    return node.state is NodeState.RUNNING and size.fits_in(unpromised(node))


def queue_limit(node: NodeReport) -> int:
    """How many opportunistic containers may wait at a node: its queue capacity, or less if the RM sets a
    lower limit.
    """
    capacity, limit = node.opportunistic.queue_capacity, node.queue_limit
    return min(capacity, limit) if limit >= 0 else capacity


@dataclass(frozen=True)
class NodeSnapshot:
    """A node and its live containers, as the ResourceManager knows them, with what the node itself says of those that
    wait: its ``answer``, None if it has not answered. ``finished`` are ended containers of all nodes.
    """

    node: NodeReport
    live: Sequence[ContainerReport]
    finished: Sequence[ContainerReport] = ()
    answer: NodeAnswer | None = None

    @cached_property
    def running(self) -> list[ContainerReport]:
        """The containers that hold vcores and memory now, the oldest first."""
        return sorted((one for one in self.live if one.state in RUNS), key=begun)

    @cached_property
    def paused(self) -> list[ContainerReport]:
        """The paused containers; those first that the node has spoken of."""
        return sorted((one for one in self.live if one.state in PAUSED), key=lambda one: not one.why)

    @cached_property
    def queued(self) -> list[ContainerReport]:
        """The queued containers: the first in order, of which the node has spoken, then the others by arrival."""
        return sorted(
            (one for one in self.live if one.state is ContainerState.SCHEDULED),
            key=lambda one: (
                one.position or 1 << 30,
                one.execution_type is ExecutionType.OPPORTUNISTIC,
                one.waiting_since_ms or one.queued_at_ms,
                one.container_id,
            ),
        )

    @property
    def waiting(self) -> int:
        """How many containers wait there, as the node itself says, else as the ResourceManager knows."""
        return self.answer.waiting if self.answer is not None else len(self.queued)

    @cached_property
    def free(self) -> Resource:
        """The resources that no container holds. A paused container keeps all but its vcores."""
        kept = sum((replace(one.resource, vcores=0) for one in self.paused), Resource())
        return (
            self.node.total - sum((one.resource for one in self.running), Resource()) - kept
        ).at_least_zero()

    @property
    def free_for_opportunistic(self) -> Resource:
        """The resources that an opportunistic container could start on: the node may lend more than is free, or leave
        some of it to the rest of the machine."""
        status = self.node.opportunistic
        return (self.free + Resource(status.lent_memory, status.lent_vcores)).at_least_zero()

    @property
    def pressed(self) -> bool:
        """Whether opportunistic containers may not use all unallocated resources: the machine is too busy, or
        their window is closed.
        """
        status = self.node.opportunistic
        return status.host_is_busy or status.closed_until_ms > 0


def snapshots(nodes: Iterable[NodeReport], containers: Iterable[ContainerReport]) -> dict[str, NodeSnapshot]:
    """The snapshot of each node by its id, from all containers, including ended ones."""
    live: dict[str, list[ContainerReport]] = {}
    finished = []
    for one in containers:
        if one.state is ContainerState.DONE:
            finished.append(one)
        else:
            live.setdefault(one.node_id, []).append(one)
    return {one.node_id: NodeSnapshot(one, live.get(one.node_id, ()), finished) for one in nodes}


class HostFacts(Record):
    """The machine itself. ``cpu_percent`` of all ``cores``; memory in bytes; ``psi_*`` the kernel's pressure
    stall figures, in percent of the last ten seconds (``some avg10``), -1 where the kernel provides none.
    """

    cpu_percent: float = 0.0
    cores: int = 1
    memory_used: int = 0
    memory_total: int = 0
    psi_cpu: float = -1.0
    psi_memory: float = -1.0


@dataclass(frozen=True)
class Picture:
    """The cluster at ``taken_at_ms``, the epoch time that all ages in it are counted to.

    ``gives_way``, for a question about promotion: "pause" or "kill" for each container that would make room,
    as its node decides.
    """

    taken_at_ms: int
    info: ClusterInfo
    nodes: tuple[NodeReport, ...] = ()
    containers: tuple[ContainerReport, ...] = ()
    applications: tuple[ApplicationReport, ...] = ()
    host: HostFacts = field(default_factory=HostFacts)
    gives_way: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def snapshots(self) -> dict[str, NodeSnapshot]:
        """The snapshot of each node by its id."""
        return snapshots(self.nodes, self.containers)

    def node(self, node_id: str) -> NodeReport | None:
        """The node of that id."""
        return next((node for node in self.nodes if node.node_id == node_id), None)

    def container(self, container_id: str) -> ContainerReport | None:
        """The container of that id."""
        return next((one for one in self.containers if one.container_id == container_id), None)

    def application(self, application_id: str) -> ApplicationReport | None:
        """The application of that id."""
        return next((one for one in self.applications if one.application_id == application_id), None)
