"""Retention of ended applications: when a node starts, it removes output that is older than
``yarn.nodemanager.log.retain-seconds``; of the histories only the newest are kept.

Below the log directory, only directories named like applications are removed.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Container, Iterator

import msgspec

from executor.linux.store import StateStore
from executor.regular import write_whole
from executor.trees import last_written, make_again, remove_tree

from ..cluster.rundir import RECORDS, RunDir
from ..errors import InvalidIdError
from ..records.history import ApplicationHistory
from ..records.ids import ApplicationId, application_of

LOG = logging.getLogger(__name__)


def remove_old_logs(log_dir: str, older_than: float, keep: Container[str]) -> list[str]:
    """Remove the output of applications that was last written before ``older_than`` (epoch
    seconds); their ids.

    ``keep`` are applications that still have containers.
    """
    removed = []
    for entry in _directories(log_dir):
        try:
            ApplicationId.parse(entry.name)
        except InvalidIdError:
            continue
        if entry.name in keep or last_written(entry.path) >= older_than:
            continue
        remove_tree(entry.path)
        if not os.path.lexists(entry.path):
            removed.append(entry.name)
    if removed:
        LOG.info("removed old output of %d applications from %s", len(removed), log_dir)
    return removed


def applications_with_records(state_dir: str) -> set[str]:
    """The applications of which a node of this host has the record of a container (``nm-*/containers``)
    or an exit file.

    Raises StateStoreError if the records of a node cannot be read.
    """
    found = set()
    for node in _directories(state_dir):
        directory = os.path.join(node.path, RECORDS)
        if not node.name.startswith("nm-") or not os.path.isdir(directory):
            continue
        names = [record.spec.container_id for record in StateStore(directory).load_all(tidy=False)]
        with contextlib.suppress(OSError):
            names += [name.partition(".")[0] for name in os.listdir(directory)]
        for name in names:
            with contextlib.suppress(InvalidIdError):
                found.add(application_of(name))
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


class HistoryFiles:
    """One JSON file per application below ``<state>/history``; the newest ``retained`` files are kept.

    If a file cannot be written, that is logged, and has no other effect.
    """

    def __init__(self, run_dir: RunDir, retained: int) -> None:
        self._run_dir = run_dir
        self._retained = retained

    def keep(self, history: ApplicationHistory, *, if_missing: bool = False) -> None:
        """Write one application's history atomically, and remove the oldest ones."""
        path = self._run_dir.history_file(history.application.application_id)
        if if_missing and os.path.lexists(path):
            return
        try:
            make_again(self._run_dir.history_dir, 0o700)
            write_whole(path, msgspec.json.encode(history))
            self._remove_oldest()
        except OSError as error:
            LOG.warning("cannot keep the history %s: %s", os.path.basename(path), error)

    def _remove_oldest(self) -> None:
        found = []
        for path in map(self._run_dir.history_file, self._run_dir.kept_histories()):
            with contextlib.suppress(OSError):
                found.append((os.stat(path).st_mtime_ns, path))
        for _, path in sorted(found, reverse=True)[self._retained :]:
            with contextlib.suppress(OSError):
                os.remove(path)
