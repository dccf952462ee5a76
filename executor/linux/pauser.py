"""Pauses and resumes containers, by the freezer or by signals, and posts when they stand still.

Which are paused is ``executor.core``'s decision; how processes are brought to a stand, ``pausing``'s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from ..core.events import ContainerPaused, ContainerPauseFailed, ContainerResumed, Event
from ..errors import CgroupError
from .cgroups.base import CgroupDriver
from .holding import Held, processes_of
from .pausing import QUICK_SECONDS, SETTLE_SECONDS, Stopping, continue_all

LOG = logging.getLogger(__name__)

MIB = 1 << 20


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

    def pause(self, held: Held, *, reclaim: bool) -> None:
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

    def _pause_quickly(self, held: Held, stopping: Stopping, reclaim: bool, until: float) -> None:
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

    async def _freeze(self, held: Held, reclaim: bool) -> None:
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

    async def _pause_slowly(self, held: Held, stopping: Stopping, reclaim: bool) -> None:
        # It may have no process yet: its shim is just about to start it.
        stopped = await asyncio.to_thread(stopping.advance, SETTLE_SECONDS, 0.0005)
        self._paused(held, stopped, await self._reclaimed(held) if stopped and reclaim else -1)

    async def _reclaimed(self, held: Held) -> int:
        """Have the kernel take back what memory it can; the MiB that the container is held to now, or -1."""
        if held.ended or held.ending:
            return -1
        try:
            left = await asyncio.to_thread(self._cgroups.reclaim, held.container_id)
        except (CgroupError, OSError) as error:
            LOG.warning("the memory of %s is kept: %s", held.container_id, error)
            return -1
        return -1 if left is None else -(-left // MIB)

    def _paused(self, held: Held, stopped: int | None, memory: int = -1) -> None:
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

    def resume(self, held: Held) -> None:
        """Let it go on, and post ContainerResumed."""
        held.paused = False
        frozen = self._freezes and self._cgroups.frozen(held.container_id)
        self._cgroups.thaw(held.container_id)
        if not frozen:
            # A process that stopped itself before a freeze stays as it was: that is its own affair.
            continue_all(processes_of(held, self._cgroups))
        self._post(ContainerResumed(held.container_id))
