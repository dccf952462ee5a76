"""Watches the other daemons of the run directory, and restarts one that dies.

The RM watches the nodes, each node watches the RM. A death is reported by a pidfd, never concluded from a
lost connection. A separate process (``cluster/restarting.py``) decides under the lock of the run directory,
by the files of ``cluster/watched.py``, whether the daemon is still wanted, so that this daemon's loop never
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
from typing import Any

from executor.linux.descriptors import limit_of_children

from ..cluster.launching import DAEMONS, daemon_environment
from ..cluster.restarting import Outcome
from ..cluster.watched import give_up, has_died, seconds_since_boot, watched_names
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
        self._watched: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._helpers: dict[str, tuple[subprocess.Popen[bytes], int]] = {}
        self._failures: dict[str, int] = {}
        self._why: dict[str, str] = {}
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
        if self._closed or not self._process.may_restart:
            return
        for name in names:
            if name not in self._watched and name not in self._timers and name not in self._helpers:
                self._look(name)

    def close(self) -> None:
        """Stop watching. A restart that has begun continues, and checks again whether it is wanted."""
        self._closed = True
        for descriptor in self._watched.values():
            _forget(descriptor)
        for timer in self._timers.values():
            timer.cancel()
        for helper, descriptor in self._helpers.values():
            _forget(descriptor)
            helper.returncode = 0  # the helper outlives this process
        self._watched.clear()
        self._timers.clear()
        self._helpers.clear()

    def _look(self, name: str) -> None:
        daemon = self._process.run_dir.daemon(name)
        descriptor = daemon.process.open() if daemon is not None else None
        if descriptor is None:
            self._consider(name)
            return
        self._watched[name] = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._ended, name)

    def _ended(self, name: str) -> None:
        _forget(self._watched.pop(name))
        self._consider(name)

    def _consider(self, name: str, at_least: float = 0.0) -> None:
        """Restart a daemon, now or later, if it has died."""
        self._timers.pop(name, None)
        if self._closed or not self._process.may_restart:
            return
        try:
            died = has_died(self._process.run_dir, name)
        except OSError as error:
            LOG.warning("it is unknown whether %s is running: %s", name, error)
            self._later(name, AGAIN_SECONDS)
            return
        if died is None:
            if self._process.run_dir.daemon(name) is not None:
                self._look(name)
            return
        if self._given_up.get(name) == (died.pid, died.start):
            return
        wait = pause(died, seconds_since_boot(), self._most)
        if wait is None or self._failures.get(name, 0) >= self._most:
            self._give_up(name, died)
        elif max(wait, at_least) > 0:
            self._later(name, max(wait, at_least))
        else:
            self._start(name, died)

    def _later(self, name: str, seconds: float) -> None:
        self._timers[name] = asyncio.get_running_loop().call_later(seconds, self._consider, name)

    def _give_up(self, name: str, died: Watched) -> None:
        why, failures = self._why.pop(name, ""), self._failures.pop(name, 0)
        tries = max(died.tries, failures)
        self._given_up[name] = died.pid, died.start
        LOG.error("%s died, and is not restarted after %d tries: %s", name, tries, why)
        try:
            give_up(self._process.run_dir, name, died)
        except YoppError as error:
            LOG.warning("commands wait for %s in vain: %s", name, error)
        self._told(DaemonGivenUp(name, self._process.name, tries, why))

    def _start(self, name: str, died: Watched) -> None:
        LOG.warning("%s (process %d) died: restarting it", name, died.pid)
        command = [sys.executable, "-P", "-m", DAEMONS, "restart", "--run-dir", self._process.run_dir.path]
        command += ["--name", name, "--by", self._process.name, "--files", str(limit_of_children())]
        command += [] if self._process.is_watched else ["--unwatched"]
        try:
            helper = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                cwd="/",
                env=daemon_environment(os.environ),
                start_new_session=True,
            )
            descriptor = os.pidfd_open(helper.pid)
        except OSError as error:
            LOG.warning("%s cannot be restarted now: %s", name, error)
            self._later(name, AGAIN_SECONDS)
            return
        self._helpers[name] = helper, descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._answered, name, died)

    def _answered(self, name: str, died: Watched) -> None:
        helper, descriptor = self._helpers.pop(name)
        _forget(descriptor)
        said, _ = helper.communicate()
        answer = _read(said, helper.returncode)
        match answer.get("outcome"):
            case Outcome.STARTED:
                tries = int(answer["tries"])
                LOG.warning("%s was restarted (%d of at most %d tries)", name, tries, self._most)
                self._why.pop(name, None)
                self._failures.pop(name, None)
                self._told(DaemonRestarted(name, self._process.name, tries, died.pid))
                self._consider(name)
            case Outcome.UNWANTED:
                LOG.info("%s is not restarted: it is running, or was stopped", name)
                self._given_up[name] = died.pid, died.start
                if self._process.run_dir.daemon(name) is not None:
                    self._look(name)
            case _:
                self._why[name] = str(answer.get("why", ""))
                self._failures[name] = self._failures.get(name, 0) + 1
                LOG.error("%s was not restarted: %s", name, self._why[name])
                self._consider(name, AGAIN_SECONDS)


def _read(said: bytes, code: int | None) -> dict[str, Any]:
    """The answer of a helper process; one without an answer has failed."""
    try:
        answer = json.loads(said)
    except ValueError:
        return {"why": f"the process that restarts it ended with exit code {code}"}
    return answer if isinstance(answer, dict) else {}


def _forget(descriptor: int) -> None:
    asyncio.get_running_loop().remove_reader(descriptor)
    os.close(descriptor)
