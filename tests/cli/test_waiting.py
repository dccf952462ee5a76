"""``yopp wait``: it mirrors exit codes, any and all, states on the way, and a timeout."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from executor.records import ContainerState
from yarnopp_cli.records.reports import FinalApplicationStatus, JobSummary, YarnApplicationState

from .fake import Cluster, app_id, application, container, container_id

Cli = Callable[..., Any]
FINISHED = {"state": YarnApplicationState.FINISHED, "final_status": FinalApplicationStatus.SUCCEEDED}


def test_it_ends_with_the_jobs_code(cli: Cli, cluster: Cluster) -> None:
    ended = cli("wait", "1")
    assert (ended.code, ended.out) == (3, f"{app_id(1)} FINISHED FAILED, exit 3\n")
    assert cli("wait", "1", "-q").out == ""
    assert json.loads(cli("wait", "1", "--json").out) == {
        "wait": [
            {"id": app_id(1), "state": "FINISHED", "finalStatus": "FAILED", "exit": 3, "diagnostics": ""}
        ],
        "exit": 3,
    }


def test_what_a_job_that_ended_well_has_lost_is_in_its_document(cli: Cli, cluster: Cluster) -> None:
    cluster.applications.append(application(3, **FINISHED, summary=JobSummary(total=1, processes_killed=1)))
    [job] = json.loads(cli("wait", "3", "--json").out)["wait"]
    assert job["exit"] == 0 and job["diagnostics"] == "it lost a process to the OOM killer"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({**FINISHED, "summary": JobSummary(exit_code=0)}, 0),
        ({**FINISHED}, 0),
        ({"state": YarnApplicationState.FINISHED, "final_status": FinalApplicationStatus.FAILED}, 1),
        ({"state": YarnApplicationState.KILLED, "final_status": FinalApplicationStatus.KILLED}, 143),
        ({"state": YarnApplicationState.FAILED, "summary": JobSummary(exit_code=75)}, 75),
        ({"state": YarnApplicationState.KILLED, "summary": JobSummary(exit_code=0)}, 143),
        ({"state": YarnApplicationState.KILLED, "summary": JobSummary(exit_code=130)}, 130),
    ],
)
def test_codes_of_ended_applications(cli: Cli, cluster: Cluster, changes: dict[str, Any], code: int) -> None:
    cluster.applications.append(application(3, **changes))
    assert cli("wait", "3").code == code


def test_the_highest_code_of_several(cli: Cli, cluster: Cluster) -> None:
    cluster.applications += [
        application(3, **FINISHED),
        application(
            4, **{**FINISHED, "final_status": FinalApplicationStatus.FAILED}, summary=JobSummary(exit_code=7)
        ),
    ]
    assert cli("wait", "1", "3", "4").code == 7
    assert cli("wait", "3", "2", "--any").code == 0


def test_a_timeout_is_124_and_says_what_is_missing(cli: Cli, cluster: Cluster) -> None:
    ended = cli("wait", "2", "--timeout", "30ms")
    assert ended.code == 124
    assert app_id(2) in ended.err
    assert "RUNNING" in ended.err
    assert len(ended.err.strip().splitlines()) == 3


def test_states_on_the_way(cli: Cli, cluster: Cluster) -> None:
    assert cli("wait", "2", "--for", "running").code == 0
    assert cli("wait", "2", "--for", "ACCEPTED").code == 0
    assert cli("wait", "1", "--for", "RUNNING").code == 0
    assert cluster.asked("waitForApplications")[-1].states == (YarnApplicationState.RUNNING,)
    bad = cli("wait", "2", "--for", "SLEEPING")
    assert bad.code == 2
    assert "--for" in bad.err


def test_it_waits_until_it_has_happened(cli: Cli, cluster: Cluster) -> None:
    """The RM holds the answer; here it answers again and again with the same until the state changes."""
    asked = threading.Event()
    original = cluster.rm.handlers["waitForApplications"]

    def slow(request: Any) -> Any:
        if len(cluster.asked("waitForApplications")) >= 3:
            cluster.applications[1] = application(2, **FINISHED)
        asked.set()
        return original(request)

    cluster.rm.handlers["waitForApplications"] = slow
    assert cli("wait", "last").code == 0
    assert asked.is_set()
    assert len(cluster.asked("waitForApplications")) == 3


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"exit_status": 0, "exit_code": 0}, 0),
        ({"exit_status": 9, "exit_code": 9}, 9),
        ({"exit_status": -104, "exit_code": 137}, 137),
        ({"exit_status": -108, "exit_code": 143}, 75),
        ({"exit_status": -102}, 75),
        ({"exit_status": -105}, 137),
    ],
)
def test_containers_too(cli: Cli, cluster: Cluster, changes: dict[str, Any], code: int) -> None:
    cluster.containers.append(container(2, 5, state=ContainerState.DONE, **changes))
    assert cli("wait", container_id(2, 5)).code == code
    assert cli("wait", "2.5", "--any").code == code
    assert cli("wait", "2.1", "--for", "RUNNING").code == 0
    assert cli("wait", "2.2", "--for", "QUEUED").code == 0
    assert cli("wait", "2.2", "--for", "RUNNING", "--timeout", "20ms").code == 124


@pytest.mark.parametrize(("rule", "code"), [("highest", 9), ("first", 4), ("any", 1)])
def test_whose_code_counts(cli: Cli, cluster: Cluster, rule: str, code: int) -> None:
    ends = {5: (9, 3000), 6: (4, 1000), 7: (0, 500), 8: (6, 2000)}
    for number, (status, at) in ends.items():
        cluster.containers.append(
            container(
                2, number, state=ContainerState.DONE, exit_status=status, exit_code=status, finished_at_ms=at
            )
        )
    ids = [container_id(2, number) for number in ends]
    assert cli("wait", *ids, "--exit-code", rule).code == code
    assert cli("wait", container_id(2, 7), "--exit-code", rule).code == 0


def test_what_there_is_not_is_66(cli: Cli, cluster: Cluster) -> None:
    assert cli("wait", app_id(77)).code == 66
    assert cli("wait", container_id(7, 7)).code == 66
    assert cli("wait").code == 2


def test_kill_ends_what_is_not_there_in_time(cli: Cli, cluster: Cluster) -> None:
    ended = cli("wait", "1", "2", "--timeout", "30ms", "--kill")
    assert ended.code == 124 and ended.err == (
        f"error: {app_id(2)} did not end within 0.03 s, and was killed\n"
        f"  because: {app_id(2)} was RUNNING\n  hint: yopp logs {app_id(2)}\n"
    )
    assert [one.application_id for one in cluster.asked("forceKillApplication")] == [app_id(2)], "1 was there"
    stopped = cli("wait", "2.1", "--for", "DONE", "--timeout", "30ms", "--kill")
    assert stopped.code == 124
    assert cluster.asked("stopContainers")[-1].container_ids == (container_id(2, 1),)
    assert cli("wait", "2", "--for", "RUNNING", "--timeout", "30ms", "--kill").code == 0
    assert cli("wait", "2", "--kill").code == 2
    assert len(cluster.asked("forceKillApplication")) == 1


def test_all_where_nothing_lives_says_so(cli: Cli, cluster: Cluster) -> None:
    cluster.applications.clear()
    ended = cli("wait", "all")
    assert (ended.code, ended.out, ended.err) == (
        0,
        "",
        "no application is running: there is nothing to wait for\n",
    )
    ended = cli("app", "kill", "all", "-y")
    assert (ended.code, ended.err) == (0, "no live applications to kill\n")
