"""What daemons and jobs say of settings that have no effect."""

from __future__ import annotations

import pytest

from .conftest import ROOT, Yopp

pytestmark = pytest.mark.live

QUEUE = "yarn.nodemanager.opportunistic-containers-max-queue-length"
ENABLED = "yarn.resourcemanager.opportunistic-container-allocation.enabled"


def test_a_property_of_the_daemons_given_to_a_job_of_a_running_cluster_is_told_to_have_no_effect(
    cluster: Yopp,
) -> None:
    ended = cluster("run", f"-D{QUEUE}=3", "true")
    [line] = [line for line in ended.stderr.splitlines() if line.startswith("warning:")]
    assert QUEUE in line and "yopp up" in line
    assert "warning:" not in cluster("run", f"-D{QUEUE}=10", "true").stderr, "it is so already"
    assert "warning:" not in cluster("run", "-Dyopp.run.memory-mb=64", "true").stderr, "it is the job's own"


def test_daemons_that_are_started_alone_warn_as_up_does(yopp: Yopp) -> None:
    doubtful = (f"-D{ENABLED}=false", f"-D{QUEUE}=3")
    assert f"{QUEUE}" in yopp("rm", "start", *doubtful).stderr
    size = ("--memory", "512", "--vcores", "1")
    assert "has no effect" in yopp("nm", "start", *size, *doubtful).stderr


def test_jobs_have_what_the_cluster_was_started_with(yopp: Yopp) -> None:
    """YARN's rules for maps and for preempted containers of the shell are those of jobs, not of daemons."""
    rules = str(ROOT / "configs" / "yarn-rules.toml")
    yopp(
        "up",
        "--conf",
        rules,
        "--vcores",
        "2",
        "--memory",
        "2048",
        "-Dyarn.scheduler.minimum-allocation-mb=512",
    )
    of_pi = ("pi", "-Dmapreduce.job.num-opportunistic-maps-percent=40")
    assert "ran 40 opportunistic, 11 guaranteed" in yopp(*of_pi, "50", "1").stderr
    assert "ran 20 opportunistic" in yopp(*of_pi, "-Dyopp.pi.opportunistic-maps=SPREAD", "50", "1").stderr
    shown = yopp("config", "get", "yopp.dshell.preempted-counts-as-failed")
    assert shown.stdout == "true\n" and "of the cluster that runs" in shown.stderr
    assert (
        "of 100 MB, 1 vcore (allocated as 512 MB, 1 vcore: "
        in yopp("run", "--memory", "100", "--dry-run", "true").stdout
    )
