"""cgroup v2: one group for each container holds all controllers."""

from __future__ import annotations

import contextlib
import os

from ...core.limits import WEIGHT
from ...errors import CgroupError, CgroupWriteError
from ...records import CgroupLimits, ContainerUsage
from .base import (
    CgroupDriver,
    CgroupReport,
    check_name,
    kill_until_empty,
    make_group,
    remove_groups,
    remove_upwards,
)
from .files import UnifiedFiles, at, figures, group_processes, number
from .v1 import rounded_up, unified_freeze
from .weights import GroupWeights, weighed_groups

WANTED = ("cpu", "memory", "pids")
"""The controllers that containers are held by."""


class V2Driver(CgroupDriver):
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
        self._base = base
        self._relative = relative.strip("/")
        self._controllers = tuple(name for name in WANTED if name in controllers)
        self._weaker = weaker
        self._hints = hints
        self.enforces_memory = "memory" in self._controllers
        self._peaks: dict[str, int] = {}

    @property
    def bases(self) -> dict[str, str]:
        """The one directory below which this node's group is made."""
        return {"unified": self._base}

    @property
    def _parent(self) -> str:
        return os.path.join(self._base, self._relative)

    def _group(self, container_id: str) -> str:
        return os.path.join(self._parent, container_id)

    def _files(self, container_id: str) -> UnifiedFiles:
        return at(self._group(container_id), UnifiedFiles)

    def describe(self) -> CgroupReport:
        """The controllers in use."""
        return CgroupReport(
            mode=self.mode,
            controllers=self._controllers,
            locations={"unified": self._parent},
            weaker=self._weaker,
            hints=self._hints,
        )

    def create_parent(self, limits: CgroupLimits | None = None) -> None:
        """Make this node's group, with controllers handed down on every level."""
        try:
            make_group(self._base, self._relative)
        except OSError as error:
            raise CgroupError(
                f"cannot make {error.filename}", because=error.strerror or str(error)
            ) from error
        # A group may use what its parent hands down: every level from the base to ours has to.
        level = self._base
        for name in ["", *self._relative.split("/")]:
            level = os.path.join(level, name) if name else level
            enable_controllers(level, self._controllers)
        if limits is not None:
            self._write(at(self._parent, UnifiedFiles), limits)

    def create(self, container_id: str, limits: CgroupLimits | None) -> tuple[str, ...]:
        """Make its group; one file to join."""
        group = self._group(check_name(container_id))
        try:
            try:
                os.mkdir(group)
            except FileNotFoundError:
                self.create_parent()
                os.mkdir(group)
            except FileExistsError:
                pass
        except OSError as error:
            raise CgroupError(f"cannot make {group}", because=error.strerror or str(error)) from error
        if limits is not None:
            self.set_limits(container_id, limits)
        return (os.path.join(group, "cgroup.procs"),)

    def set_limits(self, container_id: str, limits: CgroupLimits) -> None:
        """Write all limits that the controllers in use know."""
        self._write(self._files(container_id), limits)

    def _write(self, files: UnifiedFiles, limits: CgroupLimits) -> None:
        if "cpu" in self._controllers:
            files.cpu_weight = min(10_000, max(1, limits.cpu_weight))
            if limits.cpu_quota_us is not None or files.cpu_max[0] is not None:
                files.cpu_max = (limits.cpu_quota_us, limits.cpu_period_us)
        if "memory" in self._controllers and (limits.memory_max is not None or files.memory_max is not None):
            files.memory_low = limits.memory_low
            files.memory_max = limits.memory_max
            # Swap is counted apart in v2: without this a container over its limit would go on in swap.
            if files.has("memory.swap.max"):
                files.memory_swap_max = None if limits.memory_max is None else 0
        if "pids" in self._controllers:
            files.pids_max = limits.pids_max

    def processes(self, container_id: str) -> list[int]:
        """All in its group and below."""
        return group_processes(self._group(container_id))

    def usage(self, container_id: str, now: float) -> ContainerUsage:
        """From cpu.stat, memory.current, memory.peak and memory.events."""
        files = self._files(container_id)
        stat = figures(files, "cpu_stat")
        memory = peak = oom_kills = 0
        if "memory" in self._controllers:
            memory, peak = number(files, "memory_current"), number(files, "memory_peak")
            # memory.peak came with Linux 5.19; before that the highest sample has to do.
            peak = self._peaks[container_id] = max(peak, memory, self._peaks.get(container_id, 0))
            oom_kills = figures(files, "memory_events").get("oom_kill", 0)
        return ContainerUsage(
            cpu_seconds=stat.get("usage_usec", 0) / 1e6,
            memory_bytes=memory,
            memory_peak_bytes=peak,
            throttled_seconds=stat.get("throttled_usec", 0) / 1e6,
            oom_kills=oom_kills,
            processes=len(self.processes(container_id)),
            sampled_at=now,
        )

    def cpu_seconds(self, hierarchy: str) -> float | None:
        """From cpu.stat, which every group has."""
        group = os.path.join(self._base, hierarchy.strip("/"))
        return figures(at(group, UnifiedFiles), "cpu_stat").get("usage_usec", 0) / 1e6

    def freeze(self, container_id: str) -> None:
        """By ``cgroup.freeze``; returns once the kernel says that it stands still."""
        unified_freeze(self._group(container_id))

    def thaw(self, container_id: str) -> None:
        """Let it go on."""
        with contextlib.suppress(CgroupWriteError):
            self._files(container_id).freeze = False

    def frozen(self, container_id: str) -> bool:
        """Whether ``cgroup.events`` says so."""
        return figures(self._files(container_id), "events").get("frozen") == 1

    def reclaim(self, container_id: str) -> int | None:
        """By ``memory.reclaim``: the page cache goes, and where there is swap all the rest may go there."""
        if "memory" not in self._controllers:
            return None
        files = self._files(container_id)
        if files.has("memory.swap.max"):
            files.memory_swap_max = None
        # It came with Linux 5.19; EAGAIN is how it says that there was less to be had than was asked for.
        if files.has("memory.reclaim"):
            with contextlib.suppress(CgroupWriteError):
                files.memory_reclaim = number(files, "memory_current")
        limit, lower = files.memory_max, rounded_up(number(files, "memory_current"))
        if limit is not None and lower >= limit:
            return int(limit)
        files.memory_low = 0
        files.memory_max = lower
        return lower

    def kill(self, container_id: str) -> None:
        """By ``cgroup.kill``, and a loop for kernels without it."""
        # cgroup.kill came with Linux 5.14; the loop after it is what finishes on older ones.
        with contextlib.suppress(CgroupWriteError):
            self._files(container_id).kill = True
        kill_until_empty(container_id, lambda: self.processes(container_id))

    def remove(self, container_id: str, wait_seconds: float = 0.0) -> bool:
        """Remove its group and what is below."""
        self._peaks.pop(container_id, None)
        return remove_groups(
            (self._group(check_name(container_id)),), wait_seconds, self.delete_delay_seconds
        )

    def remove_parent(self) -> None:
        """Remove this node's group, and empty levels above it."""
        remove_upwards(self._base, self._relative)

    def weights(self) -> GroupWeights | None:
        """cpu.weight."""
        if "cpu" not in self._controllers:
            return None
        return GroupWeights(weighed_groups(self._base, self._relative, self.hierarchy), "cpu.weight", WEIGHT)

    def stale_groups(self) -> list[str]:
        """Containers that have a group."""
        try:
            return [entry.name for entry in os.scandir(self._parent) if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []

    def path(self, container_id: str) -> str:
        """Its group."""
        return self._group(container_id)


def enable_controllers(group: str, controllers: tuple[str, ...]) -> None:
    """Hand controllers down to the groups below ``group``. CgroupWriteError where it may not or cannot."""
    files = at(group, UnifiedFiles)
    missing = [name for name in controllers if name not in files.subtree_control]
    if missing:
        files.subtree_control = tuple(f"+{name}" for name in missing)
