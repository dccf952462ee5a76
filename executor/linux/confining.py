"""The paths that the containers of a node run by root may only read (``launcher.confine`` enforces it).

Decisions: confined.
"""

from __future__ import annotations

import os
from pathlib import Path

from .cgroups.files import read_mounts


def kept_from_containers(state: str | Path) -> tuple[str, ...]:
    """The paths that a container may only read: the cgroup file systems, wherever they are mounted, and the node's
    records in ``state``."""
    try:
        mounts = read_mounts("/proc", "/")
    except OSError:
        mounts = ()
    return (*(mount.point for mount in mounts if os.path.isdir(mount.point)), os.path.abspath(state))
