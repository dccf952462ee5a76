"""conformance.md F and N: the RM's load monitor and the limit of the queues, by Hadoop's own figures.

Cases that the document numbers are named by their ids; the rest of ``TestNodeQueueLoadMonitor`` is of the
same kind, with figures derived from the rules by hand.
"""

from __future__ import annotations

import pytest

from executor.records import Resource
from yarnopp_cli.allocation.rebalancing import LimitBounds, queue_threshold, yarn_queue_threshold

from .load import TOTAL, UNIT, YarnMonitor


def units(number: int) -> Resource:
    return Resource(UNIT.memory * number, UNIT.vcores * number)


def test_f1_wait_time_sort() -> None:
    monitor = YarnMonitor("QUEUE_WAIT_TIME")
    for number, wait in ((1, 15), (2, 5), (3, 10)):
        monitor.update(number, 10, wait=wait)
    assert monitor.compute() == ["h2", "h3", "h1"]
    monitor.update(3, 10, wait=2)
    assert monitor.compute() == ["h3", "h2", "h1"]
    monitor.update(4, 10, wait=-1)
    assert monitor.compute() == ["h3", "h2", "h1"], "of h4 no wait is known"
    monitor.leave(2)
    assert monitor.compute() == ["h3", "h1"]
    monitor.update(2, 10, wait=1)
    assert monitor.compute() == ["h2", "h3", "h1"]
    monitor.update(2, 10, wait=-1)
    assert monitor.compute() == ["h3", "h1"], "one that has no estimate any more leaves the list"


def test_f2_queue_length_sort() -> None:
    monitor = YarnMonitor()
    for number, queue in ((1, 15), (2, 5), (3, 10)):
        monitor.update(number, queue)
    assert monitor.compute() == ["h2", "h3", "h1"]
    monitor.update(3, 2)
    assert monitor.compute() == ["h3", "h2", "h1"]
    monitor.update(4, 20)
    assert monitor.compute() == ["h3", "h2", "h1", "h4"]
    monitor.update(3, 200)
    assert monitor.compute() == ["h2", "h1", "h4"]
    monitor.leave(2)
    assert monitor.compute() == ["h1", "h4"]
    monitor.update(2, 5)
    assert monitor.compute() == ["h2", "h1", "h4"]


def test_f_of_equal_queues_the_node_heard_of_last_is_first() -> None:
    monitor = YarnMonitor()
    for number in (1, 2, 3):
        monitor.update(number, 4)
    assert monitor.compute() == ["h3", "h2", "h1"]


def test_f_queue_length_then_resources_sort() -> None:
    monitor = YarnMonitor("QUEUE_LENGTH_THEN_RESOURCES")
    monitor.update(1, 0, allocated=units(1))
    monitor.update(2, 0, allocated=units(2))
    monitor.update(3, 5, allocated=units(0))
    monitor.update(4, 10, allocated=units(0))
    assert monitor.compute() == ["h1", "h2", "h3", "h4"]
    monitor.update(3, 0, allocated=units(3))
    assert monitor.compute() == ["h1", "h2", "h3", "h4"]
    monitor.update(2, 0, allocated=units(6))
    assert monitor.compute() == ["h1", "h3", "h2", "h4"], "the one with least free of those without a queue"
    monitor.update(4, 200, allocated=units(0))
    assert monitor.compute() == ["h1", "h3", "h2"], "a full queue is left out, however much is free"


def test_f_then_resources_compares_the_scarcer_dimension_then_vcores_then_memory() -> None:
    monitor = YarnMonitor("QUEUE_LENGTH_THEN_RESOURCES")
    monitor.update(1, 0, allocated=Resource(512, 0))  # half its memory free, all its vcores
    monitor.update(2, 0, allocated=Resource(0, 6))  # all its memory, a quarter of its vcores
    assert monitor.compute() == ["h1", "h2"]
    monitor = YarnMonitor("QUEUE_LENGTH_THEN_RESOURCES")
    monitor.update(1, 0, allocated=Resource(512, 2))  # a half and three quarters
    monitor.update(2, 0, allocated=Resource(512, 1))  # the same half, more vcores
    monitor.update(3, 0, allocated=Resource(512, 1))
    assert monitor.compute() == ["h3", "h2", "h1"], "and of equals the one heard of last"
    monitor = YarnMonitor("QUEUE_LENGTH_THEN_RESOURCES")
    monitor.update(1, 0, allocated=Resource(128, 4))
    monitor.update(2, 0, allocated=Resource(256, 4))  # vcores are scarcer, and equal; less memory
    assert monitor.compute() == ["h1", "h2"]


def test_f_then_resources_takes_from_what_is_free_and_then_from_the_queue() -> None:
    monitor = YarnMonitor("QUEUE_LENGTH_THEN_RESOURCES")
    monitor.update(1, 0, allocated=units(6), capacity=2)
    node = monitor.nodes["h1:1"]
    monitor.compute()
    assert [monitor.select() for _ in range(2)] == ["h1", "h1"]
    assert (node.free_memory, node.free_vcores, node.queue_length) == (0, 0, 0), "the length is unchanged"
    assert [monitor.select() for _ in range(3)] == ["h1", "h1", ""]
    assert node.queue_length == 2
    monitor.update(1, 0, allocated=units(6), capacity=2)
    assert monitor.select(size=Resource(TOTAL.memory + 1, 1)) == "", "larger than the whole node"


def test_f_then_resources_without_a_queue() -> None:
    monitor = YarnMonitor("QUEUE_LENGTH_THEN_RESOURCES")
    monitor.update(1, 0, allocated=units(7), capacity=0)
    monitor.update(2, 1, allocated=units(0), capacity=0)
    assert monitor.compute() == ["h1"], "of no capacity, and something waits at h2"
    assert [monitor.select(), monitor.select()] == ["h1", ""]


def test_f_then_resources_follows_a_change_of_the_nodes_size() -> None:
    monitor = YarnMonitor("QUEUE_LENGTH_THEN_RESOURCES")
    monitor.update(1, 5, allocated=units(1))
    monitor.update(2, 10, allocated=units(1))
    assert monitor.compute() == ["h1", "h2"]
    monitor.update(2, 5, allocated=units(1), total=Resource(2048, 16))
    assert monitor.compute() == ["h2", "h1"]
    monitor.update(1, 5, allocated=units(20))
    assert monitor.nodes["h1:1"].free_memory == 0, "never below nothing"


def test_f6_container_queuing_limit() -> None:
    monitor = YarnMonitor(queue_limit_stdev=0, min_queue_length=6, max_queue_length=100)
    for number, queue in ((1, 15), (2, 5), (3, 10)):
        monitor.update(number, queue)
    assert monitor.limits == (6, -1)
    monitor.compute()
    assert monitor.limits == (10, -1)
    for number, queue in enumerate((110, 120, 130, 140, 150, 160), start=1):
        monitor.update(number, queue)
    monitor.compute()
    assert monitor.limits == (100, -1)
    for number in range(1, 7):
        monitor.update(number, number)
    monitor.compute()
    assert monitor.limits == (6, -1)


def test_f6_every_node_is_told_the_limit_every_time() -> None:
    monitor = YarnMonitor(queue_limit_stdev=0)
    for number, queue in ((1, 15), (2, 5), (3, 10)):
        monitor.update(number, queue)
    monitor.compute()
    for _ in range(2):
        told = [monitor.monitor.tell_limit(name).max_queue_length for name in monitor.nodes]
        assert told == [10, 10, 10]


def test_f_the_limit_of_the_wait() -> None:
    monitor = YarnMonitor("QUEUE_WAIT_TIME")
    assert monitor.limits == (-1, 10)
    for number, wait in ((1, 15), (2, 5), (3, 10)):
        monitor.update(number, 1, wait=wait)
    monitor.compute()
    assert monitor.limits == (-1, 14)
    for number in (1, 2, 3):
        monitor.update(number, 1, wait=5000)
    monitor.compute()
    assert monitor.limits == (-1, 100)


def test_f_full_nodes_do_not_count_and_with_none_left_the_old_limit_stays() -> None:
    monitor = YarnMonitor(queue_limit_stdev=0, max_queue_length=100)
    monitor.update(1, 20)
    monitor.update(2, 200)
    monitor.compute()
    assert monitor.limits == (20, -1)
    monitor.update(1, 200)
    monitor.compute()
    assert monitor.limits == (20, -1)


def test_f7_select_local_node() -> None:
    monitor = YarnMonitor()
    for number, queue in ((1, 2), (2, 5), (3, 4)):
        monitor.update(number, queue, capacity=5)
    monitor.compute()
    assert monitor.select(host="h1") == "h1"
    assert monitor.select(host="h1", blacklist={"h1"}) == ""
    assert monitor.select(host="h2") == "", "full"
    assert monitor.select(host="h3") == "h3"
    assert monitor.select(host="h3") == "", "full now"
    assert monitor.select(host="h9") == ""


def test_f_select_rack_local_node() -> None:
    monitor = YarnMonitor()
    for number, queue, rack in ((1, 2, "/rack1"), (2, 5, "/rack2"), (3, 4, "/rack2")):
        monitor.update(number, queue, capacity=5, rack=rack)
    monitor.compute()
    assert monitor.select(rack="/rack1") == "h1"
    assert monitor.select(rack="/rack1", blacklist={"h1"}) == ""
    assert monitor.select(rack="/rack2") == "h3", "h2 is full"
    assert monitor.select(rack="/rack2") == "", "h3 is full now, too"
    assert monitor.select(rack="/rack9") == ""


def test_f9_select_any_node() -> None:
    monitor = YarnMonitor()
    for number, queue, capacity in ((1, 2, 5), (2, 5, 5), (3, 4, 10)):
        monitor.update(number, queue, capacity=capacity)
    assert len(monitor.compute()) == 2
    assert monitor.select() in ("h1", "h3")
    assert monitor.select(blacklist={"h1"}) == "h3"
    assert monitor.select(blacklist={"h1", "h3"}) == ""


def test_f_least_loaded_nodes() -> None:
    monitor = YarnMonitor(nodes_used=2)
    for number, queue in ((1, 3), (2, 1), (3, 2)):
        monitor.update(number, queue)
    monitor.compute()
    assert [node.host for node in monitor.monitor.least_loaded()][:2] == ["h2", "h3"]


@pytest.mark.parametrize(
    ("comparator", "taken"),
    [("QUEUE_LENGTH", 2), ("QUEUE_LENGTH_THEN_RESOURCES", 8 + 2), ("QUEUE_WAIT_TIME", 2)],
)
def test_f_how_many_a_node_takes_between_two_heartbeats(comparator: str, taken: int) -> None:
    """By the queue's length a node takes capacity less length, however idle it is. The wait does not grow by
    claims, but the list leaves out who is full."""
    monitor = YarnMonitor(comparator)
    monitor.update(1, 8, wait=0, capacity=10)
    monitor.compute()
    chosen = [monitor.select() for _ in range(20)]
    assert chosen.count("h1") == taken


def test_g16_yarns_comparators_begin_anywhere_among_the_least_loaded() -> None:
    monitor = YarnMonitor()
    for number in range(1, 5):
        monitor.update(number, number)
    monitor.compute()
    first = [monitor.select() for _ in range(40)]
    assert set(first) == {"h1", "h2", "h3", "h4"}, "by lot"
    assert first != sorted(first)


@pytest.mark.parametrize("threshold", [queue_threshold, yarn_queue_threshold])
@pytest.mark.parametrize(
    ("lengths", "sigma", "expected"),
    [
        ([15, 5, 10], 1.0, 14),
        ([15, 5, 10], 0, 10),
        ([15, 5, 10], 2.0, 15),
        ([3, 4], 1.0, 5),
        ([10, 10, 10], 1.0, 10),
        ([30, 30], 1.0, 15),
        ([0, 0, 0, 20], 1.0, 14),
        ([], 1.0, 5),
    ],
)
def test_n_limit_formula(threshold: object, lengths: list[int], sigma: float, expected: int) -> None:
    assert callable(threshold)
    found = int(threshold(lengths, LimitBounds(sigma, 5, 15)))
    if lengths == [0, 0, 0, 20] and threshold is queue_threshold:
        expected = 13  # 5 + 8.66, where YARN rounds the deviation to 9
    assert found == expected
