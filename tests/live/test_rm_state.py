"""The RM is killed while jobs run: with its state kept, nothing is lost and nothing that ended well runs again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from executor.records import Resource
from yarnopp_cli.cluster.processes import ProcessId, wait_for_end
from yarnopp_cli.cluster.rundir import RunDir
from yarnopp_cli.jobs.client import JobClient
from yarnopp_cli.masters.commands import plan_run
from yarnopp_cli.records.job_protocol import SubmitJobRequest
from yarnopp_cli.records.jobs import TaskSpec
from yarnopp_cli.records.requests import ApplicationSubmissionContext
from yarnopp_cli.rpc.blocking import Connection
from yarnopp_cli.settings.loading import load

from .conftest import Yopp, wait_until

KEPT = "-Dyarn.resourcemanager.recovery.enabled=true"
TASKS = 100


def started(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


def kill_the_rm(yopp: Yopp) -> None:
    process = ProcessId.of(yopp.json("status")["clusterInfo"]["yopp"]["rm"]["pid"])
    assert process is not None
    process.send(signal.SIGKILL)
    assert not wait_for_end([process], 10)
    yopp("rm", "start")


def test_a_detached_job_goes_on_with_the_next_rm_and_the_next(yopp: Yopp) -> None:
    log = yopp.home / "started"
    yopp("up", "--vcores", "2", "--memory", "1024", KEPT)
    words = ("--memory", "64", "-n", str(TASKS), "--", "sh", "-c", f"echo $YOPP_TASK >> {log}; sleep 0.05")
    job = yopp("run", "-q", "-d", "-O", *words).stdout.strip()
    for number in (10, 50):
        wait_until(lambda number=number: len(started(log)) >= number, what=f"{number} tasks have begun")
        kill_the_rm(yopp)
    assert yopp("wait", job, timeout=120).returncode == 0
    assert Counter(started(log)) == Counter(str(number) for number in range(1, TASKS + 1))
    summary = yopp.json("app", "status", job)["app"]
    assert (summary["state"], summary["finalStatus"]) == ("FINISHED", "SUCCEEDED")


def test_the_nodes_that_run_are_waited_for_and_named_while_the_next_rm_does_not_have_them(yopp: Yopp) -> None:
    yopp("up", "--vcores", "1", "--memory", "512", KEPT)
    (node,) = yopp("node", "list", "-q").stdout.split()
    daemon = RunDir.of(str(yopp.run_dir)).daemon("nm-45454")
    assert daemon is not None
    daemon.process.send(signal.SIGSTOP)
    try:
        kill_the_rm(yopp)
        listed = yopp("node", "list")
        assert listed.stderr.strip() == "no node has registered yet: nm-45454" and not listed.stdout
        waiting = yopp.start("node", "list", "-q")
    finally:
        daemon.process.send(signal.SIGCONT)
    assert waiting.communicate(timeout=30)[0].split() == [node]


def test_what_waits_is_begun_and_a_job_in_the_foreground_has_its_output_once(yopp: Yopp) -> None:
    log, go = yopp.home / "started", yopp.home / "go"
    yopp("up", "--vcores", "1", "--memory", "512", KEPT)
    script = f"echo $YOPP_TASK >> {log}; until [ -e {go} ]; do sleep 0.02; done; echo task $YOPP_TASK"
    first = yopp.start("run", "-O", "--memory", "64", "-n", "3", "--", "sh", "-c", script)
    wait_until(lambda: started(log), what="the first task runs")
    (app,) = yopp.json("app", "list")["apps"]["app"]
    later = yopp("run", "-q", "-d", "--memory", "64", "--after", app["id"], "--", "true").stdout.strip()
    kill_the_rm(yopp)
    go.touch()
    out, said = first.communicate(timeout=60)
    assert first.returncode == 0, said
    assert sorted(line.partition("task ")[2] for line in out.splitlines()) == ["1", "2", "3"], out
    yopp("wait", later, timeout=60)
    assert Counter(started(log)) == Counter("123")
    assert os.path.exists(yopp.run_dir / "state" / "rm" / "state.db")


def test_what_ended_is_kept_though_the_rm_died_before_its_last_container(yopp: Yopp) -> None:
    began = yopp.home / "began"
    yopp(
        "up",
        "--vcores",
        "2",
        "--memory",
        "1024",
        KEPT,
        "-Dyarn.nodemanager.sleep-delay-before-sigkill.ms=5000",
    )
    stubborn = f"trap 'sleep 2' TERM; touch {began}; while :; do sleep 0.1; done"
    job = yopp("run", "-q", "-d", "--memory", "64", "--", "sh", "-c", stubborn).stdout.strip()
    wait_until(began.exists, what="the task runs")
    yopp("app", "kill", job, "--no-wait")
    file = yopp.run_dir / "state" / "history" / f"{job}.json"
    assert not file.exists(), "its container has not ended"
    kill_the_rm(yopp)
    kept = json.loads(wait_until(lambda: file.exists() and file.read_text()))["application"]
    assert (kept["application_id"], kept["state"]) == (job, "KILLED")
    report = yopp.home / yopp("report", job).stdout.strip()
    assert "container_" in report.read_text()


def test_a_job_from_before_a_restart_is_run_again(yopp: Yopp) -> None:
    good = yopp.home / "good"
    yopp("up", "--vcores", "2", "--memory", "1024", KEPT)
    words = ("--memory", "64", "--shell", f"echo {{}}; [ {{}} != b ] || [ -e {good} ]", ":::", "a", "b", "c")
    job = yopp("run", "-q", "-O", *words, code=1).stdout.strip()
    pi = yopp("pi", "-q", "2", "10").stdout.strip()
    kill_the_rm(yopp)
    good.touch()
    assert yopp("rerun", job, "--failed").stdout == "[2] b\n"
    assert yopp("rerun", job, "-k").stdout == "[1] a\n[2] b\n[3] c\n"
    again = yopp("rerun", pi).stdout
    assert "Wrote input for Map #1" in again and "Estimated value of Pi is 3.8" in again
    assert "as a whole" in yopp("rerun", pi, "--failed", code=2).stderr
    assert not (yopp.run_dir / "state" / "jobs").exists(), "its files are removed"


@pytest.mark.parametrize("taken", [True, False])
def test_a_submission_that_an_rm_does_not_answer_is_taken_once(
    yopp: Yopp, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    ran, said, asked = yopp.home / "ran", list[str](), list[object]()
    yopp("up", "--vcores", "1", "--memory", "512", KEPT)
    run_dir, real = RunDir.of(str(yopp.run_dir)), Connection.call

    def call(self: Connection, request: Any, **more: Any) -> Any:
        if isinstance(request, SubmitJobRequest):
            asked.append(request)
            if len(asked) == 1:
                if taken:
                    real(self, request, **more)
                daemon = run_dir.daemon("rm")
                assert daemon is not None
                daemon.process.send(signal.SIGKILL)
                assert not wait_for_end([daemon.process], 10)
                yopp("rm", "start")
        return real(self, request, **more)

    monkeypatch.setattr(Connection, "call", call)
    client = JobClient(run_dir, load([], [], environ={}, state_dir=str(yopp.home)), said.append)
    job = plan_run(("sh", "-c", f"echo $YOPP_TASK >> {ran}"), TaskSpec(1, Resource(16, 1)), 3)
    request = SubmitJobRequest(ApplicationSubmissionContext("", "job"), job, attached=False)
    answer = client.submit(request, pytest.fail)
    client.close()
    assert len(asked) == 2 and any("available again" in line for line in said)
    yopp("wait", answer.application_id)
    assert [one["id"] for one in yopp.json("app", "list", "-a")["apps"]["app"]] == [answer.application_id]
    assert Counter(started(ran)) == Counter("123")


@pytest.mark.parametrize("hosted", ["true", "false"])
def test_the_log_of_a_job_has_the_tasks_that_ended_before_a_restart(yopp: Yopp, hosted: str) -> None:
    """Its master is in the RM, or in a container."""
    log, go = yopp.home / "started", yopp.home / "go"
    master = f"-Dyopp.resourcemanager.hosted-masters={hosted}"
    yopp("up", "--vcores", "1", "--memory", "512", KEPT, master)
    line = f"echo $YOPP_TASK >> {log}; [ {{}} != c ] || until [ -e {go} ]; do sleep 0.02; done; [ {{}} = b ]"
    job = yopp("run", "-qd", master, "--memory", "64", "--shell", line, ":::", *"abc").stdout.strip()
    wait_until(lambda: len(started(log)) == 3, what="the third task runs")
    kill_the_rm(yopp)
    go.touch()
    for name in ("running", "ended"):  # at the restart
        assert "lacks" not in yopp("wait", job, "--joblog", name, code=1).stderr
        rows = [line.split("\t") for line in (yopp.home / name).read_text().splitlines()[1:]]
        assert [(row[0], row[6]) for row in rows] == [("1", "1"), ("2", "0"), ("3", "1")]
        began, nodes = [float(row[2]) for row in rows], {row[1] for row in rows}
        assert began == sorted(began) and len(nodes) == 1 and ":" not in nodes
        assert float(rows[2][3]) > 0
        if name == "running":
            first = rows
            kill_the_rm(yopp)
    assert rows == first
    yopp("rerun", job, "--failed", code=1)
    assert Counter(started(log)) == Counter("12313")


def test_a_garbled_state_and_a_newer_one_are_told_apart(yopp: Yopp) -> None:
    yopp("up", KEPT)
    yopp("run", "true")
    yopp("rm", "stop")
    state = yopp.run_dir / "state" / "rm" / "state.db"
    assert yopp.json("rmadmin", "state", "check")["state"]["records"]["application"] == 1
    with contextlib.closing(sqlite3.connect(state)) as database:
        database.execute("PRAGMA user_version = 99")
    assert "a newer version of yopp wrote it" in yopp("rmadmin", "state", "check", code=1).stderr
    state.write_bytes(b"what is this?" * 1000)
    assert "file is not a database" in yopp("rmadmin", "state", "check", code=1).stderr
    assert "rmadmin state has no export" in yopp("rmadmin", "state", "export", code=2).stderr


@pytest.mark.parametrize("decision", ["--adopt", "--end"])
def test_a_lost_queue_is_told_and_what_runs_is_kept_until_somebody_decides(yopp: Yopp, decision: str) -> None:
    yopp("up", "--vcores", "2", "--memory", "1024", KEPT)
    for _ in range(3):
        yopp("run", "-q", "-d", "--memory", "256", "--", "sh", "-c", "until [ -e go ]; do sleep 0.02; done")
    pids = wait_until(
        lambda: (
            found
            if len(found := [pid for one in yopp.containers() if (pid := one["yopp"]["pid"])]) == 2
            else []
        )
    )
    running = [one for one in map(ProcessId.of, pids) if one is not None]
    assert len(running) == 2
    process = ProcessId.of(yopp.json("status")["clusterInfo"]["yopp"]["rm"]["pid"])
    assert process is not None
    process.send(signal.SIGKILL)
    assert not wait_for_end([process], 10)
    os.truncate(yopp.run_dir / "state" / "rm" / "state.db-wal", 0)
    told = yopp("up").stderr
    assert "lacks the last" in told and "what was left is kept as" in told
    assert "2 containers are kept whose applications were lost with stored state" in told
    assert told.splitlines() == [
        f"warning: {one}" for one in yopp.json("status")["clusterInfo"]["yopp"]["warnings"]
    ]
    assert "StateLost" in yopp.look("events") and all(one.alive() for one in running)
    refused = yopp("down", code=2)
    assert "End the cluster and its 2 containers?" in refused.stderr
    waiting = yopp.start("run", "echo", "there")
    yopp("up", decision)
    assert not yopp.json("status")["clusterInfo"]["yopp"]["warnings"] or decision == "--end"
    if decision == "--adopt":
        assert all(one.alive() for one in running) and waiting.poll() is None, "they have the vcores"
        (yopp.home / "go").touch()
    assert waiting.communicate(timeout=30)[0] == "there\n"
    assert not wait_for_end(running, 20)
    wait_until(lambda: not yopp.json("status")["clusterInfo"]["yopp"]["warnings"])
