"""Queues on real daemons: a queue gets its share back from another, and users and jobs share opportunistic room."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from .conftest import Yopp, wait_until

pytestmark = pytest.mark.live

SAMPLE = Path(__file__).parents[2] / "configs" / "queues.toml"
NODE = ("--vcores", "2", "--memory", "1024")
PREEMPTION = "yarn.resourcemanager.monitor.capacity.preemption"


def queues(yopp: Yopp) -> dict[str, Any]:
    return {one["queueName"]: one for one in yopp.json("queue", "list")["queues"]["queue"]}


def live(yopp: Yopp, job: str) -> list[dict[str, Any]]:
    """The containers of a job that run."""
    return [one for one in yopp.containers("--app", job) if one["yopp"]["state"] == "RUNNING"]


def submitted(yopp: Yopp, *words: str, **more: Any) -> str:
    """A detached job's id."""
    return str(json.loads(yopp(words[0], "--json", *words[1:], **more).stdout)["app"]["id"])


def test_a_queue_below_its_share_preempts_and_the_other_job_ends_well(yopp: Yopp) -> None:
    yopp("up", *NODE, "--conf", str(SAMPLE), f"-D{PREEMPTION}.monitoring_interval=200",
         f"-D{PREEMPTION}.max_wait_before_kill=300")  # fmt: skip
    flag = yopp.home / "go"
    script = f"until [ -e {flag} ]; do sleep 0.05; done"
    dev = submitted(
        yopp, "dshell", "-d", "--shell-command", script, "--num-containers", "2", "--container-memory", "50"
    )
    wait_until(lambda: len(live(yopp, dev)) == 2, what="dev has the whole node")
    assert queues(yopp)["dev"]["usedCapacity"] > 300
    prod = yopp("dshell", "--shell-command", "true", "--queue", "prod", "--container-memory", "50")
    assert "1 ok" in prod.stderr
    flag.touch()
    assert yopp("wait", dev, "--timeout", "30").returncode == 0
    summary = yopp.json("app", "status", dev)["app"]["yopp"]["summary"]
    assert (summary["completed"], summary["failed"], summary["preempted"]) == (2, 0, 1)
    ended = yopp.containers("-a", "--app", dev)
    [victim] = [one for one in ended if one["exitCode"] == -102]
    assert "queue dev is above its capacity" in victim["diagnostics"]
    assert queues(yopp)["root"]["resourcesUsed"]["vCores"] == 0


def test_queues_refuse_and_jobs_move(yopp: Yopp) -> None:
    yopp("up", *NODE, "--conf", str(SAMPLE))
    refused = yopp("dshell", "--shell-command", "true", "--queue", "pord", code=66)
    assert "unknown queue: pord" in refused.stderr and "did you mean prod?" in refused.stderr
    job = submitted(yopp, "run", "-d", "sleep", "300")
    wait_until(lambda: live(yopp, job), what="it runs")
    assert queues(yopp)["dev"]["resourcesUsed"]["vCores"] == 1, "the mapping's queue"
    assert yopp("app", "-movetoqueue", job, "-queue", "prod").stdout == f"{job} is in queue prod\n"
    shown = queues(yopp)
    assert (shown["dev"]["resourcesUsed"]["vCores"], shown["prod"]["resourcesUsed"]["vCores"]) == (0, 1)
    assert shown["prod"]["users"]["user"][0]["numActiveApplications"] == 1
    assert yopp.json("app", "priority", job, "4")["app"]["priority"] == 4
    yopp("app", "kill", job)
    bad = yopp(
        "config", "check", "--conf", str(SAMPLE), "-Dyarn.scheduler.capacity.root.dev.capacity=40", code=78
    )
    assert "sum to 110 instead of 100" in bad.stderr


@pytest.fixture
def shared(yopp: Yopp) -> Yopp:
    """A cluster in which root submits for users whom the host need not know: all of it runs as root."""
    if os.geteuid() != 0:
        pytest.skip("only root may submit for others")
    who = "-Dyarn.nodemanager.linux-container-executor.nonsecure-mode"
    yopp("up", *NODE, f"{who}.limit-users=true", f"{who}.local-user=root")
    return yopp


def test_g12_who_came_first_with_three_jobs_does_not_keep_the_node(shared: Yopp) -> None:
    """ada's three jobs fill the node and its queue. bob's one gets his half of what comes free: in turn, he would
    have a quarter, and in order of arrival nothing until ada is done."""
    log, go = shared.home / "order", shared.home / "go"

    def job(user: str, tasks: int) -> subprocess.Popen[str]:
        words = ("run", "-O", "-n", str(tasks), "--memory", "10", "--name", user)
        shared.environment["HADOOP_USER_NAME"] = user
        # The first two end; the others wait until bob wants something, too.
        until = f"[ $YOPP_TASK -le 2 ] || until [ -e {go} ]; do sleep 0.02; done"
        return shared.start(*words, "sh", "-c", f"{until}; echo {user} >> {log}; sleep 0.1")

    jobs = [job("ada", 40) for _ in range(3)]
    wait_until(lambda: log.exists() and len(log.read_text().split()) >= 2, what="ada's run")
    wait_until(
        lambda: queues(shared)["default"]["yopp"]["opportunistic"]["containers"] >= 10, what="and queue"
    )
    jobs.append(job("bob", 40))
    del shared.environment["HADOOP_USER_NAME"]

    def users() -> set[str]:
        return {one["username"] for one in queues(shared)["default"]["users"]["user"]}

    wait_until(lambda: users() == {"ada", "bob"}, what="both are users of the queue")
    go.touch()
    for one in jobs:
        out, err = one.communicate(timeout=120)
        assert one.returncode == 0, out + err
    order = log.read_text().split()
    assert Counter(order) == {"ada": 120, "bob": 40}
    since = order[order.index("bob") :]
    until_bob_is_done = since[: len(since) - since[::-1].index("bob")]
    share = until_bob_is_done.count("bob") / len(until_bob_is_done)
    assert 0.4 <= share <= 0.62, f"bob had {share:.2f} while both wanted"


def test_g12_a_queue_full_of_anothers_long_tasks_makes_room(shared: Yopp) -> None:
    """ada holds the node and all ten places with tasks that never end; bob's few run as soon as one of them does."""
    flag = shared.home / "go"
    shared.environment["HADOOP_USER_NAME"] = "ada"
    script = f"until [ -e {flag} ]; do sleep 0.05; done"
    first = shared.start("run", "-O", "-n", "12", "--memory", "10", "sh", "-c", script)
    held = {"QUEUED": 10, "RUNNING": 2}
    wait_until(
        lambda: Counter(one["yopp"]["state"] for one in shared.containers()) == held, what="all is full"
    )
    shared.environment["HADOOP_USER_NAME"] = "bob"
    second = shared.start("run", "-O", "-n", "4", "--memory", "10", "true")
    del shared.environment["HADOOP_USER_NAME"]

    def queued() -> Counter[str]:
        return Counter(one["user"] for one in shared.containers() if one["yopp"]["state"] == "QUEUED")

    wait_until(lambda: queued() == {"ada": 6, "bob": 4}, what="bob has places in the queue")
    flag.touch()
    out, err = second.communicate(timeout=30)
    assert second.returncode == 0, out + err
    out, err = first.communicate(timeout=60)
    assert first.returncode == 0, out + err
    app = shared.json("app", "list", "-a")["apps"]["app"][0]
    summary = app["yopp"]["summary"]
    assert (summary["completed"], summary["failed"], summary["preempted"]) == (12, 0, 4)


def test_queues_are_read_again_kept_over_a_restart_and_refused_where_one_has_applications(yopp: Yopp) -> None:
    site = yopp.home / "queues.toml"
    halves = '[yarn.scheduler.capacity]\nroot.queues = "a,b"\nroot.a.capacity = 50\nroot.b.capacity = 50\n'
    site.write_text(halves)
    shipped = SAMPLE.with_name("yarn-site.toml")
    yopp("up", *NODE, "--conf", str(shipped), "--conf", str(site))
    site.write_text(halves.replace('"a,b"', '"a,b,c"').replace("= 50", "= 25") + "root.c.capacity = 50\n")
    assert yopp("rmadmin", "-refreshQueues", "--dry-run").stdout.splitlines() == [
        "would be added: root.c",
        "would be changed: root.a, root.b",
    ]
    assert set(queues(yopp)) == {"root", "a", "b"}
    assert yopp("rmadmin", "-refreshQueues").stdout.splitlines()[0] == "added: root.c"
    assert queues(yopp)["c"]["capacity"] == 50
    yopp("rm", "restart")
    assert set(queues(yopp)) == {"root", "a", "b", "c"}, "the next start begins with them"
    job = submitted(
        yopp, "dshell", "-d", "--shell-command", "sleep 60", "--queue", "c", "--container-memory", "50"
    )
    site.write_text(halves)
    refused = yopp("rmadmin", "-refreshQueues", code=1)
    assert "root.c cannot be removed" in refused.stderr and job in refused.stderr
    site.write_text(halves.replace("= 50", "= 60", 1))
    assert "sum to 110" in yopp("rmadmin", "-refreshQueues", code=78).stderr
    assert queues(yopp)["c"]["capacity"] == 50
    yopp("application", "-appId", job, "-updateLifetime", "1")
    yopp("wait", job, "--timeout", "30", code=143)
    site.write_text(halves)
    assert yopp("rmadmin", "-refreshQueues").stdout.splitlines()[0] == "removed: root.c"
