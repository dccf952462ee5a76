"""What people do to a cluster that nobody should: stop its daemons, start it from everywhere at once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from yarnopp_cli.cluster.rundir import RunDir
from yarnopp_cli.jobs.client import NODES_SECONDS, START_SECONDS

from .conftest import Yopp, wait_until

pytestmark = pytest.mark.live


def daemon(yopp: Yopp, name: str) -> int:
    """The pid of a daemon of this cluster."""
    return int((yopp.run_dir / f"{name}.pid").read_text().split()[0])


def test_looking_does_not_wait_for_a_node_that_stands_still(cluster: Yopp) -> None:
    cluster("run", "--detach", "sleep", "100")
    wait_until(lambda: [one for one in cluster.containers() if one["yopp"]["command"] == ["sleep", "100"]])
    node = daemon(cluster, "nm-45454")
    os.kill(node, signal.SIGSTOP)
    try:
        shown = cluster("ps")  # the node goes on only when this has ended
        assert "sleep 100" in shown.stdout
    finally:
        os.kill(node, signal.SIGCONT)


def test_daemons_that_were_stopped_end_in_order(cluster: Yopp) -> None:
    for name in ("rm", "nm-45454"):
        os.kill(daemon(cluster, name), signal.SIGSTOP)
    assert "ended rm, nm-45454" in cluster("down").stdout  # without --force: by SIGCONT, not by SIGKILL


@pytest.mark.parametrize("names", [("rm",), ("rm", "nm-45454"), ("nm-45454",)], ids=" ".join)
def test_daemons_that_were_stopped_hear_what_was_sent_before_they_judge(
    cluster: Yopp, names: tuple[str, ...]
) -> None:
    cluster("run", "--detach", "-n", "2", "sleep", "100")
    wait_until(lambda: len(cluster.containers()) == 2)
    before = cluster.json("node", "list")["nodes"]["node"][0]["lastHealthUpdate"]
    for name in names:
        os.kill(daemon(cluster, name), signal.SIGSTOP)
    time.sleep(4.5)  # that is how long they are stopped: a node is silent after 3 s
    for name in names:
        os.kill(daemon(cluster, name), signal.SIGCONT)
    wait_until(lambda: cluster.json("node", "list")["nodes"]["node"][0]["lastHealthUpdate"] > before + 4000)
    told = cluster.look("events")
    assert ("NodeSilent" in told) == ("rm" not in names), told
    assert len(cluster.containers()) == 2


STARTER = """
import sys
from yarnopp_cli.cluster.launching import Launch, daemon_spec
from yarnopp_cli.machine.life import Plan, PlannedNode
from yarnopp_cli.cluster.rundir import RunDir
run_dir = RunDir.of(sys.argv[1])
with run_dir.lock():
    print("starts", flush=True)
    sys.stdin.readline()
    plan = Plan((PlannedNode(45454, 1024, 2),))
    launch = Launch(run_dir, [daemon_spec(run_dir, "nm-45454", plan)], timeout=30)
    launch.begin()
    launch.finish()
"""


def starts_a_node(yopp: Yopp) -> subprocess.Popen[str]:
    """An RM, and a program that holds the lock of the run directory; told so, it starts a node."""
    yopp("rm", "start")
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(yopp.run_dir)], env=yopp.environment, cwd=yopp.home, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    yopp.started.append(starter)
    assert starter.stdout is not None and starter.stdout.readline() == "starts\n"
    return starter


def test_a_job_that_comes_while_the_cluster_starts_says_nothing_of_missing_nodes(yopp: Yopp) -> None:
    """However long the start takes: the starter holds the lock of the run directory for longer than a job waits for
    nodes, and a node is there only afterwards."""
    starter = starts_a_node(yopp)
    job = yopp.start("run", "echo", "there")
    wait_until(lambda: yopp.json("app", "list")["apps"])
    asked = time.monotonic()
    wait_until(lambda: time.monotonic() > asked + NODES_SECONDS + 0.5, what="a job's patience is over")
    assert starter.communicate("\n", timeout=60)[1] == "" and starter.returncode == 0
    out, err = job.communicate(timeout=60)
    assert (out, err, job.returncode) == ("there\n", "", 0)


def hindered(yopp: Yopp, daemon: str, line: str) -> dict[str, str]:
    """The environment in which such a daemon begins with this line of Python."""
    (yopp.home / "sitecustomize.py").write_text(
        f"import signal, sys, time\nif {daemon!r} in sys.orig_argv:\n    {line}\n"
    )
    path = os.pathsep.join(filter(None, (str(yopp.home), yopp.environment.get("PYTHONPATH"))))
    return {"PYTHONPATH": path}


@pytest.mark.parametrize(
    ("daemon", "name", "seconds"), [("resourcemanager", "rm", "1"), ("nodemanager", "nm-45454", "8")]
)
def test_a_cluster_that_does_not_start_within_a_jobs_time_ends(
    yopp: Yopp, daemon: str, name: str, seconds: str
) -> None:
    never = hindered(yopp, daemon, "signal.pause()")
    job = yopp("run", "--timeout", seconds, "true", code=124, env=never)
    assert f"no cluster was ready within {seconds} s, the time limit of the job\n" in job.stderr
    assert f"because: {name} did not become ready" in job.stderr
    assert not yopp.leftovers()
    assert not {"site.json", "nodes.json", "rm.pid"} & {one.name for one in yopp.run_dir.iterdir()}


def test_the_start_of_its_cluster_is_a_part_of_a_jobs_time_unless_it_begins_later(yopp: Yopp) -> None:
    start_seconds, limit = 4, 8  # the node is slow to start: that is the fault, and nothing waits by it
    slow = hindered(yopp, "nodemanager", f"time.sleep({start_seconds})")
    told = yopp("run", "--timeout", f"{limit}", "sleep", "100", code=124, env=slow).stderr
    stopped = re.search(
        rf"^stopped after ([\d.]+) s \(its time limit of {limit} s has passed\)", told, re.MULTILINE
    )
    assert stopped is not None and float(stopped[1]) <= limit - start_seconds + 1, told
    yopp("run", "--timeout", "3", "--begin", "+6s", "true", env=slow)


def test_a_job_whose_time_is_over_does_not_wait_for_a_command_that_starts_the_cluster(yopp: Yopp) -> None:
    run_dir = RunDir.of(str(yopp.run_dir))
    run_dir.prepare()
    with run_dir.lock():
        job = yopp("run", "--timeout", "1", "true", code=124)
    assert "another yopp is starting or stopping this cluster" in job.stderr


def test_a_job_whose_time_is_over_does_not_wait_for_the_start_of_a_cluster(yopp: Yopp) -> None:
    starter = starts_a_node(yopp)
    job = yopp.start("run", "--timeout", "3", "true")
    _, err = job.communicate(timeout=START_SECONDS - 5)  # it would wait so long for a node
    assert job.returncode == 124 and "the cluster is still starting, so the job waits" in err
    starter.kill()
    starter.communicate()


def test_a_job_without_any_node_is_told_so(yopp: Yopp) -> None:
    yopp("rm", "start")
    job = yopp("run", "--timeout", "3", "true", code=124)
    assert "no NodeManager is running" in job.stderr


def test_a_job_whose_only_node_was_stopped_and_keeps_its_containers_is_told_so(cluster: Yopp) -> None:
    cluster("run", "-q", "-d", "sleep", "100")
    wait_until(lambda: cluster.containers("--state", "RUNNING"), what="it runs")
    cluster("nm", "stop")
    job = cluster("run", "--timeout", "3", "true", code=124)
    assert "no NodeManager is running" in job.stderr


def test_a_job_whose_rm_keeps_no_state_and_was_started_anew_is_told_so(yopp: Yopp) -> None:
    words = ("up", "--vcores", "2", "--memory", "1024", "-Dyarn.resourcemanager.recovery.enabled=false")
    yopp(*words)
    job = yopp.start("run", "sleep", "100")
    wait_until(yopp.containers)
    os.kill(daemon(yopp, "rm"), signal.SIGKILL)
    yopp(*words)
    _, err = job.communicate(timeout=30)
    assert job.returncode == 66 and "the ResourceManager was restarted" in err
    wait_until(lambda: not yopp.containers(), what="its containers are ended")


def test_a_job_that_finds_the_rm_dead_starts_it_again_and_says_so(cluster: Yopp) -> None:
    killed = daemon(cluster, "rm")
    os.kill(killed, signal.SIGKILL)
    job = cluster("run", "echo", "there")
    assert (job.stdout, job.stderr) == (
        "there\n",
        "restarted rm of the cluster, which stays until `yopp down`\n",
    )
    assert cluster("status").stdout and daemon(cluster, "rm") != killed
