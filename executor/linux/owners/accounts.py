"""Chooses the user of this host that a container runs as (YARN's ``LinuxContainerExecutor`` and its
container-executor.cfg).

Only root's node can start processes as another user. There a container runs as the user who submitted its
application, or as one user for all. Containers of a user who is unknown, or must not run containers, are
refused: they never run as root instead.

Decisions: run-as.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Callable

from ...errors import CannotLaunchError, reason_of
from ...light import Record
from ...settings import ExecutorSettings
from .users import look_up

MOST_KNOWN = 1000


class Account(Record):
    """A user as the kernel knows it: ids and supplementary groups; ``home`` is the directory of passwd(5).

    With ``strict``, its processes cannot gain privileges from a program (no_new_privs).
    """

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    strict: bool = True

    @property
    def ids(self) -> tuple[int, int, list[int], bool]:
        """The part of the account that a launcher gets."""
        return self.uid, self.gid, list(self.groups), self.strict


class Accounts:
    """Chooses the account of each container, on the node of this process's user."""

    def __init__(self, settings: ExecutorSettings) -> None:
        self._settings = settings
        self._own = _own_name()
        self._is_root = os.geteuid() == 0
        self._banned = frozenset(_names(settings.banned_users))
        self._allowed = frozenset(_names(settings.allowed_system_users))
        self._known: dict[str, Account] = {}

    def of(self, user: str) -> Account | None:
        """The account for a container of ``user`` ("": the node's own user); None for the node's own.

        Raises CannotLaunchError if that user may run no container here.
        """
        if not self._is_root:
            return None
        name = self._settings.local_user if self._settings.limit_users else user or self._own
        found = self._known.get(name)
        if found is None:
            refused = f"containers of user {name!r} are not started"
            if name in self._banned:
                raise CannotLaunchError(
                    refused, because="yopp.nodemanager.linux-container-executor.banned-users names this user"
                )
            if name == self._own:
                return None
            found = self._account(name, refused)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[name] = found
        return found

    def _account(self, name: str, refused: str) -> Account:
        try:
            entry = look_up(lambda: pwd.getpwnam(name))
        except (KeyError, ValueError):
            raise CannotLaunchError(refused, because="this host has no user with that name") from None
        except OSError as error:
            raise _not_known_now(refused, error) from error
        least = self._settings.min_user_id
        if entry.pw_uid == 0 or (entry.pw_uid < least and name not in self._allowed):
            raise CannotLaunchError(
                refused,
                because="it is another name of root"
                if entry.pw_uid == 0
                else f"its uid {entry.pw_uid} is below yopp.nodemanager.linux-container-executor.min-user-id = {least}",
            )
        try:
            groups = tuple(look_up(lambda: os.getgrouplist(name, entry.pw_gid)))
        except OSError as error:
            raise _not_known_now(refused, error) from error
        strict = self._settings.confined_containers
        return Account(name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir, strict)


def _not_known_now(refused: str, error: OSError) -> CannotLaunchError:
    return CannotLaunchError(refused, because=f"the users of this host cannot be read: {reason_of(error)}")


def user_id(name: str) -> int | None:
    """The uid of a user of this host, None if there is no user of that name. Raises OSError if that cannot be
    read."""
    try:
        return look_up(lambda: pwd.getpwnam(name)).pw_uid
    except (KeyError, ValueError):
        return None


def _own_name() -> str:
    """The user name from the kernel and passwd(5), never from the environment: containers of that user run as
    this process."""
    try:
        return look_up(lambda: pwd.getpwuid(os.geteuid())).pw_name
    except KeyError:
        return str(os.geteuid())


def _names(text: str) -> list[str]:
    return [name for name in (word.strip() for word in text.split(",")) if name]


def refuse_unreachable(
    account: Account, path: str, stat_of: Callable[[str], os.stat_result] = os.stat
) -> None:
    """Raise CannotLaunchError unless the account may search ``path`` and every directory above it; OSError if
    one does not exist."""
    parts = path.strip("/").split("/") if path != "/" else []
    for count in range(len(parts) + 1):
        here = "/" + "/".join(parts[:count])
        facts = stat_of(here)
        if facts.st_uid == account.uid:
            allowed = stat.S_IXUSR
        elif facts.st_gid in (account.gid, *account.groups):
            allowed = stat.S_IXGRP
        else:
            allowed = stat.S_IXOTH
        if not facts.st_mode & allowed:
            raise CannotLaunchError(
                f"{account.name} cannot reach {path}, which its containers need",
                because=f"the mode {stat.S_IMODE(facts.st_mode):04o} of {here} denies access to {account.name}",
                hint="set yarn.nodemanager.local-dirs and yarn.nodemanager.log-dirs to paths open to all users",
            )
