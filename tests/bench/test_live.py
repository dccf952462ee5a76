"""A program of bench/ that is ended in the middle leaves no cluster behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from bench.cluster import ROOT

pytestmark = pytest.mark.live


def test_a_program_that_is_told_to_end_takes_its_cluster_with_it() -> None:
    with tempfile.TemporaryDirectory(prefix="yo") as folder:  # short: sockets are below it
        words = [sys.executable, "-m", "bench.slot_gap", "--short"]
        environment = {**os.environ, "TMPDIR": folder}
        with subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + 60
            while not (found := list(Path(folder).glob("*/run/nm-*.sock"))):
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.02)
            pids = [int(file.read_text().split()[0]) for file in found[0].parent.glob("*.pid")]
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 128 + signal.SIGTERM
        assert pids
        for pid in pids:
            while Path(f"/proc/{pid}").exists():  # ended, and not yet collected by process 1
                assert time.monotonic() < deadline
                time.sleep(0.02)
        assert os.listdir(folder) == []
