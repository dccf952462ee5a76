"""Queues as a table and as a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..records.reports import QueueReport
from .columns import Column
from .text import megabytes

COLUMNS: tuple[Column[QueueReport], ...] = (
    Column("queue", "QUEUE", lambda queue: queue.name),
    Column("state", "STATE", lambda queue: queue.state),
    Column(
        "capacity",
        "CAPACITY",
        lambda queue: queue.capacity,
        lambda queue: f"{queue.capacity:.1f}%",
        numeric=True,
    ),
    Column(
        "maximum",
        "MAXIMUM",
        lambda queue: queue.maximum_capacity,
        lambda queue: f"{queue.maximum_capacity:.1f}%",
        numeric=True,
    ),
    Column(
        "memory",
        "MEM",
        lambda queue: queue.used.memory,
        lambda queue: megabytes(queue.used.memory),
        numeric=True,
    ),
    Column("vcores", "VC", lambda queue: queue.used.vcores, numeric=True),
    Column("applications", "APPS", lambda queue: queue.applications, numeric=True),
    Column("pending", "PENDING", lambda queue: queue.pending_containers, numeric=True),
)


def document(queue: QueueReport) -> dict[str, Any]:
    """One queue, in the field names of YARN's scheduler document."""
    return {
        "queueName": queue.name,
        "state": queue.state,
        "capacity": queue.capacity,
        "maxCapacity": queue.maximum_capacity,
        "numApplications": queue.applications,
        "resourcesUsed": {"memory": queue.used.memory, "vCores": queue.used.vcores},
        "pendingContainers": queue.pending_containers,
    }


def documents(queues: Sequence[QueueReport]) -> dict[str, Any]:
    """All queues."""
    return {"queues": {"queue": [document(queue) for queue in queues]} if queues else None}


def fields(queue: QueueReport) -> list[tuple[str, str]]:
    """What ``queue status`` prints, in YARN's words."""
    return [
        ("Queue Name", queue.name),
        ("State", queue.state),
        ("Capacity", f"{queue.capacity:.2f}%"),
        ("Maximum Capacity", f"{queue.maximum_capacity:.2f}%"),
        ("Used", f"{queue.used.memory} MB, {queue.used.vcores} vcores"),
        ("Applications", str(queue.applications)),
        ("Pending containers", str(queue.pending_containers)),
    ]
