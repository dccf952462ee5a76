"""Promotion, demotion, resize and the enforced execution type on real daemons (YARN-5085, YARN-5180)."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from .conftest import Yopp, wait_until

pytestmark = pytest.mark.live

NODE = ("--vcores", "2", "--memory", "1024")
AUTO = "yarn.resourcemanager.auto-update.containers"
MAY = "yopp.resourcemanager.opportunistic-container-allocation.may-be-guaranteed"


def documents(yopp: Yopp) -> dict[str, dict[str, Any]]:
    return {c["id"]: c for c in yopp.containers("-a")}


def running(yopp: Yopp) -> list[str]:
    return [name for name, c in documents(yopp).items() if c["yopp"]["state"] == "RUNNING"]


def limits(container: dict[str, Any]) -> dict[str, int]:
    """What the kernel holds it to now: cpu shares (or weight) and MB of memory."""
    folder = Path(container["yopp"]["cgroup"])
    lines = Path(f"/proc/{container['yopp']['pid']}/cgroup").read_text().splitlines()
    where = {
        name: path for _, names, path in (line.split(":", 2) for line in lines) for name in names.split(",")
    }
    cpu = Path("/sys/fs/cgroup/cpu" + where.get("cpu", "/nowhere")) / "cpu.shares"
    weight, memory = folder / "cpu.weight", folder / "memory.limit_in_bytes"
    if not weight.exists() and not (cpu.exists() and memory.exists()):
        pytest.skip("no cpu and memory cgroups here")
    return {
        "cpu": int((weight if weight.exists() else cpu).read_text()),
        "memory": int((memory if memory.exists() else folder / "memory.max").read_text()) >> 20,
    }


def summary(yopp: Yopp) -> dict[str, Any]:
    return dict(yopp.json("app", "list", "-a")["apps"]["app"][-1]["yopp"]["summary"])


def test_promote_demote_and_resize_a_running_one(cluster: Yopp) -> None:
    job = cluster.start("run", "-O", "--memory", "200", "sleep", "300")
    [name] = wait_until(lambda: running(cluster), what="it runs")
    before = limits(documents(cluster)[name])
    assert cluster("container", "promote", name).stdout == f"{name} GUARANTEED\n"
    promoted = limits(documents(cluster)[name])
    assert promoted["cpu"] > before["cpu"] and documents(cluster)[name]["executionType"] == "GUARANTEED"
    node = cluster.json("node", "list")["nodes"]["node"][0]
    assert (node["usedMemoryMB"], node["usedVirtualCores"]) == (200, 1), "the RM counts it as guaranteed"
    assert "GUARANTEED already" in cluster("container", "promote", name).stderr
    assert cluster("container", "resize", "--memory", "300M", name).stdout == f"{name} 300 MB, 1 vcore\n"
    assert limits(documents(cluster)[name])["memory"] == 300
    cluster("container", "resize", "--memory", "150", "--vcores", "2", name)
    assert limits(documents(cluster)[name])["memory"] == 150
    found = cluster.json("container", "demote", name)["container"]
    assert (found["executionType"], found["totalVCoresNeeded"]) == ("OPPORTUNISTIC", 2)
    assert limits(found) == {"cpu": before["cpu"], "memory": 150}
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=20)


def test_what_cannot_be_is_refused(cluster: Yopp) -> None:
    job = cluster.start("run", "--memory", "200", "sleep", "300")
    [name] = wait_until(lambda: running(cluster), what="it runs")
    for arguments, code in (
        (("resize", "--memory", "9G", name), 1),
        (("resize", name), 2),
        (("resize", "--vcores", "-3", name), 1),
        (("promote", "container_1_0001_01_000001"), 66),
        (("pause", "container_1_0001_01_000001"), 66),
    ):
        refused = cluster("container", *arguments, code=code)
        assert refused.stdout == "" and refused.stderr.startswith("error: "), arguments
    assert (
        "RESOURCE_OUTSIDE_ALLOWED_RANGE"
        in cluster("container", "resize", "--memory", "9G", name, code=1).stderr
    )
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=20)
    assert "has ended" in cluster("container", "promote", name, code=1).stderr


def test_a_promoted_container_is_never_preempted(cluster: Yopp) -> None:
    cluster.start("run", "-O", "--memory", "100", "-n", "2", "sleep", "300")
    wait_until(lambda: len(running(cluster)) == 2, what="both run")
    older, newest = sorted(running(cluster))
    cluster("container", "promote", newest)
    cluster("run", "--memory", "100", "true")
    after = documents(cluster)
    assert after[newest]["yopp"]["state"] == "RUNNING", "the newest would have been the first to go"
    assert after[older]["exitCode"] == -108
    wait_until(lambda: len(running(cluster)) == 2, what="another takes the place of the one that went")
    refused = cluster.start("run", "--memory", "100", "--vcores", "2", "true")
    wait_until(lambda: len(cluster.json("app", "list")["apps"]["app"]) == 2, what="it is submitted")
    refused.send_signal(signal.SIGINT)
    refused.communicate(timeout=20)
    assert documents(cluster)[newest]["yopp"]["state"] == "RUNNING"


@pytest.mark.parametrize("auto", ["false", "true"])
def test_promotion_after_the_start(yopp: Yopp, auto: str) -> None:
    yopp("up", *NODE, "-D", f"{AUTO}={auto}")
    gate = yopp.home / "gate"  # they run until they have been looked at
    job = yopp.start(
        "dshell", "-shell_command", f"until test -e {gate}; do sleep 0.05; done", "-num_containers", "2",
        "-container_type", "OPPORTUNISTIC", "-container_memory", "100", "-promote_opportunistic_after_start",
    )  # fmt: skip
    wait_until(
        lambda: [c["executionType"] for c in documents(yopp).values()] == ["GUARANTEED"] * 2,
        what="both promoted",
    )
    wait_until(
        lambda: [limits(c)["cpu"] > 2 for c in yopp.containers()] == [True, True], what="limits changed"
    )
    gate.touch()
    error = job.communicate(timeout=30)[1]
    assert job.returncode == 0 and "could not be updated" not in error, error
    counted = summary(yopp)
    assert (counted["promoted"], counted["guaranteed"], counted["opportunistic"]) == (2, 2, 0)
    node = yopp.json("node", "list")["nodes"]["node"][0]
    assert (node["usedMemoryMB"], node["usedVirtualCores"]) == (0, 0)


def test_run_promote_reports_it(cluster: Yopp) -> None:
    gate = cluster.home / "gate"  # they end when they have been promoted, however long that takes
    wait_for_it = f"until test -e {gate}; do sleep 0.05; done"
    job = cluster.start("run", "-O", "-n", "2", "--memory", "100", "--promote", "sh", "-c", wait_for_it)
    wait_until(
        lambda: [c["executionType"] for c in documents(cluster).values()] == ["GUARANTEED"] * 2,
        what="both promoted",
    )
    gate.touch()
    assert "2 promoted" in job.communicate(timeout=30)[1]


def test_only_enforced_types_are_kept_where_they_need_not_be(yopp: Yopp) -> None:
    yopp("up", *NODE, "-D", f"{MAY}=true")
    ended = yopp("run", "--json", "-O", "-n", "5", "--memory", "100", "sleep", "0.3")
    counted = json.loads(ended.stdout)["app"]["yopp"]["summary"]
    assert counted["upgraded"] == counted["guaranteed"] >= 2
    assert counted["guaranteed"] + counted["opportunistic"] == 5
    shown = yopp("run", "-O", "-n", "2", "--memory", "100", "true")
    assert "2 requested as opportunistic ran guaranteed, because there was room" in shown.stderr
    yopp(
        "dshell", "-shell_command", "true", "-num_containers", "3", "-container_type", "OPPORTUNISTIC",
        "-container_memory", "100", "-enforce_execution_type",
    )  # fmt: skip
    counted = summary(yopp)
    assert (counted["upgraded"], counted["guaranteed"], counted["opportunistic"]) == (0, 0, 3)
    assert (
        "requested as opportunistic" not in yopp("run", "-O", "--enforce", "--memory", "100", "true").stderr
    )


def test_by_default_the_type_asked_for_is_given(cluster: Yopp) -> None:
    ended = cluster("run", "--json", "-O", "-n", "3", "--memory", "100", "true")
    counted = json.loads(ended.stdout)["app"]["yopp"]["summary"]
    assert (counted["opportunistic"], counted["upgraded"]) == (3, 0)
