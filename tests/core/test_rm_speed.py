"""What an allocation costs, and that it does not grow with what is queued.

Bounds are loose: machines are shared.
"""

from __future__ import annotations

import time

from executor.records import Resource

from .rm_harness import OPPORTUNISTIC, Cluster, asks, done, status

ONE = Resource(10, 1)


def rounds(cluster: Cluster, node, master, running, number: int) -> float:
    """Seconds for ``number`` turns of: one container ends, the next is allocated and starts."""
    cluster.rm.validate = lambda: None  # type: ignore[method-assign]
    began = time.perf_counter()
    for _ in range(number):
        node.beat(done(running.pop(0)))
        granted = master.allocate().allocated
        assert len(granted) == 1
        node.beat(status(granted[0]))
        running += granted
    return time.perf_counter() - began


def test_one_master_gets_a_thousand_opportunistic_containers_a_second() -> None:
    cluster = Cluster()
    cluster.node(total=Resource(1000, 1), queue_capacity=100_000)
    master = cluster.master()
    cluster.rm.validate = lambda: None  # type: ignore[method-assign]
    requests = [asks(1, ONE, OPPORTUNISTIC, allocation_request_id=number) for number in range(2000)]
    began = time.perf_counter()
    granted = master.allocate(*requests).allocated
    seconds = time.perf_counter() - began
    assert len(granted) == 2000
    assert seconds < 2.0, f"2,000 containers in {seconds:.2f} s"


def test_a_turn_costs_the_same_with_five_hundred_and_with_fifty_thousand_asks() -> None:
    costs = []
    for outstanding in (500, 50_000):
        cluster = Cluster()
        node = cluster.node(total=Resource(1000, 8), queue_capacity=0)
        master = cluster.master()
        cluster.rm.validate = lambda: None  # type: ignore[method-assign]
        requests = [
            asks(1, ONE, OPPORTUNISTIC, allocation_request_id=number) for number in range(outstanding)
        ]
        running = list(master.allocate(*requests).allocated)
        node.beat(*map(status, running))
        rounds(cluster, node, master, running, 50)
        costs.append(min(rounds(cluster, node, master, running, 100) for _ in range(4)))
    assert costs[1] < 3 * costs[0], f"100 turns: {costs[0]:.4f} s with 500 asks, {costs[1]:.4f} s with 50,000"
