"""Guaranteed containers on a node full of opportunistic ones, by killing: who ends for whom, and how often."""

from __future__ import annotations

import pytest

from .conftest import Yopp, wait_until
from .test_pausing import COUNT, UNTIL, reports, states

pytestmark = pytest.mark.live

HOLD = "yopp.nodemanager.opportunistic-queue.hold-for-guaranteed-ms"
PAUSE = "yarn.nodemanager.opportunistic-containers-use-pause-for-preemption"


def test_a_full_node_of_spinners_is_killed_for_a_guaranteed_one_and_comes_back(yopp: Yopp) -> None:
    """Their work is lost, and no task is: each begins again when there is room, and ends well."""
    yopp("up", "--vcores", "2", "--memory", "1024", "-D", f"{PAUSE}=false")
    starts, enough, over = (yopp.home / name for name in ("starts", "enough", "over"))
    job = yopp.start(
        "run", "--json", "-O", "-n", "2", "--memory", "200", "sh", "-c", COUNT, "sh", str(starts), str(enough)
    )
    wait_until(lambda: list(states(yopp).values()).count("RUNNING") == 2, what="both spin")
    wait_until(lambda: starts.exists() and len(starts.read_text().split()) == 2, what="both have begun")
    guaranteed = yopp.start("run", "--vcores", "2", "--memory", "100", "sh", "-c", UNTIL, str(over))
    wait_until(
        lambda: (
            [c["executionType"] for c in yopp.containers() if c["yopp"]["state"] == "RUNNING"]
            == ["GUARANTEED"]
        ),
        what="it runs alone",
    )
    killed = [c for c in yopp.containers("-a") if c["exitCode"] == -108]
    assert len(killed) == 2
    assert all("Container Killed to make room for Guaranteed" in c["diagnostics"] for c in killed)
    over.touch()
    assert guaranteed.wait(timeout=30) == 0
    enough.touch()
    app = reports(job)
    assert app["yopp"]["summary"]["preempted"] == 2
    assert app["yopp"]["summary"]["failed"] == 0
    assert starts.read_text() == "start\n" * 4


def test_a_guaranteed_job_of_short_tasks_does_not_kill_the_queue_one_by_one(yopp: Yopp) -> None:
    """What is queued does not start in the gaps between two of them."""
    # a long hold, for this machine may have other things to do in the gaps
    yopp("up", "--vcores", "2", "--memory", "1024", "-D", f"{HOLD}=5000",
         "-D", "yarn.nodemanager.opportunistic-containers-max-queue-length=30")  # fmt: skip
    gate = yopp.home / "gate"
    job = yopp.start("run", "--json", "-O", "-n", "30", "--memory", "30", "sh", "-c", UNTIL, str(gate))
    wait_until(lambda: list(states(yopp).values()).count("RUNNING") == 2, what="two run")
    yopp("run", "-q", "-n", "40", "--memory", "30", "sleep", "0.02")
    gate.touch()
    app = reports(job)
    assert app["yopp"]["summary"]["preempted"] <= 4, "the two that ran, and what started before the node knew"
