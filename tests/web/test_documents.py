"""``--json`` and REST are the same bytes, XML is the same document, and figures are true."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from tests.live.conftest import wait_until

from .conftest import WebCluster, started
from .prometheus_lint import lint

pytestmark = pytest.mark.live


def test_the_command_line_and_rest_print_the_same_bytes(web: WebCluster) -> None:
    yopp, rm, nm = web.yopp, web.rm, web.nm
    first = yopp("run", "-q", "-d", "-n", "2", "-O", "echo", "ü\u202e<b>").stdout.split()[-1]
    second = yopp("run", "-q", "-d", "false").stdout.split()[-1]
    yopp("wait", first, second, code=None)
    (node,) = web.nodes
    container = yopp.containers("-a", "--app", first)[-1]["id"]
    attempt = yopp.json("attempt", "list", first)["appAttempts"]["appAttempt"][0]["appAttemptId"]
    pairs = {
        "/ws/v1/cluster/info": (rm, ("status",)),
        "/ws/v1/cluster/apps": (rm, ("app", "list", "-a")),
        "/ws/v1/cluster/apps?states=FINISHED&limit=1": (
            rm,
            ("app", "list", "--state", "FINISHED", "--limit", "1"),
        ),
        f"/ws/v1/cluster/apps/{first}": (rm, ("app", "status", first)),
        f"/ws/v1/cluster/apps/{first}/appattempts": (rm, ("attempt", "list", first)),
        f"/ws/v1/cluster/apps/{first}/appattempts/{attempt}": (rm, ("attempt", "status", attempt)),
        "/ws/v1/node/containers": (nm, ("container", "list", "-a", "--node", node)),
        f"/ws/v1/node/containers/{container}": (nm, ("container", "status", container)),
    }
    for path, (site, command) in pairs.items():
        printed = yopp(*command, "--json").stdout
        assert site.get(path).body.decode() == printed, path
    # A node's heartbeat may come between the two: a process of its own may take longer than from one to the next.
    for path, command in {
        "/ws/v1/cluster/nodes": ("node", "list"),
        f"/ws/v1/cluster/nodes/{node}": ("node", "status", node),
    }.items():
        wait_until(
            lambda path=path, command=command: rm.get(path).body.decode() == yopp.look(*command, "--json")
        )


def test_xml_is_the_same_document(web: WebCluster) -> None:
    job = web.yopp("run", "-q", "-d", "-n", "2", "echo", "<&>").stdout.split()[-1]
    web.yopp("wait", job)
    answer = web.rm.get("/ws/v1/cluster/apps", Accept="application/xml")
    assert answer.headers["content-type"] == "application/xml; charset=utf-8"
    root = ET.fromstring(answer.body)
    assert root.tag == "apps"
    app = web.rm.get(f"/ws/v1/cluster/apps/{job}").json["app"]
    assert {key: root.findtext(f"app/{key}") for key in ("id", "state", "user")} == {
        key: app[key] for key in ("id", "state", "user")
    }
    assert root.findtext("app/yopp/command") == app["yopp"]["command"]
    refused = web.rm.get("/ws/v1/cluster/apps/application_1_0001", Accept="application/xml")
    assert refused.status == 404
    assert ET.fromstring(refused.body).findtext("exception") == "NotFoundException"


def bean(answer: Any, name: str) -> dict[str, Any]:
    return next(one for one in answer.json["beans"] if one["name"].endswith(f"name={name}"))


def test_metrics_count_what_happens(web: WebCluster) -> None:
    job = web.yopp("run", "-q", "-d", "-n", "6", "-O", "--memory", "64", "sleep", "60").stdout.split()[-1]
    wait_until(lambda: len(web.yopp.containers("--app", job, "--type", "O")) == 6)
    wait_until(
        lambda: web.rm.get("/ws/v1/cluster/nodes").json["nodes"]["node"][0]["numQueuedContainers"] == 4
    )
    rm_bean = bean(web.rm.get("/jmx"), "OpportunisticSchedulerMetrics")
    assert rm_bean["AllocatedOContainers"] == rm_bean["AggregateOContainersAllocated"] == 6
    assert (
        rm_bean["AggregateOffSwitchOContainersAllocated"] == 6
        and rm_bean["AggregateOContainersReleased"] == 0
    )
    assert rm_bean["AllocateLatencyOQuantilesNumOps"] == 6
    nm_bean = wait_until(
        lambda: (
            (
                found := bean(
                    web.nm.get("/jmx?qry=Hadoop:service=NodeManager,name=NodeManagerMetrics"),
                    "NodeManagerMetrics",
                )
            )["RunningOpportunisticContainers"]
            == 2
            and found
        ),
        what="two run",
    )
    assert nm_bean["ContainersOpportunisticQueued"] == 4
    assert nm_bean["AllocatedOpportunisticGB"] == 1 and nm_bean["AllocatedOpportunisticVCores"] == 2
    for site in (web.rm, web.nm):
        assert lint(site.get("/metrics").body.decode()) == []
    # The node's number may come from what it was given; its containers are queued when it has said so.
    lines = wait_until(
        lambda: (
            'yopp_containers{state="QUEUED"} 4'
            in (found := web.rm.get("/metrics").body.decode().splitlines())
            and found
        ),
        what="all four are told to be queued",
    )
    assert "yopp_opportunistic_allocation_wait_seconds_count 6" in lines
    assert 'yopp_applications{state="RUNNING"} 1' in lines
    (node,) = web.nodes
    assert (
        f'yopp_node_opportunistic_queued{{node="{node}"}} 4'
        in web.nm.get("/metrics").body.decode().splitlines()
    )
    web.yopp("app", "kill", job)
    rm_bean = wait_until(
        lambda: (
            (found := bean(web.rm.get("/jmx?qry=Hadoop:*"), "OpportunisticSchedulerMetrics"))[
                "AllocatedOContainers"
            ]
            == 0
            and found
        )
    )
    assert rm_bean["AggregateOContainersReleased"] == 6
    ends = wait_until(
        lambda: (found := bean(web.nm.get("/jmx"), "NodeManagerMetrics"))["ContainersKilled"] == 6 and found
    )
    assert ends["ContainersLaunched"] == 2
    assert ends["ContainersCompleted"] == ends["ContainersFailed"] == ends["ContainersRunning"] == 0
    assert web.rm.get("/jmx?qry=java.lang:*").json == {"beans": []}
    one = web.rm.get("/jmx?get=Hadoop:service=ResourceManager,name=ClusterMetrics::NumActiveNMs").json[
        "beans"
    ]
    assert one[0]["NumActiveNMs"] == 1 and "CapabilityMB" not in one[0]
    for query, status in (("get=nonsense", 400), ("get=Hadoop:*::NumNothing", 404), ("qry=nonsense", 400)):
        answer = web.rm.get(f"/jmx?{query}")
        assert (answer.status, answer.json["result"]) == (status, "ERROR"), query


def test_the_scheduler_is_a_tree_of_queues_and_applications_move_in_it(web: WebCluster) -> None:
    web.yopp("down", "-y")
    queues = {"root.queues": "prod,dev", "root.prod.capacity": "75", "root.dev.capacity": "25"}
    more = {"root.dev.queues": "a,b", "root.dev.a.capacity": "50", "root.dev.b.capacity": "50"}
    defines = [f"-Dyarn.scheduler.capacity.{key}={value}" for key, value in {**queues, **more}.items()]
    web = started(web.yopp, "--vcores", "4", "--memory", "1024", *defines)
    job = web.yopp("dshell", "-q", "-d", "--queue", "prod", "--shell-command", "sleep 60").stdout.split()[-1]
    web.yopp("wait", job, "--for", "RUNNING")
    root = web.rm.get("/ws/v1/cluster/scheduler").json["scheduler"]["schedulerInfo"]
    assert (root["type"], root["queueName"], root["absoluteCapacity"]) == ("capacityScheduler", "root", 100.0)
    prod, dev = sorted(root["queues"]["queue"], key=lambda one: -float(one["capacity"]))
    assert (prod["queuePath"], prod["absoluteCapacity"], prod["numApplications"]) == ("root.prod", 75.0, 1)
    assert [one["absoluteCapacity"] for one in dev["queues"]["queue"]] == [12.5, 12.5]
    assert dev["capacities"]["queueCapacitiesByPartition"][0]["partitionName"] == ""
    moved = web.rm("PUT", f"/ws/v1/cluster/apps/{job}/queue", {"queue": "root.dev.a"})
    assert moved.status == 200 and moved.json["queue"].endswith("a")
    assert web.yopp.json("app", "status", job)["app"]["queue"] == moved.json["queue"]
    refused = web.rm("PUT", f"/ws/v1/cluster/apps/{job}/queue", {"queue": "nowhere"})
    assert (refused.status, refused.exception) == (404, "NotFoundException")
    page = web.rm.get("/cluster/scheduler").body.decode()
    assert all(f"<strong>{name}</strong>" in page for name in ("root", "prod", "dev", "a", "b"))


def test_what_hadoops_daemons_serve_beside_their_pages(web: WebCluster) -> None:
    every = {row["key"]: row for row in web.rm.get("/conf?format=json").json["properties"]}
    unset = {"key": "yarn.resourcemanager.address", "value": "", "isFinal": False, "resource": "default"}
    assert every["yarn.resourcemanager.address"] == unset
    assert {row["resource"] for row in every.values()} > {"default"}
    assert web.nm.get("/conf?name=yarn.resourcemanager.address&format=json").json == {"property": unset}
    xml = ET.fromstring(web.rm.get("/conf?name=yarn.scheduler.minimum-allocation-mb").body)
    assert [each.tag for each in xml.find("property") or ()] == ["name", "value", "final", "source"]
    assert web.rm.get("/conf?name=yarn.no.such").status == 404
    assert web.rm.get("/conf?format=yaml").status == 400
    stacks = web.rm.get("/stacks")
    assert stacks.headers["content-type"].startswith("text/plain") and b'"MainThread":\n' in stacks.body
    assert b'href="/logs/rm.log"' in web.rm.get("/logs/").body
    log = web.rm.get("/logs/rm.log")
    assert log.status == 200 and len(log.body) > 0
    wait_until(
        lambda: web.rm.get("/logs/rm.log?size=-5").body == web.rm.get("/logs/rm.log").body[-5:],
        what="its end, to which nothing is added meanwhile",
    )
    for name in ("rm.pid", "..%2Frm.log", "rm.log.x"):
        assert web.rm.get(f"/logs/{name}").status == 404


def test_restarted_daemons_have_the_ports_that_they_had(web: WebCluster) -> None:
    for daemon, site in (("rm", web.rm), ("nm", web.nm)):
        web.yopp(daemon, "restart")
        assert site("GET", "/").status in (200, 302)
        assert (
            web.yopp.run_dir / f"{'rm' if daemon == 'rm' else 'nm-45454'}.http"
        ).read_text().strip() == site.address
    web.yopp("down", "-y")
    assert not list(web.yopp.run_dir.glob("*.port"))
