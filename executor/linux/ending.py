"""Ends containers, reports their exit codes, and removes their cgroups and private directories.

A container has ended when its launcher has told that, and nothing is left in its cgroup.

Decisions: ending.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable

from ..core.events import ContainerExited, ContainerLaunched
from ..core.outcome import SIGKILLED
from ..light import replace
from ..records import ContainerUsage
from .context import ExecutorContext, LiveContainer
from .processes import RETRY_SECONDS, kill_identified
from .procfs import continue_all, is_alive, oom_kills, send
from .threads import beside
from .watching.health import HealthChecker
from .watching.outputs import refusal

LOG = logging.getLogger(__name__)

LAUNCHER_GRACE_SECONDS = 2.0
"""How long a launcher may take to report the end: it has the weight of its container, which may be the least."""


class Ender:
    """Ends containers and posts ContainerExited for them; tells ``health`` of those that failed or could not begin."""

    def __init__(self, context: ExecutorContext, health: HealthChecker) -> None:
        self._context = context
        self._health = health
        self._cgroups = context.cgroups
        self._loop = context.loop
        self._oom_kills = 0
        self.note_oom_kills()

    def note_oom_kills(self) -> None:
        """Call now and then. Where no cgroup counts the OOM killer's work, a container that SIGKILL has ended, and
        nobody of this node, since the host's last count counts as a victim if that has risen."""
        if self._cgroups.mode == "none":
            self._oom_kills = oom_kills()

    def kill(self, held: LiveContainer, *, force: bool) -> None:
        """Begin to end the container: SIGTERM to all its processes, or with ``force`` SIGKILL until nothing is left.

        ``has_ended`` then posts ContainerExited.
        """
        if held.killed:
            return
        if not held.pid:
            return  # the kill is asked for again once it has begun
        held.ending = True
        held.struck = held.struck or is_alive(held.pid, held.start)
        if force:
            held.killed = True
            self._context.spawn_until_done(lambda: self._kill_surely(held))
        else:
            self._terminate(held)

    def _terminate(self, held: LiveContainer) -> None:
        """Send SIGTERM to all processes. A stopped process receives it only after a SIGCONT."""
        if held.ended or held.killed:
            return
        try:
            targets = self._cgroups.processes(held.container_id)
        except OSError as error:
            LOG.warning("%s gets no SIGTERM yet: %s", held.container_id, error)
            self._loop.call_later(RETRY_SECONDS, self._terminate, held)
            return
        for pid in targets:
            send(pid, signal.SIGTERM)
        self._cgroups.thaw(held.container_id)
        continue_all(targets)
        held.paused = False

    async def _kill_surely(self, held: LiveContainer) -> None:
        """SIGKILL until nothing is left and the launcher has reported the end, or has to be killed itself."""
        self._cgroups.thaw(held.container_id)  # a frozen launcher reports nothing
        if held.inside:
            self._cgroups.hasten(held.container_id)
        held.frozen = False
        alone_since: float | None = None
        while not held.ended and not self._context.in_a_hurry:
            if left := self._cgroups.processes(held.container_id):
                alone_since = None
                for pid in left:
                    send(pid, signal.SIGKILL)
            await asyncio.sleep(0.001)
            if not held.ended and self._cgroups.processes(held.container_id):
                await self._sweep(held)
            alone_since = alone_since or self._loop.time()
            if self._loop.time() - alone_since > LAUNCHER_GRACE_SECONDS:
                kill_identified(*held.launcher)
            await asyncio.sleep(0.002)

    async def _sweep(self, held: LiveContainer) -> None:
        """SIGKILL to everything in its cgroup until nothing is left, beside the loop. Its end is told afterwards: in a
        slot, a sweep would end the next container as well."""
        held.sweeps += 1
        try:
            await beside(None, self._context.kill, held.container_id)
        finally:
            held.sweeps -= 1

    def has_ended(
        self,
        held: LiveContainer,
        settle: Callable[[], ContainerUsage],
        code: int | None,
        following: str = "",
        clean: bool = False,
    ) -> None:
        """Handle the end of a container's command: end what is left of it, unless it is ``clean``, get its figures
        from ``settle``, and post ContainerExited. ``following`` is the container that has begun in its place."""
        if held.ended:
            return

        def tell(launched: ContainerLaunched | None = None) -> None:
            if held.ended:
                return  # its launcher has died meanwhile, and that was reported as the end
            usage = settle()
            held.ended = True
            known = code if code is not None or not held.killed else SIGKILLED
            unseen = self._cgroups.mode == "none" and known == SIGKILLED and not held.struck
            if unseen and oom_kills() > self._oom_kills:
                usage = replace(usage, oom_kills=1, limit_ooms=0)
            end = ContainerExited(held.container_id, known, usage, following=following, launched=launched)
            self._post(held, end)

        try:
            left = [] if clean else self._cgroups.leftovers(held.container_id)
        except OSError as error:
            LOG.warning("the end of %s cannot be read yet: %s", held.container_id, error)
            self._loop.call_later(RETRY_SECONDS, self.has_ended, held, settle, code, following)
            return
        launched, held.launched = held.launched, None
        if not left and not held.sweeps:
            tell(launched)
            return
        if launched is not None:
            self._context.post(launched)
        for pid in left:
            send(pid, signal.SIGKILL)
        self._context.spawn(self._end_leftovers(held, tell))

    async def _end_leftovers(self, held: LiveContainer, tell: Callable[[], None]) -> None:
        while not self._context.in_a_hurry:
            await self._sweep(held)
            try:
                if not await beside(None, self._cgroups.processes, held.container_id) and not held.sweeps:
                    tell()
                    return
            except OSError as error:
                LOG.warning("the end of %s cannot be read yet: %s", held.container_id, error)
            await asyncio.sleep(RETRY_SECONDS)

    def _post(self, held: LiveContainer, end: ContainerExited) -> None:
        lost = held.output_lost or refusal(held.logs, silent=held.silent)
        self._context.post(replace(end, output_lost=lost, by_itself=not held.struck))
        if end.node_fault:
            self._health.suspect(end.node_fault)
        elif end.exit_code or lost:
            self._health.has_failed()


class Cleaner:
    """Removes what containers leave, in a worker thread. A cgroup may be busy for ``patience`` seconds."""

    def __init__(self, context: ExecutorContext, patience: float) -> None:
        self._context = context
        self._patience = patience
        self._unclean: list[str] = []

    def clean(self, container_id: str) -> None:
        """Remove what is left of a container; returns at once."""
        # Each takes half a millisecond, too long for the loop; containers that end meanwhile are removed together.
        self._unclean.append(container_id)
        if len(self._unclean) == 1:
            self._context.spawn(self._clean_all())

    async def _clean_all(self) -> None:
        while self._unclean:
            now = list(self._unclean)
            busy = await beside(None, self._clean_quickly, now)
            del self._unclean[: len(now)]
            for container_id in busy:
                self._context.spawn(beside(None, self._context.remove, container_id, self._patience))

    def _clean_quickly(self, containers: list[str]) -> list[str]:
        """Remove the containers' cgroups and empty directories. Returns the containers of which something is
        left."""
        busy = []
        for container_id in containers:
            removed = self._context.cgroups.remove(container_id)
            if not self._context.directories.remove_private(container_id, thoroughly=False) or not removed:
                busy.append(container_id)
        return busy
