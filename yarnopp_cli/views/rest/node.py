"""A NodeManager's own YARN documents: NodeInfo, its applications, the log files of a container."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from executor.records import GPU, ContainerState
from executor.settings import ExecutorSettings

from ...records.container_protocol import GetNodeInfoResponse
from ...records.reports import ContainerReport
from ...records.times import timestamp
from ..cluster import opportunistic_totals
from ..resources import others_document


def info(node: GetNodeInfoResponse, now_ms: int, settings: ExecutorSettings) -> dict[str, Any]:
    """YARN's answer to ``GET /ws/v1/node/info``; totals are the node's resources for containers, as in YARN."""
    told = node.opportunistic
    return {
        "nodeInfo": {
            "id": node.node_id,
            "nodeHostName": node.node_id.rpartition(":")[0],
            "healthReport": "",
            "nodeHealthy": True,
            "lastNodeUpdateTime": now_ms,
            "totalPmemAllocatedContainersMB": node.total.memory,
            "totalVmemAllocatedContainersMB": round(node.total.memory * settings.vmem_pmem_ratio),
            "totalVCoresAllocatedContainers": node.total.vcores,
            "pmemCheckEnabled": settings.pmem_check_enabled,
            "vmemCheckEnabled": settings.vmem_check_enabled,
            "resourceTypes": ", ".join(
                ["memory-mb (unit=Mi)", "vcores", *(one.name for one in node.total.others)]
            ),
            "nodeManagerVersion": node.version,
            "nodeManagerBuildVersion": f"yopp {node.version}",
            "nodeManagerVersionBuiltOn": "",
            "hadoopVersion": "",
            "hadoopBuildVersion": "",
            "hadoopVersionBuiltOn": "",
            "nmStartupTime": node.started_at_ms,
            "yopp": {
                "pid": node.pid,
                "cgroups": node.cgroups,
                "warnings": list(node.warnings),
                "allocated": {
                    "memory": node.allocated.memory,
                    "vCores": node.allocated.vcores,
                    "resources": others_document(node.allocated.others),
                },
                "opportunistic": {
                    **opportunistic_totals((told,)),
                    "queueCapacity": told.queue_capacity,
                    "estimatedQueueWaitMs": told.estimated_queue_wait_ms,
                },
                "measured": {
                    "memoryMB": node.node_utilization.memory_bytes >> 20,
                    "cpu": round(node.node_utilization.cpu, 3),
                    "containersMemoryMB": node.containers_utilization.memory_bytes >> 20,
                    "containersCpu": round(node.containers_utilization.cpu, 3),
                },
                "resourceManagerConnected": node.rm_connected,
            },
        }
    }


def application_document(application_id: str, containers: Sequence[ContainerReport]) -> dict[str, Any]:
    """One application of a node: RUNNING while it has a live container here."""
    lives = any(one.state is not ContainerState.DONE for one in containers)
    return {
        "id": application_id,
        "state": "RUNNING" if lives else "FINISHED",
        "user": containers[0].user if containers else "",
        "containerids": [one.container_id for one in containers],
    }


def by_application(containers: Sequence[ContainerReport]) -> dict[str, list[ContainerReport]]:
    """The containers of each application, in order of its first one."""
    found: dict[str, list[ContainerReport]] = {}
    for one in containers:
        found.setdefault(one.application_id, []).append(one)
    return found


def log_files(container: str, node: str, files: Sequence[tuple[str, int, int]], more: bool) -> dict[str, Any]:
    """YARN's answer to ``GET …/containers/{id}/logs``; ``files`` are names, bytes, and times of change in epoch
    milliseconds; ``more``: there are others.
    """
    return {
        "containerLogsInfo": {
            "containerLogInfo": [
                {"fileName": name, "fileSize": str(size), "lastModifiedTime": timestamp(changed)}
                for name, size, changed in files
            ],
            "yopp": {"more": more},
            "logAggregationType": "LOCAL",
            "containerId": container,
            "nodeId": node,
        }
    }


def resource(name: str, node: GetNodeInfoResponse, containers: Iterable[ContainerReport]) -> dict[str, Any]:
    """YARN's NMGpuResourceInfo; empty for types that are only counted or do not exist, as in YARN."""
    if name != GPU or not node.devices:
        return {}
    assigned = {
        device: one.container_id
        for one in containers
        if one.state is not ContainerState.DONE
        for device in one.devices
    }
    return {
        "totalGpuDevices": [_gpu(device) for device in node.devices],
        "assignedGpuDevices": [
            _gpu(device) | {"containerId": assigned[device]} for device in sorted(assigned)
        ],
    }


def _gpu(device: str) -> dict[str, Any]:
    index, _, minor = device.partition(":")
    return {"index": int(index), "minorNumber": int(minor)}
