"""Why something waits, asked of a running cluster: containers by their node's own figures, the rest of the
ResourceManager.
"""

from __future__ import annotations

import time

from ..explain.containers import NodeSight, explain_container
from ..records.client_protocol import GetContainersRequest
from ..records.explanation import Explanation
from .local import YarnClient


def explain(client: YarnClient, identifier: str) -> Explanation:
    """An application, container or node by its full id. Raises the error of what is not there."""
    if not identifier.startswith("container_"):
        return client.explain(identifier)
    # A node's queue moves faster than the ResourceManager is told.
    every = client.nodes()
    known = client.containers(GetContainersRequest(finished=True), nodes=every)
    report = next((one for one in known if one.container_id == identifier), None)
    if report is None:
        report = client.container(identifier)
    node = next((one for one in every if one.node_id == report.node_id), None)
    sight = None
    if node is not None:
        here = [one for one in known if one.node_id == node.node_id and one.finished_at_ms == 0]
        sight = NodeSight(node, here, [one for one in known if one.finished_at_ms])
    return explain_container(report, sight, time.time_ns() // 1_000_000)
