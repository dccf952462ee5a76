"""The judging line: a guaranteed container's first instruction on a node full of opportunistic spinners.

The bench measures it, with its floor in the same run, and this holds it to its limit where the machine has time: where
the floor itself, a container on an idle node, is late, something else has the processors, and nothing is shown.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from .conftest import ROOT
from .test_pressure import in_a_quiet_moment

pytestmark = pytest.mark.live

LIMIT_MS = 20.0
QUIET_FLOOR_MS = 10.0


def test_it_comes_within_twenty_milliseconds_by_pausing_and_by_killing() -> None:
    in_a_quiet_moment()
    ended = subprocess.run(
        [sys.executable, "-m", "bench.preemption", "--json", "--short", "--runs", "5"], cwd=ROOT,
        capture_output=True, text=True, timeout=110,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    rows = json.loads(ended.stdout)["rows"]
    medians = {row["the node"]: row["at the node"] for row in rows if len(row) > 1}
    floor = "idle node (floor)"
    assert {floor, "by pausing, signals", "by killing"} <= medians.keys(), ended.stdout
    slower = max(
        medians["by pausing, signals"], medians["by killing"]
    )  # the freezer is measured, not promised
    if slower > LIMIT_MS and medians[floor] > QUIET_FLOOR_MS:
        pytest.skip(f"this machine is busy: {medians}")
    assert slower <= LIMIT_MS, medians
