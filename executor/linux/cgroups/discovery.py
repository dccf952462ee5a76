"""Find out which cgroups this host offers, choose a driver, and explain the choice.

``discover`` tests by trying: it makes and removes an empty cgroup in each place that it would use, because
permissions, read-only mounts, namespaces and security modules each refuse in their own way.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import CgroupError, CgroupUnavailableError, CgroupWriteError
from ...regular import read_regular, write_whole
from ...settings import ExecutorSettings
from .base import UNIFIED, CgroupDriver
from .files import CGROUP_ROOT, V1_CONTROLLERS, KernelFiles, Mount, UnifiedFiles, at, read_mounts, read_paths
from .none import NoCgroups
from .v1 import V1Driver
from .v2 import WANTED, V2Driver, enable_controllers

LOG = logging.getLogger(__name__)

LEAF = "yopp-self"
"""The cgroup below a delegated one into which this process moves itself: v2 allows processes in leaves only."""

DELEGATE = "start it as `systemd-run --user --scope -p Delegate=yes -- yopp ...`"
READ_ONLY_HINT = (
    "mount the cgroups writable: `{remount}`, or start the container with writable cgroups "
    "(docker: --privileged, or --cgroupns=private with a writable /sys/fs/cgroup)"
)
"""For root, if only the mount is read-only."""
ROOT_HINT = "run as root, or let root create directories for you: `mkdir -p {paths} && chown {uid} {paths}`"

V1_WEAKER = {
    "cpu": "CPU is not shared by weight, and no CPU quota is possible",
    "memory": "memory limits are enforced by polling",
    "pids": "the number of processes of a container is not limited",
}
"""The limitation that follows from each missing controller."""

PROBE_PREFIX = "yopp-probe-"
"""The prefix of the names of cgroups that are made only to see whether that is allowed."""
_probe_numbers = itertools.count()


def discover(
    settings: ExecutorSettings,
    *,
    group: str = "yopp",
    root: str = CGROUP_ROOT,
    proc: str = "/proc",
    remember: Path | None = None,
) -> CgroupDriver:
    """Choose the cgroup driver for this host.

    ``group`` names this node's cgroup (it may contain slashes) below ``settings.cgroups_hierarchy``, below
    the cgroup of this process if that can be written. The file ``remember`` keeps that location, so that a
    node that is started again elsewhere (another login, another unit) finds the cgroups of its containers.
    Raises CgroupUnavailableError if the settings ask for a version, or a freezer, that the host does not
    offer; ``auto`` returns NoCgroups at worst.
    """
    driver = _discover(settings, group, root, proc, remember)
    driver.delete_delay_seconds = settings.delete_delay_ms / 1000
    driver.hierarchy = settings.cgroups_hierarchy
    if settings.pause_mechanism == "freezer" and not driver.can_freeze:
        raise CgroupUnavailableError(
            "containers cannot be paused by the freezer on this host",
            because="; ".join(driver.describe().weaker) or "no freezer is writable here",
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
    search = _Search(relative, _recall(remember))
    try:
        search.mounts, search.own = read_mounts(proc, root), read_paths(proc)
    except OSError as error:
        LOG.debug("no cgroups: %s", error)
    driver: CgroupDriver | None = None
    if wish in ("auto", "v2"):
        driver = search.v2()
    if driver is None and wish in ("auto", "v1"):
        driver = search.v1(may_be_hybrid=wish == "auto")
    if driver is not None:
        _memorise(remember, driver.bases)
        return driver
    if not search.mounts:
        search.reasons.append(f"no cgroup file system is mounted below {root}")
    if wish != "auto":
        raise CgroupUnavailableError(
            f"cgroup {wish} cannot be used on this host",
            because="; ".join(search.reasons),
            hint="; ".join(search.all_hints()),
        )
    return NoCgroups(reasons=tuple(search.reasons), hints=search.all_hints())


def _recall(remember: Path | None) -> dict[str, str]:
    """The bases of the node's earlier run that still exist."""
    if remember is None:
        return {}
    try:
        found = json.loads(read_regular(str(remember)))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(name): str(path) for name, path in found.items() if os.path.isdir(str(path))}


def _memorise(remember: Path | None, bases: Mapping[str, str]) -> None:
    if remember is None:
        return
    try:
        write_whole(str(remember), json.dumps(dict(bases), sort_keys=True).encode() + b"\n")
    except OSError as error:
        LOG.warning("cannot write %s: %s", remember, error.strerror)


def enter_leaf(settings: ExecutorSettings, *, root: str = CGROUP_ROOT, proc: str = "/proc") -> None:
    """Call before daemons are started: if this process is alone in a delegated v2 cgroup, move it to a leaf
    of that cgroup, in which the daemons then start. In the delegated cgroup itself, each would keep the
    others from enabling controllers for its children.

    Elsewhere nothing is changed.
    """
    if settings.cgroups_mount not in ("auto", "v2"):
        return
    with contextlib.suppress(OSError):
        mount = next((one for one in read_mounts(proc, root) if one.version == 2 and not one.read_only), None)
        here = None if mount is None else mount.directory_in(read_paths(proc))
        if here is None or os.path.basename(here) == LEAF:
            return
        offered = tuple(name for name in WANTED if name in at(here, UnifiedFiles).controllers)
        if offered and writable(here, "") and (refusal := _hand_down(here, offered)):
            LOG.debug("%s", refusal)


def writing_hint(points: Sequence[str], directory: str, uid: int) -> str:
    """What to do so that ``uid`` can write ``directory`` below these mounts."""
    if uid == 0:
        # mount(8) takes one directory. Without ``bind``, Linux 6.18 refuses for a v1 hierarchy that has cgroups.
        once = f"mount -o remount,bind,rw {points[0]}"
        every = f"for each in {' '.join(points)}; do mount -o remount,bind,rw $each; done"
        return READ_ONLY_HINT.format(remount=once if len(points) == 1 else every)
    return ROOT_HINT.format(paths=" ".join(f"{point}/{directory}" for point in points), uid=uid)


def writable(base: str, relative: str) -> bool:
    """Whether cgroups can be made at ``base/relative``, which need not exist: makes one and removes it, and those of
    processes that were killed between the two."""
    level = os.path.join(base, relative)
    while not os.path.isdir(level):
        if len(level) <= len(base):
            return False
        level = os.path.dirname(level)
    probe = os.path.join(level, f"{PROBE_PREFIX}{os.getpid()}-{next(_probe_numbers)}")
    try:
        os.mkdir(probe)
    except OSError:
        return False
    # A live process may remove this one, and this one that of a live process: all that counts is that it was made.
    for left in {probe, *glob.glob(f"{glob.escape(level)}/{PROBE_PREFIX}*")}:
        with contextlib.suppress(OSError):
            os.rmdir(left)
    return not os.path.exists(probe)


@dataclass
class _Search:
    """Looks for hierarchies that can hold the cgroup ``relative``.

    ``known`` are the bases of an earlier run, ``own`` the cgroups of this process; ``reasons`` say what
    cannot be used, and ``hints`` how to change that; root has to mount ``read_only`` writable.
    """

    relative: str
    known: dict[str, str]
    mounts: tuple[Mount, ...] = ()
    own: dict[str, str] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    read_only: dict[str, None] = field(default_factory=dict)

    def all_hints(self) -> tuple[str, ...]:
        """What to do, each once."""
        mounting = [writing_hint(list(self.read_only), "", 0)] if self.read_only else []
        return tuple(dict.fromkeys([*mounting, *self.hints]))

    def v1(self, *, may_be_hybrid: bool) -> V1Driver | None:
        """Use v1 hierarchies, and the bare v2 mount beside them if it can replace missing ones."""
        bases: dict[str, str] = {}
        closed: dict[str, str] = {}
        for controller in V1_CONTROLLERS:
            mount = next((one for one in self.mounts if controller in one.controllers), None)
            if mount is None:
                continue
            base = self._choose(mount, controller)
            if base is not None:
                bases[controller] = base
            else:
                closed[controller] = mount.point
        if closed:
            points = dict.fromkeys(closed.values())
            self.reasons.append(f"cgroup v1 {', '.join(closed)} cannot be written ({', '.join(points)})")
            if uid := os.getuid():
                self.hints.append(writing_hint(list(points), self.relative.split("/")[0], uid))
            else:  # only the mount keeps root from writing
                self.read_only |= points
        if not bases.keys() & {"cpu", "memory"}:
            return None
        if may_be_hybrid and not {"freezer", "cpuacct"} <= bases.keys():
            self._add_unified(bases)
        weaker = [sentence for controller, sentence in V1_WEAKER.items() if controller not in bases]
        if "freezer" not in bases and UNIFIED not in bases:
            weaker.append(
                "containers are killed without being frozen first: a very fast forker may need several rounds"
            )
        return V1Driver(bases, self.relative, weaker=tuple(self.reasons + weaker), hints=self.all_hints())

    def _add_unified(self, bases: dict[str, str]) -> None:
        """Use the bare v2 mount of a hybrid host to freeze, kill and count CPU time.

        Only where v1 cannot: processes join v1 cgroups one thread at a time, in 0.1 ms, but a v2 cgroup as a whole,
        for which the kernel waits until every CPU has passed through the scheduler: 6 to 20 ms of each start.
        """
        bare = next((one for one in self.mounts if one.version == 2), None)
        base = None if bare is None else self._choose(bare, UNIFIED)
        if base is None:
            return
        bases[UNIFIED] = base
        # The v2 mount replaces these: fewer hierarchies to make cgroups in and to join.
        bases.pop("freezer", None)
        if bases.get("cpuacct") != bases.get("cpu"):
            bases.pop("cpuacct", None)

    def _candidates(self, mount: Mount, here: str | None, name: str) -> list[str]:
        """Directories to try, best first: the known one, the cgroup of this process, the mount's root."""
        found = (self.known.get(name), here, mount.point)
        return list(dict.fromkeys(path for path in found if path is not None))

    def _choose(self, mount: Mount, name: str) -> str | None:
        here = mount.directory_in(self.own)
        for candidate in [] if mount.read_only else self._candidates(mount, here, name):
            if candidate.startswith(mount.point) and writable(candidate, self.relative):
                return candidate
        return None

    def v2(self) -> V2Driver | None:
        """The unified hierarchy, if it has controllers that can be enabled for our cgroups."""
        mount = next((one for one in self.mounts if one.version == 2), None)
        if mount is None:
            return None
        if mount.read_only:
            self.reasons.append(f"cgroup v2 at {mount.point} is mounted read-only")
            self.read_only[mount.point] = None
            return None
        here = mount.directory_in(self.own)
        if here is not None and os.path.basename(here) == LEAF:
            here = os.path.dirname(here)
        for candidate in self._candidates(mount, here, UNIFIED):
            try:
                offered = tuple(name for name in WANTED if name in at(candidate, UnifiedFiles).controllers)
            except OSError:
                continue
            if not offered:
                continue
            refusal = f"cgroup v2 {candidate} is not writable"
            if writable(candidate, self.relative):
                refusal = _hand_down(candidate, offered)
            if refusal:
                self.reasons.append(refusal)
                self.hints.append(DELEGATE)
                continue
            missing = [name for name in WANTED if name not in offered]
            weaker = tuple(f"the controller {name} is not delegated to {candidate}" for name in missing)
            hints = ("`systemctl edit user@.service`: [Service] Delegate=cpu memory pids",) if missing else ()
            return V2Driver(candidate, self.relative, offered, weaker=weaker, hints=hints)
        return None


def _hand_down(base: str, controllers: tuple[str, ...]) -> str:
    """Enable the controllers for the cgroups below ``base``, moving this process to a leaf if needed. Returns
    "" or the reason why not."""
    refused = f"cgroup v2 {base} cannot delegate controllers"
    try:
        enable_controllers(base, controllers)
        return ""
    except CgroupWriteError as error:
        refusal = error
    # Only the real root may hold processes and enable controllers: move this process away, if no other runs
    # in the cgroup.
    inside = at(base, KernelFiles).procs
    others = len([pid for pid in inside if pid != os.getpid()])
    if others:
        return f"{refused}: {others} other processes run in it"
    if not inside:
        return f"{refused}: {refusal.because}"
    leaf = os.path.join(base, LEAF)
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(leaf)
        at(leaf, KernelFiles).procs = (os.getpid(),)
        enable_controllers(base, controllers)
    except (OSError, CgroupError) as error:
        return f"{refused}: {error}"
    return ""
