"""The interface of all cgroup drivers, and what v1 and v2 share (YARN's ``CGroupsHandler``).

Methods that may block (``freeze``, ``reclaim``, ``kill``, ``remove``) are for a worker thread; the others
return in well under a millisecond.
"""

from __future__ import annotations

import abc
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Iterator
from functools import cache

from ...errors import CgroupError, CgroupUnavailableError, CgroupWriteError, reason_of
from ...light import Record, field, replace
from ...records import MIB, CgroupLimits, ContainerUsage
from ..procfs import Traces, read_bytes, send, wait_until
from .files import UnifiedFiles, at, figures, group_processes
from .gauges import Gauges, beginning, read_gauge
from .groups import (
    KILL_DEADLINE_SECONDS,
    check_name,
    kill_until_empty,
    make_group,
    remove_group,
    remove_groups,
    remove_upwards,
)
from .slots import SLOT_PREFIX, SlotGroup
from .weights import GroupWeights

LOG = logging.getLogger(__name__)

UNIFIED = "unified"
"""The key of the v2 mount among the controllers."""

FREEZE_SECONDS = 1.8
"""How long a cgroup may take to freeze. Each process freezes itself when it is next scheduled, and those with
the least weight wait for that. Before Linux 6.6, a greater weight helps only processes that start to wait
after it is written. Less than ``PAUSE_PATIENCE``, the time allowed for a pause."""

HOLD_SECONDS = 0.5
"""How long a kill waits for the freezer."""

QUICK_KILL_SECONDS = 0.02
"""How long the first SIGKILL in a slot may take before the processes are frozen and killed again."""


class CgroupReport(Record):
    """What cgroups offer on this host, for people: ``mode`` is v1, v2, hybrid or none.

    ``controllers`` are those in use; ``locations`` maps each controller to the directory of the containers'
    cgroups; ``weaker`` is one sentence for each limitation; ``hints`` say how to remove the limitations.
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
    """Manages the cgroups of containers on one host, by container id. Methods that are not abstract do
    nothing here, as on a host without cgroups."""

    mode = "none"
    enforces_memory = False
    """Whether the kernel limits the memory of containers. Otherwise ``monitor.py`` measures and enforces it."""
    can_freeze = False
    delete_delay_seconds = 0.02
    """The longest pause between two attempts to remove a cgroup."""
    kill_seconds = KILL_DEADLINE_SECONDS
    """How long a kill is repeated. On shutdown it is set to 0 once the grace period is over."""
    hierarchy = ""
    """The last component of this path names yopp's topmost cgroup above the node's."""

    @abc.abstractmethod
    def describe(self) -> CgroupReport:
        """Report what is in use and its limitations."""

    def create_parent(self, limits: CgroupLimits | None = None) -> None:  # noqa: B027
        """Make the cgroup that holds this node's containers; ``limits`` apply to all of them together.

        Raises CgroupError if the kernel refuses.
        """

    @abc.abstractmethod
    def create(self, container_id: str, limits: CgroupLimits | None) -> tuple[str, ...]:
        """Make a container's cgroup with its limits, and return the files that its first process has to join.

        If the cgroup exists, only the limits are written again; without ``limits`` none are written. Raises
        CgroupError if the kernel refuses.
        """

    def started(self, container_id: str, traces: Traces) -> None:  # noqa: B027
        """Remember how to recognise the container's processes where it has no cgroup."""

    def make_slot(self, name: str) -> tuple[SlotGroup, tuple[str, ...]] | None:
        """Make the cgroup of a slot. Returns the cgroup and the files that the slot's launcher has to join;
        None without cgroups.

        Raises CgroupError if the kernel refuses, FileExistsError if the name is taken.
        """
        return None

    def slot(self, name: str) -> SlotGroup | None:
        """The cgroup of a slot that an earlier run made; None without cgroups."""
        return None

    def lend(self, container_id: str, slot: SlotGroup) -> None:  # noqa: B027
        """Make the slot's cgroup the container's, in every method that takes its id. The launcher in it stays
        excluded."""

    def give_back(self, container_id: str) -> None:  # noqa: B027
        """End the container's use of its slot's cgroup."""

    def hasten(self, container_id: str) -> Callable[[], None]:
        """Raise the container's CPU weight so that it stops or dies, and reports it, soon. Returns the
        function that undoes this."""
        return lambda: None

    def set_limits(self, container_id: str, limits: CgroupLimits) -> None:  # noqa: B027
        """Change the limits of a live container. Raises CgroupWriteError if the kernel refuses."""

    @abc.abstractmethod
    def processes(self, container_id: str) -> list[int]:
        """The container's processes, orphans included, without its launcher."""

    def leftovers(self, container_id: str) -> list[int]:
        """The container's processes after its command has ended; only for the event loop. Cheaper where the
        kernel counts processes."""
        return self.processes(container_id)

    @abc.abstractmethod
    def usage(self, container_id: str, now: float, processes: int = -1) -> ContainerUsage:
        """The usage of the container up to now; zeros if it has no cgroup. ``processes`` is their number, if the
        caller knows it."""

    def full_group(self) -> str:
        """The cgroup, this node's or one above it, whose pids limit leaves no room for two more processes; ""
        if none is known."""
        return ""

    def crowded(self, reason: str) -> str:
        """Why no process could be started, with the limit that is reached."""
        full = self.full_group()
        return f"{reason}: pids.max of {full} is reached" if full else reason

    def cpu_seconds(self, hierarchy: str) -> float | None:
        """The CPU time of everything that ever ran below this cgroup, other nodes' containers included; None
        if unknown."""
        return None

    def processes_of_others(self, hierarchy: str) -> list[int]:
        """The processes of other nodes' containers below this cgroup; empty if unknown."""
        return []

    def freeze(self, container_id: str) -> None:
        """Freeze all processes of the container. Raises CgroupUnavailableError if this host has no freezer."""
        raise CgroupUnavailableError("this host has no freezer", hint="pause by SIGSTOP")

    def thaw(self, container_id: str) -> None:  # noqa: B027
        """Let the container's processes continue. Does nothing if they are not frozen."""

    def frozen(self, container_id: str) -> bool:
        """Whether the container's cgroup is frozen."""
        return False

    def reclaim(self, container_id: str) -> int | None:
        """Reclaim the memory that the container's frozen processes can do without, and set its limit to the rest.

        Returns that limit in bytes, which holds until ``set_limits``; None if memory cannot be limited.
        Raises CgroupError if the kernel refuses.
        """
        return None

    @abc.abstractmethod
    def kill(self, container_id: str) -> None:
        """Send SIGKILL to every process of the container until none is left. Raises CgroupError if some do
        not die."""

    @abc.abstractmethod
    def remove(self, container_id: str, wait_seconds: float = 0.0) -> bool:
        """Remove the container's cgroup, retrying for ``wait_seconds`` while it is busy. Returns whether it
        is gone."""

    def remove_parent(self) -> None:  # noqa: B027
        """Remove this node's cgroup, and the cgroups above it that are no longer used."""

    def weights(self) -> GroupWeights | None:
        """The weights of this node's cgroup and of yopp's cgroups above it; None if there are none."""
        return None

    def stale_groups(self) -> list[str]:
        """The ids of all containers that have a cgroup below this node's."""
        return []

    def path(self, container_id: str) -> str:
        """The directory of the container's cgroup, for people; empty if it has none."""
        return ""

    @property
    def bases(self) -> dict[str, str]:
        """Controller -> the directory below which this node's cgroup is made; used to find it again after a
        restart."""
        return {}


class GroupDriver(CgroupDriver):
    """What v1 and v2 share: a container has one cgroup below each of ``bases`` (controller -> directory).

    Freezing and killing use the v2 mount, which a host with v1 controllers may also have.
    """

    def __init__(
        self,
        bases: dict[str, str],
        relative: str,
        *,
        weaker: tuple[str, ...] = (),
        hints: tuple[str, ...] = (),
    ) -> None:
        self._bases = dict(bases)
        self._relative = relative.strip("/")
        self._weaker = weaker
        self._hints = hints
        # Computed once: they are needed dozens of times for each container. On many distributions cpu and
        # cpuacct are one mount: one directory, one join.
        self._parents = {name: os.path.join(base, self._relative) for name, base in bases.items()}
        self._unique_bases = tuple(dict.fromkeys(bases.values()))
        self._unique_parents = tuple(dict.fromkeys(self._parents.values()))
        self._lent: dict[str, SlotGroup] = {}
        self._slots: set[str] = set()
        self._peaks: dict[str, int] = {}

    @property
    def bases(self) -> dict[str, str]:
        """Controller -> the directory below which this node's cgroup is made."""
        return dict(self._bases)

    def _group(self, controller: str, container_id: str) -> str:
        lent = self._lent.get(container_id)
        return f"{self._parents[controller]}/{container_id if lent is None else lent.name}"

    def _groups(self, container_id: str) -> tuple[str, ...]:
        lent = self._lent.get(container_id)
        if lent is not None:
            return lent.groups
        return tuple(f"{parent}/{container_id}" for parent in self._unique_parents)

    def _unified(self, container_id: str) -> UnifiedFiles:
        return at(self._group(UNIFIED, container_id), UnifiedFiles)

    @abc.abstractmethod
    def _prepare_parent(self) -> None:
        """Prepare this node's existing cgroup to hold containers."""

    @abc.abstractmethod
    def _write_limits(
        self, group: Callable[[str], str], limits: CgroupLimits, before: CgroupLimits | None = None
    ) -> None:
        """Write all limits; ``group`` returns the directory of the cgroup for each controller.

        ``before`` are the limits that are known to be written already.
        """

    @abc.abstractmethod
    def _gauges(self, group: Callable[[str], str]) -> Gauges:
        """The files with the figures of a cgroup; ``group`` returns its directory for each controller."""

    def _hold(self, container_id: str) -> None:
        """Freeze the container before a kill, if possible: without it the kill still works, but less reliably."""
        try:
            self._freeze(container_id, HOLD_SECONDS)
        except (CgroupError, OSError) as error:
            LOG.debug("killing %s without freezing it: %s", container_id, error)

    def _join_file(self, group: str) -> str:
        return "cgroup.procs"

    def describe(self) -> CgroupReport:
        """The controllers in use."""
        return CgroupReport(self.mode, tuple(self._bases), dict(self._parents), self._weaker, self._hints)

    def processes_of_others(self, hierarchy: str) -> list[int]:
        """The processes of other nodes' containers below this cgroup."""
        controller = next(iter(self._bases))
        everybodys = os.path.join(self._bases[controller], hierarchy.strip("/"))
        return group_processes(everybodys, without=os.path.relpath(self._parents[controller], everybodys))

    def create_parent(self, limits: CgroupLimits | None = None) -> None:
        """Make this node's cgroup below each base."""
        with _making():
            for base in self._unique_bases:
                make_group(base, self._relative)
        self._prepare_parent()
        if limits is not None:
            self._write_limits(self._parents.__getitem__, limits)

    def create(self, container_id: str, limits: CgroupLimits | None) -> tuple[str, ...]:
        """Make the container's cgroup below each base; returns one file to join for each."""
        groups = self._groups(check_name(container_id))
        if container_id.startswith(SLOT_PREFIX):
            raise CgroupError(
                f"{container_id!r} cannot name a cgroup",
                because="that name is reserved for the cgroups of slots",
            )
        with _making():
            for group in groups:
                try:
                    os.mkdir(group)
                except FileExistsError:
                    continue
                except FileNotFoundError:
                    self.create_parent()
                    os.mkdir(group)
        if limits is not None:
            self.set_limits(container_id, limits)
        return tuple(os.path.join(group, self._join_file(group)) for group in groups)

    def set_limits(self, container_id: str, limits: CgroupLimits) -> None:
        """Write the limits that the controllers in use support; in a slot, only those that differ."""
        lent = self._lent.get(container_id)
        if lent is None:
            self._write_limits(lambda controller: self._group(controller, container_id), limits)
            return
        before, lent.limits = lent.limits, None
        if before is not limits and before != limits:
            # The launcher needs one more process.
            wanted, known = (
                one if one is None or one.pids_max is None else replace(one, pids_max=one.pids_max + 1)
                for one in (limits, before)
            )
            assert wanted is not None
            self._write_limits(lambda controller: self._group(controller, container_id), wanted, known)
        lent.limits = limits

    def make_slot(self, name: str) -> tuple[SlotGroup, tuple[str, ...]]:
        """Make the slot's cgroup below each base. If one fails, those already made are removed."""
        groups = self._groups(name)
        made: list[str] = []
        try:
            for group in groups:
                os.mkdir(group)
                made.append(group)
        except OSError as error:
            for group in made:
                remove_group(group)
            if isinstance(error, FileExistsError):
                raise
            raise CgroupError(f"cannot create {group}", because=reason_of(error)) from error
        self._slots.add(name)
        return self.slot(name), tuple(os.path.join(group, self._join_file(group)) for group in groups)

    def slot(self, name: str) -> SlotGroup:
        """The slot's cgroup below each base."""
        gauges = self._gauges(lambda controller: f"{self._parents[controller]}/{name}")
        return SlotGroup(name, self._groups(name), gauges)

    def lend(self, container_id: str, slot: SlotGroup) -> None:
        """Lend the slot's cgroup until ``give_back`` or ``remove``."""
        self._slots.add(slot.name)
        self._lent[check_name(container_id)] = slot

    def hasten(self, container_id: str) -> Callable[[], None]:
        """Raise the weight to slightly more than one guaranteed vcore, if it is less. No container has
        exactly that weight, so a value that is written meanwhile is noticed and kept."""
        weights = self.weights()
        if weights is None:
            return lambda: None
        self._limits_change(container_id)
        return weights.hasten(os.path.join(weights.groups[0], os.path.basename(self.path(container_id))))

    def give_back(self, container_id: str) -> None:
        """Does nothing if the container has no slot."""
        self._lent.pop(container_id, None)

    def usage(self, container_id: str, now: float, processes: int = -1) -> ContainerUsage:
        """The usage that the kernel has counted for the container."""
        lent = self._lent.get(container_id)
        if lent is not None:
            return lent.usage(now, processes if processes >= 0 else len(lent.processes()))
        gauges = self._gauges(lambda controller: self._group(controller, container_id))
        read = cache(beginning)  # several figures may be in one file
        memory, peak = int(read_gauge(gauges.memory_bytes)), int(read_gauge(gauges.memory_peak_bytes))
        count = processes if processes >= 0 else len(group_processes(self._groups(container_id)[0]))
        # memory.peak came with Linux 5.19; on older kernels the highest sample is used.
        peak = self._peaks[container_id] = max(peak, memory, self._peaks.get(container_id, 0))
        return ContainerUsage(
            cpu_seconds=read_gauge(gauges.cpu_seconds, read),
            memory_bytes=memory,
            memory_peak_bytes=peak,
            throttled_seconds=read_gauge(gauges.throttled_seconds, read),
            oom_kills=int(read_gauge(gauges.oom_kills, read)),
            processes=count,
            sampled_at=now,
            limit_ooms=-1 if count or gauges.limit_ooms is None else int(read_gauge(gauges.limit_ooms, read)),
            refused_forks=0 if count else int(read_gauge(gauges.refused_forks)),
        )

    def cpu_seconds(self, hierarchy: str) -> float | None:
        """The CPU seconds that the cgroup itself has counted, if it counts them."""
        below = hierarchy.strip("/")
        gauge = self._gauges(lambda controller: os.path.join(self._bases[controller], below)).cpu_seconds
        return None if gauge is None else read_gauge(gauge)

    def full_group(self) -> str:
        """Compares ``pids.max`` with ``pids.current``, which every cgroup but a root has."""
        group = self._parents.get("pids") or self._parents.get(UNIFIED, "")
        while most := read_bytes(f"{group}/pids.max").strip():
            if most.isdigit() and int(most) < int(read_bytes(f"{group}/pids.current") or 0) + 2:
                return group
            group = os.path.dirname(group)
        return ""

    def _limits_change(self, container_id: str) -> None:
        """Note that the limits are being written by something other than ``set_limits``."""
        lent = self._lent.get(container_id)
        if lent is not None:
            lent.limits = None

    def processes(self, container_id: str) -> list[int]:
        """The union over all cgroups of the container: a process that starts is in only some of them."""
        lent = self._lent.get(container_id)
        if lent is not None:
            return lent.processes()
        found: dict[int, None] = {}
        for group in self._groups(container_id):
            found.update(dict.fromkeys(group_processes(group)))
        return list(found)

    def leftovers(self, container_id: str) -> list[int]:
        """Most containers leave no process, which one figure of a slot shows."""
        lent = self._lent.get(container_id)
        return lent.leftovers() if lent is not None else self.processes(container_id)

    def freeze(self, container_id: str) -> None:
        """Returns once the kernel reports the cgroup as frozen."""
        self._freeze(container_id, FREEZE_SECONDS)

    def _freeze(self, container_id: str, seconds: float) -> None:
        files = self._unified(container_id)
        files.freeze = True
        if not wait_until(lambda: self.frozen(container_id), seconds):
            files.freeze = False
            raise CgroupError(
                f"{container_id} does not freeze", because="a process of it is blocked in the kernel"
            )

    def thaw(self, container_id: str) -> None:
        """Write ``cgroup.freeze``."""
        with contextlib.suppress(CgroupWriteError):
            self._unified(container_id).freeze = False

    def frozen(self, container_id: str) -> bool:
        """Whether ``cgroup.events`` reports the cgroup as frozen."""
        return figures(self._unified(container_id), "events").get("frozen") == 1

    def kill(self, container_id: str) -> None:
        """Use ``cgroup.kill`` (Linux 5.14 or later); on older kernels, or in a slot with a launcher, kill
        repeatedly."""
        if container_id in self._lent:
            self._kill_in_slot(container_id)
            return
        if UNIFIED in self._bases:
            with contextlib.suppress(CgroupWriteError):
                self._unified(container_id).kill = True
        kill_until_empty(
            container_id, lambda: self.processes(container_id), patience=lambda: self.kill_seconds
        )

    def _kill_in_slot(self, container_id: str) -> None:
        """The first SIGKILL is usually enough. Processes that fork meanwhile are frozen before the next one."""
        for pid in self.processes(container_id):
            send(pid, signal.SIGKILL)
        if not wait_until(lambda: not self.processes(container_id), QUICK_KILL_SECONDS):
            self._kill_frozen(container_id)

    def _kill_frozen(self, container_id: str) -> None:
        """Freeze, SIGKILL and thaw, repeatedly."""
        kill_until_empty(
            container_id,
            lambda: self.processes(container_id),
            before=lambda: self._hold(container_id),
            after=lambda: self.thaw(container_id),
            patience=lambda: self.kill_seconds,
        )

    def remove(self, container_id: str, wait_seconds: float = 0.0) -> bool:
        """Remove all cgroups of the container, and those below them."""
        groups = self._groups(check_name(container_id))
        self._peaks.pop(container_id, None)
        removed = remove_groups(groups, wait_seconds, self.delete_delay_seconds)
        if removed:
            lent = self._lent.pop(container_id, None)
            if lent is not None:
                lent.close()
            self._slots.discard(container_id if lent is None else lent.name)
        return removed

    def remove_parent(self) -> None:
        """Remove this node's cgroup below each base, and empty levels above it."""
        for base in self._unique_bases:
            remove_upwards(base, self._relative)

    def stale_groups(self) -> list[str]:
        """The containers that have a cgroup of their own below any base, and slots of an earlier run that are
        not lent."""
        names: dict[str, None] = {}
        for parent in self._unique_parents:
            with contextlib.suppress(FileNotFoundError):
                names.update(
                    (entry.name, None) for entry in os.scandir(parent) if entry.is_dir(follow_symlinks=False)
                )
        return [name for name in names if name not in self._slots]


CPU = ("cpu_shares", "cpu_weight", "cpu_quota_us", "cpu_period_us")
MEMORY = ("memory_max", "memory_low", "swappiness")
PIDS = ("pids_max",)


def differ(names: tuple[str, ...], limits: CgroupLimits, before: CgroupLimits | None) -> bool:
    """Whether any of these limits has to be written."""
    return before is None or any(getattr(limits, name) != getattr(before, name) for name in names)


def rounded_up(used: int) -> int:
    """The memory limit of a paused container that uses ``used`` bytes: rounded up to whole MiB, plus one."""
    return (-(-used // MIB) + 1) * MIB


@contextlib.contextmanager
def _making() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CgroupError(f"cannot create {error.filename}", because=reason_of(error)) from error
