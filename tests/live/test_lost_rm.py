"""The RM is lost, or stands still, while commands look at it: they go on by themselves, or say what to type."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from yarnopp_cli.cluster.processes import ProcessId

from .conftest import Yopp, wait_until
from .test_trouble import daemon

pytestmark = pytest.mark.live
KEPT = "-Dyarn.resourcemanager.recovery.enabled=true"
AGAIN = "the ResourceManager was lost, and is there again"
SOON = 5.0
"""Seconds within which every command says that the RM stands still."""


def connections(yopp: Yopp) -> int:
    """How many connections the RM has accepted."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    return sum(line.endswith(str(yopp.run_dir / "rm.sock")) for line in lines) - 1  # one listens


@pytest.mark.parametrize("restart", ["kill", "stop"])
def test_commands_that_look_for_long_find_the_next_rm(yopp: Yopp, restart: str) -> None:
    yopp("up", "--vcores", "1", "--memory", "512", KEPT)
    go = yopp.home / "go"
    script = f"echo first; until [ -e {go} ]; do sleep 0.02; done; echo last"
    job = yopp("run", "-q", "-d", "--", "sh", "-c", script).stdout.strip()
    shown = yopp.home / "shown"
    looking = [
        yopp.start(*words)
        for words in (
            ("wait", job),
            ("logs", "-f", job),
            ("events", "-f", "--timeout", "8"),
            ("ps", "-w", "0.2"),
        )
    ]
    with shown.open("w") as events:
        seen = yopp.start("events", "-f", stdout=events)
        wait_until(lambda: "ContainerStarted" in shown.read_text(), what="the job runs")
        wait_until(lambda: connections(yopp) >= len(looking) + 2, what="they look, and the node is there")
        if restart == "kill":
            os.kill(daemon(yopp, "rm"), signal.SIGKILL)
        else:
            yopp("rm", "stop")
        yopp("rm", "start")
        wait_until(lambda: "ResourceManagerRecovered" in shown.read_text(), what="events come again")
        go.touch()
        wait_until(lambda: "ApplicationFinished" in shown.read_text(), what="the end is told")
        seen.send_signal(signal.SIGINT)
        assert AGAIN in seen.communicate(timeout=30)[1]
    wait, logs, events_, ps = looking
    out, err = wait.communicate(timeout=30)
    assert (wait.returncode, out) == (0, f"{job} FINISHED SUCCEEDED, exit 0\n") and err.count(AGAIN) == 1
    out, err = logs.communicate(timeout=30)
    assert (logs.returncode, out) == (0, "first\nlast\n"), err
    assert AGAIN in events_.communicate(timeout=30)[1] and events_.returncode == 124
    assert ps.poll() is None
    ps.send_signal(signal.SIGINT)
    ps.communicate(timeout=30)


def test_they_end_with_the_cluster(cluster: Yopp) -> None:
    job = cluster("run", "-q", "-d", "sleep", "100").stdout.strip()
    events, logs = cluster.start("events", "-f"), cluster.start("logs", "-f", job)
    assert events.stdout is not None and events.stdout.readline()
    cluster("down", "-y")
    assert "the cluster has ended" in events.communicate(timeout=10)[1] and events.returncode == 69
    assert "the cluster has ended" in logs.communicate(timeout=10)[1]


def test_an_rm_that_stands_still_is_told_within_seconds(cluster: Yopp) -> None:
    job = cluster("run", "-q", "-d", "sleep", "100").stdout.strip()
    rm = daemon(cluster, "rm")
    os.kill(rm, signal.SIGSTOP)
    try:
        for words in (
            ("run", "--timeout", "5s", "true"),
            ("explain", job),
            ("ps",),
            ("app", "list"),
            ("node", "list"),
            ("wait", job),
            ("events",),
        ):
            told = cluster(*words, code=69, timeout=SOON)
            assert "does not answer" in told.stderr and f"`kill -CONT {rm}`" in told.stderr, words
    finally:
        os.kill(rm, signal.SIGCONT)
    assert ProcessId.of(rm) is not None and cluster("ps").returncode == 0


def test_a_job_in_the_foreground_ends_with_its_time_though_the_rm_stands_still(cluster: Yopp) -> None:
    job = cluster.start("run", "--timeout", "2s", "sleep", "100")
    wait_until(lambda: cluster.containers(), what="it runs")
    rm = daemon(cluster, "rm")
    os.kill(rm, signal.SIGSTOP)
    try:
        err = job.communicate(timeout=30)[1]
    finally:
        os.kill(rm, signal.SIGCONT)
    assert job.returncode == 124 and "the job's time has passed" in err and f"`kill -CONT {rm}`" in err
    wait_until(lambda: not cluster.containers(), what="the RM has ended it")


def test_a_node_that_stands_still_is_told_to_be_silent(cluster: Yopp) -> None:
    job = cluster("run", "-q", "-d", "sleep", "100").stdout.strip()
    node = daemon(cluster, "nm-45454")
    os.kill(node, signal.SIGSTOP)
    try:
        wait_until(lambda: "silent" in cluster.look("node", "list"), 10, "the list says so")
        assert "no heartbeat for" in cluster("node", "list", "-o", "wide").stdout
        told = cluster("status", code=None)
        assert f"`kill -CONT {node}` lets it go on" in told.stderr
        assert "is silent: no heartbeat for" in cluster("explain", job).stdout
    finally:
        os.kill(node, signal.SIGCONT)
    wait_until(lambda: "silent" not in cluster.look("node", "list"), 10, "it is heard of again")
