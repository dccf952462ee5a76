"""Why and when, asked of one real cluster: numbers that are true, estimates that come true, what promotions cost."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from yarnopp_cli.records.ids import dotted

from .conftest import Yopp, a_yopp, wait_until

pytestmark = pytest.mark.live

TOLERANCE_MS = 1200
"""By how much an estimate of equal tasks may be wrong: starting takes its time, and other tests run beside this one.
By as much as the tasks themselves took longer it may be wrong, too."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Yopp]:
    """One cluster for all of them: 2 vcores, 1024 MB, a queue of 10. The last test ends its ResourceManager."""
    with a_yopp(Yopp) as program:
        program("up", "--vcores", "2", "--memory", "1024")
        yield program


@pytest.fixture(autouse=True)
def nothing_runs_before(cluster: Yopp) -> None:
    cluster("app", "kill", "all", "-y", code=None)
    wait_until(lambda: not cluster.containers(), what="it is empty")


def submit(yopp: Yopp, *words: str) -> str:
    return yopp("run", "-q", "-d", "--memory", "64", *words).stdout.split()[-1]


def state(yopp: Yopp, name: str, *, app: str) -> list[dict[str, Any]]:
    return [one for one in yopp.containers("--app", app) if one["yopp"]["state"] == name]


def full(yopp: Yopp, app: str, queued: int) -> list[str]:
    """Wait until two run and so many queue; the ids of those that queue, in their order."""
    wait_until(lambda: len(state(yopp, "RUNNING", app=app)) >= 2, what="two run")
    return queueing(yopp, app, queued)


def queueing(yopp: Yopp, app: str, number: int) -> list[str]:
    """Wait until so many queue; their ids in their order."""

    def those() -> list[dict[str, Any]]:
        found = state(yopp, "QUEUED", app=app)
        return found if len(found) == number else []

    found = wait_until(those, what=f"{number} queue")
    return [one["id"] for one in sorted(found, key=lambda one: one["yopp"]["position"])]


@pytest.mark.parametrize("basis", ["declared", "median-task-time"])
def test_the_first_and_the_last_start_when_it_was_said(cluster: Yopp, basis: str) -> None:
    """Six equal tasks of 3 s on two vcores: by what was declared before any has ended, by what was learned after.

    Both explanations are asked for before the next task ends.
    """
    declared = ["--expect", "3s"] if basis == "declared" else []
    app = submit(cluster, "-n", "6", "-O", *declared, "sleep", "3")
    ahead = 2 if declared else 4
    last = full(cluster, app, 4)[-1] if declared else queueing(cluster, app, 2)[-1]
    found, one = (json.loads(cluster.look("explain", name, "--json"))["explain"] for name in (app, last))
    assert found["estimate"] == basis and found["outlived"] == []
    assert (found["queueLength"], found["position"]) == (6 - ahead, 1)
    cluster("wait", app)
    waited = [one["yopp"] for one in cluster.containers("-a", "--app", app) if not one["yopp"]["am"]]
    starts = sorted(times["startedAt"] for times in waited)
    longest = sorted(times["finishedAt"] - times["startedAt"] for times in waited)[
        -2:
    ]  # the last one waits for two
    tolerance = TOLERANCE_MS + sum(longest) - 2 * 3000
    assert abs(starts[ahead] - found["estimatedStart"]) < tolerance
    assert abs(starts[-1] - found["estimatedLast"]) < tolerance
    assert abs(starts[-1] - one["estimatedStart"]) < tolerance
    for times in waited:
        assert times["waitedSinceEligibleMs"] == times["startedAt"] - times["eligibleAt"]
        assert times["waitedSinceSubmitMs"] == times["startedAt"] - times["submittedAt"]
        assert times["submittedAt"] <= times["eligibleAt"] <= times["allocatedAt"]
    report = cluster.json("report", app)["report"]
    assert report["waitedSinceEligibleMs"]["max"] == max(one["waitedSinceEligibleMs"] for one in waited)
    assert report["waitedSinceSubmitMs"]["max"] == max(one["waitedSinceSubmitMs"] for one in waited)


def test_the_place_is_the_same_whoever_is_asked_and_comes_true_where_the_shortest_goes_first() -> None:
    """`ps`, and `explain` of the container, of its application and of the node."""
    with a_yopp(Yopp) as program:
        order = "-Dyopp.nodemanager.opportunistic-queue.policy=SHORTEST_FIRST"
        program("up", "--vcores", "1", "--memory", "1024", order)
        submit(program, "-O", "--expect", "4s", "sleep", "4")
        long, short = (submit(program, "-O", "--expect", each, "sleep", "1") for each in ("300s", "1s"))
        wait_until(
            lambda: len([one for one in program.containers() if one["yopp"]["position"]]) == 2,
            what="two wait",
        )
        for app, place in ((short, 1), (long, 2)):
            (one,) = program.containers("--app", app)
            told = [program.json("explain", name)["explain"] for name in (app, one["id"])]
            assert [one["yopp"]["position"], *(each["position"] for each in told)] == [place] * 3
            assert {each["queueLength"] for each in told} == {2}
            (estimate,) = {round(each["estimatedStart"], -3) for each in told[:1]}
            assert abs(told[1]["estimatedStart"] - estimate) < 1500
        node = program.json("explain", "45454")["explain"]
        assert dotted(program.containers("--app", short)[0]["id"]) in node["sentence"]
        program("wait", short, long)
        first, second = (
            program.containers("-a", "--app", app)[0]["yopp"]["startedAt"] for app in (short, long)
        )
        assert first < second


def test_an_application_with_queued_containers_says_the_numbers_itself(cluster: Yopp) -> None:
    app = submit(cluster, "-n", "14", "-O", "--expect", "60s", "sleep", "60")
    first = full(cluster, app, 10)[0]
    text = " ".join(cluster("explain", app).stdout.split())
    assert "2 running, 10 queued and 2 requested and not granted yet" in text
    assert (
        "is 1st of 10. Each needs 1 vcore, 64 MB; free: 0 vcores, 896 MB: it waits for a vcore, held by 2 "
        in text
    )
    assert "its queue is full (10 of 10 places)" in text
    assert "The first may start in about" in text and "the last of the 12 in about 6 min (declared 1" in text
    assert f"`yopp container promote {first}`" in text
    status = cluster("container", "status", first).stdout
    assert "since it was eligible (requested by its master)" in status and "1.0 min" not in status


def test_promotion_says_beforehand_and_afterwards_whom_it_preempts(cluster: Yopp) -> None:
    app = submit(cluster, "-n", "5", "-O", "sleep", "60")
    one, two, three = full(cluster, app, 3)
    before = cluster("container", "list", "--json").stdout.count("OPPORTUNISTIC")
    told = cluster.json("container", "promote", "--dry-run", one)["container"]["yopp"]["dryRun"]
    assert cluster("container", "list", "--json").stdout.count("OPPORTUNISTIC") == before, (
        "nothing was changed"
    )
    [victim] = told["preempts"]
    assert victim["how"] == "kill" and f"kill container {dotted(victim['id'])}." in told["effect"]
    promoted = cluster("container", "promote", one)
    assert promoted.stdout == f"{one} GUARANTEED\n"
    assert f"{victim['id']} was killed to make room (opportunistic, had run" in promoted.stderr
    assert cluster.json("container", "status", victim["id"])["container"]["exitCode"] == -108
    second = cluster("container", "promote", "--json", two)
    assert '"preempted":[{"id":"container_' in second.stdout and '"waitsFor":""' in second.stdout
    refused = cluster("container", "promote", "--timeout", "0.5s", three, code=124)
    assert (
        "has promised 2 of 2 vcores" in refused.stderr
        and "to 2 guaranteed containers (oldest" in refused.stderr
    )
    dry = cluster("container", "promote", "--dry-run", three).stdout
    assert "waits until a guaranteed container ends" in dry
    assert "is preempted (paused or killed)" in cluster("container", "demote", "--dry-run", two).stdout
    submit(cluster, "-Dyopp.resourcemanager.hosted-masters=false", "true")
    master = wait_until(
        lambda: next((one["id"] for one in cluster.containers() if one["yopp"]["am"]), None), what="a master"
    )
    assert "its application's master" in cluster("container", "demote", "--dry-run", master, code=1).stderr
    assert "it is QUEUED" in cluster("container", "pause", "--dry-run", three, code=1).stderr


def test_a_detached_job_says_that_it_runs_and_where_its_output_is(cluster: Yopp) -> None:
    told = cluster("run", "-d", "-n", "4", "-O", "--memory", "64", "sleep", "60").stderr
    app = cluster.json("app", "list")["apps"]["app"][-1]
    line = told.splitlines()[-1]
    if line.startswith("ACCEPTED"):  # a machine that is busy takes longer than people are kept
        assert line.endswith(f": `yopp explain {app['id']}` shows what it waits for")
    else:
        assert re.match(
            r"RUNNING, its master in the ResourceManager; containers: \d (run|queu|pend)[^;]+; output under /",
            line,
        )
        assert Path(line.rpartition(" ")[2]).is_dir() and line.endswith(app["id"])
    assert len(cluster("run", "-q", "-d", "true").stderr) == 0


def test_pause_says_beforehand_who_starts_then(cluster: Yopp) -> None:
    app = submit(cluster, "-n", "3", "-O", "sleep", "60")
    [waits] = full(cluster, app, 1)
    running = state(cluster, "RUNNING", app=app)[-1]["id"]
    told = cluster("container", "pause", "--dry-run", running).stdout
    assert f"With its 1 vcore, container {dotted(waits)} starts, which is queued" in told
    cluster("container", "pause", running)
    assert "PAUSED since 20" in cluster("container", "status", running).stdout
    wait_until(
        lambda: cluster.json("container", "status", waits)["container"]["state"] == "RUNNING",
        what="it starts",
    )
    found = cluster.json("explain", app)["explain"]
    assert "PAUSED_BY_PERSON" in [one["code"] for one in found["reasons"]]
    assert found["actions"][0]["command"] == f"yopp container resume {running}"


def test_a_drained_node_says_how_it_is_used_again(cluster: Yopp) -> None:
    cluster("node", "drain", "45454")
    app = submit(cluster, "true")

    def reasons() -> list[str]:
        return [one["code"] for one in cluster.json("explain", app)["explain"]["reasons"]]

    wait_until(lambda: reasons() == ["NODE_DRAINING"], what="it waits for the node")
    command = cluster.json("explain", app)["explain"]["actions"][0]["command"].split()
    assert command[:3] == ["yopp", "node", "resume"]
    cluster(*command[1:])
    cluster("wait", app)


def test_a_node_without_its_resourcemanager_is_said_to_be_alive(cluster: Yopp) -> None:
    rm = int((cluster.run_dir / "rm.pid").read_text())
    os.kill(rm, signal.SIGKILL)

    def node() -> Any:
        return cluster.json("status", code=4)["clusterInfo"]["yopp"]["nms"][0]

    wait_until(lambda: node()["state"] == "DISCONNECTED", what="it has noticed")
    assert node()["rmUnreachableSince"] > 0 and node()["vcores"] == 2
    told = cluster("status", code=4)
    assert "has not reached the ResourceManager since 20" in told.stdout and "NEW" not in told.stdout
    assert "part of a cluster is running here" in cluster().stdout
    cluster("up")
    assert cluster.json("status")["clusterInfo"]["yopp"]["nms"][0]["state"] == "RUNNING"
