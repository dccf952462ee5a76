"""The RM's events in files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from yarnopp_cli.daemons.event_log import EARLIER, EventLog
from yarnopp_cli.records.history import EventKind, HistoryEvent

pytestmark = pytest.mark.pure


def events(first: int, last: int) -> list[HistoryEvent]:
    """Events of these numbers, with words that no encoding has."""
    return [
        HistoryEvent(number, 5, EventKind.NODE_ADDED, why="ä\udc80\n") for number in range(first, last + 1)
    ]


def numbers(log: EventLog) -> list[int]:
    found = [event.seq for event in log.load()]
    log.close()
    return found


def written(path: Path, *parts: list[HistoryEvent], size: int = 10) -> EventLog:
    """A log of these, each part in one write."""
    log = EventLog(str(path), size)
    log.load()
    for part in parts:
        log.append(part)
    log.close()
    return EventLog(str(path), size)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rm" / "events.log"


def test_the_newest_are_there_again_however_they_were_written(path: Path) -> None:
    assert numbers(EventLog(str(path), 10)) == []
    for last in range(1, 40):
        assert numbers(written(path, events(last, last)))[-10:] == list(range(max(1, last - 9), last + 1))
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert len(path.read_bytes().splitlines()) < 10 >= len(Path(f"{path}{EARLIER}").read_bytes().splitlines())


def test_more_than_are_remembered_in_one_write(path: Path) -> None:
    assert numbers(written(path, events(1, 35), events(36, 37))) == list(range(28, 38))


@pytest.mark.parametrize("torn", [b'{"seq":4,"t', b"\xff\n", b"[" * 100_000 + b"\n", b'{"seq":"x"}\n'])
def test_a_line_that_is_torn_is_none_and_the_next_one_follows_what_is_whole(path: Path, torn: bytes) -> None:
    written(path, events(1, 3))
    with path.open("ab") as file:
        file.write(torn)
    assert numbers(written(path, events(4, 5))) == [1, 2, 3, 4, 5]


def test_what_came_before_a_gap_is_forgotten(path: Path) -> None:
    assert numbers(written(path, events(1, 3), events(6, 8))) == [6, 7, 8]


def test_a_file_that_takes_none_is_given_up(path: Path) -> None:
    log = EventLog(str(path), 3)
    log.load()
    Path(f"{path}{EARLIER}").mkdir(parents=True)
    log.append(events(1, 2))
    log.append(events(3, 4))
    assert not path.exists()
    log.append(events(5, 5))
    assert numbers(log) == []


def test_a_link_is_not_followed_and_set_aside(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    other = tmp_path / "other"
    other.write_text("kept")
    path.symlink_to(other)
    assert numbers(written(path, events(1, 2))) == [1, 2] and other.read_text() == "kept"
    (aside,) = path.parent.glob("events.log.aside-*")
    assert aside.readlink() == other


def test_nothing_is_written_where_none_are_remembered(path: Path) -> None:
    assert numbers(written(path, events(1, 2), size=0)) == [] and not path.exists()
