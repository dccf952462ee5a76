"""What the node's own group, and the groups above it, weigh on the processors. Pure.

A group's weight says what all in it together have beside its neighbours, here processes outside yopp. By default
that is what a single process has, however much runs in it. Sources: Documentation/scheduler/sched-design-CFS.rst,
cgroup-v2.rst (cpu.weight).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .limits import (
    MAXIMUM_SHARES,
    MAXIMUM_WEIGHT,
    OPPORTUNISTIC_SHARES,
    OPPORTUNISTIC_WEIGHT,
    SHARES_PER_VCORE,
    WEIGHT_PER_VCORE,
)


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
