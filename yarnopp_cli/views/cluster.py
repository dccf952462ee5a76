"""The cluster's figures as YARN's documents: ClusterMetricsInfo, CapacitySchedulerInfo, statistics, timeouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from executor.records import ContainerState, Resource

from ..errors import EXIT_NO_SUCH, InvalidIdError, UsageError, YoppError
from ..records.reports import (
    FINAL_STATES,
    ApplicationReport,
    ClusterInfo,
    ContainerReport,
    NodeReport,
    NodeState,
    QueueReport,
    YarnApplicationState,
)
from . import queues as queue_view
from .text import timestamp

_CLASSES = {
    "NotFoundException": "org.apache.hadoop.yarn.webapp.NotFoundException",
    "BadRequestException": "org.apache.hadoop.yarn.webapp.BadRequestException",
    "ForbiddenException": "org.apache.hadoop.yarn.webapp.ForbiddenException",
    "ConflictException": "org.apache.hadoop.yarn.webapp.ConflictException",
    "AuthorizationException": "org.apache.hadoop.security.authorize.AuthorizationException",
    "IllegalArgumentException": "java.lang.IllegalArgumentException",
    "UnsupportedOperationException": "java.lang.UnsupportedOperationException",
}
_RAISED = "java.lang.Exception: "


def error_document(problem: YoppError) -> dict[str, Any]:
    """An error as YARN's REST bodies have it, with ours beside it under ``yopp``."""
    name = web_name(problem)
    return {
        "RemoteException": {
            "exception": name,
            "message": web_message(problem),
            "javaClassName": _CLASSES.get(name, f"org.apache.hadoop.yarn.exceptions.{name}"),
        },
        "yopp": {
            "exit": problem.exit_code,
            "message": problem.message.removeprefix(_RAISED),
            "because": problem.because,
            "hint": problem.hint,
        },
    }


def web_message(problem: YoppError) -> str:
    """What YARN's web services say: for what is not found, and for malformed ids and arguments, they raise a bare
    ``java.lang.Exception``, and name it."""
    text = problem.web_message
    bare = problem.exit_code == EXIT_NO_SUCH or isinstance(problem, UsageError | InvalidIdError)
    return _RAISED + text if bare and not text.startswith(_RAISED) else text


def web_name(problem: YoppError) -> str:
    """The exception that YARN's web services would name: one for everything that is not found, one for every
    malformed id or argument."""
    if problem.exit_code == EXIT_NO_SUCH:
        return "NotFoundException"
    if isinstance(problem, UsageError | InvalidIdError):
        return "BadRequestException"
    return problem.exception


def resource_document(resource: Resource) -> dict[str, Any]:
    """A ResourceInfo."""
    return {
        "memory": resource.memory,
        "vCores": resource.vcores,
        "resourceInformations": {
            "resourceInformation": [
                _information("memory-mb", "Mi", resource.memory),
                _information("vcores", "", resource.vcores),
            ]
        },
    }


def _information(name: str, units: str, value: int) -> dict[str, Any]:
    return {
        "attributes": {},
        "maximumAllocation": 2**63 - 1,
        "minimumAllocation": 0,
        "name": name,
        "resourceType": "COUNTABLE",
        "units": units,
        "value": value,
    }


def metrics(
    info: ClusterInfo,
    applications: Sequence[ApplicationReport],
    nodes: Sequence[NodeReport],
    pending: Resource,
    busy_percent: int,
    assigned_per_second: int,
) -> dict[str, Any]:
    """YARN's answer to ``GET /ws/v1/cluster/metrics``.

    As in YARN, allocated and available count guaranteed containers only; opportunistic ones are under ``yopp``.
    ``pending`` is the size of all that is asked for and not allocated; ``busy_percent`` is how much of a processor the
    ResourceManager's one loop used lately, ``assigned_per_second`` the containers allocated in the last whole second.
    Nothing is ever reserved: what does not fit now is not half given.
    """
    states = Counter(one.state for one in applications)
    running = [node for node in nodes if node.state is NodeState.RUNNING]
    by_state = Counter(node.state for node in nodes)
    available = (info.total - info.used).at_least_zero()
    containers = sum(node.num_containers for node in running)
    failed, killed = states[YarnApplicationState.FAILED], states[YarnApplicationState.KILLED]
    live = info.applications_running + info.applications_pending
    return {
        "clusterMetrics": {
            "appsSubmitted": info.applications_finished + live,
            "appsCompleted": info.applications_finished - failed - killed,
            "appsPending": info.applications_pending,
            "appsRunning": info.applications_running,
            "appsFailed": failed,
            "appsKilled": killed,
            "reservedMB": 0,
            "availableMB": available.memory,
            "allocatedMB": info.used.memory,
            "pendingMB": pending.memory,
            "reservedVirtualCores": 0,
            "availableVirtualCores": available.vcores,
            "allocatedVirtualCores": info.used.vcores,
            "pendingVirtualCores": pending.vcores,
            "containersAllocated": containers,
            "containersReserved": 0,
            "containersPending": sum(one.pending_containers for one in applications),
            "totalMB": info.total.memory,
            "totalVirtualCores": info.total.vcores,
            "utilizedMB": sum(one.node_utilization.memory_bytes for one in running) >> 20,
            "utilizedVirtualCores": round(sum(one.node_utilization.cpu for one in running)),
            "utilizedMBPercent": _mean_percent(running, memory=True),
            "utilizedVirtualCoresPercent": _mean_percent(running, memory=False),
            "rmSchedulerBusyPercent": busy_percent,
            "totalNodes": len(nodes),
            "lostNodes": by_state[NodeState.LOST],
            "unhealthyNodes": by_state[NodeState.UNHEALTHY],
            "decommissioningNodes": by_state[NodeState.DECOMMISSIONING],
            "decommissionedNodes": by_state[NodeState.DECOMMISSIONED],
            "rebootedNodes": by_state[NodeState.REBOOTED],
            "activeNodes": len(running),
            "shutdownNodes": by_state[NodeState.SHUTDOWN],
            "containerAssignedPerSecond": assigned_per_second,
            # A call is served to its end when it is read, and this one is no exception: nothing can wait here.
            "rmEventQueueSize": 0,
            "schedulerEventQueueSize": 0,
            "totalUsedResourcesAcrossPartition": resource_document(info.used),
            "totalClusterResourcesAcrossPartition": resource_document(info.total),
            "totalReservedResourcesAcrossPartition": resource_document(Resource()),
            "totalAllocatedContainersAcrossPartition": containers,
            "crossPartitionMetricsAvailable": True,
            "yopp": {
                "containersRunning": info.containers_running,
                "containersQueued": info.containers_queued,
                "containersPaused": info.containers_paused,
                "opportunistic": opportunistic_totals(running),
            },
        }
    }


def opportunistic_totals(nodes: Sequence[NodeReport]) -> dict[str, int]:
    """What opportunistic containers have of these nodes."""
    return {
        "running": sum(node.opportunistic.running for node in nodes),
        "queued": sum(node.opportunistic.queued for node in nodes),
        "paused": sum(node.opportunistic.paused for node in nodes),
        "memoryMB": sum(node.opportunistic.memory_used for node in nodes),
        "vcores": sum(node.opportunistic.vcores_used for node in nodes),
    }


def _mean_percent(nodes: Sequence[NodeReport], *, memory: bool) -> int:
    """Measured use over the nodes' own totals, in percent."""
    if memory:
        used = sum(node.node_utilization.memory_bytes for node in nodes) / (1 << 20)
        total: float = sum(node.total.memory for node in nodes)
    else:
        used = sum(node.node_utilization.cpu for node in nodes)
        total = sum(node.total.vcores for node in nodes)
    return round(100 * used / total) if total else 0


def scheduler(queues: Sequence[QueueReport]) -> dict[str, Any]:
    """YARN's answer to ``GET /ws/v1/cluster/scheduler``: the tree of capacity queues from its root, parents first."""
    root = queues[0] if queues else QueueReport("root")
    return {
        "scheduler": {
            "schedulerInfo": {
                **_queue_tree(root, queues),
                "type": "capacityScheduler",
                "schedulerName": "Capacity Scheduler",
                "minimumQueueResourceCalculationMethod": "DefaultResourceCalculator",
            }
        }
    }


def _queue_tree(queue: QueueReport, queues: Sequence[QueueReport]) -> dict[str, Any]:
    """One queue as ``yopp queue status --json`` prints it, its capacities by partition, and those below it."""
    found = queue_view.document(queue)
    partition = {
        key: found[key]
        for key in (
            "capacity",
            "usedCapacity",
            "maxCapacity",
            *(f"absolute{one}Capacity" for one in ("", "Used", "Max")),
        )
    }
    found["numPendingContainers"] = queue.pending_containers
    found["nodeLabels"] = ["*"]
    found["capacities"] = {"queueCapacitiesByPartition": [{"partitionName": "", **partition}]}
    found["resourcesUsed"] = resource_document(queue.used)
    found["resources"] = {
        "resourceUsagesByPartition": [
            {
                "partitionName": "",
                "used": resource_document(queue.used),
                "reserved": resource_document(Resource()),
                "amUsed": resource_document(queue.masters_used),
            }
        ]
    }
    found["minEffectiveCapacity"] = resource_document(queue.guaranteed)
    found["maxEffectiveCapacity"] = resource_document(queue.maximum)
    found["maximumAllocation"] = resource_document(queue.maximum_allocation)
    found["queueAcls"] = {
        "queueAcl": [{"accessType": one.access_type, "accessControlList": one.names} for one in queue.acls]
    }
    if queue.leaf:
        found["AMResourceLimit"] = resource_document(queue.masters_limit)
        found["usedAMResource"] = resource_document(queue.masters_used)
        found["userAMResourceLimit"] = found["AMResourceLimit"]  # masters are limited by queue, not by user
    below = [one for one in queues if one.parent == (queue.path or queue.name) and one is not queue]
    if below:
        found["queues"] = {"queue": [_queue_tree(one, queues) for one in below]}
    return found


def statistics(
    applications: Sequence[ApplicationReport], states: Sequence[YarnApplicationState], kind: str
) -> dict[str, Any]:
    """YARN's answer to ``GET /ws/v1/cluster/appstatistics``. ``kind`` is one application type, or ``*``."""
    counted = Counter(
        one.state for one in applications if kind == "*" or one.application_type.lower() == kind.lower()
    )
    listed = [
        {"state": state.value, "type": kind, "count": counted[state]}
        for state in (states or tuple(YarnApplicationState))
    ]
    return {"appStatInfo": {"statItem": listed}}


def new_application(application_id: str, maximum: Resource) -> dict[str, Any]:
    """YARN's answer to ``POST /ws/v1/cluster/apps/new-application``."""
    return {"application-id": application_id, "maximum-resource-capability": resource_document(maximum)}


def timeout_document(report: ApplicationReport, now_ms: int) -> dict[str, Any]:
    """One AppTimeoutInfo: YARN knows of one kind, LIFETIME."""
    expires = report.timeout_at_ms
    if not expires or report.state in FINAL_STATES:
        return {"type": "LIFETIME", "expiryTime": "UNLIMITED", "remainingTimeInSeconds": -1}
    remaining = max(0, (expires - now_ms) // 1000)
    moment = timestamp(expires).removesuffix("Z") + "+0000"
    return {"type": "LIFETIME", "expiryTime": moment, "remainingTimeInSeconds": remaining}


def container_document(report: ContainerReport, http_address: str, now_ms: int) -> dict[str, Any]:
    """One ContainerInfo of the RM; ``http_address`` is its node's, "" for none."""
    ended = report.state is ContainerState.DONE
    started = report.started_at_ms or report.allocated_at_ms
    base = f"http://{http_address}" if http_address else ""
    return {
        "containerId": report.container_id,
        "allocatedMB": str(report.resource.memory),  # numbers as texts, here alone, as Hadoop writes them
        "allocatedVCores": str(report.resource.vcores),
        "assignedNodeId": report.node_id,
        "priority": str(report.priority),
        "startedTime": str(started),
        "finishedTime": str(report.finished_at_ms),
        "elapsedTime": str(max(0, (report.finished_at_ms or now_ms) - started) if started else 0),
        "diagnosticsInfo": report.diagnostics,
        "logUrl": f"{base}/node/containerlogs/{report.container_id}/{report.user}" if base else "",
        "containerExitStatus": str(report.exit_status),
        "containerState": "COMPLETE" if ended else "RUNNING" if report.started_at_ms else "NEW",
        "nodeHttpAddress": base,
        "nodeId": report.node_id,
        "allocatedResources": {
            "entry": [
                {"key": "memory-mb", "value": str(report.resource.memory)},
                {"key": "vcores", "value": str(report.resource.vcores)},
            ]
        },
        "exposedPorts": "",
        "executionType": report.execution_type.value,
    }


def container_documents(
    reports: Sequence[ContainerReport], http_addresses: dict[str, str], now_ms: int
) -> dict[str, Any]:
    """YARN's answer to ``GET …/appattempts/{attempt}/containers``: as there, a list without an object around it."""
    listed = [container_document(one, http_addresses.get(one.node_id, ""), now_ms) for one in reports]
    return {"container": listed}
