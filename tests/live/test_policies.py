"""The policies of queue and preemption on real daemons, chosen by the configuration."""

from __future__ import annotations

import pytest

from .conftest import ROOT, Yopp, wait_until

pytestmark = pytest.mark.live


def queued(yopp: Yopp) -> int:
    return sum(c["yopp"]["state"] == "QUEUED" for c in yopp.containers())


def test_the_job_with_the_fewest_tasks_left_goes_first(yopp: Yopp) -> None:
    policy = "-Dyopp.nodemanager.opportunistic-queue.policy=LEAST_REMAINING_TASKS"
    yopp("up", "--vcores", "1", "--memory", "1024", policy)
    gate, order = yopp.home / "gate", yopp.home / "order"
    first = yopp.start("run", "-q", "-O", "sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.02; done")
    wait_until(
        lambda: [c for c in yopp.containers() if c["yopp"]["state"] == "RUNNING"], what="the first runs"
    )
    large = yopp.start("run", "-q", "-n", "4", "-O", "sh", "-c", f"echo large >> {order}")
    wait_until(lambda: queued(yopp) == 4, what="four are queued")
    small = yopp.start("run", "-q", "-O", "sh", "-c", f"echo small >> {order}")
    wait_until(lambda: queued(yopp) == 5, what="five are queued")
    gate.touch()
    for job in (first, large, small):
        assert job.wait(60) == 0
    assert order.read_text().split() == ["small", *["large"] * 4]


def test_the_job_that_says_it_is_short_goes_first(yopp: Yopp) -> None:
    policy = "-Dyopp.nodemanager.opportunistic-queue.policy=SHORTEST_FIRST"
    yopp("up", "--vcores", "1", "--memory", "1024", policy)
    gate, order = yopp.home / "gate", yopp.home / "order"
    jobs = [yopp.start("run", "-q", "-O", "sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.02; done")]
    wait_until(
        lambda: [c for c in yopp.containers() if c["yopp"]["state"] == "RUNNING"], what="the first runs"
    )
    for number, expected in enumerate(("1h", "90s", "250ms"), start=1):
        job = yopp.start("run", "-q", "-O", "--expect", expected, "sh", "-c", f"echo {expected} >> {order}")
        jobs.append(job)
        wait_until(lambda count=number: queued(yopp) == count, what=f"{number} are queued")
    gate.touch()
    for job in jobs:
        assert job.wait(60) == 0
    assert order.read_text().split() == ["250ms", "90s", "1h"]


def test_yarns_rules_let_a_job_through_preemption_and_all(yopp: Yopp) -> None:
    """Under configs/yarn-rules.toml the two newest of three give way, though the oldest alone would do."""
    yopp("up", "--vcores", "4", "--memory", "1024", "--conf", str(ROOT / "configs" / "yarn-rules.toml"))
    gate, started = yopp.home / "gate", yopp.home / "started"
    jobs = []
    for number, memory in enumerate(("512", "256", "256"), start=1):
        script = f"echo {number} >> {started}; while [ ! -e {gate} ]; do sleep 0.02; done"
        jobs.append(yopp.start("run", "-q", "-O", "--memory", memory, "--vcores", "1", "sh", "-c", script))
        wait_until(
            lambda count=number: started.exists() and len(started.read_text().split()) == count,
            what=f"the {number}. runs",
        )
    yopp("run", "-q", "-G", "--memory", "512", "true")
    gate.touch()
    for job in jobs:
        assert job.wait(60) == 0
    # the two newest were killed for it, and were started anew; a smaller set, the first one, was not chosen
    assert sorted(started.read_text().split()) == ["1", "2", "2", "3", "3"]
