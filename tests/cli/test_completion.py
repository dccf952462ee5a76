"""TAB: commands, options, live ids; quick, and silent where there is nothing to say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from executor.records import ContainerState, ExecutionType
from yarnopp_cli.cli.help.completion import SECONDS, complete
from yarnopp_cli.client.local import LocalClient
from yarnopp_cli.records.job_protocol import GetApplicationsResponse
from yarnopp_cli.records.reports import QueueReport

from .fake import Cluster, app_id, container_id

NOTHING = GetApplicationsResponse(())

Cli = Callable[..., Any]
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        (["expl"], ["explain"]),
        (["node", "dr"], ["drain"]),
        (["nodes", "--js"], ["--json"]),
        (["container", "pro"], ["promote"]),
        (["events", "--foll"], ["--follow"]),
        (["node", "resize", "--v"], ["--vcores", "--verbose"]),
        (["man", "yarn"], ["yarn-site.toml"]),
        (["no-such", ""], []),
        (["run", "-n", "3", "./sl"], []),
        (["run", "sleep", "-"], []),
        (["--vers"], ["--version"]),
        (["application", "st"], ["status"]),
        (["-o", "js"], ["json", "jsonl"]),
        (["ps", "-o", "t"], ["table", "tsv"]),
        (["-o", "json", "expl"], ["explain"]),
        (["ps", "--color", ""], ["auto", "always", "never"]),
        (["ps", "--state", "PAU"], ["PAUSING", "PAUSED"]),
        (["ps", "--state", "RUNNING,QUE"], ["RUNNING,QUEUED"]),
        (["nodes", "--state", "decommissionin"], ["DECOMMISSIONING"]),
        (["container", "list", "--type", ""], ["GUARANTEED", "OPPORTUNISTIC"]),
        (["app", "list", "--type", "Y"], ["YARN"]),
        (["ps", "--sort", "-mem"], ["-memory"]),
        (["node", "list", "--columns", "id,sta"], ["id,state"]),
        (["events", "--kind", "NodeL"], ["NodeLost"]),
        (["wait", "--for", "r"], ["RUNNING"]),
        (["run", "--exit-code", ""], ["highest", "first", "any"]),
        (["engine", "use", ""], ["local", "yarn"]),
        (["run", "-n", ""], []),
    ],
)
def test_words_that_need_no_cluster(run_dir: Path, typed: list[str], wanted: list[str]) -> None:
    assert complete(typed) == wanted


def test_programs_for_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a shell offers them: files of PATH that can be executed; what follows the program is for the shell."""
    (tmp_path / "sleeper").touch(0o755)
    (tmp_path / "sleepless").touch(0o644)
    monkeypatch.setenv("PATH", f"{tmp_path}:/nonexistent")
    assert (
        complete(["run", "-n", "3", "sl"])
        == complete(["run", "sl"])
        == complete(["run", "--", "sl"])
        == ["sleeper"]
    )
    assert complete(["run", ""]) == complete(["run", "sleeper", "sl"]) == []


def test_every_command_is_offered(run_dir: Path) -> None:
    found = complete([""])
    assert {"up", "run", "explain", "events", "stats", "completion", "application"} <= set(found)


def test_live_ids(cluster: Cluster) -> None:
    assert app_id(2) in complete(["app", "kill", "app"])
    found = complete(["container", "promote", ""])
    assert found[0] == "last" and container_id(2, 1) in found
    assert app_id(2) in complete(["wait", ""]) and container_id(2, 1) in complete(["wait", ""])
    assert "host1:45454" in complete(["ps", "--node", "h"])
    assert complete(["explain", "host1:4"])[0].startswith("host1:4")


@pytest.mark.parametrize(
    "command", ["wait", "logs", "explain", "rerun", "report", "app status", "ps --app", "run --after"]
)
def test_ended_applications_are_offered_where_they_are_asked_about(cluster: Cluster, command: str) -> None:
    assert app_id(1) not in complete(["app", "kill", ""])
    words = command.split()
    assert app_id(1) in complete([*words, app_id(1)[:-1]])
    assert complete([*words, "la"]) == ["last"]


def test_last_is_offered_by_its_first_letter_where_there_is_something(cluster: Cluster) -> None:
    assert complete(["container", "kill", "l"]) == ["last"]
    assert complete(["run", "--queue", ""]) == ["default"] and complete(["queue", "status", "l"]) == []
    cluster.applications = []
    assert complete(["app", "kill", "l"]) == []


def test_queues_that_take_no_application_are_offered_only_where_they_are_looked_at(cluster: Cluster) -> None:
    cluster.queues.insert(0, QueueReport("root", path="root", leaf=False))
    assert complete(["run", "--queue", ""]) == complete(["app", "queue", "2", ""]) == ["default"]
    assert complete(["queue", "status", ""]) == complete(["ps", "--queue", ""]) == ["root", "default"]


def test_containers_that_a_command_can_do_nothing_to_are_not_offered(cluster: Cluster) -> None:
    every = cluster.containers
    live = [one for one in every if not one.finished_at_ms]
    for verb, wanted in (
        ("promote", [one for one in live if one.execution_type is ExecutionType.OPPORTUNISTIC]),
        ("demote", [one for one in live if one.execution_type is ExecutionType.GUARANTEED and not one.is_am]),
        ("pause", [one for one in live if one.state is ContainerState.RUNNING]),
        ("resume", [one for one in live if one.state is ContainerState.PAUSED]),
    ):
        offered = [word for word in complete(["container", verb, ""]) if word != "last"]
        assert sorted(offered) == sorted(one.container_id for one in wanted), verb
        assert len(wanted) < len(every)


def test_where_no_cluster_is_nothing_is_said(cli: Cli) -> None:
    ended = cli("completion", "words", "app", "kill", "")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    ended = cli("completion", "words", "--help", "-x", "")
    assert (ended.code, ended.err) == (0, "")


@pytest.fixture
def silent(cluster: Cluster) -> Iterator[Cluster]:
    """One whose RM takes calls and answers none before the test has ended."""
    over = threading.Event()
    cluster.rm.handlers["getApplications"] = lambda _: over.wait() and NOTHING
    yield cluster
    over.set()


def test_a_daemon_that_does_not_answer_costs_a_moment(
    silent: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []
    hurry = LocalClient.hurry
    monkeypatch.setattr(
        LocalClient, "hurry", lambda self, seconds: given.append(seconds) or hurry(self, seconds)
    )
    assert complete(["app", "kill", ""]) == []
    assert len(silent.asked("getApplications")) == 1 and given == [SECONDS] and SECONDS <= 0.25


def shim(folder: Path) -> dict[str, str]:
    """An environment in which ``yopp`` is this one."""
    program = folder / "yopp"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m yarnopp_cli "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize(
    ("line", "wanted"),
    [("yopp expl", "explain"), ("yopp node dr", "drain"), ("yopp ps --node host1:45454", "45454")],
)
def test_the_script_for_bash(cluster: Cluster, tmp_path: Path, line: str, wanted: str) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not here: its completion was not run")
    script = (
        f'eval "$(yopp completion bash)"; COMP_LINE="{line}"; COMP_POINT=${{#COMP_LINE}}; _yopp; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    ended = subprocess.run(
        [bash, "-c", script], env=shim(tmp_path), text=True, capture_output=True, timeout=60, check=True
    )
    assert ended.stdout.split() == [wanted] and ended.stderr == ""


def test_zsh_completes_where_nothing_has_started_its_completion(cli: Cli, tmp_path: Path) -> None:
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("zsh is not here: its completion was not run")
    script = tmp_path / "completion.zsh"
    script.write_text(cli("completion", "zsh").out)
    ended = subprocess.run(
        [zsh, "-f", "-c", f"source {script}; echo $_comps[yopp]"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "_yopp\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_have_no_syntax_errors(cli: Cli, tmp_path: Path, shell: str) -> None:
    program = shutil.which(shell)
    script = cli("completion", shell).out
    assert "yopp completion words" in script
    if program is None:
        pytest.skip(f"{shell} is not here: its script was not read")
    path = tmp_path / "script"
    path.write_text(script)
    ended = subprocess.run([program, "-n", str(path)], capture_output=True, timeout=60, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_stopped_daemon_does_not_stop_the_shell(silent: Cluster, run_dir: Path, tmp_path: Path) -> None:
    """As above over a whole process: it ends although the RM has not answered."""
    env = {**shim(tmp_path), "YOPP_RUN_DIR": str(run_dir)}
    ended = subprocess.run(
        [tmp_path / "yopp", "completion", "words", "app", "kill", ""], env=env, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert len(silent.asked("getApplications")) == 1
