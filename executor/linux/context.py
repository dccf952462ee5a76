"""What the parts of the Linux executor share: live containers, and ``ExecutorContext``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from ..core.events import ContainerLaunched, Event
from ..errors import CgroupError
from .cgroups.base import CgroupDriver
from .directories import Directories
from .processes import RETRY_SECONDS
from .procfs import continue_all, start_time

LOG = logging.getLogger(__name__)

CLOSE_SECONDS = 0.5
"""How long an executor that closes continues to kill what does not die. The node's next run finds the rest."""


@dataclass(slots=True)
class LiveContainer:
    """A container that was started and is not removed yet. ``pid`` and ``start`` are its command's, 0 until it has
    begun.

    ``launcher`` is the pid and start time of the process that reports its end, which is ``inside`` its cgroup if that
    is a slot's, and ``journal`` the file that process writes to if an earlier run of the node started it. ``users`` has
    the user that it runs as, if that is another one. ``frozen`` is set while the freezer may hold the container,
    ``pausing`` while a pause is under way beside the loop; ``left`` has the pids and start times of its processes that
    were stopped before it was paused. ``logs`` is its log directory. ``sweeps`` is how many kills of it are under way
    beside the loop. ``over``: its end is on its way, and another container may be in its slot. ``struck``: a kill has
    found it alive. ``queued_at_ms`` is given for a container that follows another one. ``launched`` is its start, if
    that is to be told with its end. ``output_lost`` is why its output may be incomplete; ``silent``: none of it, if it
    is empty.
    """

    container_id: str
    pid: int
    start: int
    paused: bool = False
    ending: bool = False
    killed: bool = False
    ended: bool = False
    inside: bool = False
    frozen: bool = False
    pausing: bool = False
    left: tuple[tuple[int, int], ...] = ()
    sweeps: int = 0
    over: bool = False
    struck: bool = False
    queued_at_ms: int = 0
    launcher: tuple[int, int] = (0, 0)
    journal: str = ""
    users: tuple[int, ...] = ()
    logs: str = ""
    launched: ContainerLaunched | None = None
    output_lost: str = ""
    silent: bool = False


class ExecutorContext:
    """A node's cgroups and directories, the loop, the receiver of events, and the work that runs beside the loop."""

    def __init__(
        self,
        cgroups: CgroupDriver,
        directories: Directories,
        *,
        loop: asyncio.AbstractEventLoop,
        post: Callable[[Event], None],
        clock: Callable[[], float],
    ) -> None:
        self.cgroups = cgroups
        self.directories = directories
        self.loop = loop
        self.post = post
        self.clock = clock
        self.in_a_hurry = False
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work as a task beside the loop."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def spawn_until_done(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run work as a task, and restart it while the system lacks a resource that it needs."""

        async def again_and_again() -> None:
            while True:
                try:
                    await work()
                    return
                except OSError as error:
                    if self.in_a_hurry:
                        return
                    LOG.warning("retrying in %g s: %s", RETRY_SECONDS, error)
                    await asyncio.sleep(RETRY_SECONDS)

        self.spawn(again_and_again())

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # Tasks raise nothing for expected failures: this is a bug, and the owner of the loop ends.
            self.loop.call_exception_handler(
                {"message": "performing a command failed", "exception": error, "task": task}
            )

    async def finish(self) -> None:
        """Wait for all work under way; at most ``CLOSE_SECONDS`` for work that depends on processes that do
        not die."""
        hurry = self.loop.call_later(CLOSE_SECONDS, self._hurry)
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        hurry.cancel()  # others may use the same driver

    def _hurry(self) -> None:
        self.in_a_hurry = True
        self.cgroups.kill_seconds = 0.0

    def continue_all(self, held: LiveContainer) -> list[int]:
        """Let the processes of a container continue, except those that were stopped before its pause. Returns all."""
        found = self.cgroups.processes(held.container_id)
        left = {pid for pid, start in held.left if start_time(pid) == start}
        continue_all([pid for pid in found if pid not in left])
        return found

    def kill(self, container_id: str) -> None:
        """Send SIGKILL to everything in a container's cgroup until nothing is left. Blocks."""
        try:
            self.cgroups.kill(container_id)
        except (CgroupError, OSError) as error:
            LOG.warning("%s", error)

    def remove(self, container_id: str, seconds: float) -> None:
        """Remove a container's private directory and its cgroup, which may be busy for ``seconds``. Blocks."""
        self.directories.remove_private(container_id, thoroughly=True)
        if not self.cgroups.remove(container_id, seconds):
            path = self.cgroups.path(container_id)
            LOG.warning("the cgroup of %s cannot be removed: %s", container_id, path)
