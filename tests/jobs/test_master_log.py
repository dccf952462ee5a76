"""A master that lives in a container: its log on a full disk, and its end without an RM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from executor.light import replace
from executor.records import Resource
from yarnopp_cli.daemons import applicationmaster
from yarnopp_cli.errors import EXIT_FAILURE, EXIT_USAGE
from yarnopp_cli.masters.commands import plan_run
from yarnopp_cli.records.jobs import PiSpec, TaskSpec
from yarnopp_cli.records.master_protocol import AM_TOKEN_FILE
from yarnopp_cli.rpc.plain import encode

from .fake import ATTEMPT, TOKEN

MASTER = [sys.executable, "-m", "yarnopp_cli.daemons.applicationmaster"]


def code_of(*arguments: str, **variables: str) -> int:
    """Its exit code where nothing that it says can be written."""
    with open("/dev/full", "wb") as full:
        environment = {**os.environ, **variables}
        return subprocess.run(
            [*MASTER, *arguments], stdout=full, stderr=full, env=environment, check=False
        ).returncode


def test_a_log_that_cannot_be_written_is_not_how_the_master_ends() -> None:
    assert code_of() == EXIT_USAGE
    assert code_of("/nowhere", APPLICATION_ATTEMPT_ID="appattempt_1_0001_000001") == EXIT_FAILURE


def test_one_that_cannot_tell_its_end_leaves_the_jobs_files_to_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / "jobs" / "QuasiMonteCarlo_1_1"
    files.mkdir(parents=True)
    (files / "part-m-00000").write_text("what a map has counted")
    plan = plan_run(("true",), TaskSpec(1, Resource(10, 1)), 1)
    job = replace(plan, rm_address=f"unix:{tmp_path}/no-rm", pi=PiSpec(1, 1, os.fspath(files)))
    (tmp_path / "job.json").write_text(json.dumps(encode(job)))
    (tmp_path / AM_TOKEN_FILE).write_text(json.dumps(encode(TOKEN)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(applicationmaster, "CONTAINER_PATIENCE_SECONDS", 0.3)
    environment = {applicationmaster.ATTEMPT_VARIABLE: ATTEMPT}
    assert applicationmaster.main(["job.json"], environment) == EXIT_FAILURE
    assert (files / "part-m-00000").exists()
