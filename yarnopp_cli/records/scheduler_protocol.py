"""The figures of the ResourceManager's scheduler beside its reports: its counters (the rest of ``/metrics`` and
``/jmx``), and its activities: why each outstanding request is not served now, node by node.
"""

from __future__ import annotations

from executor.light import Record
from executor.records import ExecutionType, Resource

from .explanation import Reason
from .methods import Request

PERCENTILES = (50, 75, 90, 95, 99)
"""The percentiles of waiting times that are published."""


class GetSchedulerFiguresRequest(Request["GetSchedulerFiguresResponse"]):
    """The counters of opportunistic containers, and the requests that are not allocated yet."""


class GetSchedulerFiguresResponse(Record):
    """Counts since the ResourceManager's start; ``pending`` is the total size of the outstanding requests.

    ``percentiles_ms`` has, for each of ``percents``, the percentile of the last waiting times of opportunistic
    requests, in milliseconds; ``waits`` is the number of all waits, ``waited_ms`` their sum. ``assigned_per_second``:
    containers of both types, in the last whole second.
    """

    pending: Resource = Resource()
    allocated: int = 0
    released: int = 0
    node_local: int = 0
    rack_local: int = 0
    off_switch: int = 0
    waits: int = 0
    percents: tuple[int, ...] = ()
    percentiles_ms: tuple[int, ...] = ()
    waited_ms: int = 0
    assigned_per_second: int = 0

    @property
    def live(self) -> int:
        """The number of containers that are allocated and not released yet."""
        return self.allocated - self.released

    def percentiles(self) -> dict[int, int]:
        """Milliseconds by percent."""
        return dict(zip(self.percents, self.percentiles_ms, strict=True))


class NodeActivity(Record):
    """Why a node does not serve a request now. Without a reason, the node could serve it, and another application is
    served first."""

    node_id: str
    reason: Reason | None = None


class RequestActivity(Record):
    """An outstanding request. ``limit`` is the queue or user limit that blocks it."""

    priority: int
    allocation_request_id: int
    execution_type: ExecutionType
    resource: Resource
    outstanding: int
    limit: Reason | None = None
    nodes: tuple[NodeActivity, ...] = ()


class ApplicationActivity(Record):
    """A live application and its requests. ``queues`` are the queue names from the root to its own."""

    application_id: str
    queues: tuple[str, ...]
    priority: int
    requests: tuple[RequestActivity, ...] = ()


class GetActivitiesRequest(Request["GetActivitiesResponse"]):
    """Activities of one application or of all that wait; at one node or at all."""

    application_id: str = ""
    node_id: str = ""


class GetActivitiesResponse(Record):
    """Applications in order of submission. ``at_ms`` is the time of the answer, in epoch milliseconds."""

    applications: tuple[ApplicationActivity, ...]
    at_ms: int
