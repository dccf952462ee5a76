"""What a node remembers of the last minute."""

from __future__ import annotations

from itertools import pairwise

from executor.records import ContainerUsage, ResourceUtilization
from yarnopp_cli.nodemanager.reports import POINTS, UsageTraces


def usage(at: float) -> ContainerUsage:
    return ContainerUsage(cpu_seconds=at / 2, memory_bytes=1000 + int(at), sampled_at=at)


def test_the_last_minute_once_a_second_however_often_is_measured() -> None:
    traces = UsageTraces()
    for quarter in range(4 * 200):
        at = quarter / 4
        traces.sampled({"a": usage(at)}, ResourceUtilization(5000, at), at)
    told = traces.told()
    times = told.containers["a"][::3]
    assert len(times) == POINTS and times[-1] == 199.0
    assert [later - sooner for sooner, later in pairwise(times)] == [1.0] * (POINTS - 1)
    assert told.containers["a"][-3:] == (199.0, 99.5, 1199.0)
    assert len(told.machine) == 3 * POINTS and told.machine[-3:] == (199.0, 199.0, 5000.0)


def test_who_is_measured_no_more_is_forgotten_and_nobody_has_more_than_a_bounded_trace() -> None:
    traces = UsageTraces()
    for second in range(1000):
        usages = {f"c{second // 10}": usage(second), "stays": usage(second)}
        traces.sampled(usages, ResourceUtilization(), second)
        assert len(traces._containers) == 2
        assert all(len(trace) <= 4 * POINTS for trace in traces._containers.values())
    assert set(traces.told().containers) == {"c99", "stays"}
    assert set(traces.told(["c99", "c1"]).containers) == {"c99"}
