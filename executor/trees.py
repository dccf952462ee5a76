"""Removes directory trees that containers made, and reads their times, however deep they are nested. Makes directories
again that somebody has removed.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 64


def make_again(path: str, mode: int) -> None:
    """Make a directory, unless it exists, with its parents. These are closed to others: a run directory may be among
    those that somebody has removed, and no command accepts an open one. Raises OSError."""
    parent = os.path.dirname(path)
    if parent and not os.path.isdir(parent):
        make_again(parent, 0o700)
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def remove_tree(path: str) -> list[OSError]:
    """Remove a directory with everything in it, links as links. Returns the errors for what is left. Raises nothing.

    A tree can be nested deeper than a path, a stack or the open descriptors reach. Directories that are too
    deep are moved to the top and removed from there: going back through ``..`` could lead elsewhere if
    somebody moves a directory meanwhile.
    """
    failed: list[OSError] = []
    try:
        top = os.open(path, _DIRECTORY)
        try:
            names = (f".yopp-removed-{number}" for number in itertools.count())
            while _empty(top, path, top, 0, names, failed):
                failed.clear()
        finally:
            os.close(top)
        os.rmdir(path)
    except OSError as error:
        failed.append(error)
    return failed


def _empty(here: int, path: str, top: int, depth: int, names: Iterator[str], failed: list[OSError]) -> bool:
    """Remove the entries of a directory. Returns whether some were moved to the top. Raises OSError if it
    cannot be read."""
    moved = False
    with os.scandir(here) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in found:
        try:
            if not is_directory:
                os.unlink(name, dir_fd=here)
            elif depth == _DEEPEST:
                os.rename(name, next(names), src_dir_fd=here, dst_dir_fd=top)
                moved = True
            else:
                below = os.open(name, _DIRECTORY, dir_fd=here)
                try:
                    moved |= _empty(below, os.path.join(path, name), top, depth + 1, names, failed)
                finally:
                    os.close(below)
                os.rmdir(name, dir_fd=here)
        except OSError as error:
            error.filename = os.path.join(path, name)
            failed.append(error)
    return moved


def entries_below(path: str) -> Iterator[os.stat_result]:
    """The status of each entry of a tree, links as links; what cannot be read is left out. Raises OSError with
    ENAMETOOLONG if the tree is nested deeper than a path reaches."""
    waiting = [path]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        facts = entry.stat(follow_symlinks=False)
                        if stat.S_ISDIR(facts.st_mode):
                            waiting.append(entry.path)
                        yield facts
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise


def last_written(path: str) -> float:
    """When anything in this tree was last written (epoch seconds), as far as a path reaches; 0 if nothing exists."""
    newest = 0.0
    with contextlib.suppress(OSError):
        newest = os.lstat(path).st_mtime
        for facts in entries_below(path):
            newest = max(newest, facts.st_mtime)
    return newest
