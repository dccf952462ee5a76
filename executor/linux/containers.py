"""What is known of a container between its launch and its cleaning up, and which processes it is made of."""

from __future__ import annotations

from dataclasses import dataclass

from .cgroups.base import CgroupDriver
from .procfs import children


@dataclass(slots=True)
class LiveContainer:
    """One container that was started and is not cleaned up yet. ``pid`` and ``start`` are its shim's."""

    container_id: str
    pid: int
    start: int
    exit_file: str
    paused: bool = False
    ending: bool = False
    killed: bool = False
    ended: bool = False


def processes_of(held: LiveContainer, cgroups: CgroupDriver) -> list[int]:
    """The processes of a container. One that has not reached its cgroup yet is the shim's child."""
    return cgroups.processes(held.container_id) or children(held.pid)
