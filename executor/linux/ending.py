"""Ends containers, and tells with which code they ended.

A container has ended when its shim has, and nothing is left in its cgroup.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from ..core.events import ContainerExited, Event
from ..errors import CgroupError
from .adoption import is_shim
from .cgroups.base import CgroupDriver
from .containers import LiveContainer, processes_of
from .procfs import children, continue_all, is_alive, send
from .shim import RETRY_SECONDS, Ended, kill_identified, read_exit_file

LOG = logging.getLogger(__name__)

SHIM_GRACE_SECONDS = 0.1
"""How long a shim whose container is gone may take to write the exit code, before it is killed too."""


class Ender:
    """``spawn`` runs work beside the loop; ``clock`` is that of the figures of usage."""

    def __init__(
        self,
        cgroups: CgroupDriver,
        *,
        post: Callable[[Event], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
    ) -> None:
        self._cgroups = cgroups
        self._post = post
        self._spawn = spawn
        self._loop = loop
        self._clock = clock

    def kill(self, held: LiveContainer, *, force: bool) -> None:
        """Begin to end it: SIGTERM to all its processes, or with ``force`` SIGKILL until nothing is left.
        ContainerExited follows from ``shim_ended``.
        """
        if held.killed:
            return
        held.ending = True
        if force:
            held.killed = True
            self._spawn(self._kill_surely(held))
        elif not self._terminate(held):
            self._spawn(self._terminate_soon(held))

    def _terminate(self, held: LiveContainer) -> bool:
        """SIGTERM to all processes; False where the command has not begun, and the signal may have been lost.

        Who is stopped takes it only after a SIGCONT. A shell's child catches what its parent caught for a
        moment after the fork, and forgets it.
        """
        targets = processes_of(held, self._cgroups)
        begun = len(targets) > 1 or any(not is_shim(pid, held.exit_file) for pid in targets)
        for pid in targets:
            send(pid, signal.SIGTERM)
        self._cgroups.thaw(held.container_id)
        continue_all(targets)
        held.paused = False
        return begun

    async def _terminate_soon(self, held: LiveContainer) -> None:
        # Killed in the few milliseconds in which the shim has not started the command yet.
        deadline = self._loop.time() + 1.0
        while not held.ended and not held.killed and self._loop.time() < deadline:
            await asyncio.sleep(0.002)
            if not held.ended and self._terminate(held):
                return

    async def _kill_surely(self, held: LiveContainer) -> None:
        """SIGKILL until the shim has reported, or itself has to be killed. Its end is told by ``shim_ended``."""
        alone_since: float | None = None
        while not held.ended and is_alive(held.pid, held.start):
            offspring = children(held.pid)
            if offspring or self._cgroups.processes(held.container_id):
                alone_since = None
                for pid in offspring:
                    send(pid, signal.SIGKILL)
                await self._kill_group(held.container_id)
            else:
                alone_since = alone_since or self._loop.time()
                if self._loop.time() - alone_since > SHIM_GRACE_SECONDS:
                    kill_identified(held.pid, held.start)
            await asyncio.sleep(0.002)

    async def _kill_group(self, container_id: str) -> None:
        try:
            await asyncio.to_thread(self._cgroups.kill, container_id)
        except (CgroupError, OSError) as error:
            LOG.warning("%s", error)

    def shim_ended(self, held: LiveContainer, end: Ended) -> None:
        """Its shim is gone: end what is left of it, and post ContainerExited."""
        try:
            if self._cgroups.mode != "none" and not self._cgroups.processes(held.container_id):
                self._tell_end(held, end)
            else:
                self._spawn(self._end_leftovers(held, end))
        except OSError as error:
            # Out of file descriptors, say. Its end is told late then, but with the code that it has.
            LOG.warning("the end of %s cannot be read yet: %s", held.container_id, error)
            self._loop.call_later(RETRY_SECONDS, self.shim_ended, held, end)

    async def _end_leftovers(self, held: LiveContainer, end: Ended) -> None:
        """What a container leaves behind ends with it."""
        while True:
            await self._kill_group(held.container_id)
            try:
                if not await asyncio.to_thread(self._cgroups.processes, held.container_id):
                    return self._tell_end(held, end)
            except OSError as error:
                LOG.warning("the end of %s cannot be read yet: %s", held.container_id, error)
            await asyncio.sleep(RETRY_SECONDS)

    def _tell_end(self, held: LiveContainer, end: Ended) -> None:
        left = read_exit_file(held.exit_file)
        held.ended = True
        # The shim ends with the same code, for where none could be written.
        code = left.exit_code if left is not None and left.exit_code is not None else end.exit_code
        if code is None and (held.killed or end.signal):
            # Whoever kills the shim means the container: what was left of it has been killed after it.
            code = 128 + (end.signal or signal.SIGKILL)
        usage = self._cgroups.usage(held.container_id, self._clock())
        if self._cgroups.mode == "none":
            usage = replace(usage, cpu_seconds=max(usage.cpu_seconds, end.cpu_seconds))
        self._post(ContainerExited(held.container_id, code, usage))
