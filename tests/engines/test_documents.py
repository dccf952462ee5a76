"""YARN's documents as reports: of today's versions, of older ones, and what is none of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from executor.records import (
    ContainerState,
    ExecutionType,
    OpportunisticContainersStatus,
    Resource,
    ResourceUtilization,
    counted,
)
from yarnopp_cli.client import documents
from yarnopp_cli.records.reports import FinalApplicationStatus, NodeReport, NodeState, YarnApplicationState
from yarnopp_cli.views import applications, containers, nodes, queues

APP: dict[str, Any] = {
    "id": "application_1765400000000_0007",
    "user": "ada",
    "name": "word count",
    "queue": "default",
    "state": "RUNNING",
    "finalStatus": "UNDEFINED",
    "progress": 42.5,
    "trackingUI": "ApplicationMaster",
    "diagnostics": "",
    "clusterId": 1765400000000,
    "applicationType": "MAPREDUCE",
    "applicationTags": "a,b",
    "priority": 0,
    "startedTime": 1765400001000,
    "launchTime": 1765400002000,
    "finishedTime": 0,
    "elapsedTime": 5000,
    "amContainerLogs": "http://node1:8042/node/containerlogs/container_1765400000000_0007_01_000001/ada",
    "amHostHttpAddress": "node1:8042",
    "allocatedMB": 2048,
    "allocatedVCores": 2,
    "runningContainers": 2,
    "memorySeconds": 10,
    "vcoreSeconds": 5,
}


def test_an_application() -> None:
    found = documents.application(APP)
    assert (found.state, found.final_status) == (
        YarnApplicationState.RUNNING,
        FinalApplicationStatus.UNDEFINED,
    )
    assert (found.progress, found.tags, found.allocated) == (0.425, ("a", "b"), Resource(2048, 2))
    assert (found.containers_running, found.submitted_at_ms) == (2, 1765400001000)
    assert not documents.is_ours(APP)
    ended = documents.application({**APP, "state": "FINISHED", "finalStatus": "FAILED", "allocatedMB": -1})
    assert (applications.exit_code(ended), ended.allocated.memory) == (1, 0)


def test_our_own_documents_come_back_as_they_were() -> None:
    ended = {
        **APP,
        "state": "FINISHED",
        "finalStatus": "FAILED",
        "yopp": {"exit": 7, "summary": {"total": 2}},
    }
    assert applications.exit_code(documents.application(ended)) == 7
    ours = applications.document(documents.application(APP), 1765400006000)
    again = documents.application(ours)
    assert applications.document(again, 1765400006000) == {
        **ours,
        "amHostHttpAddress": "",
        "resourceRequests": [],
    }


@pytest.mark.parametrize("value", [None, "", {"app": None}, {"app": []}])
def test_none_at_all(value: Any) -> None:
    assert documents.members({"apps": value}, "apps", "app") == []


def test_one_without_brackets() -> None:
    assert documents.members({"apps": {"app": APP}}, "apps", "app") == [APP]


@pytest.mark.parametrize(
    "wrong",
    [{"id": "job_1"}, {"id": None}, {"progress": "half"}, {"state": {}}, {"priority": [1]}, {"yopp": 3}],
)
def test_what_is_not_yarns(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        documents.application({**APP, **wrong})


def test_a_node_of_today_and_one_of_hadoop_2() -> None:
    old = {
        "rack": "/r1", "state": "RUNNING", "id": "node1:45454", "nodeHostName": "node1",
        "nodeHTTPAddress": "node1:8042",
        "lastHealthUpdate": 1765400001000, "version": "2.7.3", "healthReport": "", "numContainers": 3,
        "usedMemoryMB": 3072, "availMemoryMB": 5120, "usedVirtualCores": 3, "availableVirtualCores": 5,
    }  # fmt: skip
    found = documents.node(old)
    assert (found.total, found.used, found.opportunistic.running) == (Resource(8192, 8), Resource(3072, 3), 0)
    new = {
        **old,
        "numRunningOpportContainers": 4, "usedMemoryOpportGB": 2, "usedVirtualCoresOpport": 4, "numQueuedContainers": 7,
        "nodeLabels": ["gpu"], "totalResource": {"memory": 8192, "vCores": 8},
        "resourceUtilization": {"nodePhysicalMemoryMB": 4000, "nodeCPUUsage": 1.5, "containersCPUUsage": "NaN"},
    }  # fmt: skip
    found = documents.node(new)
    assert (found.opportunistic.running, found.opportunistic.memory_used, found.opportunistic.queued) == (
        4,
        2048,
        7,
    )
    assert (found.labels, found.node_utilization.cpu, found.containers_utilization.cpu) == (
        ("gpu",),
        1.5,
        0.0,
    )
    assert nodes.document(found)["usedMemoryOpportGB"] == 2
    assert documents.node({"id": "n:1", "state": "FROM_THE_FUTURE"}).state is NodeState.NEW


def test_each_field_of_a_node_is_read_back() -> None:
    """Whoever adds one to the document adds it to its reader: `--engine yarn` shows another yopp by it."""
    gpus = counted({"yarn.io/gpu": 1})
    counts = len(dataclasses.fields(OpportunisticContainersStatus))
    every = dataclasses.replace(
        OpportunisticContainersStatus(*range(3, 3 + counts)), others_used=gpus, queued_others=gpus
    )
    report = NodeReport(
        "h:1", NodeState.RUNNING, "unix:/x", "h:8042", "/r", ("gpu",), Resource(4096, 8, gpus), Resource(1024, 2, gpus),
        2, every, ResourceUtilization(5 << 20, 1.5, 0.25), ResourceUtilization(3 << 20, 1.0), 5, 1765400000000,
        "well", "1", connected=False, pid=77, guaranteed_paused=1,
    )  # fmt: skip
    printed = nodes.document(report)
    assert nodes.document(documents.node(printed)) == printed


def test_containers_of_both_daemons() -> None:
    of_node = documents.container(
        {
            "id": "container_e17_1765400000000_0007_01_000002", "state": "SCHEDULED", "exitCode": -1000,
            "diagnostics": "", "user": "ada", "totalMemoryNeededMB": 512, "totalVCoresNeeded": 1,
            "executionType": "OPPORTUNISTIC", "nodeId": "node1:45454",
        }
    )  # fmt: skip
    assert (of_node.state, of_node.execution_type) == (ContainerState.SCHEDULED, ExecutionType.OPPORTUNISTIC)
    assert containers.shown_state(of_node) == "QUEUED" and of_node.exit_code is None
    of_rm = documents.container(
        {
            "containerId": "container_1765400000000_0007_01_000002", "allocatedMB": "512", "allocatedVCores": "1",
            "assignedNodeId": "node1:45454", "priority": 20, "startedTime": 5, "finishedTime": 9,
            "containerExitStatus": 3, "containerState": "COMPLETE",
        }
    )  # fmt: skip
    assert (of_rm.node_id, of_rm.resource, of_rm.exit_code) == ("node1:45454", Resource(512, 1), 3)
    assert of_rm.execution_type is ExecutionType.GUARANTEED and containers.shell_code(of_rm) == 3


def test_an_attempts_containers_as_hadoop_lists_them() -> None:
    # 3.4.2: without an object around the list, numbers as texts, no execution type
    one = {
        "containerId": "container_1795334710414_0010_01_000001", "allocatedMB": "256", "allocatedVCores": "1",
        "assignedNodeId": "localhost:41173", "priority": "0", "startedTime": "1795335087626", "finishedTime": "0",
        "elapsedTime": "15443", "containerExitStatus": "0", "containerState": "RUNNING",
        "nodeHttpAddress": "http://localhost:46767", "nodeId": "localhost:41173", "exposedPorts": "",
    }  # fmt: skip
    assert documents.members({"container": [one, one]}, "containers", "container") == [one, one]
    assert documents.members({"container": one}, "containers", "container") == [one]
    found = documents.container(one)
    assert (found.node_id, found.state, found.exit_code) == (
        "localhost:41173",
        ContainerState.RUNNING,
        None,
    )
    assert (found.resource, found.started_at_ms) == (Resource(256, 1), 1795335087626)


def test_the_exit_code_that_hadoops_shell_tells() -> None:
    said = (
        "Application Failure: desired = 2, completed = 2, allocated = 2, failed = 1, diagnostics = "
        "[2026-11-22 08:09:20.714]Exception from container-launch.\nContainer id: "
        "container_1795334710414_0007_01_000002\nExit code: 7\n\n[2026-11-22 08:09:20.719]Container exited with a "
        "non-zero exit code 7. Error file: prelaunch.err.\n"
    )
    ended = {**APP, "state": "FINISHED", "finalStatus": "FAILED", "diagnostics": said}
    found = documents.application(ended)
    assert applications.exit_code(found) == 7
    # that of a master is not its job's
    other = documents.application(
        {**ended, "diagnostics": "AM Container exited with  exitCode: 7\nExit code: 7"}
    )
    assert applications.exit_code(other) == 1


def test_an_attempt_before_it_had_a_full_id() -> None:
    found = documents.attempt({"id": 2, "startTime": 7, "containerId": "c", "nodeId": "n:1"}, APP["id"])
    assert found.attempt_id == "appattempt_1765400000000_0007_000002"


def test_the_queues_of_the_capacity_scheduler() -> None:
    leaf = {
        "type": "capacitySchedulerLeafQueueInfo", "queueName": "a", "capacity": 50.0, "maxCapacity": 100.0,
        "usedCapacity": 25.0, "absoluteCapacity": 20.0, "absoluteMaxCapacity": 40.0, "state": "RUNNING",
        "resourcesUsed": {"memory": 1024, "vCores": 1}, "numApplications": 1, "users": None,
    }  # fmt: skip
    parent = {"queueName": "b", "capacity": 40.0, "maxCapacity": 40.0, "queues": {"queue": leaf}}
    document = {
        "scheduler": {
            "schedulerInfo": {
                "type": "capacityScheduler", "queueName": "root", "capacity": 100.0, "maxCapacity": 100.0,
                "queues": {"queue": [parent]},
            }
        }
    }  # fmt: skip
    found = [report for report, _ in documents.queues(document)]
    assert [(one.name, one.path, one.parent, one.leaf) for one in found] == [
        ("root", "root", "", False), ("b", "root.b", "root", False), ("a", "root.b.a", "root.b", True)
    ]  # fmt: skip
    assert [one.absolute_capacity for one in found] == [100.0, 40.0, 20.0]
    assert found[2].used == Resource(1024, 1)
    assert queues.document(found[2])["queuePath"] == "root.b.a"
    with pytest.raises(ValueError, match="fairScheduler"):
        documents.queues({"scheduler": {"schedulerInfo": {"type": "fairScheduler", "rootQueue": {}}}})


HEAD = (
    b"Container: container_1_0001_01_000002 on node1:45454\nLogAggregationType: LOCAL\n====\nLogType:stdout\n"
)


def test_what_a_container_wrote_without_hadoops_frame() -> None:
    times = b"LogLastModifiedTime:Sun Nov 22 06:00:00 +0000 2026\nLogLength:%d\nLogContents:\n"
    end = b"\nEnd of LogType:stdout.This log file belongs to a running container (x).\n*****\n\n"
    for text in (b"one\ntwo\n", b"End of LogType:stdout\nnot yet", b"\xff\x00", b""):
        assert documents.log_text(HEAD + times % len(text) + text + end) == text
        assert documents.log_text(b"\n\n" + HEAD + times % len(text) + text + end[1:]) == text
        assert documents.log_text(text) == text
    # the end of a longer file: its length is that of the whole
    assert documents.log_text(HEAD + times % 9999 + b"the end" + end) == b"the end"


@pytest.mark.parametrize("number", [10**400, -(10**400), float("inf"), float("nan"), 1e300])
def test_a_number_that_no_counter_reaches_is_none(number: float) -> None:
    found = documents.application({**APP, "priority": number, "progress": number, "startedTime": number})
    assert (found.priority, found.progress, found.submitted_at_ms) == (0, 0.0, 0)
