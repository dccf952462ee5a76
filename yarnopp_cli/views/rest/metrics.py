"""Figures for programs that watch, declared once: Hadoop's beans (``/jmx``) and Prometheus' text (``/metrics``). Pure.

Beans have YARN's names, of which those are there that mean something on one host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from executor.records import ContainerState, ContainerStatus, ExecutionType

from ...records.container_protocol import GetNodeInfoResponse
from ...records.reports import ApplicationReport, ClusterInfo, NodeReport, NodeState
from ...records.scheduler_protocol import GetSchedulerFiguresResponse
from ..cluster import metrics

Bean = dict[str, Any]
_MB = 1 << 20
_WAIT = "yopp_opportunistic_allocation_wait_seconds"
_O = "yopp_opportunistic_containers"
_RUNS = frozenset(
    {ContainerState.LAUNCHING, ContainerState.RUNNING, ContainerState.PAUSING, ContainerState.KILLING}
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. ``attribute`` is its name in a bean, ``name`` the one in Prometheus, "" where there it is not.

    ``kind`` is "gauge", "counter" or "summary"; ``help`` says what it is, in Prometheus' unit, of which it has
    ``factor`` for each of the bean's. A summary's figures are its quantiles, and their sum and count by the name with
    ``_sum`` and ``_count``.
    """

    attribute: str
    value: float
    name: str = ""
    help: str = ""
    kind: str = "gauge"
    labels: Mapping[str, str] = field(default_factory=dict)
    factor: float = 1


@dataclass(frozen=True, slots=True)
class Group:
    """The figures of one bean. ``bean`` is its last name, ``service`` whose it is; without a bean only Prometheus has
    them. ``tags`` stand before the figures.
    """

    figures: Sequence[Figure]
    service: str = ""
    bean: str = ""
    tags: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> Bean:
        """The bean."""
        found: Bean = {"name": f"Hadoop:service={self.service},name={self.bean}", "modelerType": self.bean}
        return {**found, **self.tags, **{one.attribute: one.value for one in self.figures if one.attribute}}


class Figures:
    """What a daemon tells of itself, in both forms."""

    def __init__(self, *groups: Group) -> None:
        self.samples = [figure for group in groups for figure in group.figures]
        self.beans = [group.document() for group in groups if group.bean]


def of_cluster(
    info: ClusterInfo,
    applications: Sequence[ApplicationReport],
    nodes: Sequence[NodeReport],
    counted: GetSchedulerFiguresResponse,
    busy_percent: int,
    process: Mapping[str, float],
) -> Figures:
    """The ResourceManager's."""
    told = metrics(info, applications, nodes, counted.pending, busy_percent, counted.assigned_per_second)[
        "clusterMetrics"
    ]
    service = "ResourceManager"
    return Figures(
        Group(_cluster(told, nodes), service, "ClusterMetrics", {"tag.ClusterMetrics": service}),
        Group(
            _opportunistic(counted),
            service,
            "OpportunisticSchedulerMetrics",
            {"tag.OpportunisticSchedulerMetrics": service},
        ),
        Group(_queue(told), service, "QueueMetrics,q0=root", {"tag.Queue": "root"}),
        Group(_nodes(nodes)),
        _process(service, process),
    )


_CLUSTER: tuple[tuple[str, ...], ...] = (
    ("NumActiveNMs", "activeNodes"),
    ("NumDecommissioningNMs", "decommissioningNodes"),
    ("NumDecommissionedNMs", "decommissionedNodes"),
    ("NumLostNMs", "lostNodes"),
    ("NumUnhealthyNMs", "unhealthyNodes"),
    ("NumRebootedNMs", "rebootedNodes"),
    ("NumShutdownNMs", "shutdownNodes"),
    ("CapabilityMB", "totalMB", "yopp_memory_capacity_bytes", "Memory of all running nodes."),
    ("CapabilityVirtualCores", "totalVirtualCores", "yopp_vcores_capacity", "Vcores of all running nodes."),
)
_QUEUE: tuple[tuple[str, ...], ...] = (
    ("AppsSubmitted", "appsSubmitted", "yopp_applications_submitted_total", "Applications ever submitted."),
    ("AllocatedMB", "allocatedMB", "yopp_memory_allocated_bytes", "Memory of guaranteed containers."),
    ("AllocatedVCores", "allocatedVirtualCores", "yopp_vcores_allocated", "Vcores of guaranteed containers."),
    ("AllocatedContainers", "containersAllocated"),
    ("AvailableMB", "availableMB"),
    ("AvailableVCores", "availableVirtualCores"),
    ("PendingMB", "pendingMB"),
    ("PendingVCores", "pendingVirtualCores"),
    ("PendingContainers", "containersPending", "yopp_containers_pending", "Containers asked for, not allocated."),
)  # fmt: skip
"""Attribute of the bean, key in ClusterMetricsInfo, name and help in Prometheus, "" where it is not there."""


def _told(told: Mapping[str, Any], rows: Sequence[tuple[str, ...]]) -> list[Figure]:
    """The figures of a table. Counters are called so, and what is told in MB is in bytes in Prometheus."""
    found = []
    for attribute, key, *named in rows:
        name, text = named or ("", "")
        kind = "counter" if name.endswith("_total") else "gauge"
        factor = _MB if name.endswith("_bytes") else 1
        found.append(Figure(attribute, told[key], name, text, kind, factor=factor))
    return found


def _cluster(told: Mapping[str, Any], nodes: Sequence[NodeReport]) -> list[Figure]:
    measured = [node.node_utilization for node in nodes]
    found = _told(told, _CLUSTER)
    found.append(Figure("UtilizedMB", sum(one.memory_bytes for one in measured) // _MB))
    found.append(Figure("UtilizedVirtualCores", round(sum(one.cpu for one in measured))))
    for state in ("Running", "Queued", "Paused"):
        number, labels = told["yopp"][f"containers{state}"], {"state": state.upper()}
        found.append(Figure("", number, "yopp_containers", "Live containers by state.", labels=labels))
    return found


def _queue(told: Mapping[str, Any]) -> list[Figure]:
    found = _told(told, _QUEUE)
    for word, state in (
        ("Pending", "PENDING"),
        ("Running", "RUNNING"),
        ("Completed", "FINISHED"),
        ("Failed", "FAILED"),
        ("Killed", "KILLED"),
    ):
        number, labels = told[f"apps{word}"], {"state": state}
        found.append(
            Figure(f"Apps{word}", number, "yopp_applications", "Applications by state.", labels=labels)
        )
    return found


def _opportunistic(counted: GetSchedulerFiguresResponse) -> list[Figure]:
    found = [Figure("AllocatedOContainers", counted.live, _O, "Allocated and not ended.")]
    for attribute, number, name, text in (
        ("Allocated", counted.allocated, "allocated", "Opportunistic ones ever allocated."),
        ("Released", counted.released, "released", "Opportunistic ones that ended."),
    ):
        found.append(
            Figure(f"AggregateOContainers{attribute}", number, f"{_O}_{name}_total", text, "counter")
        )
    for level, number, label in (
        ("NodeLocal", counted.node_local, "node"),
        ("RackLocal", counted.rack_local, "rack"),
        ("OffSwitch", counted.off_switch, "any"),
    ):
        attribute, text = f"Aggregate{level}OContainersAllocated", "Opportunistic allocations by locality."
        name = "yopp_opportunistic_allocations_total"
        found.append(Figure(attribute, number, name, text, "counter", {"level": label}))
    for percent, waited in counted.percentiles().items():
        attribute = f"AllocateLatencyOQuantiles{percent}thPercentileTime"
        text = "From an opportunistic ask to its allocation; quantiles of the last 1000."
        labels = {"quantile": str(percent / 100)}
        found.append(Figure(attribute, waited, _WAIT, text, "summary", labels, factor=1 / 1000))
    found.append(Figure("", counted.waited_ms, f"{_WAIT}_sum", "", "summary", factor=1 / 1000))
    found.append(Figure("AllocateLatencyOQuantilesNumOps", counted.waits, f"{_WAIT}_count", "", "summary"))
    return found


def _nodes(nodes: Sequence[NodeReport]) -> list[Figure]:
    """What the RM knows of each node."""
    by_state = Counter(node.state for node in nodes)
    found = [
        Figure("", by_state[state], "yopp_nodes", "Nodes by state.", labels={"state": state.value})
        for state in NodeState
    ]
    for node in nodes:
        if node.state is NodeState.RUNNING:
            told, labels = node.opportunistic, {"node": node.node_id}
            for name, number, text in (
                ("length", told.queued, "Opportunistic containers queued."),
                ("capacity", told.queue_capacity, "Opportunistic containers that may queue."),
                ("limit", node.queue_limit, "The queue length the RM asks for, -1 for none."),
            ):
                found.append(Figure("", number, f"yopp_node_queue_{name}", text, labels=labels))
    return found


def of_node(
    info: GetNodeInfoResponse,
    statuses: Sequence[ContainerStatus],
    counts: Mapping[str, int],
    process: Mapping[str, float],
) -> Figures:
    """A NodeManager's. As in YARN allocatedGB is rounded up and availableGB down; both count guaranteed containers."""
    node = {"node": info.node_id}
    found = [*_counts(statuses, counts, node), *_use(info, statuses, node)]
    return Figures(
        Group(found, "NodeManager", "NodeManagerMetrics", {"tag.Context": "yarn"}),
        _process("NodeManager", process, node),
    )


def _counts(
    statuses: Sequence[ContainerStatus], counts: Mapping[str, int], node: Mapping[str, str]
) -> list[Figure]:
    """How many containers there were and are."""
    states = Counter(one.state for one in statuses)
    live = Counter(
        (one.state, one.execution_type) for one in statuses if one.state is not ContainerState.DONE
    )
    found = [
        Figure(
            f"Containers{what.capitalize()}",
            number,
            "yopp_node_containers_total",
            "Containers launched, and ended by how.",
            "counter",
            {**node, "what": what},
        )
        for what, number in counts.items()
    ]
    for (state, kind), number in sorted(live.items()):
        labels = {**node, "state": state.value, "type": kind.value}
        text = "Live containers by state and type."
        found.append(Figure("", number, "yopp_node_containers", text, labels=labels))
    return [
        *found,
        Figure("ContainersIniting", states[ContainerState.LAUNCHING]),
        Figure("ContainersRunning", states[ContainerState.RUNNING]),
        Figure("ContainersPaused", states[ContainerState.PAUSED]),
    ]


def _use(
    info: GetNodeInfoResponse, statuses: Sequence[ContainerStatus], node: Mapping[str, str]
) -> list[Figure]:
    """What the node has, what is allocated of it, and what was measured."""
    guaranteed = [
        one.resource
        for one in statuses
        if one.execution_type is ExecutionType.GUARANTEED and one.state in _RUNS
    ]
    memory, vcores = sum(one.memory for one in guaranteed), sum(one.vcores for one in guaranteed)
    told, measured, held = info.opportunistic, info.node_utilization, info.containers_utilization

    def shown(name: str, value: float, text: str, attribute: str = "") -> Figure:
        return Figure(attribute, value, f"yopp_node_{name}", text, labels=node)

    return [
        Figure("AllocatedGB", -(-memory // 1024)),
        Figure("AllocatedContainers", len(guaranteed)),
        Figure("AllocatedVCores", vcores),
        Figure("AvailableGB", max(0, info.total.memory - memory) // 1024),
        Figure("AvailableVCores", max(0, info.total.vcores - vcores)),
        Figure("AllocatedOpportunisticGB", -(-told.memory_used // 1024)),
        Figure("AllocatedOpportunisticVCores", told.vcores_used),
        Figure("ContainersGuaranteedQueued", max(0, told.wait_queue_length - told.queued)),
        Figure("NodeUsedMemGB", measured.memory_bytes >> 30),
        Figure("NodeUsedVMemGB", 0),
        Figure("NodeCpuUtilization", round(measured.cpu, 3)),
        Figure("ContainerUsedMemGB", held.memory_bytes >> 30),
        Figure("ContainerCpuUtilization", round(held.cpu, 3)),
        shown("memory_capacity_bytes", info.total.memory << 20, "Memory for containers."),
        shown("vcores_capacity", info.total.vcores, "Vcores for containers."),
        shown("memory_allocated_bytes", info.allocated.memory << 20, "Memory of what runs."),
        shown("vcores_allocated", info.allocated.vcores, "Vcores of what runs."),
        shown(
            "opportunistic_running",
            told.running,
            "Opportunistic containers running.",
            "RunningOpportunisticContainers",
        ),
        shown(
            "opportunistic_queued",
            told.queued,
            "Opportunistic containers queued.",
            "ContainersOpportunisticQueued",
        ),
        shown("opportunistic_paused", told.paused, "Opportunistic containers paused."),
        shown("memory_used_bytes", measured.memory_bytes, "Measured memory of the machine."),
        shown("cpu_cores_used", measured.cpu, "Measured processors of the machine, in cores."),
        shown("containers_memory_used_bytes", held.memory_bytes, "Measured memory of all containers."),
        shown("containers_cpu_cores_used", held.cpu, "Measured processors of them, in cores."),
        shown("resourcemanager_connected", int(info.rm_connected), "1 while the RM answers."),
    ]


def _process(service: str, process: Mapping[str, float], labels: Mapping[str, str] | None = None) -> Group:
    """The daemon's own process."""
    labels = {"daemon": service.lower(), **(labels or {})}
    seconds, resident = process["cpu_seconds"], process["resident_bytes"]
    return Group(
        [
            Figure("ResidentMB", round(resident / _MB, 1)),
            Figure("", resident, "yopp_daemon_resident_memory_bytes", "Its memory.", labels=labels),
            Figure("CpuSeconds", round(seconds, 3)),
            Figure("", seconds, "yopp_daemon_cpu_seconds_total", "Its processor time.", "counter", labels),
        ],
        service,
        "yopp",
    )


def prometheus(figures: Iterable[Figure]) -> str:
    """All figures that have a name, in Prometheus' text format: those of one name together under one heading."""
    by_name: dict[str, list[Figure]] = {}
    for sample in figures:
        if not sample.name:
            continue
        family = sample.name
        if sample.kind == "summary":
            family = family.removesuffix("_count").removesuffix("_sum")
        by_name.setdefault(family, []).append(sample)
    lines = []
    for name, group in by_name.items():
        lines += [f"# HELP {name} {_help(group[0].help)}", f"# TYPE {name} {group[0].kind}"]
        lines += [f"{one.name}{_labels(one.labels)} {_number(one.value * one.factor)}" for one in group]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _help(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(round(float(value), 6))


def query_beans(beans: Sequence[Bean], query: str, get: str) -> tuple[int, dict[str, Any]]:
    """Those whose name matches ``qry`` (``Hadoop:*``); with ``get`` (``NAME::ATTRIBUTE``) one attribute alone.

    With the status that Hadoop's servlet gives: 400 for a malformed ``get``, 404 for an attribute that does not exist.
    """
    if not get:
        if query and ":" not in query:
            return 400, {
                "result": "ERROR",
                "message": "the query is no object name, which looks like Hadoop:*",
            }
        return 200, {"beans": [one for one in beans if not query or _matches(one["name"], query)]}
    name, *attributes = get.split("::")
    if len(attributes) != 1 or ":" not in name:
        return 400, {"result": "ERROR", "message": "query format is not as expected."}
    (attribute,) = attributes
    found = [one for one in beans if _matches(one["name"], name)]
    if found and not any(attribute in one for one in found):
        message = f"No attribute with name {attribute[:200]} was found."
        return 404, {"beans": [], "result": "ERROR", "message": message}
    return 200, {
        "beans": [
            {key: one[key] for key in ("name", "modelerType", attribute) if key in one} for one in found
        ]
    }


def _like(text: str, pattern: str) -> bool:
    """Whether ``pattern``, in which ``*`` stands for anything, fits all of ``text``. Linear in both."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    if not text.startswith(first) or not text[len(first) :].endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return at <= end


def _matches(name: str, query: str) -> bool:
    """Object names are equal whatever the order of their properties; ``*`` stands for anything."""
    if _like(name, query):
        return True
    domain, _, properties = query.partition(":")
    own_domain, _, own = name.partition(":")
    wanted = {one for one in properties.split(",") if one != "*"}
    held = own.split(",")
    all_found = all(any(_like(item, one) for item in held) for one in wanted)
    exact = "*" in properties.split(",") or len(held) == len(wanted)
    return _like(own_domain, domain) and all_found and exact
