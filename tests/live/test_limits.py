"""Limits of real containers, measured by the kernel's own figures. Run on cgroup v1 here and v2 in user-mode Linux."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from executor.core.limits import period_and_quota

from ..patience import PATIENCE
from .conftest import Yopp, wait_until

pytestmark = [pytest.mark.live, pytest.mark.cgroup]


def has_cgroups() -> bool:
    """Whether this host lets us write memory and CPU limits, of either version."""
    if os.geteuid() != 0:
        return False
    unified = Path("/sys/fs/cgroup/cgroup.controllers")
    if unified.exists():
        return {"cpu", "memory"} <= set(unified.read_text().split())
    return os.access("/sys/fs/cgroup/memory", os.W_OK) and os.access("/sys/fs/cgroup/cpu", os.W_OK)


needs_cgroups = pytest.mark.skipif(
    not has_cgroups(), reason="no writable cpu and memory cgroup controllers here"
)

EAT_200_MB = "block = bytearray(200 * 2**20)\nblock[::4096] = b'x' * len(block[::4096])\nprint('survived')"
SPIN = Path(__file__).with_name("spin.py")


@needs_cgroups
def test_a_container_over_its_memory_dies_and_its_neighbour_lives(cluster: Yopp) -> None:
    neighbour = cluster.start("run", "--memory", "64", "sh", "-c", "sleep 4; echo alive")
    wait_until(
        lambda: any(c["yopp"]["state"] == "RUNNING" for c in cluster.containers()), what="the neighbour runs"
    )
    ended = cluster("run", "--memory", "64", sys.executable, "-c", EAT_200_MB, code=137)
    assert "survived" not in ended.stdout
    assert "64 MB" in ended.stderr
    assert "OOM" in ended.stderr
    dead = [c for c in cluster.containers("-a") if c["exitCode"] == -104]
    assert len(dead) == 1
    assert dead[0]["yopp"]["used"]["oomKills"] >= 1
    assert "peak" in dead[0]["diagnostics"].lower()
    assert cluster.json("status")["clusterInfo"]["state"] == "STARTED"
    out, err = neighbour.communicate(timeout=60 * PATIENCE)
    assert (neighbour.returncode, out) == (0, "alive\n"), err


@needs_cgroups
def test_a_process_that_died_for_memory_is_told_of_a_job_that_succeeded(cluster: Yopp) -> None:
    line = f"[ {{}} != b ] || {sys.executable} -c {shlex.quote(EAT_200_MB)}; echo end"
    ended = cluster("run", "-O", "--memory", "64", "--shell", line, ":::", "a", "b", "c")
    assert "3 ok, 1 of them lost a process to the OOM killer" in ended.stderr
    assert "1 of them lost a process to the OOM killer" in cluster("app", "status", "last").stdout
    alone = cluster("run", "--memory", "64", "--shell", line.replace("{}", "b"))
    assert alone.stdout == "end\n" and "it lost a process to the OOM killer" in alone.stderr
    words = ("run", "--json", "--memory", "64", "--shell", line, ":::", "b")
    document = json.loads(cluster(*words).stdout)["app"]
    assert document["yopp"]["summary"]["processesKilled"] == 1 and document["yopp"]["exit"] == 0
    assert [one["flaw"] for one in document["yopp"]["tasks"]] == ["processes_killed"]
    [one] = cluster.containers("-a", "--app", "last")
    assert one["yopp"]["cause"] == {"kind": "PROCESSES_KILLED", "measured": 1, "limit": 64 << 20}
    assert (one["exitCode"], one["yopp"]["used"]["oomKills"]) == (0, 1)
    assert "0 (oom)" in cluster("ps", "-a", "--app", "last").stdout
    job = cluster("run", "-q", "-d", "--memory", "64", "--shell", line, ":::", "b").stdout.strip()
    assert "it lost a process to the OOM killer" in cluster("wait", job).stderr


@needs_cgroups
@pytest.mark.alone  # it measures how much of a processor it gets
def test_a_strict_container_of_one_vcore_uses_one_core(yopp: Yopp) -> None:
    yopp(
        "up", "--vcores", "2", "--memory", "1024",
        "-Dyarn.nodemanager.linux-container-executor.cgroups.strict-resource-usage=true",
    )  # fmt: skip
    ran = yopp("run", "--vcores", "1", sys.executable, str(SPIN))
    used = yopp.containers("-a")[-1]["yopp"]["used"]
    begun, ended = map(json.loads, ran.stdout.splitlines())
    said = f"{begun}\n{ended}\n{used}"
    # A vcore of this node is half of what the machine has; and the limit is there before the first instruction.
    period, quota = period_and_quota(len(os.sched_getaffinity(0)) / 2)
    assert quota and (begun["period"], begun["quota"]) == (period / 1e6, quota / 1e6)
    # Less on a busy machine, never more; but YARN's periods are of a second, and three seconds touch four of them.
    # A container that is held up touches more, and so does its whole life, with the start and the end of Python.
    spun, periods = ended["used"] - begun["used"], ended["periods"] - begun["periods"]
    lasted = (ended["time"] - begun["time"]) / begun["period"]
    assert spun <= begun["quota"] * (min(periods, lasted) + 1) * 1.15, said
    assert ended["used"] <= begun["quota"] * (ended["periods"] + 1) * 1.15, said
    assert spun <= used["cpuSeconds"] <= begun["quota"] * (ended["periods"] + 2) * 1.15, said
    allowed = 3.0 / begun["period"] * begun["quota"]
    assert used["cpuSeconds"] >= allowed * 0.25, said
    throttled = 1000 * (ended["throttled"] - begun["throttled"])
    assert used["throttledMs"] >= throttled - 1, said
    if spun > allowed * 0.95:  # on a busy machine it may never have come up to its quota
        assert throttled > 0, said


@needs_cgroups
def test_shares_follow_type_and_size(cluster: Yopp) -> None:
    jobs = [cluster.start("run", "-G", "sleep", "30"), cluster.start("run", "-O", "sleep", "30")]
    running = wait_until(
        lambda: len(c := [c for c in cluster.containers() if c["yopp"]["state"] == "RUNNING"]) == 2 and c,
        what="both run",
    )
    by_type = {c["executionType"]: c["yopp"]["limits"]["cpuShares"] for c in running}
    v2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    assert by_type == (
        {"GUARANTEED": 100, "OPPORTUNISTIC": 1} if v2 else {"GUARANTEED": 1024, "OPPORTUNISTIC": 2}
    )
    for job in jobs:
        job.terminate()
        job.communicate(timeout=20 * PATIENCE)


@needs_cgroups
def test_what_a_container_leaves_behind_is_ended_with_it(cluster: Yopp) -> None:
    cluster("run", "sh", "-c", "setsid sleep 300 & (setsid sh -c 'setsid sleep 301 &') & sleep 0.3")
    wait_until(
        lambda: not [line for line in cluster.leftovers() if "sleep 30" in line], what="the orphans are gone"
    )
