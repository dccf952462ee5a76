"""How often a node beats, by how busy it is beside the others (YARN-10475, ``RMNodeImpl``). Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ..settings.resourcemanager import ResourceManagerSettings


def busy_part(cpu: float, vcores: int) -> float:
    """Which part of its vcores a node uses: 0 to 1."""
    return min(1.0, max(0.0, cpu / vcores)) if vcores > 0 else 0.0


def busy_part_of_all(nodes: Iterable[tuple[float, int]]) -> float:
    """The same of several nodes together, each (cores in use, vcores)."""
    cpu, vcores = 0.0, 0
    for used, size in nodes:
        cpu, vcores = cpu + used, vcores + size
    return busy_part(cpu, vcores)


def scaled_interval(settings: ResourceManagerSettings, node: float, cluster: float) -> int:
    """The interval in ms of a node whose busy part is ``node`` where that of all is ``cluster``.

    A node that is busier by a fifth of its vcores beats less often by a fifth times the factor, one that is idler
    more often: it has room to be filled. Within the bounds of min-ms and max-ms.
    """
    default = settings.heartbeat_interval_ms
    if not settings.heartbeat_scaling:
        return default
    difference = node - cluster
    factor = settings.heartbeat_slowdown_factor if difference > 0 else settings.heartbeat_speedup_factor
    wanted = int(default * (1 + difference * factor))
    return min(settings.heartbeat_interval_max_ms, max(settings.heartbeat_interval_min_ms, wanted))
