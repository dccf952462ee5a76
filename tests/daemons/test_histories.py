"""Histories as files: whole, readable by the command line's own reader, and no more than so many."""

from __future__ import annotations

import json
import os
from pathlib import Path

from executor.light import replace
from yarnopp_cli.cluster.rundir import RunDir
from yarnopp_cli.daemons.retention import HistoryFiles
from yarnopp_cli.records.history import ApplicationHistory, EventKind, HistoryEvent
from yarnopp_cli.records.reports import ApplicationReport, FinalApplicationStatus, YarnApplicationState
from yarnopp_cli.rpc.plain import decode


def history(number: int) -> ApplicationHistory:
    app = ApplicationReport(
        f"application_1_{number:04d}", "é", "u", "default", "YARN",
        YarnApplicationState.FINISHED, FinalApplicationStatus.SUCCEEDED,
    )  # fmt: skip
    event = HistoryEvent(
        1, 2, EventKind.CONTAINER_STARTED, "n:1", app.application_id, "c", "", {"a": "b"}, {"at": 3}
    )
    return ApplicationHistory(app, (), (event,), 7)


def test_what_was_kept_is_what_is_read(tmp_path: Path) -> None:
    run_dir = RunDir.of(str(tmp_path / "run"))
    HistoryFiles(run_dir, 5).keep(history(1))
    path = Path(run_dir.history_dir) / "application_1_0001.json"
    assert decode(ApplicationHistory, json.loads(path.read_text())) == history(1)
    assert os.listdir(run_dir.history_dir) == [path.name]


def test_what_a_later_life_knows_does_not_replace_what_was_kept(tmp_path: Path) -> None:
    run_dir = RunDir.of(str(tmp_path / "run"))
    files = HistoryFiles(run_dir, 5)
    path = Path(run_dir.history_dir) / "application_1_0001.json"
    for known in (history(1), replace(history(1), events=())):
        files.keep(known, if_missing=True)
        assert decode(ApplicationHistory, json.loads(path.read_text())) == history(1)
    files.keep(replace(history(1), events=()))
    assert not decode(ApplicationHistory, json.loads(path.read_text())).events


def test_the_oldest_go_and_nothing_else_does(tmp_path: Path) -> None:
    run_dir = RunDir.of(str(tmp_path / "run"))
    files = HistoryFiles(run_dir, 2)
    files.keep(history(1))
    other = Path(run_dir.history_dir) / "mine.txt"
    other.write_text("x")
    os.utime(Path(run_dir.history_dir) / "application_1_0001.json", (1, 1))
    for number in (2, 3, 4):
        files.keep(history(number))
        os.utime(Path(run_dir.history_dir) / f"application_1_{number:04d}.json", (number, number + 1))
    assert sorted(os.listdir(run_dir.history_dir)) == [
        "application_1_0003.json", "application_1_0004.json", "mine.txt",
    ]  # fmt: skip


def test_a_disk_that_takes_nothing_costs_nothing(tmp_path: Path) -> None:
    run_dir = RunDir.of(str(tmp_path / "run"))
    Path(run_dir.state_dir).mkdir(parents=True)
    Path(run_dir.history_dir).write_text("a file where the directory should be")
    HistoryFiles(run_dir, 2).keep(history(1))
