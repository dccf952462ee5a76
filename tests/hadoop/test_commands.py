"""The commands as they are typed, on a real YARN cluster of two nodes of 2 vcores."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.conftest import Yopp, wait_until

pytestmark = pytest.mark.live


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Yopp]:
    program = Yopp(tmp_path)
    program.environment |= {
        "YOPP_RM": os.environ["YOPP_TEST_HADOOP"],
        "PATH": f"{os.environ['YOPP_TEST_HADOOP_PATH']}:{os.environ['PATH']}",
    }
    yield program
    program("app", "kill", "-y", "all")
    assert not program.run_dir.exists(), "nothing was started here"


def test_it_is_reached_and_shown(there: Yopp) -> None:
    assert "ACTIVE" in there("engine", "test").stdout
    assert "nodes: 2 active" in there("status").stdout
    assert len(there("node", "list", "-q").stdout.split()) == 2
    assert "2 vcores" in there("node", "status", "all").stdout
    assert there("queue", "list", "-q").stdout.split() == ["root", "default", "second"]
    assert "root.second" in there("queue", "status", "second").stdout


def test_a_job_ends_as_its_command_does(there: Yopp) -> None:
    ended = there(
        "run", "-n", "2", "-O", "-e", "TOLD=x y", "--", "sh", "-c", 'test "$TOLD" = "x y" && sleep 1'
    )
    assert "2 opportunistic" in ended.stderr and "SUCCEEDED, exit 0" in ended.stderr
    assert "FAILED, exit 7" in there("run", "--", "sh", "-c", "exit 7", code=7).stderr
    assert "was killed" in there("run", "--timeout", "4s", "sleep", "600", code=124).stderr
    assert there.json("app", "status", "last")["app"]["state"] == "KILLED"
    assert there("attempt", "list", "last", "-q").stdout.startswith("appattempt_")


def test_the_documents_command_verbatim(there: Yopp) -> None:
    words = (
        "org.apache.hadoop.yarn.applications.distributedshell.Client -jar hadoop-yarn-applications.jar.jar "
        "-shell_command sleep -shell_args 1 -num_containers 4 -container_type OPPORTUNISTIC"
    )
    assert "SUCCEEDED" in there(*words.split(), timeout=100).stderr


def test_a_live_job_is_seen_and_steered(there: Yopp) -> None:
    command = ("sh", "-c", 'echo "$0" $YARN_SHELL_ID; exec sleep 600', "it's ä  $HOME 🙂")
    app = there("run", "-d", "-n", "6", "-O", "--memory", "64", *command).stdout.strip()

    def of(state: str) -> list[str]:
        return there("ps", "-q", "--app", app, "--type", "O", "--state", state).stdout.split()

    wait_until(
        lambda: len(of("RUNNING")) + len(of("QUEUED")) == 6 and of("QUEUED"), 60, "six tasks, some queued"
    )
    running = of("RUNNING")
    assert (
        "6 opportunistic" in there("node", "status", "all").stdout
        or sum(
            one["numRunningOpportContainers"] + one["numQueuedContainers"]
            for one in there.json("node", "list")["nodes"]["node"]
        )
        == 6
    )
    lines = wait_until(
        lambda: sorted(there("logs", "--no-prefix", app).stdout.splitlines()), what="they wrote"
    )
    assert all(line.startswith("it's ä  $HOME 🙂 ") for line in lines)
    assert "OPPORTUNISTIC" in there("container", "status", running[0]).stdout
    assert there("app", "priority", app, "5").stdout == f"{app} has priority 5\n"
    assert there("app", "queue", app, "second").stdout == f"{app} is in queue root.second\n"
    assert "may run until" in there("app", "lifetime", app, "1h").stdout
    there("wait", app, "--timeout", "0.2", code=124)
    assert "GRACEFUL_SHUTDOWN" in there("container", "signal", "-s", "TERM", running[0]).stdout
    wait_until(lambda: running[0] not in of("RUNNING"), what="it has ended")
    would = there("app", "kill", "--dry-run", "all").stdout
    assert re.fullmatch(rf"{app} would be killed: \d running\n", would)
    assert there("app", "kill", app).stdout == f"{app} KILLED\n"
    there("wait", app, code=143)
    assert "App in KILLED state cannot be moved" in there("app", "queue", app, "default", code=1).stderr


def test_ctrl_c_ends_the_job(there: Yopp) -> None:
    job = there.start("run", "--name", "stopped", "sleep", "600")
    wait_until(lambda: there("app", "list", "-q", "--state", "RUNNING").stdout, 40, "it runs")
    job.send_signal(signal.SIGINT)
    assert job.wait(40) == 130
    assert there.json("app", "status", "last")["app"]["state"] == "KILLED"


def test_what_is_not_there(there: Yopp) -> None:
    for words in (
        ("app", "status", "application_1_0001"), ("app", "kill", "9999"), ("node", "status", "nowhere:1"),
        ("container", "status", "container_1_0001_01_000001"), ("queue", "status", "nope"),
    ):  # fmt: skip
        assert there(*words, code=66).stdout == ""
    there("top", code=1)
    refused = there("app", "status", "application_1_0001", "--json", code=66)
    assert "RemoteException" in json.loads(refused.stderr)


def test_pi_is_hadoops_own(there: Yopp) -> None:
    assert "Estimated value of Pi is 3." in there("pi", "2", "10", timeout=110).stdout
