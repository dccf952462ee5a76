"""Checks whether this node can start containers: its disks can be written, and processes can be forked
(YARN's NodeHealthCheckerService and LocalDirsHandlerService).

A container that could not be started for such a reason was not at fault. The node then starts no container
until a check succeeds: ``NodeHealthChanged`` tells ``executor.core``.

Decisions: whose-fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping

from ...core.events import NodeHealthChanged
from ...records import ContainerExitStatus
from ...settings import ExecutorSettings
from ..context import ExecutorContext
from ..directories import make_safe
from ..launcher import SHELL

LOG = logging.getLogger(__name__)

AGAIN_SECONDS = 1.0
"""How often an unhealthy node is checked."""
TRIAL_BYTES = 1 << 16
LEAST_FILES = 16
"""With fewer free inodes the node is unhealthy. A container needs up to six; if fewer counted as enough, the node would
become unhealthy again with the next container."""
FORK_SECONDS = 10.0

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
DISKS = NO_ROOM | {errno.EROFS, errno.EIO}
"""The errors of a file system that accepts no writes."""
SHORT = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOBUFS})
"""The errors of a shortage of memory, processes or descriptors, which may soon be over."""


def node_status(number: int) -> int:
    """The exit status of a container that could not be started because of this error; 0 if the node is not at
    fault."""
    if number in DISKS:
        return int(ContainerExitStatus.DISKS_FAILED)
    return int(ContainerExitStatus.ABORTED) if number in SHORT else 0


def os_error_of(error: BaseException | None) -> OSError | None:
    """The OSError that caused an error, None if there is none."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__
    return error


class HealthChecker:
    """Posts ``NodeHealthChanged`` when the node becomes unhealthy or healthy. ``folders`` are the directories
    in which containers need room, each with its mode."""

    def __init__(
        self,
        context: ExecutorContext,
        settings: ExecutorSettings,
        folders: Mapping[str, int],
        post: Callable[[NodeHealthChanged], None],
    ) -> None:
        self._context = context
        self._settings = settings
        self._folders = folders
        self._post = post
        self._report = ""
        self._timer: asyncio.TimerHandle | None = None
        self._looked_at = float("-inf")
        self._closed = False

    def start(self) -> None:
        """Check regularly from now on."""
        if self._settings.disk_health_enabled:
            self._later(self._settings.disk_health_interval_ms / 1000)

    def stop(self) -> None:
        """Stop checking."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def suspect(self, reason: str) -> None:
        """Call when a container was not started and the node is at fault, which the core knows: check soon,
        and until the node is healthy."""
        if self._settings.disk_health_enabled and not self._report:
            LOG.error("this node is unhealthy: %s", reason)
            self._report = reason
            self._later(AGAIN_SECONDS)

    def has_failed(self) -> None:
        """Call when a container has ended with an error: a disk that is full may be why. Check now, and not at the next
        interval, until when the node would fail all containers that write, one after the other."""
        if self._settings.disk_health_enabled and not self._report:
            self._later(max(0.0, self._looked_at + AGAIN_SECONDS - self._context.loop.time()))

    def too_large(self, files: Iterable[str]) -> str:
        """Why these files, and not the node, are at fault that there was no room for them; "" if they are not.

        If the node were blamed, its next check, which needs less room than the files, would find it healthy
        at once, and the container would be tried again without end.
        """
        size = sum(len(text.encode("utf-8", "surrogateescape")) for text in files)
        if size <= TRIAL_BYTES or any(self.problem_of(folder) for folder in self._folders):
            return ""
        free = min(room.f_bavail * room.f_frsize for room in map(os.statvfs, self._folders))
        return f"its files have {size} bytes and are written twice, and this node has {free} bytes free"

    def _later(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._closed:
            self._timer = self._context.loop.call_later(seconds, lambda: self._context.spawn(self._look()))

    async def _look(self) -> None:
        was_ill = self._report != ""
        self._looked_at = self._context.loop.time()
        try:
            found = await asyncio.to_thread(self._find, forks=was_ill)
        except RuntimeError as error:  # no thread can be started
            found = str(error)
        # A look that began before a container could not be started says nothing about that: it forked nothing.
        if found != self._report and was_ill == (found == ""):
            (LOG.error if found else LOG.warning)(
                "this node is %s", f"unhealthy: {found}" if found else "healthy again"
            )
            self._report = found
            self._post(NodeHealthChanged(found))
        interval = self._settings.disk_health_interval_ms / 1000
        self._later(min(AGAIN_SECONDS, interval) if self._report else interval)

    def _find(self, *, forks: bool) -> str:
        """Why no container can be started here, "" if there is no obstacle. Blocks."""
        for folder in self._folders:
            if problem := self.problem_of(folder):
                return f"{folder}: {problem}"
        if forks:
            try:
                subprocess.run([SHELL, "-c", ":"], stdin=subprocess.DEVNULL, timeout=FORK_SECONDS, check=True)
            except (OSError, subprocess.SubprocessError) as error:
                return f"no process can be started: {getattr(error, 'strerror', None) or error}"
        return ""

    def problem_of(self, folder: str) -> str:
        """Why containers cannot write to this directory, "" if they can. A missing directory is made again."""
        try:
            make_safe(folder, self._folders.get(folder, 0o700))
            try_to_write(folder)
            room = os.statvfs(folder)
        except OSError as error:
            return error.strerror or str(error)
        used = 100 * (room.f_blocks - room.f_bfree) / max(1, room.f_blocks - room.f_bfree + room.f_bavail)
        if used > (most := self._settings.disk_most_used_percentage):
            return f"used space above threshold of {most:g}%"
        if room.f_bavail * room.f_frsize < self._settings.disk_least_free_mb << 20:
            return f"free space below limit of {self._settings.disk_least_free_mb}MB"
        if room.f_files and room.f_favail < LEAST_FILES:  # file systems without a limit of inodes report 0
            return f"only {room.f_favail} more files can be created"
        return ""


def try_to_write(folder: str) -> None:
    """Write a file of ``TRIAL_BYTES`` that is removed at once. Raises OSError."""
    try:
        fd = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            raise
        path = os.path.join(folder, f".yopp-health-{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.unlink(path)
    try:
        text = bytes(TRIAL_BYTES)
        while text:
            text = text[os.write(fd, text) :]
    finally:
        os.close(fd)
