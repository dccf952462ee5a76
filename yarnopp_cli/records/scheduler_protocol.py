"""What the ResourceManager's scheduler tells of itself beyond its reports: its counts (the rest of ``/metrics`` and
``/jmx``), and its activities, which say what keeps each outstanding ask from being served now, node by node.
"""

from __future__ import annotations

from executor.light import Record
from executor.records import ExecutionType, Resource

from .explanation import Reason
from .methods import Request

PERCENTILES = (50, 75, 90, 95, 99)
"""Which percentiles of waiting times are told."""


class GetSchedulerFiguresRequest(Request["GetSchedulerFiguresResponse"]):
    """What was counted of opportunistic containers, and what is asked for and not allocated."""


class GetSchedulerFiguresResponse(Record):
    """Counts since the ResourceManager's start; ``pending`` is the size of all that is asked for.

    ``percents`` and ``percentiles_ms`` go together: of the last waiting times of opportunistic asks, in milliseconds;
    ``waits`` is how many there have been, ``waited_ms`` their sum. ``assigned_per_second``: containers of both types,
    in the last whole second.
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
        """Allocated and not released yet."""
        return self.allocated - self.released

    def percentiles(self) -> dict[int, int]:
        """Milliseconds by percent."""
        return dict(zip(self.percents, self.percentiles_ms, strict=True))


class NodeActivity(Record):
    """Why a node does not serve an ask now; no reason: it could, and it is somebody else's turn."""

    node_id: str
    reason: Reason | None = None


class RequestActivity(Record):
    """An outstanding ask. ``limit`` is that of its queue or user that stands against it."""

    priority: int
    allocation_request_id: int
    execution_type: ExecutionType
    resource: Resource
    outstanding: int
    limit: Reason | None = None
    nodes: tuple[NodeActivity, ...] = ()


class ApplicationActivity(Record):
    """An application that lives, and its asks. ``queues`` are the names from the root's to its own."""

    application_id: str
    queues: tuple[str, ...]
    priority: int
    requests: tuple[RequestActivity, ...] = ()


class GetActivitiesRequest(Request["GetActivitiesResponse"]):
    """Of one application, or of all that wait; at one node, or at all."""

    application_id: str = ""
    node_id: str = ""


class GetActivitiesResponse(Record):
    """In order of submission. ``at_ms`` is when this was so, in epoch milliseconds."""

    applications: tuple[ApplicationActivity, ...]
    at_ms: int
