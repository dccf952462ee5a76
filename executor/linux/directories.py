"""The directories of one node's containers; makes and removes a container's private directory.

A private directory that is still as it was made is renamed for the next container. ext4 without a journal does not
reuse the inode of a removed file for a minute, and skips all such inodes whenever it makes a file: if each container
removed a directory, creating files would become slower on the whole host as more containers run.

Decisions: launchers.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
import threading
import time
from functools import lru_cache
from itertools import islice
from pathlib import Path

from ..errors import CannotLaunchError, reason_of
from ..records import ContainerSpec
from ..trees import entries_below, make_again, remove_tree
from .cgroups.slots import SLOT_PREFIX
from .owners.accounts import Account, Accounts, refuse_unreachable
from .owners.ownership import refuse_others, refuse_unsafe
from .procfs import Traces

LOG = logging.getLogger(__name__)

SPARE_PREFIX = f"{SLOT_PREFIX}directory-"
"""The prefix of the names of spare directories, which are kept beside the records, and of those that are being removed.
No container may use it."""

MOST_SPARES = 100
"""How many spare directories are kept: one for each of the usual number of slots."""

MOST_KNOWN_LOGS = 1000

MOST_AT_ONCE = 1000
"""A directory with more entries is removed later: its container can have made any number."""

LOG_MODE = 0o750
"""The mode of the log directories of applications and containers (container-executor.c,
``create_container_log_dirs``)."""


class Directories:
    """Private directories (``work``), logs, and what is beside the records (``state``) of one node.

    ``work`` and ``state`` belong to the node alone: entries without a record are removed at its next start. A
    container's own files belong to the user of ``accounts`` that it runs as. Raises PermissionError if
    another user can change one of the directories, and OSError if one cannot be made.
    """

    def __init__(
        self, work: str | Path, logs: str | Path, state: str | Path, accounts: Accounts | None = None
    ) -> None:
        self._accounts = accounts
        self.work, self.logs, self.state = (os.path.abspath(path) for path in (work, logs, state))
        #: each with the mode that it is made with
        self.modes = {self.work: 0o755, self.logs: 0o755, self.state: 0o700}
        for path, mode in self.modes.items():
            refuse_unsafe(path)
            os.makedirs(path, mode=mode, exist_ok=True)
        self._reachable: set[tuple[int, int]] = set()
        self._spares: list[str] = []
        self._numbers = itertools.count(1)
        self._fresh: tuple[object, ...] = ()
        """The properties of an untouched directory; empty if none was made yet."""
        self._keeps = True
        self._known_logs: set[str] = set()
        """The log directories of applications that were found to belong to this user: nobody else can replace
        them."""

    def private(self, container_id: str) -> str:
        """A container's private directory, which is its working directory unless it asked for another."""
        return os.path.join(self.work, container_id)

    def traces(
        self, container_id: str, pid: int, start: int, users: tuple[int, ...] = (), launcher: int = 0
    ) -> Traces:
        """How the processes of a container are recognised (``environment.py`` sets the mark), which run as this
        process's user or as one of ``users``."""
        mark = b"LOCAL_DIRS=" + os.fsencode(self.private(container_id))
        return Traces(pid, start, mark, (os.getuid(), *users), launcher)

    def users_of(self, spec: ContainerSpec) -> tuple[int, ...]:
        """The other user that a container runs as; empty where there is none, or which one is not known now."""
        with contextlib.suppress(CannotLaunchError):
            if self._accounts is not None and (account := self._accounts.of(spec.user)) is not None:
                return (account.uid,)
        return ()

    def log(self, spec: ContainerSpec) -> str:
        """The directory of a container's ``stdout`` and ``stderr``, as in YARN."""
        if spec.log_directory is not None:
            return _absolute(spec.log_directory)
        return os.path.join(self.logs, spec.application_id, spec.container_id)

    def has(self, path: str) -> bool:
        """Whether a path is, or would be, in one of these directories."""
        return f"{path}/".startswith((f"{self.work}/", f"{self.logs}/", f"{self.state}/"))

    def logs_are_its_own(self, spec: ContainerSpec) -> bool:
        """Whether a container's logs are in YARN's place, and not in a directory that was asked for."""
        return self.log(spec) == os.path.join(self.logs, spec.application_id, spec.container_id)

    def prepare(self, spec: ContainerSpec) -> None:
        """Make a container's directories and write its files. Raises CannotLaunchError if that fails."""
        private = self.private(spec.container_id)
        account = self._accounts.of(spec.user) if self._accounts is not None else None
        for again in (True, True, False):
            try:
                self._prepare(spec, private, account)
                return
            except FileNotFoundError as error:
                # Somebody is removing this node's directories, and has removed one that was just made. A tree is
                # removed from the top to the bottom once, so what is made again stays.
                if not again:
                    raise CannotLaunchError(f"cannot write {private}", because=_why(error)) from error
            except (OSError, ValueError) as error:
                raise CannotLaunchError(f"cannot write {private}", because=_why(error)) from error

    def _prepare(self, spec: ContainerSpec, private: str, account: Account | None) -> None:
        if account is not None:
            self._clear_for(account, private)
        if not self._take_spare(private):
            self._make(private)
        self._make_log(spec, account)
        for name, text in spec.files.items():
            if not name or name in (".", "..") or "/" in name or "\0" in name:
                raise CannotLaunchError(f"{name!r} cannot be the name of a file of the container")
            path = os.path.join(private, name)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o700)
            with open(fd, "wb") as file:
                file.write(text.encode("utf-8", "surrogateescape"))
                if account is not None:
                    os.fchown(fd, account.uid, account.gid)
        if account is not None:
            # Last: from now on that user may change the directory, and this process writes nothing more into it.
            os.chown(private, account.uid, account.gid, follow_symlinks=False)

    def _clear_for(self, account: Account, private: str) -> None:
        """Check that the user can reach the node's directories, and remove an existing private directory: it
        may be the user's already, and hold links. Raises CannotLaunchError or OSError."""
        reachable = (account.uid, account.gid)
        if reachable not in self._reachable:
            for path in (self.work, self.logs):
                refuse_unreachable(account, path)
            self._reachable.add(reachable)
        if os.path.lexists(private):
            self.remove_private(os.path.basename(private), thoroughly=True)

    def are_there(self, spec: ContainerSpec) -> bool:
        """Whether the directories that ``prepare`` makes for a container exist. Files in them are not checked."""
        return os.path.isdir(self.private(spec.container_id)) and os.path.isdir(self.log(spec))

    def _make(self, private: str) -> None:
        try:
            os.mkdir(private, 0o700)
        except OSError:  # it exists, or its parent does not
            make_safe(self.work, self.modes[self.work])
            with contextlib.suppress(FileExistsError):
                os.mkdir(private, 0o700)
            refuse_others(private)
        else:
            if self._keeps and not self._fresh:
                self._fresh = _properties(private)

    def _take_spare(self, private: str) -> bool:
        """Rename a spare directory to a private one that does not exist; False if there is no spare."""
        if not self._spares or os.path.lexists(private):
            return False
        try:
            os.rename(self._spares.pop(), private)
            return True
        except OSError as error:  # somebody has removed it
            LOG.debug("%s is created again: %s", private, error.strerror)
            return False

    def keep_private(self, container_id: str) -> bool:
        """Keep a private directory as a spare, or remove it; False if it is not empty.

        A directory becomes a spare only if its owner, mode, size, attributes and entries are those of a new one.
        """
        private = self.private(container_id)
        if self._keeps and self._fresh and len(self._spares) < MOST_SPARES:
            spare = os.path.join(self.state, f"{SPARE_PREFIX}{next(self._numbers)}")
            try:
                if _properties(private) == self._fresh and not os.listdir(private):
                    os.rename(private, spare)
                    self._spares.append(spare)
                    return True
            except FileNotFoundError:
                return True
            except OSError as error:  # e.g. another file system
                LOG.debug("private directories are not kept: %s", error.strerror)
                self._keeps = False
        return self.remove_private(container_id, thoroughly=False)

    def close(self) -> None:
        """Remove the spare directories, and keep no more of them."""
        self._keeps = False
        for spare in self._spares:
            try:
                os.rmdir(spare)
            except OSError as error:
                LOG.debug("%s stays: %s", spare, error.strerror)
        self._spares.clear()

    def remove_earlier_spares(self) -> None:
        """Remove the spare directories of an earlier run, and those that it had no time to remove."""
        for place, remove in ((self.state, _remove_tree), (self.work, _remove)):
            for entry in os.scandir(place):
                if entry.name.startswith(SPARE_PREFIX) and entry.path not in self._spares:
                    remove(entry.path)

    def _make_log(self, spec: ContainerSpec, account: Account | None) -> None:
        path = self.log(spec)
        if not self.logs_are_its_own(spec):  # the directory was asked for, with its parents
            if account is None:  # another user makes it, where that user may
                os.makedirs(path, mode=LOG_MODE, exist_ok=True)
            return
        application = os.path.dirname(path)
        if application not in self._known_logs:
            self._make_application_log(application, account)
        try:
            os.mkdir(path, LOG_MODE)
        except FileExistsError:
            refuse_others(path, None if account is None else account.uid)
        except FileNotFoundError:  # somebody has removed the application's directory
            self._make_application_log(application, account)
            os.mkdir(path, LOG_MODE)
        if account is not None:
            os.chmod(path, LOG_MODE)  # whatever the umask; nobody else can have replaced the directory
            os.chown(path, account.uid, -1, follow_symlinks=False)

    def _make_application_log(self, path: str, account: Account | None) -> None:
        """Make an application's log directory. It stays this user's: whoever may write to it could replace
        its entries by links."""
        make_safe(self.logs, self.modes[self.logs])
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, LOG_MODE)
        refuse_others(path)
        if account is not None:
            os.chmod(path, LOG_MODE)
            os.chown(path, -1, account.gid, follow_symlinks=False)
        if len(self._known_logs) >= MOST_KNOWN_LOGS:
            self._known_logs.clear()
        self._known_logs.add(path)

    def remove_private(self, container_id: str, *, thoroughly: bool) -> bool:
        """Remove a private directory; only if it is empty, unless ``thoroughly``. Returns whether nothing has its name:
        a large one gets another, and is removed in a thread for which nobody waits."""
        path = self.private(container_id)
        try:
            os.rmdir(path)
            return True
        except FileNotFoundError:
            return True
        except OSError:
            if not thoroughly:
                return False
        if _is_large(path):
            aside = os.path.join(self.work, f"{SPARE_PREFIX}{time.time_ns()}")
            with contextlib.suppress(OSError):
                os.rename(path, aside)
                _remove(aside)
        else:
            _remove_tree(path)
        return not os.path.lexists(path)

    def remove_empty_logs(self, spec: ContainerSpec) -> None:
        """Remove the empty logs of a container that never began, and its log directory if it is empty.

        The application's directory stays: another node may be making a log directory in it. So does a directory that
        was asked for: nothing of such a container is in it.
        """
        if not self.logs_are_its_own(spec):
            return
        logs = self.log(spec)
        for name in ("stdout", "stderr"):
            path = os.path.join(logs, name)
            try:
                if os.stat(path).st_size == 0:
                    os.unlink(path)
            except OSError as error:
                LOG.debug("%s stays: %s", path, error.strerror)
        try:
            os.rmdir(logs)
        except OSError as error:
            LOG.debug("%s stays: %s", logs, error.strerror)

    def known_containers(self) -> set[str]:
        """The ids of all containers that have a private directory."""
        return {entry.name for entry in os.scandir(self.work) if not entry.name.startswith(SPARE_PREFIX)}


def _absolute(path: str) -> str:
    return _normal(path) if path.startswith("/") else os.path.abspath(path)


@lru_cache(maxsize=1000)
def _normal(path: str) -> str:
    """Normalise an absolute path. This is called some ten times in the life of a container."""
    return os.path.abspath(path)


def make_safe(path: str, mode: int) -> None:
    """Make a directory again that somebody may have removed. Raises PermissionError if another user can change it, else
    OSError."""
    refuse_unsafe(path)
    make_again(path, mode)


def _properties(directory: str) -> tuple[object, ...]:
    """What distinguishes a directory that somebody has changed from a new one, besides its entries. Raises
    OSError."""
    found = os.stat(directory, follow_symlinks=False)
    return (
        found.st_dev,
        found.st_mode,
        found.st_uid,
        found.st_gid,
        found.st_nlink,
        found.st_size,
        _attributes(directory),
    )


def _attributes(directory: str) -> tuple[str, ...]:
    try:
        return tuple(os.listxattr(directory, follow_symlinks=False))
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return ()
        raise


def _is_large(path: str) -> bool:
    try:
        return next(islice(entries_below(path), MOST_AT_ONCE, None), None) is not None
    except OSError:  # it is deeply nested
        return True


def _remove(path: str) -> None:
    """Remove a tree in a thread for which nobody waits; if there is none, the next run removes it."""
    with contextlib.suppress(RuntimeError):
        threading.Thread(target=_remove_tree, args=(path,), daemon=True).start()


def _remove_tree(path: str) -> None:
    for error in remove_tree(path):
        LOG.warning("cannot remove %s: %s", error.filename, error)


def _why(error: OSError | ValueError) -> str:
    """The reason, with the file that it is about."""
    path = getattr(error, "filename", None)
    return reason_of(error) if path is None else f"{os.fsdecode(path)}: {reason_of(error)}"
