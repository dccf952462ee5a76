"""Hadoop's ``/jmx`` document: beans with YARN's names, of which those mean something that are here. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from executor.records import ContainerState, ContainerStatus, ExecutionType

from ..records.container_protocol import GetNodeInfoResponse
from ..records.figures import PERCENTILES, GetSchedulerFiguresResponse
from ..records.reports import NodeReport

Bean = dict[str, Any]


def cluster_beans(
    figures: Mapping[str, Any],
    nodes: Sequence[NodeReport],
    opportunistic: GetSchedulerFiguresResponse,
    process: Mapping[str, float],
) -> list[Bean]:
    """The RM's. ``figures`` is the inside of ClusterMetricsInfo."""
    return [
        {
            "name": "Hadoop:service=ResourceManager,name=ClusterMetrics",
            "modelerType": "ClusterMetrics",
            "tag.ClusterMetrics": "ResourceManager",
            "NumActiveNMs": figures["activeNodes"],
            "NumDecommissioningNMs": figures["decommissioningNodes"],
            "NumDecommissionedNMs": figures["decommissionedNodes"],
            "NumLostNMs": figures["lostNodes"],
            "NumUnhealthyNMs": figures["unhealthyNodes"],
            "NumRebootedNMs": figures["rebootedNodes"],
            "NumShutdownNMs": figures["shutdownNodes"],
            "UtilizedMB": sum(node.node_utilization.memory_bytes for node in nodes) >> 20,
            "UtilizedVirtualCores": round(sum(node.node_utilization.cpu for node in nodes)),
            "CapabilityMB": figures["totalMB"],
            "CapabilityVirtualCores": figures["totalVirtualCores"],
        },
        {
            "name": "Hadoop:service=ResourceManager,name=OpportunisticSchedulerMetrics",
            "modelerType": "OpportunisticSchedulerMetrics",
            "tag.OpportunisticSchedulerMetrics": "ResourceManager",
            "AllocatedOContainers": opportunistic.live,
            "AggregateOContainersAllocated": opportunistic.allocated,
            "AggregateOContainersReleased": opportunistic.released,
            "AggregateNodeLocalOContainersAllocated": opportunistic.node_local,
            "AggregateRackLocalOContainersAllocated": opportunistic.rack_local,
            "AggregateOffSwitchOContainersAllocated": opportunistic.off_switch,
            "AllocateLatencyOQuantilesNumOps": opportunistic.waits,
            **{
                f"AllocateLatencyOQuantiles{percent}thPercentileTime": opportunistic.percentiles()[percent]
                for percent in PERCENTILES
            },
        },
        {
            "name": "Hadoop:service=ResourceManager,name=QueueMetrics,q0=root",
            "modelerType": "QueueMetrics,q0=root",
            "tag.Queue": "root",
            "AppsSubmitted": figures["appsSubmitted"],
            "AppsRunning": figures["appsRunning"],
            "AppsPending": figures["appsPending"],
            "AppsCompleted": figures["appsCompleted"],
            "AppsKilled": figures["appsKilled"],
            "AppsFailed": figures["appsFailed"],
            "AllocatedMB": figures["allocatedMB"],
            "AllocatedVCores": figures["allocatedVirtualCores"],
            "AllocatedContainers": figures["containersAllocated"],
            "AvailableMB": figures["availableMB"],
            "AvailableVCores": figures["availableVirtualCores"],
            "PendingMB": figures["pendingMB"],
            "PendingVCores": figures["pendingVirtualCores"],
            "PendingContainers": figures["containersPending"],
        },
        _process_bean("ResourceManager", process),
    ]


def node_beans(
    info: GetNodeInfoResponse,
    statuses: Sequence[ContainerStatus],
    counts: Mapping[str, int],
    process: Mapping[str, float],
) -> list[Bean]:
    """An NM's. As in YARN allocatedGB is rounded up and availableGB down; both count guaranteed containers."""
    guaranteed = [
        one for one in statuses if one.execution_type is ExecutionType.GUARANTEED and one.state in _RUNS
    ]
    memory = sum(one.resource.memory for one in guaranteed)
    vcores = sum(one.resource.vcores for one in guaranteed)
    states = Counter(one.state for one in statuses)
    told = info.opportunistic
    return [
        {
            "name": "Hadoop:service=NodeManager,name=NodeManagerMetrics",
            "modelerType": "NodeManagerMetrics",
            "tag.Context": "yarn",
            "ContainersLaunched": counts["launched"],
            "ContainersCompleted": counts["completed"],
            "ContainersFailed": counts["failed"],
            "ContainersKilled": counts["killed"],
            "ContainersIniting": states[ContainerState.LAUNCHING],
            "ContainersRunning": states[ContainerState.RUNNING],
            "ContainersPaused": states[ContainerState.PAUSED],
            "AllocatedGB": -(-memory // 1024),
            "AllocatedContainers": len(guaranteed),
            "AllocatedVCores": vcores,
            "AvailableGB": max(0, info.total.memory - memory) // 1024,
            "AvailableVCores": max(0, info.total.vcores - vcores),
            "AllocatedOpportunisticGB": -(-told.memory_used // 1024),
            "AllocatedOpportunisticVCores": told.vcores_used,
            "RunningOpportunisticContainers": told.running,
            "ContainersOpportunisticQueued": told.queued,
            "ContainersGuaranteedQueued": max(0, told.wait_queue_length - told.queued),
            "NodeUsedMemGB": info.node_utilization.memory_bytes >> 30,
            "NodeUsedVMemGB": 0,
            "NodeCpuUtilization": round(info.node_utilization.cpu, 3),
            "ContainerUsedMemGB": info.containers_utilization.memory_bytes >> 30,
            "ContainerCpuUtilization": round(info.containers_utilization.cpu, 3),
        },
        _process_bean("NodeManager", process),
    ]


_RUNS = frozenset(
    {ContainerState.LAUNCHING, ContainerState.RUNNING, ContainerState.PAUSING, ContainerState.KILLING}
)


def _process_bean(service: str, process: Mapping[str, float]) -> Bean:
    return {
        "name": f"Hadoop:service={service},name=yopp",
        "modelerType": "yopp",
        "ResidentMB": round(process["resident_bytes"] / (1 << 20), 1),
        "CpuSeconds": round(process["cpu_seconds"], 3),
    }


def chosen(beans: Sequence[Bean], query: str, get: str) -> tuple[int, dict[str, Any]]:
    """Those whose name matches ``qry`` (``Hadoop:*``); with ``get`` (``NAME::ATTRIBUTE``) one attribute alone.

    With the status that Hadoop's servlet gives: 400 for a ``get`` that is none, 404 for an attribute that is not there.
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
