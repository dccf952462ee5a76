"""The ResourceManager's knowledge of a container, and its node's fresher one, as one report. Pure."""

from __future__ import annotations

from dataclasses import replace

from executor.records import ContainerStatus

from ..records.reports import ContainerReport


def merged(report: ContainerReport, status: ContainerStatus) -> ContainerReport:
    """The RM's report with what the node knows better. Texts the node has none of stay the RM's."""
    facts = status.facts()
    for name in ("command", "log_directory", "user", "diagnostics"):
        facts[name] = facts[name] or getattr(report, name)
    return replace(
        report,
        state=status.state,
        execution_type=status.execution_type,
        resource=status.resource,
        **facts,
    )


def of_node(status: ContainerStatus, node_id: str) -> ContainerReport:
    """A report of what a node alone knows."""
    report = ContainerReport(
        status.container_id, status.application_id, node_id, status.execution_type, status.resource
    )
    return merged(report, status)
