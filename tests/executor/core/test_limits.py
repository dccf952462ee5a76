"""The cgroup values of yarn-behaviour 7.2 and 7.3 and of conformance O."""

from __future__ import annotations

import pytest

from executor.core.limits import cgroup_limits, period_and_quota
from executor.records import CgroupLimits, ExecutionType, Resource
from executor.settings import ExecutorSettings

from .world import G, O

MIB = 1 << 20


def limits(
    vcores: int, kind: ExecutionType, memory: int = 1024, node: int = 8, cores: int = 8, **settings: object
) -> CgroupLimits:
    settings.setdefault("strict_resource_usage", True)
    return cgroup_limits(
        Resource(memory, vcores),
        kind,
        ExecutorSettings(**settings),
        node_vcores=node,
        physical_cores=cores,
    )


@pytest.mark.parametrize(
    ("vcores", "kind", "shares", "weight", "period", "quota"),
    [
        (1, G, 1024, 100, 1_000_000, 1_000_000),
        (2, G, 2048, 200, 500_000, 1_000_000),
        (8, G, 8192, 800, 100_000, None),
        (1, O, 2, 1, 1_000_000, 1_000_000),
        (2, O, 2, 1, 500_000, 1_000_000),
        (8, O, 2, 1, 100_000, None),
    ],
)
def test_cpu_of_conformance_o(
    vcores: int, kind: ExecutionType, shares: int, weight: int, period: int, quota: int | None
) -> None:
    made = limits(vcores, kind)
    assert (made.cpu_shares, made.cpu_weight) == (shares, weight)
    assert (made.cpu_period_us, made.cpu_quota_us) == (period, quota)


def test_weights_stay_within_the_kernels_bounds() -> None:
    assert limits(200, G, node=400).cpu_weight == 10_000
    assert limits(1000, G, node=2000).cpu_shares == 262_144


def test_memory_of_conformance_o() -> None:
    guaranteed, opportunistic = limits(1, G), limits(1, O)
    assert guaranteed.memory_max == opportunistic.memory_max == 1024 * MIB
    assert (guaranteed.memory_low, opportunistic.memory_low) == (921 * MIB, 0)
    assert (guaranteed.swappiness, opportunistic.swappiness) == (0, 100)


def test_settings_of_memory_have_an_effect() -> None:
    made = limits(1, G, soft_limit_percentage=50.0, swappiness=60)
    assert (made.memory_low, made.swappiness) == (512 * MIB, 60)
    free = limits(1, G, memory_enforced=False)
    assert (free.memory_max, free.memory_low) == (None, 0)


def test_a_container_without_memory_or_vcores_has_no_limit_that_would_stop_it() -> None:
    made = limits(0, G, memory=0)
    assert (made.cpu_shares, made.cpu_weight, made.cpu_quota_us) == (2, 1, None)
    assert (made.memory_max, made.memory_low) == (None, 0)


def test_pids() -> None:
    assert limits(1, G).pids_max == 4096
    assert limits(1, G, pids_max=0).pids_max is None


def test_no_quota_unless_strict() -> None:
    assert limits(1, G, strict_resource_usage=False).cpu_quota_us is None


def test_vcores_stand_for_a_part_of_the_cores() -> None:
    half = limits(1, O, node=4, cores=2)
    assert (half.cpu_period_us, half.cpu_quota_us) == (1_000_000, 500_000)


@pytest.mark.parametrize(
    ("cores", "period", "quota"),
    [
        (1.0, 1_000_000, 1_000_000),
        (1.5, 666_666, 1_000_000),
        (0.25, 1_000_000, 250_000),
        (0.0001, 1_000_000, 1_000),
        (1000.0, 1_000, 1_000_000),
        (1001.5, 1_000_000, None),
    ],
)
def test_period_and_quota(cores: float, period: int, quota: int | None) -> None:
    assert period_and_quota(cores) == (period, quota)


def test_a_master_weighs_a_vcore_at_least() -> None:
    def weight(vcores: int, kind: ExecutionType) -> tuple[int, int]:
        made = cgroup_limits(
            Resource(128, vcores), kind, ExecutorSettings(), node_vcores=2, physical_cores=2, least_vcores=1
        )
        return made.cpu_shares, made.cpu_weight

    assert [weight(0, G), weight(3, G), weight(0, O)] == [(1024, 100), (3072, 300), (2, 1)]
