"""Finds zygotes and launchers that nothing else leads to: the node's process is gone, no journal names them, and a
zygote is in no cgroup. One that is stopped does not notice that its node has died.

The mark in their environment, set by the node before they start, names the node's directory of records; no
container gets it. A process counts only if it is ours (``procfs.is_ours``). Nothing is found by a program's name.
Commands import this, so it imports little.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ...light import Record
from ..procfs import is_ours, read_bytes, read_stat

MARK = "YOPP_POOL_OF"


def marked_environment(state: str) -> dict[str, str]:
    """The environment of a zygote, and of the launchers that it forks."""
    return {MARK: os.path.realpath(state)}


class Marked(Record):
    """A process of a pool. ``state`` is its node's directory of records, with all links resolved."""

    pid: int
    start: int
    parent: int
    state: str


def marked_below(directory: str) -> Iterator[Marked]:
    """The processes of pools whose records are in a directory or below it."""
    mark, top = f"{MARK}=".encode(), f"{os.path.realpath(directory)}/"
    for name in filter(str.isdigit, os.listdir("/proc")):
        environment = f"/proc/{name}/environ"
        if mark not in read_bytes(environment):  # a third of the cost of a stat, and true of nearly all
            continue
        found = read_stat(int(name))
        if found is None or found.state in "ZX":
            continue
        # read again: the pid and start time are now known, and the process may be another one than before
        for entry in read_bytes(environment).split(b"\0"):
            if not entry.startswith(mark):
                continue
            state = os.fsdecode(entry.removeprefix(mark))
            if f"{state}/".startswith(top) and is_ours(found.pid):
                yield Marked(found.pid, found.start, found.parent, state)
