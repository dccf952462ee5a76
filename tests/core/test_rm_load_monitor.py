"""The load monitor, the limit of the queues, and the choice of nodes (conformance F2, F6, N; gaps G7, G8)."""

from __future__ import annotations

import pytest

from executor.records import OpportunisticContainersStatus, Resource
from yarnopp_cli.core.load_monitor import (
    Claim,
    ClusterNode,
    FreeThenQueueLength,
    LoadComparator,
    NodeQueueLoadMonitor,
    QueueLength,
    queue_limit,
    yarn_queue_limit,
)

SIZE = Resource(128, 1)


def a_monitor(
    comparator: LoadComparator | None = None, nodes_used: int = 10, **more: float
) -> NodeQueueLoadMonitor:
    return NodeQueueLoadMonitor(
        nodes_used=nodes_used,
        sigma=more.get("sigma", 1.0),
        min_queue_length=int(more.get("minimum", 5)),
        max_queue_length=int(more.get("maximum", 15)),
        comparator=comparator,
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


@pytest.mark.parametrize("comparator", [QueueLength(), FreeThenQueueLength()])
def test_f2_nodes_are_sorted_by_queue_length_and_full_ones_left_out(comparator: LoadComparator) -> None:
    monitor = a_monitor(comparator)
    nodes = {name: a_node(f"{name}:{name[1]}", queue) for name, queue in (("h1", 15), ("h2", 5), ("h3", 10))}
    for node in nodes.values():
        monitor.update(node)
    assert names(monitor) == ["h2:2", "h3:3", "h1:1"]
    report(nodes["h3"], 2)
    monitor.update(nodes["h3"])
    assert names(monitor) == ["h3:3", "h2:2", "h1:1"]
    monitor.update(a_node("h4:4", 20))
    assert names(monitor) == ["h3:3", "h2:2", "h1:1", "h4:4"]
    report(nodes["h3"], 200)
    monitor.update(nodes["h3"])
    assert names(monitor) == ["h2:2", "h1:1", "h4:4"]
    monitor.remove("h2:2")
    assert names(monitor) == ["h1:1", "h4:4"]
    monitor.update(nodes["h2"])
    assert names(monitor) == ["h2:2", "h1:1", "h4:4"]


def test_f2_of_equal_nodes_the_one_heard_of_last_is_first() -> None:
    monitor = a_monitor()
    for name in ("h1:1", "h2:2", "h3:3"):
        monitor.update(a_node(name, 4))
    assert names(monitor) == ["h3:3", "h2:2", "h1:1"]


def test_a_limit_is_told_only_where_another_node_could_take_what_is_shed() -> None:
    monitor = a_monitor()
    alone = a_node("h1:1", 8)
    monitor.update(alone)
    monitor.compute()
    assert monitor.limit_for("h1:1").max_queue_length == -1
    other = a_node("h2:2", 0)
    monitor.update(other)
    monitor.compute()
    assert monitor.limit_for("h1:1") == monitor.limit()
    assert monitor.limit_for("h2:2").max_queue_length == -1, "nothing below the limit but itself"
    report(other, 200)
    monitor.update(other)
    monitor.compute()
    assert monitor.limit_for("h1:1").max_queue_length == -1, "the other one is full"
    report(other, 0)
    monitor.update(other)
    monitor.compute()
    monitor.remove("h2:2")
    assert monitor.limit_for("h1:1").max_queue_length == -1


def test_f6_the_limit_is_between_its_bounds() -> None:
    monitor = a_monitor(sigma=0, minimum=6, maximum=100)
    nodes = [a_node(f"h{n}:{n}", queue) for n, queue in ((1, 15), (2, 5), (3, 10))]
    for node in nodes:
        monitor.update(node)
    assert (monitor.limit().max_queue_length, monitor.limit().max_queue_wait_time_ms) == (6, -1)
    monitor.compute()
    assert (monitor.limit().max_queue_length, monitor.limit().max_queue_wait_time_ms) == (10, -1)
    nodes += [a_node(f"h{n}:{n}") for n in (4, 5, 6)]
    for node, queue in zip(nodes, (110, 120, 130, 140, 150, 160), strict=True):
        report(node, queue)
        monitor.update(node)
    monitor.compute()
    assert monitor.limit().max_queue_length == 100
    for node, queue in zip(nodes, range(1, 7), strict=True):
        report(node, queue)
        monitor.update(node)
    monitor.compute()
    assert monitor.limit().max_queue_length == 6


@pytest.mark.parametrize("limit", [queue_limit, yarn_queue_limit])
@pytest.mark.parametrize(
    ("lengths", "sigma", "expected"),
    [
        ([15, 5, 10], 1.0, 14),
        ([15, 5, 10], 0, 10),
        ([15, 5, 10], 2.0, 15),
        ([3, 4], 1.0, 5),
        ([10, 10, 10], 1.0, 10),
        ([30, 30], 1.0, 15),
        ([], 1.0, 5),
    ],
)
def test_n_limit_formula(limit: object, lengths: list[int], sigma: float, expected: int) -> None:
    assert callable(limit)
    assert limit(lengths, sigma, 5, 15) == expected


def test_g7_the_limit_is_computed_in_floats_over_full_nodes_too() -> None:
    assert queue_limit([7, 8, 8, 8], 1.0, 5, 15) == 8
    assert yarn_queue_limit([7, 8, 8, 8], 1.0, 5, 15) == 8
    assert queue_limit([9, 10, 10, 10], 2.0, 5, 15) == 10
    assert yarn_queue_limit([9, 10, 10, 10], 2.0, 5, 15) == 11
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


def test_yarns_comparator_takes_a_place_for_each_allocation() -> None:
    monitor = a_monitor(QueueLength())
    monitor.update(a_node("a:1", 8, capacity=10, free=Resource(1024, 8)))
    for number in range(2):
        node, claim = monitor.select(SIZE) or pytest.fail("no node")
        node.claim(f"c{number}", claim, SIZE)
        monitor.refresh(node)
    assert monitor.select(SIZE) is None, "however idle it is"
