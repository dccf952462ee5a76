"""The figures of the daemons, each declared once: as Hadoop's beans (``/jmx``) and as Prometheus' text
(``/metrics``). Pure.

Beans have YARN's names. Beans that do not apply to one host are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from executor.light import Record, field, replace
from executor.records import MIB, ContainerState, ContainerStatus, ExecutionType

from ...explain.snapshot import RUNS
from ...records.container_protocol import GetNodeInfoResponse
from ...records.reports import ApplicationReport, ClusterInfo, NodeReport, NodeState
from ...records.scheduler_protocol import GetSchedulerFiguresResponse
from ..cluster import metrics

Bean = dict[str, Any]
_WAIT = "yopp_opportunistic_allocation_wait_seconds"
_SCHEDULER = "OpportunisticSchedulerMetrics"
_O = "yopp_opportunistic_containers"


class Figure(Record):
    """One figure. ``attribute`` is its name in a bean, and ``name`` its name in Prometheus; "" if it has none.

    ``kind`` is "gauge", "counter" or "summary"; by default it follows from the name. ``help`` describes the
    figure; ``factor`` converts the bean's unit to that of Prometheus. The figures of a summary are its quantiles,
    and its sum and count, whose names end with ``_sum`` and ``_count``.
    """

    attribute: str
    value: float
    name: str = ""
    help: str = ""
    kind: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    factor: float = 1


class MetricFigures:
    """The figures of a daemon in both forms."""

    def __init__(self, service: str) -> None:
        self.samples: list[Figure] = []
        self.beans: list[Bean] = []
        self._service = service

    def add(self, figures: Sequence[Figure], bean: str = "", tag: str = "", value: str = "") -> None:
        """Add figures: to Prometheus, and with ``bean`` as a bean of that name and tag."""
        self.samples += figures
        if bean:
            name = f"Hadoop:service={self._service},name={bean}"
            found: Bean = {"name": name, "modelerType": bean} | ({f"tag.{tag}": value} if tag else {})
            self.beans.append(found | {one.attribute: one.value for one in figures if one.attribute})

    def add_process(self, process: Mapping[str, float], labels: Mapping[str, str]) -> None:
        """Add the figures of the daemon's own process."""
        labels = {"daemon": self._service.lower(), **labels}
        seconds, resident = process["cpu_seconds"], process["resident_bytes"]
        found = _of_bean(ResidentMB=round(resident / MIB, 1), CpuSeconds=round(seconds, 3))
        for name, value, text in (
            ("resident_memory_bytes", resident, "Resident memory of the daemon."),
            ("cpu_seconds_total", seconds, "CPU time of the daemon."),
        ):
            found.append(Figure("", value, f"yopp_daemon_{name}", text, labels=labels))
        self.add(found, "yopp")


def _of_bean(**values: float) -> list[Figure]:
    """Figures that only a bean has, by their attributes."""
    return [Figure(attribute, value) for attribute, value in values.items()]


def _by_label(
    name: str, text: str, label: str, rows: Iterable[tuple[str, str, float]], **others: str
) -> list[Figure]:
    """One Prometheus figure for each value of a label: ``rows`` are attribute, value of the label, and
    number.
    """
    return [
        Figure(attribute, number, name, text, labels={**others, label: value})
        for attribute, value, number in rows
    ]


def of_cluster(
    info: ClusterInfo,
    applications: Sequence[ApplicationReport],
    nodes: Sequence[NodeReport],
    counted: GetSchedulerFiguresResponse,
    busy_percent: int,
    process: Mapping[str, float],
) -> MetricFigures:
    """The figures of the ResourceManager."""
    document = metrics(info, applications, nodes, counted.pending, busy_percent, counted.assigned_per_second)
    told = document["clusterMetrics"]
    found = MetricFigures("ResourceManager")
    for bean, figures, tag, value in (
        ("ClusterMetrics", _cluster(told, nodes), "ClusterMetrics", "ResourceManager"),
        (_SCHEDULER, _opportunistic(counted), _SCHEDULER, "ResourceManager"),
        ("QueueMetrics,q0=root", _queue(told), "Queue", "root"),
    ):
        found.add(figures, bean, tag, value)
    found.add(_nodes(nodes))
    found.add_process(process, {})
    return found


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
    ("PendingContainers", "containersPending", "yopp_containers_pending", "Containers requested, not yet allocated."),
)  # fmt: skip
"""Attribute of the bean, key in ClusterMetricsInfo, and name and help in Prometheus if it is there."""


def _figures_of(told: Mapping[str, Any], rows: Sequence[tuple[str, ...]]) -> list[Figure]:
    """The figures of a table. Values in MB are in bytes in Prometheus."""
    found = []
    for attribute, key, *named in rows:
        name, text = named or ("", "")
        factor = MIB if name.endswith("_bytes") else 1
        found.append(Figure(attribute, told[key], name, text, factor=factor))
    return found


def _cluster(told: Mapping[str, Any], nodes: Sequence[NodeReport]) -> list[Figure]:
    measured = [node.node_utilization for node in nodes]
    used = _of_bean(
        UtilizedMB=sum(one.memory_bytes for one in measured) // MIB,
        UtilizedVirtualCores=round(sum(one.cpu for one in measured)),
    )
    states = [("", one.upper(), told["yopp"][f"containers{one}"]) for one in ("Running", "Queued", "Paused")]
    live = _by_label("yopp_containers", "Live containers by state.", "state", states)
    return [*_figures_of(told, _CLUSTER), *used, *live]


def _queue(told: Mapping[str, Any]) -> list[Figure]:
    states = [
        (f"Apps{word}", "FINISHED" if word == "Completed" else word.upper(), told[f"apps{word}"])
        for word in ("Pending", "Running", "Completed", "Failed", "Killed")
    ]
    applications = _by_label("yopp_applications", "Applications by state.", "state", states)
    return [*_figures_of(told, _QUEUE), *applications]


def _opportunistic(counted: GetSchedulerFiguresResponse) -> list[Figure]:
    quantiles = "AllocateLatencyOQuantiles"
    levels = [
        (f"Aggregate{level}OContainersAllocated", label, number)
        for level, label, number in (
            ("NodeLocal", "node", counted.node_local),
            ("RackLocal", "rack", counted.rack_local),
            ("OffSwitch", "any", counted.off_switch),
        )
    ]
    waits = [
        (f"{quantiles}{percent}thPercentileTime", str(percent / 100), waited)
        for percent, waited in counted.percentiles().items()
    ]
    waited = "Time from an opportunistic request to its allocation; quantiles of the last 1000."
    allocated, released = (
        "Opportunistic containers ever allocated.",
        "Opportunistic containers that have ended.",
    )
    latency = [
        *_by_label(_WAIT, waited, "quantile", waits),
        Figure("", counted.waited_ms, f"{_WAIT}_sum"),
    ]
    return [
        Figure("AllocatedOContainers", counted.live, _O, "Opportunistic containers allocated and not ended."),
        Figure("AggregateOContainersAllocated", counted.allocated, f"{_O}_allocated_total", allocated),
        Figure("AggregateOContainersReleased", counted.released, f"{_O}_released_total", released),
        *_by_label(
            "yopp_opportunistic_allocations_total", "Opportunistic allocations by locality.", "level", levels
        ),
        *(replace(one, kind="summary", factor=1 / 1000) for one in latency),
        Figure(f"{quantiles}NumOps", counted.waits, f"{_WAIT}_count", kind="summary"),
    ]


def _nodes(nodes: Sequence[NodeReport]) -> list[Figure]:
    """The RM's figures of each node."""
    states = Counter(node.state for node in nodes)
    rows = [("", state.value, states[state]) for state in NodeState]
    found = _by_label("yopp_nodes", "Nodes by state.", "state", rows)
    for node in nodes:
        if node.state is NodeState.RUNNING:
            told, labels = node.opportunistic, {"node": node.node_id}
            for name, number, text in (
                ("length", told.queued, "Opportunistic containers queued."),
                ("capacity", told.queue_capacity, "Opportunistic containers that may queue."),
                ("limit", node.queue_limit, "Queue limit set by the ResourceManager, -1 for none."),
            ):
                found.append(Figure("", number, f"yopp_node_queue_{name}", text, labels=labels))
    return found


def of_node(
    info: GetNodeInfoResponse,
    statuses: Sequence[ContainerStatus],
    counts: Mapping[str, int],
    process: Mapping[str, float],
) -> MetricFigures:
    """The figures of a NodeManager. As in YARN, allocatedGB is rounded up and availableGB down; both count
    guaranteed containers.
    """
    found = MetricFigures("NodeManager")
    figures = [*_counts(statuses, counts, info.node_id), *_use(info, statuses)]
    found.add(figures, "NodeManagerMetrics", "Context", "yarn")
    found.add_process(process, {"node": info.node_id})
    return found


def _counts(statuses: Sequence[ContainerStatus], counts: Mapping[str, int], node: str) -> list[Figure]:
    """The numbers of containers, past and present."""
    states = Counter(one.state for one in statuses)
    live = Counter(
        (one.state, one.execution_type) for one in statuses if one.state is not ContainerState.DONE
    )
    ever = [(f"Containers{what.capitalize()}", what, number) for what, number in counts.items()]
    found = _by_label(
        "yopp_node_containers_total",
        "Containers launched, and containers ended by outcome.",
        "what",
        ever,
        node=node,
    )
    for (state, kind), number in sorted(live.items()):
        labels = {"node": node, "state": state.value, "type": kind.value}
        text = "Live containers by state and type."
        found.append(Figure("", number, "yopp_node_containers", text, labels=labels))
    return found + _of_bean(
        ContainersIniting=states[ContainerState.LAUNCHING],
        ContainersRunning=states[ContainerState.RUNNING],
        ContainersPaused=states[ContainerState.PAUSED],
    )


def _use(info: GetNodeInfoResponse, statuses: Sequence[ContainerStatus]) -> list[Figure]:
    """The node's resources, allocated and measured."""
    guaranteed = [
        one.resource
        for one in statuses
        if one.execution_type is ExecutionType.GUARANTEED and one.state in RUNS
    ]
    memory, vcores = sum(one.memory for one in guaranteed), sum(one.vcores for one in guaranteed)
    told, measured, held = info.opportunistic, info.node_utilization, info.containers_utilization
    found = _of_bean(
        AllocatedGB=-(-memory // 1024),
        AllocatedContainers=len(guaranteed),
        AllocatedVCores=vcores,
        AvailableGB=max(0, info.total.memory - memory) // 1024,
        AvailableVCores=max(0, info.total.vcores - vcores),
        AllocatedOpportunisticGB=-(-told.memory_used // 1024),
        AllocatedOpportunisticVCores=told.vcores_used,
        ContainersGuaranteedQueued=max(0, told.wait_queue_length - told.queued),
        NodeUsedMemGB=measured.memory_bytes >> 30,
        NodeUsedVMemGB=0,
        NodeCpuUtilization=round(measured.cpu, 3),
        ContainerUsedMemGB=held.memory_bytes >> 30,
        ContainerCpuUtilization=round(held.cpu, 3),
        RunningOpportunisticContainers=told.running,
        ContainersOpportunisticQueued=told.queued,
    )
    for name, value, text in (
        ("memory_capacity_bytes", info.total.memory << 20, "Memory for containers."),
        ("vcores_capacity", info.total.vcores, "Vcores for containers."),
        ("memory_allocated_bytes", info.allocated.memory << 20, "Memory of running containers."),
        ("vcores_allocated", info.allocated.vcores, "Vcores of running containers."),
        ("opportunistic_running", told.running, "Opportunistic containers running."),
        ("opportunistic_queued", told.queued, "Opportunistic containers queued."),
        ("opportunistic_paused", told.paused, "Opportunistic containers paused."),
        ("memory_used_bytes", measured.memory_bytes, "Memory used on the machine, measured."),
        ("cpu_cores_used", measured.cpu, "CPU used on the machine, measured, in cores."),
        ("containers_memory_used_bytes", held.memory_bytes, "Memory used by all containers, measured."),
        ("containers_cpu_cores_used", held.cpu, "CPU used by all containers, measured, in cores."),
        ("resourcemanager_connected", int(info.rm_connected), "1 while the RM answers."),
    ):
        found.append(Figure("", value, f"yopp_node_{name}", text, labels={"node": info.node_id}))
    for one in info.total.others:
        labels, allocated = {"node": info.node_id, "type": one.name}, info.allocated.amount(one.name)
        for name, value, text in (
            ("resource_capacity", one.value, "Capacity of a countable resource type."),
            (
                "resource_allocated",
                allocated,
                "Amount of a countable resource type held by running containers.",
            ),
        ):
            found.append(Figure("", value, f"yopp_node_{name}", text, labels=labels))
    return found


def prometheus(figures: Iterable[Figure]) -> str:
    """All figures with a name, in Prometheus' text format, grouped by name under one heading."""
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
        kind = group[0].kind or ("counter" if name.endswith("_total") else "gauge")
        lines += [f"# HELP {name} {_escaped(group[0].help)}", f"# TYPE {name} {kind}"]
        lines += [f"{one.name}{_labels(one.labels)} {_number(one.value * one.factor)}" for one in group]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    quoted = {name: _escaped(value).replace('"', '\\"') for name, value in labels.items()}
    inside = ",".join(f'{name}="{value}"' for name, value in quoted.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(round(float(value), 6))


def query_beans(beans: Sequence[Bean], query: str, get: str) -> tuple[int, dict[str, Any]]:
    """The beans whose name matches ``qry`` (``Hadoop:*``); with ``get`` (``NAME::ATTRIBUTE``) only one
    attribute.

    The first value is the HTTP status of Hadoop's servlet: 400 for a malformed ``get``, 404 for an attribute that
    does not exist.
    """
    if query and not get and ":" not in query:
        return _refused(400, "the query is not an object name; an object name looks like Hadoop:*")
    if not get:
        return 200, {"beans": [one for one in beans if not query or _matches(one["name"], query)]}
    name, *attributes = get.split("::")
    if len(attributes) != 1 or ":" not in name:
        return _refused(400, "query format is not as expected.")
    found, keys = [one for one in beans if _matches(one["name"], name)], ("name", "modelerType", *attributes)
    if found and not any(attributes[0] in one for one in found):
        return _refused(404, f"No attribute with name {attributes[0][:200]} was found.", beans=[])
    return 200, {"beans": [{key: one[key] for key in keys if key in one} for one in found]}


def _refused(status: int, message: str, **more: Any) -> tuple[int, dict[str, Any]]:
    return status, {**more, "result": "ERROR", "message": message}


def _like(text: str, pattern: str) -> bool:
    """Whether ``pattern``, in which ``*`` stands for anything, matches the whole ``text``. Linear in both."""
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
    """Whether an object name matches, in any order of the properties; ``*`` stands for anything."""
    if _like(name, query):
        return True
    domain, _, properties = query.partition(":")
    own_domain, _, own = name.partition(":")
    wanted = {one for one in properties.split(",") if one != "*"}
    held = own.split(",")
    all_found = all(any(_like(item, one) for item in held) for one in wanted)
    exact = "*" in properties.split(",") or len(held) == len(wanted)
    return _like(own_domain, domain) and all_found and exact
