"""Promotion, demotion and resize at the RM (conformance J, K)."""

from __future__ import annotations

import pytest

from executor.records import ExecutionType, Resource
from yarnopp_cli.errors import ContainerNotFoundError, InvalidStateError
from yarnopp_cli.records.client_protocol import ChangeContainerRequest, GetClusterInfoRequest
from yarnopp_cli.records.requests import (
    Container,
    ContainerUpdateType,
    ExecutionTypeRequest,
    ResourceRequest,
    UpdateContainerRequest,
)

from .rm_harness import OPPORTUNISTIC, Cluster, Node, asks, done, status

PROMOTE, DEMOTE = ContainerUpdateType.PROMOTE_EXECUTION_TYPE, ContainerUpdateType.DEMOTE_EXECUTION_TYPE
INCREASE, DECREASE = ContainerUpdateType.INCREASE_RESOURCE, ContainerUpdateType.DECREASE_RESOURCE
SIZE = Resource(1024, 1)


def wish(
    container: Container, kind: ContainerUpdateType, version: int | None = None, size: Resource | None = None
) -> UpdateContainerRequest:
    return UpdateContainerRequest(container.id, container.version if version is None else version, kind, size)


def free(cluster: Cluster) -> Resource:
    info = cluster.ask(GetClusterInfoRequest())
    return info.total - info.used


def test_j1_promote_and_demote_before_the_start() -> None:
    cluster = Cluster()
    for name in ("h1:1234", "h1:4321", "h2:1234", "h2:4321"):
        cluster.node(name, Resource(4096, 4))
    master = cluster.master()
    master.allocate(asks(1, SIZE))
    assert free(cluster) == Resource(15_360, 15)
    first, _ = master.allocate(asks(2, SIZE, OPPORTUNISTIC)).allocated
    assert free(cluster) == Resource(15_360, 15), "opportunistic containers leave the metrics alone"
    response = master.allocate(updates=(wish(first, PROMOTE, 1),))
    [error] = response.update_errors
    assert (error.reason, error.current_version) == ("INCORRECT_CONTAINER_VERSION_ERROR", 0)
    [updated] = master.allocate(updates=(wish(first, PROMOTE),)).updated
    promoted = updated.container
    assert (promoted.id, promoted.node_id, promoted.version) == (first.id, first.node_id, 1)
    assert promoted.execution_type is ExecutionType.GUARANTEED and promoted.token != first.token
    assert free(cluster) == Resource(14_336, 14)
    [updated] = master.allocate(updates=(wish(promoted, DEMOTE),)).updated
    assert updated.container.execution_type is OPPORTUNISTIC
    assert updated.container.version == 2
    assert free(cluster) == Resource(15_360, 15)


def test_a_promotion_waits_for_room_on_its_own_node() -> None:
    cluster = Cluster()
    here, _ = cluster.node("h1:1", Resource(4096, 1)), cluster.node("h1:2", Resource(4096, 4))
    master = cluster.master()
    [guaranteed] = master.allocate(asks(1, SIZE, resource_name="h1:1", relax_locality=False)).allocated
    [waiting] = master.allocate(
        asks(1, SIZE, OPPORTUNISTIC, resource_name="h1:1", relax_locality=False, priority=1)
    ).allocated
    here.beat(status(guaranteed))
    response = master.allocate(updates=(wish(waiting, PROMOTE),))
    assert response.updated == () and response.update_errors == ()
    [error] = master.allocate(updates=(wish(waiting, PROMOTE),)).update_errors
    assert (error.reason, error.request.container_id) == ("UPDATE_OUTSTANDING_ERROR", waiting.id)
    here.beat(done(guaranteed))
    [updated] = master.allocate().updated
    assert updated.container.execution_type is ExecutionType.GUARANTEED


def test_j3_promote_after_the_end() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    [one] = master.allocate(asks(1, SIZE, OPPORTUNISTIC)).allocated
    node.beat(status(one))
    node.beat(done(one))
    response = master.allocate(updates=(wish(one, PROMOTE),))
    assert [ended.container_id for ended in response.completed] == [one.id]
    [error] = response.update_errors
    assert (error.reason, error.current_version) == ("INVALID_CONTAINER_ID", -1)
    assert free(cluster) == Resource(4096, 4)


def test_a_promoted_running_container_keeps_the_counters_right() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    [one] = master.allocate(asks(1, SIZE, OPPORTUNISTIC)).allocated
    node.beat(status(one))
    assert cluster.app(master.app_id).allocated == SIZE
    assert cluster.app(master.app_id).promoted_total == 0
    [updated] = master.allocate(updates=(wish(one, PROMOTE),)).updated
    assert cluster.app(master.app_id).allocated == SIZE
    assert cluster.app(master.app_id).promoted_total == 1
    node.beat(status(updated.container))
    node.beat(done(updated.container))
    assert cluster.app(master.app_id).allocated == Resource()
    assert free(cluster) == Resource(4096, 4)


def test_twice_in_one_call_is_an_error_and_the_same_type_is_nothing() -> None:
    cluster = Cluster()
    cluster.node()
    master = cluster.master()
    [one] = master.allocate(asks(1, SIZE)).allocated
    response = master.allocate(updates=(wish(one, PROMOTE),))
    assert response.updated == () and response.update_errors == ()
    response = master.allocate(updates=(wish(one, DEMOTE), wish(one, DEMOTE)))
    assert [error.reason for error in response.update_errors] == ["UPDATE_OUTSTANDING_ERROR"]
    assert len(response.updated) == 1


@pytest.mark.parametrize(
    ("kind", "size", "reason"),
    [
        (INCREASE, Resource(2**30, 1), "RESOURCE_OUTSIDE_ALLOWED_RANGE"),
        (INCREASE, Resource(5000, 1), "RESOURCE_OUTSIDE_ALLOWED_RANGE"),
        (INCREASE, Resource(512, 1), "RESOURCE_OUTSIDE_ALLOWED_RANGE"),
        (DECREASE, Resource(-1, 1), "RESOURCE_OUTSIDE_ALLOWED_RANGE"),
        (DECREASE, Resource(2048, 1), "RESOURCE_OUTSIDE_ALLOWED_RANGE"),
        (INCREASE, None, "RESOURCE_OUTSIDE_ALLOWED_RANGE"),
    ],
)
def test_wrong_sizes(kind: ContainerUpdateType, size: Resource | None, reason: str) -> None:
    cluster = Cluster()
    cluster.node(total=Resource(4096, 4))
    master = cluster.master()
    [one] = master.allocate(asks(1, SIZE)).allocated
    [error] = master.allocate(updates=(wish(one, kind, size=size),)).update_errors
    assert error.reason == reason


def test_resizes_change_what_is_left() -> None:
    cluster = Cluster()
    cluster.node(total=Resource(4096, 4))
    master = cluster.master()
    [one] = master.allocate(asks(1, SIZE)).allocated
    [updated] = master.allocate(updates=(wish(one, INCREASE, size=Resource(3072, 2)),)).updated
    assert free(cluster) == Resource(1024, 2)
    [updated] = master.allocate(updates=(wish(updated.container, DECREASE, size=Resource(512, 1)),)).updated
    assert (updated.container.version, updated.container.resource) == (2, Resource(512, 1))
    assert free(cluster) == Resource(3584, 3)


def test_the_rm_may_deliver_updates_itself() -> None:
    cluster = Cluster(auto_update_containers=True)
    node: Node = cluster.node()
    master = cluster.master()
    [one] = master.allocate(asks(1, SIZE, OPPORTUNISTIC)).allocated
    node.beat(status(one))
    held = node.send(wait_ms=1000)
    master.allocate(updates=(wish(one, PROMOTE),))
    response = node.take(held)
    assert response is not None
    [update] = response.containers_to_update
    assert (update.container_id, update.version) == (one.id, 1)
    assert update.execution_type is ExecutionType.GUARANTEED
    assert node.beat().containers_to_update == ()


def test_a_persons_update_is_delivered_by_the_rm_and_told_to_the_master() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    [one] = master.allocate(asks(1, SIZE, OPPORTUNISTIC)).allocated
    node.beat(status(one))
    answer = cluster.ask(ChangeContainerRequest(wish(one, PROMOTE, -1)))
    assert (answer.version, answer.pending) == (1, False)
    assert answer.container.execution_type is ExecutionType.GUARANTEED
    [update] = node.beat().containers_to_update
    assert (update.container_id, update.version) == (one.id, 1)
    [updated] = master.allocate().updated
    assert updated.container.version == 1
    again = cluster.ask(ChangeContainerRequest(wish(one, PROMOTE, -1)))
    assert (again.version, again.pending) == (1, False), "it is so already"
    for request, fault in (
        (wish(one, PROMOTE, 0), "INCORRECT_CONTAINER_VERSION_ERROR"),
        (wish(one, INCREASE, -1, Resource(99_999, 1)), "RESOURCE_OUTSIDE_ALLOWED_RANGE"),
        (
            UpdateContainerRequest(one.id, -1, PROMOTE, execution_type=OPPORTUNISTIC),
            "INVALID_EXECUTION_TYPE",
        ),
    ):
        with pytest.raises(InvalidStateError, match=fault) as caught:
            cluster.ask(ChangeContainerRequest(request))
        assert caught.value.because and "`yopp " in caught.value.hint
    node.beat(done(one))
    with pytest.raises(InvalidStateError, match="has ended"):
        cluster.ask(ChangeContainerRequest(wish(one, DEMOTE, -1)))
    with pytest.raises(ContainerNotFoundError):
        cluster.ask(ChangeContainerRequest(UpdateContainerRequest("container_9_0001_01_000001", -1, DEMOTE)))


def test_what_was_started_by_an_older_token_is_told_again() -> None:
    cluster = Cluster(auto_update_containers=True)
    node = cluster.node()
    master = cluster.master()
    [one] = master.allocate(asks(1, SIZE, OPPORTUNISTIC)).allocated
    master.allocate(updates=(wish(one, PROMOTE),))
    assert len(node.beat().containers_to_update) == 1, "the node knows nothing of it and forgets this"
    node.beat()
    [update] = node.beat(status(one)).containers_to_update
    assert update.version == 1


def served(cluster: Cluster, *, enforce: bool, number: int = 3) -> list[ExecutionType]:
    """The types that an ask for opportunistic containers is served by."""
    request = ResourceRequest(
        number, SIZE, execution_type_request=ExecutionTypeRequest(OPPORTUNISTIC, enforce)
    )
    return [one.execution_type for one in cluster.master().allocate(request).allocated]


def test_an_ask_may_be_served_better_than_it_wished_unless_it_enforces_its_type() -> None:
    guaranteed = ExecutionType.GUARANTEED
    cluster = Cluster(may_be_guaranteed=True)
    cluster.node(total=Resource(2048, 2))
    assert served(cluster, enforce=False) == [guaranteed, guaranteed, OPPORTUNISTIC]
    cluster = Cluster(may_be_guaranteed=True)
    cluster.node(total=Resource(2048, 2))
    assert served(cluster, enforce=True) == [OPPORTUNISTIC] * 3
    cluster = Cluster()
    cluster.node(total=Resource(2048, 2))
    assert served(cluster, enforce=False) == [OPPORTUNISTIC] * 3, "YARN's rule is the default"
