"""The kernel's limits: (resource, execution type) -> CgroupLimits, and the weights of the cgroups above containers.

YARN's numbers (``CGroupsCpuResourceHandlerImpl``, ``CGroupsMemoryResourceHandlerImpl`` and their v2 counterparts);
nothing is written here. The weight of the node's group, and of those above it, decides the CPU that its containers
together get beside processes outside yopp: by default as much as a single process, regardless of the number of
containers. Sources: Documentation/scheduler/sched-design-CFS.rst, cgroup-v2.rst (cpu.weight).

Decisions: group-weights.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..light import Record
from ..records import MIB, CgroupLimits, ExecutionType, Resource
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
"""The kernel accepts no shorter quota or period."""
OPPORTUNISTIC_SWAPPINESS = 100


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

    If ``memory_enforced`` or ``memory_enabled`` is off, ``memory_max`` is None, and no memory limit is written. A
    container that requests no memory or no vcores has no limit of that kind, because it could not start with a limit
    of zero. A guaranteed container weighs at least ``least_vcores``.
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
        yields=not guaranteed,
    )


def period_and_quota(cores: float) -> tuple[int, int | None]:
    """The CFS period and quota in microseconds that limit a group to ``cores`` cores; quota None for no limit.

    As in YARN, more than one core shortens the period instead of raising the quota. Beyond a thousand cores the period
    would be too short for the kernel, and there is no quota.
    """
    if cores < 1:
        return QUOTA_US, max(int(QUOTA_US * cores), MINIMUM_US)
    period = int(QUOTA_US / cores)
    if period < MINIMUM_US:
        return QUOTA_US, None
    return period, QUOTA_US


class WeightScale(Record):
    """The weight of a vcore, and the least and the greatest weight that the kernel accepts."""

    per_vcore: int
    least: int
    most: int

    def of_vcores(self, vcores: float) -> int:
        """The weight of a group whose guaranteed containers use so many vcores together; the least for none."""
        return min(max(round(self.per_vcore * vcores), self.least), self.most)

    def of_groups(self, weights: Iterable[int], cores: int = 0) -> int:
        """The weight of a group that holds groups of these weights. Those with the least add nothing, so that
        opportunistic containers yield however many they are.

        With ``cores`` it is no more than a process on each of them has, or the largest of these groups alone: several
        clusters do not add up.
        """
        counted = [weight for weight in weights if weight > self.least]
        bound = max(self.per_vcore * cores, *counted, 0) if cores else self.most
        return min(max(min(sum(counted), bound), self.least), self.most)


SHARES = WeightScale(SHARES_PER_VCORE, OPPORTUNISTIC_SHARES, MAXIMUM_SHARES)
"""v1's cpu.shares."""
WEIGHT = WeightScale(WEIGHT_PER_VCORE, OPPORTUNISTIC_WEIGHT, MAXIMUM_WEIGHT)
"""v2's cpu.weight."""
