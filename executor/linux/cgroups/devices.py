"""The ``devices`` hierarchy of cgroup v1: containers can open only the GPUs that they were given.

There is one cgroup for each set of GPUs that containers have, in which the kernel denies the others
(``GpuResourceHandlerImpl``). A container joins the cgroup of its set before its command begins, and its
processes stay in it. There are a handful of such cgroups, and none is made or removed for a single container.
cgroup v2 has no such files: it needs a BPF program, which is not implemented here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from ...errors import CgroupUnavailableError, CgroupWriteError, reason_of
from .files import CGROUP_ROOT, read_mounts, read_paths

MAJORS = {"nvidia": 195, "amd": 226}
"""The major numbers of the GPUs' character devices (Linux, ``Documentation/admin-guide/devices.txt``)."""


class DeviceGroups:
    """The cgroups of one node, below ``directory``; ``ids`` are the GPUs of this node and of other nodes on
    this host."""

    def __init__(self, directory: str, ids: Sequence[str], vendor: str) -> None:
        self._directory = directory
        self._ids = tuple(ids)
        self._major = MAJORS[vendor]
        self._made: dict[tuple[str, ...], str] = {}

    def join_file(self, devices: Sequence[str]) -> str:
        """The file that a process joins to get these GPUs and no others. Raises CgroupWriteError if the
        cgroup cannot be made."""
        key = tuple(devices)
        if key not in self._made:
            self._made[key] = self._make(key)
        return self._made[key]

    def _make(self, devices: tuple[str, ...]) -> str:
        name = "gpus-" + ("+".join(device.replace(":", ".") for device in devices) or "none")
        group = os.path.join(self._directory, name)
        try:
            os.makedirs(group, mode=0o755, exist_ok=True)
            for device in self._ids:
                if device not in devices:
                    self._write(group, "devices.deny", device)
        except OSError as error:
            raise CgroupWriteError(f"cannot create {group}", because=reason_of(error)) from None
        return os.path.join(group, "tasks")

    def _write(self, group: str, file: str, device: str) -> None:
        """Write one rule: the kernel takes one for each write."""
        with open(os.path.join(group, file), "w", encoding="ascii") as handle:
            handle.write(f"c {self._major}:{device.partition(':')[2]} rwm")

    def remove(self) -> None:
        """Remove the cgroups in which nothing runs. The next run of the node finds the others."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self._directory):
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.join(self._directory, name))
            os.rmdir(self._directory)


def device_groups(
    name: str, ids: Sequence[str], vendor: str, *, proc: str = "/proc", root: str = CGROUP_ROOT
) -> DeviceGroups:
    """The cgroups of the node ``name``. Raises CgroupUnavailableError if the hierarchy is missing or read-only."""
    mounts = (one for one in read_mounts(proc, root) if one.version == 1)
    mount = next((one for one in mounts if os.path.exists(os.path.join(one.point, "devices.list"))), None)
    base = None if mount is None else mount.directory_of(read_paths(proc).get("devices", "/"))
    if base is None or not os.access(base, os.W_OK):
        raise CgroupUnavailableError(
            "GPUs cannot be kept from containers by cgroups here",
            because=f"{base} cannot be written"
            if base
            else f"no devices hierarchy of cgroup v1 is below {root}",
            hint="set yopp.nodemanager.gpu-isolation = variables",
        )
    return DeviceGroups(os.path.join(base, name), ids, vendor)
