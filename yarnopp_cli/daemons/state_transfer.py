"""The RM's state as text for users and other programs: ``yopp rmadmin state export|import|check``; and what it holds
of a cluster that has stopped.

The text has one JSON object per line: first ``{"format": 1}``, then each record with its kind, in the order
in which they are read. It contains the secret from which all keys derive, so its holder can impersonate every
master.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import msgspec

from executor.light import Record
from executor.regular import check_regular, write_whole

from ..cluster.plan import as_started
from ..cluster.rundir import RM_STATE_SUFFIXES, RunDir
from ..errors import ConfigurationError, YoppError, reason_of
from ..records.reports import FINAL_STATES, YarnApplicationState
from ..records.state import (
    KINDS,
    Kind,
    RemoveRecords,
    StoreCommand,
    Stored,
    StoredApplication,
    StoredCluster,
    StoredLife,
    StoredTask,
    StoreRecord,
    key_of,
)
from ..rpc.codec import encode
from .state_file import (
    FORMAT,
    UNREADABLE,
    StateFile,
    format_of,
    newer,
    read_mark,
    read_records,
    transactions_of,
)

_TYPES: dict[str, Any] = {kind.value: record for record, kind in KINDS.items()}


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


def to_text(records: Iterable[Stored]) -> bytes:
    """The records as text."""
    lines = [json.dumps({"format": FORMAT}).encode()]
    lines += [
        b'{"kind":"%s","record":%s}' % (KINDS[type(one)].value.encode(), encode(one)) for one in records
    ]
    return b"\n".join(lines) + b"\n"


def export(records: Iterable[Stored], path: str) -> None:
    """Write the records as text, whole or not at all; a device, a pipe and a link stay what they are. Raises YoppError
    if that fails."""
    try:
        if os.path.islink(path) or (os.path.exists(path) and not os.path.isfile(path)):
            with open(path, "wb") as file:
                file.write(to_text(records))
        else:
            write_whole(path, to_text(records))
    except OSError as error:
        raise YoppError(
            f"cannot write {path}",
            because=reason_of(error),
            hint="name a file in a directory that you can write to",
        ) from None


def from_text(text: bytes, source: str) -> list[Stored]:
    """The records of a text from ``source``. Raises ConfigurationError for an invalid text, YoppError for
    one of a newer version."""
    found: list[Stored] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            said = json.loads(line)
            if number == 1:
                if int(said["format"]) > FORMAT:
                    raise newer(source, said["format"], hint="use the newer version")
                continue
            found.append(msgspec.convert(said["record"], type=_TYPES[said["kind"]]))
        except UNREADABLE as error:
            hint = "`yopp rmadmin state export` writes what is expected"
            raise ConfigurationError(
                f"line {number} of {source} is not a record", because=repr(error), hint=hint
            ) from None
    if problems := _report(FORMAT, found, []).problems or ([] if found else ["it has no records"]):
        raise ConfigurationError(
            f"{source} is not a complete state", because="; ".join(problems), hint="export it again"
        )
    return found


def replace_state(path: str, records: Iterable[Stored]) -> None:
    """Replace the stored state, from which the next RM starts. Raises YoppError if it cannot be written."""
    file = StateFile(path)
    commands: list[StoreCommand] = [RemoveRecords(KINDS[type(one)], key_of(one)) for one in file.load()]
    commands += [StoreRecord(one) for one in records]
    written = file.write(commands)
    file.close()
    if not written:
        raise YoppError(
            f"{path} cannot be written", because="the log of this command shows why", hint="yopp doctor"
        )
