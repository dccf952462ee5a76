"""The RM's state as text: out and in again, of this version and of another, and what is wrong with one."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest

from yarnopp_cli.daemons.state_file import FORMAT, StateFile
from yarnopp_cli.daemons.state_transfer import examine, export, from_text, replace_state, to_text
from yarnopp_cli.errors import ConfigurationError, YoppError
from yarnopp_cli.records.jobs import TaskState
from yarnopp_cli.records.state import (
    StoredCluster,
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


def test_text_is_read_as_it_was_written_and_begins_another_state(tmp_path: Path) -> None:
    records, report = examine(whole(tmp_path / "one"))
    assert not report.problems
    assert (report.format, report.live, report.records["task"]) == (FORMAT, 1, 2)
    text = to_text(records)
    assert json.loads(text.splitlines()[0]) == {"format": FORMAT}
    written(tmp_path / "two").close()
    replace_state(path_in(tmp_path / "two"), from_text(text, "a file"))
    assert sorted(map(repr, read(tmp_path / "two"))) == sorted(map(repr, records))


def test_an_export_is_written_whole_and_replaces_no_device_and_no_link(tmp_path: Path) -> None:
    records, _ = examine(whole(tmp_path / "one"))
    file, link, pipe = tmp_path / "state.jsonl", tmp_path / "link", tmp_path / "pipe"
    export(records, str(file))
    assert file.read_bytes() == to_text(records) and file.stat().st_mode & 0o777 == 0o600
    file.write_bytes(b"earlier")
    link.symlink_to(file)
    export(records, str(link))
    assert link.is_symlink() and file.read_bytes() == to_text(records)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    export(records, str(pipe))
    assert os.read(reader, 1 << 16) == to_text(records) and pipe.is_fifo()
    os.close(reader)
    with pytest.raises(YoppError) as error:
        export(records, str(tmp_path / "missing" / "state.jsonl"))
    assert error.value.message == f"cannot write {tmp_path}/missing/state.jsonl"
    assert error.value.because == "no such file or directory"


def test_a_state_of_an_earlier_version_is_read_with_nothing_missing(tmp_path: Path) -> None:
    earlier = (Path(__file__).parent / "state-2026-11-23.jsonl").read_bytes()
    records = from_text(earlier, "a file")
    StateFile(path_in(tmp_path)).close()
    with sqlite3.connect(path_in(tmp_path)) as database:  # each as that version wrote it
        for record, line in zip(records, map(json.loads, earlier.splitlines()[1:]), strict=True):
            row = (line["kind"], key_of(record), json.dumps(line["record"]).encode())
            database.execute("INSERT INTO record VALUES (?, ?, ?)", row)
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


def test_a_newer_format_is_refused_politely_from_the_file_and_from_text(tmp_path: Path) -> None:
    path = whole(tmp_path)
    text = to_text([StoredCluster(1, "ab")]).replace(b'"format": %d' % FORMAT, b'"format": %d' % (FORMAT + 1))
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {FORMAT + 1}")
    for read_it in (lambda: examine(path), lambda: from_text(text, "a file")):
        with pytest.raises(YoppError) as refused:
            read_it()
        assert f"format {FORMAT + 1}; this version reads {FORMAT}" in refused.value.because


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b'{"format": 1}', b'{"format": 1}\n{"kind": "task"}', b'{"format": 1}\n{"kind": "x", "record": {}}',
     b'{"format": 1}\n{"kind": "node", "record": {"node_id": 7}}',
     b'{"format": 1}\n{"kind": "node", "record": {"node_id": "h:1"}}', b'{"format": 1e999}'],
    ids=["empty", "a list", "no records", "no record", "unknown", "of another type", "of no cluster", "infinite"],
)  # fmt: skip
def test_what_is_no_state_is_refused_before_anything_is_changed(text: bytes) -> None:
    with pytest.raises(ConfigurationError):
        from_text(text, "a file")


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
