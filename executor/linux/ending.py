"""Ends containers, reports their exit codes, and removes their cgroups and private directories.

A container has ended when its shim has ended, and nothing is left in its cgroup.

Decisions: ending.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
from collections.abc import Callable

from ..core.events import ContainerExited, ContainerLaunched
from ..core.outcome import SIGKILLED
from ..light import replace
from ..records import ContainerUsage
from .context import ExecutorContext, LiveContainer
from .procfs import children, continue_all, is_alive, is_running, oom_kills, send
from .shim import CANNOT_BEGIN, CANNOT_FORK, RETRY_SECONDS, Ended, is_shim, kill_identified, read_exit_file
from .threads import beside
from .watching.health import HealthChecker
from .watching.outputs import refusal

LOG = logging.getLogger(__name__)

SHIM_GRACE_SECONDS = 0.1
"""How long a shim whose container is gone may take to write the exit code before the shim is killed, too."""


LAUNCHER_GRACE_SECONDS = 2.0
"""How long a launcher may take to report the end: it has the weight of its container, which may be the least."""

NO_PROCESS = f"no process can be started: {os.strerror(errno.EAGAIN)}"


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

        ``shim_ended`` or ``pooled_ended`` then posts ContainerExited.
        """
        if held.killed:
            return
        if held.pooled and not held.pid:
            return  # the kill is asked for again once it has begun
        held.ending = True
        held.struck = held.struck or _has_not_ended(held)
        if force:
            held.killed = True
            end = self._kill_in_slot if held.pooled else self._kill_surely
            self._context.spawn_until_done(lambda: end(held))
        elif not self._terminate(held):
            self._context.spawn(self._terminate_soon(held))

    def _terminate(self, held: LiveContainer) -> bool:
        """Send SIGTERM to all processes; False if the command has not begun, and the signal may have been lost.

        A stopped process receives it only after a SIGCONT. For a moment after the fork, a shell's child still
        has its parent's signal handlers, and loses what they catch.
        """
        try:
            targets = self._context.processes(held)
        except OSError as error:
            LOG.warning("%s gets no SIGTERM yet: %s", held.container_id, error)
            return False
        begun = held.pooled or len(targets) > 1 or any(not is_shim(pid, held.exit_file) for pid in targets)
        for pid in targets:
            send(pid, signal.SIGTERM)
        self._cgroups.thaw(held.container_id)
        continue_all(targets)
        held.paused = False
        return begun

    async def _terminate_soon(self, held: LiveContainer) -> None:
        # For a kill in the few milliseconds before the shim has started the command.
        deadline = self._loop.time() + 1.0
        while not held.ended and not held.killed and self._loop.time() < deadline:
            await asyncio.sleep(0.002)
            if not held.ended and self._terminate(held):
                return

    async def _kill_surely(self, held: LiveContainer) -> None:
        """SIGKILL until the shim has reported the end, or has to be killed itself."""
        alone_since: float | None = None
        while not held.ended and not self._context.in_a_hurry and is_alive(held.pid, held.start):
            # A shim that its container has stopped or frozen does not reap its children.
            offspring = [pid for pid in children(held.pid) if is_running(pid)]
            if offspring or self._cgroups.processes(held.container_id):
                alone_since = None
                for pid in offspring:
                    send(pid, signal.SIGKILL)
                await self._sweep(held)
            else:
                alone_since = alone_since or self._loop.time()
                if self._loop.time() - alone_since > SHIM_GRACE_SECONDS:
                    kill_identified(held.pid, held.start)
            await asyncio.sleep(0.002)

    async def _kill_in_slot(self, held: LiveContainer) -> None:
        """SIGKILL until nothing is left and the launcher has reported the end, or has to be killed itself."""
        self._cgroups.thaw(held.container_id)  # a frozen launcher reports nothing
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

    def pooled_ended(
        self,
        held: LiveContainer,
        settle: Callable[[], ContainerUsage],
        code: int | None,
        following: str = "",
        clean: bool = False,
    ) -> None:
        """Handle the end of a container in a slot: end what is left of it, unless it is ``clean``, get its figures
        from ``settle``, and post ContainerExited. ``following`` is the container that has begun in its place."""
        if held.ended:
            return

        def tell(launched: ContainerLaunched | None = None) -> None:
            if held.ended:
                return  # its launcher has died meanwhile, and that was reported as the end
            usage = settle()
            held.ended = True
            known = code if code is not None or not held.killed else 128 + signal.SIGKILL
            end = ContainerExited(held.container_id, known, usage, following=following, launched=launched)
            self._post(held, end)

        try:
            left = [] if clean else self._cgroups.leftovers(held.container_id)
        except OSError as error:
            LOG.warning("the end of %s cannot be read yet: %s", held.container_id, error)
            self._loop.call_later(RETRY_SECONDS, self.pooled_ended, held, settle, code, following)
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

    def shim_ended(self, held: LiveContainer, end: Ended) -> None:
        """Handle the end of a container's shim: end what is left of the container, and post ContainerExited."""
        try:
            if self._cgroups.mode != "none" and not self._cgroups.processes(held.container_id):
                self._tell_end(held, end)
            else:
                self._context.spawn(self._end_leftovers(held, lambda: self._tell_end(held, end)))
        except OSError as error:
            # For example, no file descriptor is free. The end is then reported late, but with the right code.
            LOG.warning("the end of %s cannot be read yet: %s", held.container_id, error)
            self._loop.call_later(RETRY_SECONDS, self.shim_ended, held, end)

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

    def _tell_end(self, held: LiveContainer, end: Ended) -> None:
        try:
            left = read_exit_file(held.exit_file)
        except OSError:
            if end.exit_code is None:
                raise  # it is retried
            left = None
        held.ended = True
        fault = ""
        if left is None and end.exit_code == CANNOT_FORK:
            fault = self._cgroups.crowded(NO_PROCESS)
        elif end.exit_code == CANNOT_BEGIN and (left is None or not left.pid):
            folder = os.path.dirname(held.exit_file)
            fault = f"{folder}: {self._health.problem_of(folder) or 'no container can begin'}"
        # The shim ends with the same code, for the case that the file could not be written.
        code = left.exit_code if left is not None and left.exit_code is not None else end.exit_code
        if fault:
            code = None
        if code is None and (held.killed or end.signal):
            # Killing the shim means killing the container: what was left of it was killed after the shim.
            code = 128 + (end.signal or signal.SIGKILL)
        usage = self._cgroups.usage(held.container_id, self._context.clock())
        if self._cgroups.mode == "none":
            usage = replace(usage, cpu_seconds=max(usage.cpu_seconds, end.cpu_seconds))
            if code == SIGKILLED and not held.struck and oom_kills() > self._oom_kills:
                usage = replace(usage, oom_kills=1, limit_ooms=0)
        self._post(held, ContainerExited(held.container_id, code, usage, fault))

    def _post(self, held: LiveContainer, end: ContainerExited) -> None:
        lost = held.output_lost or refusal(held.logs, silent=held.silent)
        self._context.post(replace(end, output_lost=lost, by_itself=not held.struck))
        if end.node_fault:
            self._health.suspect(end.node_fault)
        elif end.exit_code or lost:
            self._health.has_failed()


def _has_not_ended(held: LiveContainer) -> bool:
    """Whether the command of a container may still run; False only if that is known."""
    if held.pooled:
        return is_alive(held.pid, held.start)
    try:
        left = read_exit_file(held.exit_file)
    except OSError:
        return True
    return left is None or left.exit_code is None


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
