"""The ResourceManager's knowledge of a container, and its node's fresher one, as one report. Pure."""

from __future__ import annotations

import dataclasses
from typing import Any

from executor.records import ContainerStatus

from ..records.reports import ContainerReport

_FROM_NODE = frozenset(field.name for field in dataclasses.fields(ContainerStatus)) & frozenset(
    field.name for field in dataclasses.fields(ContainerReport)
) - {"container_id", "application_id", "user", "command", "log_directory"}


def merged(report: ContainerReport, status: ContainerStatus) -> ContainerReport:
    """The RM's report with what the node knows better. Texts the node has none of stay the RM's."""
    changes: dict[str, Any] = {name: getattr(status, name) for name in _FROM_NODE}
    for name in ("command", "log_directory", "user"):
        changes[name] = getattr(status, name) or getattr(report, name)
    changes["diagnostics"] = status.diagnostics or report.diagnostics
    return dataclasses.replace(report, **changes)


def of_node(status: ContainerStatus, node_id: str) -> ContainerReport:
    """A report of what a node alone knows."""
    report = ContainerReport(
        status.container_id, status.application_id, node_id, status.execution_type, status.resource
    )
    return merged(report, status)
