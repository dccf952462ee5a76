"""Declared GPUs on real daemons: each container has its own, by its variables, and none is given to two."""

from __future__ import annotations

import os
import signal
import stat
from typing import Any

import pytest

from .conftest import Yopp, wait_until
from .test_pausing import PAUSES

pytestmark = pytest.mark.live

TYPES = "-Dyarn.resource-types=yarn.io/gpu,license"
ALLOWED = "yarn.nodemanager.resource-plugins.gpu.allowed-gpu-devices"
UNTIL = 'echo "$CUDA_VISIBLE_DEVICES"; while [ ! -e "$0" ]; do sleep 0.02; done'


def gpus(number: int) -> str:
    """So many GPUs that no other test of this host has: by their minor numbers, which are this process's."""
    base = os.getpid() * 10 % 9990
    return ",".join(f"{index}:{base + index}" for index in range(number))


def up(yopp: Yopp, number: int, *more: str) -> None:
    size = ("--vcores", "4", "--memory", "1024")
    yopp(
        "up", *size, TYPES, f"-D{ALLOWED}={gpus(number)}", "-Dyarn.nodemanager.resource-type.license=1", *more
    )


def in_state(yopp: Yopp, state: str) -> list[dict[str, Any]]:
    return [one for one in yopp.containers() if one["yopp"]["state"] == state]


def running(yopp: Yopp, number: int) -> list[dict[str, Any]]:
    def so_many() -> list[dict[str, Any]]:
        found = in_state(yopp, "RUNNING")
        return found if len(found) == number else []

    return wait_until(so_many, what=f"{number} run")


def indices(containers: list[dict[str, Any]]) -> list[str]:
    return sorted(device.partition(":")[0] for one in containers for device in one["yopp"]["devices"])


def test_each_has_its_own_and_who_asks_for_none_sees_none(yopp: Yopp) -> None:
    up(yopp, 2)
    over = yopp.home / "over"
    job = yopp.start("run", "-n", "3", "--gpus", "1", "--memory", "64", "sh", "-c", UNTIL, str(over))
    assert indices(running(yopp, 2)) == ["0", "1"]
    assert yopp("run", "--memory", "64", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES").stdout == "-1\n"
    (node,) = yopp.json("node", "list")["nodes"]["node"]
    told = node["usedResource"]["resourceInformations"]["resourceInformation"]
    assert {one["name"]: one["value"] for one in told}["yarn.io/gpu"] == 2
    (application,) = (one for one in yopp.json("app", "list")["apps"]["app"] if one["state"] == "RUNNING")
    found = yopp.json("explain", application["id"])["explain"]
    assert [one["code"] for one in found["reasons"]] == ["NO_RESOURCE"]
    over.touch()
    assert job.wait(30) == 0
    assert job.stdout is not None
    said = sorted(line.split("] ")[-1] for line in job.stdout.read().splitlines())[:3]
    assert said in (["0", "0", "1"], ["0", "1", "1"]), "the third one has what was free first"


def test_after_the_death_of_its_nm_a_gpu_is_still_its_holders(yopp: Yopp) -> None:
    up(yopp, 2)
    over = yopp.home / "over"
    first = yopp.start("run", "-O", "--gpus", "1", "--memory", "64", "sh", "-c", UNTIL, str(over))
    assert indices(running(yopp, 1)) == ["0"]
    pid = yopp.json("status")["clusterInfo"]["yopp"]["nms"][0]["pid"]
    os.kill(pid, signal.SIGKILL)
    yopp("up", "--vcores", "4", "--memory", "1024")
    more = yopp.start("run", "-O", "-n", "2", "--gpus", "1", "--memory", "64", "sh", "-c", UNTIL, str(over))
    assert indices(running(yopp, 2)) == ["0", "1"], "the third waits"
    over.touch()
    assert (first.wait(30), more.wait(30)) == (0, 0)


def test_under_pausing_a_holder_is_killed_for_its_gpu_and_asked_for_again(yopp: Yopp) -> None:
    up(yopp, 1, f"-D{PAUSES}=true")
    over = yopp.home / "over"
    job = yopp.start("run", "-O", "--gpus", "1", "--memory", "64", "sh", "-c", UNTIL, str(over))
    (holder,) = running(yopp, 1)
    assert (
        yopp("run", "--gpus", "1", "--memory", "64", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES").stdout == "0\n"
    )
    (killed,) = (one for one in yopp.containers("-a") if one["id"] == holder["id"])
    assert killed["yopp"]["cause"] | {"forContainer": ""} == {
        "kind": "MAKE_ROOM",
        "forContainer": "",
        "forResource": "yarn.io/gpu",
    }
    over.touch()
    assert job.wait(30) == 0


def test_what_is_not_there_is_refused_with_what_to_type(yopp: Yopp) -> None:
    up(yopp, 1)
    too_many = yopp("run", "--gpus", "2", "true", code=1)
    assert "no node has more than 1 of yarn.io/gpu" in too_many.stderr
    unknown = yopp("run", "--resource", "fpga=1", "true", code=1)
    assert "fpga, which is not a resource type of this cluster" in unknown.stderr
    assert "name it in yarn.resource-types" in unknown.stderr
    assert yopp("run", "--resource", "license=1", "--memory", "64", "echo", "had it").stdout == "had it\n"
    yopp("pi", "--resource", "license=1", "2", "10")
    found = [one["yopp"]["resources"] for one in yopp.containers("-a", "--app", "last")]
    assert found == [{"license": 1}] * 3
    refused = yopp("pi", "--resource", "license", "2", "10", code=2)
    assert "an amount is a whole number" in refused.stderr and not refused.stdout


def test_the_kernel_keeps_a_container_from_gpus_that_are_not_its_own(yopp: Yopp) -> None:
    if os.getuid() != 0 or not os.access("/sys/fs/cgroup/devices/devices.deny", os.W_OK):
        pytest.skip("needs root, and the devices hierarchy of cgroup v1")
    allowed = gpus(2)
    nodes = [yopp.home / f"gpu{index}" for index in range(2)]
    for path, device in zip(nodes, allowed.split(","), strict=True):
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(195, int(device.partition(":")[2])))
    up(yopp, 2, "-Dyopp.nodemanager.gpu-isolation=cgroup")
    opened = "; ".join(f"true < {path}" for path in nodes)
    for number, refused in ((0, 2), (1, 1), (2, 0)):
        ended = yopp("run", "--gpus", str(number), "--memory", "64", "sh", "-c", opened, code=None)
        assert ended.stderr.count("Operation not permitted") == refused, ended.stderr
        assert ended.stderr.count("No such device") == 2 - refused, "allowed, and there is no such card"
    made = [path for path, *_ in os.walk("/sys/fs/cgroup/devices") if "gpus-" in path]
    yopp("down")
    assert made and not any(map(os.path.exists, made)), made
