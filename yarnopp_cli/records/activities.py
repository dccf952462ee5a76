"""What stands against each outstanding ask now, node by node: YARN's scheduler activities. Plain data."""

from __future__ import annotations

from executor.light import dataclass
from executor.records import ExecutionType, Resource

from .explanation import Reason


@dataclass(frozen=True, slots=True)
class NodeActivity:
    """Why a node does not serve an ask now; no reason: it could, and it is somebody else's turn."""

    node_id: str
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class RequestActivity:
    """An outstanding ask. ``limit`` is that of its queue or user that stands against it."""

    priority: int
    allocation_request_id: int
    execution_type: ExecutionType
    resource: Resource
    outstanding: int
    limit: Reason | None = None
    nodes: tuple[NodeActivity, ...] = ()


@dataclass(frozen=True, slots=True)
class ApplicationActivity:
    """An application that lives, and its asks. ``queues`` are the names from the root's to its own."""

    application_id: str
    queues: tuple[str, ...]
    priority: int
    requests: tuple[RequestActivity, ...] = ()


@dataclass(frozen=True, slots=True)
class GetActivitiesRequest:
    """Of one application, or of all that wait; at one node, or at all."""

    application_id: str = ""
    node_id: str = ""


@dataclass(frozen=True, slots=True)
class GetActivitiesResponse:
    """In order of submission. ``at_ms`` is when this was so, in epoch milliseconds."""

    applications: tuple[ApplicationActivity, ...]
    at_ms: int


METHODS: dict[str, tuple[type, type]] = {
    "getActivities": (GetActivitiesRequest, GetActivitiesResponse),
}
"""Method -> (request, response)."""
