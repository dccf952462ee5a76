"""Finds the containers that an earlier run of a node left, and removes those that have no record.

It reports their state (``ContainerRecovered``); ``executor.core.recovery`` decides what follows. All that it does to
a container is to end what outlived its launcher, since its end could not be reported, and to let it continue if it was
being paused or resumed.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable

from ..core.events import ContainerRecovered
from ..light import replace
from ..records import ContainerRecord, ContainerState, ContainerUsage
from .cgroups.slots import is_slot
from .context import ExecutorContext, LiveContainer
from .processes import kill_launcher
from .procfs import all_stopped, is_alive, read_stat, wait_until
from .slots.journals import Begun, journal_path, journals, remove_journal, surely, survey
from .slots.marks import marked_below

LOG = logging.getLogger(__name__)

KILLED = 128 + signal.SIGKILL
_STOPPED = (ContainerState.PAUSING, ContainerState.PAUSED, ContainerState.RESUMING)

FIRST_LINE_SECONDS = 0.5
"""How long a launcher that has begun a container may take to write its pid into the journal."""


class Finder:
    """Finds containers by their records. Blocks: it is used while a node starts. What has no record is removed only
    if ``is_id`` of its name: that may be anything, as may be the arguments of a process."""

    def __init__(self, context: ExecutorContext, is_id: Callable[[str], bool]) -> None:
        self._context = context
        self._is_id = is_id
        self._cgroups = context.cgroups
        self._directories = context.directories
        self._begun: dict[str, Begun] = {}
        self._journals: dict[str, set[str]] = {}
        self._spared = {os.getpid()}

    def survey(self) -> None:
        """Read the journals of launchers, before any other call."""
        self._begun = survey(self._directories.state)

    def cleaned(self, container_id: str) -> None:
        """Note that a container was removed, and that its end is no longer needed: a journal is removed with
        its last container."""
        for path, told in list(self._journals.items()):
            told.discard(container_id)
            if not told:
                del self._journals[path]
                remove_journal(path)

    def find(self, record: ContainerRecord) -> tuple[ContainerRecovered, LiveContainer | None]:
        """The state of a recorded container, and what to watch if it is alive.

        The record in the answer has the pid and start time that were found, if it had none.
        """
        container_id = record.spec.container_id
        begun = self._begun.get(container_id)
        if begun is not None and _is_of(begun, record):
            if record.state is ContainerState.SCHEDULED:
                record = replace(record, state=ContainerState.LAUNCHING, state_since_ms=0)
            return self._find_begun(record, begun)
        path = self._cgroups.path(container_id)
        # No journal has it: it has not begun, or somebody has removed the journal, or an earlier version started it.
        if record.pid:
            self._trace(record, record.pid, record.process_start)
            if is_alive(record.pid, record.process_start):
                held = LiveContainer(container_id, record.pid, record.process_start)
                held.launcher = held.pid, held.start
                if (found := read_stat(record.pid)) is not None:
                    self._spared.add(found.parent)
                self._look_for_pause(held, record)
                usage = self._cgroups.usage(container_id, self._context.clock())
                return ContainerRecovered(record, True, held.paused, None, usage, path), held
        self._context.kill(container_id)
        usage = self._cgroups.usage(container_id, self._context.clock())
        if record.state is ContainerState.DONE:
            # Its end was recorded, so its exit code is no longer needed.
            self._context.remove(container_id, 1.0)
        elif record.state is ContainerState.SCHEDULED:
            # Remove what was prepared for it (``preparing.py``).
            self._context.remove(container_id, 1.0)
            self._directories.remove_empty_logs(record.spec)
        return ContainerRecovered(record, False, False, None, usage, path), None

    def _find_begun(
        self, record: ContainerRecord, begun: Begun
    ) -> tuple[ContainerRecovered, LiveContainer | None]:
        """The state of a container that a launcher began. A slot belongs to the container from now on, and is removed
        with it."""
        container_id = record.spec.container_id
        path = journal_path(self._directories.state, begun.slot)
        if not begun.pid:
            wait_until(lambda: self._has_pid(path, begun), FIRST_LINE_SECONDS, 0.005)
        alive = is_alive(begun.launcher, begun.launcher_start)
        if not (begun.pid and alive):  # after is_alive: what has ended by then has written its code
            begun = next(
                (one for one in reversed(surely(path).begun) if one.container_id == container_id), begun
            )
        record = replace(
            record, pid=record.pid or begun.pid, process_start=record.process_start or begun.start
        )
        inside = is_slot(begun.slot)
        slot = self._cgroups.slot(begun.slot) if inside else None
        if inside and (slot is None or not begun.last):
            return ContainerRecovered(record, False, False, begun.code, ContainerUsage(), ""), None
        if slot is None:
            self._trace(record, begun.pid, begun.start, begun.launcher)
            usage = self._cgroups.usage(container_id, self._context.clock())
        else:
            slot.launcher, slot.baseline = begun.launcher, begun.baseline
            usage = slot.usage(self._context.clock(), len(slot.processes()))
        name = container_id if slot is None else slot.name
        group = self._cgroups.path(name)
        if begun.code is None and alive:
            held = LiveContainer(container_id, record.pid, record.process_start, inside=inside, journal=path)
            if slot is not None:
                self._cgroups.lend(container_id, slot)
            held.launcher = begun.launcher, begun.launcher_start
            self._look_for_pause(held, record)
            return ContainerRecovered(record, True, held.paused, None, usage, group), held
        if slot is not None:
            slot.close()
        # Its launcher has ended: a slot's cgroup is removed with those that have no record.
        self._context.kill(name)
        if record.state is ContainerState.DONE:
            self._directories.remove_private(container_id, thoroughly=True)
        code = begun.code
        if code is None and record.state is ContainerState.LAUNCHING:
            code = KILLED  # it has begun, and must not begin again
        return ContainerRecovered(record, False, False, code, usage, group), None

    def _look_for_pause(self, held: LiveContainer, record: ContainerRecord) -> None:
        """Note whether the container is paused. Its record says whether the earlier run may have stopped processes: the
        container or others may have done so as well. If only some are stopped, that run has died while it paused or
        resumed the container, and they continue."""
        held.left = record.left
        held.paused = held.frozen = self._cgroups.frozen(held.container_id)
        if record.state in _STOPPED and not held.frozen:
            held.paused = all_stopped(self._cgroups.processes(held.container_id))
            if not held.paused:
                self._context.continue_all(held)

    def _has_pid(self, path: str, begun: Begun) -> bool:
        return not is_alive(begun.launcher, begun.launcher_start) or any(
            one.pid for one in surely(path).begun if one.container_id == begun.container_id
        )

    def remove_strangers(self, known: set[str]) -> None:
        """End and remove all containers of this node except ``known``."""
        lost: dict[str, Begun] = {}
        for path in journals(self._directories.state):
            begun = surely(path).begun
            if told := {one.container_id for one in begun} & known:
                self._journals[path] = told
            else:
                lost |= {one.container_id: one for one in begun if one.code is None}
                remove_journal(path)
        self._end_pool()
        self._directories.remove_earlier_spares()
        named, groups = self._directories.known_containers() | set(lost), set(self._cgroups.stale_groups())
        slots = set(filter(is_slot, groups))
        for name in slots:
            self._context.kill(name)
            self._cgroups.remove(name, 1.0)
        ids = set(filter(self._is_id, named | groups))
        for container_id in ids - known:
            LOG.info("removing leftovers of %s", container_id)
            if (one := lost.get(container_id)) is not None and one.pid:
                self._cgroups.started(
                    container_id, self._directories.traces(container_id, one.pid, one.start)
                )
            self._context.kill(container_id)
            self._context.remove(container_id, 1.0)
        if strange := sorted((named | groups) - ids - slots - known):
            LOG.warning("what no container of this node left is not removed: %s", strange[:9])

    def _end_pool(self) -> None:
        """End the remaining processes of an earlier run's pool, such as a stopped zygote, except a launcher that has a
        journal or a container, and the process that it is about to start. Any other has begun nothing."""
        state = self._directories.state
        spared = {surely(path).launcher for path in journals(state)} - {0} | self._spared
        for one in marked_below(state):
            if one.pid not in spared and one.parent not in spared:
                LOG.info("ending process %d of an earlier run's pool", one.pid)
                kill_launcher(one.pid, one.start, spared)

    def _trace(self, record: ContainerRecord, pid: int, start: int, launcher: int = 0) -> None:
        container_id = record.spec.container_id
        users = self._directories.users_of(record.spec)
        traces = self._directories.traces(container_id, pid, start, users, launcher)
        self._cgroups.started(container_id, traces)


def _is_of(begun: Begun, record: ContainerRecord) -> bool:
    """Whether a launcher began the container of this record, and not an earlier one with the same id."""
    if record.state is ContainerState.SCHEDULED:
        return 0 < begun.queued_at_ms == record.queued_at_ms
    return not record.pid or not begun.pid or (begun.pid, begun.start) == (record.pid, record.process_start)
