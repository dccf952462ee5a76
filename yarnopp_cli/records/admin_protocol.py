"""ResourceManagerAdministrationProtocol: what administrators ask of the ResourceManager (YARN's protocol of that name).

With ``dry_run`` nothing is changed: the answer says what would be.
"""

from __future__ import annotations

from executor.light import dataclass
from executor.records import Resource

from .reports import NodeReport


@dataclass(frozen=True, slots=True)
class DrainNodesRequest:
    """Allocate nothing more on these nodes, and let what they have end; they are DECOMMISSIONED then.

    What still lives after ``timeout_ms`` is ended; -1 waits for ever, 0 ends it at once (YARN's plain decommission).
    """

    node_ids: tuple[str, ...]
    timeout_ms: int = -1
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class DrainNodesResponse:
    """As they are now. ``containers`` is how many live on them."""

    nodes: tuple[NodeReport, ...]
    containers: int = 0


@dataclass(frozen=True, slots=True)
class ResumeNodesRequest:
    """Allocate on these drained or draining nodes again (YARN's recommission)."""

    node_ids: tuple[str, ...]
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ResumeNodesResponse:
    """As they are now."""

    nodes: tuple[NodeReport, ...]


@dataclass(frozen=True, slots=True)
class UpdateNodeResourceRequest:
    """Give a node another size (``updateNodeResource``), until its process ends.

    What opportunistic containers have beyond it is reclaimed; guaranteed ones are left alone.
    """

    node_id: str
    resource: Resource
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class UpdateNodeResourceResponse:
    """As it is now, or would be."""

    node: NodeReport


METHODS: dict[str, tuple[type, type]] = {
    "drainNodes": (DrainNodesRequest, DrainNodesResponse),
    "resumeNodes": (ResumeNodesRequest, ResumeNodesResponse),
    "updateNodeResource": (UpdateNodeResourceRequest, UpdateNodeResourceResponse),
}
"""Method -> (request, response)."""
