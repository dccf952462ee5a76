"""Directories that a client keeps for its job: the files that a `pi` job and the tasks of
``run --pipe`` read."""

from __future__ import annotations

import contextlib
import fcntl
import os

from ..errors import YoppError, reason_of

JOBS = "jobs"
"""The name of their parent in the state directory of a run directory."""
LOCK = "lock"
PI = "QuasiMonteCarlo_"
PIPE = "pipe_"
_PREFIXES = (PI, PIPE)


class ClientDirectory:
    """A directory below a parent, readable only for this user.

    The process that creates it holds it locked; ``clear_abandoned`` removes
    directories whose creator has died.
    """

    def __init__(self, parent: str, name: str) -> None:
        """Create it; random digits follow ``name``, which begins with ``PI`` or ``PIPE``. Raises
        YoppError if that fails."""
        self._lock = -1
        self.path = f"{parent}/{name}_{int.from_bytes(os.urandom(4), 'big')}"
        try:
            _make(parent, self.path)
            self._lock = os.open(f"{self.path}/{LOCK}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        except OSError as error:
            raise unusable(self.path, error) from None

    def hand_over(self) -> None:
        """Hand the directory over to a detached master, which uses and removes it: it is unlocked, but
        not counted as abandoned."""
        os.unlink(f"{self.path}/{LOCK}")
        self._unlock()

    def remove(self) -> None:
        """Remove the directory with its files; may be called twice."""
        remove_directory(self.path)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_directory(path: str) -> None:
    """Remove a job's directory; files that cannot be removed are left."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(path):
            with contextlib.suppress(OSError):
                os.unlink(entry.path)
        os.rmdir(path)
        os.rmdir(os.path.dirname(path))  # fails, and is ignored, unless it was the last one


def _make(parent: str, path: str) -> None:
    """Create both directories; another job that ends may remove the empty parent in between."""
    os.makedirs(parent, mode=0o700, exist_ok=True)
    clear_abandoned(parent)
    for last in (False, False, True):
        try:
            os.makedirs(parent, mode=0o700, exist_ok=True)
            os.mkdir(path, 0o700)
            return
        except FileNotFoundError:
            if last:
                raise


def clear_abandoned(parent: str) -> None:
    """Remove the directories of jobs whose client was killed: those with a lock file that no
    process holds."""
    for entry in os.scandir(parent):
        if not entry.name.startswith(_PREFIXES):
            continue
        with contextlib.suppress(OSError):
            lock = os.open(f"{entry.path}/{LOCK}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_directory(entry.path)
            finally:
                os.close(lock)


def clear_handed_over(parent: str) -> None:
    """Remove the directories that were handed over to detached masters; call it when none of these
    is running."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(parent):
            if entry.name.startswith(PI) and not os.path.lexists(f"{entry.path}/{LOCK}"):
                remove_directory(entry.path)


def unusable(path: str, error: OSError) -> YoppError:
    """The error for files that cannot be written."""
    return YoppError(
        f"cannot write the job's files in {path}",
        because=reason_of(error),
        hint="make the state directory writable and free some space, or name another one with --run-dir",
    )
