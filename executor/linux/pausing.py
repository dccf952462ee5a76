"""Pauses and resumes containers, by the freezer or by signals, and posts when that is done (YARN's
``ContainerLaunch``).

Signals are SIGSTOP and SIGCONT, process by process. A running process may fork while the list is read, so the
list is read again until it shows no process that is new or running. ``executor.core`` decides which
containers are paused.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import ParamSpec, TypeVar

from ..core.events import ContainerPaused, ContainerPauseFailed, ContainerResumed
from ..errors import CgroupError
from ..records import MIB
from .context import ExecutorContext, LiveContainer
from .procfs import read_stat, runnable_threads, send, standing, stopped_since
from .threads import beside

LOG = logging.getLogger(__name__)

QUICK_SECONDS = 0.003
"""How long the loop itself checks whether processes are stopped, before it waits between two looks; a look that takes
longer is made by a thread."""
SETTLE_SECONDS = 1.8
"""A process that still runs this long after SIGSTOP will not stop soon. It stops when it is next scheduled,
and processes with the least weight wait for that (``FREEZE_SECONDS`` of the freezers)."""

LATER, SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 0.0005, 0.2
"""Processes that do not stop are looked at again after so great a part of the time that they have taken already, and
after so many seconds at least and at most: each look takes CPU time, of which they lack."""

STARVED_SECONDS = 30.0
"""How long to wait for a container whose processes get no CPU."""
THREADS = 32
"""How many slow pauses may be under way at a time."""

P = ParamSpec("P")
T = TypeVar("T")


class Stopping:
    """One attempt to stop the processes that ``list_processes`` lists."""

    def __init__(self, list_processes: Callable[[], list[int]]) -> None:
        self._list = list_processes
        self._told: set[int] = set()
        self._stood = False
        self.left: tuple[tuple[int, int], ...] = ()
        """The pids and start times of those that were stopped already, and got no SIGSTOP: they stay so."""
        self.is_quick = False
        """Whether the last look at them was short enough for the loop."""

    def advance(self, seconds: float = 0.0) -> int | None:
        """Continue to stop the processes for at most ``seconds``, at least once.

        Returns how many processes are stopped; None if not all are yet, or there is no process (yet).
        """
        begun = now = time.monotonic()
        while True:
            before, processes = now, self._list()
            stopped = self._round(processes)
            now = time.monotonic()
            self.is_quick = now - before < QUICK_SECONDS
            if stopped:
                return len(processes)
            if now - begun >= seconds:
                return None

    def _round(self, processes: list[int]) -> bool:
        """Send SIGSTOP to all processes that did not get it yet and are not stopped. Returns whether none was new and
        all are stopped.

        One that is left may be continued by another one that still runs: then two rounds in turn have to find all
        stopped.
        """
        untold = [(pid, stopped_since(pid, processes)) for pid in processes if pid not in self._told]
        new = [pid for pid, start in untold if start is None]
        for pid in new:
            send(pid, signal.SIGSTOP)
        self._told.update(new)
        self.left = tuple((pid, start) for pid, start in untold if start is not None)
        before = self._stood or not self.left
        self._stood = bool(processes) and not new and all(standing(pid) for pid in processes)
        return before and self._stood


class Pauser:
    """Pauses by the freezer if ``freezes``, else by signals."""

    def __init__(self, context: ExecutorContext, *, freezes: bool) -> None:
        self._context = context
        self._cgroups = context.cgroups
        self._loop = context.loop
        self._post = context.post
        self._spawn = context.spawn
        self._freezes = freezes
        self._closing = False
        self._threads = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="pause")

    def pause(self, held: LiveContainer, *, reclaim: bool) -> None:
        """Begin to pause a container; ContainerPaused or ContainerPauseFailed follows, unless it ends meanwhile.

        With ``reclaim`` the kernel also reclaims what memory it can.
        """
        if self._freezes:
            self._spawn(self._freeze(held, reclaim))
            return
        # Send the first SIGSTOP at once, so that several containers that are paused for one newcomer stop at
        # the same time.
        stopping = Stopping(lambda: self._context.cgroups.processes(held.container_id))
        if self._cgroups.mode == "none":
            self._spawn(self._pause_slowly(held, stopping, reclaim))
        else:
            self._pause_quickly(held, stopping, reclaim, self._loop.time() + QUICK_SECONDS)

    def _pause_quickly(self, held: LiveContainer, stopping: Stopping, reclaim: bool, until: float) -> None:
        """Pause on the loop itself: most containers have few processes, and stop within a fraction of a
        millisecond."""
        if held.ended or held.ending:
            self._failed(held, "it is being killed")
            return
        try:
            stopped = stopping.advance(0.0001)
        except OSError as error:  # e.g. no file descriptor is free
            self._failed(held, str(error))
            return
        held.left = stopping.left
        if stopped and not reclaim:
            self._paused(held, stopped)
        elif stopped is None and self._loop.time() < until:
            self._loop.call_soon(self._pause_quickly, held, stopping, reclaim, until)
        else:
            self._spawn(self._pause_slowly(held, stopping, reclaim))

    async def _freeze(self, held: LiveContainer, reclaim: bool) -> None:
        """Pause by the freezer. A process that enters a frozen cgroup later is frozen, too."""
        held.frozen = held.pausing = True
        held.left = ()
        try:
            async with self._hastened(held, QUICK_SECONDS):
                starved = self._starved(held)
                while True:
                    try:
                        await self._in_thread(self._cgroups.freeze, held.container_id)
                        break
                    except CgroupError:
                        if not starved():
                            raise
        except (CgroupError, OSError) as error:
            self._failed(held, str(error))
            return
        finally:
            held.pausing = False
        if held.ending:
            # The container was told to end meanwhile: frozen processes receive no signal but (on v2) SIGKILL.
            self._cgroups.thaw(held.container_id)
            self._failed(held, "it is being killed")
            return
        self._paused(held, 1, await self._reclaimed(held) if reclaim else -1)

    async def _pause_slowly(self, held: LiveContainer, stopping: Stopping, reclaim: bool) -> None:
        # The container may have no process yet: its launcher is about to start it.
        held.pausing = True
        try:
            async with self._hastened(held, 0):
                starved, begun = self._starved(held), self._loop.time()
                while (stopped := await self._settled(stopping, begun)) is None and starved():
                    pass
        except OSError as error:
            self._failed(held, str(error))
            return
        finally:
            held.pausing = False
            held.left = stopping.left
        self._paused(held, stopped, await self._reclaimed(held) if stopped and reclaim else -1)

    async def _settled(self, stopping: Stopping, begun: float) -> int | None:
        """What ``stopping``, which has ``begun`` then, reaches within SETTLE_SECONDS."""
        until = self._loop.time() + SETTLE_SECONDS
        while True:
            stopped = stopping.advance() if stopping.is_quick else await self._in_thread(stopping.advance)
            now = self._loop.time()
            if stopped is not None or now >= until:
                return stopped
            await asyncio.sleep(min(max(SHORTEST_PAUSE, LATER * (now - begun)), LONGEST_PAUSE))

    @asynccontextmanager
    async def _hastened(self, held: LiveContainer, seconds: float) -> AsyncIterator[None]:
        """Within this context, a container that has not stopped after ``seconds`` gets the weight of a
        guaranteed one until it has. A process stops only when it is scheduled, which with the least weight
        may take longer than a pause may last. The core raises the weight of the node accordingly."""
        with ExitStack() as undo:
            timer = self._loop.call_later(
                seconds, lambda: undo.callback(self._cgroups.hasten(held.container_id))
            )
            try:
                yield
            finally:
                timer.cancel()
                if held.ending:
                    undo.pop_all()  # it needs the CPU to die, too

    def _starved(self, held: LiveContainer) -> Callable[[], bool]:
        """Return a function that tells whether, since now, the container's processes have only waited for the
        CPU: then the pause keeps waiting, because a process that is not scheduled runs no instruction. Before
        Linux 6.6 that may last for many seconds."""

        def used(processes: list[int]) -> int:
            return sum(stat.cpu_ticks for pid in processes if (stat := read_stat(pid)) is not None)

        before = used(self._context.cgroups.processes(held.container_id))
        until = self._loop.time() + STARVED_SECONDS

        def waits() -> bool:
            if held.ended or held.ending or self._closing or self._loop.time() > until:
                return False
            processes = self._context.cgroups.processes(held.container_id)
            return runnable_threads(processes) > 0 and used(processes) - before <= 1

        return waits

    async def _in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run in a thread of this class: kills need not wait for pauses of processes that get no CPU."""
        return await beside(self._threads, work, *args, **kwargs)

    def give_up(self) -> None:
        """Stop waiting for processes that get no CPU."""
        self._closing = True

    def close(self) -> None:
        """Call when no pause is under way any more."""
        self._threads.shutdown()

    async def _reclaimed(self, held: LiveContainer) -> int:
        """Let the kernel reclaim what memory it can. Returns the container's new limit in MiB, or -1."""
        if held.ended or held.ending:
            return -1
        try:
            left = await beside(None, self._cgroups.reclaim, held.container_id)
        except (CgroupError, OSError) as error:
            LOG.warning("the memory of %s is not reclaimed: %s", held.container_id, error)
            return -1
        return -1 if left is None else -(-left // MIB)

    def _paused(self, held: LiveContainer, stopped: int | None, memory: int = -1) -> None:
        if held.ended:
            return
        if stopped:
            held.paused = True
            self._post(ContainerPaused(held.container_id, memory, held.left))
            return
        found = True
        with suppress(OSError):  # the reason why it is not paused
            found = bool(self._context.continue_all(held))
        self._failed(held, "some of its processes did not stop" if found else "it has no processes")

    def _failed(self, held: LiveContainer, reason: str) -> None:
        if not held.ended:
            self._post(ContainerPauseFailed(held.container_id, reason))

    def resume(self, held: LiveContainer) -> None:
        """Let the container continue, and post ContainerResumed."""
        held.paused = held.frozen = False
        frozen = self._freezes and self._cgroups.frozen(held.container_id)
        self._cgroups.thaw(held.container_id)
        if not frozen:
            # A process that had stopped itself before the freeze stays stopped.
            self._context.continue_all(held)
        self._post(ContainerResumed(held.container_id))
