"""Rates from cumulated times, and rows against what was allocated."""

from __future__ import annotations

from dataclasses import replace

from executor.records import ContainerState, ContainerUsage, ExecutionType, Resource, ResourceUtilization
from yarnopp_cli.records.reports import ContainerReport, NodeReport, NodeState
from yarnopp_cli.views.containers import document as container_document
from yarnopp_cli.views.stats import COLUMNS, Rates, container_stat, document, ended_stat, node_stat

REPORT = ContainerReport(
    "c1", "a1", "n:1", ExecutionType.OPPORTUNISTIC, Resource(512, 2),
    state=ContainerState.RUNNING, started_at_ms=10_000,
    usage=ContainerUsage(cpu_seconds=4.0, memory_bytes=128 << 20, throttled_seconds=0.25, oom_kills=1, sampled_at=14.0),
)  # fmt: skip


def later(cpu: float, at: float) -> ContainerReport:
    return replace(REPORT, usage=replace(REPORT.usage, cpu_seconds=cpu, sampled_at=at))


def test_rates_are_between_two_different_samples() -> None:
    rates = Rates()
    assert rates.cpu(REPORT, 18_000) == 0.5, "the mean since its start, for want of better"
    assert rates.cpu(later(7.0, 16.0), 20_000) == 1.5
    assert rates.cpu(later(7.0, 16.0), 21_000) == 1.5, "the same sample tells nothing new"
    assert rates.cpu(later(6.0, 17.0), 22_000) == 0.0, "never below nothing"
    rates.forget_others([])
    assert rates.cpu(replace(REPORT, started_at_ms=0), 0) == 0.0


def test_what_lasted_no_longer_than_the_node_can_tell_has_a_bounded_mean() -> None:
    usage = ContainerUsage(cpu_seconds=0.0043)
    for lived, percent in ((0, 43.0), (1, 43.0), (10, 43.0), (43, 10.0)):
        ended = replace(REPORT, state=ContainerState.DONE, finished_at_ms=10_000 + lived, usage=usage)
        assert round(ended_stat(ended, 5, "DONE").cpu_percent, 6) == percent
        used = container_document(ended, 20_000)["yopp"]["used"]
        assert (used["cpuSeconds"], used["cpuPercent"]) == (0.004, percent)


def test_rows_and_documents() -> None:
    stat = container_stat(REPORT, 1.0, 5, "RUNNING")
    assert (stat.cpu_percent, stat.of_vcores, stat.of_memory) == (100.0, 50.0, 25.0)
    assert (stat.throttled_ms, stat.oom_kills) == (250, 1)
    node = NodeReport(
        "n:1", NodeState.RUNNING, "unix:/x", total=Resource(1024, 4),
        used=Resource(100, 1), node_utilization=ResourceUtilization(300 << 20, 1.5),
    )  # fmt: skip
    whole = node_stat(node, [stat, stat], 5)
    assert (whole.cpu_percent, whole.of_vcores, whole.rss_mb) == (200.0, 50.0, 256.0)
    found = document(node, whole, [stat])
    assert found["node"]["cpuPercent"] == 150.0 and found["node"]["memUsedMB"] == 300
    assert found["node"]["memTotalMB"] == found["node"]["memoryMB"] == 1024, "for want of the machine's"
    machine = replace(node, node_utilization=replace(node.node_utilization, memory_total_bytes=4096 << 20))
    measured = document(machine, whole, [stat])["node"]
    assert (measured["memTotalMB"], measured["memoryMB"]) == (4096, 1024), "of the same machine as memUsedMB"
    assert set(found["containers"][0]) >= {"id", "type", "cpuPercent", "rssMB", "limitMB", "throttledMs"}
    assert [column.cell(replace(stat, vcores=0)) for column in COLUMNS if column.key == "ofVcores"] == ["-"]
