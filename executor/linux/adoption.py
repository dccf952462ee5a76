"""Find the containers of a node's earlier life again, and remove what nobody knows any more.

It tells what is true (``ContainerRecovered``); what that means is ``executor.core.recovery``'s business.
The one thing it does to a container on its own is to end what outlived its shim, because nobody could ever
report its end.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import replace

from ..core.events import ContainerRecovered
from ..errors import CgroupError
from ..records import ContainerRecord, ContainerState
from .cgroups.base import CgroupDriver
from .containers import LiveContainer, processes_of
from .directories import Directories
from .procfs import all_stopped, is_alive, start_time
from .shim import kill_shim, read_exit_file
from .store import StateStore

LOG = logging.getLogger(__name__)

FIRST_LINE_SECONDS = 0.5
"""How long a shim that has made its exit file may take to write its pid into it."""


class Finder:
    """Looks for containers by what was written down of them. Blocks; for the start of a node."""

    def __init__(
        self,
        store: StateStore,
        directories: Directories,
        cgroups: CgroupDriver,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._directories = directories
        self._cgroups = cgroups
        self._clock = clock

    def find(self, record: ContainerRecord) -> tuple[ContainerRecovered, LiveContainer | None]:
        """What is true of a container, and what there is to watch if it lives.

        The pid and start time in the answer's record are those found, where the record had not got them yet.
        """
        container_id = record.spec.container_id
        record = self._identify(record)
        path = self._cgroups.path(container_id)
        if record.pid:
            self._trace(container_id, record.pid, record.process_start)
        files = self._directories.exit_files(container_id)
        if record.pid and is_alive(record.pid, record.process_start):
            held = LiveContainer(container_id, record.pid, record.process_start, files[-1] if files else "")
            processes = processes_of(held, self._cgroups)
            held.paused = self._cgroups.frozen(container_id) or all_stopped(processes)
            usage = self._cgroups.usage(container_id, self._clock())
            return ContainerRecovered(record, True, held.paused, None, usage, path), held
        self._kill(container_id)
        left = read_exit_file(files[-1]) if files else None
        usage = self._cgroups.usage(container_id, self._clock())
        if record.state is ContainerState.DONE:
            # Its end was written down, so its exit code is not needed any more.
            self._remove(container_id)
        elif record.state is ContainerState.SCHEDULED:
            # What it had been made ready with (``preparing.py``): its figures begin at zero when it is started.
            self._remove(container_id)
            self._directories.remove_empty_logs(record.spec)
        return ContainerRecovered(record, False, False, left.exit_code if left else None, usage, path), None

    def _identify(self, record: ContainerRecord) -> ContainerRecord:
        """The record with the identity of its shim, which a crash may have kept from being written down.

        Where no shim has begun, the name of its exit file is taken, so that none can begin any more: the
        container may then be started again without ever running twice.
        """
        container_id = record.spec.container_id
        if record.pid or record.state not in (ContainerState.LAUNCHING, ContainerState.KILLING):
            return record
        files = self._directories.exit_files(container_id)
        if not files and self._directories.bar_earlier_attempt(container_id):
            return record
        path = (files or self._directories.exit_files(container_id))[-1]
        deadline = time.monotonic() + FIRST_LINE_SECONDS
        while (written := read_exit_file(path)) is not None and not written.pid:
            # Made by a shim that has not got to its first line, or by ourselves before an earlier crash.
            if time.monotonic() > deadline:
                return record
            time.sleep(0.005)
        pid = written.pid if written is not None else 0
        start = start_time(pid) if pid and is_shim(pid, path) else None
        return record if start is None else replace(record, pid=pid, process_start=start)

    def remove_strangers(self, known: set[str]) -> None:
        """End and remove all containers of this node but these."""
        shims = self._directories.shims()
        there = self._directories.known_containers() | set(self._cgroups.stale_groups()) | set(shims)
        for container_id in there - known:
            LOG.info("removing what is left of %s", container_id)
            for pid in shims.get(container_id, []):
                start = start_time(pid) or -1
                self._trace(container_id, pid, start)
                kill_shim(pid, start)
            self._kill(container_id)
            self._remove(container_id)

    def _trace(self, container_id: str, pid: int, start: int) -> None:
        self._cgroups.started(container_id, self._directories.traces(container_id, pid, start))

    def _kill(self, container_id: str) -> None:
        try:
            self._cgroups.kill(container_id)
        except (CgroupError, OSError) as error:
            LOG.warning("%s", error)

    def _remove(self, container_id: str) -> None:
        self._directories.remove_exit_files(container_id)
        self._directories.remove_private(container_id, thoroughly=True)
        if not self._cgroups.remove(container_id, 1.0):
            LOG.warning("the cgroup of %s cannot be removed", container_id)


def is_shim(pid: int, exit_file: str) -> bool:
    """Whether that process is the shim of this exit file: the pid may be somebody else's by now."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return os.fsencode(exit_file) in file.read().split(b"\0")
    except OSError:
        return False
