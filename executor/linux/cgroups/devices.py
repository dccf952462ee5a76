"""The ``devices`` hierarchy of cgroup v1: containers can open no GPU that they were not given.

One group for each set of GPUs that containers have, in which the kernel refuses the others
(``GpuResourceHandlerImpl``). A container joins the group of its set before its command begins, and its processes stay
there; there are a handful of groups, and none is made or removed for a single container. cgroup v2 has no such files:
it takes a BPF program, which is not written here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from ...errors import CgroupUnavailableError, CgroupWriteError
from .files import read_mounts, read_own_paths

MAJORS = {"nvidia": 195, "amd": 226}
"""The major numbers of the GPUs' character devices (Linux, ``Documentation/admin-guide/devices.txt``)."""


class DeviceGroups:
    """The groups of one node, below ``directory``; ``ids`` are its GPUs and those of the nodes beside it."""

    def __init__(self, directory: str, ids: Sequence[str], vendor: str) -> None:
        self._directory = directory
        self._ids = tuple(ids)
        self._major = MAJORS[vendor]
        self._made: dict[tuple[str, ...], str] = {}

    def join_file(self, devices: Sequence[str]) -> str:
        """The file by which a process gets these and no others. Raises CgroupWriteError if there can be no group."""
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
            raise CgroupWriteError(f"cannot create {group}", because=error.strerror or str(error)) from None
        return os.path.join(group, "tasks")

    def _write(self, group: str, file: str, device: str) -> None:
        """One rule a write: the kernel takes no list of them."""
        with open(os.path.join(group, file), "w", encoding="ascii") as handle:
            handle.write(f"c {self._major}:{device.partition(':')[2]} rwm")

    def remove(self) -> None:
        """Remove the groups in which nothing runs; the others are found by the next run of the node."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self._directory):
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.join(self._directory, name))
            os.rmdir(self._directory)


def device_groups(
    name: str, ids: Sequence[str], vendor: str, *, proc: str = "/proc", root: str = "/sys/fs/cgroup"
) -> DeviceGroups:
    """The groups of the node ``name``. Raises CgroupUnavailableError where the hierarchy is not there, or read-only."""
    mounts = (one for one in read_mounts(proc, root) if one.version == 1)
    mount = next((one for one in mounts if os.path.exists(os.path.join(one.point, "devices.list"))), None)
    base = None if mount is None else mount.directory_of(read_own_paths(proc).get("devices", "/"))
    if base is None or not os.access(base, os.W_OK):
        raise CgroupUnavailableError(
            "GPUs cannot be kept from containers by cgroups here",
            because=f"{base} cannot be written"
            if base
            else f"no devices hierarchy of cgroup v1 is below {root}",
            hint="set yopp.nodemanager.gpu-isolation = variables",
        )
    return DeviceGroups(os.path.join(base, name), ids, vendor)
