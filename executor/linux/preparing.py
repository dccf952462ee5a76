"""Prepares containers that wait, so that little is left to do when their turn comes.

Making a container's cgroups and joining them, starting a shell and writing files takes milliseconds, on
cgroup v2 mostly spent waiting for the kernel. A container that is queued, or for which others are being
paused or killed, has the time: its directories and its cgroup are made under its own name, and its shim is
started up to the point where the command would begin (``Prepared``). No cgroup is used twice.

For a container that will be started in a slot of the pool, only the directories are made: the slot provides
the rest.

A prepared container has not begun: its end need not be reported. It ends when this process ends, so that the
next run of the node finds it waiting, with at most an empty cgroup and empty directories.

Decisions: prepared-containers.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from ..errors import ExecutorError
from ..records import ContainerSpec, ExecutionType
from .context import ExecutorContext
from .procfs import children, is_alive, read_stat
from .shim import Ended, ExitWatcher, LaunchRequest, Prepared, ShimLauncher, kill_identified

LOG = logging.getLogger(__name__)

CLOSE_SECONDS = 1.0
"""How long ``close`` waits for prepared shims to end by themselves."""

FURNISH_SECONDS = 0.003
"""The delay before directories for slots are made: starting and reporting the next container is more urgent."""

REMOVE_SECONDS = 0.05
"""How long the cgroup of a shell that has just ended may stay busy."""


@dataclass(slots=True)
class Ready:
    """A prepared container. ``place`` identifies its working directory at that time; ``on_end`` is called
    when its shim has ended."""

    spec: ContainerSpec
    prepared: Prepared
    place: tuple[int, int]
    on_end: Callable[[Ended], None]


class Preparer:
    """Keeps up to ``limit`` of the waiting guaranteed containers, and as many of the opportunistic ones, prepared.

    ``make_request`` makes the request to start one, given the files to join; ``in_use`` tells whether a container
    has been launched; ``pooled`` whether they will be started in slots. Everything but ``close`` returns at once.
    """

    def __init__(
        self,
        context: ExecutorContext,
        limit: int,
        *,
        make_request: Callable[[ContainerSpec, tuple[str, ...]], LaunchRequest],
        in_use: Callable[[str], bool],
        pooled: Callable[[], bool],
        launcher: ShimLauncher,
        watcher: ExitWatcher,
    ) -> None:
        self._context = context
        self._limit = limit
        self._make_request = make_request
        self._in_use = in_use
        self._pooled = pooled
        self._launcher = launcher
        self._watcher = watcher
        self._loop = context.loop
        # An OrderedDict instead of a dict, as in ``core/queues.py``.
        self._waiting = {kind: OrderedDict[str, ContainerSpec]() for kind in ExecutionType}
        self._ready: dict[str, Ready] = {}
        #: containers whose directories are made
        self._furnished: dict[str, ContainerSpec] = {}
        self._ending: dict[int, Ready] = {}
        self._filling: asyncio.Handle | None = None

    def waits(self, spec: ContainerSpec) -> None:
        """Note that a container waits, or that the spec of a waiting one has changed."""
        if self._limit == 0 or not self._context.directories.logs_are_its_own(spec):
            return  # nothing is written to somebody's directory before the container begins
        if spec.container_id in self._furnished:
            self._furnished[spec.container_id] = spec
            return
        ready = self._ready.get(spec.container_id)
        if ready is not None:
            if ready.spec == spec:
                return
            self._abandon(ready)
        self._forget(spec.container_id)
        self._waiting[spec.execution_type][spec.container_id] = spec
        self._fill_soon()

    def gone(self, container_id: str) -> None:
        """Note that a container no longer waits, and will not be launched."""
        self._forget(container_id)
        ready = self._ready.get(container_id)
        if ready is not None:
            self._abandon(ready)
            self._fill_soon()
        elif (spec := self._furnished.pop(container_id, None)) is not None:
            self._clear_away(spec)
            self._fill_soon()

    def waits_on(self, spec: ContainerSpec) -> None:
        """Note that a container with directories, which was about to start, waits on."""
        if self._limit:
            self._furnished[spec.container_id] = spec
        else:
            self._clear_away(spec)

    def takes_furnished(self, spec: ContainerSpec) -> bool:
        """Call when the container is launched. Returns whether its directories were made, and still exist."""
        self._forget(spec.container_id)
        if self._furnished.pop(spec.container_id, None) is None:
            return False
        self._fill_soon()
        return self._context.directories.are_there(spec)

    def has(self, container_id: str) -> bool:
        """Whether the container is prepared."""
        return container_id in self._ready

    def take(self, spec: ContainerSpec) -> Ready | None:
        """The container, if it is prepared and has not changed: it then belongs to the caller. Otherwise None."""
        container_id = spec.container_id
        self._forget(container_id)
        self._furnished.pop(container_id, None)
        ready = self._ready.get(container_id)
        if ready is None:
            return None
        self._fill_soon()
        request, shim = ready.prepared.request, ready.prepared.launched
        as_it_was = ready.spec == spec and ready.place == _place(request.working_directory)
        if not as_it_was or not _waits_at_its_gate(shim.pid, shim.start):
            self._abandon(ready)
            return None
        del self._ready[container_id]
        return ready

    async def close(self) -> None:
        """Stop preparing containers, and remove what was prepared."""
        self._limit = 0
        for waiting in self._waiting.values():
            waiting.clear()
        if self._filling is not None:
            self._filling.cancel()
        while self._furnished:
            self._clear_away(self._furnished.popitem()[1])
        for ready in list(self._ready.values()):
            self._abandon(ready)
        deadline = self._loop.time() + CLOSE_SECONDS
        while self._ending and self._loop.time() < deadline:
            await asyncio.sleep(0.002)
        for ready in list(self._ending.values()):
            # For example, it was stopped. It must not outlive this process.
            kill_identified(ready.prepared.launched.pid, ready.prepared.launched.start)
            self._remove(ready.spec)

    def _forget(self, container_id: str) -> None:
        for waiting in self._waiting.values():
            waiting.pop(container_id, None)

    def _fill_soon(self) -> None:
        # The loop's present work is more urgent.
        if self._filling is None and self._limit and any(self._waiting.values()):
            if self._pooled():
                self._filling = self._loop.call_later(FURNISH_SECONDS, self._furnish)
            else:
                self._filling = self._loop.call_soon(self._fill)

    def _furnish(self) -> None:
        """Make the directories of the containers that will get slots next."""
        self._filling = None
        for kind, waiting in self._waiting.items():
            room = self._limit - sum(spec.execution_type is kind for spec in self._furnished.values())
            for container_id in list(islice(waiting, max(0, room))):
                spec = waiting.pop(container_id)
                try:
                    self._context.directories.prepare(spec)
                except ExecutorError as error:
                    # It is retried, and reported, when the container's turn comes.
                    LOG.debug("%s has no directories yet: %s", container_id, error)
                    self._clear_away(spec)
                else:
                    self._furnished[container_id] = spec

    def _clear_away(self, spec: ContainerSpec) -> None:
        if self._in_use(spec.container_id):
            return
        self._context.directories.remove_empty_logs(spec)
        self._context.directories.remove_private(spec.container_id, thoroughly=True)

    def _fill(self) -> None:
        """Prepare one more container, and schedule the next one after other work of the loop."""
        self._filling = None
        for kind in (ExecutionType.GUARANTEED, ExecutionType.OPPORTUNISTIC):
            waiting = self._waiting[kind]
            if not waiting:
                continue
            if sum(ready.spec.execution_type is kind for ready in self._ready.values()) >= self._limit:
                continue
            container_id = next(iter(waiting))
            self._prepare(waiting.pop(container_id))
            self._fill_soon()
            return

    def _prepare(self, spec: ContainerSpec) -> None:
        container_id = spec.container_id
        try:
            self._context.directories.prepare(spec)
            request = self._make_request(spec, self._context.cgroups.create(container_id, None))
            prepared = self._launcher.prepare(request)
        except ExecutorError as error:
            # It is retried, and reported, when the container's turn comes.
            LOG.debug("%s cannot be prepared: %s", container_id, error)
            self._remove(spec)
            return
        ready = Ready(spec, prepared, _place(request.working_directory), lambda _: None)
        ready.on_end = lambda end: self._ended(ready)
        self._ready[container_id] = ready
        launched = prepared.launched
        self._watcher.watch(launched.pid, launched.start, lambda end: ready.on_end(end), is_child=True)

    def _abandon(self, ready: Ready) -> None:
        """Let a prepared container end; what was made for it is removed afterwards."""
        self._ready.pop(ready.spec.container_id, None)
        self._ending[ready.prepared.launched.pid] = ready
        ready.prepared.abandon()

    def _ended(self, ready: Ready) -> None:
        if self._ending.pop(ready.prepared.launched.pid, None) is None:
            # It was ended from outside. If the container still waits, it is started in full when its turn comes.
            ready.prepared.abandon()
            if self._ready.get(ready.spec.container_id) is ready:
                del self._ready[ready.spec.container_id]
        self._remove(ready.spec)
        self._fill_soon()

    def _remove(self, spec: ContainerSpec) -> None:
        container_id = spec.container_id
        if container_id in self._ready or self._in_use(container_id):
            return
        self._context.directories.remove_empty_logs(spec)
        self._context.remove(container_id, REMOVE_SECONDS)


def _waits_at_its_gate(shim: int, start: int) -> bool:
    """Whether a shim and its shell are both alive: the OOM killer, for example, may just have killed either."""
    if not is_alive(shim, start):
        return False
    both = [read_stat(pid) for pid in (shim, *children(shim))]
    return len(both) > 1 and all(
        one is not None and one.state not in "ZX" and not one.exiting for one in both
    )


def _place(path: str) -> tuple[int, int]:
    """The identity of a directory, whatever its name; (0, 0) if it does not exist."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)
