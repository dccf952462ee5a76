"""What a container, or a client, could not write is told, and is no success."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Yopp, wait_until

pytestmark = pytest.mark.live


@pytest.fixture
def cluster(shared: Yopp) -> Yopp:
    return shared


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A directory of 2 MB."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=755", "none", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_output_in_the_logs_for_which_there_is_no_room_ends_the_job_with_74(yopp: Yopp, small: Path) -> None:
    logs = str(small / "logs")
    yopp("up", "--vcores", "2", "--memory", "1024", f"-Dyarn.nodemanager.log-dirs={logs}")
    told = yopp("run", "-O", "--shell", "[ {} != b ] || seq 1000000; true", ":::", "a", "b", code=74)
    assert "1 ok, 1 failed, 1 of them may have lost output" in told.stderr
    assert "task 2 ended with exit code 74" in told.stderr and "No space left on device" in told.stderr
    lost = [one["yopp"] for one in yopp.containers("-a") if one["yopp"]["exit"] == 74]
    assert [one["cause"]["kind"] for one in lost] == ["OUTPUT_LOST"]
    assert "(output)" in yopp("ps", "-a").stdout
    app = yopp.json("app", "status", "last")["app"]
    assert app["yopp"]["summary"]["outputLost"] == 1 and app["yopp"]["exit"] == 74
    assert "Its output may be incomplete: No space left on device" in yopp("events", "--json").stdout


def test_results_for_which_there_is_no_room_are_no_success(cluster: Yopp, small: Path) -> None:
    results = ("run", "--results", str(small / "{job}-{1}"), "--shell")
    told = cluster(*results, "[ {} != b ] || seq 1000000; true", ":::", "a", "b", code=74)
    assert f"the output in {small}/application_" in told.stderr and "may be incomplete" in told.stderr
    for made in small.iterdir():
        made.unlink()
    reserve = small / "reserve"
    reserve.write_bytes(bytes(4096))
    told = cluster(*results, f"(seq 1000000; rm {reserve}; echo told) 2>&1; true # {{}}", ":::", "a", code=74)
    assert "may be incomplete" in told.stderr, "a short write has found room after a refused one"
    for made in small.iterdir():
        made.unlink()
    cluster(*results, "head -c 8192 /dev/zero # {}", ":::", "a")
    assert [one.stat().st_size for one in sorted(small.iterdir())] == [8192, 0], "and no probe is left"
    assert cluster(*results, "kill -9 $$ # {}", ":::", "a", code=137).stdout == ""


def test_a_job_log_that_could_not_be_written_is_no_success(
    cluster: Yopp, small: Path, tmp_path: Path
) -> None:
    go, log = tmp_path / "go", small / "log"
    command = f"until [ -e {go} ]; do sleep 0.02; done"
    job = cluster.start(
        "run", "-q", "-n", "40", "--joblog", str(log), "sh", "-c", command + " # " + "x" * 60_000
    )
    wait_until(lambda: cluster.containers("--state", "RUNNING"), what="it runs")
    go.touch()
    _, err = job.communicate(timeout=60)
    assert job.returncode == 1 and "the job log is incomplete" in err and "--joblog FILE" in err
