"""The load monitor by our own rules: the choice of nodes and rebalancing (gaps G7, G8, G16).

YARN's rules are in ``tests/conformance/test_load_monitor.py``.
"""

from __future__ import annotations

import pytest

from executor.records import OpportunisticContainersStatus, Resource
from yarnopp_cli.allocation.cluster_node import Claim, ClusterNode
from yarnopp_cli.allocation.load_monitor import NodeQueueLoadMonitor
from yarnopp_cli.allocation.rebalancing import LimitBounds, queue_threshold, yarn_queue_threshold
from yarnopp_cli.settings.declarations import ResourceManagerSettings

SIZE = Resource(128, 1)


def a_monitor(
    comparator: str = "FREE_THEN_QUEUE_LENGTH", nodes_used: int = 10, **more: float
) -> NodeQueueLoadMonitor:
    return NodeQueueLoadMonitor(
        ResourceManagerSettings(
            nodes_used=nodes_used,
            queue_limit_stdev=more.get("sigma", 1.0),
            min_queue_length=int(more.get("minimum", 5)),
            max_queue_length=int(more.get("maximum", 15)),
            load_comparator=comparator,
        )
    )


def a_node(name: str, queue: int = 0, capacity: int = 200, free: Resource | None = None) -> ClusterNode:
    """A node of 1024 MB and 8 vcores with ``free`` of it and ``queue`` containers queued."""
    total = Resource(1024, 8)
    node = ClusterNode(name, name.split(":")[0], "/default-rack", (), total)
    node.guaranteed = total - (free or Resource())
    report(node, queue, capacity)
    return node


def report(node: ClusterNode, queue: int, capacity: int = 200) -> None:
    node.status = OpportunisticContainersStatus(
        queued=queue, wait_queue_length=queue, queue_capacity=capacity
    )
    node.recompute()


def names(monitor: NodeQueueLoadMonitor) -> list[str]:
    return [node.node_id for node in monitor.sorted_nodes()]


def test_of_equal_nodes_the_one_heard_of_last_is_first() -> None:
    monitor = a_monitor()
    for name in ("h1:1", "h2:2", "h3:3"):
        monitor.update(a_node(name, 4))
    assert names(monitor) == ["h3:3", "h2:2", "h1:1"]


def told(monitor: NodeQueueLoadMonitor, *nodes: str) -> list[int]:
    """The queue lengths that nodes are told."""
    return [monitor.tell_limit(node).max_queue_length for node in nodes]


def test_nobody_sheds_where_nobody_else_could_take_it() -> None:
    monitor = a_monitor()
    monitor.update(a_node("h1:1", 20))
    monitor.compute()
    assert told(monitor, "h1:1") == [-1], "it is alone"
    other = a_node("h2:2", 0, capacity=0)
    monitor.update(other)
    monitor.compute()
    assert told(monitor, "h1:1", "h2:2") == [-1, -1], "the other one has no queue, and nothing free"


def test_a_node_sheds_what_the_others_have_room_for_and_no_more() -> None:
    monitor = a_monitor()
    monitor.update(a_node("h1:1", 30))
    monitor.update(a_node("h2:2", 14, capacity=16))
    monitor.update(a_node("h3:3", 15))
    monitor.compute()
    assert monitor.limit().max_queue_length == 15
    assert monitor.shedding() == ("h1:1",)
    assert told(monitor, "h1:1", "h2:2", "h3:3") == [29, -1, -1], "one place below the limit, at h2"
    assert told(monitor, "h1:1") == [-1], "once for each plan"
    monitor.compute()
    assert told(monitor, "h1:1") == [-1], "what was shed is on its way there"
    monitor.compute()
    assert told(monitor, "h1:1") == [29]


def test_what_came_after_the_plan_is_not_shed_for_it() -> None:
    monitor = a_monitor(sigma=0)
    nodes = [a_node("h1:1", 12), a_node("h2:2", 0)]
    for node in nodes:
        monitor.update(node)
    monitor.compute()
    report(nodes[0], 40)
    assert told(monitor, "h1:1") == [34], "six of them, however many there are now"
    monitor.compute()
    report(nodes[0], 7)
    assert told(monitor, "h1:1") == [31], "none of the 40 is left that were to go"


def test_an_idle_node_is_given_what_it_starts_at_once_down_to_the_minimum() -> None:
    monitor = a_monitor()
    for name in ("h1:1", "h2:2"):
        monitor.update(a_node(name, 9))
    monitor.update(a_node("h3:3", 0, free=Resource(2, 2)))
    monitor.compute()
    assert monitor.limit().max_queue_length == 10, "by mean and deviation nobody had to shed"
    assert sorted(told(monitor, "h1:1", "h2:2", "h3:3")) == [-1, -1, 7]


def test_below_the_minimum_nobody_sheds_even_for_an_idle_node() -> None:
    monitor = a_monitor()
    monitor.update(a_node("h1:1", 5))
    monitor.update(a_node("h3:3", 0, free=Resource(256, 2)))
    monitor.compute()
    assert told(monitor, "h1:1") == [-1]


def test_free_resources_elsewhere_are_room_for_as_many_as_fit() -> None:
    monitor = a_monitor(sigma=0, minimum=2)
    giver = a_node("h1:1", 8)
    giver.status = OpportunisticContainersStatus(
        queued=8, wait_queue_length=8, queue_capacity=200, queued_memory=8 * 256, queued_vcores=8
    )
    giver.recompute()
    monitor.update(giver)
    monitor.update(a_node("h2:2", 0, capacity=0, free=Resource(600, 8)))
    monitor.compute()
    assert told(monitor, "h1:1") == [6], "two of 256 MB fit into 600"


def test_a_node_that_waits_longer_in_spite_of_its_shorter_queue_takes_nothing() -> None:
    monitor = a_monitor(sigma=0, minimum=2)
    fast, slow = a_node("fast:1", 12), a_node("slow:1", 2)
    for node, wait in ((fast, 500), (slow, 60_000)):
        queue = node.status.queued
        node.status = OpportunisticContainersStatus(
            queued=queue, wait_queue_length=queue, queue_capacity=200, estimated_queue_wait_ms=wait
        )
        node.recompute()
        monitor.update(node)
    monitor.compute()
    assert told(monitor, "fast:1", "slow:1") == [-1, -1]


def test_by_waiting_time_a_node_sheds_what_starts_sooner_elsewhere() -> None:
    monitor = a_monitor("QUEUE_WAIT_TIME", sigma=0)
    for name, queue, wait in (("h1:1", 9, 2000), ("h2:2", 1, 20)):
        status = OpportunisticContainersStatus(
            queued=queue, wait_queue_length=queue, queue_capacity=200, estimated_queue_wait_ms=wait
        )
        node = a_node(name)
        node.status = status
        node.recompute()
        monitor.update(node)
    monitor.compute()
    limit = monitor.tell_limit("h1:1")
    assert (limit.max_queue_length, limit.max_queue_wait_time_ms) == (1, 100), "eight steps of 10 ms fit in"


def test_g7_the_limit_is_computed_in_floats_over_full_nodes_too() -> None:
    bounds = LimitBounds(2.0, 5, 15)
    assert queue_threshold([9, 10, 10, 10], bounds) == pytest.approx(9.75 + 2 * 0.433, abs=1e-3)
    assert yarn_queue_threshold([9, 10, 10, 10], bounds) == 11
    monitor = a_monitor()
    monitor.update(a_node("full:1", 10, capacity=10))
    monitor.update(a_node("other:1", 6, capacity=10))
    monitor.compute()
    assert monitor.limit().max_queue_length == 10, "8 + 2, the full node counted"


def test_g8_what_is_free_counts_before_the_queue() -> None:
    monitor = a_monitor()
    monitor.update(a_node("busy:1", 0))
    monitor.update(a_node("idle:1", 0, free=Resource(256, 2)))
    monitor.compute()
    chosen = []
    for number in range(3):
        node, claim = monitor.select(SIZE) or pytest.fail("no node")
        node.claim(f"c{number}", claim, SIZE)
        monitor.refresh(node)
        chosen.append((node.node_id, claim))
    assert chosen[:2] == [("idle:1", Claim.FREE)] * 2
    assert chosen[2][1] is Claim.QUEUE


def test_g8_an_idle_node_takes_more_than_its_queue_holds() -> None:
    monitor = a_monitor()
    monitor.update(a_node("idle:1", 0, capacity=2, free=Resource(1024, 8)))
    monitor.compute()
    taken = 0
    while (found := monitor.select(SIZE)) is not None:
        found[0].claim(f"c{taken}", found[1], SIZE)
        monitor.refresh(found[0])
        taken += 1
    assert taken == 8 + 2


def test_g16_free_resources_are_taken_in_turns_and_queues_evenly() -> None:
    monitor = a_monitor()
    for name in ("a:1", "b:1", "c:1"):
        monitor.update(a_node(name, 0, free=Resource(256, 2)))
    monitor.compute()
    chosen = []
    for number in range(12):
        node, claim = monitor.select(SIZE) or pytest.fail("no node")
        node.claim(f"c{number}", claim, SIZE)
        monitor.refresh(node)
        chosen.append(node.node_id)
    assert chosen[:3] == chosen[3:6] and sorted(chosen[:3]) == ["a:1", "b:1", "c:1"]
    assert sorted(chosen[6:9]) == sorted(chosen[9:]) == ["a:1", "b:1", "c:1"]


def test_an_idle_node_beyond_the_nodes_used_is_not_left_out() -> None:
    monitor = a_monitor(nodes_used=1)
    monitor.update(a_node("a:1", 0))
    monitor.compute()
    monitor.update(a_node("b:1", 0, free=Resource(128, 1)))
    assert monitor.select(SIZE) is not None
    node, claim = monitor.select(SIZE) or pytest.fail("no node")
    assert (node.node_id, claim) == ("b:1", Claim.FREE)


def test_only_the_least_loaded_nodes_are_used_while_they_have_room() -> None:
    monitor = a_monitor(nodes_used=2)
    for name, queue in (("a:1", 1), ("b:1", 2), ("c:1", 9)):
        monitor.update(a_node(name, queue, capacity=4 if name != "c:1" else 100))
    monitor.compute()
    chosen = []
    for number in range(7):
        node, claim = monitor.select(SIZE) or pytest.fail("no node")
        node.claim(f"c{number}", claim, SIZE)
        monitor.refresh(node)
        chosen.append(node.node_id)
    assert sorted(chosen[:5]) == ["a:1"] * 3 + ["b:1"] * 2
    assert chosen[5:] == ["c:1"] * 2, "the others are full, so the next best is used before the next sorting"


def test_a_container_larger_than_a_node_never_queues_there() -> None:
    monitor = a_monitor()
    monitor.update(a_node("small:1", 0))
    assert monitor.select(Resource(2048, 1)) is None
    assert monitor.select(Resource(1024, 8)) is not None


def test_claims_end_when_the_node_speaks() -> None:
    node = a_node("a:1", 0, capacity=2, free=Resource(128, 1))
    node.claim("c1", Claim.FREE, SIZE)
    node.claim("c2", Claim.QUEUE, SIZE)
    assert (node.free_memory, node.free_vcores, node.queue_length, node.queue_room) == (0, 0, 1, 1)
    node.release_claim("c1")
    node.release_claim("c2")
    node.release_claim("c2")
    assert (node.free_memory, node.free_vcores, node.queue_length, node.queue_room) == (128, 1, 0, 2)
