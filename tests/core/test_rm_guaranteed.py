"""Guaranteed allocation: sizes, order, the choice of nodes, releases, unclaimed containers."""

from __future__ import annotations

import math

import pytest

from executor.records import OpportunisticContainersStatus, Resource
from yarnopp_cli.errors import InvalidResourceRequestError, InvalidTokenError
from yarnopp_cli.machine.tokens import CONTAINER_TOKEN, verify
from yarnopp_cli.records.client_protocol import GetQueueInfoRequest
from yarnopp_cli.records.requests import Token
from yarnopp_cli.resourcemanager.scheduler.capacity_scheduler import MAX_OVERTAKES

from .rm_harness import OPPORTUNISTIC, Cluster, asks, done, status

ONE = Resource(100, 1)


def test_an_ask_is_served_at_once_and_its_token_says_what_was_granted() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    [container] = master.allocate(asks(1, ONE, priority=3, allocation_request_id=9)).allocated
    assert (container.node_id, container.node_address) == ("h1:1", "unix:/run/yopp/nm-h1:1.sock")
    assert (container.priority, container.allocation_request_id, container.version) == (3, 9, 0)
    assert node.registered is not None
    key = bytes.fromhex(node.registered.container_token_key)
    payload = verify(key, container.token, CONTAINER_TOKEN, now_ms=0)
    assert payload == {
        "container_id": container.id,
        "node_id": "h1:1",
        "application_id": master.app_id,
        "attempt_id": master.attempt_id,
        "user": "ada",
        "memory": 100,
        "vcores": 1,
        "execution_type": "GUARANTEED",
        "priority": 3,
        "version": 0,
        "expires_ms": 600_000,
    }
    with pytest.raises(InvalidTokenError):
        forged = container.token.identifier.replace('"memory":100', '"memory":900')
        verify(key, Token(CONTAINER_TOKEN, forged, container.token.password), CONTAINER_TOKEN, now_ms=0)


def test_no_more_is_granted_than_there_is_and_the_rest_as_it_comes_free() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(4096, 2))
    master = cluster.master()
    first, second = master.allocate(asks(5, ONE)).allocated
    node.beat(status(first), status(second))
    held = master.send(wait_ms=1000)
    assert master.take(held).started == (first.id, second.id)  # type: ignore[union-attr]
    held = master.send(wait_ms=60_000)
    node.beat(done(first))
    response = master.take(held)
    assert response is not None and len(response.allocated) == 1
    assert response.available == Resource(4096 - 200, 0) and response.num_nodes == 1
    report = cluster.ask(GetQueueInfoRequest()).queues[0]
    assert (report.used, report.pending_containers, report.applications) == (Resource(200, 2), 2, 1)


def test_opportunistic_containers_do_not_stand_in_the_way() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(4096, 2))
    master = cluster.master()
    granted = master.allocate(asks(2, ONE, OPPORTUNISTIC)).allocated
    node.beat(*map(status, granted))
    assert len(master.allocate(asks(2, ONE)).allocated) == 2


def test_a_node_where_nothing_has_to_make_room_is_preferred() -> None:
    cluster = Cluster()
    busy, idle = cluster.node("h1:1", Resource(4096, 4)), cluster.node("h2:1", Resource(2048, 2))
    busy.opportunistic = OpportunisticContainersStatus(
        running=4, memory_used=400, vcores_used=4, queue_capacity=10
    )
    busy.beat()
    idle.beat()
    granted = cluster.master().allocate(asks(6, ONE)).allocated
    assert [container.node_id for container in granted[:2]] == ["h2:1", "h2:1"]
    assert [container.node_id for container in granted[2:]] == ["h1:1"] * 4


def test_sizes_are_rounded_up_to_yarns_steps() -> None:
    cluster = Cluster(
        minimum_allocation_mb=1024,
        minimum_allocation_vcores=1,
        maximum_allocation_mb=8192,
        maximum_allocation_vcores=4,
    )
    cluster.node(total=Resource(16_384, 16))
    master = cluster.master()
    for asked, given in (
        (Resource(1, 0), Resource(1024, 1)),
        (Resource(1025, 2), Resource(2048, 2)),
        (Resource(8192, 4), Resource(8192, 4)),
    ):
        [container] = master.allocate(asks(1, asked)).allocated
        assert container.resource == given


def test_rounding_never_passes_the_maximum() -> None:
    cluster = Cluster(minimum_allocation_mb=1000, maximum_allocation_mb=2500)
    cluster.node(total=Resource(16_384, 16))
    [container] = cluster.master().allocate(asks(1, Resource(2300, 1))).allocated
    assert container.resource.memory == 2500


@pytest.mark.parametrize(
    ("size", "says"),
    [
        (Resource(-1, 1), "negative"),
        (Resource(100, -1), "negative"),
        (Resource(4097, 1), "the largest node has <memory:4096, vCores:2>"),
        (Resource(100, 3), "the largest node has <memory:4096, vCores:2>"),
        (Resource(10 * 1024**3 * 1024, 1), "maximum allocation"),
    ],
)
def test_what_can_never_be_is_refused_at_once(size: Resource, says: str) -> None:
    cluster = Cluster()
    cluster.node(total=Resource(4096, 2))
    master = cluster.master()
    with pytest.raises(InvalidResourceRequestError) as caught:
        master.allocate(asks(1, ONE), asks(1, size, allocation_request_id=1))
    assert says in str(caught.value)
    assert master.allocate().allocated == (), "nothing of a refused call is taken"


def test_a_negative_number_is_refused_and_a_huge_one_is_not() -> None:
    cluster = Cluster()
    cluster.node(total=Resource(4096, 2))
    master = cluster.master()
    with pytest.raises(InvalidResourceRequestError, match="-1 containers"):
        master.allocate(asks(-1))
    assert len(master.allocate(asks(10**15, ONE)).allocated) == 2


def test_an_ask_waits_for_the_first_node() -> None:
    cluster = Cluster()
    master = cluster.master()
    held = master.send(asks(1, Resource(2000, 2)), wait_ms=60_000)
    assert not cluster.answered(held)
    cluster.node(total=Resource(4096, 2))
    assert len(master.take(held).allocated) == 1  # type: ignore[union-attr]


def test_applications_are_served_by_priority_then_in_order_of_submission() -> None:
    cluster = Cluster()
    first, second, urgent = (cluster.master(priority=priority) for priority in (0, 0, 5))
    for master in (second, urgent, first):
        master.allocate(asks(1, ONE))
    node = cluster.node(total=Resource(4096, 1))
    order = []
    for _ in range(3):
        for master in (first, second, urgent):
            for container in master.allocate().allocated:
                order.append(master)
                node.beat(done(container))
    assert order == [urgent, first, second]


def test_within_an_application_smaller_priority_numbers_come_first() -> None:
    cluster = Cluster()
    master = cluster.master()
    master.allocate(asks(1, ONE, priority=20), asks(1, ONE, priority=5), asks(1, ONE, priority=10))
    node = cluster.node(total=Resource(4096, 1))
    order = []
    for _ in range(3):
        [container] = master.allocate().allocated
        order.append(container.priority)
        node.beat(done(container))
    assert order == [5, 10, 20]


def test_a_large_ask_is_not_overtaken_for_ever() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(4096, 2))
    large, small = cluster.master(), cluster.master()
    running = list(small.allocate(asks(2, ONE)).allocated)
    large.allocate(asks(1, Resource(100, 2)))
    small.allocate(asks(10_000, ONE))
    served = 0
    while not (granted := large.allocate().allocated):
        assert running, "the node is idle and the large ask is not served"
        node.beat(done(running.pop(0)))
        more = small.allocate().allocated
        served += len(more)
        running += more
    assert len(granted) == 1
    assert served == MAX_OVERTAKES


def test_places_are_honoured_with_and_without_relaxing() -> None:
    cluster = Cluster()
    cluster.node("h1:1", Resource(4096, 1), rack="/r1")
    cluster.node("h2:1", Resource(4096, 1), rack="/r2")
    master = cluster.master()
    relaxed = [asks(2, ONE, resource_name=name) for name in ("h2", "*")]
    placed = [container.node_id for container in master.allocate(*relaxed).allocated]
    assert placed == ["h2:1", "h1:1"]
    strict = asks(1, ONE, resource_name="h2:1", relax_locality=False, allocation_request_id=1)
    assert master.allocate(strict).allocated == ()
    with pytest.raises(InvalidResourceRequestError, match="larger than h2:1"):
        cluster.node("h3:1", Resource(4096, 9))
        master.allocate(asks(1, Resource(1, 5), resource_name="h2:1", relax_locality=False))


def test_a_blacklist_holds_for_guaranteed_containers_too() -> None:
    cluster = Cluster()
    cluster.node("h1:1")
    master = cluster.master()
    assert master.allocate(asks(1), blacklist_additions=("h1",)).allocated == ()
    assert len(master.allocate(blacklist_removals=("h1",)).allocated) == 1


def test_k3_released_containers_end_with_minus_100() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(4096, 2))
    master = cluster.master()
    one, two = master.allocate(asks(2, ONE)).allocated
    node.beat(status(one))
    response = master.allocate(asks(1, ONE, allocation_request_id=1), releases=(one.id, two.id, "bogus"))
    assert [(ended.container_id, ended.exit_status) for ended in response.completed] == [(two.id, -100)]
    assert len(response.allocated) == 1, "what nobody had claimed is free at once"
    assert set(node.beat().containers_to_cleanup) == {one.id, two.id}
    node.beat(done(one, -106))
    [ended] = master.allocate().completed
    assert (ended.exit_status, ended.diagnostics) == (-100, "Container released by application")
    report = cluster.app(master.app_id)
    assert (report.containers_failed, report.containers_preempted) == (0, 0)


def test_a_released_container_whose_end_is_never_told_is_not_held_for_ever() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(4096, 1))
    master = cluster.master()
    [one] = master.allocate(asks(1, ONE)).allocated
    node.beat(status(one))
    master.allocate(asks(1, ONE, allocation_request_id=1), releases=(one.id,))
    cluster.at(59.9)
    assert master.allocate().completed == (), "its resources are not free while it may run"
    cluster.at(60.0)
    response = master.allocate()
    assert [ended.container_id for ended in response.completed] == [one.id]
    assert len(response.allocated) == 1
    assert node.beat(status(one)).containers_to_cleanup == (one.id,), "should it run after all"


def test_an_unclaimed_container_is_taken_back() -> None:
    cluster = Cluster(allocation_expiry_interval_ms=1000)
    node = cluster.node(total=Resource(4096, 2))
    master = cluster.master()
    claimed, unclaimed = master.allocate(asks(2, ONE)).allocated
    node.beat(status(claimed))
    cluster.at(0.9)
    assert master.allocate().completed == ()
    cluster.at(1.0)
    [ended] = master.allocate().completed
    assert (ended.container_id, ended.exit_status) == (unclaimed.id, -100)
    assert ended.diagnostics == "Container expired since it was unused"
    assert node.beat().containers_to_cleanup == (unclaimed.id,)
    assert set(cluster.containers()) == {claimed.id}


def test_with_the_plain_beat_guaranteed_containers_wait_for_their_nodes_heartbeat() -> None:
    cluster = Cluster(heartbeat_wait=False)
    node = cluster.node(total=Resource(4096, 2))
    master = cluster.master()
    held = master.send(asks(1, ONE), wait_ms=60_000)
    assert not cluster.answered(held)
    assert node.beat(wait_ms=60_000).action == "NORMAL", "and no heartbeat is held"
    assert len(master.take(held).allocated) == 1  # type: ignore[union-attr]


def test_progress_that_is_no_number_is_ignored() -> None:
    cluster = Cluster()
    master = cluster.master()
    for progress, shown in ((0.25, 0.25), (math.nan, 0.25), (math.inf, 0.25), (7.0, 1.0), (-1.0, 0.0)):
        master.allocate(progress=progress)
        assert cluster.app(master.app_id).progress == shown


def test_an_answer_is_repeated_until_it_is_acknowledged_and_nothing_granted_twice() -> None:
    cluster = Cluster()
    cluster.node(total=Resource(4096, 4))
    master = cluster.master()
    lost = cluster.take(master.send(asks(2, ONE)))
    again = cluster.take(master.send(asks(2, ONE)))
    assert [container.id for container in again.allocated] == [container.id for container in lost.allocated]
    assert again.response_id == lost.response_id + 1


def test_a_node_is_told_at_once_that_guaranteed_containers_wait_for_it_and_that_it_is_over_in_time() -> None:
    """So that it need not start others in the gap between two."""
    cluster = Cluster()
    node = cluster.node(total=Resource(4096, 2))
    master = cluster.master()
    first, second = master.allocate(asks(2, ONE)).allocated
    assert node.beat(status(first), status(second)).guaranteed_awaited is False
    held = node.send(wait_ms=60_000)
    assert not cluster.answered(held)
    assert not master.allocate(asks(1, ONE)).allocated
    response = node.take(held)
    assert response is not None and response.guaranteed_awaited is True
    held = node.send(wait_ms=60_000)
    assert not cluster.answered(held), "once"
    superseding = node.send(done(first), wait_ms=60_000)
    assert node.take(held).guaranteed_awaited is None, "no news"  # type: ignore[union-attr]
    [third] = master.allocate().allocated
    answer = node.take(superseding)
    assert answer is not None and answer.guaranteed_awaited is False
    held = node.send(status(third), wait_ms=60_000)
    assert not cluster.answered(held)


def test_with_plain_beats_nobody_is_waited_for() -> None:
    cluster = Cluster(heartbeat_wait=False)
    node = cluster.node(total=Resource(4096, 1))
    master = cluster.master()
    master.allocate(asks(3, ONE))
    assert node.beat().guaranteed_awaited is False, "a beat takes longer than anybody should wait"
