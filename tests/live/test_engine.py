"""The same commands on a YARN cluster, which here is our own REST API of a cluster in another run directory."""

from __future__ import annotations

import json
import os
import signal
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import ROOT, Yopp, a_yopp, wait_until


class Remote(Yopp):
    """A cluster, and commands that reach it by its address alone."""

    def begin(self) -> None:
        self("up", "--vcores", "4", "--memory", "2048")
        self.address = f"http://{self.json('status')['clusterInfo']['yopp']['rm']['http']}"
        self.host_environment = self.environment
        self.environment = {
            **self.environment,
            "YOPP_RUN_DIR": str(self.home / "nothing-here"),
            "YOPP_RM": self.address,
        }

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self.address}/ws/v1/cluster{path}", timeout=20) as answer:
            return bytes(answer.read())

    def close(self) -> list[str]:
        self.environment = self.host_environment
        return super().close()


@pytest.fixture(scope="module")
def remote() -> Iterator[Remote]:
    with a_yopp(Remote) as program:
        program.begin()
        yield program


def test_a_job_runs_there_and_its_words_arrive(remote: Remote) -> None:
    words = ("sh", "-c", 'echo "$0" "$1" $YARN_SHELL_ID $TOLD', "a  b", "it's $HOME")
    ended = remote("run", "-n", "3", "-O", "-e", "TOLD=x y", "--name", "three", *words)
    assert "3 opportunistic" in ended.stderr and "exit 0" in ended.stderr
    assert not (remote.home / "nothing-here").exists(), "nothing was started here"
    assert sorted(remote("logs", "--no-prefix", "last").stdout.splitlines()) == [
        f"a  b it's $HOME {number} x y" for number in (1, 2, 3)
    ]
    app = remote.json("app", "status", "last")["app"]
    assert (app["name"], app["yopp"]["opportunistic"]["allocated"]) == ("three", 3)
    containers = remote.json("container", "list", "-a", "--app", "last")["container"]
    assert [one["executionType"] for one in containers] == ["GUARANTEED", *["OPPORTUNISTIC"] * 3]


def test_the_exit_code_is_the_jobs(remote: Remote) -> None:
    assert remote("run", "--", "sh", "-c", "exit 7", code=7).stdout == ""
    found = json.loads(remote("run", "--json", "--", "true").stdout)["app"]
    assert (found["state"], found["finalStatus"]) == ("FINISHED", "SUCCEEDED")
    assert remote("dshell", "-q", "--shell-command", "exit 3", code=3).stdout.startswith("application_")
    assert remote("dshell", "--shell-command", "exit 3", code=2, env={"YOPP_HADOOP_EXIT": "1"})
    late = remote("run", "--timeout", "0.5s", "sleep", "60", code=124)
    assert "was killed" in late.stderr
    assert remote.json("app", "status", "last")["app"]["state"] == "KILLED"


def test_the_documents_command_verbatim(remote: Remote) -> None:
    words = (
        "org.apache.hadoop.yarn.applications.distributedshell.Client -jar hadoop-yarn-applications.jar.jar "
        "-shell_command sleep -shell_args 0.1 -num_containers 4 -container_type OPPORTUNISTIC"
    )
    assert "SUCCEEDED" in remote(*words.split()).stderr
    assert remote.json("app", "status", "last")["app"]["yopp"]["opportunistic"]["allocated"] == 4


def test_reading_prints_the_bytes_of_rest(remote: Remote) -> None:
    remote("run", "true")
    for words, path in (
        (("app", "list", "-a"), "/apps"),
        (("node", "list", "-a"), "/nodes"),
        (("queue", "list"), "/scheduler"),
        (("app", "list", "--state", "FAILED,FINISHED"), "/apps?states=FAILED,FINISHED"),
    ):
        # what was measured, and when, differs from call to call
        mine, theirs = remote.json(*words), json.loads(remote.get(path))
        assert list(mine) == list(theirs)
        if "app" in words:
            assert mine == theirs
    printed = remote("app", "list", "-a", "--json").stdout.encode()
    assert printed == remote.get("/apps")
    last = json.loads(printed)["apps"]["app"][-1]["id"]
    assert remote("app", "status", "last", "--json").stdout.encode() == remote.get(f"/apps/{last}")
    assert remote("attempt", "list", last, "--json").stdout.encode() == remote.get(
        f"/apps/{last}/appattempts"
    )


def test_tables_are_those_of_this_host(remote: Remote) -> None:
    remote("run", "true")
    wait_until(lambda: not remote("ps", "-q").stdout, what="its master has ended, too")
    here = {"YOPP_RM": "", "YOPP_RUN_DIR": str(remote.run_dir)}
    for words in (
        ("app", "list", "-a", "--columns", "id,name,state,final,exit,containers"),
        ("node", "list", "--columns", "node,state,runningG,runningO,queued,memory,vcores"),
        ("queue", "list"),
        ("attempt", "list", "last"),
        ("ps", "-a", "--columns", "id,type,state,node,exit,command", "--limit", "3"),
    ):
        assert remote(*words).stdout == remote(*words, env=here).stdout, words
    assert remote("app", "list", "-a", "-q").stdout == remote("app", "list", "-a", "-q", env=here).stdout
    assert remote("app", "list").stderr == "no applications live (-a shows ended ones)\n"
    assert remote("status").stdout.startswith("running since ")


def test_a_live_job_is_steered(remote: Remote) -> None:
    app = remote("run", "-d", "-n", "2", "-O", "--memory", "32", "sleep", "600").stdout.strip()
    remote("wait", app, "--for", "RUNNING")
    wait_until(
        lambda: len(remote("ps", "-q", "--state", "RUNNING").stdout.split()) == 3, what="a master, two tasks"
    )
    assert remote("app", "priority", app, "5").stdout == f"{app} has priority 5\n"
    assert remote("app", "queue", app, "default").stdout == f"{app} is in queue default\n"
    assert "may run until" in remote("app", "lifetime", "last", "1h").stdout
    assert remote.json("app", "status", app)["app"]["priority"] == 5
    assert remote("wait", app, "--timeout", "0.1", code=124).stdout == ""
    [task] = [one for one in remote("ps", "-q").stdout.split() if one.endswith("_000003")]
    assert "GRACEFUL_SHUTDOWN" in remote("container", "signal", "-s", "TERM", task).stdout
    wait_until(
        lambda: remote.json("container", "status", task)["container"]["state"] == "DONE", what="it has ended"
    )
    told = f"{app} would be killed: 2 running, 1 killed\n"
    assert remote("app", "kill", "--dry-run", "all").stdout == told
    assert remote("app", "kill", "all", code=2).stdout == ""
    assert remote("app", "kill", app).stdout == f"{app} KILLED\n"
    assert remote("wait", app, code=143).stdout.startswith(f"{app} KILLED")


def test_ctrl_c_ends_the_job(remote: Remote) -> None:
    job = remote.start("run", "--name", "stopped", "sleep", "600")
    wait_until(lambda: remote("app", "list", "-q", "--state", "RUNNING").stdout, what="it runs")
    job.send_signal(signal.SIGINT)
    assert job.wait(30) == 130
    assert remote.json("app", "status", "last")["app"]["state"] == "KILLED"


def test_what_is_not_there(remote: Remote) -> None:
    for words in (
        ("app", "status", "application_1_0001"), ("app", "kill", "9999"), ("node", "status", "nowhere:1"),
        ("container", "status", "container_1_0001_01_000001"), ("queue", "status", "nope"),
        ("logs", "application_1_0001"),
    ):  # fmt: skip
        assert remote(*words, code=66).stdout == ""
    refused = remote("app", "queue", "application_1_0001", "x", "--json", code=66)
    assert "RemoteException" in json.loads(refused.stderr)
    nobody = remote("node", "list", "--rm", "localhost:1", code=69)
    assert "no active ResourceManager" in nobody.stderr and "`yopp engine test`" in nobody.stderr
    tested = remote("engine", "test", "--rm", "localhost:1", code=69)
    assert "connection refused" in tested.stderr and "engine test" not in tested.stderr
    assert "no ResourceManager is configured" in remote(
        "node", "list", "--engine", "yarn", code=2, env={"YOPP_RM": ""}
    ).stderr  # fmt: skip


def test_pi_is_hadoops_own(remote: Remote, tmp_path: Path) -> None:
    # whose `hadoop` is ours here, and finds the cluster by its run directory
    home = tmp_path / "hadoop-3.4.1"
    (home / "bin").mkdir(parents=True)
    examples = home / "share/hadoop/mapreduce/hadoop-mapreduce-examples-3.4.1.jar"
    examples.parent.mkdir(parents=True)
    examples.touch()
    program = home / "bin/hadoop"
    program.write_text(
        f'#!/bin/sh\necho "$@" > "{tmp_path}/typed"\nexport YOPP_RUN_DIR="{remote.run_dir}" PYTHONPATH="{ROOT}"\n'
        f'exec "{sys.executable}" -m yarnopp_cli "$@"\n'
    )
    program.chmod(0o755)
    path = {"PATH": f"{home}/bin:{os.environ['PATH']}"}
    definition = "mapreduce.job.num-opportunistic-maps-percent=40"
    ended = remote("pi", f"-D{definition}", "2", "10", env=path)
    assert ended.stdout.splitlines()[0] == "Number of Maps  = 2"
    assert ended.stdout.splitlines()[-1].startswith("Estimated value of Pi is 3.")
    assert (tmp_path / "typed").read_text() == f"jar {examples} pi -D{definition} 2 10\n"
    assert remote("pi", "--dry-run", "2", "10", env=path).stdout == f"hadoop jar {examples} pi 2 10\n"
    without = remote("pi", "2", "10", env={"PATH": "/nonexistent"}, code=127)
    assert "hadoop jar $HADOOP_HOME/share/" in without.stderr and "pi 2 10" in without.stderr


def test_the_choice_is_kept_and_shown(remote: Remote, tmp_path: Path) -> None:
    mine = {"YOPP_CONF": "", "YOPP_RM": "", "HOME": str(tmp_path)}
    site = tmp_path / ".config/yopp/yarn-site.toml"
    assert "no ResourceManager" in remote("engine", "use", "yarn", env=mine, code=2).stderr
    assert remote("engine", "use", "yarn", "--rm", remote.address, env=mine).stdout.startswith(f"{site}: ")
    assert remote("node", "list", "-q", env=mine).stdout == remote("node", "list", "-q").stdout
    shown = remote("config", "show", "--origin", "yopp.engine", env=mine).stdout
    assert "yarn" in shown and remote.address in shown and str(site) in shown
    here, there = remote.json("engine", "list", env=mine)["engines"]
    assert (here["used"], there["used"], there["where"]) == (False, True, remote.address)
    assert there["origin"].startswith(f"{site}:")
    assert remote.json("version", env=mine)["yopp"]["engine"] == "yarn"
    told = remote.json("engine", "test", env=mine)
    assert [one["haState"] for one in told["resourceManagers"]] == ["ACTIVE"]
    assert remote("engine", "test", "--rm", "localhost:1", env=mine, code=69).stdout == ""
    remote("engine", "use", "local", env=mine)
    assert remote("node", "list", env=mine, code=69).stdout == ""
    assert remote("--engine", "yarn", "node", "list", "-q", env=mine).stdout, "its address is still known"


def test_each_call_is_told_of(remote: Remote) -> None:
    told = remote("-v", "node", "list").stderr
    assert f"GET {remote.address}/ws/v1/cluster/nodes: 200 in " in told
