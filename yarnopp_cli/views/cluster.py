"""The cluster's figures as YARN's documents: ClusterMetricsInfo, CapacitySchedulerInfo, statistics, timeouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from executor.causes import Cause
from executor.hints import Any
from executor.records import ContainerState, OpportunisticContainersStatus, Resource

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
from ..records.times import timestamp
from .resources import entries_document, resource_document

_YARN = "org.apache.hadoop.yarn."
_CLASSES = {
    "NotFoundException": f"{_YARN}webapp.NotFoundException",
    "BadRequestException": f"{_YARN}webapp.BadRequestException",
    "ForbiddenException": f"{_YARN}webapp.ForbiddenException",
    "ConflictException": f"{_YARN}webapp.ConflictException",
    "AuthorizationException": "org.apache.hadoop.security.authorize.AuthorizationException",
    "IllegalArgumentException": "java.lang.IllegalArgumentException",
    "UnsupportedOperationException": "java.lang.UnsupportedOperationException",
}
_RAISED = "java.lang.Exception: "


def error_document(problem: YoppError) -> dict[str, Any]:
    """An error as in YARN's REST bodies, with yopp's own fields under ``yopp``.

    YARN's web services name one exception for everything not found, and one for malformed ids and arguments,
    and state that they raised a plain ``java.lang.Exception``.
    """
    name, message = problem.exception, problem.web_message
    missing, malformed = problem.exit_code == EXIT_NO_SUCH, isinstance(problem, UsageError | InvalidIdError)
    if missing or malformed:
        name = "NotFoundException" if missing else "BadRequestException"
        message = _RAISED + message.removeprefix(_RAISED)
    return {
        "RemoteException": {
            "exception": name,
            "message": message,
            "javaClassName": _CLASSES.get(name, f"{_YARN}exceptions.{name}"),
        },
        "yopp": {
            "exit": problem.exit_code,
            "message": problem.message.removeprefix(_RAISED),
            "because": problem.because,
            "hint": problem.hint,
        },
    }


def usage_document(used: Resource, masters: Resource, **more: Any) -> dict[str, Any]:
    """A ResourcesInfo: the usage of the only partition."""
    found = {"used": resource_document(used), "reserved": resource_document(Resource()), **more}
    partition = {"partitionName": "", **found, "amUsed": resource_document(masters)}
    return {"resourceUsagesByPartition": [partition]}


def logs_link(http_address: str, container_id: str, user: str) -> str:
    """The address of the page of a container's output; "" if its node serves no pages."""
    return f"http://{http_address}/node/containerlogs/{container_id}/{user}" if http_address else ""


def cause_document(cause: Cause | None) -> dict[str, Any] | None:
    """A cause: its kind and its fields that are set; None for none."""
    if cause is None:
        return None
    facts: dict[str, Any] = {
        "by": cause.by,
        "forContainer": cause.for_container,
        "forMemory": cause.for_memory,
        "forResource": cause.for_resource,
        "cores": cause.cores,
        "measured": cause.measured,
        "limit": cause.limit,
        "version": cause.version,
        "text": cause.text,
    }
    return {"kind": cause.kind.value} | {name: value for name, value in facts.items() if value}


_COUNTED = ("Running", "Queued", "Paused")
_NODES_IN = {
    "lostNodes": NodeState.LOST,
    "unhealthyNodes": NodeState.UNHEALTHY,
    "decommissioningNodes": NodeState.DECOMMISSIONING,
    "decommissionedNodes": NodeState.DECOMMISSIONED,
    "rebootedNodes": NodeState.REBOOTED,
    "activeNodes": NodeState.RUNNING,
    "shutdownNodes": NodeState.SHUTDOWN,
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

    As in YARN, allocated and available count guaranteed containers only; opportunistic ones are under
    ``yopp``. ``pending`` is the total size of outstanding requests; ``busy_percent`` is how much of a
    processor the ResourceManager's loop used recently, ``assigned_per_second`` the containers allocated in
    the last whole second. Nothing is ever reserved: resources are not held back for a container that does not
    fit yet.
    """
    states = Counter(one.state.value for one in applications)
    running = [node for node in nodes if node.state is NodeState.RUNNING]
    by_state = Counter(node.state for node in nodes)
    sizes = {
        "reserved": Resource(),
        "available": (info.total - info.used).at_least_zero(),
        "allocated": info.used,
        "pending": pending,
    }
    containers = sum(node.num_containers for node in running)
    return {
        "clusterMetrics": {
            "appsSubmitted": info.applications_finished
            + info.applications_running
            + info.applications_pending,
            "appsCompleted": info.applications_finished - states["FAILED"] - states["KILLED"],
            "appsPending": info.applications_pending,
            "appsRunning": info.applications_running,
            "appsFailed": states["FAILED"],
            "appsKilled": states["KILLED"],
            **{f"{what}MB": size.memory for what, size in sizes.items()},
            **{f"{what}VirtualCores": size.vcores for what, size in sizes.items()},
            "containersAllocated": containers,
            "containersReserved": 0,
            "containersPending": sum(one.pending_containers for one in applications),
            "totalMB": info.total.memory,
            "totalVirtualCores": info.total.vcores,
            **_utilized(running),
            "rmSchedulerBusyPercent": busy_percent,
            "totalNodes": len(nodes),
            **{key: by_state[state] for key, state in _NODES_IN.items()},
            "containerAssignedPerSecond": assigned_per_second,
            # Each call, this one too, is processed completely when it is read: no event waits in a queue.
            **dict.fromkeys(("rmEventQueueSize", "schedulerEventQueueSize"), 0),
            "totalUsedResourcesAcrossPartition": resource_document(info.used),
            "totalClusterResourcesAcrossPartition": resource_document(info.total),
            "totalReservedResourcesAcrossPartition": resource_document(Resource()),
            "totalAllocatedContainersAcrossPartition": containers,
            "crossPartitionMetricsAvailable": True,
            "yopp": {
                **{f"containers{what}": getattr(info, f"containers_{what.lower()}") for what in _COUNTED},
                "opportunistic": opportunistic_totals(one.opportunistic for one in running),
            },
        }
    }


def _utilized(nodes: Sequence[NodeReport]) -> dict[str, int]:
    """The measured use of these nodes' machines, absolute and in percent of the nodes' resources."""
    used_mb = sum(one.node_utilization.memory_bytes for one in nodes) / (1 << 20)
    used_cores = sum(one.node_utilization.cpu for one in nodes)
    total = sum((one.total for one in nodes), Resource())
    return {
        "utilizedMB": int(used_mb),
        "utilizedVirtualCores": round(used_cores),
        "utilizedMBPercent": round(100 * used_mb / total.memory) if total.memory else 0,
        "utilizedVirtualCoresPercent": round(100 * used_cores / total.vcores) if total.vcores else 0,
    }


def opportunistic_totals(statuses: Iterable[OpportunisticContainersStatus]) -> dict[str, int]:
    """The containers and resources of nodes' opportunistic containers."""
    every = list(statuses)
    return {
        "running": sum(one.running for one in every),
        "queued": sum(one.queued for one in every),
        "paused": sum(one.paused for one in every),
        "memoryMB": sum(one.memory_used for one in every),
        "vcores": sum(one.vcores_used for one in every),
    }


def opportunistic_size(statuses: Iterable[OpportunisticContainersStatus]) -> Resource:
    """The resources that opportunistic containers hold on nodes, of every type."""
    return sum((Resource(one.memory_used, one.vcores_used, one.others_used) for one in statuses), Resource())


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
    """One queue as ``yopp queue status --json`` prints it, with its capacities by partition, and its child
    queues.
    """
    from . import queues as queue_view

    found = queue_view.document(queue)
    capacities = ("capacity", "usedCapacity", "maxCapacity")
    absolute = ("absoluteCapacity", "absoluteUsedCapacity", "absoluteMaxCapacity")
    partition = {"partitionName": "", **{key: found[key] for key in (*capacities, *absolute)}}
    found["numPendingContainers"] = queue.pending_containers
    found["nodeLabels"] = ["*"]
    found["capacities"] = {"queueCapacitiesByPartition": [partition]}
    found["resourcesUsed"] = resource_document(queue.used)
    found["resources"] = usage_document(queue.used, queue.masters_used)
    found["minEffectiveCapacity"] = resource_document(queue.guaranteed)
    found["maxEffectiveCapacity"] = resource_document(queue.maximum)
    found["maximumAllocation"] = resource_document(queue.maximum_allocation)
    acls = [{"accessType": one.access_type, "accessControlList": one.names} for one in queue.acls]
    found["queueAcls"] = {"queueAcl": acls}
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
    every = kind == "*"
    counted = Counter(
        one.state for one in applications if every or one.application_type.lower() == kind.lower()
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
        "allocatedMB": str(report.resource.memory),  # numbers as strings, only here, as Hadoop writes them
        "allocatedVCores": str(report.resource.vcores),
        "assignedNodeId": report.node_id,
        "priority": str(report.priority),
        "startedTime": str(started),
        "finishedTime": str(report.finished_at_ms),
        "elapsedTime": str(max(0, (report.finished_at_ms or now_ms) - started) if started else 0),
        "diagnosticsInfo": report.diagnostics,
        "logUrl": logs_link(http_address, report.container_id, report.user),
        "containerExitStatus": str(report.exit_status),
        "containerState": "COMPLETE" if ended else "RUNNING" if report.started_at_ms else "NEW",
        "nodeHttpAddress": base,
        "nodeId": report.node_id,
        "allocatedResources": entries_document(
            report.resource.memory, report.resource.vcores, report.resource.others
        ),
        "exposedPorts": "",
        "executionType": report.execution_type.value,
    }


def container_documents(
    reports: Sequence[ContainerReport], http_addresses: dict[str, str], now_ms: int
) -> dict[str, Any]:
    """YARN's answer to ``GET …/appattempts/{attempt}/containers``: as in YARN, a list that no object
    encloses.
    """
    listed = [container_document(one, http_addresses.get(one.node_id, ""), now_ms) for one in reports]
    return {"container": listed}
