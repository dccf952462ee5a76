"""Measured use of nodes and containers beside their allocation: rows from two samples of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from executor.light import Record, replace
from executor.records import MIB, ContainerUsage

from ..records.reports import ContainerReport, NodeReport
from .columns import MEGABYTES, NUMBER, PERCENT, SPAN, TENTHS, TIME, Column
from .containers import mean_cores, throttled_ms


class Stat(Record):
    """One measurement. ``cpu`` in cores, memory in MiB; ``kind`` is ``node``, or a container's execution type.

    ``vcores`` and ``memory_mb`` are a container's allocation, or a node's total. ``throttled_ms`` and
    ``oom_kills`` count from the container's start; those of a node are the sums over its live containers.
    """

    t: int
    id: str
    kind: str
    node: str
    cpu: float
    vcores: int
    rss_mb: float
    memory_mb: int
    throttled_ms: int
    oom_kills: int
    state: str = ""

    @property
    def cpu_percent(self) -> float:
        """CPU in percent of one core, as top counts."""
        return 100 * self.cpu

    @property
    def of_vcores(self) -> float | None:
        """CPU in percent of the allocated vcores; None without vcores."""
        return 100 * self.cpu / self.vcores if self.vcores else None

    @property
    def of_memory(self) -> float | None:
        """Memory in percent of the allocation."""
        return 100 * self.rss_mb / self.memory_mb if self.memory_mb else None


class Rates:
    """CPU rates from cumulative times, between the last two different samples of each container."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[ContainerUsage, float]] = {}

    def cpu(self, report: ContainerReport, now_ms: int) -> float:
        """Cores in use by a container; the mean since its start if it was sampled only once."""
        usage = report.usage
        before, rate = self._seen.get(report.container_id, (None, 0.0))
        if before is None:
            rate = mean_cores(report, now_ms - report.started_at_ms)
        elif usage.sampled_at > before.sampled_at:
            rate = (usage.cpu_seconds - before.cpu_seconds) / (usage.sampled_at - before.sampled_at)
        self._seen[report.container_id] = (usage, max(0.0, rate))
        return max(0.0, rate)

    def forget_others(self, live: Iterable[str]) -> None:
        """Forget all containers but these live ones."""
        kept = set(live)
        self._seen = {name: seen for name, seen in self._seen.items() if name in kept}


def container_stat(report: ContainerReport, cpu: float, t: int, state: str) -> Stat:
    """A container's row."""
    usage, size = report.usage, report.resource
    rss, throttled = usage.memory_bytes / MIB, throttled_ms(report)
    about = (t, report.container_id, report.execution_type.value, report.node_id)
    return Stat(*about, cpu, size.vcores, rss, size.memory, throttled, usage.oom_kills, state)


def ended_stat(report: ContainerReport, t: int, state: str) -> Stat:
    """The row of an ended container, from its node's last figures: mean CPU and peak memory."""
    mean = mean_cores(report, report.finished_at_ms - report.started_at_ms)
    found = container_stat(report, mean, t, state)
    return replace(found, rss_mb=report.usage.memory_peak_bytes / MIB)


def node_stat(node: NodeReport, containers: Sequence[Stat], t: int) -> Stat:
    """A node's row: the total use of its containers, and the node's resources."""
    return Stat(
        t,
        node.node_id,
        "node",
        node.node_id,
        sum(one.cpu for one in containers),
        node.total.vcores,
        sum(one.rss_mb for one in containers),
        node.total.memory,
        sum(one.throttled_ms for one in containers),
        sum(one.oom_kills for one in containers),
        node.state.value,
    )


def document(node: NodeReport, stat: Stat, containers: Sequence[Stat]) -> dict[str, Any]:
    """One line of ``yopp stats --json``: a node and its containers at one time. The figures of ``node`` are
    measured on the machine, whose memory is ``memTotalMB``; ``memoryMB`` and ``vcores`` are the node's size,
    ``containers…`` are of its containers.
    """
    utilization = node.node_utilization
    return {
        "t": stat.t,
        "node": {
            "id": node.node_id,
            "cpuPercent": round(100 * utilization.cpu, 1),
            "memUsedMB": utilization.memory_bytes // MIB,
            "memTotalMB": utilization.memory_total_bytes // MIB or node.total.memory,
            "memoryMB": node.total.memory,
            "vcores": node.total.vcores,
            "allocatedMB": node.used.memory + node.opportunistic.memory_used,
            "allocatedVCores": node.used.vcores + node.opportunistic.vcores_used,
            "containersCpuPercent": round(stat.cpu_percent, 1),
            "containersRssMB": round(stat.rss_mb, 1),
        },
        "containers": [_container_document(one) for one in containers],
    }


def _container_document(stat: Stat) -> Mapping[str, Any]:
    return {
        "id": stat.id,
        "type": stat.kind,
        "state": stat.state,
        "cpuPercent": round(stat.cpu_percent, 1),
        "vcores": stat.vcores,
        "rssMB": round(stat.rss_mb, 1),
        "limitMB": stat.memory_mb,
        "throttledMs": stat.throttled_ms,
        "oomKills": stat.oom_kills,
    }


def row_document(stat: Stat) -> dict[str, Any]:
    """A row alone."""
    return {"t": stat.t, "node": stat.node, **_container_document(stat)}


def _share(title: str, key: str, percent: Callable[[Stat], float | None]) -> Column[Stat]:
    """A column of percentages, some of which may be unknown."""

    def value(stat: Stat) -> float | None:
        found = percent(stat)
        return None if found is None else round(found, 1)

    def text(stat: Stat) -> str:
        found = percent(stat)
        return "-" if found is None else f"{found:.0f}%"

    return Column(key, title, value, text, kind=PERCENT)


COLUMNS: tuple[Column[Stat], ...] = (
    Column("t", "TIME", lambda one: one.t, kind=TIME),
    Column("id", "ID", lambda one: one.id),
    Column("type", "TYPE", lambda one: one.kind),
    Column("state", "STATE", lambda one: one.state),
    Column("cpu", "CPU", lambda one: round(one.cpu_percent, 1), kind=TENTHS),
    Column("vcores", "VC", lambda one: one.vcores, kind=NUMBER),
    _share("OF VC", "ofVcores", lambda one: one.of_vcores),
    Column("rss", "RSS", lambda one: round(one.rss_mb, 1), kind=MEGABYTES),
    Column("memory", "MEM", lambda one: one.memory_mb, kind=MEGABYTES),
    _share("OF MEM", "ofMemory", lambda one: one.of_memory),
    Column("throttled", "THROTTLED", lambda one: one.throttled_ms, kind=SPAN),
    Column("oomKills", "OOM", lambda one: one.oom_kills, kind=NUMBER),
    Column("node", "NODE", lambda one: one.node, wide=True),
)
