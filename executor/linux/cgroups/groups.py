"""How cgroups are made, removed, and emptied by SIGKILL.

What waits (``remove_groups``, ``kill_until_empty``) is for a worker thread.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import time
from collections.abc import Callable

from ...errors import CgroupError
from ..procfs import read_stat, send, wait_until
from .files import groups_below, leave_freezer
from .slots import SLOT_PREFIX

LOG = logging.getLogger(__name__)

KILL_DEADLINE_SECONDS = 10.0
"""How long a kill is repeated while processes survive SIGKILL: only those in uninterruptible sleep take long."""


def check_name(name: str) -> str:
    """Return ``name`` if it is one component of a path. Raises CgroupError if it could lead elsewhere."""
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise CgroupError(f"{name!r} cannot name a cgroup")
    return name


def may_be_container(name: str) -> bool:
    """Whether a container may have this id: it is one component of a path, and not the name of a slot."""
    return name not in ("", ".", "..") and not {"/", "\0"} & set(name) and not name.startswith(SLOT_PREFIX)


def make_group(base: str, relative: str) -> str:
    """Make ``base/relative`` level by level; another node may remove empty levels at the same time."""
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
    """Remove a cgroup and those below it; False while the kernel, or a process, keeps it in use."""
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
        for parent, name in groups_below(path):
            os.rmdir(name, dir_fd=parent)
        os.rmdir(path)
    except FileNotFoundError:
        return not os.path.exists(path)
    except OSError:
        return False
    return True


def remove_groups(paths: tuple[str, ...], wait_seconds: float, longest_pause: float = 0.02) -> bool:
    """Remove several cgroups, retrying for ``wait_seconds``: the kernel needs a moment after the last exit."""

    def removed() -> bool:
        return not [path for path in paths if not remove_group(path)]

    return wait_until(removed, wait_seconds, 0.001, longest_pause)


def remove_upwards(base: str, relative: str) -> None:
    """Remove the empty cgroups from ``base/relative`` up to, but not including, ``base``.

    A level that another node uses is not empty, and one that an administrator made is in a directory that
    yopp may not write: both stay.
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
    patience: Callable[[], float] = lambda: KILL_DEADLINE_SECONDS,
) -> None:
    """Send SIGKILL to what ``processes`` lists until it lists nothing.

    ``before`` keeps the cgroup from forking (the freezer); ``after`` lets it continue: under v1 the kernel
    delivers SIGKILL to a frozen process only once it is thawed, so it is killed first, then thawed. Processes
    that the container has frozen by itself are moved out of the freezer. Raises CgroupError if this takes
    longer than ``patience`` seconds; while a process only waits for the CPU, which it needs to end and which
    a busy host gives to the least weight late, not before ``KILL_DEADLINE_SECONDS``.
    """
    begun = time.monotonic()
    while found := processes():
        if before is not None:
            before()
            found = processes()
        for pid in found:
            send(pid, signal.SIGKILL)
        if after is not None:
            after()
        if wait_until(lambda: not processes(), 0.1):
            continue
        for pid in processes():
            leave_freezer(pid)
        if time.monotonic() < begun + patience():
            continue
        if not (left := processes()):
            return
        if time.monotonic() < begun + KILL_DEADLINE_SECONDS and any(map(_waits_for_cpu, left)):
            continue
        raise CgroupError(
            f"{len(left)} processes of {name} do not end",
            because=f"SIGKILL was sent for {time.monotonic() - begun:.1f} s; the first of them: {left[:1]}",
        )


def _waits_for_cpu(pid: int) -> bool:
    """Whether the process runs, or would if it got the CPU: then it is in no uninterruptible sleep."""
    found = read_stat(pid)
    return found is not None and found.state == "R"
