"""Targets: the files of a node, which a crash may cut short, a disk garble, and a container of its user change."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sqlite3
from pathlib import Path

from executor.errors import StateStoreError
from executor.linux.journal import HEADER, Contents, NewerVersionError, line
from executor.linux.slots.journals import read_journal
from executor.linux.store import JOURNAL, StateStore, decode, encode
from executor.records import ContainerRecord
from tests.fuzzing.target import INT64, Target, example, lines, of_document, of_file
from yarnopp_cli.daemons.state_file import read_records
from yarnopp_cli.jobs.taskrecords import FILE_NAME, TaskRecords
from yarnopp_cli.records.state import KINDS, StoredTask

PIDS = range(2**22)
CODES = range(256)

RECORD = (
    b'{"spec":{"container_id":"c1","application_id":"a1","execution_type":"OPPORTUNISTIC","resource":'
    b'{"memory":512,"vcores":1,"others":[]},"command":["sleep","1"]},"state":"RUNNING","pid":7,"process_start":8}'
)


def slot_journal(path: str) -> None:
    found = read_journal(path)
    assert found.launcher in PIDS and found.launcher_start in INT64
    for one in found.begun:
        assert one.pid in PIDS and one.start in INT64 and one.queued_at_ms in INT64
        assert one.code is None or one.code in CODES
        base = one.baseline
        assert base.oom_kills in INT64 and base.peak in INT64
        assert 0 <= base.cpu_seconds < math.inf and 0 <= base.throttled_seconds < math.inf


def record(_: int, text: bytes) -> None:
    try:
        found = decode(text + b'\n{"state":"DONE","exit_code":3}\n')
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return
    again(found)


def again(found: ContainerRecord) -> None:
    """A record that was read can be written, and is then read as it was."""
    text = encode(found)
    assert encode(decode(text)) == text


def journal(data: bytes) -> None:
    try:
        found = Contents(data)
    except NewerVersionError:
        return
    assert found.size + len(found.torn) == len(data)
    if not found.strange:
        assert len(found.lines) == len(found.raw) == data.count(b"\n") - 1


def store(path: str) -> None:
    """The lines of a journal, each with its right checksum unless it begins with ``!``."""
    texts = Path(path).read_bytes().split(b"\n")
    Path(path).write_bytes(
        HEADER + b"".join(one[1:] + b"\n" if one[:1] == b"!" else line(one) for one in texts)
    )
    directory = os.path.dirname(path)
    node = StateStore(directory)
    try:
        known = node.load_all()
        assert StateStore(directory).load_all(tidy=False) == known
        for one in known:
            again(one)
    except StateStoreError:
        pass
    finally:
        node.close()
        for name in os.listdir(directory):
            os.unlink(os.path.join(directory, name))


def task_records(path: str) -> None:
    """The records of a master's tasks, on which its containers may write: what is none is passed over."""
    for one in TaskRecords(os.path.dirname(path), "a1").read():
        assert one.application_id == "a1"


def state(_: int, text: bytes) -> None:
    """The records of an RM's state: one that cannot be read is told, and the others are read."""
    try:
        rows = [
            (str(one["kind"]), str(number), json.dumps(one["record"]))
            for number, one in enumerate(json.loads(text))
        ]
    except (ValueError, RecursionError, TypeError, KeyError):
        return
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE record (kind TEXT, key TEXT, document BLOB)")
        with contextlib.suppress(UnicodeEncodeError):  # lone surrogates
            database.executemany("INSERT INTO record VALUES (?, ?, ?)", rows)
            found, problems = read_records(database)
            assert len(found) + len(problems) == len(rows)


STATE = [{"kind": kind.value, "record": example(record)} for record, kind in KINDS.items()]

TARGETS = {
    "task_records": Target(
        of_file(task_records, FILE_NAME),
        (
            json.dumps({**example(StoredTask), "application_id": "a1", "state": "SUCCEEDED"}).encode()
            + b"\n{",
            json.dumps({**example(StoredTask), "application_id": "a1", "state": "STARTING"}).encode() + b"\n",
            b"[" * 3000 + b"\n",
        ),
        ('"application_id"', "WAITING"),
    ),
    "state": of_document(state, [STATE]),
    "slot_journal": Target(
        of_file(slot_journal, "slot-1.journal"),
        lines(
            "launcher 4711 12345\nbegin 0.5 0.0 0 1024 c1\npid 4712 12346\nend 0\n",
            "launcher 1 2\nbegin 0 0 0 0 c1\nend 137\nnext 1765400000000 0.1 0.2 3 4 c2\npid 3 4\n",
        ),
        ("launcher ", "begin ", "next ", "pid ", "end ", "inf", "nan", "1e9", "1_0"),
    ),
    "record": of_document(record, [example(ContainerRecord)]),
    "journal": Target(
        journal, (HEADER, HEADER + line(RECORD), HEADER + line(b"x") + b"torn", b""), ('"version":', "true")
    ),
    "store": Target(
        of_file(store, JOURNAL),
        (
            b'{"id":"c1","n":0,"record":' + RECORD + b"}",
            b'{"id":"c1","n":0,"record":'
            + RECORD
            + b'}\n{"id":"c1","n":1,"change":{"state":"DONE","exit_code":3}}',
            b'{"id":"c1","n":0,"record":' + RECORD + b'}\n!{"id":"c1"\n{"id":"c1","n":2,"forgotten":true}',
        ),
        ('"id":', '"n":', '"record":', '"change":', '"forgotten":', '"spec":', "null", "1e9", "NaN"),
    ),
}
