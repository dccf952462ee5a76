"""What every way of holding containers offers, and the parts they share: making and removing groups, killing.

Methods that may wait (``kill``, ``remove``) are for a worker thread; the others answer in well under a
millisecond.
"""

from __future__ import annotations

import abc
import errno
import logging
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ...errors import CgroupError, CgroupUnavailableError
from ...records import CgroupLimits, ContainerUsage
from ..procfs import Traces, send
from .weights import GroupWeights

LOG = logging.getLogger(__name__)

KILL_DEADLINE_SECONDS = 10.0
"""How long to go on killing what will not die: only processes in uninterruptible sleep take long."""


@dataclass(frozen=True, slots=True)
class CgroupReport:
    """What this host offers, for people: ``mode`` is v1, v2, hybrid or none.

    ``controllers`` are those in use, ``locations`` where the containers' groups are made (controller ->
    directory), ``weaker`` one sentence for each thing that works less well than it could, ``hints`` what
    to type for it.
    """

    mode: str
    controllers: tuple[str, ...] = ()
    locations: dict[str, str] = field(default_factory=dict)
    weaker: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"cgroups: {self.mode}" + (f" ({', '.join(self.controllers)})" if self.controllers else "")]
        lines += [f"  {sentence}" for sentence in self.weaker]
        lines += [f"  hint: {hint}" for hint in self.hints]
        return "\n".join(lines)


class CgroupDriver(abc.ABC):
    """Groups of containers on one host, by container id."""

    mode = "none"
    enforces_memory = False
    """Whether the kernel holds containers to their memory; where not, somebody has to look (``monitor.py``).
    """
    can_freeze = False
    delete_delay_seconds = 0.02
    """The longest pause between two attempts to remove a group."""
    hierarchy = ""
    """Which groups above the node's are yopp's, too: from the last that this path names down."""

    @abc.abstractmethod
    def describe(self) -> CgroupReport:
        """What is in use and what is weaker than it could be."""

    @abc.abstractmethod
    def create_parent(self, limits: CgroupLimits | None = None) -> None:
        """Make the group that holds this node's containers; ``limits`` bind all of them together.

        Raises CgroupError where the kernel does not allow it any more.
        """

    @abc.abstractmethod
    def create(self, container_id: str, limits: CgroupLimits | None) -> tuple[str, ...]:
        """Make a container's group with its limits; the ``cgroup.procs`` files its first process has to join.

        Making it again only writes the limits again; without ``limits`` none are written. CgroupError where the
        kernel refuses.
        """

    def started(self, container_id: str, traces: Traces) -> None:  # noqa: B027
        """By what the container's processes are known where there is no cgroup for them."""

    @abc.abstractmethod
    def set_limits(self, container_id: str, limits: CgroupLimits) -> None:
        """Change the limits of a live container. CgroupWriteError where the kernel refuses."""

    @abc.abstractmethod
    def processes(self, container_id: str) -> list[int]:
        """Its processes, orphans included, its parent (the shim) not."""

    @abc.abstractmethod
    def usage(self, container_id: str, now: float) -> ContainerUsage:
        """What it has used up to now; zeros where it has no group."""

    def cpu_seconds(self, hierarchy: str) -> float | None:
        """The CPU time of all that ever ran below this group, other nodes' containers included; None where
        nobody counts it."""
        return None

    def freeze(self, container_id: str) -> None:
        """Hold all its processes where they are. CgroupUnavailableError where this host has no freezer."""
        raise CgroupUnavailableError(
            "this host has no freezer to pause containers with", hint="pause by SIGSTOP"
        )

    def thaw(self, container_id: str) -> None:  # noqa: B027
        """Let them go on. Does nothing to what is not frozen."""

    def frozen(self, container_id: str) -> bool:
        """Whether its group is frozen."""
        return False

    def reclaim(self, container_id: str) -> int | None:
        """Take back what memory its standing processes can do without, and hold it to the rest.

        The bytes that it is held to now, until ``set_limits``; None where nothing can hold it. May take a
        while: for a worker thread. CgroupError where the kernel refuses.
        """
        return None

    @abc.abstractmethod
    def kill(self, container_id: str) -> None:
        """SIGKILL every process of it, until none is left. Waits; CgroupError if some will not die."""

    @abc.abstractmethod
    def remove(self, container_id: str, wait_seconds: float = 0.0) -> bool:
        """Remove its group, trying for so long where the kernel is still busy with it; whether it is gone."""

    @abc.abstractmethod
    def remove_parent(self) -> None:
        """Remove this node's group, and the groups above it that nobody uses any more."""

    def weights(self) -> GroupWeights | None:
        """The weights of this node's group and those above it that are yopp's; None where there are none."""
        return None

    @abc.abstractmethod
    def stale_groups(self) -> list[str]:
        """The ids of all containers that have a group under this node's."""

    @abc.abstractmethod
    def path(self, container_id: str) -> str:
        """Where its group is, for people."""

    @property
    def bases(self) -> dict[str, str]:
        """Controller -> the directory below which this node's group is made; to be found again after a
        restart.
        """
        return {}


def check_name(name: str) -> str:
    """``name`` as one component of a path; CgroupError for what could lead elsewhere."""
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise CgroupError(f"{name!r} cannot name a cgroup")
    return name


def make_group(base: str, relative: str) -> str:
    """Make ``base/relative`` level by level; another node may be removing empty levels at the same time."""
    path = os.path.join(base, relative)
    for attempt in range(20):
        level = base
        try:
            for name in relative.split("/"):
                level = os.path.join(level, name)
                try:
                    os.mkdir(level)
                except FileExistsError:
                    continue
            return path
        except FileNotFoundError:
            if attempt == 19 or not os.path.isdir(base):
                raise
    return path


def remove_group(path: str) -> bool:
    """Remove a group and the groups below it; False while the kernel (or a process) holds it."""
    try:
        os.rmdir(path)
        return True
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
            LOG.warning("cannot remove %s: %s", path, error.strerror)
            return False
    try:
        children = [entry.path for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return True
    removed = [remove_group(child) for child in children]
    if not children or not all(removed):
        return False
    try:
        os.rmdir(path)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def remove_groups(paths: tuple[str, ...], wait_seconds: float, longest_pause: float = 0.02) -> bool:
    """Remove several groups, trying for ``wait_seconds``: the kernel needs a moment after the last exit."""
    deadline = time.monotonic() + wait_seconds
    pause = 0.001
    while True:
        removed = [remove_group(path) for path in paths]
        if all(removed):
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(longest_pause, pause * 2)


def remove_upwards(base: str, relative: str) -> None:
    """Remove the empty groups from ``base/relative`` up to, not including, ``base``.

    A level that another node uses is not empty, and one that an administrator made is in a directory that is
    not ours to write: both stay.
    """
    remaining = relative
    while remaining:
        try:
            os.rmdir(os.path.join(base, remaining))
        except FileNotFoundError:
            pass
        except OSError:
            return
        remaining = os.path.dirname(remaining)


def kill_until_empty(
    name: str,
    processes: Callable[[], list[int]],
    *,
    before: Callable[[], None] | None = None,
    after: Callable[[], None] | None = None,
    deadline_seconds: float = KILL_DEADLINE_SECONDS,
) -> None:
    """SIGKILL what ``processes`` lists until it lists nothing.

    ``before`` stops the group from forking (the freezer), ``after`` lets it go again: under v1 the kernel
    delivers SIGKILL to a frozen process only once it is thawed, so it is kill first, then thaw.
    CgroupError at the deadline.
    """
    deadline = time.monotonic() + deadline_seconds
    pause = 0.0005
    while True:
        found = processes()
        if not found:
            return
        if before is not None:
            before()
            found = processes()
        for pid in found:
            send(pid, signal.SIGKILL)
        if after is not None:
            after()
        round_end = min(deadline, time.monotonic() + 0.1)
        while (found := processes()) and time.monotonic() < round_end:
            time.sleep(pause)
            pause = min(0.01, pause * 2)
        if found and time.monotonic() >= deadline:
            raise CgroupError(
                f"{len(found)} processes of {name} do not die",
                because=f"SIGKILL was sent for {deadline_seconds:g} s; first of them: {found[0]}",
            )
