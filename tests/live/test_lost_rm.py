"""The RM is lost, or stands still, while commands look at it: they go on by themselves, or say what to type."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from yarnopp_cli.cluster.processes import ProcessId

from ..cli.test_tree import EVERY
from .conftest import PATIENCE, Yopp, wait_until
from .test_trouble import daemon

pytestmark = pytest.mark.live
KEPT = "-Dyarn.resourcemanager.recovery.enabled=true"
AGAIN = "the ResourceManager is available again"
SOON = 5.0
"""Seconds within which every command says that the RM stands still."""


def until_it_waits(command: subprocess.Popen[str]) -> None:
    """Until a command that prints nothing has asked the RM, and sleeps until that answers."""
    process, spent, still = psutil.Process(command.pid), -1.0, 0

    def sleeps() -> bool:
        nonlocal spent, still
        files = []
        for one in Path(f"/proc/{command.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it may close one meanwhile
                files.append(os.readlink(one))
        asleep = process.status() == psutil.STATUS_SLEEPING and any(
            one.startswith("socket:") for one in files
        )
        before, spent = spent, sum(process.cpu_times()[:2])
        still = still + 1 if asleep and spent == before else 0
        return still >= 10

    wait_until(sleeps, what="it waits")


@pytest.mark.parametrize("restart", ["kill", "stop"])
def test_commands_that_look_for_long_find_the_next_rm(yopp: Yopp, restart: str) -> None:
    before = time.monotonic()
    yopp("up", "--vcores", "1", "--memory", "512", KEPT)
    limit = 6 + 4 * (time.monotonic() - before)  # the RM is there again before, however slow this machine is
    go = yopp.home / "go"
    script = f"echo first; until [ -e {go} ]; do sleep 0.02; done; echo last"
    job = yopp("run", "-q", "-d", "--", "sh", "-c", script).stdout.strip()
    shown, waiting = yopp.home / "shown", yopp.home / "waiting"
    with waiting.open("w") as notes:
        wait = yopp.start("wait", job, stderr=notes)
    looking = [
        yopp.start(*words)
        for words in (
            ("logs", "-f", job),
            ("events", "-f", "--timeout", f"{limit:.0f}"),
            ("ps", "-w", "0.2"),
        )
    ]
    with shown.open("w") as events:
        seen = yopp.start("events", "-f", stdout=events)
        wait_until(lambda: "ContainerStarted" in shown.read_text(), what="the job runs")
        logs, events_, ps = looking
        begun = [one.stdout.readline() for one in (logs, events_, ps) if one.stdout is not None]
        assert begun[0] == "first\n" and all(begun)
        until_it_waits(wait)
        if restart == "kill":
            os.kill(daemon(yopp, "rm"), signal.SIGKILL)
        else:
            yopp("rm", "stop")
        yopp("rm", "start")
        wait_until(lambda: "ResourceManagerRecovered" in shown.read_text(), what="events come again")
        wait_until(
            lambda: AGAIN in waiting.read_text(), what="the command that waits says so before the job ends"
        )
        go.touch()
        wait_until(lambda: "ApplicationFinished" in shown.read_text(), what="the end is told")
        seen.send_signal(signal.SIGINT)
        told = seen.communicate(timeout=30)[1]
        assert AGAIN in told and "no longer kept" not in told
    numbers = [int(line.split()[0]) for line in shown.read_text().splitlines()]
    assert numbers == list(range(numbers[0], numbers[-1] + 1)), "each event once"
    out = wait.communicate(timeout=30)[0]
    assert (wait.returncode, out) == (0, f"{job} FINISHED SUCCEEDED, exit 0\n")
    assert waiting.read_text().count(AGAIN) == 1
    out, err = logs.communicate(timeout=30)
    assert (logs.returncode, out) == (0, "last\n"), err
    assert AGAIN in events_.communicate(timeout=30 + limit)[1] and events_.returncode == 124
    assert ps.poll() is None
    ps.send_signal(signal.SIGINT)
    ps.communicate(timeout=30)


def test_they_end_with_the_cluster(cluster: Yopp) -> None:
    job = cluster("run", "-q", "-d", "sh", "-c", "echo here; exec sleep 100").stdout.strip()
    events, logs = cluster.start("events", "-f"), cluster.start("logs", "-f", job)
    assert events.stdout is not None and events.stdout.readline()
    assert logs.stdout is not None and logs.stdout.readline() == "here\n"
    cluster("down", "-y")
    assert "the cluster has ended" in events.communicate(timeout=10)[1] and events.returncode == 69
    assert "the cluster has ended" in logs.communicate(timeout=10)[1]


ASKING = {
    tuple(line.partition(":")[0].split()): line.partition(":")[2].split()
    for line in """
        app kill: JOB; app lifetime: JOB 1h; app list; app priority: JOB 3; app queue: JOB default; app status: JOB
        app tags: JOB a; attempt list: JOB; attempt status: ATTEMPT; container demote: CONTAINER
        container kill: CONTAINER; container list; container pause: CONTAINER; container promote: CONTAINER
        container resize: CONTAINER --memory 64; container resume: CONTAINER; container shell-into: CONTAINER
        container signal: CONTAINER; container status: CONTAINER; dshell: -shell_command date -num_containers 1
        engine test; events; explain: JOB; metrics; nm drain: 45454; nm resume: 45454; node drain: 45454
        node labels; node list; node resize: 45454 --vcores 1; node resource: 45454 --vcores 1
        node resume: 45454; node status: 45454; pi: 2 10; ps; queue list; queue status: default; report: JOB
        rerun: JOB; rmadmin refresh-nodes; rmadmin refresh-queues; rmadmin service-state
        rmadmin update-node-resource: 45454 1024 1; run: --timeout 5s true; stats; top; up; wait: JOB
    """.replace("\n", ";").split(";")
    if line.strip()
}
"""What asks the ResourceManager, with arguments that it takes."""

NOT_ASKING = {
    tuple(line.split())
    for line in """
        completion bash; completion fish; completion zsh; config check; config get; config import; config path
        config set; config show; config unset; doctor; down; engine list; engine use; logs; man; nm restart; nm run
        nm start; nm status; nm stop; rm restart; rm run; rm start; rm status; rm stop; rmadmin state; service install
        service remove; service status; status; version
    """.replace("\n", ";").split(";")
    if line.strip()
}
"""What reads files, looks at processes, or starts and ends daemons by their processes."""


def test_the_table_has_every_command() -> None:
    assert {path for path, _ in EVERY} == ASKING.keys() | NOT_ASKING


def test_an_rm_that_stands_still_is_told_within_seconds_by_every_command(cluster: Yopp) -> None:
    job = cluster("run", "-q", "-d", "sleep", "100").stdout.strip()
    [container] = wait_until(lambda: cluster.containers("--state", "RUNNING"), what="it runs")
    attempt = cluster("attempt", "list", job, "-o", "tsv").stdout.splitlines()[1].split("\t")[0]
    ids = {"JOB": job, "CONTAINER": container["id"], "ATTEMPT": attempt}
    rm = daemon(cluster, "rm")
    os.kill(rm, signal.SIGSTOP)
    try:
        commands = [[*words, *(ids.get(one, one) for one in more)] for words, more in ASKING.items()]
        for at in range(0, len(commands), 6):
            for words, told in [(words, cluster.start(*words)) for words in commands[at : at + 6]]:
                err = told.communicate(timeout=SOON * PATIENCE)[1]
                assert told.returncode == 69, (words, err)
                assert "does not answer" in err and f"`kill -CONT {rm}`" in err, words
        nodes = cluster("status", code=4).stdout
        assert "is running, process" in nodes and "registering" not in nodes, "nobody knows more of it now"
    finally:
        os.kill(rm, signal.SIGCONT)
    assert ProcessId.of(rm) is not None and cluster("ps").returncode == 0


def test_a_job_in_the_foreground_ends_with_its_time_though_the_rm_stands_still(cluster: Yopp) -> None:
    begun = time.monotonic()
    cluster("ps")
    limit = 1.5 + 3 * (time.monotonic() - begun)  # the RM stands still before, however slow this machine is
    job = cluster.start("run", "--timeout", f"{limit:.1f}s", "sleep", "100")
    rm = daemon(cluster, "rm")
    wait_until(lambda: cluster.containers(), what="it runs")
    os.kill(rm, signal.SIGSTOP)
    try:
        err = job.communicate(timeout=30)[1]
    finally:
        os.kill(rm, signal.SIGCONT)
    assert job.returncode == 124 and "the job's time limit has expired" in err and f"`kill -CONT {rm}`" in err
    wait_until(lambda: not cluster.containers(), what="the RM has ended it")


def test_a_node_that_stands_still_is_told_to_be_silent(cluster: Yopp) -> None:
    job = cluster("run", "-q", "-d", "sleep", "100").stdout.strip()
    node = daemon(cluster, "nm-45454")
    os.kill(node, signal.SIGSTOP)
    try:
        wait_until(lambda: "silent" in cluster.look("node", "list"), 10, "the list says so")
        assert "no heartbeat for" in cluster("node", "list", "-o", "wide").stdout
        told = cluster("status", code=None)
        assert f"`kill -CONT {node}` continues it" in told.stderr
        assert "is silent: no heartbeat for" in cluster("explain", job).stdout
    finally:
        os.kill(node, signal.SIGCONT)
    wait_until(lambda: "silent" not in cluster.look("node", "list"), 10, "it is heard of again")
