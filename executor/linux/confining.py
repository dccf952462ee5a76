"""What the containers of a node that root runs may only read (``launcher.confine`` sees to it).

Decisions: confined.
"""

from __future__ import annotations

import os
from pathlib import Path

from .cgroups.files import CGROUP_ROOT, read_mounts


def kept_from_containers(state: str | Path) -> tuple[str, ...]:
    """What a container may only read: the file systems of cgroups, and the node's records in ``state``."""
    try:
        mounts = read_mounts("/proc", CGROUP_ROOT)
    except OSError:
        mounts = ()
    return (*(mount.point for mount in mounts), os.path.abspath(state))
