"""The REST clients that people have already: yarn-api-client and hadoop-yarn-rest-api, unmodified, live."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pytest

from tests.live.conftest import wait_until

from .conftest import WebCluster

yarn_api_client = pytest.importorskip("yarn_api_client")
pytestmark = pytest.mark.live
APIError = pytest.importorskip("yarn_api_client.errors").APIError

MASTER = "org.apache.hadoop.yarn.applications.distributedshell.ApplicationMaster"


def submission(application_id: str, command: str, **more: Any) -> dict[str, Any]:
    return {
        "application-id": application_id,
        "application-name": "rest",
        "am-container-spec": {"commands": {"command": command}},
        "resource": {"memory": 64, "vCores": 0},
        **more,
    }


def ended(rm: Any, application_id: str) -> dict[str, Any]:
    """The application's document once it has ended."""

    def look() -> Any:
        app = rm.cluster_application(application_id).data["app"]
        return app if app["state"] in ("FINISHED", "FAILED", "KILLED") else None

    return dict(wait_until(look, what=f"{application_id} ends"))


def test_yarn_api_client_resource_manager_reads(web: WebCluster) -> None:
    rm = yarn_api_client.ResourceManager([web.rm.url])
    assert rm.get_active_endpoint() == web.rm.url
    info = rm.cluster_information().data["clusterInfo"]
    assert info["state"] == "STARTED" and info["haState"] == "ACTIVE" and info["id"] == info["startedOn"]
    metrics = rm.cluster_metrics().data["clusterMetrics"]
    assert (
        metrics["activeNodes"] == 1 and metrics["totalMB"] == 1024 and metrics["availableVirtualCores"] == 2
    )
    assert rm.cluster_applications().data == {"apps": None}
    application = web.yopp("run", "-q", "-d", "-n", "2", "-O", "sleep", "60").stdout.split()[-1]
    web.yopp("wait", application, "--for", "RUNNING")
    (app,) = rm.cluster_applications(
        state="RUNNING", states=["RUNNING"], final_status="UNDEFINED", limit=5, started_time_begin=1,
        started_time_end=9_999_999_999_999, application_types=[app_type(rm, application)],
        de_selects=["resourceRequests"],
    ).data["apps"]["app"]  # fmt: skip
    assert app["id"] == application
    assert rm.cluster_applications(states=["FAILED"]).data == {"apps": None}
    assert rm.cluster_applications(finished_time_begin=1, finished_time_end=2).data == {"apps": None}
    assert rm.cluster_applications(user="nobody-of-that-name").data == {"apps": None}
    assert (
        rm.cluster_applications(queue="default", name=app["name"]).data["apps"]["app"][0]["id"] == application
    )
    statistics = rm.cluster_application_statistics(states=["RUNNING"]).data["appStatInfo"]["statItem"]
    assert statistics == [{"state": "RUNNING", "type": "*", "count": 1}]
    assert len(rm.cluster_application_statistics().data["appStatInfo"]["statItem"]) == 8
    assert rm.cluster_application(application).data["app"]["state"] == "RUNNING"
    assert rm.cluster_application_state(application).data == {"state": "RUNNING"}
    (attempt,) = rm.cluster_application_attempts(application).data["appAttempts"]["appAttempt"]
    attempt_id = attempt["appAttemptId"]
    found = rm.cluster_application_attempt_info(application, attempt_id).data["appAttempt"]
    assert found["appAttemptState"] == "RUNNING"
    containers = wait_until(
        lambda: [
            one
            for one in rm.cluster_application_attempt_containers(application, attempt_id).data["container"]
            if one["containerState"] == "RUNNING"
        ][1:]
    )
    container = rm.cluster_application_attempt_container_info(
        application, attempt_id, containers[0]["containerId"]
    )
    assert container.data["container"]["nodeHttpAddress"] == web.nm.url
    (node,) = rm.cluster_nodes().data["nodes"]["node"]
    assert node["state"] == "RUNNING" and node["nodeHTTPAddress"] == web.nm.address
    assert [one["id"] for one in rm.cluster_nodes(states=["RUNNING"]).data["nodes"]["node"]] == [node["id"]]
    assert rm.cluster_node(node["id"]).data["node"]["id"] == node["id"]
    assert rm.cluster_scheduler_queue("default")["queueName"] == "default"
    queue = rm.cluster_scheduler_queue("root")
    partition = rm.cluster_queue_partition(queue, "")
    assert rm.cluster_scheduler_queue_availability(partition, 100.0)
    assert rm.cluster_get_application_queue(application).data == {"queue": "default"}
    assert rm.cluster_get_application_priority(application).data == {"priority": 0}
    (timeout,) = rm.cluster_application_timeouts(application).data["timeouts"]["timeout"]
    assert timeout == {"type": "LIFETIME", "expiryTime": "UNLIMITED", "remainingTimeInSeconds": -1}
    assert rm.cluster_application_timeout(application, "LIFETIME").data["timeout"] == timeout
    assert "activities" in rm.scheduler_activities(node["id"]).data
    told = rm.application_activities(application).data["appActivities"]
    assert told["applicationId"] == application
    assert "configuration" in rm.cluster_scheduler_conf_mutation().data


def app_type(rm: Any, application: str) -> str:
    return str(rm.cluster_application(application).data["app"]["applicationType"])


def test_yarn_api_client_resource_manager_writes(web: WebCluster) -> None:
    rm = yarn_api_client.ResourceManager([web.rm.url])
    new = rm.cluster_new_application().data
    assert new["maximum-resource-capability"]["memory"] == 1024
    application = new["application-id"]
    rm.cluster_submit_application(submission(application, "sleep 60", priority=3))
    wait_until(lambda: rm.cluster_application_state(application).data["state"] == "RUNNING")
    assert rm.cluster_get_application_priority(application).data == {"priority": 3}
    assert rm.cluster_change_application_priority(application, 7).data == {"priority": 7}
    assert rm.cluster_get_application_priority(application).data == {"priority": 7}
    assert rm.cluster_change_application_queue(application, "default").data == {"queue": "default"}
    with pytest.raises(APIError, match=r"status: 404.*RemoteException"):
        rm.cluster_change_application_queue(application, "nowhere")
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    text = later.strftime("%Y-%m-%dT%H:%M:%S.000+0000")
    changed = rm.cluster_update_application_timeout(application, "LIFETIME", text).data["timeout"]
    assert changed["expiryTime"] == text and 3500 < changed["remainingTimeInSeconds"] <= 3600
    assert rm.cluster_application_kill(application).data["state"] == "KILLED"
    assert ended(rm, application)["finalStatus"] == "KILLED"
    (node,) = rm.cluster_nodes().data["nodes"]["node"]
    same = {"resource": {"memory": 1024, "vCores": 2}, "overCommitTimeout": -1}
    assert rm.cluster_node_update_resource(node["id"], same).data["memory"] == 1024
    larger = {"resource": {"memory": 2048, "vCores": 3}, "overCommitTimeout": -1}
    assert rm.cluster_node_update_resource(node["id"], larger).data == {"memory": 2048, "vCores": 3}
    assert rm.cluster_metrics().data["clusterMetrics"]["totalVirtualCores"] == 3
    beyond = {"resource": {"memory": 2**30, "vCores": 3}, "overCommitTimeout": -1}
    with pytest.raises(APIError, match=r"status: 400.*InvalidResourceRequestException"):
        rm.cluster_node_update_resource(node["id"], beyond)
    job = web.yopp("run", "-d", "-q", "sleep", "60").stdout.split()[-1]
    container = wait_until(lambda: web.yopp.containers("--app", job, "--state", "RUNNING")[-1:])[0]
    rm.cluster_container_signal(container["id"], "GRACEFUL_SHUTDOWN")
    refused = (
        lambda: rm.cluster_reservations(),
        lambda: rm.cluster_new_reservation(),
        lambda: rm.cluster_submit_reservation({}),
        lambda: rm.cluster_update_reservation({}),
        lambda: rm.cluster_delete_reservation("reservation_1_1"),
        lambda: rm.cluster_new_delegation_token("me"),
        lambda: rm.cluster_modify_scheduler_conf_mutation({"update-queue": []}),
    )
    for call in refused:
        with pytest.raises(APIError, match=r"status: 4\d\d\. Details: .*RemoteException"):
            call()


def test_a_distributed_shell_application_submitted_over_rest(shared: WebCluster) -> None:
    """Hadoop's own ApplicationMaster command line, as user-experience.md section 10 writes it."""
    rm = yarn_api_client.ResourceManager([shared.rm.url])
    application = rm.cluster_new_application().data["application-id"]
    command = (
        "printf '%s' 'echo hello $YARN_SHELL_ID' > shellCommands; printf '%s' 'from here' > shellArgs; "
        f"{{{{JAVA_HOME}}}}/bin/java -Xmx100m {MASTER} --container_type OPPORTUNISTIC --container_memory 32 "
        "--container_vcores 1 --num_containers 3 --priority 0 1><LOG_DIR>/AppMaster.stdout 2><LOG_DIR>/AppMaster.stderr"
    )
    rm.cluster_submit_application(
        submission(application, command, **{"application-tags": {"tag": ["a", "b"]}})
    )
    app = ended(rm, application)
    assert (app["state"], app["finalStatus"]) == ("FINISHED", "SUCCEEDED"), app["diagnostics"]
    assert app["applicationTags"] == "a,b"
    assert app["yopp"]["opportunistic"]["allocated"] == 3
    lines = shared.yopp("logs", application, "--no-prefix").stdout
    assert sorted(re.findall(r"hello \d from here", lines)) == [f"hello {n} from here" for n in (1, 2, 3)]


@pytest.mark.parametrize(("command", "final"), [("echo over rest", "SUCCEEDED"), ("exit 3", "FAILED")])
def test_a_plain_command_submitted_over_rest_tells_its_own_end(
    shared: WebCluster, command: str, final: str
) -> None:
    rm = yarn_api_client.ResourceManager([shared.rm.url])
    application = rm.cluster_new_application().data["application-id"]
    rm.cluster_submit_application(submission(application, command))
    app = ended(rm, application)
    assert (app["state"], app["finalStatus"]) == ("FINISHED", final)
    assert app["yopp"]["exit"] == (0 if final == "SUCCEEDED" else 3)
    if final == "SUCCEEDED":
        assert "over rest" in shared.yopp("logs", app["yopp"]["amContainer"]).stdout


def test_yarn_api_client_node_manager(web: WebCluster) -> None:
    nm = yarn_api_client.NodeManager(web.nm.url)
    info = nm.node_information().data["nodeInfo"]
    assert info["nodeHealthy"] is True and info["totalPmemAllocatedContainersMB"] == 1024
    assert nm.node_applications().data == {"apps": None} and nm.node_containers().data == {"containers": None}
    job = web.yopp("run", "-d", "-q", "-O", "sleep", "60").stdout.split()[-1]
    web.yopp("wait", job, "--for", "RUNNING")
    container = wait_until(lambda: web.yopp.containers("--app", job, "--state", "RUNNING")[-1:])[0]
    (app,) = nm.node_applications(state="RUNNING", user=container["user"]).data["apps"]["app"]
    assert app["id"] == job and container["id"] in app["containerids"]
    assert nm.node_application(job).data["app"]["state"] == "RUNNING"
    known = {one["id"]: one for one in nm.node_containers().data["containers"]["container"]}
    assert known[container["id"]]["executionType"] == container["executionType"]
    assert nm.node_container(container["id"]).data["container"]["id"] == container["id"]
    assert nm.auxiliary_services().data == {"services": {"service": []}}
    with pytest.raises(APIError, match=r"status: 400.*RemoteException"):
        nm.auxiliary_services_update({"services": []})


def test_yarn_api_client_proxy_says_what_is_no_map_reduce_job(shared: WebCluster) -> None:
    job = shared.yopp("run", "-d", "-q", "sleep", "60").stdout.split()[-1]
    master = yarn_api_client.ApplicationMaster(shared.rm.url)
    for call in (lambda: master.application_information(job), lambda: master.jobs(job)):
        with pytest.raises(APIError, match=r"status: 404.*of type .*, not a MapReduce job.*"):
            call()
    shared.yopp("wait", job, "--for", "RUNNING")
    answer = shared.rm.get(f"/proxy/{job}/")
    assert (answer.status, answer.headers["location"]) == (302, f"/cluster/app/{job}")
    app = shared.rm.get(f"/ws/v1/cluster/apps/{job}").json["app"]
    assert app["trackingUrl"] == f"{shared.rm.url}/proxy/{job}/" and app["trackingUI"] == "ApplicationMaster"
    assert f"Tracking-URL : {shared.rm.url}/proxy/{job}/" in " ".join(
        shared.yopp("app", "status", job).stdout.split()
    )


@pytest.mark.parametrize("kind", ["json", "xml"])
def test_hadoop_yarn_rest_api(shared: WebCluster, kind: str) -> None:
    yarn = pytest.importorskip("hadoop.yarn").Yarn(shared.rm.url, kind)
    job = shared.yopp("run", "-d", "-q", "sleep", "60").stdout.split()[-1]
    shared.yopp("wait", job, "--for", "RUNNING")
    (node,) = shared.nodes
    answers = {
        "clusterInfo": yarn.cluster_information(),
        "clusterMetrics": yarn.cluster_metrics(),
        "scheduler": yarn.cluster_scheduler(),
        "apps": yarn.cluster_applications({"states": "RUNNING"}),
        "appStatInfo": yarn.cluster_appstatistics({"states": "RUNNING"}),
        "app": yarn.cluster_application(job),
        "appAttempts": yarn.cluster_application_attempts(job),
        "nodes": yarn.cluster_nodes({"states": "RUNNING"}),
        "node": yarn.cluster_node(node),
    }
    for root, answer in answers.items():
        assert (list(answer) == [root]) if kind == "json" else (answer.tag == root)
    if kind == "xml":
        assert answers["apps"].findtext("app/id") == job
        assert answers["node"].findtext("usedVirtualCoresOpport") == "0"
    else:
        assert answers["apps"]["apps"]["app"][0]["id"] == job
