"""Watches the other daemons of the run directory, and restarts one that dies.

The RM watches the nodes, each node watches the RM. A death is reported by a pidfd, never concluded from a
lost connection. A separate process (``restart_for_daemon``) decides under the lock of the run directory,
by the files of ``cluster/state.py``, whether the daemon is still wanted, so that this daemon's loop never
waits.

Decisions: restarts.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from executor.linux.descriptors import limit_of_children

from ..cluster.launching import DAEMONS, daemon_environment
from ..cluster.state import give_up, has_died, seconds_since_boot, watched_names
from ..errors import YoppError
from ..machine.restarts import DaemonGivenUp, DaemonRestarted, Watched, pause
from .process import DaemonProcess

LOG = logging.getLogger(__name__)

AGAIN_SECONDS = 1.0
"""The shortest pause after a failed try, in seconds."""


class Watcher:
    """Watches daemons. ``most`` is the number of tries per daemon; ``told`` gets each restart, and each
    daemon that is given up."""

    def __init__(
        self, process: DaemonProcess, most: int, told: Callable[[DaemonRestarted | DaemonGivenUp], None]
    ) -> None:
        self._process = process
        self._most = most
        self._told = told
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._given_up: dict[str, tuple[int, int]] = {}
        """The dead processes, by pid and start, that are not restarted."""
        self._closed = False

    def look_at_nodes(self) -> None:
        """Watch all running nodes, and restart those that have died."""
        run_dir = self._process.run_dir
        names = {daemon.name for daemon in run_dir.daemons()} | {*watched_names(run_dir)}
        self.look(names - {"rm"})

    def look(self, names: Iterable[str]) -> None:
        """Watch these daemons as ``look_at_nodes`` does; those already watched are skipped."""
        for name in names if self._may_restart else ():
            if name not in self._tasks:
                self._tasks[name] = asyncio.create_task(self._watch(name))
                self._tasks[name].add_done_callback(partial(self._left, name))

    def close(self) -> None:
        """Stop watching. A restart that has begun continues, and checks again whether it is wanted."""
        self._closed = True
        for task in self._tasks.values():
            task.cancel()

    @property
    def _may_restart(self) -> bool:
        return not self._closed and self._process.may_restart

    def _left(self, name: str, task: asyncio.Task[None]) -> None:
        del self._tasks[name]
        if not task.cancelled() and (error := task.exception()) is not None:
            said = {"message": f"the watch of {name} failed", "exception": error}
            task.get_loop().call_exception_handler(said)

    async def _watch(self, name: str) -> None:
        """Watch one daemon, and restart it, until it is stopped or given up, or this daemon ends."""
        run_dir, failures, why = self._process.run_dir, 0, ""
        while self._may_restart:
            daemon = run_dir.daemon(name)
            if daemon is not None and (descriptor := daemon.process.open()) is not None:
                await _readable(descriptor)
                continue
            try:
                died = has_died(run_dir, name)
            except OSError as error:
                LOG.warning("it is unknown whether %s is running: %s", name, error)
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if died is None and run_dir.daemon(name) is not None:
                await asyncio.sleep(AGAIN_SECONDS)  # no descriptor was free
                continue
            if died is None or self._given_up.get(name) == (died.pid, died.start):
                return
            wait = pause(died, seconds_since_boot(), self._most)
            if wait is None or failures >= self._most:
                self._give_up(name, died, max(died.tries, failures), why)
                return
            if wait > 0:
                await asyncio.sleep(wait)
                continue
            match await self._restart(name, died):
                case {"tries": int(tries)} if tries:
                    LOG.warning("%s was restarted (%d of at most %d tries)", name, tries, self._most)
                    failures, why = 0, ""
                    self._told(DaemonRestarted(name, self._process.name, tries, died.pid))
                case {"tries": 0}:
                    LOG.info("%s is not restarted: it is running, or was stopped", name)
                    self._given_up[name] = died.pid, died.start
                case None:
                    await asyncio.sleep(AGAIN_SECONDS)
                case answer:
                    failures, why = failures + 1, str(answer.get("why", ""))
                    LOG.error("%s was not restarted: %s", name, why)
                    await asyncio.sleep(AGAIN_SECONDS)

    def _give_up(self, name: str, died: Watched, tries: int, why: str) -> None:
        self._given_up[name] = died.pid, died.start
        LOG.error("%s died, and is not restarted after %d tries: %s", name, tries, why)
        try:
            give_up(self._process.run_dir, name, died)
        except YoppError as error:
            LOG.warning("commands wait for the restart of %s without need: %s", name, error)
        self._told(DaemonGivenUp(name, self._process.name, tries, why))

    async def _restart(self, name: str, died: Watched) -> dict[str, Any] | None:
        """Run the process that restarts a daemon; its answer, None if the process cannot be run now."""
        LOG.warning("%s (process %d) died: restarting it", name, died.pid)
        command = [sys.executable, "-P", "-m", DAEMONS, "restart", self._process.run_dir.path, name]
        command += [self._process.name, str(limit_of_children())]
        command += [] if self._process.is_watched else ["unwatched"]
        try:
            helper = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                cwd="/",
                env=daemon_environment(os.environ),
                start_new_session=True,
            )
            await _readable(os.pidfd_open(helper.pid))
        except OSError as error:
            LOG.warning("%s cannot be restarted now: %s", name, error)
            return None
        except asyncio.CancelledError:
            helper.returncode = 0  # the helper outlives this process
            raise
        try:
            answer = json.loads(helper.communicate()[0])
        except ValueError:
            answer = None
        said = f"the process that restarts it ended with exit code {helper.returncode}"
        return answer if isinstance(answer, dict) else {"why": said}


async def _readable(descriptor: int) -> None:
    """Wait until the descriptor is readable, and close it."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, done.set)
    try:
        await done.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
