"""Old output: what ``yarn.nodemanager.log.retain-seconds`` says may go when a node starts.

Removes directories named like applications below the log directory, and nothing else.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Container, Iterator

from ..errors import InvalidIdError
from ..records.ids import ApplicationId, application_of

LOG = logging.getLogger(__name__)


def remove_old_logs(log_dir: str, older_than: float, keep: Container[str]) -> list[str]:
    """Remove applications' output that nothing was written to since ``older_than`` (epoch seconds); their
    ids.

    ``keep`` are applications that still have containers.
    """
    removed = []
    for entry in _directories(log_dir):
        try:
            ApplicationId.parse(entry.name)
        except InvalidIdError:
            continue
        if entry.name in keep or _last_written(entry.path) >= older_than:
            continue
        shutil.rmtree(entry.path, ignore_errors=True)
        if not os.path.lexists(entry.path):
            removed.append(entry.name)
    if removed:
        LOG.info("removed old output of %d applications from %s", len(removed), log_dir)
    return removed


def applications_with_records(state_dir: str) -> set[str]:
    """The applications of which some node of this host has a container on record (``nm-*/containers``)."""
    found = set()
    for node in _directories(state_dir):
        if not node.name.startswith("nm-"):
            continue
        with contextlib.suppress(OSError):
            for name in os.listdir(os.path.join(node.path, "containers")):
                with contextlib.suppress(InvalidIdError):
                    found.add(application_of(name.partition(".")[0]))
    return found


def _directories(path: str) -> Iterator[os.DirEntry[str]]:
    try:
        entries = list(os.scandir(path))
    except OSError:
        return
    for entry in entries:
        with contextlib.suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                yield entry


def _last_written(path: str) -> float:
    """When anything in this tree was last written."""
    newest = 0.0
    for directory, _, files in os.walk(path):
        for name in (".", *files):
            with contextlib.suppress(OSError):
                newest = max(newest, os.lstat(os.path.join(directory, name)).st_mtime)
    return newest
