"""Histories on disk that are none: each is passed over, and nothing waits for it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from yarnopp_cli.cluster.rundir import RunDir
from yarnopp_cli.records.history import MapReduceReport
from yarnopp_cli.records.reports import ApplicationReport, FinalApplicationStatus, YarnApplicationState
from yarnopp_cli.records.requests import MapReduceJob
from yarnopp_cli.web.data import JobHistories, KeptJob

ID = "application_1_0001"


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    found = RunDir(str(tmp_path), str(tmp_path / "state"), str(tmp_path))
    os.makedirs(found.history_dir)
    return found


def kept(identifier: str) -> bytes:
    report = ApplicationReport(
        identifier,
        "pi",
        "ada",
        "default",
        "MAPREDUCE",
        YarnApplicationState.FINISHED,
        FinalApplicationStatus.SUCCEEDED,
    )
    return msgspec.json.encode(KeptJob(report, MapReduceReport(MapReduceJob(1))))


def test_a_history_is_found_under_its_name(run_dir: RunDir) -> None:
    Path(run_dir.history_dir, f"{ID}.json").write_bytes(kept(ID))
    found = JobHistories(run_dir).find(ID)
    assert found is not None and found.id == "job_1_0001"
    assert [row["id"] for row in JobHistories(run_dir).rows()] == ["job_1_0001"]


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{{{", b"[" * 200_000, b"\xff" * 999, kept("application_1_0002"), kept("../../x")),
        *("pipe", "directory", "link"),
    ],
    ids=["empty", "no JSON", "deep", "bytes", "another's", "nobody's", "pipe", "directory", "link"],
)  # fmt: skip
def test_what_is_no_history_is_passed_over(run_dir: RunDir, content: bytes | str) -> None:
    place = Path(run_dir.history_dir, f"{ID}.json")
    if isinstance(content, bytes):
        place.write_bytes(content)
    elif content == "pipe":
        os.mkfifo(place)
    elif content == "directory":
        place.mkdir()
    else:
        place.symlink_to(place)
    jobs = JobHistories(run_dir)
    assert (jobs.find(ID), jobs.rows()) == (None, [])
