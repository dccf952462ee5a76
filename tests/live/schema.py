"""Shapes of JSON documents, written as Python: what user-experience promises of each command.

A shape is a type, a tuple of shapes (any of them), ``None``, a list with one shape (each element), or a dict of keys
that have to be there (others may be there too). A text is that very text, a compiled pattern what it matches whole, and
a function says whether it is right.
"""

from __future__ import annotations

import re
from typing import Any

NUMBER = (int, float)


def moment(value: Any) -> bool:
    """A time in epoch milliseconds: no seconds, no microseconds."""
    return type(value) is int and 1_500_000_000_000 < value < 4_000_000_000_000


def moment_or_0(value: Any) -> bool:
    """The same, 0 for what has not happened."""
    return (value == 0 and type(value) is int) or moment(value)


def amount(value: Any) -> bool:
    """A number that is not negative."""
    return type(value) in (int, float) and value >= 0


NODE_ID = re.compile(r"[^:]+:\d+")
APP_ID = re.compile(r"application_\d{13}_\d{4,}")
CONTAINER_ID = re.compile(r"container_(e\d+_)?\d{13}_\d{4,}_\d{2,}_\d{6,}")
APP_STATES = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING", "FINISHED", "FAILED", "KILLED")
FINAL = ("UNDEFINED", "SUCCEEDED", "FAILED", "KILLED", "ENDED")
SHOWN = (
    "ALLOCATED", "QUEUED", "LOCALIZING", "LAUNCHING", "RUNNING", "PAUSING", "PAUSED", "RESUMING", "KILLING", "DONE",
    "KILLED",
)  # fmt: skip
TYPES = ("GUARANTEED", "OPPORTUNISTIC")

RESOURCE = {"memory": int, "vCores": int}
SERVICE = {
    **dict.fromkeys(("name", "path", "enabled", "state", "runDir"), str),
    **dict.fromkeys(("installed", "ours", "lingering"), bool),
    "pid": int,
}
NODE = {
    **dict.fromkeys(
        ("rack", "state", "nodeHostName", "nodeHTTPAddress", "version", "healthReport"), str
    ),
    "id": NODE_ID,
    "lastHealthUpdate": moment,
    **dict.fromkeys(
        (
            "numContainers", "usedMemoryMB", "availMemoryMB", "usedVirtualCores",
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
        "usedMemoryOpportMB": amount,
        "queueLimit": int,
        "estimatedQueueWaitMs": int,
        "paused": amount,
        "guaranteedPaused": amount,
        "cpuPercent": amount,
        "memPercent": amount,
        "load1": amount,
    },
}  # fmt: skip
APP = {
    "id": APP_ID,
    "state": APP_STATES,
    "finalStatus": FINAL,
    "startedTime": moment,
    "launchTime": moment_or_0,
    "finishedTime": moment_or_0,
    **dict.fromkeys(
        (
            "user", "name", "queue", "trackingUI", "trackingUrl", "diagnostics",
            "applicationType", "applicationTags", "amContainerLogs", "amHostHttpAddress", "amRPCAddress",
            "masterNodeId", "logAggregationStatus", "appNodeLabelExpression", "amNodeLabelExpression",
        ),
        str,
    ),
    **dict.fromkeys(
        (
            "clusterId", "elapsedTime", "priority", "allocatedMB", "allocatedVCores",
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
        "containers": dict.fromkeys(
            ("queued", "running", "paused", "done", "killed", "failed", "preempted", "shed", "lost"), amount
        ),
        "exit": (int, None),
        "opportunistic": {"asked": amount, "allocated": amount, "promoted": amount},
        "results": str,
    },
}  # fmt: skip
CONTAINER = {
    "id": CONTAINER_ID,
    "state": ("NEW", "SCHEDULED", "RUNNING", "PAUSING", "PAUSED", "RESUMING", "KILLING", "DONE"),
    "exitCode": int,
    "diagnostics": str,
    "user": str,
    "totalMemoryNeededMB": int,
    "totalVCoresNeeded": int,
    "executionType": TYPES,
    "containerLogsLink": str,
    "nodeId": NODE_ID,
    "containerLogFiles": [("stdout", "stderr")],
    "yopp": {
        "state": SHOWN,
        "app": APP_ID,
        "pid": (int, None),
        "command": [str],
        "devices": [str],
        **dict.fromkeys(
            (
                "queuedSince", "startedAt", "finishedAt", "pausedSince", "promotedAt", "submittedAt", "eligibleAt",
                "allocatedAt",
            ),
            moment_or_0,
        ),
        **dict.fromkeys(("position", "preemptions", "expectedMs"), amount),
        "why": [{"code": str, "text": str}],
        **dict.fromkeys(("waitedSinceSubmitMs", "waitedSinceEligibleMs", "task"), (amount, None)),
        "cgroup": (str, None),
        "limits": {"cpuQuota": (int, float, None), "cpuShares": (int, None), "memoryMB": (int, None)},
        "used": dict.fromkeys(
            ("cpuSeconds", "cpuPercent", "rssMB", "peakMB", "throttledMs", "oomKills"), amount
        ),
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
ATTEMPT = {
    "appAttemptId": str,
    "startTime": moment,
    "finishedTime": moment_or_0,
    "containerId": str,
    "nodeId": str,
}
CLUSTER = {
    "clusterInfo": {
        "id": int,
        "startedOn": moment,
        "state": str,
        "haState": str,
        "resourceManagerVersion": str,
        "yopp": {
            "rm": {"pid": int, "address": str, "run_dir": str},
            "nms": [
                {"node": re.compile(r"[^:]+:\d+|nm-\d+"), "pid": (int, None), "address": str, "state": str}
            ],
        },
    }
}
CODES = (
    "NO_VCORES", "NO_MEMORY", "NO_RESOURCE", "BEHIND", "PAUSED_FOR", "PAUSED_BY_PERSON", "QUEUE_CAPACITY", "USER_LIMIT",
    "NO_NODE", "NODE_DRAINING",
    "NODE_UNUSABLE", "TOO_BIG", "AM_PENDING", "NODE_LOST",
)  # fmt: skip
EXPLANATION = {
    "explain": {
        "id": str,
        "kind": ("application", "container", "node"),
        "state": str,
        "since": moment_or_0,
        "satisfiable": bool,
        "reasons": [
            {"code": CODES, "resource": str, "needs": amount, "free": int, "total": amount, "by": [str]},
        ],
        "position": amount,
        "queueLength": amount,
        "queueLimit": int,
        "estimatedStart": moment_or_0,
        "estimatedLast": moment_or_0,
        "estimate": str,
        "deadlineAt": moment_or_0,
        "heldBack": amount,
        "maxRunning": amount,
        "outlived": [str],
        **dict.fromkeys(("waitedSinceSubmitMs", "waitedSinceEligibleMs"), (int, None)),
        "actions": [{"command": str, "effect": str}],
    }
}
WAITED = {
    "wait": [
        {
            "id": (APP_ID, CONTAINER_ID),
            "state": (*APP_STATES, *SHOWN),
            "finalStatus": FINAL,
            "exit": (int, None),
        }
    ],
    "exit": int,
}
LINE = {"id": CONTAINER_ID, "stream": ("stdout", "stderr"), "t": moment, "line": str}
EVENT = {
    **dict.fromkeys(("kind", "node", "app", "container", "why"), str), "seq": int, "t": moment, "data": dict,
}  # fmt: skip
STATS = {
    "t": moment,
    "node": {"id": NODE_ID, "cpuPercent": amount, "memUsedMB": amount, "memTotalMB": amount},
    "containers": [
        {
            "id": CONTAINER_ID,
            "type": TYPES,
            "cpuPercent": amount,
            "rssMB": amount,
            "limitMB": amount,
            "throttledMs": amount,
        }
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
    "origin": re.compile(r".+:\d+|-D|default"),
    "type": ("str", "bool", "int", "float"),
}
VERSION = {
    "yopp": {**dict.fromkeys(("version", "python", "typer", "engine"), str),
             "cgroup": ("v1", "v2", "hybrid", "none")}
}  # fmt: skip
ERROR = {
    "RemoteException": {"exception": str, "message": str, "javaClassName": str},
    "yopp": {"exit": int, "message": str, "because": str, "hint": str},
}


def mismatch(value: Any, shape: Any, where: str = "$") -> str:
    """What of ``value`` is not of that shape, "" for nothing."""
    if isinstance(shape, tuple):
        found = [mismatch(value, one, where) for one in shape]
        return (
            "" if "" in found else found[0] if len(shape) == 1 else f"{where}: {value!r} is none of {shape}"
        )
    if isinstance(shape, re.Pattern):
        right = isinstance(value, str) and shape.fullmatch(value)
        return "" if right else f"{where}: {value!r} does not match {shape.pattern}"
    if callable(shape) and not isinstance(shape, type):
        return "" if shape(value) else f"{where}: {value!r} is no {shape.__name__}"
    if shape is None or (isinstance(shape, str | int) and not isinstance(shape, type)):
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
