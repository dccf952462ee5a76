"""cgroup v1: one hierarchy for each controller; with a bare v2 mount beside them, a hybrid host.

Limits and figures come through v1. Where the v2 mount (which has no controllers on such a host) can be
written, freeze and kill go through it: confirmed in a tenth of a millisecond, and its kill needs no loop.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable

from ...core.limits import SHARES
from ...errors import CgroupError, CgroupUnavailableError, CgroupWriteError
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
from .files import (
    CpuAcctFiles,
    CpuFiles,
    FreezerFiles,
    MemoryFiles,
    PidsFiles,
    UnifiedFiles,
    at,
    figures,
    group_processes,
    number,
)
from .weights import GroupWeights, weighed_groups

LOG = logging.getLogger(__name__)

UNIFIED = "unified"
"""The name of the bare v2 mount among the controllers."""

MIB = 1 << 20
FREEZE_SECONDS = 1.8
"""How long a group may take to freeze: its processes do it themselves, once each is given a processor, and what weighs
the least waits for that. Before Linux 6.6 a greater weight helps only those that wait later. Less than the patience of
who asked for it (``PAUSE_PATIENCE``)."""
HOLD_SECONDS = 0.5
"""How long a kill waits for that."""
UNLIMITED = 1 << 60
"""v1 says "no limit" by a number near 2**63, rounded to pages."""


class V1Driver(CgroupDriver):
    """Containers in v1 hierarchies. ``bases`` maps each controller to the directory to make groups below."""

    def __init__(
        self,
        bases: dict[str, str],
        relative: str,
        *,
        weaker: tuple[str, ...] = (),
        hints: tuple[str, ...] = (),
    ) -> None:
        self._bases = dict(bases)
        self._relative = relative.strip("/")
        self._weaker = weaker
        self._hints = hints
        self.mode = "hybrid" if UNIFIED in bases else "v1"
        self.enforces_memory = "memory" in bases
        self.can_freeze = UNIFIED in bases or "freezer" in bases
        # Put together once: it is asked for dozens of times for each container.
        self._parents = {name: os.path.join(base, self._relative) for name, base in self._bases.items()}
        self._unique_parents = tuple(dict.fromkeys(self._parents.values()))

    @property
    def bases(self) -> dict[str, str]:
        """Controller -> directory below which this node's group is made."""
        return dict(self._bases)

    def _parent(self, controller: str) -> str:
        return self._parents[controller]

    def _group(self, controller: str, container_id: str) -> str:
        return f"{self._parents[controller]}/{container_id}"

    def _unique_bases(self) -> list[str]:
        # cpu and cpuacct are one mount on many distributions: one directory, one join.
        return list(dict.fromkeys(self._bases.values()))

    def _groups(self, container_id: str) -> tuple[str, ...]:
        return tuple(f"{parent}/{container_id}" for parent in self._unique_parents)

    def describe(self) -> CgroupReport:
        """The hierarchies in use."""
        return CgroupReport(
            mode=self.mode,
            controllers=tuple(self._bases),
            locations={name: self._parent(name) for name in self._bases},
            weaker=self._weaker,
            hints=self._hints,
        )

    def create_parent(self, limits: CgroupLimits | None = None) -> None:
        """Make this node's group in each hierarchy."""
        try:
            for base in self._unique_bases():
                make_group(base, self._relative)
        except OSError as error:
            raise CgroupError(
                f"cannot make {error.filename}", because=error.strerror or str(error)
            ) from error
        if "memory" in self._bases:
            memory = at(self._parent("memory"), MemoryFiles)
            # Older kernels count the groups below only if told to; newer ones always do and refuse the write.
            if memory.has("memory.use_hierarchy") and not number(memory, "use_hierarchy"):
                with contextlib.suppress(CgroupWriteError):
                    memory.use_hierarchy = True
        if limits is not None:
            self._write_limits(self._parent, limits)

    def create(self, container_id: str, limits: CgroupLimits | None) -> tuple[str, ...]:
        """Make its group in each hierarchy; one file to join for each.

        A shell is one thread, and joins v1 groups as one: then the kernel need not hold up all forks and exits
        of the machine, and a join takes 0.1 ms instead of the 7 and more of ``cgroup.procs`` (Linux 6.18).
        """
        check_name(container_id)
        groups = self._groups(container_id)
        try:
            for group in groups:
                try:
                    os.mkdir(group)
                except FileExistsError:
                    continue
                except FileNotFoundError:
                    self.create_parent()
                    os.mkdir(group)
        except OSError as error:
            raise CgroupError(
                f"cannot make {error.filename}", because=error.strerror or str(error)
            ) from error
        if limits is not None:
            self.set_limits(container_id, limits)
        unified = self._group(UNIFIED, container_id) if UNIFIED in self._bases else ""
        return tuple(os.path.join(group, "cgroup.procs" if group == unified else "tasks") for group in groups)

    def set_limits(self, container_id: str, limits: CgroupLimits) -> None:
        """Write all limits, each file in an order that the kernel takes."""
        self._write_limits(lambda controller: self._group(controller, container_id), limits)

    def _write_limits(self, group: Callable[[str], str], limits: CgroupLimits) -> None:
        if "cpu" in self._bases:
            _write_cpu(at(group("cpu"), CpuFiles), limits)
        if "memory" in self._bases:
            _write_memory(at(group("memory"), MemoryFiles), limits)
        if "pids" in self._bases:
            at(group("pids"), PidsFiles).max = limits.pids_max

    def processes(self, container_id: str) -> list[int]:
        """The union over all hierarchies."""
        found: dict[int, None] = {}
        # A process is in all hierarchies or still on its way into them, so the union is the truth.
        for group in self._groups(container_id):
            found.update(dict.fromkeys(group_processes(group)))
        return list(found)

    def usage(self, container_id: str, now: float) -> ContainerUsage:
        """From cpuacct (or the bare v2 mount), cpu.stat and the memory hierarchy."""
        cpu_seconds = throttled = 0.0
        memory = peak = oom_kills = 0
        if "cpuacct" in self._bases:
            cpu_seconds = number(at(self._group("cpuacct", container_id), CpuAcctFiles), "usage") / 1e9
        elif UNIFIED in self._bases:
            stat = figures(at(self._group(UNIFIED, container_id), UnifiedFiles), "cpu_stat")
            cpu_seconds = stat.get("usage_usec", 0) / 1e6
        if "cpu" in self._bases:
            stat = figures(at(self._group("cpu", container_id), CpuFiles), "stat")
            throttled = stat.get("throttled_time", 0) / 1e9
        if "memory" in self._bases:
            files = at(self._group("memory", container_id), MemoryFiles)
            memory, peak = number(files, "usage_in_bytes"), number(files, "max_usage_in_bytes")
            oom_kills = figures(files, "oom_control").get("oom_kill", 0)
        return ContainerUsage(
            cpu_seconds=cpu_seconds,
            memory_bytes=memory,
            memory_peak_bytes=max(peak, memory),
            throttled_seconds=throttled,
            oom_kills=oom_kills,
            processes=len(group_processes(self._groups(container_id)[0])),
            sampled_at=now,
        )

    def cpu_seconds(self, hierarchy: str) -> float | None:
        """From cpuacct."""
        if "cpuacct" not in self._bases:
            return None
        group = os.path.join(self._bases["cpuacct"], hierarchy.strip("/"))
        return number(at(group, CpuAcctFiles), "usage") / 1e9

    def freeze(self, container_id: str) -> None:
        """By the bare v2 mount if there is one (one write), else by the freezer (which needs asking again)."""
        self._freeze(container_id, FREEZE_SECONDS)

    def _freeze(self, container_id: str, wait_seconds: float) -> None:
        if UNIFIED in self._bases:
            unified_freeze(self._group(UNIFIED, container_id), wait_seconds)
            return
        if "freezer" not in self._bases:
            raise CgroupUnavailableError("this host has no writable freezer", hint="pause by SIGSTOP instead")
        files = at(self._group("freezer", container_id), FreezerFiles)
        deadline = time.monotonic() + wait_seconds
        files.state = "FROZEN"
        while files.state != "FROZEN":
            if time.monotonic() > deadline:
                files.state = "THAWED"
                raise CgroupError(
                    f"{container_id} does not freeze", because="a process of it sits in the kernel"
                )
            # Half-frozen groups get on only when asked again (the v1 freezer misses processes that are
            # forking).
            time.sleep(0.001)
            files.state = "FROZEN"

    def thaw(self, container_id: str) -> None:
        """Let it go on."""
        with contextlib.suppress(CgroupWriteError):
            if UNIFIED in self._bases:
                at(self._group(UNIFIED, container_id), UnifiedFiles).freeze = False
            elif "freezer" in self._bases:
                at(self._group("freezer", container_id), FreezerFiles).state = "THAWED"

    def frozen(self, container_id: str) -> bool:
        """Whether the freezer in use says so."""
        if UNIFIED in self._bases:
            return figures(at(self._group(UNIFIED, container_id), UnifiedFiles), "events").get("frozen") == 1
        if "freezer" in self._bases:
            try:
                return bool(at(self._group("freezer", container_id), FreezerFiles).state != "THAWED")
            except OSError:
                return False
        return False

    def reclaim(self, container_id: str) -> int | None:
        """By ``memory.force_empty``: the page cache goes. Anonymous memory stays, as v1 counts swap with it."""
        if "memory" not in self._bases:
            return None
        files = at(self._group("memory", container_id), MemoryFiles)
        with contextlib.suppress(CgroupWriteError):
            files.force_empty = 0
        limit = number(files, "limit_in_bytes")
        lower = rounded_up(number(files, "usage_in_bytes"))
        if lower >= limit:
            return limit
        files.limit_in_bytes = lower
        return lower

    def kill(self, container_id: str) -> None:
        """By v2's ``cgroup.kill`` if there is one, else frozen, killed and thawed; until all hierarchies are
        empty.
        """
        before = after = None
        if UNIFIED in self._bases:
            with contextlib.suppress(CgroupWriteError):
                at(self._group(UNIFIED, container_id), UnifiedFiles).kill = True
        elif "freezer" in self._bases:
            before, after = lambda: self._hold(container_id), lambda: self.thaw(container_id)
        kill_until_empty(container_id, lambda: self.processes(container_id), before=before, after=after)

    def _hold(self, container_id: str) -> None:
        # Killing works without the freezer too, only less surely, so a freeze that fails is not the end of
        # it.
        try:
            self._freeze(container_id, HOLD_SECONDS)
        except (CgroupError, OSError) as error:
            LOG.debug("killing %s without freezing it: %s", container_id, error)

    def remove(self, container_id: str, wait_seconds: float = 0.0) -> bool:
        """Remove its group from each hierarchy."""
        return remove_groups(self._groups(check_name(container_id)), wait_seconds, self.delete_delay_seconds)

    def remove_parent(self) -> None:
        """Remove this node's group from each hierarchy, and empty levels above it."""
        for base in self._unique_bases():
            remove_upwards(base, self._relative)

    def weights(self) -> GroupWeights | None:
        """cpu.shares."""
        if "cpu" not in self._bases:
            return None
        groups = weighed_groups(self._bases["cpu"], self._relative, self.hierarchy)
        return GroupWeights(groups, "cpu.shares", SHARES)

    def stale_groups(self) -> list[str]:
        """Containers that have a group in any hierarchy."""
        names: dict[str, None] = {}
        for base in self._unique_bases():
            with contextlib.suppress(FileNotFoundError):
                for entry in os.scandir(os.path.join(base, self._relative)):
                    if entry.is_dir(follow_symlinks=False):
                        names[entry.name] = None
        return list(names)

    def path(self, container_id: str) -> str:
        """Its group in the memory hierarchy."""
        first = next((name for name in ("memory", "cpu") if name in self._bases), next(iter(self._bases)))
        return self._group(first, container_id)


def rounded_up(used: int) -> int:
    """What a paused container is held to where it uses that many bytes: whole MiB, and one to spare."""
    return (-(-used // MIB) + 1) * MIB


def unified_freeze(group: str, wait_seconds: float = FREEZE_SECONDS) -> None:
    """Freeze a v2 group and wait until the kernel says that it stands still."""
    files = at(group, UnifiedFiles)
    files.freeze = True
    deadline = time.monotonic() + wait_seconds
    while figures(files, "events").get("frozen") != 1:
        if time.monotonic() > deadline:
            files.freeze = False
            raise CgroupError(f"{group} does not freeze", because="a process in it sits in the kernel")
        time.sleep(0.0005)


def _write_cpu(files: CpuFiles, limits: CgroupLimits) -> None:
    files.shares = max(2, limits.cpu_shares)
    if limits.cpu_quota_us is None:
        if number(files, "cfs_quota_us") > 0:
            files.cfs_quota_us = -1
        return
    # Quota and period are two files, and the pair must be allowed at each moment: lift the quota first.
    files.cfs_quota_us = -1
    files.cfs_period_us = limits.cpu_period_us
    files.cfs_quota_us = limits.cpu_quota_us


def _write_memory(files: MemoryFiles, limits: CgroupLimits) -> None:
    current = number(files, "limit_in_bytes")
    if limits.memory_max is None and current >= UNLIMITED:
        return
    wanted = -1 if limits.memory_max is None else limits.memory_max
    swap_counted = files.has("memory.memsw.limit_in_bytes")
    raising = wanted < 0 or wanted > current
    # The kernel wants memory <= memory+swap at each moment: raise the outer one first, lower the inner one
    # first.
    if swap_counted and raising:
        files.memsw_limit_in_bytes = wanted
    files.limit_in_bytes = wanted
    if swap_counted and not raising:
        files.memsw_limit_in_bytes = wanted
    for attribute, value in (("soft_limit_in_bytes", limits.memory_low), ("swappiness", limits.swappiness)):
        # Advice to the kernel, and not in every kernel (no soft limit under PREEMPT_RT): never a reason to
        # fail.
        try:
            setattr(files, attribute, value)
        except CgroupWriteError as error:
            LOG.debug("%s", error)
