"""cgroup v2: each container has one cgroup for all controllers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from ...core.limits import WEIGHT
from ...errors import CgroupWriteError
from ...light import replace
from ...records import CgroupLimits
from .base import CPU, MEMORY, PIDS, UNIFIED, CgroupReport, GroupDriver, differ, rounded_up
from .files import UnifiedFiles, at, number, root_of
from .gauges import Gauge, Gauges
from .weights import GroupWeights, weighed_groups

WANTED = ("cpu", "memory", "pids")
"""The controllers that limit containers."""


class V2Driver(GroupDriver):
    """Containers in the unified hierarchy, below ``base``, whose subtree may use ``controllers``."""

    mode = "v2"
    can_freeze = True

    def __init__(
        self,
        base: str,
        relative: str,
        controllers: tuple[str, ...],
        *,
        weaker: tuple[str, ...] = (),
        hints: tuple[str, ...] = (),
    ) -> None:
        super().__init__({UNIFIED: base}, relative, weaker=weaker, hints=hints)
        self._base = base
        self._controllers = tuple(name for name in WANTED if name in controllers)
        self.enforces_memory = "memory" in self._controllers

    def describe(self) -> CgroupReport:
        """The controllers in use."""
        return replace(super().describe(), controllers=self._controllers)

    def _prepare_parent(self) -> None:
        # A cgroup may use only the controllers that its parent enables: every level from the base to ours
        # enables them.
        level = self._base
        enable_controllers(level, self._controllers)
        for name in self._relative.split("/"):
            level = os.path.join(level, name)
            enable_controllers(level, self._controllers)

    def _write_limits(
        self, group: Callable[[str], str], limits: CgroupLimits, before: CgroupLimits | None = None
    ) -> None:
        files = at(group(UNIFIED), UnifiedFiles)
        if "cpu" in self._controllers and differ(CPU, limits, before):
            files.cpu_weight = min(10_000, max(1, limits.cpu_weight))
            if limits.cpu_quota_us is not None or files.cpu_max[0] is not None:
                files.cpu_max = (limits.cpu_quota_us, limits.cpu_period_us)
        if (
            "memory" in self._controllers
            and differ(MEMORY, limits, before)
            and (limits.memory_max is not None or files.memory_max is not None)
        ):
            files.memory_low = limits.memory_low
            files.memory_max = limits.memory_max
            # v2 counts swap separately: without this a container over its limit would continue in swap.
            if files.has("memory.swap.max"):
                files.memory_swap_max = None if limits.memory_max is None else 0
        if "pids" in self._controllers and differ(PIDS, limits, before):
            files.pids_max = limits.pids_max

    def _gauges(self, group: Callable[[str], str]) -> Gauges:
        def gauge(controller: str, file: str, word: str = "", unit: float = 1.0) -> Gauge | None:
            return Gauge(f"{path}/{file}", word, unit) if controller in self._controllers else None

        path = group(UNIFIED)
        return Gauges(
            cpu_seconds=Gauge(f"{path}/cpu.stat", "usage_usec", 1e6),  # every cgroup has it
            throttled_seconds=gauge("cpu", "cpu.stat", "throttled_usec", 1e6),
            memory_bytes=gauge("memory", "memory.current"),
            memory_peak_bytes=gauge("memory", "memory.peak"),
            oom_kills=gauge("memory", "memory.events", "oom_kill"),
            tasks=gauge("pids", "pids.current"),
            limit_ooms=gauge("memory", "memory.events", "oom"),
            refused_forks=gauge("pids", "pids.events", "max"),
            peak_of_file=True,
        )

    def reclaim(self, container_id: str) -> int | None:
        """Write ``memory.reclaim``, which drops the page cache and, if there is swap, may swap out all the rest."""
        if "memory" not in self._controllers:
            return None
        files = self._unified(container_id)
        self._limits_change(container_id)
        if files.has("memory.swap.max"):
            files.memory_swap_max = None
        # memory.reclaim came with Linux 5.19; EAGAIN means that less could be reclaimed than was asked for.
        if files.has("memory.reclaim"):
            with contextlib.suppress(CgroupWriteError):
                files.memory_reclaim = number(files, "memory_current")
        limit, lower = files.memory_max, rounded_up(number(files, "memory_current"))
        if limit is not None and lower >= limit:
            return int(limit)
        files.memory_low = 0
        files.memory_max = lower
        return lower

    def weights(self) -> GroupWeights | None:
        """The weights in cpu.weight."""
        if "cpu" not in self._controllers:
            return None
        groups = weighed_groups(self._base, self._relative, self.hierarchy)
        return GroupWeights(groups, "cpu.weight", WEIGHT, os.cpu_count() or 1)

    def path(self, container_id: str) -> str:
        """The container's cgroup."""
        return self._group(UNIFIED, container_id)


def enable_controllers(group: str, controllers: tuple[str, ...]) -> None:
    """Enable controllers for the cgroups below ``group``. Raises CgroupWriteError if the kernel refuses."""
    files = at(group, UnifiedFiles)
    missing = [name for name in controllers if name not in files.subtree_control]
    if not missing:
        return
    try:
        files.subtree_control = tuple(f"+{name}" for name in missing)
    except CgroupWriteError as error:
        inside = files.procs
        if not inside:
            raise
        raise CgroupWriteError(
            error.message,
            because=f"cgroup v2 allows processes only in leaves, and these run in it: {' '.join(map(str, inside))}",
            hint=f"end these processes, or move each of them out: `echo {inside[0]} > {root_of(group)}/cgroup.procs`",
        ) from error
