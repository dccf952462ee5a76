"""What stands against asks, node by node, and YARN's documents of it."""

from __future__ import annotations

from typing import Any

import pytest

from executor.records import Resource
from yarnopp_cli.errors import ApplicationNotFoundError, NodeNotFoundError
from yarnopp_cli.records.client_protocol import GetApplicationAttemptsRequest
from yarnopp_cli.records.job_protocol import GetApplicationsRequest
from yarnopp_cli.records.scheduler_protocol import GetActivitiesRequest
from yarnopp_cli.settings.queues import CapacitySchedulerSettings, QueueSettings
from yarnopp_cli.views.applications import attempt_document
from yarnopp_cli.views.explain import activities as view

from .rm_harness import OPPORTUNISTIC, Cluster, Master, asks


def busy() -> tuple[Cluster, Master]:
    """Two nodes of 4 vcores, of which an application has one whole and waits for another two containers of 4."""
    cluster = Cluster()
    cluster.node("h1:1")
    cluster.node("h2:1", Resource(1024, 2))
    master = cluster.master()
    master.allocate(asks(3, Resource(100, 4), priority=5))
    return cluster, master


def told(cluster: Cluster, app_id: str, **more: Any) -> dict[str, Any]:
    report = cluster.ask(GetApplicationsRequest((app_id,))).applications[0]
    given: dict[str, Any] = {
        "grouped": False, "priorities": frozenset(), "request_ids": frozenset(), "actions": frozenset(), **more,
    }  # fmt: skip
    answer = cluster.ask(GetActivitiesRequest(app_id))
    return dict(view.application(report, answer, "now", **given)["appActivities"])


def test_each_node_says_why_it_does_not_serve_an_ask() -> None:
    cluster, master = busy()
    (allocation,) = told(cluster, master.app_id)["allocations"]
    (request,) = allocation["requestAllocation"]
    assert (request["requestPriority"], request["allocationState"]) == (5, "SKIPPED")
    assert request["diagnostic"].startswith("2 GUARANTEED of ") and request["diagnostic"].endswith(" wait")
    nodes = {one["nodeId"]: one["diagnostic"] for one in request["children"]}
    assert "a guaranteed container needs 4 vcores, and this node has promised 4 of 4" in nodes["h1:1"]
    assert nodes["h2:1"] == "it needs 4 vcores, 100 MB, and this node has 2 vcores, 1024 MB in all"


def test_filters_actions_and_groups_are_honoured() -> None:
    cluster, master = busy()
    cluster.node("h3:1", Resource(1024, 2))
    for filters in ({"priorities": frozenset({4})}, {"request_ids": frozenset({7})}):
        found = told(cluster, master.app_id, **filters)
        assert (found["allocations"], found["diagnostic"]) == ([], "nothing is requested")
    assert told(cluster, master.app_id, priorities=frozenset({5}))["allocations"]
    assert "allocations" not in told(cluster, master.app_id, actions=frozenset({"refresh"}))
    (allocation,) = told(cluster, master.app_id, grouped=True)["allocations"]
    groups = allocation["requestAllocation"][0]["children"]
    assert [(one["count"], one["nodeIds"]) for one in groups] == [(1, ["h1:1"]), (2, ["h2:1", "h3:1"])]


def test_opportunistic_asks_find_full_queues() -> None:
    cluster = Cluster()
    node = cluster.node(queue_capacity=0)
    master = cluster.master()
    master.allocate(asks(4))
    master.allocate(asks(1, execution_type=OPPORTUNISTIC))
    node.beat()
    (allocation,) = told(cluster, master.app_id)["allocations"]
    ((child,),) = [one["children"] for one in allocation["requestAllocation"]]
    assert "the queue length is 0: containers cannot queue at a node" in child["diagnostic"]


def test_the_tree_of_queues_holds_those_that_wait() -> None:
    queues = QueueSettings(
        name="root",
        path="root",
        children=(
            QueueSettings(name="a", path="root.a", capacity=50.0, maximum_capacity=50.0, submitters=None),
            QueueSettings(name="b", path="root.b", capacity=50.0, submitters=None),
        ),
    )
    cluster = Cluster(queues=queues, capacity=CapacitySchedulerSettings())
    cluster.node()
    master = cluster.master(queue="a")
    master.allocate(asks(4, Resource(100, 1)))
    found = view.cluster(cluster.ask(GetActivitiesRequest(node_id="h1:1")), "h1:1", "now", grouped=False)[
        "activities"
    ]
    (allocation,) = found["allocations"]
    root = allocation["root"]
    assert (found["nodeId"], root["name"], [one["name"] for one in root["children"]]) == (
        "h1:1",
        "root",
        ["a"],
    )
    (app,) = root["children"][0]["children"]
    assert app["name"] == master.app_id
    assert "maximum-capacity" in app["children"][0]["diagnostic"]


def test_nothing_waits_and_nothing_is_known() -> None:
    cluster = Cluster()
    cluster.node()
    master = cluster.master()
    assert (
        view.cluster(cluster.ask(GetActivitiesRequest()), "", "now", grouped=True)["activities"][
            "allocations"
        ]
        == []
    )
    assert told(cluster, master.app_id)["diagnostic"] == "nothing is requested"
    master.finish()
    assert told(cluster, master.app_id)["diagnostic"] == f"{master.app_id} has ended"
    with pytest.raises(ApplicationNotFoundError):
        cluster.ask(GetActivitiesRequest("application_1_0001"))
    with pytest.raises(NodeNotFoundError):
        cluster.ask(GetActivitiesRequest(node_id="nowhere:1"))


def test_nodes_that_a_master_does_not_want_are_told_of() -> None:
    cluster, master = busy()
    master.allocate(blacklist_additions=("h1", "h2:1"))
    attempts = cluster.ask(GetApplicationAttemptsRequest(master.app_id)).attempts
    assert attempt_document(attempts[0])["blacklistedNodes"] == "h1, h2:1"
    (allocation,) = told(cluster, master.app_id, grouped=True)["allocations"]
    ((group,),) = [one["children"] for one in allocation["requestAllocation"]]
    assert group["count"] == 2 and "excludes this node" in group["diagnostic"]
