"""What is kept of ended applications: one JSON file each below ``<state>/history``, the newest so many of them."""

from __future__ import annotations

import contextlib
import logging
import os

import msgspec

from ..cluster.rundir import RunDir, write_whole
from ..records.history import ApplicationHistory

LOG = logging.getLogger(__name__)


class HistoryFiles:
    """``retained`` is how many files stay. A disk that takes none is told of in the log, and costs nothing else."""

    def __init__(self, run_dir: RunDir, retained: int) -> None:
        self._directory = run_dir.history_dir
        self._retained = retained

    def keep(self, history: ApplicationHistory) -> None:
        """Write one application's history, whole or not at all, and remove the oldest ones."""
        name = f"{history.application.application_id}.json"
        try:
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            write_whole(os.path.join(self._directory, name), msgspec.json.encode(history))
            self._remove_oldest()
        except OSError as error:
            LOG.warning("cannot keep the history %s: %s", name, error)

    def _remove_oldest(self) -> None:
        found = []
        for entry in os.scandir(self._directory):
            if entry.name.startswith("application_") and entry.name.endswith(".json"):
                with contextlib.suppress(OSError):
                    found.append((entry.stat().st_mtime_ns, entry.path))
        for _, path in sorted(found, reverse=True)[self._retained :]:
            with contextlib.suppress(OSError):
                os.remove(path)
