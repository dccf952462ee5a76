"""Why something waits, asked of a running cluster: containers by their node's own figures, the rest of the
ResourceManager.
"""

from __future__ import annotations

import time

from ..explain.explanations import explain_container
from ..explain.snapshot import snapshots
from ..records.client_protocol import GetContainersRequest
from ..records.explanation import Explanation
from .local import YarnClient


def explain(client: YarnClient, identifier: str) -> Explanation:
    """An application, container or node by its full id. Raises the error of what is not there."""
    if not identifier.startswith("container_"):
        return client.explain(identifier)
    # A node's queue moves faster than the ResourceManager is told.
    nodes = client.nodes()
    known = client.containers(GetContainersRequest(finished=True), nodes=nodes)
    report = next((one for one in known if one.container_id == identifier), None)
    if report is None:
        report = client.container(identifier)
    here = snapshots(nodes, known).get(report.node_id)
    return explain_container(report, here, time.time_ns() // 1_000_000)
