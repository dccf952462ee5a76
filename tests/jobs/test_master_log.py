"""The log of a master that lives in a container, on a full disk."""

from __future__ import annotations

import os
import subprocess
import sys

from yarnopp_cli.errors import EXIT_FAILURE, EXIT_USAGE

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
