"""A pi job as a MapReduce job: Hadoop's ApplicationMaster and history REST APIs, by an unmodified client, live."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.conftest import Yopp, a_yopp, wait_until

from .conftest import WebCluster, started

yarn_api_client = pytest.importorskip("yarn_api_client")
pytestmark = pytest.mark.live
APIError = pytest.importorskip("yarn_api_client.errors").APIError


@pytest.fixture(scope="module")
def web() -> Iterator[WebCluster]:
    """One node of 2 vcores and 1024 MB, for all tests here: each has a job of its own."""
    with a_yopp(Yopp) as program:
        yield started(program, "--vcores", "2", "--memory", "1024")


def _counters(document: dict[str, Any]) -> dict[str, int]:
    """All counters of a task or of an attempt."""
    (found,) = document.values()
    groups = found.get("taskCounterGroup") or found.get("taskAttemptCounterGroup") or []
    return {one["name"]: one["value"] for group in groups for one in group["counter"]}


def test_history_of_a_pi_job_that_succeeded(web: WebCluster) -> None:
    """Every method of the history server."""
    app = web.yopp.json("pi", "-Dmapreduce.map.memory.mb=64", "4", "1000")["app"]
    job = app["id"].replace("application_", "job_")
    history = yarn_api_client.HistoryServer(web.rm.url)
    assert history.application_information().data["historyInfo"]["startedOn"] > 0
    (row,) = history.jobs(state="SUCCEEDED", user=app["user"], queue="default", limit=1,
                          started_time_begin=app["startedTime"], started_time_end=app["finishedTime"],
                          finished_time_begin=app["finishedTime"]).data["jobs"]["job"]  # fmt: skip
    assert row["id"] == job and row["submitTime"] == app["startedTime"]
    for other in ({"state": "FAILED"}, {"user": "nobody-of-that-name"}, {"finished_time_end": 1}):
        assert history.jobs(**other).data == {"jobs": None}
    found = history.job(job).data["job"]
    assert (found["state"], found["mapsCompleted"], found["reducesCompleted"]) == ("SUCCEEDED", 4, 1)
    assert found["successfulMapAttempts"] == 4 and found["killedMapAttempts"] == 0 and found["avgMapTime"] > 0
    assert found["finishTime"] == app["finishedTime"] and found["avgShuffleTime"] == 0
    assert (
        history.job_attempts(job).data["jobAttempts"]["jobAttempt"][0]["containerId"] == ""
    )  # in its client
    assert history.job_conf(job).data["conf"]["property"]
    maps = history.job_tasks(job, "m").data["tasks"]["task"]
    assert [one["id"][-8:] for one in maps] == [f"m_00000{index}" for index in range(4)]
    (reduce,) = history.job_tasks(job, "r").data["tasks"]["task"]
    assert len(history.job_tasks(job).data["tasks"]["task"]) == 5
    assert reduce["startTime"] >= max(one["finishTime"] for one in maps)
    task = history.job_task(job, maps[2]["id"]).data["task"]
    assert task == maps[2] and task["elapsedTime"] == task["finishTime"] - task["startTime"]
    (attempt,) = history.task_attempts(job, task["id"]).data["taskAttempts"]["taskAttempt"]
    assert attempt["id"] == task["successfulAttempt"]
    assert history.task_attempt(job, task["id"], attempt["id"]).data["taskAttempt"] == attempt
    counters = _counters(history.task_attempt_counters(job, task["id"], attempt["id"]).data)
    assert (counters["MAP_INPUT_RECORDS"], counters["MAP_OUTPUT_RECORDS"]) == (1, 2)
    assert "PHYSICAL_MEMORY_BYTES" not in counters
    assert _counters(history.task_counters(job, task["id"]).data) == counters
    of_job = {
        one["name"]: one
        for group in history.job_counters(job).data["jobCounters"]["counterGroup"]
        for one in group["counter"]
    }
    assert of_job["MAP_OUTPUT_RECORDS"]["totalCounterValue"] == 8
    assert of_job["REDUCE_INPUT_RECORDS"]["reduceCounterValue"] == 8
    assert of_job["TOTAL_LAUNCHED_MAPS"]["totalCounterValue"] == 4
    # What the RM says of the same containers is the same.
    held = web.rm.get(f"/ws/v1/cluster/apps/{app['id']}/appattempts/1/containers").json["container"]
    assert {one["containerId"] for one in held} >= {attempt["assignedContainerId"]}
    assert of_job["MILLIS_MAPS"]["totalCounterValue"] == sum(one["elapsedTime"] for one in maps)
    page = web.rm.get(f"/cluster/app/{app['id']}").body.decode()
    assert "Maps: 4 of 4 done" in page and "Reduces: 1 of 1 done" in page
    assert all(f">{one['id'][-8:]}</span>" in page and attempt["assignedContainerId"] in page for one in maps)
    # The proxy of an application that has ended leads there.
    master = yarn_api_client.ApplicationMaster(web.rm.url)
    assert master.job(app["id"], job).data == {"job": found}
    assert "historyInfo" in master.application_information(app["id"]).data
    for wrong in (f"{job}0", "job_1_0001", "job_x", "nonsense", "job_1_99999999999999999999"):
        with pytest.raises(APIError, match=r"status: 404.*NotFoundException"):
            history.job(wrong)


def test_yarn_api_client_application_master_of_a_living_pi_job(web: WebCluster) -> None:
    """Every method, over two maps that run and one that waits; killing an attempt costs its task nothing."""
    small = ("-Dmapreduce.map.memory.mb=64", "-Dmapreduce.job.num-opportunistic-maps-percent=34")
    app = web.yopp("pi", "-d", "-q", *small, "3", "200000000").stdout.split()[-1]
    job = app.replace("application_", "job_")
    master = yarn_api_client.ApplicationMaster(web.rm.url)
    running = wait_until(
        lambda: found if (found := master.job(app, job).data["job"])["mapsRunning"] == 2 else None,
        what="two maps run",
    )
    assert (running["mapsTotal"], running["mapsPending"], running["reducesPending"]) == (3, 1, 1)
    assert (running["state"], running["mapProgress"], running["finishTime"]) == ("RUNNING", 0.0, 0)
    assert running["runningMapAttempts"] == 2 and running["successfulMapAttempts"] == 0
    info = master.application_information(app).data["info"]
    assert info["appId"] == app and info["startedOn"] == running["startTime"] > 0
    (listed,) = master.jobs(app).data["jobs"]["job"]
    assert listed["id"] == job
    (tried,) = master.job_attempts(app, job).data["jobAttempts"]["jobAttempt"]
    assert tried["id"] == 1 and tried["containerId"] == app.replace("application", "container") + "_01_000001"
    properties = {one["name"]: one for one in master.job_conf(app, job).data["conf"]["property"]}
    assert properties["mapreduce.map.memory.mb"] == {
        "name": "mapreduce.map.memory.mb", "value": "64", "source": ["-D"],
    }  # fmt: skip
    assert properties["mapreduce.job.maps"]["value"] == "3"
    tasks = master.job_tasks(app, job).data["tasks"]["task"]
    assert [one["type"] for one in tasks] == ["MAP", "MAP", "MAP", "REDUCE"] and tasks[3]["state"] == "NEW"
    task = next(one["id"] for one in tasks if one["state"] == "RUNNING")
    assert master.job_task(app, job, task).data["task"]["state"] == "RUNNING"
    (attempt,) = master.task_attempts(app, job, task).data["taskAttempts"]["taskAttempt"]
    assert attempt["id"] == task.replace("task_", "attempt_") + "_0" and attempt["rack"] == "/default-rack"
    container = attempt["assignedContainerId"]
    known = web.rm.get(f"/ws/v1/cluster/apps/{app}/appattempts/1/containers/{container}").json["container"]
    assert known["startedTime"] == str(attempt["startTime"]) and known["containerState"] == "RUNNING"
    assert master.task_attempt(app, job, task, attempt["id"]).data["taskAttempt"]["state"] == "RUNNING"
    assert master.task_attempt_state(app, job, task, attempt["id"]).data == {"state": "RUNNING"}
    counters = wait_until(lambda: _counters(master.task_attempt_counters(app, job, task, attempt["id"]).data))
    assert counters["MAP_PHYSICAL_MEMORY_BYTES_MAX"] >= counters["PHYSICAL_MEMORY_BYTES"] > 1 << 20
    assert "MAP_INPUT_RECORDS" not in counters
    wait_until(lambda: _counters(master.task_counters(app, job, task).data)["CPU_MILLISECONDS"] >= 100)
    of_job = {
        one["name"]: one["totalCounterValue"]
        for group in master.job_counters(app, job).data["jobCounters"]["counterGroup"]
        for one in group["counter"]
    }
    assert of_job["TOTAL_LAUNCHED_MAPS"] == 2 and of_job["NUM_KILLED_MAPS"] == 0
    assert master.task_attempt_state_kill(app, job, task, attempt["id"]).data == {"state": "KILLED"}

    def again() -> Any:
        found = master.task_attempts(app, job, task).data["taskAttempts"]["taskAttempt"]
        return found if len(found) == 2 else None

    first, second = wait_until(again, what="the killed attempt's task is tried again")
    assert (first["state"], first["diagnostics"]) == ("KILLED", "Task attempt killed by the user.")
    assert second["id"].endswith("_1") and second["assignedContainerId"] != container
    state = f"/proxy/{app}/ws/v1/mapreduce/jobs/{job}/tasks/{task}/attempts/{{}}/state"
    assert web.rm("PUT", state.format(first["id"]), {"state": "KILLED"}).json == {"state": "KILLED"}
    for one, wanted in ((second["id"], "SUCCEEDED"), (second["id"], "nonsense"), (first["id"], "RUNNING")):
        refused = web.rm("PUT", state.format(one), {"state": wanted})
        assert (refused.status, refused.exception) == (400, "BadRequestException"), (one, wanted)
    assert (
        web.rm(
            "PUT", state.format(second["id"]), {"state": "KILLED"}, {"Origin": "http://evil.example"}
        ).status
        == 403
    )
    for wrong in (f"{job}0", "job_1_0001", "nonsense"):
        with pytest.raises(APIError, match=r"status: 404.*NotFoundException"):
            master.job(app, wrong)
    with pytest.raises(APIError, match=r"status: 404.*NotFoundException"):
        master.job_task(app, job, task + "1")
    web.yopp("app", "kill", app)
    # It is history from this moment on, though containers of it may yet be ending.
    history = yarn_api_client.HistoryServer(web.rm.url)
    assert [one["id"] for one in history.jobs(state="KILLED").data["jobs"]["job"]] == [job]
    told = history.job(job).data["job"]
    assert (told["state"], told["mapsCompleted"], told["successfulMapAttempts"]) == ("KILLED", 0, 0)
    assert {one["state"] for one in history.job_tasks(job).data["tasks"]["task"]} == {"KILLED"}
