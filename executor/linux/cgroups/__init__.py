"""Find what this host offers to hold containers with, choose a driver for it, and explain the choice.

``discover`` tries for real: it makes and removes an empty group wherever it means to work, because
permissions, read-only mounts, namespaces and security modules each have their own way of saying no.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from ...errors import CgroupError, CgroupUnavailableError, CgroupWriteError
from ...settings import ExecutorSettings
from .base import CgroupDriver, CgroupReport
from .files import KernelFiles, UnifiedFiles, at
from .mounts import V1_CONTROLLERS, Mount, read_mounts, read_own_paths
from .none import NoCgroups
from .v1 import UNIFIED, V1Driver
from .v2 import WANTED, V2Driver, enable_controllers

__all__ = ["CgroupDriver", "CgroupReport", "NoCgroups", "V1Driver", "V2Driver", "discover"]

LOG = logging.getLogger(__name__)

LEAF = "yopp-self"
"""The group below a delegated one into which we move ourselves: v2 wants processes in leaves only."""

DELEGATE = "start it as `systemd-run --user --scope -p Delegate=yes -- yopp ...`"
ROOT_HINT = "run as root, or have root give you directories: `mkdir -p {paths} && chown {uid} {paths}`"

_probe_numbers = itertools.count()


def discover(
    settings: ExecutorSettings,
    *,
    group: str = "yopp",
    root: str = "/sys/fs/cgroup",
    proc: str = "/proc",
    remember: Path | None = None,
) -> CgroupDriver:
    """Choose how to hold containers on this host.

    ``group`` names this node's group (it may hold slashes) below ``settings.cgroups_hierarchy``, below the
    cgroup that this process runs in where that can be written. ``remember`` is a file that keeps where
    that was, so that a node that comes back from another place (another login, another unit) finds the
    groups of its containers again. Raises CgroupUnavailableError where the settings ask for a version, or a
    freezer, that the host does not offer; with ``auto`` there is always an answer, at worst NoCgroups.
    """
    driver = _discover(settings, group, root, proc, remember)
    driver.delete_delay_seconds = settings.delete_delay_ms / 1000
    driver.hierarchy = settings.cgroups_hierarchy
    if settings.pause_mechanism == "freezer" and not driver.can_freeze:
        raise CgroupUnavailableError(
            "containers cannot be paused by the freezer on this host",
            because="; ".join(driver.describe().weaker) or "no freezer can be written here",
            hint="yopp.nodemanager.pause-mechanism = signal needs none",
        )
    return driver


def _discover(
    settings: ExecutorSettings, group: str, root: str, proc: str, remember: Path | None
) -> CgroupDriver:
    wish = settings.cgroups_mount
    if wish == "none":
        return NoCgroups(reasons=("cgroups are switched off by yopp.nodemanager.cgroups.mode = none",))
    relative = "/".join(part for part in f"{settings.cgroups_hierarchy}/{group}".split("/") if part)
    if ".." in relative.split("/"):
        raise CgroupError(f"{relative!r} cannot name a cgroup", because="it leads out of its hierarchy")
    try:
        mounts, own = read_mounts(proc, root), read_own_paths(proc)
    except OSError as error:
        mounts, own = (), {}
        LOG.debug("no cgroups: %s", error)
    known = _recall(remember)
    reasons: list[str] = []
    hints: list[str] = []
    driver: CgroupDriver | None = None
    if wish in ("auto", "v2"):
        driver = _try_v2(mounts, own, relative, known, reasons, hints)
    if driver is None and wish in ("auto", "v1"):
        driver = _try_v1(mounts, own, relative, known, wish, reasons, hints)
    if driver is None:
        if not mounts:
            reasons.append(f"no cgroup file system is mounted below {root}")
        if wish != "auto":
            raise CgroupUnavailableError(
                f"cgroup {wish} cannot be used on this host",
                because="; ".join(reasons),
                hint="; ".join(hints),
            )
        return NoCgroups(reasons=tuple(reasons), hints=tuple(dict.fromkeys(hints)))
    _memorise(remember, driver.bases)
    return driver


def _recall(remember: Path | None) -> dict[str, str]:
    """The bases of an earlier life, those that still exist."""
    if remember is None:
        return {}
    try:
        found = json.loads(remember.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(name): str(path) for name, path in found.items() if os.path.isdir(str(path))}


def _memorise(remember: Path | None, bases: Mapping[str, str]) -> None:
    if remember is None:
        return
    try:
        temporary = remember.with_name(remember.name + ".new")
        temporary.write_text(json.dumps(dict(bases), sort_keys=True) + "\n", encoding="utf-8")
        temporary.replace(remember)
    except OSError as error:
        LOG.warning("cannot write %s: %s", remember, error.strerror)


def writable(base: str, relative: str) -> bool:
    """Whether groups can be made where ``base/relative`` is or would be: makes one, and removes it."""
    level = os.path.join(base, relative)
    while not os.path.isdir(level):
        if len(level) <= len(base):
            return False
        level = os.path.dirname(level)
    probe = os.path.join(level, f"yopp-probe-{os.getpid()}-{next(_probe_numbers)}")
    try:
        os.mkdir(probe)
        os.rmdir(probe)
    except OSError:
        with contextlib.suppress(OSError):
            os.rmdir(probe)
        return False
    return True


def _try_v1(
    mounts: tuple[Mount, ...],
    own: dict[str, str],
    relative: str,
    known: dict[str, str],
    wish: str,
    reasons: list[str],
    hints: list[str],
) -> V1Driver | None:
    """v1 hierarchies, with the bare v2 mount beside them where a v1 one is missing that it can stand in for."""
    bases: dict[str, str] = {}
    closed: dict[str, str] = {}
    for controller in V1_CONTROLLERS:
        mount = next((item for item in mounts if item.version == 1 and controller in item.controllers), None)
        if mount is None:
            continue
        base = _choose(mount, own.get(controller), relative, known.get(controller))
        if base is not None:
            bases[controller] = base
        else:
            closed[controller] = mount.point
    if closed:
        points = ", ".join(dict.fromkeys(closed.values()))
        reasons.append(f"cgroup v1 {', '.join(closed)} cannot be written ({points})")
        own_paths = dict.fromkeys(f"{point}/{relative.split('/')[0]}" for point in closed.values())
        hints.append(ROOT_HINT.format(paths=" ".join(own_paths), uid=os.getuid()))
    if not bases.keys() & {"cpu", "memory"}:
        return None
    if wish == "auto" and not {"freezer", "cpuacct"} <= bases.keys():
        _add_unified(mounts, own, relative, known, bases)
    weaker = [sentence for controller, sentence in V1_WEAKER.items() if controller not in bases]
    if "freezer" not in bases and UNIFIED not in bases:
        weaker.append(
            "containers are killed without being frozen first: a very fast forker may need several rounds"
        )
    return V1Driver(bases, relative, weaker=tuple(reasons + weaker), hints=tuple(dict.fromkeys(hints)))


def _add_unified(
    mounts: tuple[Mount, ...],
    own: dict[str, str],
    relative: str,
    known: dict[str, str],
    bases: dict[str, str],
) -> None:
    """Freeze, kill and count CPU time by the bare v2 mount of a hybrid host.

    Only where v1 cannot: processes join v1 groups one thread at a time, in 0.1 ms, and a v2 group as a whole,
    for which the kernel waits until every CPU has passed through the scheduler: 6 to 20 ms of each start.
    """
    bare = next((item for item in mounts if item.version == 2), None)
    base = None if bare is None else _choose(bare, own.get(""), relative, known.get(UNIFIED))
    if base is None:
        return
    bases[UNIFIED] = base
    # It does what these do: fewer hierarchies to make groups in and to join.
    bases.pop("freezer", None)
    if bases.get("cpuacct") != bases.get("cpu"):
        bases.pop("cpuacct", None)


V1_WEAKER = {
    "cpu": "processors are not shared out by weight, and no CPU quota is possible",
    "memory": "memory limits are enforced by polling",
    "pids": "the number of processes of a container is not bounded",
}
"""What is weaker without a controller."""


def _choose(mount: Mount, own: str | None, relative: str, known: str | None) -> str | None:
    """The directory to work below: the known one, the cgroup we run in, or the mount's root."""
    if mount.read_only:
        return None
    here = mount.directory_of(own) if own else None
    candidates = [path for path in (known, here, mount.point) if path is not None]
    for candidate in dict.fromkeys(candidates):
        if candidate.startswith(mount.point) and writable(candidate, relative):
            return candidate
    return None


def _try_v2(
    mounts: tuple[Mount, ...],
    own: dict[str, str],
    relative: str,
    known: dict[str, str],
    reasons: list[str],
    hints: list[str],
) -> V2Driver | None:
    """The unified hierarchy, where it has controllers that can be handed down to our groups."""
    mount = next((item for item in mounts if item.version == 2), None)
    if mount is None:
        return None
    if mount.read_only:
        reasons.append(f"cgroup v2 at {mount.point} is mounted read-only")
        return None
    here = mount.directory_of(own.get("", "/"))
    if here is not None and os.path.basename(here) == LEAF:
        here = os.path.dirname(here)
    candidates = [path for path in (known.get(UNIFIED), here, mount.point) if path is not None]
    for candidate in dict.fromkeys(candidates):
        try:
            offered = tuple(name for name in WANTED if name in at(candidate, UnifiedFiles).controllers)
        except OSError:
            continue
        if not offered:
            continue
        if not writable(candidate, relative):
            reasons.append(f"cgroup v2 {candidate} is not writable")
            hints.append(DELEGATE)
            continue
        refusal = _hand_down(candidate, offered)
        if refusal:
            reasons.append(refusal)
            hints.append(DELEGATE)
            continue
        weaker = [
            f"the controller {name} is not delegated to {candidate}" for name in WANTED if name not in offered
        ]
        delegate = ["`systemctl edit user@.service`: [Service] Delegate=cpu memory pids"] if weaker else []
        return V2Driver(candidate, relative, offered, weaker=tuple(weaker), hints=tuple(delegate))
    return None


def _hand_down(base: str, controllers: tuple[str, ...]) -> str:
    """Let the groups below ``base`` use the controllers, moving ourselves to a leaf if need be; "" or why
    not.
    """
    try:
        enable_controllers(base, controllers)
        return ""
    except CgroupWriteError as error:
        refusal = error
    # A group other than the real root may not hold processes and hand controllers down: move ours away, if
    # all that run in it are ours to move.
    inside = at(base, KernelFiles).procs
    if not inside or any(pid != os.getpid() for pid in inside):
        others = len([pid for pid in inside if pid != os.getpid()])
        return (
            f"cgroup v2 {base} cannot hand controllers down: {others} other processes run in it"
            if others
            else (f"cgroup v2 {base} cannot hand controllers down: {refusal.because}")
        )
    leaf = os.path.join(base, LEAF)
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(leaf)
        at(leaf, KernelFiles).procs = (os.getpid(),)
        enable_controllers(base, controllers)
    except (OSError, CgroupError) as error:
        return f"cgroup v2 {base} cannot hand controllers down: {error}"
    return ""
