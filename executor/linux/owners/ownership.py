"""Checks whether another user can change a directory: whoever can may put links into it for us to follow.

A directory is safe if only this user and the owner of the root directory own it or may write to it, and
nobody else can replace it by another. Nothing is made or changed here.

Decisions: directories.
"""

from __future__ import annotations

import errno
import grp
import os
import stat


def refuse_unsafe(path: str) -> None:
    """Raise PermissionError if another user can change ``path`` or a directory above it; the directory is its
    ``filename``. A path that does not exist is accepted.

    Directories that everybody may write are accepted if they are sticky, as ``/tmp`` is: an entry belongs to
    its owner alone. Those above ``path`` may be writable by a group: their owner trusts it.
    """
    full = os.path.realpath(path)
    owners = {os.geteuid(), os.stat("/").st_uid}
    parts = full.split("/")[1:] if full != "/" else []
    for count in range(len(parts) + 1):
        here = "/" + "/".join(parts[:count])
        try:
            facts = os.lstat(here)
        except FileNotFoundError:
            return
        if because := _problem(facts, owners, is_last=count == len(parts)):
            raise PermissionError(errno.EPERM, because, here)


def refuse_others(path: str, but: int | None = None) -> None:
    """For an entry of a safe directory: raise PermissionError unless ``path`` is a directory, and no link, of
    this user or of the user ``but``. Raises OSError if it does not exist."""
    facts = os.lstat(path)
    because = "it is a symbolic link, or not a directory"
    if stat.S_ISDIR(facts.st_mode):
        because = _problem(facts, {os.geteuid(), os.geteuid() if but is None else but}, is_last=True)
    if because:
        raise PermissionError(errno.EPERM, because, path)


def _problem(facts: os.stat_result, owners: set[int], *, is_last: bool) -> str:
    mode = facts.st_mode
    if facts.st_uid not in owners:
        return f"it belongs to user {facts.st_uid}, and containers are started by user {os.geteuid()}"
    if stat.S_ISDIR(mode) and not mode & stat.S_ISVTX:
        if mode & stat.S_IWOTH:
            return f"its mode {stat.S_IMODE(mode):04o} lets every user write to it"
        if is_last and mode & stat.S_IWGRP and not _is_private(facts.st_gid):
            return f"its mode {stat.S_IMODE(mode):04o} lets the users of group {facts.st_gid} write to it"
    return ""


def _is_private(gid: int) -> bool:
    """Whether a group is this user's own and has no other members, as each user's first group where the umask
    is 002."""
    try:
        return gid == os.getegid() and not grp.getgrgid(gid).gr_mem
    except KeyError:
        return gid == os.getegid()
