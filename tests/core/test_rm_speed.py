"""What an allocation costs, in lines executed, and that it does not grow with what is queued."""

from __future__ import annotations

from executor.records import Resource

from ..steps import steps
from .rm_harness import OPPORTUNISTIC, Cluster, asks, done, status

ONE = Resource(10, 1)


def rounds(cluster: Cluster, node, master, running, number: int) -> int:
    """Lines executed in ``number`` turns of: one container ends, the next is allocated and starts."""

    def turns() -> None:
        for _ in range(number):
            node.beat(done(running.pop(0)))
            granted = master.allocate().allocated
            assert len(granted) == 1
            node.beat(status(granted[0]))
            running.extend(granted)

    cluster.rm.validate = lambda: None  # type: ignore[method-assign]
    return steps(turns)


def lines_of_a_call(number: int) -> int:
    """Lines executed where one call asks for ``number`` opportunistic containers."""
    cluster = Cluster()
    cluster.node(total=Resource(1000, 1), queue_capacity=100_000)
    master = cluster.master()
    cluster.rm.validate = lambda: None  # type: ignore[method-assign]
    requests = [asks(1, ONE, OPPORTUNISTIC, allocation_request_id=one) for one in range(number)]
    granted: list[object] = []
    lines = steps(lambda: granted.extend(master.allocate(*requests).allocated))
    assert len(granted) == number
    return lines


def test_opportunistic_containers_of_one_call_cost_each_the_same() -> None:
    few, many = lines_of_a_call(200) / 200, lines_of_a_call(2000) / 2000
    assert many < 1.2 * few, f"lines a container: {few:.0f} of 200, {many:.0f} of 2,000"


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
        costs.append(rounds(cluster, node, master, running, 100))
    assert costs[1] < 1.2 * costs[0], f"100 turns: {costs[0]} lines with 500 asks, {costs[1]} with 50,000"
