"""Pauses and resumes containers, by the freezer or by signals, and posts when they stand still.

By signals: SIGSTOP and SIGCONT, process by process. A running process may fork while the list is read, so it is read
again until it holds nobody new and nobody running. Which are paused is decided in ``executor.core``.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Coroutine
from typing import Any

from ..core.events import ContainerPaused, ContainerPauseFailed, ContainerResumed, Event
from ..errors import CgroupError
from .cgroups.base import CgroupDriver
from .containers import LiveContainer, processes_of
from .procfs import continue_all, send, standing

LOG = logging.getLogger(__name__)

MIB = 1 << 20


QUICK_SECONDS = 0.003
"""How long the loop itself looks whether processes stand still, before a thread of its own does."""
SETTLE_SECONDS = 1.8
"""A process that was told to stop and still runs after this long is not going to stop soon. It stops when it is given
a processor, and what weighs the least waits for that (``FREEZE_SECONDS`` of the freezers)."""


class Stopping:
    """One attempt to stop a container; ``list_processes`` tells who is in it."""

    def __init__(self, list_processes: Callable[[], list[int]]) -> None:
        self._list = list_processes
        self._told: set[int] = set()

    def advance(self, seconds: float, pause: float = 0.0) -> int | None:
        """Go on stopping for at most ``seconds``, sleeping ``pause`` between rounds.

        How many processes stand still; None if it is not done yet, or there is no process (yet).
        """
        until = time.monotonic() + seconds
        while True:
            processes = self._list()
            if self._round(processes):
                return len(processes)
            if time.monotonic() >= until:
                return None
            if pause:
                time.sleep(pause)

    def _round(self, processes: list[int]) -> bool:
        """SIGSTOP everyone who was not told yet; whether nobody was new and everybody stands still."""
        new = [pid for pid in processes if pid not in self._told]
        for pid in new:
            send(pid, signal.SIGSTOP)
        self._told.update(new)
        return bool(processes) and not new and all(standing(pid) for pid in processes)


class Pauser:
    """``freezes`` where the freezer is the mechanism, signals otherwise; ``spawn`` runs work beside the loop."""

    def __init__(
        self,
        cgroups: CgroupDriver,
        *,
        freezes: bool,
        post: Callable[[Event], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._cgroups = cgroups
        self._freezes = freezes
        self._post = post
        self._spawn = spawn
        self._loop = loop

    def pause(self, held: LiveContainer, *, reclaim: bool) -> None:
        """Begin to pause; ContainerPaused or ContainerPauseFailed follows, unless it ends meanwhile. With
        ``reclaim`` the kernel takes back what memory it can.
        """
        if self._freezes:
            self._spawn(self._freeze(held, reclaim))
            return
        # Told at once, so that several that are paused for one newcomer come to a stand at the same time.
        stopping = Stopping(lambda: processes_of(held, self._cgroups))
        if self._cgroups.mode == "none":
            self._spawn(self._pause_slowly(held, stopping, reclaim))
        else:
            self._pause_quickly(held, stopping, reclaim, self._loop.time() + QUICK_SECONDS)

    def _pause_quickly(self, held: LiveContainer, stopping: Stopping, reclaim: bool, until: float) -> None:
        """Most containers are a few processes and stand still within a fraction of a millisecond."""
        if held.ended or held.ending:
            if not held.ended:
                self._post(ContainerPauseFailed(held.container_id, "it is being ended"))
            return
        stopped = stopping.advance(0.0001)
        if stopped and not reclaim:
            self._paused(held, stopped)
        elif stopped is None and self._loop.time() < until:
            self._loop.call_soon(self._pause_quickly, held, stopping, reclaim, until)
        else:
            self._spawn(self._pause_slowly(held, stopping, reclaim))

    async def _freeze(self, held: LiveContainer, reclaim: bool) -> None:
        """Pause by the freezer. A process that enters a frozen group later stands still there, too."""
        try:
            await asyncio.to_thread(self._cgroups.freeze, held.container_id)
        except (CgroupError, OSError) as error:
            if not held.ended:
                self._post(ContainerPauseFailed(held.container_id, str(error)))
            return
        if held.ending:
            # Told to end meanwhile: what is frozen takes no signal but (on v2) SIGKILL before it thaws.
            self._cgroups.thaw(held.container_id)
            if not held.ended:
                self._post(ContainerPauseFailed(held.container_id, "it is being ended"))
            return
        self._paused(held, 1, await self._reclaimed(held) if reclaim else -1)

    async def _pause_slowly(self, held: LiveContainer, stopping: Stopping, reclaim: bool) -> None:
        # It may have no process yet: its shim is just about to start it.
        stopped = await asyncio.to_thread(stopping.advance, SETTLE_SECONDS, 0.0005)
        self._paused(held, stopped, await self._reclaimed(held) if stopped and reclaim else -1)

    async def _reclaimed(self, held: LiveContainer) -> int:
        """Have the kernel take back what memory it can; the MiB that the container is held to now, or -1."""
        if held.ended or held.ending:
            return -1
        try:
            left = await asyncio.to_thread(self._cgroups.reclaim, held.container_id)
        except (CgroupError, OSError) as error:
            LOG.warning("the memory of %s is kept: %s", held.container_id, error)
            return -1
        return -1 if left is None else -(-left // MIB)

    def _paused(self, held: LiveContainer, stopped: int | None, memory: int = -1) -> None:
        if held.ended:
            return
        if stopped:
            held.paused = True
            self._post(ContainerPaused(held.container_id, memory))
            return
        targets = processes_of(held, self._cgroups)
        continue_all(targets)
        reason = "some of its processes did not stop" if targets else "it has no processes"
        self._post(ContainerPauseFailed(held.container_id, reason))

    def resume(self, held: LiveContainer) -> None:
        """Let it go on, and post ContainerResumed."""
        held.paused = False
        frozen = self._freezes and self._cgroups.frozen(held.container_id)
        self._cgroups.thaw(held.container_id)
        if not frozen:
            # A process that stopped itself before a freeze stays as it was: that is its own affair.
            continue_all(processes_of(held, self._cgroups))
        self._post(ContainerResumed(held.container_id))
