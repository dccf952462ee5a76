"""Where cgroup file systems are mounted, and their kernel files as attributes.

A group is ``at(path, UnifiedFiles)``; its files are read and written like attributes, by cgroupspy's descriptors and
our own for what it lacks. Nothing here decides what is written, or knows containers. ``/proc`` and the mount points
are arguments, so that tests can describe any host. Sources: Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst,
proc(5).
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping

from cgroupspy.controllers import Controller, CpuController, MemoryController
from cgroupspy.interfaces import BaseFileInterface, DictFile, FlagFile, IntegerFile, MultiLineIntegerFile

from ...errors import CgroupWriteError, reason_of
from ...hints import Any, TypeVar
from ...light import Record

CGROUP_ROOT = "/sys/fs/cgroup"
"""Where cgroups are mounted."""

V1_CONTROLLERS = ("cpu", "cpuacct", "memory", "pids", "freezer")
"""The v1 hierarchies that yopp uses."""

UNLIMITED = 1 << 60
"""v1 expresses "no limit" of memory as a number near 2**63, rounded to pages."""


class Mount(Record):
    """One cgroup mount. ``root`` is the part of the hierarchy that it shows (``/`` unless inside a container)."""

    point: str
    root: str
    version: int
    controllers: tuple[str, ...]
    read_only: bool

    def directory_of(self, path: str) -> str | None:
        """The directory of the cgroup ``path`` of this hierarchy; None if the mount does not show it."""
        relative = os.path.relpath(path, self.root)
        if relative == ".":
            return self.point
        if relative.startswith(".."):
            return None
        return os.path.join(self.point, relative)

    def directory_in(self, paths: Mapping[str, str]) -> str | None:
        """The directory of the cgroup of this hierarchy in ``paths`` (``read_paths``); None if there is none, or the
        mount does not show it."""
        names = self.controllers if self.version == 1 else ("",)
        path = next((paths[name] for name in names if name in paths), "")
        return self.directory_of(path) if path else None


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


def read_paths(proc: str, pid: int | str = "self") -> dict[str, str]:
    """The cgroups of a process: v1 controller -> path, ``""`` -> path in the unified hierarchy."""
    paths: dict[str, str] = {}
    with open(f"{proc}/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            _, _, rest = line.rstrip("\n").partition(":")
            controllers, _, path = rest.partition(":")
            for name in controllers.split(","):
                paths[name] = path
    return paths


def paths_below(bases: Iterable[str], hierarchy: str) -> tuple[str, ...]:
    """The paths of the cgroup ``hierarchy`` below these directories, as they are in /proc/PID/cgroup."""
    return tuple(
        os.path.normpath(f"{mount.root.rstrip('/')}/{os.path.relpath(base, mount.point)}/{hierarchy}")
        for base in dict.fromkeys(bases)
        for mount in read_mounts("/proc", CGROUP_ROOT)
        if f"{base}/".startswith(f"{mount.point}/")
    )


class KernelFiles(Controller):  # type: ignore[misc]
    """The files that every cgroup has, each read with one system call (a tenth of the cost of a Python text
    file)."""

    procs: Any = MultiLineIntegerFile("cgroup.procs")

    def get_property(self, filename: bytes) -> str:
        """The text of one file, stripped. Raises OSError if it cannot be read."""
        fd = os.open(self.filepath(filename), os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.read(fd, 65536)
            # The kernel returns long lists of processes one page at a time.
            while len(text) >= 4000 and (more := os.read(fd, 65536)):
                text += more
        finally:
            os.close(fd)
        return text.decode("ascii", "replace").strip()

    def set_property(self, filename: bytes, value: object) -> None:
        """Write one value in one write, as the kernel requires. Raises CgroupWriteError if the kernel refuses."""
        path = os.fsdecode(self.filepath(filename))
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                os.write(fd, str(value).encode("ascii"))
            finally:
                os.close(fd)
        except OSError as error:
            because = reason_of(error)
            if not os.path.exists(path):
                exists = os.path.isdir(os.path.dirname(path))
                because = "this kernel has no such file" if exists else "no such group"
            raise CgroupWriteError(f"cannot write {value!r} to {path}", because=because) from error

    def has(self, filename: str) -> bool:
        """Whether this cgroup has such a file."""
        return os.path.exists(self.filepath(filename.encode()))


class LimitFile(IntegerFile):  # type: ignore[misc]
    """An integer, or None for no limit, which the kernel writes as ``max``."""

    def sanitize_get(self, value: str) -> int | None:
        """Convert the text to the value."""
        return None if value == "max" else int(value)

    def sanitize_set(self, value: int | None) -> str:
        """Convert the value to its text."""
        return "max" if value is None else str(int(value))


class BandwidthFile(BaseFileInterface):  # type: ignore[misc]
    """v2's ``cpu.max``: (quota or None, period), both in microseconds."""

    def sanitize_get(self, value: str) -> tuple[int | None, int]:
        """Convert the text to the value."""
        quota, _, period = value.partition(" ")
        return (None if quota == "max" else int(quota), int(period or 100_000))

    def sanitize_set(self, value: tuple[int | None, int]) -> str:
        """Convert the value to its text."""
        quota, period = value
        return f"{'max' if quota is None else int(quota)} {int(period)}"


class WordsFile(BaseFileInterface):  # type: ignore[misc]
    """Words on one line, as in ``cgroup.controllers``."""

    def sanitize_get(self, value: str) -> tuple[str, ...]:
        """Convert the text to the value."""
        return tuple(value.split())

    def sanitize_set(self, value: tuple[str, ...]) -> str:
        """Convert the value to its text."""
        return " ".join(value)


class CpuFiles(KernelFiles, CpuController):  # type: ignore[misc]
    """v1 ``cpu``: shares, cfs_quota_us, cfs_period_us, stat (``throttled_time`` in nanoseconds)."""


class MemoryFiles(KernelFiles, MemoryController):  # type: ignore[misc]
    """v1 ``memory``."""

    force_empty: Any = IntegerFile("memory.force_empty", writeonly=True)


class PidsFiles(KernelFiles):
    """v1 ``pids``. ``current`` counts threads too."""

    max: Any = LimitFile("pids.max")
    current: Any = IntegerFile("pids.current", readonly=True)


class FreezerFiles(KernelFiles):
    """v1 ``freezer``: FROZEN or THAWED is written to ``state``, which reads FREEZING in between."""

    state: Any = BaseFileInterface("freezer.state")


class UnifiedFiles(KernelFiles):
    """v2: all controllers in one cgroup. On a hybrid host only the files that need no controller exist."""

    controllers: Any = WordsFile("cgroup.controllers", readonly=True)
    subtree_control: Any = WordsFile("cgroup.subtree_control")
    events: Any = DictFile("cgroup.events", readonly=True)
    freeze: Any = FlagFile("cgroup.freeze")
    kill: Any = FlagFile("cgroup.kill", writeonly=True)
    cpu_weight: Any = IntegerFile("cpu.weight")
    cpu_max: Any = BandwidthFile("cpu.max")
    memory_max: Any = LimitFile("memory.max")
    memory_low: Any = LimitFile("memory.low")
    memory_swap_max: Any = LimitFile("memory.swap.max")
    memory_reclaim: Any = IntegerFile("memory.reclaim", writeonly=True)
    memory_current: Any = IntegerFile("memory.current", readonly=True)
    pids_max: Any = LimitFile("pids.max")


class Group(Record):
    """As much of cgroupspy's ``Node`` as its controllers use. Its import takes 5 to 60 ms: logging, trees."""

    full_path: bytes


Files = TypeVar("Files", bound=KernelFiles)


def at(path: str, kind: type[Files]) -> Files:
    """The files of the cgroup at ``path``, which need not exist yet."""
    return kind(Group(os.fsencode(path)))


def group_processes(path: str, *, without: str = "") -> list[int]:
    """The processes in the cgroup at ``path`` and in those below it, except ``without`` (a relative path) and those
    below that; empty if it does not exist."""
    for _ in range(LOOKS):
        try:
            found = _listed(f"{path}/cgroup.procs")
            # cgroup file systems count the child cgroups in st_nlink: two means that there is none below.
            if os.stat(path).st_nlink != 2:
                for parent, name in groups_below(path, without=without):
                    found += _listed(f"{name}/cgroup.procs", parent)
            return list(dict.fromkeys(found))
        except OSError as error:
            if error.errno not in _GONE:
                raise
            if not os.path.exists(path):
                return []
    raise OSError(errno.EAGAIN, "the groups below are created and removed too fast to be read", path)


LOOKS = 100
"""How often the cgroups below one are read again while some of them are being removed."""


_GONE = (errno.ENOENT, errno.ENODEV)
"""The errors of reading a cgroup that was removed, or is being removed."""


def _listed(path: str, directory: int | None = None) -> list[int]:
    """The processes that a file lists. A threaded cgroup (v2) has no such list: its threads are returned.
    Empty if the file is gone. A zero stands for a process outside our pid namespace, and is left out."""
    fd = -1
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
        text = b""
        while more := os.read(fd, 65536):
            text += more
        return [pid for pid in map(int, text.split()) if pid > 0]
    except OSError as error:
        if error.errno in _GONE:
            return []
        if error.errno == errno.EOPNOTSUPP and path.endswith(".procs"):
            return _listed(path.removesuffix("procs") + "threads", directory)
        raise
    finally:
        if fd >= 0:
            os.close(fd)


_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def groups_below(path: str, *, without: str = "") -> Iterator[tuple[int, str]]:
    """Every cgroup below ``path``, children before parents: the descriptor of its parent, and its name there. Leaves
    out the relative path ``without``, and what is below it.

    A container that may make cgroups can nest them deeper than a path can be long, or a call stack deep: one
    descriptor moves down and up instead. Raises OSError.
    """
    here = os.open(path, _DIRECTORY)
    names: list[str] = []
    waiting = [_subgroups(here)]
    try:
        while True:
            if waiting[-1]:
                name = waiting[-1].pop()
                if without and without == "/".join((*names, name)):
                    continue
                try:
                    below = os.open(name, _DIRECTORY, dir_fd=here)
                except FileNotFoundError:
                    continue
                os.close(here)
                here = below
                names.append(name)
                waiting.append(_subgroups(here))
                continue
            waiting.pop()
            if not names:
                return
            above = os.open("..", _DIRECTORY, dir_fd=here)
            os.close(here)
            here = above
            yield here, names.pop()
    finally:
        os.close(here)


def _subgroups(directory: int) -> list[str]:
    if os.stat(directory).st_nlink == 2:
        return []
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def leave_freezer(pid: int) -> None:
    """Move a process out of the v1 freezer, in which SIGKILL does not reach it. A container that may make
    cgroups may have frozen it in any of them. The process goes to the root of that hierarchy; if that is
    refused, its cgroup is thawed."""
    try:
        mounts = read_mounts("/proc", CGROUP_ROOT)
        path = read_paths("/proc", pid).get("freezer", "/")
    except OSError:
        return
    mount = next((one for one in mounts if one.version == 1 and "freezer" in one.controllers), None)
    group = None if mount is None or path == "/" else mount.directory_of(path)
    if mount is None or group is None:
        return
    for file, text in ((f"{mount.point}/cgroup.procs", str(pid)), (f"{group}/freezer.state", "THAWED")):
        try:
            fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            os.write(fd, text.encode())
            return
        except OSError:
            continue
        finally:
            os.close(fd)


def root_of(group: str) -> str:
    """The root of the hierarchy that a cgroup is in, as far as it is mounted here: it may hold any process."""
    while os.path.exists(os.path.join(os.path.dirname(group), "cgroup.procs")):
        group = os.path.dirname(group)
    return group


def number(files: KernelFiles, attribute: str) -> int:
    """An integer file; 0 if the cgroup or the file does not exist."""
    try:
        value: Any = getattr(files, attribute)
    except OSError:
        return 0
    return int(value or 0)


def figures(files: KernelFiles, attribute: str) -> dict[str, int]:
    """A file of ``name value`` lines; {} if the cgroup or the file does not exist."""
    try:
        value: dict[str, int] = getattr(files, attribute)
    except (OSError, ValueError):
        return {}
    return value
