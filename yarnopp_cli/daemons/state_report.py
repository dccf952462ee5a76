"""What the stored state of a ResourceManager holds: ``yopp rmadmin state check``, and of a cluster that has stopped."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable
from urllib.parse import quote

from executor.light import Record
from executor.regular import check_regular

from ..cluster.rundir import RM_STATE_SUFFIXES, RunDir
from ..cluster.state import as_started
from ..errors import YoppError, reason_of
from ..records.reports import FINAL_STATES, YarnApplicationState
from ..records.state import KINDS, Kind, Stored, StoredApplication, StoredCluster, StoredLife, StoredTask
from .state_file import format_of, read_mark, read_records, transactions_of


class StateReport(Record):
    """The number of records by kind, of ``live`` applications (not ended) and of those that are ``running``, and the
    ``problems`` as sentences."""

    format: int
    records: dict[str, int]
    live: int
    running: int = 0
    problems: tuple[str, ...] = ()


def examine(path: str) -> tuple[list[Stored], StateReport]:
    """The readable records, and a report with the problems. Writes nothing, and works beside a running RM.

    Raises YoppError if there is no state, if it cannot be read, or if a newer version wrote it.
    """
    if not os.path.exists(path):
        raise YoppError(
            f"{path} has no state",
            because="no ResourceManager has stored its state there",
            hint="yarn.resourcemanager.recovery.enabled = true stores it",
        )
    try:
        for one in filter(os.path.lexists, (path + suffix for suffix in RM_STATE_SUFFIXES)):
            check_regular(one, os.lstat(one))
        with contextlib.closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as database:
            number = format_of(database, path)
            found, problems = read_records(database)
            if (missing := read_mark(path)[0] - transactions_of(database)) > 0:
                problems.append(f"it lacks the last {missing} changes")
    except (sqlite3.Error, OSError) as error:
        hint = "the next ResourceManager sets it aside and starts without state"
        raise YoppError(f"{path} cannot be read", because=reason_of(error), hint=hint) from None
    return found, _report(number, found, problems)


def _report(number: int, records: Iterable[Stored], problems: list[str]) -> StateReport:
    records = list(records)
    known = {one.id for one in records if isinstance(one, StoredApplication)}
    lives = [one for one in records if isinstance(one, StoredLife)]
    orphans = {one.application_id for one in records if isinstance(one, StoredTask)} | {
        one.id for one in lives
    }
    problems += [f"{one} has records but no submission" for one in sorted(orphans - known)]
    if records and not any(isinstance(one, StoredCluster) for one in records):
        problems.append("it does not name its cluster: nothing is restored")
    counts = Counter(KINDS[type(one)].value for one in records)
    ended = sum(one.state in FINAL_STATES for one in lives)
    running = sum(one.state is YarnApplicationState.RUNNING for one in lives)
    return StateReport(
        number,
        {kind.value: counts[kind.value] for kind in Kind},
        len(known) - ended,
        running,
        tuple(problems),
    )


def stored_applications(run_dir: RunDir) -> tuple[int, int] | None:
    """How many applications of a cluster whose RM does not answer are stored as running, and as waiting; None if the
    state cannot be read, such as that of a newer version, which could continue from it."""
    path = as_started(run_dir).rm_state_file
    if not os.path.lexists(path):
        return 0, 0
    try:
        _, report = examine(path)
    except YoppError:
        return None
    return report.running, report.live - report.running
