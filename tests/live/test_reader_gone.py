"""``yopp run … | head``: a job ends at once when nobody reads its output any more, however much it has written."""

from __future__ import annotations

import subprocess

import pytest

from tests.live.conftest import Yopp, wait_until

pytestmark = pytest.mark.live

GONE_SECONDS = 10.0
"""Copying what `yes` writes until it is ended took three times as long, and 11 s of processor time."""
READER_GONE = 141


@pytest.mark.parametrize(
    ("count", "command"),
    [
        (1, ["yes"]),
        (3, ["yes"]),
        (3, ["sh", "-c", "yes >&2"]),
        (3, ["sh", "-c", "echo; while :; do printf x; sleep 0.05; done"]),
    ],
)
def test_a_job_ends_when_its_reader_has_gone(yopp: Yopp, count: int, command: list[str]) -> None:
    yopp("up", "--vcores", "4", "--memory", "1024")
    job = yopp.start(
        "run", "-n", str(count), "--memory", "64", *command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert job.stdout is not None
    wait_until(lambda: len(yopp.containers("--state", "RUNNING")) == count, what="all run")
    job.stdout.readline()
    job.stdout.close()
    job.stdout = None  # there is nothing to read at the end
    wait_until(lambda: not yopp.containers(), GONE_SECONDS, "the containers have ended")
    wait_until(lambda: job.poll() is not None, GONE_SECONDS, "the client has ended")
    assert job.returncode == READER_GONE
