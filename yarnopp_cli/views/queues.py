"""Queues as a table and as a document."""

from __future__ import annotations

from typing import Any

from ..records.reports import QueueReport, QueueUserReport
from .columns import MEGABYTES, NUMBER, STATE, TENTHS, Column, Noun
from .resources import resource_document
from .text import number_of, size_text

COLUMNS: tuple[Column[QueueReport], ...] = (
    Column("queue", "QUEUE", lambda queue: queue.name),
    Column("path", "PATH", lambda queue: queue.path or queue.name, wide=True),
    Column("state", "STATE", lambda queue: queue.state, kind=STATE),
    Column("capacity", "CAPACITY", lambda queue: queue.absolute_capacity, kind=TENTHS),
    Column("maximum", "MAXIMUM", lambda queue: queue.absolute_maximum_capacity, kind=TENTHS),
    Column("used", "USED", lambda queue: queue.used_capacity, kind=TENTHS),
    Column("memory", "MEM", lambda queue: queue.used.memory, kind=MEGABYTES),
    Column("vcores", "VC", lambda queue: queue.used.vcores, kind=NUMBER),
    Column("guaranteed", "VC G'TEED", lambda one: one.guaranteed.vcores, kind=NUMBER, wide=True, ours=True),
    Column("applications", "APPS", lambda queue: queue.applications, kind=NUMBER),
    Column("users", "USERS", lambda queue: len(queue.users), kind=NUMBER),
    Column("pending", "PENDING", lambda queue: queue.pending_containers, kind=NUMBER),
    Column("opportunistic", "OPPORT.", lambda queue: queue.opportunistic_containers, kind=NUMBER, ours=True),
)


def _user(user: QueueUserReport) -> dict[str, Any]:
    return {
        "username": user.user,
        "resourcesUsed": resource_document(user.used),
        "numActiveApplications": user.applications,
        "yopp": {"opportunistic": resource_document(user.opportunistic)},
    }


def document(queue: QueueReport) -> dict[str, Any]:
    """One queue, in the field names of YARN's scheduler document (``CapacitySchedulerLeafQueueInfo``)."""
    return {
        "type": "capacitySchedulerLeafQueueInfo" if queue.leaf else "capacitySchedulerQueueInfo",
        "queueName": queue.name,
        "queuePath": queue.path or queue.name,
        "state": queue.state,
        "capacity": queue.capacity,
        "usedCapacity": queue.used_capacity,
        "maxCapacity": queue.maximum_capacity,
        "absoluteCapacity": queue.absolute_capacity,
        "absoluteMaxCapacity": queue.absolute_maximum_capacity,
        "absoluteUsedCapacity": queue.absolute_used_capacity,
        "numApplications": queue.applications,
        "numActiveApplications": queue.running_applications,
        "numPendingApplications": queue.applications - queue.running_applications,
        "maxApplications": queue.maximum_applications,
        "resourcesUsed": resource_document(queue.used),
        "userLimit": queue.minimum_user_limit_percent,
        "userLimitFactor": queue.user_limit_factor,
        "users": {"user": [_user(user) for user in queue.users]} if queue.users else None,
        "orderingPolicyInfo": queue.ordering_policy,
        "preemptionDisabled": queue.preemption_disabled,
        "pendingContainers": queue.pending_containers,
        "allocatedContainers": queue.containers,
        "reservedContainers": 0,
        "numContainers": queue.containers,
        "maxApplicationsPerUser": queue.maximum_applications,
        "intraQueuePreemptionDisabled": True,
        "defaultNodeLabelExpression": "",
        "defaultPriority": queue.default_priority,
        "queuePriority": 0,
        "isAbsoluteResource": False,
        "isAutoCreatedLeafQueue": False,
        "autoCreateChildQueueEnabled": False,
        "maxApplicationLifetime": queue.maximum_lifetime,
        "defaultApplicationLifetime": queue.default_lifetime,
        "yopp": {
            "parent": queue.parent,
            "guaranteed": resource_document(queue.guaranteed),
            "maximum": resource_document(queue.maximum),
            "pendingGuaranteed": queue.pending_guaranteed,
            "opportunistic": {
                "containers": queue.opportunistic_containers,
                **resource_document(queue.opportunistic),
            },
        },
    }


def fields(queue: QueueReport) -> list[tuple[str, str]]:
    """The output of ``queue status``, in YARN's words."""
    opportunistic = number_of(queue.opportunistic_containers, "container")
    lines = [
        ("Queue Name", queue.name),
        ("Queue Path", queue.path or queue.name),
        ("State", queue.state),
        ("Capacity", f"{queue.capacity:.2f}%"),
        ("Maximum Capacity", f"{queue.maximum_capacity:.2f}%"),
        ("Absolute Capacity", f"{queue.absolute_capacity:.2f}% ({size_text(queue.guaranteed)})"),
        ("Absolute Maximum Capacity", f"{queue.absolute_maximum_capacity:.2f}% ({size_text(queue.maximum)})"),
        ("Current Capacity", f"{queue.used_capacity:.2f}%"),
        ("Used", size_text(queue.used)),
        ("Applications", f"{queue.applications} of {queue.maximum_applications}"),
        ("Pending containers", f"{queue.pending_containers}, {queue.pending_guaranteed} of them guaranteed"),
        ("Opportunistic", f"{opportunistic}, {size_text(queue.opportunistic)}"),
        ("Ordering policy", queue.ordering_policy),
        ("Preemption", "disabled" if queue.preemption_disabled else "enabled"),
    ]
    if queue.leaf:
        factor = "none" if queue.user_limit_factor < 0 else f"{queue.user_limit_factor:g}"
        lines.append(("User limit", f"at least {queue.minimum_user_limit_percent}%, factor {factor}"))
    for user in queue.users:
        used = f"{size_text(user.used)} in {number_of(user.applications, 'application')}"
        lines.append((f"User {user.user}", f"{used}; {size_text(user.opportunistic)} opportunistic"))
    return lines


QUEUES: Noun[QueueReport] = Noun(
    "queue",
    "queues",
    identity=lambda queue: queue.name,
    columns=lambda now_ms: COLUMNS,
    document=lambda queue, now_ms: document(queue),
    fields=lambda queue, now_ms: fields(queue),
    states=("ALL", "RUNNING", "STOPPED", "DRAINING"),
    ours=frozenset({"Opportunistic"}),
)
