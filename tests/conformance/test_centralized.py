"""conformance.md G: the centralized allocator, by Hadoop's own figures and under YARN's QUEUE_LENGTH.

The whole RM is driven, by allocate calls and heartbeats; nodes have nothing free, so that only queues count.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from executor.records import OpportunisticContainersStatus, Resource
from tests.core.rm_harness import OPPORTUNISTIC, Cluster, Master, Node, asks
from yarnopp_cli.records.requests import Container, ResourceRequest

from .load import rules

SIZE = Resource(1024, 1)


def yarn_cluster(**settings: Any) -> Cluster:
    """An RM under YARN's rules; allocations between 1024 MB and 1 vcore and 1024 MB and 10 vcores."""
    given = rules()
    return Cluster(
        load_comparator=given.load_comparator,
        limit_policy=given.limit_policy,
        **{
            "minimum_allocation_mb": 1024,
            "minimum_allocation_vcores": 1,
            "maximum_allocation_mb": 1024,
            "maximum_allocation_vcores": 10,
            **settings,
        },
    )


def nodes(
    cluster: Cluster, count: int, queue: int, capacity: int, racks: tuple[str, ...] = (), *, first: int = 1
) -> list[Node]:
    """N(count, queue, capacity): h1 to hN, port 1234, as the document has it."""
    made = []
    for number in range(first, first + count):
        rack = racks[number - first] if racks else "/default-rack"
        node = cluster.node(f"h{number}:1234", Resource(4096, 4), rack=rack)
        node.opportunistic = OpportunisticContainersStatus(
            running=4,
            memory_used=4096,
            vcores_used=4,
            queued=queue,
            wait_queue_length=queue,
            queue_capacity=capacity,
        )
        node.beat()
        made.append(node)
    return made


def ask(request_id: int, number: int, *names: str) -> list[ResourceRequest]:
    """ "idK asks n at ..." with an ask for each name."""
    return [
        asks(number, SIZE, OPPORTUNISTIC, priority=1, allocation_request_id=request_id, resource_name=name)
        for name in names or ("*",)
    ]


def hosts(containers: tuple[Container, ...]) -> list[str]:
    return sorted(container.node_id.partition(":")[0] for container in containers)


def outstanding(cluster: Cluster, master: Master) -> int:
    return cluster.app(master.app_id).pending_containers


def test_g1_simple_allocation() -> None:
    cluster = yarn_cluster()
    nodes(cluster, 1, 2, 100)
    master = cluster.master()
    assert hosts(master.allocate(*ask(1, 1)).allocated) == ["h1"]
    assert outstanding(cluster, master) == 0


def test_g2_blacklist_rejection() -> None:
    cluster = yarn_cluster()
    nodes(cluster, 2, 2, 100)
    master = cluster.master()
    assert master.allocate(*ask(1, 1), blacklist_additions=("h1", "h2")).allocated == ()
    assert outstanding(cluster, master) == 1


def test_g2_removals_from_the_blacklist_come_before_additions() -> None:
    cluster = yarn_cluster()
    nodes(cluster, 2, 2, 100)
    master = cluster.master()
    master.allocate(blacklist_additions=("h1", "h2"))
    both = {"blacklist_removals": ("h1", "h2"), "blacklist_additions": ("h2",)}
    assert hosts(master.allocate(*ask(1, 3), **both).allocated) == ["h1"] * 3, (
        "h2 was added after its removal"
    )


def test_g3_round_robin_simple_allocation() -> None:
    cluster = yarn_cluster()
    nodes(cluster, 3, 2, 3)
    response = cluster.master().allocate(*ask(1, 1), *ask(2, 1), *ask(3, 1))
    assert hosts(response.allocated) == ["h1", "h2", "h3"]


def test_g4_node_local_allocation() -> None:
    cluster = yarn_cluster()
    nodes(cluster, 3, 2, 5, ("/r1", "/r1", "/r1"))
    near = ("/r1", "h1", "*")
    response = cluster.master().allocate(*ask(1, 1), *ask(2, 1, *near), *ask(3, 1, *near))
    assert len(response.allocated) == 3
    local = {c.allocation_request_id: c.node_id for c in response.allocated}
    assert local[2] == local[3] == "h1:1234"


def test_g5_node_local_allocation_same_scheduler_key() -> None:
    cluster = yarn_cluster()
    nodes(cluster, 3, 2, 5, ("/r1", "/r1", "/r1"))
    response = cluster.master().allocate(*ask(2, 2, "/r1", "h1", "*"))
    assert hosts(response.allocated) == ["h1", "h1"]


def test_g6_simple_rack_local_allocation() -> None:
    cluster = yarn_cluster()
    nodes(cluster, 3, 2, 5, ("/r2", "/r1", "/r3"))
    response = cluster.master().allocate(*ask(2, 1, "/r1", "h4", "*"))
    assert hosts(response.allocated) == ["h2"]


def test_g_rack_local_with_several_nodes_of_the_rack() -> None:
    cluster = yarn_cluster()
    nodes(cluster, 4, 2, 5, ("/r2", "/r1", "/r3", "/r1"))
    response = cluster.master().allocate(*ask(2, 2, "/r1", "h9", "*"))
    assert set(hosts(response.allocated)) <= {"h2", "h4"}
    assert len(response.allocated) == 2


def test_g_off_switch_where_neither_host_nor_rack_is_there() -> None:
    cluster = yarn_cluster()
    nodes(cluster, 2, 2, 5, ("/r2", "/r1"))
    response = cluster.master().allocate(*ask(2, 3, "/r3", "h6", "*"))
    assert len(response.allocated) == 3


def test_g_what_the_queues_do_not_hold_stays_outstanding() -> None:
    cluster = yarn_cluster()
    nodes(cluster, 2, 2, 5)
    master = cluster.master()
    assert Counter(hosts(master.allocate(*ask(1, 10)).allocated)) == {"h1": 3, "h2": 3}
    assert outstanding(cluster, master) == 4


def test_g_a_full_node_gets_nothing_even_where_it_was_asked_for() -> None:
    cluster = yarn_cluster()
    nodes(cluster, 2, 5, 5)
    master = cluster.master()
    assert master.allocate(*ask(1, 1, "h1", "*")).allocated == ()
    assert outstanding(cluster, master) == 1


def test_g10_lots_of_containers() -> None:
    cluster = yarn_cluster()
    nodes(cluster, 3, 2, 100)
    requests = [one for number in range(1, 101) for one in ask(number, 1)]
    assert len(cluster.master().allocate(*requests).allocated) == 100


def test_g11_lots_of_containers_rack_local() -> None:
    cluster = yarn_cluster()
    nodes(cluster, 3, 2, 100, ("/r1", "/r1", "/r1"))
    requests = [one for number in range(1, 101) for one in ask(number, 1, "*", "h5", "/r1")]
    assert len(cluster.master().allocate(*requests).allocated) == 100


def test_g12_max_allocations_per_am_heartbeat() -> None:
    cluster = yarn_cluster(max_allocations_per_heartbeat=2)
    nodes(cluster, 3, 2, 5)
    master = cluster.master()
    assert len(master.allocate(*ask(2, 3, "/r3", "h6", "*")).allocated) == 2
    assert len(master.allocate().allocated) == 1


def test_g12_with_several_keys_the_bound_is_over_the_whole_call() -> None:
    cluster = yarn_cluster(max_allocations_per_heartbeat=2)
    nodes(cluster, 3, 2, 5)
    master = cluster.master()
    calls = [master.allocate(*(one for number in range(1, 6) for one in ask(number, 1)))]
    calls += [master.allocate() for _ in range(3)]
    assert [len(call.allocated) for call in calls] == [2, 2, 1, 0]


def test_g_the_size_is_raised_to_the_minimum() -> None:
    cluster = yarn_cluster()
    nodes(cluster, 1, 2, 5)
    request = asks(1, Resource(100, 0), OPPORTUNISTIC)
    assert [c.resource for c in cluster.master().allocate(request).allocated] == [SIZE]


def test_g_every_heartbeat_tells_every_node_the_limit() -> None:
    cluster = yarn_cluster(queue_limit_stdev=0.0)
    busy, idle = nodes(cluster, 1, 15, 100), nodes(cluster, 1, 0, 100, first=2)
    cluster.at(1.0)
    for _ in range(2):
        assert [one.beat().queuing_limit.max_queue_length for one in (*busy, *idle)] == [7, 7]
