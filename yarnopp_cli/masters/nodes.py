"""What a job says of the nodes it runs on: that one went, so that nobody wonders why it waits, and came back.

Pure; a sentence for people, nothing else follows from it: the RM tells what became of the containers.
"""

from __future__ import annotations

from ..records.reports import NodeReport, NodeState


class NodeNews:
    """Remembers which nodes were told to be gone."""

    def __init__(self) -> None:
        self._gone: set[str] = set()

    def sentence(self, report: NodeReport) -> str:
        """What to say of a node that changed; "" for nothing."""
        node_id = report.node_id
        serves = report.connected and report.state is NodeState.RUNNING
        if serves:
            was_gone = node_id in self._gone
            self._gone.discard(node_id)
            return f"node {node_id} is back" if was_gone else ""
        self._gone.add(node_id)
        if report.state is NodeState.RUNNING:
            return (
                f"node {node_id} does not answer: what runs there goes on, what is to start waits; "
                "`yopp up` starts it again"
            )
        if report.state is NodeState.UNHEALTHY:
            return f"node {node_id} is unhealthy, and gets nothing more: {report.health_report}"
        if report.state in (NodeState.DECOMMISSIONING, NodeState.DECOMMISSIONED):
            return f"node {node_id} is drained, and gets nothing more: what runs there goes on"
        return f"node {node_id} is gone: what ran there runs again elsewhere"
