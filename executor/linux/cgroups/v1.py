"""cgroup v1: one hierarchy for each controller. A host with a bare v2 mount beside them is called hybrid.

Limits and figures use v1. Where the v2 mount (which has no controllers on such a host) can be written,
freezing and killing use it: a freeze is confirmed in a tenth of a millisecond, and its kill needs no loop.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable

from ...core.limits import SHARES
from ...errors import CgroupError, CgroupUnavailableError, CgroupWriteError
from ...records import CgroupLimits
from . import files as kernel
from .base import CPU, MEMORY, PIDS, UNIFIED, GroupDriver, differ, rounded_up
from .files import UNLIMITED, at, number
from .gauges import Gauge, Gauges
from .weights import GroupWeights, weighed_groups

LOG = logging.getLogger(__name__)


class V1Driver(GroupDriver):
    """Containers in v1 hierarchies."""

    def __init__(
        self,
        bases: dict[str, str],
        relative: str,
        *,
        weaker: tuple[str, ...] = (),
        hints: tuple[str, ...] = (),
    ) -> None:
        super().__init__(bases, relative, weaker=weaker, hints=hints)
        self._has_unified = UNIFIED in bases
        self._has_freezer = "freezer" in bases
        self.mode = "hybrid" if self._has_unified else "v1"
        self.enforces_memory = "memory" in bases
        self.can_freeze = self._has_unified or self._has_freezer

    def _prepare_parent(self) -> None:
        if "memory" in self._bases:
            memory = at(self._parents["memory"], kernel.MemoryFiles)
            # Older kernels count the cgroups below only if use_hierarchy is set; newer ones always do, and
            # refuse the write.
            if memory.has("memory.use_hierarchy") and not number(memory, "use_hierarchy"):
                with contextlib.suppress(CgroupWriteError):
                    memory.use_hierarchy = True

    def _join_file(self, group: str) -> str:
        """A shell is one thread, and joins v1 cgroups by ``tasks``: the kernel need not delay all forks and exits of
        the host, and a join takes 0.1 ms instead of the 7 ms and more of ``cgroup.procs`` (Linux 6.18)."""
        in_unified = self._has_unified and os.path.dirname(group) == self._parents[UNIFIED]
        return "cgroup.procs" if in_unified else "tasks"

    def _write_limits(
        self, group: Callable[[str], str], limits: CgroupLimits, before: CgroupLimits | None = None
    ) -> None:
        if "cpu" in self._bases and differ(CPU, limits, before):
            _write_cpu(at(group("cpu"), kernel.CpuFiles), limits)
        if "memory" in self._bases and differ(MEMORY, limits, before):
            _write_memory(at(group("memory"), kernel.MemoryFiles), limits)
        if "pids" in self._bases and differ(PIDS, limits, before):
            at(group("pids"), kernel.PidsFiles).max = limits.pids_max

    def _gauges(self, group: Callable[[str], str]) -> Gauges:
        def gauge(controller: str, file: str, word: str = "", unit: float = 1.0) -> Gauge | None:
            return Gauge(f"{group(controller)}/{file}", word, unit) if controller in self._bases else None

        return Gauges(
            cpu_seconds=gauge("cpuacct", "cpuacct.usage", unit=1e9)
            or gauge(UNIFIED, "cpu.stat", "usage_usec", 1e6),
            throttled_seconds=gauge("cpu", "cpu.stat", "throttled_time", 1e9),
            memory_bytes=gauge("memory", "memory.usage_in_bytes"),
            memory_peak_bytes=gauge("memory", "memory.max_usage_in_bytes"),
            oom_kills=gauge("memory", "memory.oom_control", "oom_kill"),
            tasks=gauge("pids", "pids.current"),
            refused_forks=gauge("pids", "pids.events", "max"),
        )

    def cpu_seconds(self, hierarchy: str) -> float | None:
        """Read from cpuacct: before Linux 4.15 a bare v2 mount counts nothing."""
        return super().cpu_seconds(hierarchy) if "cpuacct" in self._bases else None

    def _freezer(self, container_id: str) -> kernel.FreezerFiles:
        return at(self._group("freezer", container_id), kernel.FreezerFiles)

    def _freeze(self, container_id: str, seconds: float) -> None:
        if self._has_unified:
            return super()._freeze(container_id, seconds)
        if not self._has_freezer:
            raise CgroupUnavailableError("this host has no writable freezer", hint="pause by SIGSTOP instead")
        files = self._freezer(container_id)
        deadline = time.monotonic() + seconds
        files.state = "FROZEN"
        while files.state != "FROZEN":
            if time.monotonic() > deadline:
                files.state = "THAWED"
                raise CgroupError(
                    f"{container_id} does not freeze", because="a process of it is blocked in the kernel"
                )
            # A partly frozen cgroup continues to freeze only when asked again: the v1 freezer misses
            # processes that fork.
            time.sleep(0.001)
            files.state = "FROZEN"
        return None

    def thaw(self, container_id: str) -> None:
        """Use the v2 mount if there is one, else the v1 freezer."""
        if self._has_unified:
            super().thaw(container_id)
        elif self._has_freezer:
            with contextlib.suppress(CgroupWriteError):
                self._freezer(container_id).state = "THAWED"

    def frozen(self, container_id: str) -> bool:
        """Whether the freezer in use reports the cgroup as frozen."""
        if self._has_unified:
            return super().frozen(container_id)
        try:
            return self._has_freezer and bool(self._freezer(container_id).state != "THAWED")
        except OSError:
            return False

    def reclaim(self, container_id: str) -> int | None:
        """Write ``memory.force_empty``, which drops the page cache. Anonymous memory stays, because v1 counts
        it together with swap."""
        if "memory" not in self._bases:
            return None
        files = at(self._group("memory", container_id), kernel.MemoryFiles)
        self._limits_change(container_id)
        with contextlib.suppress(CgroupWriteError):
            files.force_empty = 0
        limit = number(files, "limit_in_bytes")
        lower = rounded_up(number(files, "usage_in_bytes"))
        if lower >= limit:
            return limit
        files.limit_in_bytes = lower
        return lower

    def kill(self, container_id: str) -> None:
        """Use v2's ``cgroup.kill`` if possible, else freeze, kill and thaw, until all hierarchies are empty."""
        if self._has_freezer and not self._has_unified and container_id not in self._lent:
            self._kill_frozen(container_id)
        else:
            super().kill(container_id)

    def weights(self) -> GroupWeights | None:
        """The weights in cpu.shares."""
        if "cpu" not in self._bases:
            return None
        groups = weighed_groups(self._bases["cpu"], self._relative, self.hierarchy)
        return GroupWeights(groups, "cpu.shares", SHARES, os.cpu_count() or 1)

    def path(self, container_id: str) -> str:
        """The container's cgroup in the memory hierarchy."""
        first = next((name for name in ("memory", "cpu") if name in self._bases), next(iter(self._bases)))
        return self._group(first, container_id)


def _write_cpu(files: kernel.CpuFiles, limits: CgroupLimits) -> None:
    files.shares = max(2, limits.cpu_shares)
    if limits.cpu_quota_us is None:
        if number(files, "cfs_quota_us") > 0:
            files.cfs_quota_us = -1
        return
    # Quota and period are two files, and the pair must be valid at each moment: remove the quota first.
    files.cfs_quota_us = -1
    files.cfs_period_us = limits.cpu_period_us
    files.cfs_quota_us = limits.cpu_quota_us


def _write_memory(files: kernel.MemoryFiles, limits: CgroupLimits) -> None:
    current = number(files, "limit_in_bytes")
    if limits.memory_max is None and current >= UNLIMITED:
        return
    wanted = -1 if limits.memory_max is None else limits.memory_max
    swap_counted = files.has("memory.memsw.limit_in_bytes")
    raising = wanted < 0 or wanted > current
    # The kernel requires memory <= memory+swap at each moment: raise the outer one first, lower the inner one first.
    if swap_counted and raising:
        files.memsw_limit_in_bytes = wanted
    files.limit_in_bytes = wanted
    if swap_counted and not raising:
        files.memsw_limit_in_bytes = wanted
    for attribute, value in (("soft_limit_in_bytes", limits.memory_low), ("swappiness", limits.swappiness)):
        # These are only advice, which some kernels refuse (no soft limit under PREEMPT_RT): a failure is ignored.
        try:
            setattr(files, attribute, value)
        except CgroupWriteError as error:
            LOG.debug("%s", error)
