"""``container shell-into``, ``metrics``, ``app tags``, ``nm drain`` and the ways of ``up``, over the real program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executor.linux.node import running

from .conftest import Yopp, a_yopp, wait_until


@pytest.fixture(scope="module")
def two() -> Iterator[Yopp]:
    """A cluster of two small nodes for all tests here."""
    with a_yopp(Yopp) as program:
        program("up", "--nodes", "2", "--vcores", "2", "--memory", "512")
        yield program


@pytest.fixture
def sleeper(two: Yopp) -> str:
    """A container that sleeps, alone in its application: that of the last test, if it has outlived it."""
    left = [one for one in two.containers("--name", "sleeper", "--state", "RUNNING") if not one["yopp"]["am"]]
    if left:
        return str(left[0]["id"])
    size = ["--name", "sleeper", "--memory", "64"]
    app = two("run", "-d", "-q", *size, "--cwd", "/usr", "-e", "MINE=a b", "sleep", "300").stdout.strip()

    def task() -> str:
        found = two.containers("--app", app, "--state", "RUNNING")
        return next((str(one["id"]) for one in found if not one["yopp"]["am"]), "")

    return str(wait_until(task, what="the sleeper runs"))


def into(two: Yopp, one: str, script: str, **more: int | None) -> subprocess.CompletedProcess[str]:
    return two("container", "shell-into", one, "--", "sh", "-c", script, **more)


def test_a_command_has_the_containers_directory_environment_and_groups(two: Yopp, sleeper: str) -> None:
    said = into(two, sleeper, 'pwd; echo "$MINE"; echo $CONTAINER_ID; cat /proc/self/cgroup; exit 7', code=7)
    lines = said.stdout.splitlines()
    assert lines[:3] == ["/usr", "a b", sleeper]
    command = two.containers("--state", "RUNNING")
    pid = next(one["yopp"]["pid"] for one in command if one["id"] == sleeper)
    assert lines[3:] == Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    assert two("container", "-shell", sleeper, "sh", stdin=subprocess.DEVNULL).stdout == ""
    assert into(two, sleeper, "kill -USR1 $$", code=128 + signal.SIGUSR1).stdout == ""
    assert two("container", "shell-into", sleeper, "--", "no-such", code=127).stderr.startswith("error: ")
    assert two("container", "shell-into", sleeper, "--", "/etc", code=126).stderr.startswith("error: ")


def test_it_leaves_no_process_and_is_bounded_with_the_container(two: Yopp, sleeper: str) -> None:
    said = into(two, sleeper, "sleep 61 & echo $!; setsid sleep 62 & echo $!; exit 3", code=3)
    assert not [pid for pid in map(int, said.stdout.split()) if running(pid)]
    document = two.json("container", "status", sleeper)["container"]
    assert document["state"] == "RUNNING"
    if "memory" not in document["yopp"]["cgroup"] and not os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        pytest.skip("nothing bounds memory here")
    greedy = "head -c 200m /dev/zero | tail -c 200m | wc -c"  # 64 MB are its limit
    assert into(two, sleeper, f"{greedy}; exit 0", code=None).stdout.strip() != str(200 << 20)
    assert two.json("container", "status", sleeper)["container"]["state"] == "RUNNING"


def test_the_containers_end_is_its_end(two: Yopp, sleeper: str) -> None:
    inside = two.start(
        "container", "shell-into", sleeper, "--", "sh", "-c", "trap '' TERM HUP; echo in; sleep 60; sleep 60"
    )
    assert inside.stdout is not None
    assert inside.stdout.readline() == "in\n"
    two("container", "kill", sleeper)
    _, err = inside.communicate(timeout=30)
    assert inside.returncode == 137
    assert err == f"{sleeper} has ended, with all its processes\n"
    refused = two("container", "shell-into", sleeper, code=1).stderr
    assert f"{sleeper} has ended" in refused


def test_a_signal_to_it_ends_what_runs_inside(two: Yopp, sleeper: str) -> None:
    inside = two.start("container", "shell-into", sleeper, "--", "sh", "-c", "sleep 63 & echo $!; wait")
    assert inside.stdout is not None
    pid = int(inside.stdout.readline())
    inside.send_signal(signal.SIGTERM)
    inside.communicate(timeout=30)
    assert inside.returncode == 128 + signal.SIGTERM
    assert not running(pid)


def test_who_is_paused_or_waits_is_not_entered(two: Yopp, sleeper: str) -> None:
    two("container", "pause", sleeper)
    refused = two("container", "shell-into", sleeper, code=1).stderr.splitlines()
    assert refused[0] == f"error: {sleeper} is paused"
    assert refused[2] == f"  hint: yopp container resume {sleeper}"
    two("container", "resume", sleeper)
    assert two("container", "shell-into", "-", code=2).stderr.startswith("error: ")


def test_metrics_are_those_of_the_web_server(two: Yopp) -> None:
    web = _web_address(two)

    def served(path: str) -> str:
        with urllib.request.urlopen(f"http://{web}/{path}", timeout=20) as answer:
            return str(answer.read().decode())

    # In the same second: what is measured is another figure in the next. A process of its own may take longer.
    def printed_is_served() -> bool:
        return _without_process(two.look("metrics")) == _without_process(served("metrics"))

    def beans_are_those_served() -> bool:
        printed = json.loads(two.look("metrics", "--query", "Hadoop:*Metrics*", "--json"))
        return bool(printed == json.loads(served("jmx?qry=Hadoop:*Metrics*")))

    wait_until(printed_is_served, what="the same figures")
    wait_until(beans_are_those_served, what="the same beans")
    printed = two("metrics").stdout
    assert 'yopp_daemon_cpu_seconds_total{daemon="resourcemanager"}' in printed
    nodes = two("metrics", "all").stdout
    assert nodes.count("yopp_node_memory_capacity_bytes{") == 2
    assert {one["tag.Node"] for one in two.json("metrics", "all")["beans"]} == set(
        two("node", "list", "-q").stdout.split()
    )
    assert two("metrics", "nosuch", code=66).stdout == ""


def _web_address(two: Yopp) -> str:
    said = two("up").stdout
    return said.partition("http://")[2].partition("/")[0]


def _without_process(text: str) -> list[str]:
    return [line for line in text.splitlines() if "yopp_daemon_" not in line]


def test_tags_can_be_changed_while_it_lives_and_found_by(two: Yopp, sleeper: str) -> None:
    app = two.json("container", "status", sleeper)["container"]["yopp"]["app"]
    two("app", "tags", app, "nightly", "big")
    two("app", "tags", app, "--add", "web", "--remove", "big")
    assert two("app", "tags", app).stdout.split() == ["nightly", "web"]
    assert two("app", "list", "--tag", "web", "-q").stdout.split() == [app]
    assert two("ps", "--tag", "web,other", "-q").stdout.split()[-1] == sleeper
    two("app", "tags", app, "--clear", "--dry-run")
    assert two.json("app", "tags", app)["app"]["applicationTags"] == "nightly,web"
    for wrong in (["x,y"], ["ä"], ["x" * 101], [str(one) for one in range(11)]):
        assert len(two("app", "tags", app, *wrong, code=1).stderr.splitlines()) == 3
    two("app", "kill", app)
    assert "cannot be changed" in two("app", "tags", app, "late", code=1).stderr


def test_a_node_is_drained_and_used_again_by_nm(two: Yopp) -> None:
    assert "which node?" in two("nm", "drain", code=2).stderr
    two("app", "kill", "all", "-y")
    node = two("node", "list", "-q").stdout.split()[-1]
    assert two("nm", "drain", node.rpartition(":")[2], "--timeout", "20").stdout == f"{node} DECOMMISSIONED\n"
    assert two("nm", "resume").stdout == f"{node} RUNNING\n", "the drained one of both"
    assert "which node?" in two("nm", "resume", code=2).stderr
    assert "2 vcores" in two("node", "resource", node, "--vcores", "2").stdout


def test_up_without_waiting_returns_before_the_cluster_is_there(yopp: Yopp) -> None:
    assert yopp("up", "--no-wait", "--memory", "256", "--vcores", "1").stdout.startswith("starting: ")
    wait_until(lambda: yopp("status", code=None).returncode == 0, what="the cluster is ready")
    assert yopp("up", "--no-wait").stdout.startswith("up: rm ")  # it serves: as without
    assert yopp("up", "--no-wait", "--foreground", code=2).stdout == ""
    assert (
        "do not fit"
        in yopp("up", "--no-wait", "--nodes", "100000", "--run-dir", f"{yopp.home}/r2", code=1).stderr
    )
