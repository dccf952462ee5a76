"""Opportunistic allocation (conformance G, gaps G8 to G10, G13, G16)."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from executor.records import ContainerState, OpportunisticContainersStatus, Resource
from yarnopp_cli.errors import InvalidResourceRequestError, NodeNotFoundError
from yarnopp_cli.views.applications import counts_text

from .rm_harness import OPPORTUNISTIC, TIMESTAMP, Cluster, Node, asks, done, queued, status

SIZE = Resource(1024, 1)
CPU_FULL = 4


def full_node(cluster: Cluster, name: str, queue: int, capacity: int, **more: str) -> Node:
    """A node with nothing free, ``queue`` of ``capacity`` places taken (as in YARN's own tests)."""
    node = cluster.node(name, Resource(4096, CPU_FULL), **more)
    node.opportunistic = OpportunisticContainersStatus(
        running=4,
        memory_used=4096,
        vcores_used=CPU_FULL,
        queued=queue,
        wait_queue_length=queue,
        queue_capacity=capacity,
    )
    node.beat()
    return node


def wanted(number: int, request_id: int = 0, name: str = "*", **more: object):
    return asks(
        number,
        SIZE,
        OPPORTUNISTIC,
        priority=1,
        allocation_request_id=request_id,
        resource_name=name,
        **more,
    )


def test_g1_simple_allocation() -> None:
    cluster = Cluster()
    full_node(cluster, "h1:1234", 2, 100)
    master = cluster.master()
    response = master.allocate(wanted(1, 1))
    assert len(response.allocated) == 1
    assert cluster.app(master.app_id).pending_containers == 0


def test_g2_blacklisted_hosts_get_nothing() -> None:
    cluster = Cluster()
    full_node(cluster, "h1:1234", 2, 100)
    full_node(cluster, "h2:1234", 2, 100)
    master = cluster.master()
    response = master.allocate(wanted(1, 1), blacklist_additions=("h1", "h2"))
    assert response.allocated == ()
    assert cluster.app(master.app_id).pending_containers == 1
    response = master.allocate(blacklist_removals=("h2",))
    assert [container.node_id for container in response.allocated] == ["h2:1234"]


def test_g3_round_robin() -> None:
    cluster = Cluster()
    for name in ("h1:1234", "h2:1234", "h3:1234"):
        full_node(cluster, name, 2, 3)
    response = cluster.master().allocate(wanted(1, 1), wanted(1, 2), wanted(1, 3))
    assert sorted(container.node_id for container in response.allocated) == ["h1:1234", "h2:1234", "h3:1234"]


def test_g4_g5_node_local_where_asked() -> None:
    cluster = Cluster()
    for name in ("h1:1234", "h2:1234", "h3:1234"):
        full_node(cluster, name, 2, 5, rack="/r1")
    master = cluster.master()
    response = master.allocate(
        wanted(1, 1),
        *(wanted(1, request_id, name) for request_id in (2, 3) for name in ("/r1", "h1", "*")),
    )
    by_id = {container.allocation_request_id: container.node_id for container in response.allocated}
    assert len(response.allocated) == 3
    assert by_id[2] == by_id[3] == "h1:1234"

    cluster = Cluster()
    for name in ("h1:1234", "h2:1234", "h3:1234"):
        full_node(cluster, name, 2, 5, rack="/r1")
    response = cluster.master().allocate(*(wanted(2, 2, name) for name in ("/r1", "h1", "*")))
    assert [container.node_id for container in response.allocated] == ["h1:1234"] * 2


def test_g6_rack_local_where_the_host_is_not_there() -> None:
    cluster = Cluster()
    for name, rack in (("h1:1234", "/r2"), ("h2:1234", "/r1"), ("h3:1234", "/r3")):
        full_node(cluster, name, 2, 5, rack=rack)
    response = cluster.master().allocate(*(wanted(1, 2, name) for name in ("/r1", "h4", "*")))
    assert [container.node_id for container in response.allocated] == ["h2:1234"]


def test_g11_lots_of_containers_in_one_call() -> None:
    cluster = Cluster()
    for name in ("h1:1234", "h2:1234", "h3:1234"):
        full_node(cluster, name, 2, 100, rack="/r1")
    requests = [wanted(1, n, name) for n in range(1, 101) for name in ("*", "h5", "/r1")]
    response = cluster.master().allocate(*requests)
    assert len(response.allocated) == 100
    spread = Counter(container.node_id for container in response.allocated)
    assert max(spread.values()) - min(spread.values()) <= 1


def test_g12_a_call_gives_no_more_than_the_configured_number() -> None:
    cluster = Cluster(max_allocations_per_heartbeat=2)
    for name in ("h1:1234", "h2:1234", "h3:1234"):
        full_node(cluster, name, 2, 5)
    master = cluster.master()
    response = master.allocate(*(wanted(3, 2, name) for name in ("/r3", "h6", "*")))
    assert len(response.allocated) == 2
    assert len(master.allocate().allocated) == 1
    assert len(master.allocate().allocated) == 0


def test_g10_mixed_sizes_under_one_key() -> None:
    cluster = Cluster()
    full_node(cluster, "h1:1234", 0, 100)
    response = cluster.master().allocate(
        asks(2, Resource(1024, 1), OPPORTUNISTIC), asks(3, Resource(512, 1), OPPORTUNISTIC)
    )
    assert Counter(container.resource.memory for container in response.allocated) == {1024: 2, 512: 3}


def test_a_node_takes_what_fits_and_then_as_many_as_its_queue_holds() -> None:
    cluster = Cluster()
    cluster.node("h1:1", Resource(4096, 2), queue_capacity=10)
    master = cluster.master()
    response = master.allocate(asks(100, Resource(100, 1), OPPORTUNISTIC))
    assert len(response.allocated) == 2 + 10
    assert cluster.app(master.app_id).pending_containers == 88


def test_a_burst_between_two_heartbeats_does_not_pile_up() -> None:
    cluster = Cluster()
    for number in range(3):
        cluster.node(f"h{number}:1", Resource(4096, 4), queue_capacity=10)
    masters = [cluster.master() for _ in range(6)]
    placed = Counter(
        container.node_id
        for master in masters
        for container in master.allocate(asks(2, Resource(100, 1), OPPORTUNISTIC)).allocated
    )
    assert placed == {"h0:1": 4, "h1:1": 4, "h2:1": 4}, "12 vcores, 12 containers, none queued"


def test_what_is_not_reported_yet_is_not_forgotten_by_a_heartbeat() -> None:
    cluster = Cluster()
    node = cluster.node("h1:1", Resource(4096, 2), queue_capacity=3)
    master = cluster.master()
    first = master.allocate(asks(4, Resource(100, 1), OPPORTUNISTIC)).allocated
    assert len(first) == 4
    node.beat(status(first[0]))
    assert len(master.allocate(asks(5, Resource(100, 1), OPPORTUNISTIC)).allocated) == 1, "one place was left"


def test_outstanding_asks_are_served_as_soon_as_there_is_room() -> None:
    cluster = Cluster()
    node = cluster.node("h1:1", Resource(4096, 1), queue_capacity=1)
    master = cluster.master()
    first, second = master.allocate(asks(3, Resource(100, 1), OPPORTUNISTIC)).allocated
    waiting = master.send(wait_ms=60_000)
    node.beat(status(first), queued(second))
    assert master.take(waiting).started == (first.id,)  # type: ignore[union-attr]
    waiting = master.send(wait_ms=60_000)
    assert not cluster.answered(waiting)
    node.beat(done(first), status(second))
    response = master.take(waiting)
    assert response is not None
    assert [one.container_id for one in response.completed] == [first.id]
    assert len(response.allocated) == 1


def test_attempts_take_turns() -> None:
    cluster = Cluster()
    node = cluster.node("h1:1", Resource(4096, 1), queue_capacity=3)
    greedy, modest = cluster.master(), cluster.master()
    held = list(greedy.allocate(asks(1000, Resource(100, 1), OPPORTUNISTIC)).allocated)
    modest.allocate(asks(2, Resource(100, 1), OPPORTUNISTIC))
    node.beat(status(held[0]), *map(queued, held[1:]))
    node.beat(done(held[0]), status(held[1]))
    node.beat(done(held[1]), status(held[2]))
    assert len(modest.allocate().allocated) >= 1


def test_the_ask_of_a_key_replaces_the_number_and_zero_takes_it_back() -> None:
    cluster = Cluster()
    master = cluster.master()
    master.allocate(wanted(5))
    assert cluster.app(master.app_id).pending_containers == 5
    master.allocate(wanted(3), wanted(2, 7))
    assert cluster.app(master.app_id).pending_containers == 5
    master.allocate(wanted(0), wanted(0, 7))
    assert cluster.app(master.app_id).pending_containers == 0


def test_allocations_that_the_master_did_not_know_of_count_against_its_ask() -> None:
    cluster = Cluster()
    cluster.node("h1:1", Resource(4096, 4), queue_capacity=100)
    master = cluster.master()
    first = master.send(asks(3, Resource(100, 1), OPPORTUNISTIC))
    # Sent before the answer to the first arrived: three are still wanted, and two more.
    second = master.send(asks(5, Resource(100, 1), OPPORTUNISTIC))
    ids = {container.id for call in (first, second) for container in master.take(call).allocated}  # type: ignore[union-attr]
    assert len(ids) == 5


def test_a_switched_off_cluster_refuses_and_names_the_property() -> None:
    cluster = Cluster(opportunistic_enabled=False)
    cluster.node()
    with pytest.raises(InvalidResourceRequestError) as caught:
        cluster.master().allocate(asks(1, Resource(100, 1), OPPORTUNISTIC))
    assert "yarn.resourcemanager.opportunistic-container-allocation.enabled" in str(caught.value)
    assert "configs" in caught.value.hint


def test_g13_without_a_queue_a_node_takes_what_fits_at_once_and_no_more() -> None:
    cluster = Cluster()
    cluster.node("h1:1", Resource(4096, 2), queue_capacity=0)
    response = cluster.master().allocate(asks(5, Resource(100, 1), OPPORTUNISTIC))
    assert len(response.allocated) == 2


def test_strict_places_and_labels() -> None:
    cluster = Cluster()
    cluster.node("h1:1", Resource(4096, 4))
    cluster.node("h1:2", Resource(4096, 4))
    cluster.node("h2:1", Resource(4096, 4), labels=("gpu",))
    master = cluster.master()
    there = master.allocate(wanted(2, 1, "h1:2", relax_locality=False))
    assert [container.node_id for container in there.allocated] == ["h1:2"] * 2
    labelled = master.allocate(wanted(2, 2, node_label_expression="gpu"))
    assert [container.node_id for container in labelled.allocated] == ["h2:1"] * 2
    plain = master.allocate(wanted(6, 3))
    assert "h2:1" not in {container.node_id for container in plain.allocated}
    with pytest.raises(NodeNotFoundError, match="h9"):
        master.allocate(wanted(1, 4, "h9", relax_locality=False))


def test_killed_opportunistic_containers_reach_their_master_as_they_are() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    one, two = master.allocate(asks(2, Resource(100, 1), OPPORTUNISTIC)).allocated
    node.beat(status(one), status(two))
    text = "Container Killed to make room for Guaranteed Container."
    node.beat(done(one, -108, diagnostics=text), done(two, -102))
    completed = {ended.container_id: ended for ended in master.allocate().completed}
    assert (completed[one.id].exit_status, completed[one.id].diagnostics) == (-108, text)
    assert completed[two.id].exit_status == -102
    report = cluster.app(master.app_id)
    assert (report.containers_preempted, report.containers_failed, report.containers_done) == (2, 0, 0)


def test_no_allocation_on_unhealthy_or_unreachable_nodes() -> None:
    cluster = Cluster()
    sick, gone = cluster.node("h1:1"), cluster.node("h2:1")
    sick.beat(healthy=False, health_report="disk full")
    cluster.lose(gone.connection)
    master = cluster.master()
    assert master.allocate(asks(1, Resource(100, 1), OPPORTUNISTIC)).allocated == ()
    waiting = master.send(wait_ms=60_000)
    gone.connection = cluster.connection()
    gone.beat()
    response = master.take(waiting)
    assert response is not None
    assert [container.node_id for container in response.allocated] == ["h2:1"]
    assert sick.beat(healthy=True).action == "NORMAL"


def test_heartbeats_answers_tell_the_limit_of_the_queue() -> None:
    cluster = Cluster(queue_limit_stdev=0.0)
    nodes = [full_node(cluster, f"h{n}:1", queue, 100) for n, queue in enumerate((15, 5, 10))]
    assert nodes[0].beat().queuing_limit.max_queue_length == -1, "nothing is known of the others yet"
    cluster.at(1.0)
    for told in ([10, -1, -1], [-1, -1, -1]):
        assert [node.beat().queuing_limit.max_queue_length for node in nodes] == told, "once"


def test_a_heartbeat_that_waits_is_answered_when_its_node_is_to_shed() -> None:
    cluster = Cluster(queue_limit_stdev=0.0)
    busy, other = (full_node(cluster, f"h{n}:1", queue, 100) for n, queue in enumerate((15, 5)))
    cluster.at(0.5)
    calls = [node.send(wait_ms=60_000) for node in (busy, other)]
    cluster.at(1.5)
    answer = busy.take(calls[0])
    assert answer is not None and answer.queuing_limit.max_queue_length == 10
    assert not cluster.answered(calls[1])


@pytest.mark.parametrize("why", ["strict", "blacklist", "label", ""])
def test_nothing_is_shed_that_could_only_come_back(why: str) -> None:
    cluster = Cluster(queue_limit_stdev=0.0)
    node = cluster.node("h1:1", Resource(4096, 1), queue_capacity=100)
    master = cluster.master()
    more = {"resource_name": "h1:1", "relax_locality": False} if why == "strict" else {}
    blacklist = {"blacklist_additions": ("h2",)} if why == "blacklist" else {}
    first, *others = master.allocate(asks(20, Resource(100, 1), OPPORTUNISTIC, **more), **blacklist).allocated
    node.beat(status(first), *map(queued, others))
    cluster.node("h2:1", Resource(4096, 4), labels=("gpu",) if why == "label" else ())
    cluster.at(2.0)
    limit = node.beat().queuing_limit.max_queue_length
    assert limit == -1 if why else limit == 9


def test_g11_a_shed_container_is_asked_for_with_its_age_and_the_token_carries_it() -> None:
    cluster = Cluster()
    node = full_node(cluster, "h1:1", 0, 100)
    master = cluster.master()
    cluster.at(5.0)
    [shed] = master.allocate(asks(1, SIZE, OPPORTUNISTIC)).allocated
    assert "waiting_since_ms" not in json.loads(shed.token.identifier)
    node.beat(queued(shed))
    cluster.at(7.0)
    node.beat(done(shed, -108, diagnostics="Container De-queued to meet NM queuing limits."))
    assert [one.exit_status for one in master.allocate().completed] == [-108]
    again = asks(1, SIZE, OPPORTUNISTIC, age_ms=2000, allocation_request_id=2)
    [moved] = master.allocate(again).allocated
    assert json.loads(moved.token.identifier)["waiting_since_ms"] == TIMESTAMP + 5000
    lie = asks(1, SIZE, OPPORTUNISTIC, age_ms=1_000_000, allocation_request_id=3)
    [liar] = master.allocate(lie).allocated
    assert json.loads(liar.token.identifier)["waiting_since_ms"] == TIMESTAMP, "no older than its application"
    assert cluster.app(master.app_id).containers_failed == 0


def test_g11_what_was_shed_goes_before_fresh_asks_of_the_same_priority() -> None:
    cluster = Cluster()
    node = full_node(cluster, "h1:1", 2, 2)
    master = cluster.master()
    cluster.at(9.0)
    master.allocate(wanted(50, 1))
    master.allocate(wanted(1, 2, age_ms=500))
    assert node.opportunistic is not None
    node.opportunistic = replace(node.opportunistic, queued=1, wait_queue_length=1)
    node.beat()
    assert [one.allocation_request_id for one in master.allocate().allocated] == [2]


def test_an_ask_for_a_label_that_no_node_has_is_refused_and_says_which_there_are() -> None:
    cluster = Cluster()
    early = cluster.master()
    waiting = early.send(wanted(1, 1, node_label_expression="fpga"), wait_ms=60_000)
    cluster.node("h1:1", labels=("gpu",))
    early.take(waiting)  # the news of the node
    waiting = early.send(wait_ms=60_000)
    master = cluster.master()
    with pytest.raises(InvalidResourceRequestError, match="no node has the label fpga") as caught:
        master.allocate(wanted(1, 1, node_label_expression="fpga"))
    assert "gpu" in caught.value.because
    with pytest.raises(InvalidResourceRequestError, match="no node is without one"):
        master.allocate(wanted(1, 2))
    assert not cluster.answered(waiting), "another node may be on its way"
    cluster.at(3.5)
    with pytest.raises(InvalidResourceRequestError, match="no node has the label fpga"):
        early.take(waiting)
    with pytest.raises(InvalidResourceRequestError, match="no node has the label fpga"):
        cluster.submit(node_label_expression="fpga")


def test_asks_have_the_label_of_their_application_if_they_name_none() -> None:
    cluster = Cluster()
    cluster.node("h1:1")
    cluster.node("h2:1", labels=("gpu",))
    master = cluster.master(node_label_expression="gpu")
    allocated = master.allocate(wanted(2, 1), asks(1, SIZE, priority=3)).allocated
    assert [container.node_id for container in allocated] == ["h2:1"] * 3


def test_by_waiting_time_nodes_without_an_estimate_get_nothing() -> None:
    cluster = Cluster(load_comparator="QUEUE_WAIT_TIME")
    known, unknown = (full_node(cluster, name, 2, 100) for name in ("h1:1", "h2:1"))
    master = cluster.master()
    for node in (known, unknown):
        assert node.opportunistic is not None
        node.opportunistic = replace(node.opportunistic, estimated_queue_wait_ms=-1)
        node.beat()
    assert master.allocate(wanted(4)).allocated == ()
    known.opportunistic = replace(known.opportunistic, estimated_queue_wait_ms=700)  # type: ignore[type-var]
    known.beat()
    unknown.beat()
    assert {container.node_id for container in master.allocate().allocated} == {"h1:1"}


def test_the_limit_of_the_wait_is_told() -> None:
    cluster = Cluster(
        load_comparator="QUEUE_WAIT_TIME",
        limit_policy="YARN",
        min_queue_wait_time_ms=200,
        max_queue_wait_time_ms=300,
    )
    node = full_node(cluster, "h1:1", 2, 100)
    assert node.opportunistic is not None
    for wait, expected in ((100, 200), (250, 250), (900, 300)):
        node.opportunistic = replace(node.opportunistic, estimated_queue_wait_ms=wait)
        node.beat()
        cluster.at(cluster.now + 1.5)
        limit = node.beat().queuing_limit
        assert (limit.max_queue_length, limit.max_queue_wait_time_ms) == (-1, expected)


def test_container_states_are_counted_for_the_application() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    granted = master.allocate(asks(7, Resource(100, 1), OPPORTUNISTIC)).allocated
    node.beat(
        status(granted[0]),
        queued(granted[1]),
        status(granted[2], ContainerState.PAUSED),
        done(granted[3], 3),
        done(granted[4], 0),
        done(granted[5], -105),
    )
    report = cluster.app(master.app_id)
    assert (report.containers_running, report.containers_queued, report.containers_paused) == (1, 1, 1)
    assert (report.containers_failed, report.containers_done, report.containers_killed) == (1, 1, 1)
    assert counts_text(report) == "1 running, 1 queued, 1 paused, 1 done, 1 killed, 1 failed"
    assert (report.opportunistic_allocated_total, report.containers_allocated) == (7, 1)
    assert report.allocated == Resource(100, 1), "what runs; nothing guaranteed"


def test_nothing_is_queued_where_guaranteed_containers_wait_to_be_killed_for_them() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(4096, 2), queue_capacity=10)
    master = cluster.master()
    response = master.allocate(asks(4, Resource(100, 1)), asks(20, Resource(100, 1), OPPORTUNISTIC))
    guaranteed = list(response.allocated)
    assert len(guaranteed) == 2, "two guaranteed ones run, two wait, and the others wait for them"
    node.beat(*map(status, guaranteed))
    node.beat(done(guaranteed[0]))
    [third] = master.allocate().allocated
    assert third.execution_type is not OPPORTUNISTIC
    node.beat(status(third), done(guaranteed[1]))
    fourth, *others = master.allocate().allocated
    assert fourth.execution_type is not OPPORTUNISTIC
    assert len(others) == 10, "no guaranteed one waits any more: the queue is filled"
