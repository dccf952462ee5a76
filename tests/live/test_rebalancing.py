"""Rebalancing with real daemons: queued containers move to nodes that start them sooner, and no job loses any."""

from __future__ import annotations

import json
import socket
from collections import Counter
from typing import Any

import pytest

from .conftest import Yopp, wait_until

pytestmark = [pytest.mark.live, pytest.mark.timeout(150)]

QUEUE = "-Dyarn.nodemanager.opportunistic-containers-max-queue-length"
HOST = socket.gethostname()


def up(yopp: Yopp, nodes: int, *, memory: int = 512, queue: int = 40) -> None:
    yopp(
        "up", "--nodes", str(nodes), "--vcores", "1", "--memory", str(memory), f"{QUEUE}={queue}"
    )  # fmt: skip


def shed(yopp: Yopp) -> dict[int, int]:
    """How many each node gave up, by port."""
    found = yopp.json("node", "list")["nodes"]["node"]
    return {int(node["id"].rsplit(":", 1)[1]): node["yopp"]["shedContainers"] for node in found}


def node_status(yopp: Yopp, port: int) -> Any:
    return yopp.json("node", "status", f"{HOST}:{port}")


def ended(process: Any, timeout: float) -> Any:
    """The document that a job printed at its end."""
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    return json.loads(out)


def queued(yopp: Yopp) -> int:
    return sum(one["yopp"]["state"] == "QUEUED" for one in yopp.containers())


def test_a_long_queue_moves_to_nodes_that_join(yopp: Yopp) -> None:
    up(yopp, 1)
    yopp(
        "run", "-q", "-O", "--memory", "16", "--", "sleep", "0.4"
    )  # the node learns how long such things take
    gate = yopp.home / "gate"  # nothing ends before the nodes are there, however long that takes
    script = f"while [ ! -e {gate} ]; do sleep 0.02; done; sleep 0.4"
    job = yopp.start("run", "--json", "-n", "30", "-O", "--memory", "16", "--", "sh", "-c", script)
    wait_until(lambda: queued(yopp) >= 25, what="the queue of the first node is long")
    for _ in range(2):
        yopp("nm", "start", "--vcores", "1", "--memory", "512")
    wait_until(lambda: shed(yopp)[45454] >= 10, timeout=40, what="the others get some of it")
    gate.touch()
    tasks = ended(job, 60)["app"]["yopp"]["tasks"]
    assert [task["state"] for task in tasks] == ["SUCCEEDED"] * 30
    by_node = Counter(task["node"].rsplit(":", 1)[1] for task in tasks)
    assert set(by_node) == {"45454", "45455", "45456"}
    given_up = shed(yopp)
    preempted = [task["preemptions"] for task in tasks]
    assert sum(preempted) == sum(given_up.values()), "each of them came back to its master, once"
    assert max(preempted) <= 2, "none goes to and fro"
    assert all(task["failedAttempts"] == 0 for task in tasks), "and none of them counts as a failure"
    figures = node_status(yopp, 45454)["node"]["yopp"]
    assert figures["shedContainers"] == given_up[45454]
    assert figures["queueWaitEstimates"] >= 1
    assert figures["queueWaitErrorMs"] >= 0 and figures["meanQueueWaitMs"] > 0


def test_a_burst_onto_idle_nodes_sheds_nothing(yopp: Yopp) -> None:
    up(yopp, 2, queue=10)
    document = json.loads(
        yopp("run", "--json", "-n", "20", "-O", "--memory", "16", "--", "sleep", "0.1").stdout
    )
    tasks = document["app"]["yopp"]["tasks"]
    assert [task["state"] for task in tasks] == ["SUCCEEDED"] * 20
    assert sum(shed(yopp).values()) == 0
    assert sum(task["preemptions"] for task in tasks) == 0


def test_two_hundred_mixed_while_guaranteed_jobs_come_and_go_and_a_node_restarts(yopp: Yopp) -> None:
    """The judging line: 200 x `sleep 0.2`, half of them opportunistic, over three nodes; each succeeds once."""
    up(yopp, 2, memory=1024, queue=60)
    shell = ("dshell", "--json", "-n", "100", "--container-memory", "10")
    guaranteed = ("run", "--json", "-G", "-n", "2", "--memory", "32", "--", "sleep", "0.1")
    halves = [yopp.start(*shell, "-G", "--", "sleep", "0.2")]
    wait_until(yopp.containers, what="the guaranteed half has begun")
    gate = (
        yopp.home / "gate"
    )  # none of the other half ends before the third node is there, however long that takes
    script = f"until [ -e {gate} ]; do sleep 0.02; done; sleep 0.2"
    halves.append(
        yopp.start(*shell, "-O", "--shell-command", script)
    )  # it is held back until the first is through
    come_and_go = [yopp.start(*guaranteed)]
    yopp("nm", "restart", "45455")
    wait_until(lambda: queued(yopp) >= 50, what="the queues of two nodes are long", timeout=40)
    yopp("nm", "start", "--vcores", "1", "--memory", "1024")
    gate.touch()
    come_and_go += [yopp.start(*guaranteed) for _ in range(2)]
    for job in come_and_go:
        ended(job, 40)
    tasks = [task for half in halves for task in ended(half, 60)["app"]["yopp"]["tasks"]]
    assert Counter(task["state"] for task in tasks) == {"SUCCEEDED": 200}
    assert Counter(task["executionType"] for task in tasks) == {"OPPORTUNISTIC": 100, "GUARANTEED": 100}
    assert sum(task["failedAttempts"] for task in tasks) == 0
    assert len({task["container"] for task in tasks}) == 200
    assert len({task["node"] for task in tasks}) == 3
    assert sum(shed(yopp).values()) >= 1, "the third node was given some of what the others had queued"


def test_racks_and_labels_of_nodes_are_honoured(yopp: Yopp) -> None:
    yopp(
        "up", "--nodes", "3", "--vcores", "1", "--memory", "512", f"{QUEUE}=10",
        "-Dyopp.nodemanager.racks=45455=/east, /west", "-Dyopp.nodemanager.node-labels=45456=gpu",
    )  # fmt: skip

    def ports(*args: str) -> set[str]:
        tasks = yopp.json(*args)["app"]["yopp"]["tasks"]
        return {task["node"].rsplit(":", 1)[1] for task in tasks}

    shell = ("dshell", "-n", "4", "-O", "--shell-command", "sleep 0.1")
    assert ports(*shell, "--node-label-expression", "gpu") == {"45456"}
    assert ports(*shell) <= {"45454", "45455"}
    nodes = {node["id"][-5:]: node["rack"] for node in yopp.json("node", "list")["nodes"]["node"]}
    assert nodes == {"45454": "/west", "45455": "/east", "45456": "/west"}
    refused = yopp(*shell, "--node-label-expression", "fpga", code=None)
    assert refused.returncode != 0
    assert "no node has the label fpga" in refused.stderr and "gpu" in refused.stderr
