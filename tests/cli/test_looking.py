"""What the looking commands print, against canned reports over the real wire."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from executor.records import ContainerState, ExecutionType, Resource, ResourceUtilization
from yarnopp_cli.cli.frame import naming
from yarnopp_cli.cluster.inspection import inspect_cluster
from yarnopp_cli.cluster.processes import ProcessId
from yarnopp_cli.cluster.rundir import SITE, Daemon, RunDir
from yarnopp_cli.daemons.state_file import FORMAT, StateFile
from yarnopp_cli.errors import ContainerNotFoundError, UsageError
from yarnopp_cli.records.reports import (
    FINAL_STATES,
    ApplicationReport,
    FinalApplicationStatus,
    QueueReport,
    QueueUserReport,
    YarnApplicationState,
)
from yarnopp_cli.records.requests import ApplicationSubmissionContext
from yarnopp_cli.records.state import StoredApplication, StoredCluster, StoredLife, StoreRecord
from yarnopp_cli.settings.loading import load

from .fake import TIMESTAMP, Cluster, app_id, application, container, container_id

Cli = Callable[..., Any]


def test_node_list_as_a_table_and_as_yarns_document(cli: Cli, cluster: Cluster) -> None:
    ended = cli("node", "list")
    assert ended.code == 0
    header, row = ended.out.splitlines()
    assert header.split()[:2] == ["NODE", "STATE"]
    assert row.startswith("host1:45454  RUNNING")
    assert "8/10" in row
    document = json.loads(cli("node", "list", "--json").out)
    (node,) = document["nodes"]["node"]
    assert (node["id"], node["numRunningOpportContainers"], node["numQueuedContainers"]) == (
        "host1:45454",
        2,
        8,
    )
    assert (node["usedMemoryMB"], node["availMemoryMB"], node["usedMemoryOpportGB"]) == (1024, 3072, 2)
    assert node["yopp"]["usedMemoryOpportMB"] == 1536
    assert len(json.loads(cli("nodes", "-a", "--json").out)["nodes"]["node"]) == 2
    assert cli("node", "-list", "-states", "LOST", "-o", "name").out == "host1:45455\n"
    assert cli("node", "list", "-o", "wide").out.splitlines()[0].count("LAST HEALTH-UPDATE") == 1


def test_no_rows_are_null_in_json_as_in_yarn_and_a_note_in_a_table(cli: Cli, cluster: Cluster) -> None:
    cluster.nodes, cluster.containers, cluster.applications = [], [], []
    assert cli("node", "list", "--json").out == '{"nodes":null}\n'
    assert cli("app", "list", "--json").out == '{"apps":null}\n'
    ended = cli("ps")
    assert (ended.code, ended.out) == (0, "")
    assert "no containers" in ended.err
    assert cli("ps", "-q").err == ""


def test_a_list_that_is_empty_for_its_filters_or_limit_says_so(cli: Cli, cluster: Cluster) -> None:
    more = " (-a shows ended ones)\n"
    assert cli("ps", "--limit", "0").err == "no containers shown: --limit is 0\n"
    assert cli("app", "list", "--limit", "0").err == "no applications shown: --limit is 0\n"
    assert cli("ps", "--user", "nobody").err == f"no live containers match{more}"
    assert cli("ps", "-a", "--user", "nobody").err == "no containers match\n"
    cluster.applications = [one for one in cluster.applications if one.state in FINAL_STATES]
    assert cli("app", "list", "--type", "SPARK").err == f"no live applications match{more}"
    refused = cli("app", "list", "--type", "O")
    assert refused.code == 2
    assert "applicationType" in refused.err and "`yopp ps --type O` lists containers" in refused.err
    cluster.containers, cluster.applications = [], []
    assert cli("ps").err == f"no containers live{more}"


def test_jobs_that_have_not_begun_are_told_of_with_what_they_wait_for(cli: Cli, cluster: Cluster) -> None:
    waits = {"state": YarnApplicationState.ACCEPTED, "postponed": True}
    for number in range(3, 8):
        cluster.applications.append(application(number, **waits, after=(f"{app_id(1)}:ok",)))
    told = cli("ps").err.splitlines()
    assert told[0] == f"{app_id(3)} (sleep) has not begun: it waits for {app_id(1)} to succeed"
    assert len(told) == 4 and told[-1].startswith("2 more have not begun: `yopp app list`")
    assert cli("ps", "--app", "4").err.splitlines()[1:] == [told[1]]
    for words in (("--json",), ("-q",), ("--state", "RUNNING"), ("--user", "nobody")):
        assert "begun" not in cli("ps", *words).err
    assert f"  waits for {app_id(1)} to succeed\n" in cli("app", "list").out


def test_node_status_by_id_port_and_last(cli: Cli, cluster: Cluster) -> None:
    for word in ("host1:45454", "45454"):
        assert json.loads(cli("node", "status", word, "--json").out)["node"]["id"] == "host1:45454"
    text = cli("node", "status", "45454").out
    assert "Node-State : RUNNING" in text
    assert "2 opportunistic" in text
    assert cli("node", "status", "nowhere").code == 66
    ambiguous = cli("node", "status", "host1")
    assert ambiguous.code == 2
    assert "host1:45455" in ambiguous.err
    unnamed = cli("node", "status")
    assert unnamed.code == 2 and "there are 2: host1:45454 and host1:45455" in unnamed.err
    cluster.nodes = cluster.nodes[:1]
    assert cli("node", "status", "-q").out == "host1:45454\n"


def test_a_node_that_was_not_measured_yet_has_no_figures(cli: Cli, cluster: Cluster) -> None:
    fresh = replace(cluster.nodes[0], node_utilization=ResourceUtilization())
    cluster.nodes = [fresh]
    keys = ("node", "list", "-o", "tsv", "--columns", "cpu,memUsed")
    assert cli(*keys).out == "cpu\tmemUsed\n-\t-\n"
    cluster.nodes = [replace(fresh, node_utilization=ResourceUtilization(5 << 20, 0.0))]
    assert cli(*keys).out == "cpu\tmemUsed\n0.0\t5 MB\n"


def test_the_last_container_is_no_master_unless_there_are_only_masters(cli: Cli, cluster: Cluster) -> None:
    task, master = container(1, 2, is_am=False), container(2, 1, is_am=True)
    cluster.containers = [container(1, 1, is_am=True), task, master]
    assert cli("container", "status", "last", "-q").out == f"{task.container_id}\n"
    cluster.containers = [master]
    assert cli("container", "status", "last", "-q").out == f"{master.container_id}\n"


def test_app_list_filters_and_formats(cli: Cli, cluster: Cluster) -> None:
    assert cli("app", "list", "-q").out == f"{app_id(2)}\n"
    assert cli("app", "list", "-a", "-q").out.split() == [app_id(1), app_id(2)]
    assert cli("application", "-list", "-appStates", "FINISHED", "-q").out.split() == [app_id(1)]
    assert cli("app", "list", "-a", "--limit", "1", "-o", "name").out.split() == [app_id(2)]
    lines = [json.loads(line) for line in cli("app", "list", "-a", "-o", "jsonl").out.splitlines()]
    assert [(one["state"], one["yopp"]["exit"]) for one in lines] == [("FINISHED", 3), ("RUNNING", None)]
    tsv = cli("app", "list", "-a", "-o", "tsv", "--columns", "id,state,exit").out
    assert tsv == f"id\tstate\texit\n{app_id(1)}\tFINISHED\t3\n{app_id(2)}\tRUNNING\t-\n"
    assert cli("app", "list", "-a", "-q", "--sort", "-id").out.split() == [app_id(2), app_id(1)]
    cli("app", "list", "--type", "YOPP", "--tag", "a,b", "--user", "me", "--name", "sleep")
    request = cluster.asked("getApplications")[-1]
    assert (request.application_types, request.tags, request.user, request.name, request.live_only) == (
        ("YOPP",), ("a", "b"), "me", "sleep", True
    )  # fmt: skip


def test_app_status_shows_exit_code_and_counts(cli: Cli, cluster: Cluster) -> None:
    document = json.loads(cli("app", "status", "1", "--json").out)["app"]
    assert (document["id"], document["finalStatus"], document["yopp"]["exit"]) == (app_id(1), "FAILED", 3)
    text = cli("app", "status", "last").out
    assert f"Application-Id : {app_id(2)}" in text
    assert "yopp run -O sleep 10" in text


def test_container_list_merges_what_the_node_knows_now(cli: Cli, cluster: Cluster) -> None:
    found = json.loads(cli("container", "list", "--json").out)["containers"]["container"]
    running, queued = found
    assert (running["state"], running["executionType"], running["yopp"]["state"]) == (
        "RUNNING", "OPPORTUNISTIC", "RUNNING"
    )  # fmt: skip
    assert running["yopp"]["used"]["cpuSeconds"] == 1.5
    assert (running["yopp"]["used"]["rssMB"], running["yopp"]["used"]["throttledMs"]) == (20.0, 250)
    assert running["yopp"]["limits"] == {"cpuQuota": None, "cpuShares": 2, "memoryMB": 512, "pids": 4096}
    assert running["yopp"]["command"] == ["sleep", "10"]
    assert (queued["state"], queued["yopp"]["state"], queued["yopp"]["position"]) == (
        "SCHEDULED",
        "QUEUED",
        1,
    )
    table = cli("ps").out.splitlines()
    assert [line.split()[:4] for line in table[1:]] == [
        [container_id(2, 1), "OPPORTUNISTIC", "RUNNING", "-"],
        [container_id(2, 2), "OPPORTUNISTIC", "QUEUED", "1"],
    ]


def test_container_list_still_answers_while_a_node_does_not(cli: Cli, cluster: Cluster) -> None:
    cluster.nm.close()
    (cluster.run_dir / "nm-45454.sock").unlink()
    found = json.loads(cli("ps", "--json").out)["containers"]["container"]
    assert [one["yopp"]["state"] for one in found] == ["QUEUED", "QUEUED"]
    assert found[0]["yopp"]["limits"] is None
    cluster.nm = type(cluster.nm)(cluster.run_dir / "nm-45454.sock", {}, {})


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), ["2.1", "2.2"]),
        (("-a",), ["1.1", "2.1", "2.2"]),
        (("--state", "QUEUED"), ["2.2"]),
        (("--state", "SCHEDULED"), ["2.2"]),
        (("--state", "DONE"), ["1.1"]),
        (("--state", "ALL"), ["1.1", "2.1", "2.2"]),
        (("--type", "G"), []),
        (("--type", "opportunistic"), ["2.1", "2.2"]),
        (("--app", "1", "-a"), ["1.1"]),
        (("--app", "sleep"), ["2.1", "2.2"]),
        (("--app", f"appattempt_{TIMESTAMP}_0002_000001"), ["2.1", "2.2"]),
        (("--app", f"appattempt_{TIMESTAMP}_0002_000002"), []),
        (("--node", "45455"), []),
        (("--user", "somebody"), []),
        (("-a", "--limit", "2"), ["2.1", "2.2"]),
    ],
)
def test_container_filters(cli: Cli, cluster: Cluster, words: tuple[str, ...], expected: list[str]) -> None:
    ids = [container_id(*map(int, one.split("."))) for one in expected]
    assert cli("container", "list", "-q", *words).out.split() == ids


def test_cgroup_v2_shows_weights(cli: Cli, cluster: Cluster) -> None:
    cluster.cgroups = "v2"
    cluster.containers.append(
        container(2, 3, execution_type=ExecutionType.GUARANTEED, state=ContainerState.RUNNING)
    )
    found = json.loads(cli("ps", "--json").out)["containers"]["container"]
    assert [one["yopp"]["limits"]["cpuShares"] for one in found] == [1, 1, 100]


def test_a_quota_is_shown_where_use_is_strict(cli: Cli, cluster: Cluster) -> None:
    import dataclasses

    name = "yarn.nodemanager.linux-container-executor.cgroups.strict-resource-usage"
    cluster.info = dataclasses.replace(cluster.info, properties={name: "true"})
    found = json.loads(cli("ps", "--json").out)["containers"]["container"]
    assert found[0]["yopp"]["limits"]["cpuQuota"] > 0


def test_container_status_says_the_execution_type_first(cli: Cli, cluster: Cluster) -> None:
    lines = cli("container", "status", "2.1").out.splitlines()
    assert lines[0].split(" : ")[1] == "OPPORTUNISTIC"
    text = "\n".join(lines)
    assert "throttled for 250 ms" in text
    assert "20 MB now, 25 MB at most, 0 OOM kills" in text
    assert "memory 512 MB" in text
    ended = cli("container", "status", "1.1").out
    assert "Exit-Status : 3" in ended and " at most, 0 OOM kills" in ended and " now" not in ended
    cluster.containers[0] = container(
        1, 1, state=ContainerState.DONE, exit_status=-104, exit_code=137, diagnostics="too much\nreally"
    )
    ended = cli("container", "status", "1.1").out
    assert "-104 (KILLED_EXCEEDED_PMEM), exit code 137" in ended
    assert "too much" in ended


def test_suffixes_that_mean_several_things_list_them(cli: Cli, cluster: Cluster) -> None:
    ended = cli("container", "status", "1")
    assert ended.code == 2
    assert container_id(1, 1) in ended.err
    assert container_id(2, 1) in ended.err
    assert cli("container", "status", "_000002").code == 0
    assert cli("container", "status", "7.7").code == 66
    assert cli("container", "status", "nonsense").code == 66
    assert cli("container", "status", "container_x").code == 2
    assert cli("app", "status", "99").code == 66
    assert cli("app", "status", app_id(99)).code == 66
    assert cli("app", "status", f"_{2:04d}").code == 0


def test_attempts_and_queues(cli: Cli, cluster: Cluster) -> None:
    attempt = f"appattempt_{TIMESTAMP}_0002_000001"
    assert cli("attempt", "list", "last", "-q").out == f"{attempt}\n"
    assert (
        json.loads(cli("attempt", "status", attempt, "--json").out)["appAttempt"]["appAttemptState"]
        == "RUNNING"
    )
    assert json.loads(cli("attempt", "list", "2", "--json").out)["appAttempts"]["appAttempt"][0]["id"] == 1
    assert cli("attempt", "status", f"appattempt_{TIMESTAMP}_0002_000009").code == 66
    assert json.loads(cli("queue", "list", "--json").out)["queues"]["queue"][0]["queueName"] == "default"
    assert "Maximum Capacity" in cli("queue", "-status", "default").out
    assert cli("queue", "status", "nope").code == 66


def test_applications_move_and_have_priorities(cli: Cli, cluster: Cluster) -> None:
    identifier = app_id(2)
    assert cli("app", "queue", "2", "root.prod").out == f"{identifier} is in queue root.prod\n"
    assert (
        json.loads(cli("app", "-movetoqueue", identifier, "-queue", "q", "--json").out)["app"]["queue"] == "q"
    )
    assert cli("app", "priority", "2", "7").out == f"{identifier} has priority 7\n"
    assert (
        json.loads(cli("app", "-updatePriority", "3", "-appId", identifier, "--json").out)["app"]["priority"]
        == 3
    )
    assert cluster.asked("updateApplicationPriority")[-1].priority == 3
    assert cli("app", "queue", "99", "q").code == 66
    assert cli("app", "priority", "2", "-1").code == 2


def test_queues_as_yarn_shows_them(cli: Cli, cluster: Cluster) -> None:
    cluster.queues = [
        QueueReport("root", path="root", leaf=False, used=Resource(512, 1), guaranteed=Resource(1024, 2)),
        QueueReport(
            "prod", path="root.prod", parent="root", capacity=70.0, absolute_capacity=70.0, used_capacity=50.0,
            guaranteed=Resource(700, 1), maximum=Resource(1024, 2), used=Resource(512, 1), applications=2,
            running_applications=1, users=(QueueUserReport("ada", Resource(512, 1), 2, Resource(100, 3)),),
        ),
    ]  # fmt: skip
    document = json.loads(cli("queue", "status", "root.prod", "--json").out)["queue"]
    assert document["type"] == "capacitySchedulerLeafQueueInfo"
    assert (document["queuePath"], document["absoluteCapacity"], document["usedCapacity"]) == (
        "root.prod",
        70.0,
        50.0,
    )
    assert (document["numActiveApplications"], document["numPendingApplications"]) == (1, 1)
    [user] = document["users"]["user"]
    used = user["resourcesUsed"]
    assert (user["username"], used["memory"], used["vCores"]) == ("ada", 512, 1)
    told = {one["name"]: one["value"] for one in used["resourceInformations"]["resourceInformation"]}
    assert told == {"memory-mb": 512, "vcores": 1}
    guaranteed = document["yopp"]["guaranteed"]
    assert (guaranteed["memory"], guaranteed["vCores"]) == (700, 1)
    assert cli("queue", "list", "-q").out == "root\nprod\n"
    text = cli("queue", "status", "prod").out
    assert "70.00% (700 MB, 1 vcore)" in text and "User ada" in text


def test_kill_returns_when_it_has_happened(cli: Cli, cluster: Cluster) -> None:
    ended = cli("app", "kill", "last")
    assert (ended.code, ended.out) == (0, f"{app_id(2)} KILLED\n")
    again = cli("app", "kill", "last")
    assert (again.code, again.out) == (0, "")
    assert "already ended" in again.err
    assert len(cluster.asked("forceKillApplication")) == 1
    assert cluster.app(app_id(2)).final_status is FinalApplicationStatus.KILLED


def test_kill_that_does_not_take_ends_with_124(cli: Cli, cluster: Cluster) -> None:
    cluster.rm.handlers["forceKillApplication"] = lambda request: _kept(cluster, request.application_id)
    ended = cli("app", "kill", "last", "--timeout", "50ms")
    assert ended.code == 124
    assert cli("app", "kill", "last", "--no-wait").code == 0


def _kept(cluster: Cluster, identifier: str) -> Any:
    from yarnopp_cli.records.client_protocol import ApplicationResponse

    return ApplicationResponse(cluster.app(identifier))


def test_kill_all_asks_and_without_a_terminal_wants_yes(cli: Cli, cluster: Cluster) -> None:
    refused = cli("app", "kill", "all")
    assert refused.code == 2
    assert "-y" in refused.err
    assert cluster.app(app_id(2)).state is YarnApplicationState.RUNNING
    assert cli("app", "kill", "all", "-y").code == 0
    assert cluster.app(app_id(2)).state is YarnApplicationState.KILLED


def test_container_kill_waits_and_signal_signals(cli: Cli, cluster: Cluster) -> None:
    ended = cli("container", "kill", "2.1")
    assert (ended.code, ended.out) == (0, f"{container_id(2, 1)} KILLED\n")
    (request,) = cluster.asked("stopContainers")
    assert request.diagnostics == "Container killed by the user."
    assert cli("container", "signal", "--signal", "usr1", "2.2").code == 0
    assert cluster.asked("signalContainer")[-1].signal == 10
    assert cli("container", "-signal", container_id(2, 2), "FORCEFUL_SHUTDOWN").code == 0
    assert cluster.asked("signalContainer")[-1].signal == 9
    assert cli("container", "signal", "--signal", "NOPE", "2.2").code == 2
    dead = cli("container", "signal", "1.1")
    assert dead.code == 1
    assert "has ended" in dead.err


def test_killing_what_has_not_arrived_says_so(cli: Cli, cluster: Cluster) -> None:
    cluster.containers.append(container(2, 9))
    ended = cli("container", "kill", "2.9")
    assert ended.code == 1
    assert "not arrived" in ended.err
    assert len(ended.err.strip().splitlines()) == 3


def test_bare_yopp_is_a_short_status_and_five_commands(cli: Cli, cluster: Cluster) -> None:
    ended = cli()
    assert ended.code == 0
    assert "1 node, 2 vcores" in ended.out
    assert ended.out.count("\n  yopp ") == 5


def test_ids_from_standard_input(cli: Cli, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{app_id(1)}\n{app_id(2)}\n".encode())))
    ended = cli("app", "status", "-", "-q")
    assert ended.out.split() == [app_id(1), app_id(2)]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert cli("app", "status", "-").code == 2


def test_remote_text_cannot_reach_the_terminal(cli: Cli, cluster: Cluster) -> None:
    evil = "a\x1b]0;pwned\x07b\u202ec\nd\x9b31m"
    cluster.applications[1] = type(cluster.applications[1])(
        app_id(2),
        evil,
        "me",
        "default",
        "YOPP",
        YarnApplicationState.RUNNING,
        FinalApplicationStatus.UNDEFINED,
        diagnostics=evil,
        command_line=evil,
    )
    for words in (
        ("app", "list"),
        ("app", "list", "-o", "wide"),
        ("app", "list", "-o", "tsv"),
        ("app", "status", "2"),
    ):
        out = cli(*words).out
        assert not set("\x1b\x07\u202e\x9b") & set(out), words
        assert "\\e]0;pwned" in out or words == ("app", "list", "-o", "tsv")
    assert len(cli("app", "list").out.splitlines()) == 2
    document = cli("app", "status", "2", "--json").out
    assert json.loads(document)["app"]["name"] == evil
    assert not set("\x1b\x07\u202e\x9b") & set(document)


def test_verbose_tells_of_calls_and_twice_of_messages(cli: Cli, cluster: Cluster) -> None:
    once = cli("node", "list", "-v")
    assert "getClusterNodes took" in once.err
    assert "GetClusterNodesResponse" not in once.err
    assert "GetClusterNodesResponse" in cli("node", "list", "-vv", "--json").err
    assert json.loads(cli("node", "list", "-vv", "--json").out)


def test_watch_prints_again_until_ctrl_c(cli: Cli, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("yarnopp_cli.cli.frame.session.time.sleep", sleep)
    ended = cli("ps", "-q", "-w", "2s")
    assert ended.code == 130
    assert pauses == [2.0] * 3
    assert ended.out.split() == [container_id(2, 1), container_id(2, 2)] * 3
    assert cli("ps", "-w", "0").code == 2


@pytest.mark.parametrize(
    ("cgroups", "told", "said"),
    [
        ("v1", (), ""),
        ("none", ("cgroup v1 cpu cannot be written (/x)", "polling"), "enforced by polling"),
        (
            "v2",
            ("the controller pids is not delegated to /x",),
            "weaker here than they could be (cgroups: v2)",
        ),
        ("none", ("cgroups are switched off by yopp.nodemanager.cgroups.mode = none",), ""),
    ],
)
def test_what_is_weaker_on_a_node(cluster: Cluster, cgroups: str, told: tuple[str, ...], said: str) -> None:
    from yarnopp_cli.cluster.inspection import weaker_limits
    from yarnopp_cli.cluster.rundir import RunDir

    cluster.cgroups, cluster.node_warnings = cgroups, told
    lines = weaker_limits(RunDir.of(str(cluster.run_dir)), 45454)
    assert len(lines) == bool(said)
    assert said in "".join(lines)
    assert not lines or "`yopp doctor`" in lines[0]


def test_a_node_that_has_gone_has_nothing_to_say(cluster: Cluster) -> None:
    from yarnopp_cli.cluster.inspection import weaker_limits
    from yarnopp_cli.cluster.rundir import RunDir

    assert weaker_limits(RunDir.of(str(cluster.run_dir)), 45999) == ()


BAD_SITE = """<configuration><property><name>yarn.resourcemanager.adress</name><value>x:1</value></property>
<property><name>yarn.log-aggregation-enable</name><value>true</value></property></configuration>"""


def test_files_that_are_named_are_checked_and_slips_in_them_told_once(
    cli: Cli, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "bad.xml"
    site.write_text(BAD_SITE)
    for words in (("ps",), ("status",), ("app", "list")):
        told = cli("--conf", str(site), *words).err
        assert told.count("did you mean yarn.resourcemanager.address?") == 1 and "log-aggregation" not in told
        assert "did you mean" not in cli("--conf", str(site), *words, "-q").err
    monkeypatch.setenv("YOPP_CONF", str(site))
    assert "did you mean yarn.resourcemanager.address?" in cli("ps").err
    monkeypatch.setenv("YOPP_CONF", "/nosuch")
    for words in (("ps", "-q"), ("status",), ("config", "path"), ("node", "list")):
        ended = cli(*words)
        assert (ended.code, ended.err.splitlines()[0]) == (78, "error: /nosuch: cannot read this file"), words


@pytest.mark.parametrize(
    ("containers", "running", "waiting", "lost"),
    [
        (2, 1, 0, "2 containers"),
        (1, 1, 1, "1 container and 1 waiting application"),
        (0, 0, 2, "2 waiting applications"),
        (0, 1, 0, "1 application without containers"),
    ],
)
def test_what_the_end_of_the_cluster_loses_is_told_before(
    cli: Cli, cluster: Cluster, containers: int, running: int, waiting: int, lost: str
) -> None:
    cluster.info = replace(
        cluster.info, applications_running=running, applications_pending=waiting,
        containers_running=containers, containers_queued=0,
    )  # fmt: skip
    assert cli("down").err.splitlines()[1].endswith(f": End the cluster and its {lost}?")
    assert (
        f"applications: {running} running, {waiting} waiting; containers: {containers} running" in cli().out
    )


def test_the_applications_of_a_stopped_cluster_are_counted_and_ended_only_with_consent(
    cli: Cli, run_dir: Path
) -> None:
    place = RunDir.of(str(run_dir))
    place.prepare()
    assert "applications" not in cli("status").out
    cluster, submitted = StoredCluster(TIMESTAMP, "s"), ApplicationSubmissionContext(app_id(1), "sleep")
    state = StateFile(place.rm_state_file)
    state.write(
        [
            StoreRecord(one)
            for one in (
                cluster,
                StoredApplication(app_id(1), submitted, "me", 0),
                StoredLife(app_id(1), state=YarnApplicationState.RUNNING),
                StoredApplication(app_id(2), submitted, "me", 0),
                StoredApplication(app_id(3), submitted, "me", 0),
                StoredLife(app_id(3), state=YarnApplicationState.FINISHED),
            )
        ]
    )
    state.close()
    told = cli("status")
    assert (told.code, told.out.splitlines()[1]) == (
        3, "  applications: 1 running, 1 waiting when it stopped; `yopp up` continues them",
    )  # fmt: skip
    told = json.loads(cli("status", "--json").out)
    assert told["clusterInfo"]["yopp"]["applications"] == {"running": 1, "pending": 1}
    refused = cli("down")
    assert refused.code == 2
    assert (
        "End the cluster and its 1 application without containers and 1 waiting application?" in refused.err
    )
    with contextlib.closing(sqlite3.connect(place.rm_state_file)) as database:
        database.execute(f"PRAGMA user_version = {FORMAT + 1}")
    assert "its stored state, which cannot be read?" in cli("down").err
    assert "  applications: unknown; `yopp rmadmin state check` says why" in cli("status").out
    assert json.loads(cli("status", "--json").out)["clusterInfo"]["yopp"]["applications"] is None
    assert "a newer version of yopp wrote it" in cli("rmadmin", "state", "check").err
    stored = Path(place.rm_state_file).read_bytes()

    def there_again() -> None:
        Path(place.rm_state_file).parent.mkdir(mode=0o700, parents=True)
        Path(place.rm_state_file).write_bytes(stored)
        with contextlib.closing(sqlite3.connect(place.rm_state_file)) as database:
            database.execute(f"PRAGMA user_version = {FORMAT}")

    assert (
        cli("down", "-y").out == "down: nothing was running; forgot a stored state that could not be read\n"
    )
    assert not Path(place.rm_state_file).exists()
    there_again()
    assert json.loads(cli("down", "-y", "--json").out)["yopp"]["forgotten"] == 2
    there_again()
    assert cli("down", "-y").out == "down: nothing was running; forgot 2 stored applications\n"
    assert not Path(place.rm_state_file).exists()
    assert cli("down").out == "down: nothing was running\n"


def test_the_state_is_looked_for_where_the_cluster_that_was_started_had_it(
    cli: Cli, run_dir: Path, tmp_path: Path
) -> None:
    """Which need not be where a command of today would put it."""
    place = RunDir.of(str(run_dir))
    place.prepare()
    started = RunDir.of(str(run_dir), state_dir=str(tmp_path / "elsewhere"))
    place.write(SITE, load([os.devnull], (), environ={}, state_dir=started.state_dir).to_json())
    state = StateFile(started.rm_state_file)
    state.write(
        [StoreRecord(StoredApplication(app_id(1), ApplicationSubmissionContext(app_id(1), "x"), "me", 0))]
    )
    state.close()
    assert "1 waiting when it stopped" in cli("status").out
    assert cli("down", "-y").code == 0 and not Path(started.rm_state_file).exists()


def test_the_warning_for_a_missing_resourcemanager_depends_on_stored_state(run_dir: Path) -> None:
    place = RunDir.of(str(run_dir))
    place.prepare()
    for stored, told in (("true", "starts it, and continues its applications"), ("false", "without its app")):
        given = [f"yarn.resourcemanager.recovery.enabled={stored}"]
        place.write(SITE, load([], given, environ={"HOME": "/none"}, state_dir="/none").to_json())
        with mock.patch.object(RunDir, "daemons", lambda _: (Daemon("nm-45454", 45454, ProcessId(1, 1)),)):
            assert told in inspect_cluster(place).warnings[0]


def test_what_has_ended_or_never_was_is_said_in_words(cli: Cli, cluster: Cluster) -> None:
    cluster.containers = [container(1, 2, state=ContainerState.DONE, exit_status=3, exit_code=3)]
    for words in (("container", "pause", "1.2"), ("container", "shell-into", "1.2")):
        assert "has ended\n  because: its exit status is 3\n" in cli(*words).err
    cluster.applications, cluster.containers = [], []
    for noun, words in (("application", ("wait", "last")), ("container", ("container", "status", "last"))):
        nothing = cli(*words)
        assert nothing.code == 66 and nothing.err == (
            f"error: there is no {noun} yet\n  because: nothing has run here yet\n"
            "  hint: `yopp run echo hello` runs a command\n"
        )


def test_a_shell_is_for_the_only_container_of_a_job(cli: Cli, cluster: Cluster) -> None:
    cluster.applications.append(application(3, name="solo"))
    cluster.containers = [container(3, 7, state=ContainerState.SCHEDULED)]
    for word in ("solo", "3"):
        assert f"{container_id(3, 7)} is not running yet" in cli("container", "shell-into", word).err
    cluster.containers += [container(3, 8), container(3, 9, state=ContainerState.DONE)]
    several = cli("container", "shell-into", "solo")
    assert several.code == 2 and f"{app_id(3)} has 2 live containers" in several.err
    assert cli("container", "shell-into", "duo").code == 66


def test_last_is_the_job_and_not_what_runs_on_its_end(cli: Cli, cluster: Cluster) -> None:
    following = application(9, tags=(naming.ON_END,))
    cluster.applications = [application(1), application(2), following]
    cluster.containers = [container(2, 1), container(9, 1)]
    assert cli("app", "status", "last", "-q").out == f"{app_id(2)}\n"
    assert cli("container", "status", "last", "last.1", "-q").out == f"{container_id(2, 1)}\n"
    cluster.applications, cluster.containers = [following], cluster.containers[1:]
    assert cli("app", "status", "last", "-q").out == f"{app_id(9)}\n"
    assert cli("container", "status", "last.1", "-q").out == f"{container_id(9, 1)}\n"


def test_containers_of_the_newest_application_and_names_of_applications(cli: Cli, cluster: Cluster) -> None:
    every = ["container_1_0001_01_000002", "container_1_0002_01_000002", "container_1_0002_01_000003"]
    assert naming.container(every, "last.2") == every[1] and naming.container(every, "last.3") == every[2]
    assert (
        naming.is_container("last.2") and naming.is_container("last.2-5") and not naming.is_container("last")
    )
    assert naming.container(every, "last.c2") == every[1] and naming.is_container("1.c2-c3")
    assert not naming.is_container("train_20260131") and not naming.is_container("20260131-train_000123")
    assert all(
        map(naming.is_container, ("_000002", "01_000002", "…01_000002", "e17_1_0002_01_000002", "000002"))
    )
    with pytest.raises(ContainerNotFoundError):
        naming.container(every, "last.9")
    missing = cli("app", "status", "no-such-name")
    assert missing.code == 66 and "no application no-such-name" in missing.err


def test_a_number_after_the_dot_is_that_of_a_task_and_never_taken_for_that_of_a_container(
    cli: Cli, cluster: Cluster
) -> None:
    cluster.applications = [application(1), application(2)]
    tried = {1: 5, 2: 10, 3: 5, 4: 15}  # task 5 was tried again, in container 3
    cluster.containers = [replace(container(2, number), task=task) for number, task in tried.items()]
    for word, number in (("2.5", 3), ("last.10", 2), ("2.c1", 1), ("last.c4", 4), ("10", 2)):
        assert cli("container", "status", word, "-q").out == f"{container_id(2, number)}\n"
    assert cli("container", "status", "2.1-10", "-q").out.split() == [container_id(2, 3), container_id(2, 2)]
    assert cli("container", "status", "2.c1-c2", "-q").out.split() == [container_id(2, 1), container_id(2, 2)]
    wrong = cli("container", "kill", "last.2")
    assert wrong.code == 66 and "no task has this number; 2.c2 is the container with this number" in wrong.err
    assert "because: application 2 has containers of 3 tasks so far: 5 to 15\n" in cli("logs", "last.9").err
    every = [one.container_id for one in cluster.containers]
    assert naming.container(every, "2.5", lambda: dict(zip(every, tried.values(), strict=True))) == every[2]


def test_a_name_of_several_applications_means_the_one_that_lives_else_the_newest() -> None:
    def report(number: int, state: YarnApplicationState) -> ApplicationReport:
        return ApplicationReport(
            f"application_1_000{number}",
            "train",
            "me",
            "default",
            "YARN",
            state,
            FinalApplicationStatus.UNDEFINED,
        )

    ended, lives = YarnApplicationState.FINISHED, YarnApplicationState.RUNNING
    assert naming._by_name([report(1, ended), report(2, lives)], "train") == "application_1_0002"
    assert naming._by_name([report(1, ended)], "train") == "application_1_0001"
    assert naming._by_name([report(1, ended)], "other") == "other"
    assert naming._by_name([report(2, ended), report(1, ended)], "train") == "application_1_0002"
    with pytest.raises(UsageError) as caught:
        naming._by_name([report(1, lives), report(2, lives), report(3, ended)], "train")
    assert caught.value.because == "application_1_0001, application_1_0002"


def test_called_yarn_it_prints_as_yarn_does(
    cli: Cli, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = cli("node", "list").out
    monkeypatch.setattr("sys.argv", ["/home/me/bin/yarn"])
    listed = cli("node", "-list").out.splitlines()
    assert listed[0] == "Total Nodes:1" and listed[2].split() == ["host1:45454", "RUNNING", "1"]
    assert "Detailed Node Information :" in cli("node", "-list", "-showDetails").out
    assert cli("application", "-list", "-appStates", "ALL").out.startswith(
        "Total number of applications (application-types: [], states: [NEW, NEW_SAVING, SUBMITTED, "
    )
    assert cli("application", "-status", app_id(1)).out.startswith(
        f"Application Report : \n\tApplication-Id : {app_id(1)}\n"
    )
    assert cli("queue", "-status", "default").out.startswith("Queue Information : \nQueue Name : default\n")
    assert cli("cluster", "--list-node-labels").out == "Node Labels: \n"
    assert json.loads(cli("node", "-list", "--json").out)["nodes"]["node"]
    assert cli("queue", "-list").out.split()[0] == "QUEUE"
    monkeypatch.setattr("sys.argv", ["/home/me/bin/mapred"])
    assert cli("job", "-list", "all").out.startswith("Total jobs:2\n                  JobId\t")
    job = app_id(1).replace("application_", "job_")
    assert cli("job", "-status", job).out.startswith(f"\nJob: {job}\n")
    assert cli("job", "-kill", job).out == f"Killed job {job}\n"
    monkeypatch.setattr("sys.argv", ["/usr/bin/yopp"])
    assert cli("node", "list").out == ours


def test_node_labels_are_listed_with_their_nodes(cli: Cli, cluster: Cluster) -> None:
    assert "no node has a label" in cli("node", "labels").err
    cluster.nodes = [replace(cluster.nodes[0], labels=("gpu", "ssd")), *cluster.nodes[1:]]
    assert cli("node", "labels").out == "gpu: host1:45454\nssd: host1:45454\n"
    assert cli("node", "labels", "-q").out == "gpu\nssd\n"
    (first, _) = json.loads(cli("node", "labels", "--json").out)["nodeLabelInfo"]
    assert first == {"name": "gpu", "exclusivity": True, "nodes": ["host1:45454"]}


def test_a_signal_that_is_given_as_a_container_is_told_how_it_is_given(cli: Cli, cluster: Cluster) -> None:
    for word in ("TERM", "sigusr1"):
        refused = cli("container", "signal", "2.2", word)
        assert refused.code == 2 and f"container signal --signal {word} 2.2" in refused.err
    assert cli("container", "signal", "2.2", "NOPE").code == 66
    assert not cluster.asked("signalToContainer") and not cluster.asked("signalContainer")


def test_a_container_by_the_name_of_its_job(cli: Cli, cluster: Cluster) -> None:
    cluster.applications = [application(1, name="train"), application(2, name="train.py")]
    cluster.containers = [container(1, 1), container(1, 2), container(2, 1)]
    for word in ("train.2", f"{app_id(1)}.2"):
        assert cli("container", "status", word, "-q").out.split() == [container_id(1, 2)]
    assert cli("container", "status", "application_1_0001.2").code == 66, "of another cluster"
    assert cli("container", "status", "train.1-2", "-q").out.split() == [
        container_id(1, 1),
        container_id(1, 2),
    ]
    assert cli("container", "status", "train.py.1", "-q").out.split() == [container_id(2, 1)]
    assert cli("container", "status", "train.9").code == 66
    assert cli("container", "status", "other.1").code == 66
    for word in ("train.2", "1.2", "1.1-2"):
        assert cli("app", "status", word, "-q").out.split() == [app_id(1)], "the application of the container"
    assert cli("app", "status", "train.9").code == 66
    assert cli("app", "kill", "train.2").code == 66, "a change does not guess"
    cluster.applications += [application(3, name="train.2"), application(4, name="train")]
    exact = cli("app", "status", "train.2", "-q")
    assert exact.out.split() == [app_id(3)], "an exact name of a job is that job"
    ambiguous = cli("container", "status", "train.1")
    assert ambiguous.code == 2 and "is the name of 2 running applications" in ambiguous.err


def test_help_says_from_when_the_time_of_a_job_counts(cli: Cli) -> None:
    told = " ".join(cli("run", "--help").out.replace("│", " ").split())
    assert "--timeout counts from then" in told
    assert "this long after it has begun" in told


def test_where_a_master_without_a_container_is(cli: Cli, cluster: Cluster) -> None:
    cluster.applications = [application(1, hosted=True), application(2)]
    assert "AM Host : hosted by the ResourceManager\n" in cli("app", "status", "1").out
    assert "AM Host : in its client\n" in cli("app", "status", "2").out


def test_how_jobs_have_ended_is_a_filter_of_its_own(cli: Cli, cluster: Cluster) -> None:
    ended = {"state": YarnApplicationState.FINISHED}
    cluster.applications = [
        application(1),
        application(2, **ended, final_status=FinalApplicationStatus.FAILED),
        application(3, **ended, final_status=FinalApplicationStatus.SUCCEEDED),
    ]
    assert cli("app", "list", "--final", "failed,killed", "-q").out == f"{app_id(2)}\n"
    refused = cli("app", "list", "--state", "SUCCEEDED")
    assert refused.code == 2 and "hint: --final SUCCEEDED\n" in refused.err
    cluster.applications = cluster.applications[:1]
    empty = cli("app", "list", "--final", "FAILED").err
    assert empty == "no applications match\n"
    empty = cli("app", "list", "--state", "FAILED").err
    assert empty == "no applications match (FAILED in the column FINAL: --final FAILED)\n"
