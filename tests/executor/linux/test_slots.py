"""The journal of a launcher, as a later run reads it, on a file system without room."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from executor.linux.launcher import COMPACT_BYTES, JournalFile, begin_line
from executor.linux.slots.journals import code_of, read_journal

HEADER = b"launcher 70 7\n"
BASE = 0.25, 0.0, 0, 4096, 0, 1


@contextlib.contextmanager
def largest_file(length: int) -> Iterator[None]:
    """No file of this process grows beyond a length: a write that crosses it is short, one beyond it fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (length, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def a_container(journal: JournalFile, name: str, queued_at_ms: int = 0) -> bool:
    """One container from its begin to its end; whether it began. With ``queued_at_ms`` it follows another one."""
    try:
        journal.begin(begin_line(name, BASE, queued_at_ms), follows=queued_at_ms > 0)
    except OSError:
        return False
    journal.note(b"pid 71 8\n")
    journal.note(b"end 137\n")
    return True


LENGTH_OF_TWO = 2 * len(begin_line("c1", BASE) + b"pid 71 8\n" + b"end 137\n")


@pytest.mark.parametrize("room", range(LENGTH_OF_TWO + 1))
def test_wherever_the_room_ends_no_line_is_mistaken(
    tmp_path: Path, room: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "slot-1.journal")
    journal = JournalFile(path, HEADER)
    with largest_file(len(HEADER) + room):
        began = [name for name in ("c1", "c2") if a_container(journal, name)]
        read = read_journal(path)
        assert read.launcher == 70
        # The node has been told how the first ended before the second begins: the journal may begin anew with it.
        assert [one.container_id for one in read.begun] in ([], began, began[1:])
        assert [one.container_id for one in read.begun][-1:] == began[-1:], "what may run is known"
        assert {one.code for one in read.begun} <= {None, 137} and {one.pid for one in read.begun} <= {0, 71}
    assert a_container(journal, "c3")
    assert code_of(path, "c3") == 137
    assert Path(path).read_bytes().startswith(HEADER) and caplog.records == []


def test_without_room_for_its_header_there_is_no_journal(tmp_path: Path) -> None:
    with largest_file(5), pytest.raises(OSError, match="No space left"):
        JournalFile(str(tmp_path / "slot-1.journal"), HEADER)
    assert (tmp_path / "slot-1.journal").read_bytes() == b""


def test_what_has_not_begun_after_all_is_not_in_it(tmp_path: Path) -> None:
    path = str(tmp_path / "slot-1.journal")
    journal = JournalFile(path, HEADER)
    assert a_container(journal, "c1")
    line = begin_line("c2", BASE)
    journal.begin(line)
    journal.unbegin(len(line))
    assert [(one.container_id, one.code) for one in read_journal(path).begun] == [("c1", 137)]
    assert a_container(journal, "c3")
    assert [one.container_id for one in read_journal(path).begun] == ["c1", "c3"]


def test_a_long_journal_begins_anew_with_the_next_container(tmp_path: Path) -> None:
    path = tmp_path / "slot-1.journal"
    journal = JournalFile(str(path), HEADER)
    number = 0
    while path.stat().st_size <= COMPACT_BYTES:
        number += 1
        assert a_container(journal, f"c{number}")
    assert len(read_journal(str(path)).begun) == number
    assert a_container(journal, "last")
    assert [one.container_id for one in read_journal(str(path)).begun] == ["last"]
    assert read_journal(str(path)).launcher == 70


def test_one_that_follows_is_read_like_any_other_and_loses_no_end_before_it(tmp_path: Path) -> None:
    path = tmp_path / "slot-1.journal"
    journal = JournalFile(str(path), HEADER)
    names = []
    while path.stat().st_size <= COMPACT_BYTES + 200:
        names.append(f"c {len(names)}")  # an id may have a space
        assert a_container(journal, names[-1], queued_at_ms=1000 + len(names))
    found = read_journal(str(path)).begun
    assert [one.container_id for one in found] == names
    assert [one.queued_at_ms for one in found] == [1001 + number for number in range(len(names))]
    assert {(one.code, one.pid, one.baseline.cpu_seconds, one.baseline.peak) for one in found} == {
        (137, 71, 0.25, 4096)
    }
    assert a_container(journal, "last")
    assert [(one.container_id, one.queued_at_ms) for one in read_journal(str(path)).begun] == [("last", 0)]


@pytest.mark.parametrize("room", [COMPACT_BYTES + 4096, COMPACT_BYTES])
def test_at_no_moment_does_a_journal_lack_its_launcher(
    tmp_path: Path, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that starts just then would take the launcher for none, and leave what that begins next to nobody."""
    path = tmp_path / "slot-1.journal"
    journal = JournalFile(str(path), HEADER)
    headers: list[bytes] = []
    with monkeypatch.context() as patches, largest_file(room):
        for name in ("write", "ftruncate"):

            def watched(*arguments: Any, call: Any = getattr(os, name)) -> Any:
                try:
                    return call(*arguments)
                finally:
                    with open(path, "rb") as file:
                        headers.append(file.read(len(HEADER)))

            patches.setattr(os, name, watched)
        for number in range(4 * COMPACT_BYTES // LENGTH_OF_TWO):
            a_container(journal, f"c{number}")
    assert path.stat().st_size < COMPACT_BYTES, "it has begun anew"
    assert set(headers) == {HEADER}
