"""A snapshot of a cluster: everything that a screen of ``yopp top`` shows, as it was at one moment. Pure data."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from ..explain.snapshot import NodeSnapshot, snapshots
from ..records.reports import ApplicationReport, ClusterInfo, ContainerReport, NodeReport


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The machine itself. ``cpu_percent`` of all ``cores``; memory in bytes; ``psi_*`` the kernel's pressure
    stall figures, in percent of the last ten seconds (``some avg10``), -1 where the kernel tells none.
    """

    cpu_percent: float = 0.0
    cores: int = 1
    memory_used: int = 0
    memory_total: int = 0
    psi_cpu: float = -1.0
    psi_memory: float = -1.0


@dataclass(frozen=True)
class Picture:
    """``taken_at_ms`` is the epoch time that all ages in it are counted to."""

    taken_at_ms: int
    info: ClusterInfo
    nodes: tuple[NodeReport, ...] = ()
    containers: tuple[ContainerReport, ...] = ()
    applications: tuple[ApplicationReport, ...] = ()
    host: HostFacts = field(default_factory=HostFacts)

    @cached_property
    def snapshots(self) -> dict[str, NodeSnapshot]:
        """Each node by its id, with what is on it."""
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
