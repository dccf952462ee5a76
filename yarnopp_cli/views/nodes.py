"""Nodes as a table and as YARN's NodeInfo documents."""

from __future__ import annotations

from collections.abc import Callable

from executor.hints import Any
from executor.records import MIB, OpportunisticContainersStatus, Resource, ResourceUtilization

from ..records.reports import NodeReport, NodeState
from ..records.times import timestamp
from .columns import COUNT, ID, MEGABYTES, NUMBER, PERCENT, SPAN, STATE, TIME, Column, Noun
from .resources import others_document, resource_document
from .text import megabytes, short_megabytes, vcores


def queue_text(node: NodeReport) -> str:
    """The number of queued opportunistic containers, and the number that may be queued, if known."""
    status = node.opportunistic
    return str(status.queued) if status.queue_capacity < 0 else f"{status.queued}/{status.queue_capacity}"


def paused_text(node: NodeReport) -> str:
    """The number of paused containers of both types on the node, and whether the load of other programs or the closed
    window is the cause. Neither pauses guaranteed ones.
    """
    return f"{node.paused}{_paused_for(node)}"


def _paused_for(node: NodeReport) -> str:
    status = node.opportunistic
    if not status.paused or node.guaranteed_paused:
        return ""
    return " (window)" if status.closed_until_ms else " (load)" if status.host_is_busy else ""


def held_text(node: NodeReport) -> str:
    """The queue, and whether a closed window keeps its containers waiting."""
    closed = node.opportunistic.queued and node.opportunistic.closed_until_ms
    return f"{queue_text(node)} (window)" if closed else queue_text(node)


def limit_text(node: NodeReport) -> str:
    """The maximum queue length that the RM sets for the node."""
    return str(node.queue_limit) if node.queue_limit >= 0 else "-"


def cpu_percent(node: NodeReport) -> float:
    """Measured CPU of the machine in percent of its cores; if those are unknown, of the node's vcores."""
    cores = node.node_utilization.cores or node.total.vcores
    return 100.0 * node.node_utilization.cpu / cores if cores else 0.0


def memory_percent(node: NodeReport) -> float:
    """Measured memory of the machine in percent of its total; if that is unknown, of the node's memory."""
    total = node.node_utilization.memory_total_bytes or node.total.memory * MIB
    return 100.0 * node.node_utilization.memory_bytes / total if total else 0.0


def state_text(node: NodeReport) -> str:
    """The node's state in YARN's words; "(silent)" is added if its connection is down."""
    return node.state.value if node.connected or node.state.value != "RUNNING" else "RUNNING (silent)"


def _available(node: NodeReport) -> Resource:
    """The resources not allocated to guaranteed containers."""
    return (node.total - node.used).at_least_zero()


def _measured_mb(node: NodeReport) -> int:
    return node.node_utilization.memory_bytes // MIB


def _memory_text(node: NodeReport) -> str:
    return megabytes(_measured_mb(node)) if node.node_utilization.memory_bytes else "-"


def _cores(node: NodeReport) -> str:
    """The cores in use; "-" if the machine has not been measured: a machine that runs a NodeManager always
    uses memory.
    """
    return f"{node.node_utilization.cpu:.1f}" if node.node_utilization.memory_bytes else "-"


def _utilization(measured: ResourceUtilization) -> str:
    return f"PMem:{measured.memory_bytes // MIB} MB, VCores:{measured.cpu:.2f}"


def _memory(
    key: str, title: str, value: Callable[[NodeReport], int], *, spare: int = 0
) -> Column[NodeReport]:
    return Column(
        key, title, value, short=lambda node: short_megabytes(value(node)), kind=MEGABYTES, spare=spare
    )


COLUMNS: tuple[Column[NodeReport], ...] = (
    Column("node", "NODE", lambda node: node.node_id, kind=ID),
    Column("state", "STATE", state_text, kind=STATE),
    Column("runningG", "RUN G", lambda node: node.guaranteed_running, kind=COUNT),
    Column("runningO", "RUN O", lambda node: node.opportunistic.running, kind=COUNT),
    Column("queued", "QUEUED", lambda node: node.opportunistic.queued, held_text, kind=COUNT),
    Column("limit", "RM LIMIT", lambda node: node.queue_limit, limit_text, kind=NUMBER, wide=True, ours=True),
    Column(
        "paused",
        "PAUSED",
        lambda node: node.paused,
        paused_text,
        kind=COUNT,
        spare=7,
        ours=True,
    ),
    _memory("memG", "MEM G", lambda node: node.used.memory),
    _memory("memO", "MEM O", lambda node: node.opportunistic.memory_used, spare=5),
    _memory("memory", "MEM", lambda node: node.total.memory, spare=3),
    Column("vcoresG", "VC G", lambda node: node.used.vcores, kind=COUNT),
    Column("vcoresO", "VC O", lambda node: node.opportunistic.vcores_used, kind=COUNT, spare=6),
    Column("vcores", "VC", lambda node: node.total.vcores, kind=COUNT, spare=4),
    Column("cpu", "CPU", lambda node: round(node.node_utilization.cpu, 2), _cores, kind=NUMBER, spare=2),
    Column("memUsed", "MEM USED", _measured_mb, _memory_text, kind=MEGABYTES, spare=1),
    Column("resources", "RESOURCES", lambda node: others_text(node), flexible=True, wide=True),
    Column("rack", "RACK", lambda node: node.rack, wide=True),
    Column("labels", "LABELS", lambda node: ",".join(node.labels), wide=True),
    Column("address", "ADDRESS", lambda node: node.address, wide=True, ours=True),
    Column("http", "HTTP ADDRESS", lambda node: node.http_address, wide=True),
    Column("heartbeat", "LAST HEALTH-UPDATE", lambda node: node.last_heartbeat_ms, kind=TIME, wide=True),
    Column("health", "HEALTH-REPORT", lambda node: node.health_report, flexible=True, wide=True),
    Column("pid", "PID", lambda node: node.pid, kind=NUMBER, wide=True, ours=True),
    Column("version", "VERSION", lambda node: node.version, wide=True),
)
"""``-o wide`` adds the columns of YARN's Nodes page."""

_MORE: tuple[Column[NodeReport], ...] = (
    Column("tags", "", lambda node: ""),
    Column("availG", "", lambda node: _available(node).memory, kind=MEGABYTES),
    Column("vcoresAvailG", "", lambda node: _available(node).vcores, kind=COUNT),
    Column("cpuPercent", "", cpu_percent, kind=PERCENT),
    Column("memPercent", "", memory_percent, kind=PERCENT),
    Column("capacity", "", lambda node: node.opportunistic.queue_capacity, kind=NUMBER),
    Column("wait", "", lambda node: node.opportunistic.estimated_queue_wait_ms, kind=SPAN),
)
"""Further columns of pages and ``yopp top``."""

BY_KEY = {column.key: column for column in (*COLUMNS, *_MORE)}

PAGE: tuple[tuple[str, str], ...] = (
    ("Node Labels", "labels"), ("Rack", "rack"), ("Node State", "state"), ("Node Address", "node"),
    ("Node HTTP Address", "http"), ("Last health-update", "heartbeat"), ("Health-report", "health"),
    ("Running Containers (G)", "runningG"), ("Allocation Tags", "tags"), ("Mem Used (G)", "memG"),
    ("Mem Avail (G)", "availG"), ("Mem Total", "memory"), ("Phys Mem Used %", "memPercent"),
    ("VCores Used (G)", "vcoresG"), ("VCores Avail (G)", "vcoresAvailG"), ("VCores Total", "vcores"),
    ("Phys VCores Used %", "cpuPercent"), ("Running Containers (O)", "runningO"), ("Mem Used (O)", "memO"),
    ("VCores Used (O)", "vcoresO"), ("Queued Containers", "queued"), ("Version", "version"),
)  # fmt: skip
"""YARN's Nodes page with opportunistic containers enabled (``NodesPage.java``): titles and column keys."""


def document(node: NodeReport) -> dict[str, Any]:
    """One NodeInfo. As in YARN, numContainers, used and avail count guaranteed containers only."""
    available = _available(node)
    opportunistic = node.opportunistic
    return {
        "rack": node.rack,
        "state": node.state.value,
        "id": node.node_id,
        "nodeHostName": node.node_id.rpartition(":")[0],
        "nodeHTTPAddress": node.http_address,
        "lastHealthUpdate": node.last_heartbeat_ms,
        "version": node.version,
        "healthReport": node.health_report,
        "numContainers": node.num_containers,
        "usedMemoryMB": node.used.memory,
        "availMemoryMB": available.memory,
        "usedVirtualCores": node.used.vcores,
        "availableVirtualCores": available.vcores,
        "memUtilization": round(memory_percent(node), 1),
        "cpuUtilization": round(cpu_percent(node), 1),
        "numRunningOpportContainers": opportunistic.running,
        "usedMemoryOpportGB": -(-opportunistic.memory_used // 1024),
        "usedVirtualCoresOpport": opportunistic.vcores_used,
        "numQueuedContainers": opportunistic.queued,
        "nodeLabels": list(node.labels),
        "allocationTags": {},  # as in YARN without tags: neither containers nor nodes can be tagged here
        "nodeAttributesInfo": {},
        "resourceUtilization": {
            "nodePhysicalMemoryMB": node.node_utilization.memory_bytes // MIB,
            "nodeVirtualMemoryMB": 0,
            "nodeCPUUsage": round(node.node_utilization.cpu, 3),
            "aggregatedContainersPhysicalMemoryMB": node.containers_utilization.memory_bytes // MIB,
            "aggregatedContainersVirtualMemoryMB": 0,
            "containersCPUUsage": round(node.containers_utilization.cpu, 3),
        },
        "usedResource": resource_document(node.used),
        "availableResource": resource_document(available),
        "totalResource": resource_document(node.total),
        "yopp": {
            "usedMemoryOpportMB": opportunistic.memory_used,
            "usedResourcesOpport": others_document(opportunistic.others_used),
            "queueCapacity": opportunistic.queue_capacity,
            "queueLimit": node.queue_limit,
            "waitQueueLength": opportunistic.wait_queue_length,
            "estimatedQueueWaitMs": opportunistic.estimated_queue_wait_ms,
            "queueWaitErrorMs": opportunistic.wait_error_ms,
            "meanQueueWaitMs": opportunistic.mean_wait_ms,
            "queueWaitEstimates": opportunistic.wait_estimates,
            "shedContainers": opportunistic.shed,
            "paused": opportunistic.paused,
            "guaranteedPaused": node.guaranteed_paused,
            "opportunisticClosedUntil": opportunistic.closed_until_ms,
            "cpuPercent": round(cpu_percent(node), 1),
            "memPercent": round(memory_percent(node), 1),
            "load1": round(node.node_utilization.load1, 2) if node.node_utilization.load1 >= 0 else None,
            "connected": node.connected,
            "address": node.address,
            "pid": node.pid,
        },
    }


def others_text(node: NodeReport) -> str:
    """``1/2 yarn.io/gpu``: the amount of each countable type that containers hold, and the total."""
    held = Resource(0, 0, node.opportunistic.others_used) + node.used
    return ", ".join(f"{held.amount(one.name)}/{one.value} {one.name}" for one in node.total.others)


def _others_lines(node: NodeReport) -> list[tuple[str, str]]:
    """The used and the total amount of each countable type."""
    opportunistic = Resource(0, 0, node.opportunistic.others_used)
    return [
        (
            one.name,
            f"{node.used.amount(one.name)} guaranteed, {opportunistic.amount(one.name)} opportunistic, of {one.value}",
        )
        for one in node.total.others
    ]


def _queued_text(node: NodeReport) -> str:
    """The queue, the paused containers, and the time until which no opportunistic container runs."""
    status, text = node.opportunistic, queue_text(node)
    text += f", {node.paused} paused{_paused_for(node)}" if node.paused else ""
    return text + (
        f", none runs before {timestamp(status.closed_until_ms)}" if status.closed_until_ms else ""
    )


def _wait_text(status: OpportunisticContainersStatus) -> str:
    """The expected wait of the next container, and the accuracy of such estimates."""
    if status.estimated_queue_wait_ms < 0:
        return "unknown"
    text = f"{status.estimated_queue_wait_ms / 1000:g} s"
    if status.wait_estimates:
        error, mean = status.wait_error_ms / 1000, status.mean_wait_ms / 1000
        text += f" (estimates were off by {error:g} s where the wait was {mean:g} s, on average)"
    return text


def fields(node: NodeReport) -> list[tuple[str, str]]:
    """The output of ``node status``: YARN's fields in YARN's order, and yopp's own."""
    used, opportunistic = node.used, node.opportunistic
    return [
        ("Node-Id", node.node_id),
        ("Rack", node.rack),
        ("Node-State", state_text(node)),
        ("Node-Address", node.address),
        ("Node-Http-Address", node.http_address or "N/A"),
        ("Last-Health-Update", timestamp(node.last_heartbeat_ms)),
        ("Health-Report", node.health_report),
        ("Containers", f"{node.guaranteed_running} guaranteed, {opportunistic.running} opportunistic"),
        ("Queued", _queued_text(node)),
        (
            "Queue-Limit",
            limit_text(node) + (f", {opportunistic.shed} given back" if opportunistic.shed else ""),
        ),
        ("Queue-Wait", _wait_text(opportunistic)),
        ("Memory-Used", f"{used.memory}MB guaranteed, {opportunistic.memory_used}MB opportunistic"),
        ("Memory-Capacity", f"{node.total.memory}MB"),
        ("CPU-Used", f"{vcores(used.vcores)} guaranteed, {vcores(opportunistic.vcores_used)} opportunistic"),
        ("CPU-Capacity", vcores(node.total.vcores)),
        *_others_lines(node),
        ("Node-Labels", ",".join(node.labels)),
        ("Resource Utilization by Node", _utilization(node.node_utilization)),
        ("Resource Utilization by Containers", _utilization(node.containers_utilization)),
        ("Pid", str(node.pid)),
        ("Version", node.version),
    ]


NODES: Noun[NodeReport] = Noun(
    "node",
    "nodes",
    identity=lambda node: node.node_id,
    columns=lambda now_ms: COLUMNS,
    document=lambda node, now_ms: document(node),
    fields=lambda node, now_ms: fields(node),
    states=("ALL", *(state.value for state in NodeState)),
    ours=frozenset({"Queue-Limit", "Queue-Wait", "Pid"}),
)
