"""Jobs of clusters that have ended: each command that takes them finds them by id, number, ``last`` and name."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from yarnopp_cli.cluster.rundir import RunDir
from yarnopp_cli.daemons.retention import HistoryFiles
from yarnopp_cli.errors import ApplicationNotFoundError
from yarnopp_cli.records import explanation
from yarnopp_cli.records.history import ApplicationHistory
from yarnopp_cli.records.reports import FinalApplicationStatus, JobSummary, YarnApplicationState
from yarnopp_cli.rpc.methods import methods_of

from .fake import TIMESTAMP, Cluster, app_id, application

Cli = Callable[..., Any]
COMMANDS = ("wait", "explain", "app status", "report", "logs")


def keep(run_dir: Path, number: int, name: str, **changes: Any) -> None:
    """The history and the output of a job of a cluster that has ended."""
    report = application(
        number,
        name=name,
        state=YarnApplicationState.FINISHED,
        final_status=FinalApplicationStatus.FAILED,
        summary=JobSummary(exit_code=3),
        **changes,
    )
    HistoryFiles(RunDir.of(str(run_dir)), 100).keep(ApplicationHistory(report, (), (), 7))
    (run_dir / "state" / "logs" / app_id(number) / f"container_1_{number:04d}_01_000001").mkdir(parents=True)


def ask(cli: Cli, command: str, word: str) -> Any:
    return cli(*command.split(), word, *(["--json"] if command == "report" else []))


@pytest.fixture
def kept(run_dir: Path) -> None:
    keep(run_dir, 61, "nightly")
    keep(run_dir, 62, "weekly")
    keep(run_dir, 63, "weekly (on-end)", tags=("on-end",))


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_cluster(cli: Cli, kept: None, command: str) -> None:
    code = 3 if command == "wait" else 0
    for word, number in ((app_id(61), 61), ("61", 61), ("_0061", 61), ("nightly", 61), ("last", 62)):
        ended = ask(cli, command, word)
        assert (ended.code, app_id(number) in ended.out or command == "logs") == (code, True), word


def test_output_of_a_container_is_found_by_the_name_of_its_job(cli: Cli, kept: None, run_dir: Path) -> None:
    keep(run_dir, 64, "release.2")
    keep(run_dir, 65, "release")
    for number in (61, 64, 65):
        name = f"container_{TIMESTAMP}_{number:04d}_01_000002"
        directory = run_dir / "state" / "logs" / app_id(number) / name
        directory.mkdir(parents=True)
        (directory / "stdout").write_text(f"{number}\n")
    for word, number in (("nightly.2", 61), ("nightly.c2", 61), ("release.2", 64), ("release.c2", 65)):
        assert cli("logs", word).out == f"{number}\n", word
    assert cli("logs", "nightly.3").code == cli("logs", "monthly.2").code == 66


def test_one_that_wrote_nothing_is_known(cli: Cli, run_dir: Path) -> None:
    keep(run_dir, 61, "nightly")
    shutil.rmtree(run_dir / "state" / "logs")
    ended = cli("logs", "nightly")
    assert (ended.code, ended.out, ended.err) == (0, "", "no output\n")
    ended = cli("logs", "nightly.2")
    assert (ended.code, ended.err.splitlines()[0]) == (66, "error: no container nightly.2")
    assert "has no output of it" in ended.err
    assert cli("report", "nightly").err.splitlines()[1] == "  because: it has had none"
    keep(run_dir, 62, "weekly", guaranteed_allocated_total=1)
    assert cli("report", "weekly").err.splitlines()[1] == "  because: their events are no longer kept"


@pytest.mark.parametrize("command", COMMANDS)
def test_what_neither_knows(cli: Cli, kept: None, command: str) -> None:
    ended = ask(cli, command, "monthly")
    assert ended.code == (66 if command == "logs" else 69)
    assert "monthly" in ended.err


@pytest.mark.parametrize("command", COMMANDS)
def test_beside_a_cluster_that_never_knew_them(cli: Cli, cluster: Cluster, command: str) -> None:

    def unknown(request: explanation.ExplainRequest) -> None:
        raise ApplicationNotFoundError.of(request.id, "this cluster never had it")

    cluster.rm.methods = {**cluster.rm.methods, **methods_of(explanation)}
    cluster.rm.handlers["explain"] = unknown
    keep(cluster.run_dir, 61, "nightly")
    code = 3 if command == "wait" else 0
    for word in (app_id(61), "61", "nightly"):
        ended = ask(cli, command, word)
        assert (ended.code, app_id(61) in ended.out or command == "logs") == (code, True), word
    assert ask(cli, command, "77").code == 66


def test_the_cluster_comes_first(cli: Cli, cluster: Cluster) -> None:
    keep(cluster.run_dir, 11, "sleep")  # ends like 1 and is called as the running ones are
    assert app_id(1) in cli("wait", "1").out
    both = cli("app", "status", "1", "11", "-q")
    assert both.out.split() == [app_id(1), app_id(11)]
