"""Reports of a stored state: of this version, of another, beside its RM, and of one with defects."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import msgspec
import pytest

from yarnopp_cli.daemons.state_file import FORMAT, StateFile
from yarnopp_cli.daemons.state_report import examine
from yarnopp_cli.errors import YoppError
from yarnopp_cli.records.jobs import TaskState
from yarnopp_cli.records.state import (
    KINDS,
    StoredNode,
    StoredTask,
    StoredTaskAttempt,
    StoreRecord,
    key_of,
)

from .test_state_file import RECORDS, path_in, read, written


def whole(directory: Path) -> str:
    """A state without records that belong to nobody."""
    file = written(directory)
    for row in (("task", "application_1_00010/0/1"),):
        file._database.execute("DELETE FROM record WHERE kind = ? AND key = ?", row)
    file.close()
    return path_in(directory)


def test_a_state_of_an_earlier_version_is_read_with_nothing_missing(tmp_path: Path) -> None:
    earlier = (Path(__file__).parent / "state-2026-11-23.jsonl").read_bytes()
    types = {kind.value: record for record, kind in KINDS.items()}
    StateFile(path_in(tmp_path)).close()
    with sqlite3.connect(path_in(tmp_path)) as database:  # each as that version wrote it
        for line in map(json.loads, earlier.splitlines()[1:]):
            document = json.dumps(line["record"]).encode()
            key = key_of(msgspec.json.decode(document, type=types[line["kind"]]))
            database.execute("INSERT INTO record VALUES (?, ?, ?)", (line["kind"], key, document))
    assert not examine(path_in(tmp_path))[1].problems
    since = [StoredTaskAttempt, StoredTask("application_1_00010", 0, 1, TaskState.SUCCEEDED)]
    then = [one for one in RECORDS if one not in since and type(one) not in since]
    assert sorted(map(repr, read(tmp_path))) == sorted(map(repr, then)) and len(then) == 8


def test_a_state_is_read_beside_its_rm_and_nothing_is_made_where_there_is_none(tmp_path: Path) -> None:
    file = written(tmp_path)
    before = examine(path_in(tmp_path))[1].records["node"]
    file.write([StoreRecord(StoredNode("h:9"))])
    assert examine(path_in(tmp_path))[1].records["node"] == before + 1
    file.close()
    with pytest.raises(YoppError, match="has no state"):
        examine(path_in(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()


def test_a_newer_format_is_refused_politely(tmp_path: Path) -> None:
    path = whole(tmp_path)
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {FORMAT + 1}")
    with pytest.raises(YoppError) as refused:
        examine(path)
    assert f"format {FORMAT + 1}; this version reads {FORMAT}" in refused.value.because


def test_what_is_wrong_with_a_file_is_listed(tmp_path: Path) -> None:
    path = whole(tmp_path)
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO record VALUES ('node', 'h:3', '{')")
        database.execute("DELETE FROM record WHERE kind = 'application' AND key = 'application_1_0002'")
    first, second = examine(path)[1].problems
    assert first.startswith("a record cannot be read: node h:3")
    assert second == "application_1_0002 has records but no submission"
    Path(path).write_bytes(b"nothing of the kind" * 500)
    with pytest.raises(YoppError, match="cannot be read"):
        examine(path)
