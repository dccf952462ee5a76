"""ResourceManagerAdministrationProtocol: the calls of administrators to the ResourceManager (YARN's protocol of that
name).

With ``dry_run`` nothing is changed: the answer describes the result the call would have.
"""

from __future__ import annotations

from executor.light import Record
from executor.records import Resource

from .methods import Request
from .reports import NodeReport, QueueReport

SMALLEST_NODE_MB = 32
"""A node with less memory than this cannot hold a useful container."""


class DrainNodesRequest(Request["NodesResponse"]):
    """Allocate no more containers on these nodes and let their containers end; the empty nodes are DECOMMISSIONED.

    Containers still running after ``timeout_ms`` are killed; -1 waits for ever, 0 kills at once (YARN's plain
    decommission).
    """

    node_ids: tuple[str, ...]
    timeout_ms: int = -1
    dry_run: bool = False


class NodesResponse(Record):
    """The nodes as they are now. ``containers`` is the number of live containers on the nodes being drained.
    ``warnings`` of a resize are for its user, a line each.
    """

    nodes: tuple[NodeReport, ...]
    containers: int = 0
    warnings: tuple[str, ...] = ()


class ResumeNodesRequest(Request["NodesResponse"]):
    """Allocate on these drained or draining nodes again (YARN's recommission)."""

    node_ids: tuple[str, ...]
    dry_run: bool = False


class UpdateNodeResourceRequest(Request["NodesResponse"]):
    """Change the sizes of nodes, by their ids, until the NodeManagers' processes end: all of them, or none.

    Resources that opportunistic containers hold beyond the new size are reclaimed; guaranteed containers are not
    affected. More memory than the host has is refused.
    """

    sizes: dict[str, Resource]
    dry_run: bool = False


class QueueProperty(Record):
    """One property of the queues: its full name, its value as text, and the source of the value."""

    name: str
    value: str
    origin: str = ""


class RefreshQueuesRequest(Request["RefreshQueuesResponse"]):
    """Set up the queues from these properties (``refreshQueues``): all properties whose names begin with
    ``yarn.scheduler.capacity.``. A property that is not included has its default.
    """

    properties: tuple[QueueProperty, ...] = ()
    dry_run: bool = False


class RefreshQueuesResponse(Record):
    """``queues`` as they are now, parents first; and the paths of the added, removed and changed queues.

    ``request`` is the request answered: the daemon keeps it for its next start.
    """

    queues: tuple[QueueReport, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    request: RefreshQueuesRequest = RefreshQueuesRequest()
