"""ResourceManagerAdministrationProtocol: what administrators ask of the ResourceManager (YARN's protocol of that name).

With ``dry_run`` nothing is changed: the answer says what would be.
"""

from __future__ import annotations

from executor.light import Record
from executor.records import Resource

from .methods import Request
from .reports import NodeReport, QueueReport

SMALLEST_NODE_MB = 32
"""A node with less memory than this cannot hold a useful container."""


class DrainNodesRequest(Request["NodesResponse"]):
    """Allocate nothing more on these nodes, and let what they have end; they are DECOMMISSIONED then.

    What still lives after ``timeout_ms`` is ended; -1 waits for ever, 0 ends it at once (YARN's plain decommission).
    """

    node_ids: tuple[str, ...]
    timeout_ms: int = -1
    dry_run: bool = False


class NodesResponse(Record):
    """As they are now. ``containers`` is how many live on those that are drained."""

    nodes: tuple[NodeReport, ...]
    containers: int = 0


class ResumeNodesRequest(Request["NodesResponse"]):
    """Allocate on these drained or draining nodes again (YARN's recommission)."""

    node_ids: tuple[str, ...]
    dry_run: bool = False


class UpdateNodeResourceRequest(Request["NodeReport"]):
    """Give a node another size (``updateNodeResource``), until its process ends.

    What opportunistic containers have beyond it is reclaimed; guaranteed ones are left alone.
    """

    node_id: str
    resource: Resource
    dry_run: bool = False


class QueueProperty(Record):
    """One property of the queues: its full name, its value as text, and where that is from."""

    name: str
    value: str
    origin: str = ""


class RefreshQueuesRequest(Request["RefreshQueuesResponse"]):
    """Have the queues that these properties make (``refreshQueues``): all that begin with
    ``yarn.scheduler.capacity.``; what is not among them has its default.
    """

    properties: tuple[QueueProperty, ...] = ()
    dry_run: bool = False


class RefreshQueuesResponse(Record):
    """``queues`` as they are now, parents first; the paths of those that came, went, or are other than before.

    ``request`` is what was asked: the daemon keeps it for its next life.
    """

    queues: tuple[QueueReport, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    request: RefreshQueuesRequest = RefreshQueuesRequest()
