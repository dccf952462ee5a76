"""YARN's own layouts: titles, widths and words as Hadoop's command line prints them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from executor.records import ContainerState, ExecutionType, Resource, ResourceUtilization
from yarnopp_cli.records.reports import (
    ApplicationAttemptReport,
    ApplicationReport,
    ContainerReport,
    FinalApplicationStatus,
    NodeReport,
    NodeState,
    QueueReport,
    YarnApplicationState,
)
from yarnopp_cli.views import applications
from yarnopp_cli.views.yarn import LAYOUTS, labels_line

pytestmark = pytest.mark.pure

APP = "application_1765400000000_0007"
CONTAINER = "container_1765400000000_0007_01_000002"
NODE = NodeReport(
    "host1:45454",
    NodeState.RUNNING,
    "unix:/nowhere",
    http_address="host1:8042",
    labels=("ssd", "gpu"),
    total=Resource(8192, 16),
    used=Resource(1024, 1),
    num_containers=3,
    node_utilization=ResourceUtilization(1573 << 20, 0.5),
    last_heartbeat_ms=1_600_243_859_541,
)


def application(**changes: object) -> ApplicationReport:
    values: dict[str, object] = {
        "application_id": APP,
        "name": "word count",
        "user": "root",
        "queue": "default",
        "application_type": "MAPREDUCE",
        "state": YarnApplicationState.FINISHED,
        "final_status": FinalApplicationStatus.SUCCEEDED,
        "progress": 1.0,
        "submitted_at_ms": 1_707_120_843_501,
        "finished_at_ms": 1_707_120_865_825,
        "memory_seconds": 52071,
        "vcore_seconds": 35,
    }
    return ApplicationReport(**{**values, **changes})  # type: ignore[arg-type]


def test_the_list_of_applications_names_its_filters_and_has_yarns_columns() -> None:
    rows = [application(), application(name="x" * 30, progress=0.5379)]
    first, titles, one, two = LAYOUTS["app"].table(rows, {"types": ("MAPREDUCE",)}).splitlines()
    assert first == (
        "Total number of applications (application-types: [MAPREDUCE], "
        "states: [SUBMITTED, ACCEPTED, RUNNING] and tags: []):2"
    )
    assert titles == (
        "                Application-Id\t    Application-Name\t    Application-Type\t      User\t     Queue"
        "\t             State\t       Final-State\t       Progress\t                       Tracking-URL"
    )
    assert one.split("\t")[:3] == [APP, "word count".rjust(20), "MAPREDUCE".rjust(20)]
    assert one.split("\t")[7:] == ["100%".rjust(15), "N/A".rjust(35)]
    assert two.split("\t")[1] == "x" * 30 and two.split("\t")[7] == "53.79%".rjust(15)


def test_mapreduce_jobs_as_mapred_lists_and_shows_them() -> None:
    lives = {
        "state": YarnApplicationState.RUNNING,
        "final_status": FinalApplicationStatus.UNDEFINED,
        "finished_at_ms": 0,
    }
    rows = [
        application(diagnostics="fine"),
        application(name="x" * 30, priority=5, allocated=Resource(384, 2), containers_running=3, **lives),
        application(state=YarnApplicationState.ACCEPTED, priority=6),
        application(final_status=FinalApplicationStatus.FAILED),
        application(state=YarnApplicationState.KILLED),
    ]
    first, titles, one, two, *others = LAYOUTS["job"].table(rows, {}).splitlines()
    assert first == "Total jobs:5"
    assert titles == (
        "                  JobId\t             JobName\t     State\t     StartTime\t    UserName\t       Queue"
        "\t  Priority\t UsedContainers\t RsvdContainers\t UsedMem\t RsvdMem\t NeededMem\t   AM info"
    )
    assert one.split() == [
        "job_1765400000000_0007", "word", "count", "SUCCEEDED", "1707120843501", "root", "default", "DEFAULT",
        *["N/A"] * 6,
    ]  # fmt: skip
    assert two.split("\t")[1] == "x" * 20
    assert two.split()[2:3] + two.split()[6:] == [
        "RUNNING",
        "VERY_HIGH",
        "3",
        "0",
        "384M",
        "0M",
        "384M",
        "N/A",
    ]
    assert [line.split("\t")[2].strip() for line in others] == ["PREP", "FAILED", "KILLED"]
    assert others[0].split("\t")[6] == "UNDEFINED_PRIORITY"
    assert LAYOUTS["job"].text(rows[0], 0).splitlines() == [
        "", "Job: job_1765400000000_0007", "Job Tracking URL : N/A", "Uber job : false", "Job state: SUCCEEDED",
        "retired: false", "reason for failure: fine",
    ]  # fmt: skip


def test_a_list_without_rows_has_its_titles() -> None:
    lines = LAYOUTS["node"].table([], {}).splitlines()
    assert lines == [
        "Total Nodes:0",
        "         Node-Id\t     Node-State\tNode-Http-Address\tNumber-of-Running-Containers",
    ]


def test_elapsed_time_is_from_the_start_that_is_told_beside_it() -> None:
    """REST counts from the submission, as YARN; people are told how long it ran, and since when."""
    app = application(submitted_at_ms=10_000, started_at_ms=70_000, finished_at_ms=75_000)
    told = applications.document(app, 99_000)
    assert (told["startedTime"], told["launchTime"], told["finishedTime"]) == (10_000, 70_000, 75_000)
    assert told["elapsedTime"] == 65_000
    waits = application(submitted_at_ms=10_000, started_at_ms=0, finished_at_ms=0)
    assert applications.document(waits, 99_000)["elapsedTime"] == 89_000
    lines = dict(applications.fields(app, 99_000))
    assert lines["Elapsed"] == "5.0 s" and lines["Launch-Time"] == "1970-01-01T00:01:10.000Z"


def test_the_report_of_an_application() -> None:
    lines = LAYOUTS["app"].text(application(), 0).split("\n")
    assert lines[0] == "Application Report : "
    assert lines[1:9] == [
        f"\tApplication-Id : {APP}",
        "\tApplication-Name : word count",
        "\tApplication-Type : MAPREDUCE",
        "\tUser : root",
        "\tQueue : default",
        "\tApplication Priority : 0",
        "\tStart-Time : 1707120843501",
        "\tFinish-Time : 1707120865825",
    ]
    assert "\tAggregate Resource Allocation : 52071 MB-seconds, 35 vcore-seconds" in lines
    assert "\tUnmanaged Application : false" in lines
    assert "\tAM container Node Label Expression : <Not set>" in lines
    assert lines[-1] == "\tTimeoutType : LIFETIME\tExpiryTime : UNLIMITED\tRemainingTime : -1seconds"


def test_nodes_with_and_without_details() -> None:
    layout = LAYOUTS["node"]
    assert layout.table([NODE], {}).splitlines()[2] == (
        "     host1:45454\t        RUNNING\t       host1:8042\t                           3"
    )
    assert layout.table([NODE], {}, details=True).splitlines()[3:] == [
        "Detailed Node Information :",
        "\tConfigured Resources : <memory:8192, vCores:16>",
        "\tAllocated Resources : <memory:1024, vCores:1>",
        "\tResource Utilization by Node : PMem:1573 MB, VMem:0 MB, VCores:0.5",
        "\tResource Utilization by Containers : PMem:0 MB, VMem:0 MB, VCores:0",
        "\tNode-Labels : gpu,ssd",
    ]
    report = layout.text(NODE, 0).splitlines()
    assert report[0] == "Node Report : "
    assert report[5] == "\tLast-Health-Update : Wed 16/Sep/20 08:10:59:541UTC"
    assert report[8:12] == [
        "\tMemory-Used : 1024MB",
        "\tMemory-Capacity : 8192MB",
        "\tCPU-Used : 1 vcores",
        "\tCPU-Capacity : 16 vcores",
    ]
    assert labels_line(["gpu", "ssd"]) == "Node Labels: <gpu:exclusivity=true>,<ssd:exclusivity=true>"


def test_attempts_and_containers() -> None:
    attempt = ApplicationAttemptReport("appattempt_1765400000000_0007_000001", "FINISHED", CONTAINER)
    first, titles, row = LAYOUTS["appAttempt"].table([attempt], {}).splitlines()
    assert first == "Total number of application attempts :1"
    assert titles == (
        "         ApplicationAttempt-Id\t               State\t                    AM-Container-Id"
        "\t                       Tracking-URL"
    )
    assert row.split("\t")[1:3] == ["FINISHED".rjust(20), CONTAINER]
    container = ContainerReport(
        CONTAINER, APP, "host1:45454", ExecutionType.OPPORTUNISTIC, Resource(1024, 1), ContainerState.PAUSED
    )
    first, titles, row = LAYOUTS["container"].table([container], {}).splitlines()
    assert first == "Total number of containers :1"
    assert titles == (
        "                  Container-Id\t          Start Time\t         Finish Time\t               State"
        "\t                Host\t   Node Http Address\t                            LOG-URL"
    )
    assert row.split("\t")[1:4] == ["N/A".rjust(20), "N/A".rjust(20), "NEW".rjust(20)]
    ended = replace(container, started_at_ms=1_629_913_755_000, state=ContainerState.DONE)
    row = LAYOUTS["container"].table([ended], {}).splitlines()[2]
    assert row.split("\t")[1] == "Wed Aug 25 17:49:15 +0000 2021" and row.split("\t")[3].strip() == "COMPLETE"
    report = LAYOUTS["container"].text(container, 0).splitlines()
    assert report[4:6] == ["\tState : NEW", "\tExecution-Type : OPPORTUNISTIC"]


def test_a_queue() -> None:
    queue = QueueReport("default", capacity=40, maximum_capacity=80, used_capacity=0, path="root.default")
    assert LAYOUTS["queue"].text(queue, 0).splitlines() == [
        "Queue Information : ",
        "Queue Name : default",
        "\tQueue Path : root.default",
        "\tState : RUNNING",
        "\tCapacity : 40.0%",
        "\tCurrent Capacity : .0%",
        "\tMaximum Capacity : 80.0%",
        "\tDefault Node Label expression : <DEFAULT_PARTITION>",
        "\tAccessible Node Labels : *",
        "\tPreemption : disabled",
        "\tIntra-queue Preemption : disabled",
    ]
