"""How nodes limit their containers, as far as a client can learn it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from executor.settings import ExecutorSettings

from ..errors import ConnectionFailedError
from ..records.reports import ContainerReport, NodeReport
from ..views.containers import NodeFacts

if TYPE_CHECKING:
    from .local import YarnClient

_STRICT = "yarn.nodemanager.linux-container-executor.cgroups.strict-resource-usage"
_ENFORCED = "yarn.nodemanager.resource.memory.enforced"
_PIDS = "yopp.nodemanager.container.pids-max"


def node_facts(
    client: YarnClient, all_nodes: Sequence[NodeReport], reports: Sequence[ContainerReport]
) -> dict[str, NodeFacts]:
    """How each node of these containers limits them; nodes that do not answer are left out."""
    wanted = {report.node_id for report in reports}
    settings = _executor_settings(client.cluster_info().properties) if wanted else ExecutorSettings()
    facts = {}
    for node in all_nodes:
        if node.node_id not in wanted:
            continue
        try:
            info = client.node_info(node)
        except ConnectionFailedError:
            continue
        facts[node.node_id] = NodeFacts(info.cgroups, info.total, len(os.sched_getaffinity(0)), settings)
    return facts


def _executor_settings(properties: dict[str, str]) -> ExecutorSettings:
    """Those settings that decide about limits, from what the cluster says it was started with."""
    defaults = ExecutorSettings()
    pids = properties.get(_PIDS, "")
    return ExecutorSettings(
        strict_resource_usage=properties.get(_STRICT, str(defaults.strict_resource_usage)).lower() == "true",
        memory_enforced=properties.get(_ENFORCED, str(defaults.memory_enforced)).lower() == "true",
        pids_max=int(pids) if pids.isdecimal() else defaults.pids_max,
    )
