"""The RM's state in a file: SQLite, one table, one writer. ``resourcemanager/state_store.py`` decides
what is written.

All writes of one turn of the loop are one transaction. It survives the end of the process at once, and a
power failure once the kernel has written it to the disk: a power failure loses the last moments, but never a
part of a transaction. Only ``checkpoint`` waits for the disk, and it may run in another thread. A file that
is not a state is set aside.

SQLite reads its log up to the first damaged part, and says nothing. So the database counts its transactions, and the
mark, a file beside its directory, has the same count: a database with fewer has lost some.

Decisions: rm-state.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import subprocess
import time
from functools import cache
from itertools import groupby
from typing import Any
from urllib.parse import quote

import msgspec

from executor.light import replace
from executor.regular import ANY_SIZE, LARGEST, open_regular, read_regular, set_strange_aside

from ..cluster.rundir import RM_STATE_SUFFIXES, mark_of
from ..errors import YoppError, reason_of
from ..records.state import (
    KINDS,
    Kind,
    RemoveRecords,
    StoreCommand,
    Stored,
    StoredCluster,
    StoreRecord,
    key_of,
)
from ..rpc.codec import encode

LOG = logging.getLogger(__name__)

FORMAT = 7
"""The version of the table and of the shapes of its records. Each change of either raises it: an earlier version would
drop a field that it does not know."""
GARBLED = ".garbled"
CHECKPOINT_RECORDS = 5000
"""The number of records after which a checkpoint of SQLite's log (WAL) is due: it has about 20 MB then."""
LONGEST_LOG = 32 << 20
"""The size of SQLite's log, in bytes, above which it is truncated."""
BUSY_SECONDS = 0.5
"""How long a write waits for the truncation."""
_TABLE = "CREATE TABLE IF NOT EXISTS record (kind TEXT, key TEXT, document BLOB, PRIMARY KEY (kind, key)) WITHOUT ROWID"
_MARK = "CREATE TABLE IF NOT EXISTS mark (one INTEGER PRIMARY KEY, number INTEGER)"
_ORDER = {kind.value: number for number, kind in enumerate(Kind)}
_RECORDS = {kind.value: record for record, kind in KINDS.items()}
UNREADABLE = (KeyError, TypeError, ValueError, OverflowError, msgspec.MsgspecError, RecursionError)
"""The exceptions that reading an invalid record may raise."""


@cache
def _decoder(kind: str) -> msgspec.json.Decoder[Any]:
    """The decoder of a kind, made when the first record of it is read: all of them take 5 ms of a start."""
    return msgspec.json.Decoder(_RECORDS[kind])


def read_mark(path: str) -> tuple[int, int]:
    """What the state at ``path`` had when it was last written: the count of transactions, and the number of the last
    application; 0 for both if that cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        transactions, last_application = map(int, read_regular(mark_of(path)).split()[:2])
        return transactions, last_application
    return 0, 0


class StateFile:
    """The file at ``path``, mode 0600; its directory is created if it is missing, mode 0700.

    ``losses`` has a sentence for each part of the state that was lost.
    Raises YoppError if it cannot be used, or if a newer version wrote it.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        #: why the last write failed
        self.failed: YoppError | None = None
        self.losses: list[str] = []
        self._transactions, self._last_application = read_mark(path)
        self._in_log = 0
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            for told in set_strange_aside(mark_of(path), most=LARGEST):
                self._lose(f"{told}; whether changes of {path} are lost is not known")
            self._mark = open_regular(mark_of(path), os.O_WRONLY | os.O_CREAT)
            self._open()
        except sqlite3.DatabaseError as error:
            self._begin_anew(error)
        except OSError as error:
            raise self._unusable(reason_of(error)) from None

    def _unusable(self, because: str) -> YoppError:
        return YoppError(
            f"cannot use {self.path}",
            because=because,
            hint="yarn.resourcemanager.recovery.enabled = false does not need it",
        )

    def _begin_anew(self, error: sqlite3.DatabaseError) -> None:
        """Set the files aside, and begin with an empty state."""
        if isinstance(error, sqlite3.OperationalError):
            raise self._unusable(str(error)) from None
        self._lose(f"{self.path} is no state ({error}); what was left is kept as {self.path}{GARBLED}")
        try:
            self._set_aside()
            self._open()
        except (OSError, sqlite3.Error) as failed:
            raise self._unusable(str(failed)) from None

    def _lose(self, told: str) -> None:
        LOG.error("%s", told)
        self.losses.append(told)

    def _keep(self, lost: str) -> None:
        """Copy what is left, before it is written over. In another process: to close SQLite's file here would end the
        locks that SQLite has of it (fcntl(2))."""
        copy = f"{self.path}.lost-{time.time_ns()}"
        for suffix in filter(lambda one: os.path.exists(self.path + one), RM_STATE_SUFFIXES):
            with contextlib.suppress(OSError):
                subprocess.run(["cp", "--", self.path + suffix, copy + suffix], check=False)
        self._lose(f"{lost}; what was left is kept as {copy}")

    def _open(self) -> None:
        for told in set_strange_aside(*(self.path + suffix for suffix in RM_STATE_SUFFIXES)):
            self._lose(told)
        is_new = not os.path.exists(self.path) or not os.path.getsize(self.path)
        os.close(open_regular(self.path, os.O_RDWR | os.O_CREAT, most=ANY_SIZE))
        self._database = database = sqlite3.connect(self.path, isolation_level=None, timeout=BUSY_SECONDS)
        if is_new and self._transactions and not self.losses:
            raise sqlite3.DatabaseError("it was removed or emptied")  # before SQLite removes the log
        try:
            format_of(database, self.path)
        except YoppError:
            database.close()
            raise
        missing = self._transactions - transactions_of(database)
        if missing > 0 and not self.losses:
            self._keep(f"{self.path} lacks the last {missing} of {self._transactions} changes")
        self._transactions -= min(0, missing)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA wal_autocheckpoint = 0")
        database.execute(_TABLE)
        database.execute(_MARK)
        database.execute(f"PRAGMA user_version = {FORMAT}")

    def _set_aside(self) -> None:
        self._database.close()
        for suffix in RM_STATE_SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                os.replace(self.path + suffix, self.path + GARBLED + suffix)

    def load(self) -> list[Stored]:
        """All records, ordered by kind. A record that cannot be read is logged and left out. After a loss, the number
        of the last application is the one that had been written."""
        try:
            found, problems = read_records(self._database)
        except sqlite3.DatabaseError as error:
            self._begin_anew(error)
            return []
        for problem in problems:
            LOG.error("%s: %s", self.path, problem)
        if problems:
            self._keep(f"{self.path}: {problems[0]} ({len(problems)} in all)")
        if self.losses and found and isinstance(cluster := found[0], StoredCluster):
            last = max(self._last_application, cluster.last_application)
            found[0] = replace(cluster, last_application=last, lost_until=last, adopted=False)
        return found

    def write(self, commands: list[StoreCommand]) -> bool:
        """Write all commands, or none and return False. A failure to write is logged once."""
        try:
            self._database.execute("BEGIN")
            for kind, some in groupby(commands, type):
                self._database.executemany(*_statement(kind, list(some)))
            self._database.execute("INSERT OR REPLACE INTO mark VALUES (1, ?)", (self._transactions + 1,))
            self._database.execute("COMMIT")
            self._note(commands)
        except (sqlite3.Error, OSError) as error:
            with contextlib.suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            if self.failed is None:
                LOG.error("%s cannot be written; retrying: %s", self.path, error)
            self.failed = YoppError(
                f"cannot write {self.path}",
                because=reason_of(error),
                hint="make room, or mend what the reason names; jobs that are known already run on",
            )
            return False
        if self.failed is not None:
            LOG.info("%s is written again", self.path)
        self.failed = None
        self._in_log += len(commands)
        return True

    def _note(self, commands: list[StoreCommand]) -> None:
        """Write the mark, after the transaction: a process that dies in between has lost nothing."""
        self._transactions += 1
        for command in commands:
            if isinstance(command, StoreRecord) and isinstance(command.record, StoredCluster):
                self._last_application = command.record.last_application
        os.pwrite(self._mark, b"%020d %020d\n" % (self._transactions, self._last_application), 0)

    @property
    def wants_checkpoint(self) -> bool:
        """Whether the log has grown so much that ``checkpoint`` is due. True once per checkpoint."""
        if self._in_log < CHECKPOINT_RECORDS:
            return False
        self._in_log = 0
        return True

    def checkpoint(self) -> None:
        """Copy SQLite's log into the database file, which waits for the disk. It may be called in any thread:
        ``write`` works meanwhile. Pages that cannot be copied now stay in the log. A log that has become long
        is truncated, since during constant writes that never happens by itself.
        """
        path = f"file:{quote(self.path)}?mode=rw"  # a file removed meanwhile is not created again
        with (
            contextlib.suppress(sqlite3.Error, OSError),
            contextlib.closing(sqlite3.connect(path, uri=True)) as database,
        ):
            database.execute("PRAGMA wal_checkpoint(PASSIVE)")
            if os.stat(f"{self.path}-wal").st_size > LONGEST_LOG:
                # Little is left to copy. A concurrent write waits for it; then the log starts anew.
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the database."""
        with contextlib.suppress(sqlite3.Error):
            self._database.close()
        with contextlib.suppress(OSError):
            os.close(self._mark)


_START_NEWER = "start the newer version, or move the file away to start with no state"


def _newer(path: str, number: object) -> YoppError:
    """The error for a state that a newer version wrote."""
    return YoppError(
        f"cannot read {path}",
        because=f"a newer version of yopp wrote it (format {number}; this version reads {FORMAT})",
        hint=_START_NEWER,
    )


def format_of(database: sqlite3.Connection, path: str) -> int:
    """The version of the table's format. Raises YoppError if a newer version wrote it."""
    (number,) = database.execute("PRAGMA user_version").fetchone()
    if number > FORMAT:
        raise _newer(path, number)
    return int(number)


def transactions_of(database: sqlite3.Connection) -> int:
    """The count of transactions of a database, 0 if an earlier version wrote it."""
    with contextlib.suppress(sqlite3.OperationalError):  # there is no such table
        return int(database.execute("SELECT max(number) FROM mark").fetchone()[0] or 0)
    return 0


def read_records(database: sqlite3.Connection) -> tuple[list[Stored], list[str]]:
    """All records, ordered by kind, and a sentence for each that cannot be read."""
    found: list[Stored] = []
    problems: list[str] = []
    rows = database.execute("SELECT kind, key, document FROM record").fetchall()
    for kind, key, document in sorted(rows, key=lambda row: (_ORDER.get(row[0], len(_ORDER)), row[1])):
        try:
            found.append(_decoder(kind).decode(document))
        except UNREADABLE as error:
            problems.append(f"a record cannot be read: {kind} {key}: {error}")
    return found, problems


def _statement(kind: type[StoreCommand], commands: list[StoreCommand]) -> tuple[str, list[Any]]:
    """One SQL statement for all commands of one kind, and its rows: preparing a statement costs more than
    running it."""
    if kind is RemoveRecords:
        bounds = [
            (one.kind.value, one.key, f"{one.key}/", f"{one.key}0")
            for one in commands
            if isinstance(one, RemoveRecords)
        ]
        return "DELETE FROM record WHERE kind = ?1 AND (key = ?2 OR key >= ?3 AND key < ?4)", bounds
    records = [one.record for one in commands if isinstance(one, StoreRecord)]
    return "INSERT OR REPLACE INTO record VALUES (?, ?, ?)", [
        (KINDS[type(one)].value, key_of(one), encode(one)) for one in records
    ]
