"""What a container's cgroup is told: (resource, execution type) -> CgroupLimits.

YARN's numbers (``CGroupsCpuResourceHandlerImpl``, ``CGroupsMemoryResourceHandlerImpl`` and their v2 kin);
they are written nowhere here. And what the node's own group, and the groups above it, weigh on the processors: what
all in it together have beside its neighbours, here processes outside yopp. By default that is what a single process
has, however much runs in it. Sources: Documentation/scheduler/sched-design-CFS.rst, cgroup-v2.rst (cpu.weight).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..records import CgroupLimits, ExecutionType, Resource
from ..settings import ExecutorSettings

SHARES_PER_VCORE = 1024
WEIGHT_PER_VCORE = 100
OPPORTUNISTIC_SHARES = 2
"""The kernel's minimum of cpu.shares: an opportunistic container gets what others leave."""
OPPORTUNISTIC_WEIGHT = 1
MAXIMUM_SHARES = 262_144
MAXIMUM_WEIGHT = 10_000
"""The kernel's bounds of cpu.shares and cpu.weight."""
QUOTA_US = 1_000_000
"""YARN's quota, and the kernel's longest period."""
MINIMUM_US = 1_000
"""The kernel takes no shorter quota and no shorter period."""
OPPORTUNISTIC_SWAPPINESS = 100
MIB = 1 << 20


def cgroup_limits(
    resource: Resource,
    execution_type: ExecutionType,
    settings: ExecutorSettings,
    *,
    node_vcores: int,
    physical_cores: int,
    least_vcores: int = 0,
) -> CgroupLimits:
    """The limits of one container on a node of ``node_vcores`` that stand for ``physical_cores``.

    Where ``memory_enforced`` or ``memory_enabled`` is off, ``memory_max`` is None and nothing about memory is to
    be written. A container that asks for no memory or no vcores has no limit of that kind, for a limit of zero
    would not let it start. A guaranteed one weighs ``least_vcores`` at least.
    """
    guaranteed = execution_type is ExecutionType.GUARANTEED
    shares, weight = OPPORTUNISTIC_SHARES, OPPORTUNISTIC_WEIGHT
    if guaranteed:
        vcores = max(resource.vcores, least_vcores)
        shares = min(max(SHARES_PER_VCORE * vcores, OPPORTUNISTIC_SHARES), MAXIMUM_SHARES)
        weight = min(max(WEIGHT_PER_VCORE * vcores, OPPORTUNISTIC_WEIGHT), MAXIMUM_WEIGHT)
    period, quota = 100_000, None
    if settings.strict_resource_usage and 0 < resource.vcores != node_vcores > 0:
        period, quota = period_and_quota(resource.vcores * physical_cores / node_vcores)
    enforced = settings.memory_enforced and settings.memory_enabled and resource.memory > 0
    protected = int(resource.memory * settings.soft_limit_percentage / 100) if enforced and guaranteed else 0
    return CgroupLimits(
        cpu_shares=shares,
        cpu_weight=weight,
        cpu_quota_us=quota,
        cpu_period_us=period,
        memory_max=resource.memory * MIB if enforced else None,
        memory_low=protected * MIB,
        swappiness=settings.swappiness if guaranteed else OPPORTUNISTIC_SWAPPINESS,
        pids_max=settings.pids_max or None,
    )


def period_and_quota(cores: float) -> tuple[int, int | None]:
    """The CFS period and quota in microseconds that hold a group to ``cores`` cores; quota None for no limit.

    YARN keeps the quota and shortens the period for more than one core. Beyond a thousand cores the period
    would be shorter than the kernel takes, and there is no quota.
    """
    if cores < 1:
        return QUOTA_US, max(int(QUOTA_US * cores), MINIMUM_US)
    period = int(QUOTA_US / cores)
    if period < MINIMUM_US:
        return QUOTA_US, None
    return period, QUOTA_US


@dataclass(frozen=True, slots=True)
class WeightScale:
    """What a vcore weighs, and the least and the most that the kernel takes."""

    per_vcore: int
    least: int
    most: int

    def of_vcores(self, vcores: int) -> int:
        """What a group weighs whose guaranteed containers have so many vcores together; the least for none."""
        return min(max(self.per_vcore * vcores, self.least), self.most)

    def of_groups(self, weights: Iterable[int]) -> int:
        """What a group weighs that holds groups of these weights. Those of the least add nothing: what yields
        does not yield less because there are many of it."""
        return min(max(sum(weight for weight in weights if weight > self.least), self.least), self.most)


SHARES = WeightScale(SHARES_PER_VCORE, OPPORTUNISTIC_SHARES, MAXIMUM_SHARES)
"""v1's cpu.shares."""
WEIGHT = WeightScale(WEIGHT_PER_VCORE, OPPORTUNISTIC_WEIGHT, MAXIMUM_WEIGHT)
"""v2's cpu.weight."""
