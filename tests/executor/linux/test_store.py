"""Records on disk: what is written comes back whatever happens meanwhile, what is garbled is set aside."""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from executor.causes import Cause, CauseKind
from executor.errors import StateStoreError
from executor.light import replace
from executor.linux import journal, store
from executor.linux.journal import HEADER
from executor.linux.store import StateStore, decode, encode
from executor.records import ContainerRecord, ContainerSpec, ContainerState, ExecutionType, Resource

# Bytes that are not UTF-8 are the low surrogates; a high one before a low one is another character in JSON.
letters = st.characters(min_codepoint=1, max_codepoint=0xFFFF).filter(
    lambda one: not "\ud800" <= one < "\udc00"
)
text = st.text(letters, max_size=20)
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
    cause=st.none() | st.builds(Cause, st.sampled_from(CauseKind), text=text),
    passing_diagnostics=st.lists(text, max_size=2).map(tuple),
)


def a_record(container_id: str = "c1", sequence: int = 0) -> ContainerRecord:
    spec = ContainerSpec(container_id, ("echo", os.fsdecode(b"\xff")), Resource(1, 1))
    return ContainerRecord(spec, ContainerState.RUNNING, pid=7, process_start=8, sequence=sequence)


def found(directory: Path) -> list[ContainerRecord]:
    """What somebody who only looks reads."""
    return StateStore(directory).load_all(tidy=False)


@pytest.fixture
def a_store(tmp_path: Path) -> Iterator[StateStore]:
    made = StateStore(tmp_path)
    yield made
    made.close()


@given(records)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_record_comes_back_as_it_was(record: ContainerRecord) -> None:
    assert decode(encode(record)) == record


@given(st.lists(records, min_size=1, max_size=5), st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_changes_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, history: list[ContainerRecord], same: bool
) -> None:
    directory = tmp_path_factory.mktemp("state")
    kept = StateStore(directory)
    for record in history:
        last = replace(record, spec=history[0].spec) if same else record
        kept.store(last)
    assert found(directory) == [last]
    kept.close()


def test_store_load_forget(tmp_path: Path) -> None:
    kept = StateStore(tmp_path / "state")
    kept.store(a_record("b", sequence=1))
    kept.store(a_record("a", sequence=2))
    kept.store(a_record("a", sequence=3))
    assert [record.spec.container_id for record in found(tmp_path / "state")] == ["b", "a"]
    kept.forget("b")
    kept.forget("b")
    assert kept.load_all() == found(tmp_path / "state") == [a_record("a", sequence=3)]
    assert os.listdir(tmp_path / "state") == ["journal"]
    assert os.stat(tmp_path / "state" / "journal").st_mode & 0o777 == 0o600
    kept.close()
    kept.remove()
    assert found(tmp_path / "state") == [a_record("a", sequence=3)], "what has records stays"
    kept.forget("a")
    kept.close()
    kept.remove()
    assert os.listdir(tmp_path / "state") == []


def test_only_what_changed_is_written(tmp_path: Path, a_store: StateStore) -> None:
    record = a_record()
    a_store.store(record)
    size = os.stat(tmp_path / "journal").st_size
    inode = os.stat(tmp_path / "journal").st_ino
    done = replace(record, state=ContainerState.DONE, exit_code=3, diagnostics="Exit code 3")
    a_store.store(done)
    added = (tmp_path / "journal").read_bytes()[size:]
    assert json.loads(added[9:]) == {
        "id": "c1", "n": 1, "change": {"state": "DONE", "exit_code": 3, "diagnostics": "Exit code 3"},
    }  # fmt: skip
    assert os.stat(tmp_path / "journal").st_ino == inode, "it was written anew"
    promoted = replace(done, spec=replace(done.spec, execution_type=ExecutionType.OPPORTUNISTIC))
    a_store.store(promoted)
    assert found(tmp_path) == [promoted]


def test_fields_of_another_version(tmp_path: Path) -> None:
    values = json.loads(encode(a_record()))
    values["of_the_future"] = values["spec"]["too"] = [1]
    del values["diagnostics"], values["spec"]["files"]
    assert decode(json.dumps(values).encode()) == a_record()


# -- what cannot be read -------------------------------------------------------------------------------


def lines_of(directory: Path) -> list[bytes]:
    return (directory / "journal").read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("which", [2, 3, 4])
@pytest.mark.parametrize("place", [0, 8, 9, 12, 40, -3])
def test_a_garbled_line_loses_its_record_and_no_other(tmp_path: Path, which: int, place: int) -> None:
    kept = StateStore(tmp_path)
    record = a_record("c1", sequence=2)
    kept.store(a_record("before", sequence=1))
    kept.store(record)
    kept.store(replace(record, pid=9))
    kept.store(replace(record, pid=10))
    kept.store(a_record("after", sequence=3))
    kept.close()
    lines = lines_of(tmp_path)
    garbled = bytearray(lines[which])
    garbled[place] ^= 1
    lines[which] = bytes(garbled)
    (tmp_path / "journal").write_bytes(b"".join(lines))
    again = StateStore(tmp_path)
    loaded = again.load_all()
    assert a_record("before", sequence=1) in loaded and a_record("after", sequence=3) in loaded
    assert 1 <= len(again.complaints) <= 2, again.complaints
    assert lines[which].rstrip(b"\n") in (tmp_path / "journal.garbled").read_bytes()
    if len(loaded) > 2:
        # The last line of it, of which not even the name can be read: it is as old as the one before.
        assert which == 4 and place == 12 and loaded[1].pid == 9
    assert found(tmp_path) == loaded, "it is written anew without what is garbled"
    assert "journal.garbled" in "".join(again.complaints)
    again.close()


def test_a_line_that_is_missing_is_noticed(tmp_path: Path, a_store: StateStore) -> None:
    a_store.store(a_record("good", sequence=2))
    record = a_record()
    for pid in range(1, 5):
        a_store.store(replace(record, pid=pid))
    a_store.close()
    lines = lines_of(tmp_path)
    (tmp_path / "journal").write_bytes(b"".join(lines[:3] + lines[4:]))
    assert a_store.load_all() == [a_record("good", sequence=2)]
    assert len(a_store.complaints) == 1 and "c1" in a_store.complaints[0]


def test_a_whole_record_mends_what_was_garbled_before_it(tmp_path: Path, a_store: StateStore) -> None:
    a_store.store(a_record())
    a_store.store(replace(a_record(), spec=replace(a_record().spec, priority=3)))
    a_store.close()
    lines = lines_of(tmp_path)
    (tmp_path / "journal").write_bytes(lines[0] + b"00000000" + lines[1][8:] + lines[2])
    assert [record.spec.priority for record in a_store.load_all()] == [3]


@pytest.mark.parametrize(
    "said",
    [
        b"[]",
        b"null",
        b'"text"',
        b'{"id":1,"n":0,"record":{}}',
        b'{"id":"c1","n":"0","record":{}}',
        b'{"id":"c1","n":0,"record":{}}',
        b'{"id":"c1","n":0,"record":[]}',
        b'{"id":"c1","n":0,"record":null}',
        b'{"id":"c1","n":0,"change":{}}',
        b'{"id":"c1","n":0,"change":7}',
        b'{"id":"c1","n":0}',
        b'{"id":"c1","n":0,"record":' + encode(a_record("other")) + b"}",
        b'{"id":"c1","n":0,"record":' + encode(a_record()).replace(b'"RUNNING"', b'"WALKING"') + b"}",
        b'{"id":"c1","n":0,"record":' + encode(a_record()).replace(b'"pid":7', b'"pid":"7"') + b"}",
        b'{"id":"c1","n":0,"record":' + encode(a_record()).replace(b'"pid":7', b'"pid":true') + b"}",
        b'{"id":"c1","n":0,"record":' + encode(a_record()).replace(b'"memory":1', b'"memory":null') + b"}",
        b'{"id":"c1","n":0,"record":' + encode(a_record()).replace(b'["echo"', b'[["echo"]') + b"}",
    ],
)
def test_lines_that_make_no_record(tmp_path: Path, a_store: StateStore, said: bytes) -> None:
    a_store.store(a_record("good"))
    a_store.close()
    with (tmp_path / "journal").open("ab") as file:
        file.write(journal.line(said))
    assert a_store.load_all() == [a_record("good")]
    assert len(a_store.complaints) == 1
    assert said in (tmp_path / "journal.garbled").read_bytes()
    assert found(tmp_path) == [a_record("good")]


def test_what_cannot_be_set_aside_stays_where_it_is(
    tmp_path: Path, a_store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no room for it: neither the node nor the evidence ends by that."""
    monkeypatch.setattr(store, "MOST_PAST", 3)
    a_store.store(a_record("good"))
    a_store.close()
    with (tmp_path / "journal").open("ab") as file:
        file.write(b"what is this\n")
    (tmp_path / "journal.garbled").mkdir()
    for number in range(9):  # also where it would be written anew
        a_store.store(a_record("good", sequence=number))
        assert b"what is this\n" in (tmp_path / "journal").read_bytes()
        assert found(tmp_path) == [a_record("good", sequence=number)]
    (tmp_path / "journal.garbled").rmdir()
    for number in range(9, 20):
        a_store.store(a_record("good", sequence=number))
    assert (tmp_path / "journal.garbled").read_bytes() == b"what is this\n"
    assert b"what is this\n" not in (tmp_path / "journal").read_bytes()
    assert found(tmp_path) == [a_record("good", sequence=19)]


def test_nothing_but_what_cannot_be_set_aside(tmp_path: Path, a_store: StateStore) -> None:
    (tmp_path / "journal").write_bytes(HEADER + b"what is this\n")
    (tmp_path / "journal.garbled").mkdir()
    assert a_store.load_all() == []
    assert (tmp_path / "journal").read_bytes() == HEADER + b"what is this\n"


NESTED = b"[" * 100_000
"""Deeper than Python's parser of JSON goes."""


@pytest.mark.parametrize(
    "whole",
    [
        b"",
        b"\0" * 100,
        b"{}\n",
        b"[]\n",
        b"\xff\n\n",
        HEADER[:-1],
        HEADER[5:],
        pytest.param(NESTED + b"\n", id="nested"),
    ],
)
def test_a_file_that_is_no_journal(tmp_path: Path, a_store: StateStore, whole: bytes) -> None:
    """The machine ended before its pages were written, for instance."""
    (tmp_path / "journal").write_bytes(whole)
    assert a_store.load_all() == []
    assert len(a_store.complaints) == 1
    assert (tmp_path / "journal.garbled").read_bytes().rstrip(b"\n") == whole.rstrip(b"\n")
    a_store.store(a_record())
    assert found(tmp_path) == [a_record()]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["fifo", "directory"])
def test_what_is_no_regular_file_is_set_aside(
    tmp_path: Path, a_store: StateStore, make: Callable[[Path], None]
) -> None:
    """A FIFO would block the node before it can say anything."""
    for name in ("journal", "journal.new", "c9.json"):
        if name != "journal.new" or make is os.mkfifo:
            make(tmp_path / name)
    assert a_store.load_all() == []
    assert len(a_store.complaints) == 2
    a_store.store(a_record())
    assert found(tmp_path) == [a_record()]


def test_a_newer_version_is_refused_in_three_lines_and_nothing_is_changed(
    tmp_path: Path, a_store: StateStore
) -> None:
    whole = b'{"format":"yopp-journal","version":7,"more":1}\nwhatever\n'
    (tmp_path / "journal").write_bytes(whole)
    for act in (a_store.load_all, lambda: a_store.store(a_record()), lambda: a_store.forget("c1")):
        with pytest.raises(StateStoreError, match="newer version") as error:
            act()
        assert len(str(error.value).splitlines()) == 3
    assert (tmp_path / "journal").read_bytes() == whole and os.listdir(tmp_path) == ["journal"]


def test_true_is_no_version() -> None:
    assert journal.Contents(b'{"format":"yopp-journal","version":true}\n').strange


def test_the_lock_of_a_killed_node_goes_a_moment_after_it(tmp_path: Path, a_store: StateStore) -> None:
    """What it was about to start has its descriptors until it executes something."""
    held = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(held, fcntl.LOCK_EX)
    tried = threading.Event()
    flock = fcntl.flock

    def let_go() -> None:
        tried.wait(20)
        os.close(held)

    def watched(fd: int, operation: int) -> None:
        try:
            flock(fd, operation)
        except BlockingIOError:
            tried.set()
            raise

    other = threading.Thread(target=let_go)
    other.start()
    with mock.patch("executor.linux.journal.fcntl.flock", watched):
        assert a_store.load_all() == []
    other.join()
    assert tried.is_set()


def test_who_only_looks_changes_nothing(tmp_path: Path, a_store: StateStore) -> None:
    a_store.store(a_record("good"))
    with (tmp_path / "journal").open("ab") as file:
        file.write(b"garbled\n{half")
    (tmp_path / "journal.new").write_bytes(b"{half")
    (tmp_path / "bad.json").write_bytes(b"{")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert found(tmp_path) == [a_record("good")]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


# -- one writer ----------------------------------------------------------------------------------------


def test_two_nodes_never_share_a_journal(tmp_path: Path, a_store: StateStore) -> None:
    a_store.store(a_record())
    second = StateStore(tmp_path)
    for act in (second.load_all, lambda: second.store(a_record("c2")), lambda: second.forget("c1")):
        with pytest.raises(StateStoreError, match="another process") as error:
            act()
        assert len(str(error.value).splitlines()) == 3
    assert second.load_all(tidy=False) == [a_record()]
    a_store.close()
    second.store(a_record("c2", sequence=1))
    assert found(tmp_path) == [a_record(), a_record("c2", sequence=1)], "it took over what was there"
    second.close()


# -- an earlier version's files ------------------------------------------------------------------------


def old_file(directory: Path, record: ContainerRecord, *changes: bytes) -> Path:
    path = directory / f"{record.spec.container_id}.json"
    path.write_bytes(encode(record) + b"\n" + b"".join(changes))
    return path


def test_an_earlier_versions_files_become_a_journal(tmp_path: Path, a_store: StateStore) -> None:
    old_file(tmp_path, a_record("b", sequence=1), b'{"pid":9}\n', b'{"pid":10')
    old_file(tmp_path, a_record("a", sequence=2))
    (tmp_path / "c.json.new").write_bytes(b"{half")
    (tmp_path / "bad.json").write_bytes(b"{")
    (tmp_path / "a.exit1").write_bytes(b"1")
    upgraded = [replace(a_record("b", sequence=1), pid=9), a_record("a", sequence=2)]
    assert found(tmp_path) == upgraded
    assert a_store.load_all() == upgraded
    assert sorted(os.listdir(tmp_path)) == ["a.exit1", "bad.garbled", "journal"]
    assert len(a_store.complaints) == 1 and "bad.json" in a_store.complaints[0]
    a_store.store(replace(upgraded[1], pid=11))
    a_store.forget("b")
    assert found(tmp_path) == [replace(upgraded[1], pid=11)]


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
        pytest.param(NESTED, id="nested"),
    ],
)
def test_an_earlier_versions_garbled_file_is_set_aside(
    tmp_path: Path, a_store: StateStore, garbled: bytes
) -> None:
    old_file(tmp_path, a_record("good"))
    (tmp_path / "c1.json").write_bytes(garbled)
    assert a_store.load_all() == [a_record("good")]
    assert len(a_store.complaints) == 1 and "c1.json" in a_store.complaints[0]
    assert (tmp_path / "c1.garbled").read_bytes() == garbled


# -- crashes and full disks ----------------------------------------------------------------------------


class Died(BaseException):
    """The process was killed; no handler of it runs any more."""


class Disk:
    """What the journal sees of the operating system; it fails or dies at a call of one's choice.

    ``error`` is asked at each call that changes something, and gives the number of its error, or 0 to do it. At the
    call number ``dies_at`` the process dies, ``after`` it or before. A write gets as far as ``part`` of its bytes.
    """

    def __init__(
        self, error: Callable[[str], int], part: float = 0.5, dies_at: int = 0, after: bool = False
    ) -> None:
        self.error, self.part, self.dies_at, self.after = error, part, dies_at, after
        self.dead, self.calls = False, 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return (
            self._failing(name, real) if name in {"open", "write", "rename", "unlink", "ftruncate"} else real
        )

    def _failing(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if self.dead:
                raise Died
            self.calls += 1
            self.dead = self.calls == self.dies_at
            error = 0 if self.dead else self.error(name)
            if not (self.dead or error) or (self.dead and self.after):
                done = real(*arguments)
                if not self.dead:
                    return done
            elif name == "write":
                fd, data = arguments
                real(fd, data[: int(len(data) * self.part)])
            if error:
                raise OSError(error, os.strerror(error))
            raise Died

        return call

    def use(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(journal, "os", self)
        patch.setattr(store, "os", self)


def act(kept: StateStore, number: int, model: dict[str, ContainerRecord]) -> None:
    """One of the things that happen to five containers in turn; ``model`` is what is then on record."""
    name = f"c{number % 5}"
    if number % 7 == 6:
        after = {key: value for key, value in model.items() if key != name}
        try:
            kept.forget(name)
        finally:
            model.clear()
            model.update(after)
        return
    record = replace(model.get(name) or a_record(name, sequence=number % 5), pid=number)
    if number % 11 == 3:
        record = replace(record, spec=replace(record.spec, priority=number))
    kept.store(record)
    model[name] = record


def in_order(model: dict[str, ContainerRecord]) -> list[ContainerRecord]:
    return sorted(model.values(), key=lambda record: record.sequence)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("part", [0.0, 0.3, 0.99])
def test_killed_at_each_call_everything_is_as_before_or_as_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool, part: float
) -> None:
    monkeypatch.setattr(store, "MOST_PAST", 6)  # so that it is written anew all the time
    for death in itertools.count(1):
        directory = tmp_path / str(death)
        directory.mkdir()
        old_file(directory, a_record("c0"))
        old_file(directory, a_record("c4", sequence=4))
        before = {"c0": a_record("c0"), "c4": a_record("c4", sequence=4)}
        model = dict(before)
        with monkeypatch.context() as patch:
            disk = Disk(lambda _: 0, part, death, after)
            disk.use(patch)
            kept = StateStore(directory)
            try:
                for number in range(60):
                    before = dict(model)
                    act(kept, number, model)
            except Died:
                pass
        if not disk.dead:
            assert death > 60
            break
        possible = [in_order(before), in_order(model)]
        if len(before) == len(model):  # a store that was under way when it died
            attempted = dict(before)
            with monkeypatch.context() as patch:
                patch.setattr(StateStore, "store", lambda self, record: None)
                act(kept, number, attempted)
            possible.append(in_order(attempted))
        assert found(directory) in possible, f"call {death}"
        kept.close()
        again = StateStore(directory)
        assert again.load_all() in possible
        assert all("is incomplete" in complaint for complaint in again.complaints)
        again.store(a_record("new", sequence=99))
        assert found(directory)[-1] == a_record("new", sequence=99)
        assert not [name for name in os.listdir(directory) if name != "journal"]
        again.close()


@given(st.lists(st.booleans(), min_size=50, max_size=50), st.floats(0, 0.99), st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_disk_that_is_full_now_and_then(
    tmp_path_factory: pytest.TempPathFactory, times: list[bool], part: float, mean: bool
) -> None:
    """What was refused is not there, what was accepted is, and it goes on when there is room again; on a ``mean`` disk
    even truncating fails."""
    directory = tmp_path_factory.mktemp("full")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "MOST_PAST", 6)
        full = [False]

        def error(call: str) -> int:
            failing = full[0] and (call in ("open", "write", "rename") or (mean and call == "ftruncate"))
            return errno.ENOSPC if failing else 0

        Disk(error, part).use(patch)
        kept = StateStore(directory)
        model: dict[str, ContainerRecord] = {}
        owed: set[str] = set()
        for number, full[0] in enumerate(times):
            before = dict(model)
            try:
                act(kept, number, model)
            except StateStoreError as refused:
                assert full[0] and "no space left" in str(refused)
                owed |= before.keys() - model.keys()
            else:
                owed = set() if model != before else owed
            there = {record.spec.container_id: record for record in found(directory)}
            assert {name: record for name, record in there.items() if name not in owed} == model
        full[0] = False
        kept.store(a_record("last", sequence=99))
        assert found(directory) == [*in_order(model), a_record("last", sequence=99)]
        kept.close()


def test_a_node_starts_and_goes_on_although_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, a_store: StateStore
) -> None:
    a_store.store(a_record())
    a_store.store(replace(a_record(), pid=9))
    a_store.close()
    with (tmp_path / "journal").open("ab") as file:
        file.write(b"{half")
    with monkeypatch.context() as patch:
        Disk(lambda call: errno.ENOSPC if call == "write" else 0).use(patch)
        assert a_store.load_all() == [replace(a_record(), pid=9)]
        with pytest.raises(StateStoreError):
            a_store.store(replace(a_record(), pid=10))
        assert found(tmp_path) == [replace(a_record(), pid=9)]
    a_store.store(replace(a_record(), pid=11))
    assert found(tmp_path) == [replace(a_record(), pid=11)]


def test_a_file_or_a_directory_that_was_taken_away(tmp_path: Path) -> None:
    kept = StateStore(tmp_path / "state")
    kept.store(a_record("a"))
    os.unlink(tmp_path / "state" / "journal")
    kept.store(a_record("b", sequence=1))
    assert found(tmp_path / "state") == [a_record("a"), a_record("b", sequence=1)]
    os.unlink(tmp_path / "state" / "journal")
    os.rmdir(tmp_path / "state")
    kept.forget("a")
    assert found(tmp_path / "state") == [a_record("b", sequence=1)]
    kept.close()


def test_most_of_the_file_is_never_of_the_past(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, a_store: StateStore
) -> None:
    monkeypatch.setattr(store, "MOST_PAST", 20)
    for name in ("stays", "also"):
        a_store.store(a_record(name))
    longest = 0
    for number in range(500):
        a_store.store(a_record(f"c{number}", sequence=number))
        a_store.store(replace(a_record(f"c{number}", sequence=number), pid=number))
        a_store.forget(f"c{number}")
        longest = max(longest, len(lines_of(tmp_path)))
    assert longest <= 1 + 20 + 5 * 4
    assert {record.spec.container_id for record in found(tmp_path)} == {"stays", "also"}


WRITER = """
import sys
import threading
from executor.linux import store
from executor.records import ContainerRecord, ContainerSpec, ContainerState, Resource
store.MOST_PAST = 10
kept = store.StateStore(sys.argv[1])
base = max([record.pid for record in kept.load_all()], default=0)
for number in range(base + 1, base + 100_000):
    spec = ContainerSpec(f"c{number % 7}", ("x" * 2000,), Resource(1, 1))
    kept.store(ContainerRecord(spec, ContainerState.RUNNING, pid=number))
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


def test_a_process_killed_while_it_writes_anew_all_the_time(tmp_path: Path) -> None:
    for round_ in range(12):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        for _ in range(30 + 7 * round_):
            said = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        said = max([said, *(int(word) for word in writer.stdout.read().split("\n")[:-1] if word)])
        writer.wait()
        writer.stdout.close()
        pids = [record.pid for record in found(tmp_path)]
        # Everything that was told to be written is there; one more may have been written and not told.
        assert max(pids) in (said, said + 1), round_
        assert len(pids) == 7 and max(pids) - min(pids) == 6


def test_what_cannot_be_written_raises(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateStoreError):
        StateStore(tmp_path / "file" / "state")
    kept = StateStore(tmp_path / "state")
    os.mkdir(tmp_path / "state" / "journal.new")
    with pytest.raises(StateStoreError) as error:
        kept.store(a_record())
    assert "journal" in str(error.value)
    kept.close()
