"""``yopp run --exclusive``: a container that takes all resources of its node."""

from __future__ import annotations

from collections.abc import Iterable

from executor.hints import TYPE_CHECKING
from executor.light import replace
from executor.records import Resource

from ...errors import ConnectionFailedError, NodeNotFoundError, UsageError
from ...jobs.client import JobClient
from ...records.client_protocol import GetClusterInfoRequest, GetClusterNodesRequest
from ...records.reports import NodeReport, NodeState
from ...records.requests import ANY
from .running import MINIMUM_MB

if TYPE_CHECKING:
    from ..frame.session import Session
    from .on_yarn import YarnJobs


def size_of_node(
    session: Session, client: JobClient | YarnJobs, name: str, memory: int | None, vcores: int | None
) -> Resource:
    """The size of a container that takes all of a node: of ``name``, or of the largest. Raises YoppError."""
    if memory is not None or vcores is not None:
        raise UsageError.exclusive(
            "--exclusive and a size",
            "an exclusive container gets all of its node",
            hint="leave out either --memory and --vcores, or --exclusive",
        )
    assert isinstance(client, JobClient), "a YARN cluster is refused before"
    try:
        if session.dry_run:
            nodes, info = session.client.nodes(), session.client.cluster_info()
        else:
            connection = client.open()
            nodes = connection.call(GetClusterNodesRequest()).nodes
            info = connection.call(GetClusterInfoRequest())
    except ConnectionFailedError:
        if not session.dry_run:
            raise
        return _size_in_own_cluster(session)
    found = largest(nodes, name, int(info.properties.get(MINIMUM_MB, "1024")))
    if found is None:
        client.abandon()
        raise NodeNotFoundError(
            "no node is available for --exclusive",
            because="none is running" + ("" if name == ANY else f" that is {name}"),
            hint="yopp node list -a",
        )
    return found


def largest(nodes: Iterable[NodeReport], name: str, step_mb: int) -> Resource | None:
    """The largest container that the largest running node can hold, among the nodes with this ``name`` if it is not
    ANY; sizes are rounded up to ``step_mb``. None if no such node is running."""
    fitting = [one.total for one in nodes if one.state is NodeState.RUNNING and admits(name, one.node_id)]
    if not fitting:
        return None
    total = max(fitting, key=lambda one: (one.vcores, one.memory))
    return _rounded(total, step_mb)


def admits(name: str, node_id: str) -> bool:
    """Whether a node may serve requests for ``name``: ANY, its id, its host, or an end of its id."""
    return name in (ANY, node_id, node_id.rpartition(":")[0]) or (name != ANY and node_id.endswith(name))


def _rounded(total: Resource, step_mb: int) -> Resource:
    memory = max(total.memory // max(1, step_mb) * step_mb, min(total.memory, step_mb))
    return replace(total, memory=memory)


def _size_in_own_cluster(session: Session) -> Resource:
    """All resources of a node of the cluster that the job would start for itself. Raises YoppError."""
    from ...cluster.capacity import NodeSizeRequest, plan_capacity
    from ...settings.declarations import ResourceManagerSettings

    (node,) = plan_capacity(session.configuration, NodeSizeRequest()).nodes
    return _rounded(node, session.configuration.settings(ResourceManagerSettings).minimum_allocation_mb)
