"""Whether the clock can be trusted: ages, waiting times and the order of clusters are counted by it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from .doctor import OK, WARN, Check
from .rundir import RunDir

EARLIEST = 1_704_067_200.0
"""1 January 2024: a clock before that was never set."""
SLACK_SECONDS = 2.0


def examine_clock(run_dir: RunDir, now: float | None = None) -> Iterator[Check]:
    """The time of day, held against when the files of the run directory were written. ``now`` is for tests."""
    now = time.time() if now is None else now
    told = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    fix = "`timedatectl` shows who sets it; `date -s …` as root does"
    if now < EARLIEST:
        yield Check("clock", WARN, told, "it was never set: dates and ages will be wrong", fix)
        return
    newest = max(_written(run_dir.path), default=0.0)
    if newest > now + SLACK_SECONDS:
        back = f"the run directory has files from {newest - now:.0f} s later, so it went back: ages are wrong till then"
        yield Check("clock", WARN, told, back, fix)
        return
    yield Check("clock", OK, told)


def _written(folder: str) -> Iterator[float]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                yield entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return
