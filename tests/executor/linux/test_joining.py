"""Whose a container is, for root who enters it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from executor.linux.joining import place_of
from executor.linux.procfs import real_uid

NAME = "container_1_0001_01_000001"
SETUID = """
import os, sys
os.setgroups([]); os.setgid(65534); os.setresuid(65534, int(sys.argv[1]), 0)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("effective", [0, 65534])
def test_a_container_that_runs_a_setuid_program_is_still_its_users(effective: int) -> None:
    """`ping`, for instance: root who enters it would get a shell of root's, in an environment of the user's."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", SETUID, str(effective)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={"CONTAINER_ID": NAME, "PWD": "/"},
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        assert os.stat(f"/proc/{process.pid}").st_uid == effective
        assert real_uid(process.pid) == 65534
        assert place_of(process.pid, NAME).uid == 65534
    finally:
        process.communicate()


def test_who_has_gone_is_nobody() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(OSError):
        real_uid(process.pid)
    assert real_uid(os.getpid()) == os.getuid()
