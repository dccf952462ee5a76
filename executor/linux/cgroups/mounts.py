"""Which cgroup file systems are mounted, and where in them this process runs: reads two files of /proc.

Takes the file names as arguments, so that tests can describe any host. Changes nothing.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

V1_CONTROLLERS = ("cpu", "cpuacct", "memory", "pids", "freezer")
"""The v1 hierarchies that are of use here."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One cgroup mount. ``root`` is the part of the hierarchy that it shows (``/`` unless in a container)."""

    point: str
    root: str
    version: int
    controllers: tuple[str, ...]
    read_only: bool

    def directory_of(self, path: str) -> str | None:
        """Where the cgroup ``path`` of this hierarchy is, None where the mount does not show it."""
        relative = os.path.relpath(path, self.root)
        if relative == ".":
            return self.point
        if relative.startswith(".."):
            return None
        return os.path.join(self.point, relative)


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def read_mounts(proc: str, root: str) -> tuple[Mount, ...]:
    """The cgroup mounts at or below ``root``, as /proc/self/mountinfo lists them (proc(5))."""
    mounts = []
    with open(os.path.join(proc, "self", "mountinfo"), encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            before, _, after = line.partition(" - ")
            fields, tail = before.split(), after.split()
            if len(fields) < 6 or len(tail) < 1 or tail[0] not in ("cgroup", "cgroup2"):
                continue
            point = _unescape(fields[4])
            if point != root and not point.startswith(root.rstrip("/") + "/"):
                continue
            options = tail[2].split(",") if len(tail) > 2 else []
            mounts.append(
                Mount(
                    point=point,
                    root=_unescape(fields[3]),
                    version=2 if tail[0] == "cgroup2" else 1,
                    controllers=tuple(name for name in options if name in V1_CONTROLLERS),
                    read_only="ro" in fields[5].split(","),
                )
            )
    return tuple(mounts)


def read_own_paths(proc: str) -> dict[str, str]:
    """Where this process is: v1 controller -> path, ``""`` -> path in the unified hierarchy."""
    paths: dict[str, str] = {}
    with open(os.path.join(proc, "self", "cgroup"), encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            _, _, rest = line.rstrip("\n").partition(":")
            controllers, _, path = rest.partition(":")
            for name in controllers.split(","):
                paths[name] = path
    return paths
