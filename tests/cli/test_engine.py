"""What the commands refuse on a YARN cluster, and what ``--dry-run`` shows: no cluster is asked for either."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.conftest import ROOT as SOURCE
from tests.live.conftest import wait_until
from yarnopp_cli.cli.frame.command import REGISTERED
from yarnopp_cli.cli.table import TABLE
from yarnopp_cli.cli.tree import root

from .conftest import Ended
from .fake import Cluster

Cli = Callable[..., Ended]
ROOT = root()


def leaves() -> dict[str, set[str]]:
    """The options of every command, by what is typed."""
    found = {}
    for entry in TABLE:
        command = ROOT.commands[entry.name]  # type: ignore[attr-defined]
        below = getattr(command, "commands", None)
        for name, one in below.items() if below is not None else [("", command)]:
            found[f"{entry.name} {name}".strip()] = {
                spelling for each in one.params for spelling in each.opts
            }
    return found


LEAVES = leaves()


def test_both_options_are_where_there_is_a_cluster_and_nowhere_else() -> None:
    for path, options in LEAVES.items():
        name = path.partition(" ")[0]
        if name != "engine":
            assert ({"--engine", "--rm"} <= options) is (name not in ("man", "completion", "version")), path
    assert {"--engine", "--rm"} <= LEAVES["up"] & LEAVES["config set"] & LEAVES["doctor"] & LEAVES["rm start"]
    assert not {"--engine", "--rm"} & LEAVES["version"]


def test_what_is_about_this_host_takes_the_engine_and_says_whose_cluster_it_means(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = cli("--engine", "yarn", "down")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines() == [
        "error: `yopp down` works on this host's own cluster only",
        "  because: YARN's REST API does not have it, and the engine is yarn (--engine)",
        "  hint: --engine local",
    ]
    assert "own cluster" not in cli("--engine", "local", "down").err
    assert "own cluster" not in cli("--rm", "there", "config", "path").err
    monkeypatch.setenv("YOPP_RM", "there")
    told = "`yopp down` is about this host's own cluster; commands that read a cluster ask http://there:8088 (YOPP_RM)"
    assert told in cli("down").err
    assert "own cluster" not in cli("down", "--engine", "local").err


def test_what_works_there_is_declared() -> None:
    there = {path for path, one in REGISTERED.items() if one.yarn}
    assert there >= {
        "app list",
        "app kill",
        "container list",
        "ps",
        "node status",
        "queue list",
        "logs",
        "wait",
        "run",
    }
    assert not there & {"container kill", "container promote", "node drain", "events", "app tags"}


@pytest.mark.parametrize(
    "words",
    [
        ("explain", "last"), ("stats",), ("events",), ("top",), ("report", "last"), ("container", "pause", "last"),
        ("container", "resume", "last"), ("container", "promote", "last"), ("container", "demote", "last"),
        ("container", "resize", "last", "--memory", "1"), ("container", "kill", "last"), ("node", "drain", "last"),
        ("rmadmin", "refresh-queues"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_yarn_has_not_is_refused(cli: Cli, words: tuple[str, ...]) -> None:
    ended = cli("--engine", "yarn", *words)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines()[1:] == [
        "  because: it is not in YARN's REST API, and the engine is yarn (--engine)", "  hint: --engine local"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("run", "--node", "x", "true"), "--node"),
        (("run", "--cwd", "/", "true"), "--cwd"),
        (("run", "--container-timeout", "1", "true"), "--container-timeout"),
        (("run", "--expect", "1s", "true"), "--expect"),
        (("dshell", "--shell-script", "/bin/true"), "--shell-script"),
        (("dshell", "--follow", "--shell-command", "date"), "--follow"),
        (("dshell", "--placement-spec", "x", "--shell-command", "date"), "--placement-spec"),
        (("dshell", "--docker-client-config", "x", "--shell-command", "date"), "--docker-client-config"),
        (("app", "list", "--run-dir", "/tmp"), "--run-dir"),
        (("app", "queue", "last", "x", "--dry-run"), "--dry-run"),
        (("logs", "-f", "last"), "--follow"),
        (("pi", "--detach", "2", "10"), "--detach"),
    ],
)
def test_options_that_cannot_be_honoured_are_refused_before_anything_is_sent(
    cli: Cli, words: tuple[str, ...], option: str
) -> None:
    ended = cli("--rm", "localhost:1", *words)
    assert (ended.code, ended.out) == (2, "")
    assert f"cannot honour {option} on YARN" in ended.err


@pytest.mark.parametrize(
    "words",
    [
        ("run", "-O", "-G", "true"), ("run", "-n", "0", "true"), ("run", "--retries", "-1", "true"),
        ("dshell",), ("dshell", "--shell-command", "x", "--container-type", "BEST"),
        ("dshell", "--shell-command", "x", "--container-retry-policy", "9"), ("pi", "0", "1"),
        ("pi", "1", "1", "--json"),
        ("app", "list", "--state", "ODD"), ("app", "lifetime", "last", "unlimited"), ("wait", "3.2"),
        ("container", "signal", "-s", "USR1", "last"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_makes_no_sense_is_said_before_anything_is_sent(cli: Cli, words: tuple[str, ...]) -> None:
    assert cli("--rm", "localhost:1", *words).code == 2


def test_no_address_and_nobody_there(cli: Cli) -> None:
    ended = cli("node", "list", "--engine", "yarn")
    assert (ended.code, ended.out) == (2, "") and "no ResourceManager is configured" in ended.err
    ended = cli("node", "list", "--rm", "localhost:1")
    assert (ended.code, ended.out) == (69, "") and "http://localhost:1: " in ended.err


def test_a_dry_run_shows_what_would_be_submitted(cli: Cli) -> None:
    ended = cli(
        "run",
        "--rm",
        "localhost:1",
        "--dry-run",
        "-n",
        "2",
        "-O",
        "-e",
        "A=b",
        "--retries",
        "3",
        "date",
        "-u",
    )
    command = json.loads(ended.out)["am-container-spec"]["commands"]["command"]
    assert command.startswith("printf '%b' '\\0000\\0007date -u' > shellCommands; {{JAVA_HOME}}/bin/java ")
    assert (
        "--container_type OPPORTUNISTIC --container_memory 512 --container_vcores 1 --num_containers 2 "
        in command
    )
    assert (
        "--shell_env A=b --shell_env YOPP_TASKS=2 --container_retry_policy 1 --container_max_retries 3 "
        in command
    )
    ended = cli(
        "jar", "X.jar", "org.apache.hadoop.yarn.applications.distributedshell.Client", "-jar", "X.jar",
        "-shell_command", "sleep", "-shell_args", "10", "-num_containers", "10", "-container_type", "OPPORTUNISTIC",
        "-queue", "prod",
        "-master_memory", "512", "-application_tags", "a,b", "--rm", "localhost:1", "--dry-run", "--json",
    )  # fmt: skip
    document = json.loads(ended.out)
    assert (document["queue"], document["resource"]["memory"]) == ("prod", 512)
    assert document["application-tags"] == {"tag": ["a", "b"]}
    assert "--container_memory 10 " in document["am-container-spec"]["commands"]["command"]


def test_completion_offers_no_ids_of_this_host_for_a_cluster_elsewhere(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from yarnopp_cli.cli.help.completion import complete

    def offered(*typed: str) -> list[str]:
        return [one for one in complete([*typed]) if one.startswith("application_")]

    assert offered("app", "kill", "")
    assert not offered("app", "kill", "--rm", "rm", "")
    assert not offered("app", "kill", "--engine=yarn", "")
    monkeypatch.setenv("YOPP_ENGINE", "yarn")
    assert not offered("app", "kill", "")
    assert offered("app", "kill", "--engine", "local", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_pi_leaves_no_files_of_hadoops_client(tmp_path: Path, number: signal.Signals) -> None:
    home = tmp_path / "hadoop"
    jar = home / "share/hadoop/mapreduce/hadoop-mapreduce-examples-3.4.0.jar"
    jar.parent.mkdir(parents=True)
    jar.touch()
    client = home / "bin" / "hadoop"
    client.parent.mkdir()
    client.write_text(
        "#!/bin/sh\nmkdir -p QuasiMonteCarlo_1_2/in && touch QuasiMonteCarlo_1_2/in/part0\nexec sleep 60\n"
    )
    client.chmod(0o755)
    (tmp_path / "here").mkdir()
    started = subprocess.Popen(
        [sys.executable, "-m", "yarnopp_cli", "pi", "2", "10", "--rm", "localhost:1"],
        cwd=tmp_path / "here",
        env={**os.environ, "PATH": f"{client.parent}:{os.environ['PATH']}", "PYTHONPATH": str(SOURCE)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: [*(tmp_path / "here").rglob("part0")], what="Hadoop's client has made its input")
    if number is signal.SIGINT:
        os.killpg(started.pid, number)  # a terminal sends it to both
    else:
        started.send_signal(number)
    _, err = started.communicate(timeout=20)
    assert started.returncode == 128 + number
    assert "removed files that Hadoop's client left: QuasiMonteCarlo_1_2" in err
    assert not list((tmp_path / "here").iterdir())
