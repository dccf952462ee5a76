"""Draining, resuming and resizing nodes, and applications' priorities."""

from __future__ import annotations

import pytest

from executor.records import Resource
from yarnopp_cli.allocation.host_capacity import HostCapacity, HostMeasured
from yarnopp_cli.errors import InvalidResourceRequestError, InvalidStateError, NodeNotFoundError
from yarnopp_cli.records.admin_protocol import (
    DrainNodesRequest,
    ResumeNodesRequest,
    UpdateNodeResourceRequest,
)
from yarnopp_cli.records.client_protocol import GetClusterInfoRequest, UpdateApplicationPriorityRequest
from yarnopp_cli.records.history import GetEventsRequest
from yarnopp_cli.records.reports import NodeState

from .rm_harness import OPPORTUNISTIC, Cluster, Node, asks, done, status

ONE = Resource(100, 1)


def state(cluster: Cluster, node: Node) -> NodeState:
    return cluster.context.nodes[node.name].state


def drain(cluster: Cluster, *nodes: Node, **more: object) -> None:
    cluster.ask(DrainNodesRequest(tuple(node.name for node in nodes), **more))  # type: ignore[arg-type]


def resume(cluster: Cluster, node: Node, **more: object) -> None:
    cluster.ask(ResumeNodesRequest((node.name,), **more))  # type: ignore[arg-type]


def test_a_drained_node_gets_nothing_and_keeps_what_it_has_until_that_has_ended() -> None:
    cluster = Cluster()
    node, other = cluster.node("h1:1"), cluster.node("h2:2", total=Resource(200, 2))
    master = cluster.master()
    [one] = master.allocate(asks(1, Resource(1000, 1))).allocated
    assert one.node_id == node.name
    node.beat(status(one))
    drain(cluster, node)
    assert state(cluster, node) is NodeState.DECOMMISSIONING
    node.beat()
    assert state(cluster, node) is NodeState.DECOMMISSIONING, "a healthy heartbeat changes nothing"
    granted = master.allocate(asks(1, ONE), asks(1, ONE, OPPORTUNISTIC)).allocated
    assert {container.node_id for container in granted} == {other.name}
    node.beat(done(one))
    assert state(cluster, node) is NodeState.DECOMMISSIONED
    assert cluster.ask(GetClusterInfoRequest()).total == Resource(200, 2)
    node.beat()
    kinds = [event.kind.value for event in cluster.ask(GetEventsRequest(node_id=node.name)).events]
    assert kinds[-2:] == ["ContainerCompleted", "NodeDrained"] and "NodeDraining" in kinds
    resume(cluster, node)
    assert state(cluster, node) is NodeState.RUNNING
    [again] = master.allocate(asks(1, Resource(1000, 1), allocation_request_id=2)).allocated
    assert again.node_id == node.name


def test_an_empty_node_is_drained_at_once_and_stays_so_when_its_process_comes_again() -> None:
    cluster = Cluster()
    node = cluster.node()
    drain(cluster, node)
    assert state(cluster, node) is NodeState.DECOMMISSIONED
    cluster.lose(node.connection)
    node.register()
    assert state(cluster, node) is NodeState.DECOMMISSIONED
    master = cluster.master()
    assert master.allocate(asks(1, ONE)).allocated == ()
    resume(cluster, node)
    assert len(master.allocate().allocated) == 1
    resume(cluster, node)  # which changes nothing


def test_what_lives_too_long_on_a_draining_node_is_ended() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    [one] = master.allocate(asks(1, ONE)).allocated
    node.beat(status(one))
    drain(cluster, node, timeout_ms=2000)
    cluster.at(1.9)
    assert node.beat().containers_to_cleanup == ()
    cluster.at(2.0)
    assert node.beat().containers_to_cleanup == (one.id,)
    drain(cluster, node, timeout_ms=0)
    node.beat(done(one, -106))
    assert state(cluster, node) is NodeState.DECOMMISSIONED


def test_a_draining_node_that_goes_is_gone() -> None:
    cluster = Cluster()
    node = cluster.node()
    [one] = cluster.master().allocate(asks(1, ONE)).allocated
    node.beat(status(one))
    drain(cluster, node, timeout_ms=1000)
    node.unregister()
    assert state(cluster, node) is NodeState.SHUTDOWN
    cluster.at(5.0)
    for request in (DrainNodesRequest((node.name,)), ResumeNodesRequest((node.name,))):
        with pytest.raises(InvalidStateError):
            cluster.ask(request)
    with pytest.raises(NodeNotFoundError):
        cluster.ask(DrainNodesRequest(("nowhere:1",)))


def test_dry_runs_change_nothing() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    [one] = master.allocate(asks(1, ONE)).allocated
    before = cluster.context.history.last
    answer = cluster.ask(DrainNodesRequest((node.name,), dry_run=True))
    assert (answer.nodes[0].state, answer.containers) == (NodeState.DECOMMISSIONING, 1)
    (resized,) = cluster.ask(UpdateNodeResourceRequest({node.name: Resource(2000, 9)}, dry_run=True)).nodes
    assert resized.total == Resource(2000, 9)
    cluster.ask(UpdateApplicationPriorityRequest(master.app_id, 7, dry_run=True))
    assert state(cluster, node) is NodeState.RUNNING
    assert cluster.context.nodes[node.name].total == node.total
    assert cluster.app(master.app_id).priority == 0
    assert cluster.context.history.last == before
    assert one.node_id == node.name


def test_a_node_of_another_size_is_told_and_allocated_to_by_it() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(1000, 2))
    master = cluster.master()
    assert len(master.allocate(asks(4, ONE)).allocated) == 2
    node.beat()  # is told that guaranteed asks wait
    held = node.send(wait_ms=5000)
    cluster.ask(UpdateNodeResourceRequest({node.name: Resource(1000, 4)}))
    response = node.take(held)
    assert response is not None and response.resource == Resource(1000, 4)
    assert len(master.allocate().allocated) == 2
    assert cluster.ask(GetClusterInfoRequest()).total == Resource(1000, 4)
    cluster.ask(UpdateNodeResourceRequest({node.name: Resource(100, 1)}))
    assert node.beat().resource == Resource(100, 1), "also if more than that is in use"
    assert master.allocate(asks(1, ONE, allocation_request_id=3)).allocated == ()


@pytest.mark.parametrize(
    "size", [Resource(0, 1), Resource(-5, 1), Resource(100, 0), Resource(2**31, 1), Resource(100, 2**31)]
)
def test_a_node_of_nothing_or_of_more_than_can_be_is_refused(size: Resource) -> None:
    cluster = Cluster()
    node = cluster.node()
    with pytest.raises(InvalidResourceRequestError):
        cluster.ask(UpdateNodeResourceRequest({node.name: size}))


def test_nodes_get_no_more_memory_together_than_the_host_has_and_all_change_or_none() -> None:
    cluster = Cluster()
    capacity = HostCapacity(3000, 4, 200, ("a cgroup has a memory limit",))
    cluster.rm.handle(HostMeasured(capacity), cluster.now)
    first = cluster.node("h1:1", total=Resource(1000, 2))
    second = cluster.node("h2:2", total=Resource(1500, 2))

    def resize(one: Resource, other: Resource, **more: bool) -> tuple[str, ...]:
        return cluster.ask(UpdateNodeResourceRequest({first.name: one, second.name: other}, **more)).warnings

    for dry_run in (True, False):
        with pytest.raises(InvalidResourceRequestError) as refused:
            resize(Resource(1200, 3), Resource(2000, 3), dry_run=dry_run)
        assert "3200 MB" in refused.value.message
        assert "3000 MB (a cgroup has a memory limit)" in refused.value.because
        assert "200 MB less" in refused.value.hint
    sizes = [cluster.context.nodes[one.name].total for one in (first, second)]
    assert sizes == [Resource(1000, 2), Resource(1500, 2)]
    assert resize(Resource(1700, 2), Resource(1000, 2)) == (), "one may take what the other gives"
    cores, memory = resize(Resource(1900, 2), Resource(1000, 3))
    assert "5 vcores are promised on 4 cores" in cores and "less than 200 MB is left" in memory
    assert resize(Resource(1900, 2), Resource(900, 3)) == (), "what does not grow is not examined again"


def test_priority_decides_who_is_served_first() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(1000, 1))
    first, early, late = cluster.master(), cluster.master(), cluster.master()
    [one] = first.allocate(asks(1, ONE)).allocated
    node.beat(status(one))
    assert not early.allocate(asks(1, ONE)).allocated and not late.allocate(asks(1, ONE)).allocated
    cluster.ask(UpdateApplicationPriorityRequest(late.app_id, 10))
    node.beat(done(one))
    assert len(late.allocate().allocated) == 1 and not early.allocate().allocated
    assert cluster.app(late.app_id).priority == 10
    told = cluster.ask(UpdateApplicationPriorityRequest(late.app_id, 99_999))
    assert told.application.priority == cluster.app(late.app_id).priority == 10, "the cluster's highest"
    assert cluster.app(cluster.submit(priority=11)).priority == 10
    with pytest.raises(InvalidStateError):
        cluster.ask(UpdateApplicationPriorityRequest(late.app_id, -1))
    first.finish()
    with pytest.raises(InvalidStateError):
        cluster.ask(UpdateApplicationPriorityRequest(first.app_id, 1))
