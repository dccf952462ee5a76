"""A program of bench/ that is ended in the middle leaves no cluster behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bench.cluster import ROOT
from tests.live.conftest import wait_until

pytestmark = pytest.mark.live


def test_a_program_that_is_told_to_end_takes_its_cluster_with_it() -> None:
    with tempfile.TemporaryDirectory(prefix="yo") as folder:  # short: sockets are below it
        words = [sys.executable, "-m", "bench.slot_gap", "--short"]
        environment = {**os.environ, "TMPDIR": folder}
        with subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as process:
            wait_until(
                lambda: list(Path(folder).glob("*/run/nm-*.sock")) or process.poll() is not None,
                60,
                "it runs",
            )
            assert process.poll() is None
            found = list(Path(folder).glob("*/run/nm-*.sock"))
            pids = [int(file.read_text().split()[0]) for file in found[0].parent.glob("*.pid")]
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 128 + signal.SIGTERM
        assert pids
        for pid in pids:  # ended, and not yet collected by process 1
            wait_until(lambda: not Path(f"/proc/{pid}").exists(), 60, f"{pid} is gone")  # noqa: B023
        assert os.listdir(folder) == []
