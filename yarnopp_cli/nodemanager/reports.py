"""The reports of a node: for the ResourceManager with each registration and heartbeat, and for users.

It only reads the scheduler. Pure; ``link`` decides when reports are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from executor.core.events import UsageSampled
from executor.core.scheduler import ContainerScheduler
from executor.light import Record, made_of, replace
from executor.records import ContainerUsage, ResourceUtilization

from ..records.container_protocol import GetNodeInfoResponse, GetUsageTracesResponse
from ..records.tracker_protocol import NodeAnswer, NodeHeartbeatRequest, RegisterNodeManagerRequest
from .containers import NodeContainers, UtilizationMeter
from .link import ResourceManagerLink

DEFAULT_RACK: Final = "/default-rack"
USAGE_SECONDS: Final = 1.0
"""The shortest time, in seconds, between two reports of live containers' figures to the RM."""


class NodeDescription(Record):
    """Facts about a node for users: ``cgroups`` and ``warnings`` describe the limits of its containers."""

    pid: int = 0
    version: str = ""
    cgroups: str = "none"
    warnings: tuple[str, ...] = ()
    http_address: str = ""
    rack: str = DEFAULT_RACK
    labels: tuple[str, ...] = ()


class NodeReporter:
    """Makes the reports of a node.

    ``address`` is the address on which the node listens, ``log_dir`` the directory of its containers' output.
    ``proxied`` returns the applications whose masters use the node's AMRMProxy.
    """

    def __init__(
        self,
        node_id: str,
        address: str,
        log_dir: str,
        facts: NodeDescription,
        scheduler: ContainerScheduler,
        containers: NodeContainers,
        proxied: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self._node_id = node_id
        self._address = address
        self._log_dir = log_dir
        self._facts = facts
        self._scheduler = scheduler
        self._containers = containers
        self._proxied = proxied
        self._meter = UtilizationMeter()
        self.traces = UsageTraces()
        """The usage of the last minute."""
        self.answers: list[NodeAnswer] = []
        """The answers to questions of the ResourceManager that were not sent yet."""
        self._node_utilization = ResourceUtilization()
        self._usage_told_at = float("-inf")
        self._usage_is_new = False
        self._started_at_ms = 0

    def began(self, now_ms: int) -> None:
        """The node is alive at ``now_ms`` (epoch milliseconds); only the first call counts."""
        self._started_at_ms = self._started_at_ms or now_ms

    def sampled(self, event: UsageSampled, now: float) -> bool:
        """All containers were measured. Returns whether this is the node's first measurement."""
        is_first = self._node_utilization == ResourceUtilization()
        self._meter.sampled(event.usages)
        self.traces.sampled(event.usages, event.node, now)
        self._node_utilization = event.node
        self._usage_is_new = True
        return is_first

    def registration(self) -> RegisterNodeManagerRequest:
        """The node and all its containers."""
        return made_of(
            RegisterNodeManagerRequest,
            self._facts,
            node_id=self._node_id,
            address=self._address,
            resource=self._scheduler.total,
            containers=self._containers.all_statuses(),
            running_applications=self._applications(),
            opportunistic=self._scheduler.opportunistic_status(),
        )

    def heartbeat(self, link: ResourceManagerLink, now: float) -> NodeHeartbeatRequest:
        """The news since the last heartbeat."""
        with_usage = self._usage_is_new and now - self._usage_told_at >= USAGE_SECONDS
        if with_usage:
            self._usage_is_new = False
            self._usage_told_at = now
            for container_id in self._containers.started:
                status = self._scheduler.status(container_id)
                if status is not None:
                    self._containers.update_live(status)
        answers, self.answers = tuple(self.answers), []
        return NodeHeartbeatRequest(
            answers=answers,
            node_id=self._node_id,
            secret=link.secret,
            response_id=link.response_id,
            containers=self._containers.news(with_usage=with_usage),
            opportunistic=self._scheduler.opportunistic_status(roughly=True),
            node_utilization=self._node_utilization,
            containers_utilization=self._meter.containers,
            running_applications=self._applications(),
            wait_ms=link.wait_ms,
            http_address=self._facts.http_address,
            healthy=not self._scheduler.health_report,
            health_report=self._scheduler.health_report,
        )

    def serves_pages(self, address: str) -> None:
        """Note the address of the node's pages."""
        self._facts = replace(self._facts, http_address=address)

    def _applications(self) -> tuple[str, ...]:
        """The applications that have a container here, or a master that uses this node's AMRMProxy."""
        return tuple(dict.fromkeys((*self._containers.running_applications, *self._proxied())))

    def node_info(self, link: ResourceManagerLink, wall_offset: float = 0.0) -> GetNodeInfoResponse:
        """A node's report for users. ``wall_offset`` is the epoch seconds at the link's time 0."""
        return made_of(
            GetNodeInfoResponse,
            self._facts,
            self._scheduler,
            node_id=self._node_id,
            opportunistic=self._scheduler.opportunistic_status(),
            node_utilization=self._node_utilization,
            containers_utilization=self._meter.containers,
            started_at_ms=self._started_at_ms,
            log_dir=self._log_dir,
            rm_connected=link.is_registered,
            rm_lost_at_ms=0 if link.lost_at is None else int((link.lost_at + wall_offset) * 1000),
        )


POINTS = 60
"""The number of points that are kept of each trace, the latest ones."""

_STEP = 0.9
"""The shortest time, in seconds, between two points, however often usage is measured."""

_FIELDS = 3
_SLACK = 15
"""The number of surplus points at which the oldest are dropped, all at once."""


class UsageTraces:
    """The usage of containers and of their machine in the last minute, for watchers that begin to look. Traces are
    bare numbers, one entry a second, since they are rarely read.

    ``sampled`` receives each measurement. A container that is not measured any more is forgotten."""

    def __init__(self) -> None:
        self._containers: dict[str, list[float]] = {}
        self._machine: list[float] = []

    def sampled(self, usages: Mapping[str, ContainerUsage], machine: ResourceUtilization, now: float) -> None:
        """All containers and the machine were measured, at ``now`` (seconds of the node's clock)."""
        if self._machine and now - self._machine[-_FIELDS] < _STEP:
            return
        _append(self._machine, now, machine.cpu, machine.memory_bytes)
        traces = self._containers
        for name, usage in usages.items():
            trace = traces.get(name)
            if trace is None:
                trace = traces[name] = []
            _append(trace, usage.sampled_at, usage.cpu_seconds, usage.memory_bytes)
        if len(traces) > len(usages):
            for name in traces.keys() - usages.keys():
                del traces[name]

    def told(self, container_ids: Iterable[str] = ()) -> GetUsageTracesResponse:
        """The traces of these containers, or of all, and of the machine."""
        wanted = tuple(container_ids) or tuple(self._containers)
        return GetUsageTracesResponse(
            {name: _latest(self._containers[name]) for name in wanted if name in self._containers},
            _latest(self._machine),
        )


def _append(trace: list[float], *point: float) -> None:
    trace.extend(point)
    if len(trace) > _FIELDS * (POINTS + _SLACK):
        del trace[: -_FIELDS * POINTS]


def _latest(trace: list[float]) -> tuple[float, ...]:
    return tuple(trace[-_FIELDS * POINTS :])
