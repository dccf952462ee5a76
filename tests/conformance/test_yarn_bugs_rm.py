"""Bugs that YARN's ResourceManager and AMRMProxy had, one test each, named by their issues: none happens here."""

from __future__ import annotations

import gc
import json
from dataclasses import replace
from typing import Any

import pytest

from executor.records import (
    ContainerState,
    ContainerStatus,
    ExecutionType,
    OpportunisticContainersStatus,
    Resource,
)
from tests.core.rm_harness import (
    GUARANTEED,
    OPPORTUNISTIC,
    Cluster,
    Master,
    Node,
    asks,
    done,
    queued,
    status,
)
from tests.core.test_amrmproxy import World as ProxyWorld
from tests.core.test_rm_applications import start_master
from yarnopp_cli.machine import tokens
from yarnopp_cli.nodemanager.proxy.distributed_scheduler import DistributedScheduler
from yarnopp_cli.records.client_protocol import GetClusterInfoRequest, GetClusterNodesRequest
from yarnopp_cli.records.job_protocol import SubmitApplicationRequest
from yarnopp_cli.records.master_protocol import (
    AllocateRequest,
    FinishApplicationMasterRequest,
    RegisterApplicationMasterRequest,
)
from yarnopp_cli.records.reports import FinalApplicationStatus, NodeState
from yarnopp_cli.records.requests import (
    ApplicationSubmissionContext,
    Container,
    ExecutionTypeRequest,
    ResourceRequest,
)
from yarnopp_cli.rpc.codec import decode_call
from yarnopp_cli.rpc.methods import PROXY_METHODS
from yarnopp_cli.views.containers import document

SIZE = Resource(512, 1)


def busy(cluster: Cluster, name: str, waiting: int, capacity: int = 10) -> Node:
    """A node that is full and has so many queued."""
    node = cluster.node(name, Resource(4096, 4))
    node.opportunistic = OpportunisticContainersStatus(
        running=4, memory_used=4096, vcores_used=4, queued=waiting, wait_queue_length=waiting,
        queue_capacity=capacity,
    )  # fmt: skip
    node.beat()
    return node


def places(containers: Any) -> list[str]:
    return [container.node_id for container in containers]


def opportunistic(number: int, **more: Any) -> ResourceRequest:
    return asks(number, SIZE, OPPORTUNISTIC, **more)


# -- restart -------------------------------------------------------------------------------------------------


def test_yarn_8606_opportunistic_containers_after_another_life_of_the_rm() -> None:
    """After a failover the new RM's service knew no node to allocate on, and nothing worked any more."""
    first = Cluster()
    node = first.node()
    [old] = first.master().allocate(opportunistic(1)).allocated
    node.beat(status(old))
    second = Cluster()
    node.cluster = second
    node.register()
    node.beat()
    [new] = second.master().allocate(opportunistic(1)).allocated
    assert new.execution_type is OPPORTUNISTIC and new.node_id == node.name
    node.beat(status(new))
    assert second.containers()[new.id].state is ContainerState.RUNNING


def test_yarn_10760_no_count_falls_below_zero_after_another_life_of_the_rm() -> None:
    """Opportunistic containers of before the restart were counted down, having never been counted up."""
    first = Cluster()
    node = first.node()
    old = first.master().allocate(opportunistic(2), asks(1, SIZE)).allocated
    node.beat(*(status(one) for one in old))
    second = Cluster()
    node.cluster = second
    node.register()
    for one in old:
        node.beat(done(one, -106))
        info = second.ask(GetClusterInfoRequest())
        [report] = second.ask(GetClusterNodesRequest()).nodes
        assert min(info.used.memory, info.used.vcores, info.containers_running, info.containers_queued) >= 0
        assert min(report.used.memory, report.used.vcores, report.opportunistic.running) >= 0
    assert second.ask(GetClusterInfoRequest()).used == Resource()


# -- nodes ---------------------------------------------------------------------------------------------------


def test_yarn_5918_a_lost_node_fails_no_allocate_call_and_gets_nothing() -> None:
    cluster = Cluster(nm_expiry_interval_ms=2000)
    cluster.node("h1:1")
    master = cluster.master()
    assert places(master.allocate(opportunistic(1)).allocated) == ["h1:1"]
    cluster.at(2.5)
    [lost] = cluster.ask(GetClusterNodesRequest()).nodes
    assert lost.state is NodeState.LOST
    cluster.node("h2:1")
    response = master.allocate(opportunistic(5, allocation_request_id=1))
    assert set(places(response.allocated)) == {"h2:1"} and len(response.allocated) == 5


def test_yarn_9402_nothing_new_on_a_node_that_is_going() -> None:
    """YARN placed on DECOMMISSIONING nodes. Here: on those that are unhealthy, or have said that they end."""
    cluster = Cluster()
    sick, leaving, well = (cluster.node(name, Resource(4096, 4)) for name in ("h1:1", "h2:1", "h3:1"))
    sick.beat(healthy=False, health_report="disk")
    leaving.unregister(keep_containers=True)
    response = cluster.master().allocate(opportunistic(12))
    assert set(places(response.allocated)) == {well.name}
    sick.beat(healthy=True)
    assert sick.name in places(cluster.master().allocate(opportunistic(12)).allocated)


def test_yarn_7587_a_node_with_a_full_queue_gets_nothing() -> None:
    cluster = Cluster()
    busy(cluster, "h1:1", 10)
    busy(cluster, "h2:1", 9)
    response = cluster.master().allocate(opportunistic(5))
    assert places(response.allocated) == ["h2:1"], "one place is left, and the others wait for the next beat"
    cluster = Cluster()
    nearly = busy(cluster, "h3:1", 10)
    nearly.opportunistic = replace(nearly.load(), memory_used=3996, vcores_used=3)
    nearly.beat()
    response = cluster.master().allocate(opportunistic(1))
    assert response.allocated == (), "what is free there is too little, and its queue is full"


def test_yarn_5350_the_order_of_the_nodes_reaches_the_distributed_schedulers() -> None:
    """The sorted list lost its order on the way to the NodeManagers."""
    world = ProxyWorld(nodes=0)
    cluster = world.cluster
    nodes = {name: busy(cluster, name, waiting) for name, waiting in (("h1:1", 7), ("h2:1", 1), ("h3:1", 4))}
    cluster.at(5.0)
    told = nodes["h1:1"].beat().nodes_for_scheduling
    assert [node.node_id for node in told] == ["h2:1", "h3:1", "h1:1"]
    assert [node.queue_length for node in told] == [1, 4, 7]
    world.perform(world.proxy.nodes_changed(told, 5.0))
    world.register()
    granted = world.allocate(*(opportunistic(1, allocation_request_id=n) for n in range(2))).allocated
    assert places(granted)[0] == "h2:1", "the least loaded is the first that is filled"


# -- identity ------------------------------------------------------------------------------------------------


def test_yarn_9238_an_attempt_that_is_over_is_given_nothing() -> None:
    """Containers were allocated to the attempt before, or to one that was no more."""
    cluster = Cluster(max_attempts=2)
    node = cluster.node()
    app_id = cluster.submit()
    to_start, master = start_master(cluster, node)
    [mine] = master.allocate(opportunistic(1)).allocated
    node.beat(status(mine))
    assert mine.id in node.beat(done(to_start.container, 1)).containers_to_cleanup
    for request in (opportunistic(3, allocation_request_id=1), asks(2, SIZE, allocation_request_id=2)):
        late = master.allocate(request)
        assert (late.command, late.allocated) == ("AM_SHUTDOWN", ())
    node.beat(done(mine, -106))
    [second] = node.beat().containers_to_start
    attempt = cluster.context.live[app_id].attempt
    assert attempt.id != master.attempt_id
    assert len(attempt.opportunistic_asks) == 0, "nor does the next attempt inherit its asks"
    node.beat(status(second.container))
    live = set(cluster.containers(application_id=app_id))
    assert live == {second.container.id}


@pytest.mark.parametrize("enforce", [False, True])
def test_yarn_5351_7531_asks_of_two_types_are_two_asks(enforce: bool) -> None:
    """ResourceRequest's equality left the execution type, and later the enforce flag, out."""
    first = ResourceRequest(1, SIZE, execution_type_request=ExecutionTypeRequest(GUARANTEED, enforce))
    other = ResourceRequest(1, SIZE, execution_type_request=ExecutionTypeRequest(OPPORTUNISTIC, enforce))
    flag = ResourceRequest(1, SIZE, execution_type_request=ExecutionTypeRequest(OPPORTUNISTIC, not enforce))
    assert len({repr(one) for one in (first, other, flag)}) == 3
    assert first != other and other != flag and first == ResourceRequest(
        1, SIZE, execution_type_request=ExecutionTypeRequest(GUARANTEED, enforce)
    )  # fmt: skip
    cluster = Cluster()
    cluster.node()
    response = cluster.master().allocate(first, other)
    assert sorted(one.execution_type for one in response.allocated) == [GUARANTEED, OPPORTUNISTIC]


def test_yarn_6849_7203_the_type_is_in_every_report() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    granted = master.allocate(asks(1, SIZE), opportunistic(1)).allocated
    node.beat(*(status(one) for one in granted))
    types = {one.id: one.execution_type for one in granted}
    assert sorted(types.values()) == [GUARANTEED, OPPORTUNISTIC]
    for report in cluster.containers().values():
        assert report.execution_type is types[report.container_id]
        assert document(report, 0)["executionType"] == types[report.container_id].value
    node.beat(*(done(one) for one in granted))
    for ended in master.allocate().completed:
        assert ended.execution_type is types[ended.container_id]
    finished = cluster.containers(finished=True)
    assert {name: finished[name].execution_type for name in types} == types


# -- crashes and leaks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("absent", ["left out", "default"])
def test_yarn_6756_an_ask_without_an_execution_type_request_is_guaranteed(absent: str) -> None:
    """It was a NullPointerException."""
    ask: dict[str, Any] = {"num_containers": 1, "capability": {"memory": 512, "vcores": 1}}
    if absent == "default":
        ask["execution_type_request"] = {}
    token = {"kind": "AMRMToken", "identifier": "{}", "password": ""}
    params = {"attempt_id": "a", "token": token, "asks": [ask]}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "allocate", "params": params}).encode()
    _, request = decode_call(line, PROXY_METHODS)
    assert request.asks[0].execution_type_request == ExecutionTypeRequest(GUARANTEED)
    cluster = Cluster()
    cluster.node()
    [one] = cluster.master().allocate(request.asks[0]).allocated
    assert one.execution_type is ExecutionType.GUARANTEED


def proxy_job(world: ProxyWorld) -> None:
    """One application through the proxy of ``world``, from its submission to its end."""
    submission = ApplicationSubmissionContext(application_id="", name="job", unmanaged=True)
    submitted = world.cluster.ask(SubmitApplicationRequest(submission), world.cluster.connection())
    attempt, token = submitted.attempt_id, submitted.am_token
    world.connection += 1
    answer = world.take(world.send(RegisterApplicationMasterRequest(attempt, token)))
    world.take(world.send(AllocateRequest(attempt, answer.token, asks=(opportunistic(1),))))
    farewell = FinishApplicationMasterRequest(attempt, answer.token, FinalApplicationStatus.SUCCEEDED)
    assert world.take(world.send(farewell)).is_unregistered


def test_yarn_6565_8893_the_proxy_keeps_nothing_of_applications_that_are_over() -> None:
    """Pipelines, their tokens and their threads stayed for ever. Here: pipelines, records and connections."""
    world = ProxyWorld()
    before = counted(DistributedScheduler)
    for _ in range(30):
        proxy_job(world)
        for node in world.nodes:
            node.beat()
    assert len(world.proxy.applications) == 0
    assert world.stored == ()
    assert world.open == {} and world.waiting == {}
    assert counted(DistributedScheduler) <= before + 1, "not one for each of the thirty"


def counted(kind: type) -> int:
    gc.collect()
    return sum(type(thing) is kind for thing in gc.get_objects())


def churn(cluster: Cluster, node: Node, master: Master, number: int, first: int) -> None:
    for turn in range(number):
        [one] = master.allocate(opportunistic(1, allocation_request_id=first + turn)).allocated
        node.beat(queued(one))
        node.beat(status(one))
        node.beat(done(one))
        node.beat()
    master.allocate()


def test_yarn_10649_statuses_of_ended_containers_do_not_pile_up() -> None:
    """Thirteen million of them filled the RM's memory."""
    cluster = Cluster(max_retained_containers=10)
    node, master = cluster.node(), cluster.master()
    churn(cluster, node, master, 60, 0)
    before = counted(ContainerStatus), counted(Container)
    churn(cluster, node, master, 200, 60)
    after = counted(ContainerStatus), counted(Container)
    assert after[0] <= before[0] + 10 and after[1] <= before[1] + 10, (before, after)


def test_yarn_11808_asks_that_are_cancelled_leave_nothing() -> None:
    """The RM kept a node-level entry of every application-level ask that was withdrawn."""
    cluster = Cluster()
    busy(cluster, "h1:1", 10)
    master = cluster.master()
    attempt = cluster.context.live[master.app_id].attempt
    before = counted(ResourceRequest)
    for turn in range(100):
        more: dict[str, Any] = {"allocation_request_id": turn}
        master.allocate(opportunistic(5, **more), opportunistic(5, resource_name="h1", **more))
        assert cluster.app(master.app_id).pending_containers > 0
        master.allocate(opportunistic(0, **more), opportunistic(0, resource_name="h1", **more))
        assert cluster.app(master.app_id).pending_containers == 0
    assert len(attempt.opportunistic_asks) == len(attempt.guaranteed_asks) == 0
    assert counted(ResourceRequest) <= before + 5


# -- tokens and addresses ------------------------------------------------------------------------------------


def facts(container: Container) -> dict[str, Any]:
    return dict(json.loads(container.token.identifier))


@pytest.mark.parametrize("kind", [GUARANTEED, OPPORTUNISTIC])
def test_yarn_5110_5799_tokens_and_containers_name_the_whole_address(kind: ExecutionType) -> None:
    """The token of an opportunistic container named the host without its port, or another HTTP address."""
    cluster = Cluster()
    cluster.node("h1:45454")
    cluster.node("h1:45455")
    for one in cluster.master().allocate(asks(8, SIZE, kind)).allocated:
        assert one.node_id in ("h1:45454", "h1:45455")
        assert facts(one)["node_id"] == one.node_id
        assert one.node_address == f"unix:/run/yopp/nm-{one.node_id}.sock"
        assert one.node_http_address == cluster.context.nodes[one.node_id].registration.http_address


def test_yarn_5823_with_opportunistic_asks_alone_every_node_can_be_spoken_to() -> None:
    """No NMToken came where a master asked for opportunistic containers only, so that it could start none."""
    cluster = Cluster()
    cluster.node("h1:1", Resource(1024, 2))
    cluster.node("h2:1", Resource(1024, 2))
    key = cluster.context.container_key
    granted = cluster.master().allocate(opportunistic(4)).allocated
    assert set(places(granted)) == {"h1:1", "h2:1"}
    for one in granted:
        stated = tokens.verify(key, one.token, tokens.CONTAINER_TOKEN, now_ms=0)
        assert (stated["container_id"], stated["execution_type"]) == (one.id, "OPPORTUNISTIC")
    world = ProxyWorld()
    world.register()
    [remote] = world.allocate(opportunistic(1)).allocated
    proxy_key = world.cluster.context.container_key
    assert (
        tokens.verify(proxy_key, remote.token, tokens.CONTAINER_TOKEN, now_ms=0)["container_id"] == remote.id
    )


# -- locality ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 3, 7])
def test_yarn_9448_containers_asked_for_at_a_host_are_at_that_host(number: int) -> None:
    """Node-local asks were served anywhere, the first after the first one."""
    cluster = Cluster()
    for name in ("h1:1", "h2:1", "h3:1"):
        busy(cluster, name, 2)
    near = [opportunistic(number, resource_name=name) for name in ("/default-rack", "h2", "*")]
    assert places(cluster.master().allocate(*near).allocated) == ["h2:1"] * number
