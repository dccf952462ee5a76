"""MapReduce jobs that have ended: read from what the ResourceManager keeps of applications on disk."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Any

import msgspec

from ..cluster.rundir import RunDir
from ..records.history import MapReduceReport
from ..records.reports import ApplicationReport
from ..views.rest.mapreduce import JobView


@dataclass(frozen=True, slots=True)
class KeptJob:
    """What these documents need of an ``ApplicationHistory``; the rest of the file is passed over."""

    application: ApplicationReport
    map_reduce: MapReduceReport | None = None


class KeptJobs:
    """Reads files; call it in a thread. The summary of a file is cached until the file changes."""

    def __init__(self, run_dir: RunDir) -> None:
        self._directory = run_dir.history_dir
        self._last: tuple[str, int, JobView | None] | None = None
        self._rows: dict[str, tuple[int, dict[str, Any] | None]] = {}
        self._decoder = msgspec.json.Decoder(KeptJob)

    def find(self, application_id: str) -> JobView | None:
        """One job; None if nothing was kept of it, or it is not a MapReduce job."""
        path = os.path.join(self._directory, f"{application_id}.json")
        try:
            changed = os.stat(path).st_mtime_ns
        except OSError:
            return None
        if self._last is None or self._last[:2] != (path, changed):
            kept = self._read(path)
            self._last = (path, changed, _view(kept) if kept is not None else None)
        return self._last[2]

    def rows(self) -> list[dict[str, Any]]:
        """All jobs in short, in order of their ends."""
        known, self._rows = self._rows, {}
        try:
            entries = list(os.scandir(self._directory))
        except OSError:
            return []
        for entry in entries:
            if not (entry.name.startswith("application_") and entry.name.endswith(".json")):
                continue
            try:
                changed = entry.stat().st_mtime_ns
            except OSError:
                continue  # it was the oldest, and has just been removed
            before = known.get(entry.name)
            if before is None or before[0] != changed:
                kept = self._read(entry.path)
                view = _view(kept) if kept is not None else None
                before = (changed, view.history_row() if view is not None else None)
            self._rows[entry.name] = before
        found = [row for _, row in self._rows.values() if row is not None]
        return sorted(found, key=lambda row: (row["finishTime"], row["id"]))

    def _read(self, path: str) -> KeptJob | None:
        """The content of a file; None if it is not the history of the application in its name."""
        try:
            # A pipe of that name would block the thread forever.
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return None
                kept = self._decoder.decode(file.read())
        except (OSError, msgspec.MsgspecError):
            return None
        return kept if os.path.basename(path) == f"{kept.application.application_id}.json" else None


def _view(kept: KeptJob) -> JobView | None:
    if kept.map_reduce is None:
        return None
    return JobView(kept.application, kept.map_reduce, kept.application.finished_at_ms)
