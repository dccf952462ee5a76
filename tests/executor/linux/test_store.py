"""Records on disk: what is written comes back, what is garbled is set aside."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from executor.errors import StateStoreError
from executor.linux.store import MOST_CHANGES, StateStore, decode, encode
from executor.records import ContainerRecord, ContainerSpec, ContainerState, ExecutionType, Resource

text = st.text(st.characters(min_codepoint=1, max_codepoint=0xFFFF), max_size=20)
records = st.builds(
    ContainerRecord,
    spec=st.builds(
        ContainerSpec,
        container_id=st.just("c1"),
        command=st.lists(text, max_size=4).map(tuple),
        resource=st.builds(Resource, st.integers(0, 1 << 40), st.integers(0, 99)),
        execution_type=st.sampled_from(ExecutionType),
        environment=st.dictionaries(text, text, max_size=3),
        working_directory=st.none() | text,
        files=st.dictionaries(text, text, max_size=2),
    ),
    state=st.sampled_from(ContainerState),
    pid=st.integers(0, 1 << 22),
    exit_status=st.integers(-1000, 255),
    diagnostics=text,
)


def a_record(container_id: str = "c1", sequence: int = 0) -> ContainerRecord:
    spec = ContainerSpec(container_id, ("echo", os.fsdecode(b"\xff")), Resource(1, 1))
    return ContainerRecord(spec, ContainerState.RUNNING, pid=7, process_start=8, sequence=sequence)


@given(records)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_record_comes_back_as_it_was(record: ContainerRecord) -> None:
    assert decode(encode(record)) == record


def test_store_load_forget(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state")
    store.store(a_record("b", sequence=1))
    store.store(a_record("a", sequence=2))
    store.store(a_record("a", sequence=3))
    assert [record.spec.container_id for record in StateStore(tmp_path / "state").load_all()] == ["b", "a"]
    store.forget("b")
    store.forget("b")
    assert store.load_all() == [a_record("a", sequence=3)]
    assert os.stat(store.path("a")).st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path / "state") == ["a.json"]


def test_fields_of_another_version(tmp_path: Path) -> None:
    values = json.loads(encode(a_record()))
    values["of_the_future"] = values["spec"]["too"] = [1]
    del values["diagnostics"], values["spec"]["files"]
    assert decode(json.dumps(values).encode()) == a_record()


@pytest.mark.parametrize(
    "garbled",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b"{}",
        encode(a_record())[:-40],
        encode(a_record("other")),
        encode(a_record()).replace(b'"RUNNING"', b'"WALKING"'),
        encode(a_record()).replace(b'"pid":7', b'"pid":"7"'),
        encode(a_record()).replace(b'"pid":7', b'"pid":true'),
        encode(a_record()).replace(b'"memory":1', b'"memory":null'),
        encode(a_record()).replace(b'["echo"', b'[["echo"]'),
    ],
)
def test_a_garbled_record_is_set_aside_and_told(tmp_path: Path, garbled: bytes) -> None:
    store = StateStore(tmp_path)
    store.store(a_record("good"))
    Path(store.path("c1")).write_bytes(garbled)
    assert store.load_all() == [a_record("good")]
    assert len(store.complaints) == 1 and "c1.json" in store.complaints[0]
    assert (tmp_path / "c1.garbled").read_bytes() == garbled
    assert StateStore(tmp_path).load_all() == [a_record("good")]


def test_a_write_that_was_cut_short_is_passed_over(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    store.store(a_record())
    Path(store.path("c1") + ".new").write_bytes(b"{half")
    assert store.load_all() == [a_record()]
    assert os.listdir(tmp_path) == ["c1.json"]


def test_what_changed_is_added_and_a_line_that_was_cut_short_is_passed_over(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    record = a_record()
    store.store(record)
    inode = os.stat(store.path("c1")).st_ino
    done = replace(record, state=ContainerState.DONE, exit_code=3, diagnostics="Exit code 3")
    store.store(done)
    assert os.stat(store.path("c1")).st_ino == inode, "it was written anew"
    assert store.load_all() == [done]
    with open(store.path("c1"), "ab") as file:
        file.write(b'{"exit_code":4')
    assert StateStore(tmp_path).load_all() == [done]


def test_a_record_goes_on_after_a_write_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = StateStore(tmp_path)
    record = a_record()
    store.store(record)
    real = os.write

    def half(fd: int, text: bytes) -> int:
        real(fd, text[: len(text) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("executor.linux.store.os.write", half)
    with pytest.raises(StateStoreError):
        store.store(replace(record, pid=8))
    monkeypatch.setattr("executor.linux.store.os.write", real)
    assert StateStore(tmp_path).load_all() == [record]
    store.store(replace(record, pid=9))
    assert StateStore(tmp_path).load_all() == [replace(record, pid=9)]


def test_a_file_that_was_taken_away_and_one_of_very_many_changes(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    record = a_record()
    store.store(record)
    os.unlink(store.path("c1"))
    store.store(replace(record, pid=8))
    assert store.load_all() == [replace(record, pid=8)]
    for pid in range(1000, 1000 + 2 * MOST_CHANGES):
        record = replace(record, pid=pid)
        store.store(record)
    assert store.load_all() == [record]
    assert Path(store.path("c1")).read_bytes().count(b"\n") <= MOST_CHANGES + 1


def test_who_only_looks_changes_nothing(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    store.store(a_record("good"))
    (tmp_path / "bad.json").write_bytes(b"{")
    (tmp_path / "late.json.new").write_bytes(b"{half")
    before = sorted(os.listdir(tmp_path))
    assert StateStore(tmp_path).load_all(tidy=False) == [a_record("good")]
    assert sorted(os.listdir(tmp_path)) == before


def test_what_cannot_be_written_raises(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateStoreError):
        StateStore(tmp_path / "file" / "state")
    store = StateStore(tmp_path / "state")
    os.mkdir(store.path("c1"))
    with pytest.raises(StateStoreError) as error:
        store.store(a_record())
    assert "c1.json" in str(error.value)
