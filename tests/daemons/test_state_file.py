"""The file of the RM's state: what is written is read, by this version and others, and what is none is set aside."""

from __future__ import annotations

import enum
import hashlib
import os
import random
import shutil
import sqlite3
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from inspect import get_annotations
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from executor.light import Record, replace
from executor.records import ExecutionType, Resource
from yarnopp_cli.daemons import state_file
from yarnopp_cli.daemons.state_file import CHECKPOINT_RECORDS, FORMAT, GARBLED, StateFile
from yarnopp_cli.daemons.state_report import examine
from yarnopp_cli.errors import YoppError
from yarnopp_cli.masters.commands import plan_run
from yarnopp_cli.records.history import TaskAttempt
from yarnopp_cli.records.job_protocol import JobEnd, StopJobRequest
from yarnopp_cli.records.jobs import TaskSpec, TaskState
from yarnopp_cli.records.reports import FinalApplicationStatus, JobSummary, YarnApplicationState
from yarnopp_cli.records.requests import ApplicationSubmissionContext
from yarnopp_cli.records.state import (
    KINDS,
    Kind,
    RemoveRecords,
    StoreCommand,
    Stored,
    StoredApplication,
    StoredCluster,
    StoredLife,
    StoredNode,
    StoredTask,
    StoredTaskAttempt,
    StoreRecord,
    latest,
)

JOB = plan_run(("echo", "ä"), TaskSpec(1, Resource(100, 1)), 3, environment={"A": "b"})
END = JobEnd(3, FinalApplicationStatus.FAILED, "why", JobSummary(total=3, failed=1))
RECORDS: list[Stored] = [
    StoredCluster(1, "ab", "boot", 2, 10_000),
    StoredApplication("application_1_0001", ApplicationSubmissionContext("", "night"), "ada", 5, JOB, True),
    StoredApplication("application_1_0002", ApplicationSubmissionContext("", "other"), "bo", 6),
    StoredLife("application_1_0001", stop=StopJobRequest("application_1_0001", "enough", 143)),
    StoredLife("application_1_0002", state=YarnApplicationState.FINISHED, end=END),
    StoredTask(
        "application_1_0001", 0, 1, TaskState.STARTING, "container_1", "h:1", ExecutionType.OPPORTUNISTIC
    ),
    StoredTask("application_1_0001", 0, 10, TaskState.FAILED, exit_code=3),
    StoredTask("application_1_00010", 0, 1, TaskState.SUCCEEDED),
    StoredTaskAttempt(
        "application_1_0001",
        TaskAttempt(
            2, True, 1, "container_1", "h:1", ExecutionType.GUARANTEED, Resource(100, 1), exit_code=3
        ),
    ),
    StoredNode("h:1"),
]


def path_in(directory: Path) -> str:
    return str(directory / "rm" / "state.db")


def written(directory: Path) -> StateFile:
    file = StateFile(path_in(directory))
    assert file.write([StoreRecord(record) for record in RECORDS])
    return file


def read(directory: Path) -> list[Stored]:
    file = StateFile(path_in(directory))
    found = file.load()
    file.close()
    return found


def test_each_kind_of_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert {type(record) for record in RECORDS} == set(KINDS)
    written(tmp_path).close()
    found = read(tmp_path)
    assert sorted(map(repr, found)) == sorted(map(repr, RECORDS))
    assert [KINDS[type(one)] for one in found] == sorted(
        [KINDS[type(one)] for one in RECORDS], key=list(Kind).index
    )


def test_what_was_not_closed_is_there(tmp_path: Path) -> None:
    written(tmp_path)
    assert len(read(tmp_path)) == len(RECORDS)


def test_a_record_replaces_the_earlier_one_and_removal_takes_what_is_below(tmp_path: Path) -> None:
    file = written(tmp_path)
    file.write([StoreRecord(StoredLife("application_1_0001", attempts=2))])
    file.write([RemoveRecords(Kind.TASK, "application_1_0001")])
    file.close()
    found = read(tmp_path)
    assert [one.attempts for one in found if isinstance(one, StoredLife)] == [2, 1]
    assert [one.application_id for one in found if isinstance(one, StoredTask)] == ["application_1_00010"]


def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        written(tmp_path)
    finally:
        os.umask(old)
    for path in (tmp_path / "rm").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE((tmp_path / "rm").stat().st_mode) == 0o700


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_a_link_in_its_place_is_not_followed_and_set_aside(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "rm").mkdir()
    (tmp_path / "theirs").write_bytes(b"")
    (tmp_path / "rm" / f"state.db{suffix}").symlink_to(tmp_path / "theirs")
    assert len(written(tmp_path).load()) == len(RECORDS)
    assert (tmp_path / "theirs").read_bytes() == b""
    (aside,) = (tmp_path / "rm").glob(f"state.db{suffix}.aside-*")
    assert aside.is_symlink()


def test_a_newer_versions_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    written(tmp_path).close()
    with sqlite3.connect(path_in(tmp_path)) as database:
        database.execute(f"PRAGMA user_version = {FORMAT + 1}")
    before = Path(path_in(tmp_path)).read_bytes()
    with pytest.raises(YoppError, match="a newer version of yopp wrote it") as refusal:
        StateFile(path_in(tmp_path))
    assert "start the newer version" in refusal.value.hint
    assert Path(path_in(tmp_path)).read_bytes() == before


SHAPES = (7, "e9e5ac514da978ba")
"""The last format, and a digest of the fields of its records. If a record has changed, raise ``FORMAT`` and replace
both: never the digest alone, since an earlier version would read the file and drop the field."""


def test_a_change_of_a_record_raises_the_format() -> None:
    lines, kinds, seen = list[str](), list[Any](KINDS), set[Any]()
    while kinds:
        kind = kinds.pop()
        if kind in seen:
            continue
        seen.add(kind)
        kinds += get_args(kind)
        if isinstance(kind, enum.EnumMeta):
            lines += [f"{kind.__name__} = {one.value}" for one in kind]
        elif isinstance(kind, type) and issubclass(kind, Record):
            kinds += (*kind.__bases__, *get_type_hints(kind).values())
            lines += [f"{kind.__name__}.{name}: {note}" for name, note in get_annotations(kind).items()]
    assert any(line.startswith("JobSpec.") for line in lines) and "TaskState = SUCCEEDED" in lines
    digest = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]
    assert (FORMAT, digest) == SHAPES, "a stored record has changed: see SHAPES"


def test_fields_of_other_versions_do_no_harm(tmp_path: Path) -> None:
    written(tmp_path).close()
    with sqlite3.connect(path_in(tmp_path)) as database:
        later = b'{"id":"application_1_0003","attempts":4,"invented_later":[1]}'
        database.execute("INSERT INTO record VALUES ('life', 'application_1_0003', ?)", (later,))
        database.execute("INSERT INTO record VALUES ('invented', 'x', ?)", (b"{}",))
        database.execute("INSERT INTO record VALUES ('task', 'y', ?)", (b'{"state":',))
    found = read(tmp_path)
    assert len(found) == len(RECORDS) + 1 and StoredLife("application_1_0003", attempts=4) in found


@pytest.mark.parametrize("content", [b"what is this?" * 1000, b"SQLite format 3\0" + b"\7" * 8000])
def test_what_is_no_state_is_set_aside(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rm").mkdir()
    Path(path_in(tmp_path)).write_bytes(content)
    file = written(tmp_path)
    assert len(file.load()) == len(RECORDS)
    assert Path(path_in(tmp_path) + GARBLED).read_bytes() == content


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_set_aside_and_never_waited_for(
    tmp_path: Path, make: Callable[[str], None]
) -> None:
    (tmp_path / "rm").mkdir()
    make(path_in(tmp_path))
    with pytest.raises(YoppError, match="cannot be read") as refused:
        examine(path_in(tmp_path))
    assert refused.value.because == "it is not a regular file"
    assert len(written(tmp_path).load()) == len(RECORDS)
    (aside,) = (tmp_path / "rm").glob("state.db.aside-*")
    assert not aside.is_file()


def test_a_transaction_that_fails_leaves_nothing_and_is_written_later(tmp_path: Path) -> None:
    file = StateFile(path_in(tmp_path))
    first, second = StoreRecord(RECORDS[0]), StoreRecord(RECORDS[1])
    other = sqlite3.connect(path_in(tmp_path), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert not file.write([first, second])
    other.execute("ROLLBACK")
    assert file.load() == []
    assert file.write([first, second]) and len(file.load()) == 2


@pytest.mark.parametrize("seed", range(20))
def test_of_what_could_not_be_written_only_the_last_word_is_kept(tmp_path: Path, seed: int) -> None:
    chance, ids = random.Random(seed), ["application_1_0001", "application_1_00010"]
    commands: list[StoreCommand] = []
    for step in range(200):
        one = chance.choice(ids)
        if chance.random() < 0.2:
            commands.append(RemoveRecords(chance.choice([Kind.TASK, Kind.LIFE]), one))
        elif chance.random() < 0.5:
            commands.append(StoreRecord(StoredLife(one, attempts=step)))
        else:
            number = chance.randrange(3)
            commands.append(StoreRecord(StoredTask(one, 0, number, TaskState.STARTING, wait_ms=step)))
    left = latest(commands)
    assert len(left) <= 12 and latest(left) == left
    for name, some in (("all", commands), ("left", left)):
        file = StateFile(path_in(tmp_path / name))
        assert file.write(some)
        file.close()
    assert read(tmp_path / "all") == read(tmp_path / "left")


def test_records_are_written_while_another_thread_moves_the_log_into_the_file(tmp_path: Path) -> None:
    file = written(tmp_path)
    assert not file.wants_checkpoint
    node = StoreRecord(StoredNode("h:2"))
    assert file.write([node] * CHECKPOINT_RECORDS)
    with ThreadPoolExecutor() as threads:
        assert file.wants_checkpoint
        moved = threads.submit(file.checkpoint)
        assert not file.wants_checkpoint, "it is asked for once"
        assert file.write([StoreRecord(StoredNode("h:3")), RemoveRecords(Kind.NODE, "h:2")])
        moved.result()
    assert os.path.getsize(path_in(tmp_path)) > 0
    log = os.path.getsize(f"{path_in(tmp_path)}-wal")
    file.checkpoint()
    assert file.write([StoreRecord(StoredNode("h:4"))])
    assert os.path.getsize(f"{path_in(tmp_path)}-wal") <= log, "the log begins anew"
    file.close()
    assert {one.node_id for one in read(tmp_path) if isinstance(one, StoredNode)} == {"h:1", "h:3", "h:4"}


def test_the_log_stays_short_while_somebody_writes_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_file, "LONGEST_LOG", 200_000)
    file, log, written_to = written(tmp_path), Path(f"{path_in(tmp_path)}-wal"), 0

    def write() -> None:
        nonlocal written_to
        written_to += 1
        assert file.write([StoreRecord(StoredNode(f"h:{written_to % 50}"))])

    with ThreadPoolExecutor() as threads:
        for _ in range(20):
            while log.stat().st_size < 300_000:
                write()
            moved = threads.submit(file.checkpoint)
            while not moved.done():
                write()
            moved.result()
            assert log.stat().st_size < 300_000, "it begins anew"
    file.close()
    assert len(read(tmp_path)) >= 50 and written_to >= 50


def test_a_file_that_was_forgotten_is_not_made_again_by_a_late_checkpoint(tmp_path: Path) -> None:
    file = written(tmp_path)
    file.close()
    os.unlink(path_in(tmp_path))
    file.checkpoint()
    assert os.listdir(os.path.dirname(path_in(tmp_path))) == []


def halved(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(255 - byte for byte in content[middle : middle + 64])
    path.write_bytes(content)


DAMAGES: dict[str, tuple[bool, Callable[[Path], object]]] = {
    "none": (False, lambda rm: None),
    "shm removed": (False, lambda rm: (rm / "state.db-shm").unlink()),
    "wal emptied": (True, lambda rm: os.truncate(rm / "state.db-wal", 0)),
    "wal halved": (True, lambda rm: halved(rm / "state.db-wal")),
    "wal flipped": (True, lambda rm: flipped(rm / "state.db-wal")),
    "wal removed": (True, lambda rm: (rm / "state.db-wal").unlink()),
    "db removed": (True, lambda rm: (rm / "state.db").unlink()),
    "db emptied": (True, lambda rm: os.truncate(rm / "state.db", 0)),
    "db halved": (False, lambda rm: halved(rm / "state.db")),
    "all removed": (True, shutil.rmtree),
}


@pytest.mark.parametrize(("is_lost", "damage"), DAMAGES.values(), ids=DAMAGES)
def test_what_was_lost_is_known_and_what_is_left_is_kept(
    tmp_path: Path, is_lost: bool, damage: Callable[[Path], object]
) -> None:
    file = written(tmp_path / "killed")
    nodes = [StoreRecord(StoredNode(f"h:{number}")) for number in range(300)]
    assert file.write(nodes)
    file.checkpoint()
    cluster = next(one for one in RECORDS if isinstance(one, StoredCluster))
    for number in range(300):
        assert file.write([nodes[number], StoreRecord(replace(cluster, last_application=1000 + number))])
    shutil.copytree(tmp_path / "killed", tmp_path / "next")  # as a process that is killed leaves it
    damage(tmp_path / "next" / "rm")
    paths = [tmp_path / "next" / "rm" / name for name in ("state.db", "state.db-wal")]
    left = {path.read_bytes() for path in paths if path.exists()}
    file = StateFile(path_in(tmp_path / "next"))
    found = file.load()
    assert bool(file.losses) == is_lost, file.losses
    if is_lost:
        assert left <= {path.read_bytes() for path in (tmp_path / "next" / "rm").glob("state.db*.*")}
    if found:
        assert isinstance(found[0], StoredCluster) and found[0].last_application == 1299
        assert found[0].lost_until == (1299 if is_lost else 0)
    assert file.write([StoreRecord(cluster)])
    file.close()
    again = StateFile(path_in(tmp_path / "next"))
    assert again.load() and again.losses == [], "it goes on from there"


@pytest.mark.parametrize("damage", [halved, flipped])
def test_a_damaged_database_is_kept_and_told(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    file, path = written(tmp_path), Path(path_in(tmp_path))
    assert file.write([StoreRecord(StoredNode(f"h:{number}")) for number in range(3000)])
    file.close()
    damage(path)
    left = path.read_bytes()
    file = StateFile(os.fspath(path))
    file.load()
    assert file.losses
    file.close()
    pages = slice(4096, None)  # of the first one, SQLite notes the version
    assert left[pages] in {one.read_bytes()[pages] for one in path.parent.glob("state.db.*")}


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"12", b"7 7 7 and more " * 10])
def test_a_damaged_mark_is_no_loss_and_is_written_anew(tmp_path: Path, content: bytes) -> None:
    written(tmp_path).close()
    mark = tmp_path / "rm.mark"
    if not content.startswith(b"7"):
        mark.write_bytes(content)
    else:
        mark.write_bytes(b"%020d %020d\n" % (1, 1) + content)
    file = StateFile(path_in(tmp_path))
    assert file.load() and not file.losses
    assert file.write([StoreRecord(StoredNode("h:9"))])
    file.close()
    assert state_file.read_mark(path_in(tmp_path))[0] > 1
