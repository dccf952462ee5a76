"""The wall clock is set while a job runs and daemons die: in a kernel of its own (``.ci/in-uml``), never on a host."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from yarnopp_cli.cluster.rundir import RunDir

from .conftest import Yopp, wait_until

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        "User Mode Linux" not in Path("/proc/cpuinfo").read_text(), reason="only in .ci/in-uml may it be set"
    ),
]
HOUR = 3600.0


def test_the_wall_clock_is_set_and_nothing_is_lost_refused_or_done_twice(yopp: Yopp) -> None:
    log, run_dir = yopp.home / "ended", RunDir.of(str(yopp.run_dir))
    yopp("up", "--vcores", "2", "--memory", "256", "-Dyopp.daemons.restart.enabled=true")
    words = (
        "--memory",
        "16",
        "-n",
        "12",
        "--timeout",
        "30m",
        "--",
        "sh",
        "-c",
        f"sleep 2; echo $YOPP_TASK >> {log}",
    )
    job = yopp("run", "-q", "-d", "-O", *words).stdout.strip()
    wait_until(lambda: len(yopp.containers("--state", "RUNNING")) == 2, what="it runs")
    for step, name in ((3 * HOUR, "nm-45454"), (-6 * HOUR, "rm"), (48 * HOUR, "nm-45454")):
        time.clock_settime(time.CLOCK_REALTIME, time.time() + step)
        died = run_dir.daemon(name)
        assert died is not None
        died.process.send(signal.SIGKILL)
        wait_until(
            lambda name=name, died=died: run_dir.daemon(name) not in (None, died), what=f"{name} is restarted"
        )
        assert yopp("run", "--memory", "16", "echo", "there", timeout=120).stdout == "there\n"
    assert yopp("wait", job, timeout=120).returncode == 0
    assert Counter(log.read_text().split()) == Counter(str(number) for number in range(1, 13))
