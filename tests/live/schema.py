"""Shapes of JSON documents, written as Python: what user-experience promises of each command.

A shape is a type, a tuple of shapes (any of them), ``None``, a list with one shape (each element), or a dict of keys
that have to be there (others may be there too). A text is that very text.
"""

from __future__ import annotations

from typing import Any

NUMBER = (int, float)

RESOURCE = {"memory": int, "vCores": int}
NODE = {
    **dict.fromkeys(
        ("rack", "state", "id", "nodeHostName", "nodeHTTPAddress", "version", "healthReport"), str
    ),
    **dict.fromkeys(
        (
            "lastHealthUpdate", "numContainers", "usedMemoryMB", "availMemoryMB", "usedVirtualCores",
            "availableVirtualCores", "numRunningOpportContainers", "usedMemoryOpportGB",
            "usedVirtualCoresOpport", "numQueuedContainers",
        ),
        int,
    ),
    "memUtilization": NUMBER,
    "cpuUtilization": NUMBER,
    "nodeLabels": [str],
    "usedResource": RESOURCE,
    "availableResource": RESOURCE,
    "totalResource": RESOURCE,
    "resourceUtilization": dict.fromkeys(
        (
            "nodePhysicalMemoryMB", "nodeVirtualMemoryMB", "nodeCPUUsage", "aggregatedContainersPhysicalMemoryMB",
            "aggregatedContainersVirtualMemoryMB", "containersCPUUsage",
        ),
        NUMBER,
    ),
    "yopp": {
        "usedMemoryOpportMB": int,
        "queueLimit": int,
        "estimatedQueueWaitMs": int,
        "paused": int,
        "cpuPercent": NUMBER,
        "memPercent": NUMBER,
        "load1": (float, int, None),
    },
}  # fmt: skip
APP = {
    **dict.fromkeys(
        (
            "id", "user", "name", "queue", "state", "finalStatus", "trackingUI", "trackingUrl", "diagnostics",
            "applicationType", "applicationTags", "priority", "amContainerLogs", "amHostHttpAddress", "amRPCAddress",
            "masterNodeId", "logAggregationStatus", "appNodeLabelExpression", "amNodeLabelExpression",
        ),
        str,
    ),
    **dict.fromkeys(
        (
            "clusterId", "startedTime", "launchTime", "finishedTime", "elapsedTime", "allocatedMB", "allocatedVCores",
            "reservedMB", "reservedVCores", "runningContainers", "memorySeconds", "vcoreSeconds",
            "preemptedResourceMB", "preemptedResourceVCores", "numNonAMContainerPreempted", "numAMContainerPreempted",
            "preemptedMemorySeconds", "preemptedVcoreSeconds",
        ),
        int,
    ),
    **dict.fromkeys(("progress", "queueUsagePercentage", "clusterUsagePercentage"), NUMBER),
    "resourceSecondsMap": {"entry": [{"key": str, "value": str}]},
    "preemptedResourceSecondsMap": {"entry": [{"key": str, "value": str}]},
    "resourceRequests": [
        {"priority": int, "resourceName": str, "numContainers": int, "capability": RESOURCE,
         "executionTypeRequest": {"executionType": str, "enforceExecutionType": bool}}
    ],
    "resourceInfo": (None, {"resourceUsagesByPartition": [{"partitionName": str, "used": RESOURCE}]}),
    "timeouts": {"timeout": [{"type": "LIFETIME", "expiryTime": str, "remainingTimeInSeconds": int}]},
    "unmanagedApplication": bool,
    "yopp": {
        "containers": dict.fromkeys(("queued", "running", "paused", "done", "failed", "preempted"), int),
        "exit": (int, None),
        "opportunistic": {"asked": int, "allocated": int, "promoted": int},
    },
}  # fmt: skip
CONTAINER = {
    "id": str,
    "state": ("NEW", "SCHEDULED", "RUNNING", "PAUSING", "PAUSED", "RESUMING", "KILLING", "DONE"),
    "exitCode": int,
    "diagnostics": str,
    "user": str,
    "totalMemoryNeededMB": int,
    "totalVCoresNeeded": int,
    "executionType": ("GUARANTEED", "OPPORTUNISTIC"),
    "containerLogsLink": str,
    "nodeId": str,
    "containerLogFiles": [str],
    "yopp": {
        "state": str,
        "app": str,
        "pid": (int, None),
        "command": [str],
        **dict.fromkeys(
            (
                "queuedSince", "startedAt", "finishedAt", "pausedSince", "position", "promotedAt", "preemptions",
                "submittedAt", "eligibleAt", "allocatedAt", "expectedMs",
            ),
            int,
        ),
        **dict.fromkeys(("waitedSinceSubmitMs", "waitedSinceEligibleMs"), (int, None)),
        "cgroup": (str, None),
        "limits": (None, {"cpuQuota": (int, float, None), "cpuShares": (int, None), "memoryMB": (int, None)}),
        "used": {
            **dict.fromkeys(("cpuSeconds", "rssMB", "peakMB"), NUMBER),
            "cpuPercent": (int, float, None),
            "throttledMs": int,
            "oomKills": int,
        },
    },
}  # fmt: skip
QUEUE = {
    **dict.fromkeys(("type", "queueName", "queuePath", "state", "orderingPolicyInfo"), str),
    **dict.fromkeys(("capacity", "usedCapacity", "maxCapacity", "absoluteCapacity", "absoluteUsedCapacity"), NUMBER),
    "numApplications": int,
    "maxApplications": int,
    "resourcesUsed": RESOURCE,
    "users": (None, {"user": [{"username": str}]}),
}  # fmt: skip
ATTEMPT = {"appAttemptId": str, "startTime": int, "finishedTime": int, "containerId": str, "nodeId": str}
CLUSTER = {
    "clusterInfo": {
        "id": int,
        "startedOn": int,
        "state": str,
        "haState": str,
        "resourceManagerVersion": str,
        "yopp": {
            "rm": {"pid": int, "address": str, "run_dir": str},
            "nms": [{"node": str, "pid": (int, None), "address": str, "state": str}],
        },
    }
}
EXPLANATION = {
    "explain": {
        "id": str,
        "kind": ("application", "container", "node"),
        "state": str,
        "since": int,
        "satisfiable": bool,
        "reasons": [
            {"code": str, "resource": str, "needs": int, "free": int, "total": int, "by": [str]},
        ],
        "position": int,
        "queueLength": int,
        "queueLimit": int,
        "estimatedStart": int,
        "estimatedLast": int,
        "estimate": str,
        "outlived": [str],
        **dict.fromkeys(("waitedSinceSubmitMs", "waitedSinceEligibleMs"), (int, None)),
        "actions": [{"command": str, "effect": str}],
    }
}
WAITED = {"wait": [{"id": str, "state": str, "finalStatus": str, "exit": (int, None)}], "exit": int}
LINE = {"id": str, "stream": ("stdout", "stderr"), "t": int, "line": str}
EVENT = {
    **dict.fromkeys(("kind", "node", "app", "container", "why"), str), "seq": int, "t": int, "data": dict,
}  # fmt: skip
STATS = {
    "t": int,
    "node": {"cpuPercent": NUMBER, "memUsedMB": int, "memTotalMB": int},
    "containers": [
        {"id": str, "type": str, "cpuPercent": NUMBER, "rssMB": NUMBER, "limitMB": int, "throttledMs": int}
    ],
}
CHECKS = {
    "checks": [{"name": str, "status": ("ok", "warn", "fail"), "found": str, "why": str, "fix": str}],
    "exit": int,
}
PROPERTY = {
    "name": str,
    "value": (str, bool, int, float),
    "default": (str, bool, int, float),
    "origin": str,
    "type": str,
}
VERSION = {
    "yopp": {**dict.fromkeys(("version", "python", "typer", "engine"), str),
             "cgroup": ("v1", "v2", "hybrid", "none")}
}  # fmt: skip
ERROR = {
    "RemoteException": {"exception": str, "message": str, "javaClassName": str},
    "yopp": {"exit": int, "because": str, "hint": str},
}


def mismatch(value: Any, shape: Any, where: str = "$") -> str:
    """What of ``value`` is not of that shape, "" for nothing."""
    if isinstance(shape, tuple):
        found = [mismatch(value, one, where) for one in shape]
        return (
            "" if "" in found else found[0] if len(shape) == 1 else f"{where}: {value!r} is none of {shape}"
        )
    if shape is None or isinstance(shape, str):
        return "" if value == shape else f"{where}: {value!r} is not {shape!r}"
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{where}: {value!r} is no list"
        found = [mismatch(one, shape[0], f"{where}[{index}]") for index, one in enumerate(value)]
        return next(filter(None, found), "")
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return f"{where}: {value!r} is no object"
        if missing := shape.keys() - value.keys():
            return f"{where}: {', '.join(sorted(missing))} is missing in {value}"
        found = [mismatch(value[key], one, f"{where}.{key}") for key, one in shape.items()]
        return next(filter(None, found), "")
    right = isinstance(value, shape) and not (shape is int and isinstance(value, bool))
    return "" if right else f"{where}: {value!r} is no {shape.__name__}"
