"""How much of the machine this process may really use: what is there, less what its own cgroups and affinity
take away.

Reads files; decides nothing about reserves or how nodes share a machine.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from .cgroups.files import CpuFiles, KernelFiles, MemoryFiles, UnifiedFiles, at, number
from .cgroups.mounts import Mount, read_mounts, read_own_paths
from .cgroups.v1 import UNLIMITED


@dataclass(frozen=True, slots=True)
class HostLimits:
    """``cores`` may be a fraction (a CPU quota). ``because`` says what lowered them."""

    cores: float
    memory_bytes: int
    physical_cores: int
    physical_memory_bytes: int
    because: tuple[str, ...] = ()


def host_limits(*, root: str = "/sys/fs/cgroup", proc: str = "/proc") -> HostLimits:
    """The processors and the memory that this process, and so its containers, can have."""
    import psutil

    machine_cores = os.cpu_count() or 1
    machine_memory = int(psutil.virtual_memory().total)
    cores, memory = float(len(os.sched_getaffinity(0))), machine_memory
    because = []
    if cores < machine_cores:
        because.append(f"its affinity (or cpuset) leaves it {cores:g} of {machine_cores} processors")
    try:
        mounts, own = read_mounts(proc, root), read_own_paths(proc)
    except OSError:
        mounts, own = (), {}
    for mount in mounts:
        for level in _levels(mount, own):
            quota, limit = _quota(mount, level), _memory(mount, level)
            if quota is not None and quota < cores:
                cores = quota
                because.append(f"{level} has a CPU quota of {quota:g} processors")
            if limit is not None and limit < memory:
                memory = limit
                because.append(f"{level} has a memory limit of {limit >> 20} MiB")
    return HostLimits(cores, memory, machine_cores, machine_memory, tuple(because))


def _levels(mount: Mount, own: dict[str, str]) -> list[str]:
    """The group we run in and all above it, as far as the mount shows them."""
    name = "" if mount.version == 2 else next((item for item in mount.controllers if item in own), None)
    path = own.get(name) if name is not None else None
    level = mount.directory_of(path) if path else None
    levels = []
    while level is not None and level.startswith(mount.point):
        levels.append(level)
        if level == mount.point:
            break
        level = os.path.dirname(level)
    return levels


def _quota(mount: Mount, level: str) -> float | None:
    if mount.version == 2:
        try:
            quota, period = at(level, UnifiedFiles).cpu_max
        except (OSError, ValueError):
            return None
        return None if quota is None or period <= 0 else quota / period
    if "cpu" not in mount.controllers:
        return None
    files: KernelFiles = at(level, CpuFiles)
    quota, period = number(files, "cfs_quota_us"), number(files, "cfs_period_us")
    return quota / period if quota > 0 and period > 0 else None


def _memory(mount: Mount, level: str) -> int | None:
    if mount.version == 2:
        limit = number(at(level, UnifiedFiles), "memory_max")
    elif "memory" in mount.controllers:
        limit = number(at(level, MemoryFiles), "limit_in_bytes")
    else:
        return None
    return limit if 0 < limit < UNLIMITED else None
