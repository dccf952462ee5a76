"""Preemption of guaranteed containers: only for queues below their share, from those above, no more than needed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from executor.records import ContainerExitStatus, Resource
from yarnopp_cli.records.requests import Container
from yarnopp_cli.settings.queues import CapacitySchedulerSettings

from .rm_harness import Cluster, Master, Node, asks, done, status
from .test_rm_queues import ONE, tree, two, used

INTERVAL, WAIT = 3.0, 15.0


def preempting(**more: Any) -> CapacitySchedulerSettings:
    """Preemption on, without the budgets of a round unless ``more`` sets them."""
    given: dict[str, Any] = {
        "preemption_enabled": True,
        "total_preemption_per_round": 1.0,
        "natural_termination_factor": 1.0,
        **more,
    }
    return CapacitySchedulerSettings(**given)


def busy(
    capacity: float = 50, total: Resource = Resource(4000, 4), **more: Any
) -> tuple[Cluster, Node, Master, list[Container], Master]:
    """Queue b has the whole node in containers of one vcore; then a's master is there."""
    cluster = Cluster(queues=two(capacity), capacity=preempting(**more), am_expiry_interval_ms=10_000_000,
                      nm_expiry_interval_ms=10_000_000)  # fmt: skip
    node = cluster.node(total=total)
    b = cluster.master(queue="b")
    granted = list(b.allocate(asks(total.vcores, ONE)).allocated)
    node.beat(*map(status, granted))
    return cluster, node, b, granted, cluster.master(queue="a")


def reasons(cluster: Cluster, master: Master) -> list[str]:
    """The codes of the reasons for which its requests wait."""
    return [one.code for one in cluster.explain(master.app_id).reasons]


def test_a_queue_below_its_share_gets_it_back_and_not_more() -> None:
    cluster, node, b, granted, a = busy()
    a.allocate(asks(4, ONE))
    cluster.at(INTERVAL - 0.1)
    assert b.allocate().preempting == ()
    assert "PREEMPTING" not in reasons(cluster, a)
    cluster.at(INTERVAL)
    assert "PREEMPTING" in reasons(cluster, a)
    told = b.allocate().preempting
    assert told == tuple(one.id for one in reversed(granted[2:])), (
        "the newest two: a is guaranteed two vcores"
    )
    assert node.beat().containers_to_cleanup == (), "they have time to end"
    cluster.at(INTERVAL + WAIT)
    assert set(node.beat().containers_to_cleanup) == set(told)
    node.beat(
        *(done(one, int(ContainerExitStatus.KILLED_BY_RESOURCEMANAGER)) for one in granted if one.id in told)
    )
    ended = b.allocate().completed
    assert {(one.container_id, one.exit_status) for one in ended} == {(name, -102) for name in told}
    assert ended[0].diagnostics == "Container preempted by scheduler: queue b is above its capacity"
    assert used(cluster) == {"root": 4, "root.a": 2, "root.b": 2}
    b.allocate(asks(2, ONE))
    a.allocate()
    cluster.at(200)
    assert b.allocate().preempting == a.allocate().preempting == (), "and it stays so"


def test_what_ends_well_while_it_is_preempted_has_succeeded() -> None:
    cluster, node, b, granted, a = busy()
    a.allocate(asks(1, ONE))
    cluster.at(INTERVAL)
    b.allocate()
    cluster.at(INTERVAL + WAIT)
    assert node.beat().containers_to_cleanup == (granted[3].id,)
    node.beat(done(granted[3], int(ContainerExitStatus.KILLED_BY_RESOURCEMANAGER), exit_code=0))
    (ended,) = b.allocate().completed
    assert (ended.container_id, ended.exit_status, ended.cause) == (granted[3].id, 0, None)
    assert ended.diagnostics.endswith("It ended by itself with exit code 0 before it was killed.")


def test_nothing_is_preempted_while_it_is_off_or_there_is_nothing_to_give_back() -> None:
    for more, ask in (({"preemption_enabled": False}, 4), ({}, 0)):
        cluster, _, b, _, a = busy(**more)
        a.allocate(asks(ask, ONE))
        cluster.at(100)
        assert b.allocate().preempting == ()
    # A queue within its share gives nothing, whoever wants more.
    cluster, _, b, _, a = busy(capacity=0)
    a.allocate(asks(4, ONE))
    cluster.at(100)
    assert b.allocate().preempting == ()


def test_not_in_vain_an_ask_that_no_preemption_serves_takes_nothing() -> None:
    cluster, _, b, _, a = busy()
    a.allocate(asks(1, Resource(100, 3)))
    cluster.at(100)
    assert b.allocate().preempting == (), "three vcores are more than a is guaranteed"
    a.allocate(asks(0, Resource(100, 3)), asks(1, ONE), blacklist_additions=("h1",))
    cluster.at(200)
    assert b.allocate().preempting == ()


def test_what_ends_by_itself_need_not_be_killed() -> None:
    cluster, node, b, granted, a = busy()
    a.allocate(asks(1, ONE))
    cluster.at(INTERVAL)
    assert b.allocate().preempting == (granted[3].id,)
    node.beat(done(granted[0]))
    assert len(a.allocate().allocated) == 1
    cluster.at(100)
    assert node.beat().containers_to_cleanup == ()
    assert used(cluster) == {"root": 4, "root.a": 1, "root.b": 3}


def test_one_container_that_suffices_goes_before_several() -> None:
    cluster = Cluster(queues=two(), capacity=preempting(), am_expiry_interval_ms=10_000_000)
    node = cluster.node(total=Resource(4000, 8))
    b = cluster.master(queue="b")
    granted = b.allocate(asks(1, Resource(100, 3)), asks(5, ONE)).allocated
    node.beat(*map(status, granted))
    a = cluster.master(queue="a")
    a.allocate(asks(1, Resource(100, 3)))
    cluster.at(INTERVAL)
    [large] = [one for one in granted if one.resource.vcores == 3]
    assert b.allocate().preempting == (large.id,)


def test_on_two_nodes_the_victims_are_on_the_one_where_the_ask_goes() -> None:
    cluster = Cluster(queues=two(), capacity=preempting(), am_expiry_interval_ms=10_000_000)
    nodes = [cluster.node(name, Resource(4000, 2)) for name in ("h1:1", "h2:1")]
    b = cluster.master(queue="b")
    granted = b.allocate(asks(4, ONE)).allocated
    for node in nodes:
        node.beat(*(status(one) for one in granted if one.node_id == node.name))
    a = cluster.master(queue="a")
    a.allocate(asks(1, Resource(100, 2)))
    cluster.at(INTERVAL)
    told = b.allocate().preempting
    assert len(told) == 2
    assert len({one.node_id for one in granted if one.id in told}) == 1


def test_a_master_is_the_last_to_go() -> None:
    cluster = Cluster(queues=two(), capacity=preempting(), am_expiry_interval_ms=10_000_000)
    node = cluster.node(total=Resource(400, 8))
    apps = [cluster.submit(queue="b", am_resource=Resource(100, 0)) for _ in range(4)]
    masters = [one for one in cluster.containers().values() if one.is_am]
    node.beat(*map(status, masters))
    a = cluster.master(queue="a")
    a.allocate(asks(1, ONE))
    cluster.at(INTERVAL + WAIT)
    [victim] = node.beat().containers_to_cleanup
    assert victim == masters[-1].container_id, "there are only masters"
    node.beat(done(masters[-1], int(ContainerExitStatus.KILLED_BY_RESOURCEMANAGER)))
    assert len(a.allocate().allocated) == 1
    report = cluster.app(apps[-1])
    assert (report.attempts, report.state) == (2, "ACCEPTED"), "another attempt, which is not counted"


def test_a_round_marks_no_more_than_its_budget_and_always_what_one_needs() -> None:
    for more, rounds in (
        ({"total_preemption_per_round": 0.25}, [2, 4]),
        ({"natural_termination_factor": 0.5}, [2, 3, 4]),
        ({"total_preemption_per_round": 0.0}, [1, 2, 3, 4]),
    ):
        cluster, _, b, _, a = busy(total=Resource(4000, 8), max_wait_before_kill_ms=1_000_000, **more)
        a.allocate(asks(4, ONE))
        told: set[str] = set()
        counts = []
        for number in range(len(rounds)):
            cluster.at((number + 1) * INTERVAL)
            told.update(b.allocate().preempting)
            counts.append(len(told))
        assert counts == rounds, more


def test_a_little_above_is_ignored() -> None:
    cluster, _, b, _, a = busy(capacity=25, max_ignored_over_capacity=0.5)
    a.allocate(asks(1, ONE))
    cluster.at(INTERVAL)
    assert b.allocate().preempting == (), "four of three vcores is a third above"


def test_observing_tells_and_kills_nothing() -> None:
    cluster, node, b, _, a = busy(observe_only=True)
    a.allocate(asks(1, ONE))
    cluster.at(INTERVAL)
    assert len(b.allocate().preempting) == 1
    cluster.at(1000)
    assert node.beat().containers_to_cleanup == ()


def test_a_spared_queue_gives_nothing() -> None:
    queues = tree(
        root="a,b",
        root_a={"capacity": 50.0},
        root_b={"capacity": 50.0, "user_limit_factor": -1.0, "disable_preemption": True},
    )
    cluster = Cluster(queues=queues, capacity=preempting(), am_expiry_interval_ms=10_000_000)
    cluster.node(total=Resource(4000, 2))
    b = cluster.master(queue="b")
    assert len(b.allocate(asks(2, ONE)).allocated) == 2
    cluster.master(queue="a").allocate(asks(1, ONE))
    cluster.at(100)
    assert b.allocate().preempting == ()


def test_below_a_parent_within_its_share_only_siblings_give() -> None:
    """p has its half: x is above its own part of it, but only y, which has less of that half, may take it back."""
    keys = {"user_limit_factor": -1.0}
    queues = tree(
        root="p,q",
        root_p={"capacity": 50.0, "queues": "x,y"},
        root_q={"capacity": 50.0, **keys},
        root_p_x={"capacity": 50.0, **keys},
        root_p_y={"capacity": 50.0, **keys},
    )
    cluster = Cluster(queues=queues, capacity=preempting(), am_expiry_interval_ms=10_000_000)
    node = cluster.node(total=Resource(4000, 8))
    x, q = cluster.master(queue="x"), cluster.master(queue="q")
    granted = x.allocate(asks(4, ONE)).allocated + q.allocate(asks(4, ONE)).allocated
    node.beat(*map(status, granted))
    q.allocate(asks(4, ONE, priority=2))
    cluster.at(INTERVAL)
    assert x.allocate().preempting == ()
    cluster.master(queue="y").allocate(asks(4, ONE))
    cluster.at(3 * INTERVAL)
    assert (len(x.allocate().preempting), q.allocate().preempting) == (2, ())


def test_room_is_made_below_the_maximum_of_a_parent() -> None:
    """p is full though the node is not: y gets its part of p from x."""
    keys = {"user_limit_factor": -1.0}
    queues = tree(
        root="p,q",
        root_p={"capacity": 50.0, "maximum_capacity": 50.0, "queues": "x,y"},
        root_q={"capacity": 50.0},
        root_p_x={"capacity": 50.0, **keys},
        root_p_y={"capacity": 50.0, **keys},
    )
    cluster = Cluster(queues=queues, capacity=preempting(), am_expiry_interval_ms=10_000_000)
    node = cluster.node(total=Resource(4000, 8))
    x = cluster.master(queue="x")
    granted = x.allocate(asks(9, ONE)).allocated
    node.beat(*map(status, granted))
    assert len(granted) == 4
    cluster.master(queue="y").allocate(asks(9, ONE))
    cluster.at(INTERVAL)
    assert len(x.allocate().preempting) == 2


@pytest.mark.parametrize("capacity", [70, 50, 30])
def test_queues_that_both_want_all_do_not_take_from_each_other_for_ever(capacity: float) -> None:
    """Two vcores for 70 and 30 percent are one and one: YARN would move the second to and fro."""
    cluster, node, b, granted, a = busy(capacity, total=Resource(4000, 2), max_wait_before_kill_ms=0)
    kills = 0
    running = {one.id: one for one in granted}
    for master in (a, b):
        master.allocate(asks(2, ONE, priority=7))
    for second in range(1, 60):
        cluster.at(second)
        for name in node.beat().containers_to_cleanup:
            if name in running:
                kills += 1
                node.beat(done(running.pop(name), int(ContainerExitStatus.KILLED_BY_RESOURCEMANAGER)))
        new = a.allocate().allocated + b.allocate(asks(2, ONE, priority=7)).allocated
        running.update((one.id, one) for one in new)
        node.beat(*map(status, new))
    assert kills == 1
    assert used(cluster) == {"root": 2, "root.a": 1, "root.b": 1}


sizes = st.builds(Resource, st.integers(1, 400), st.integers(1, 3))


@given(
    st.integers(1, 99),
    st.lists(st.tuples(sizes, st.integers(1, 4)), min_size=1, max_size=4),
    st.lists(st.tuples(sizes, st.integers(1, 4)), min_size=1, max_size=4),
    st.integers(1, 3),
)
@example(32, [(Resource(1, 1), 1), (Resource(1, 3), 2), (Resource(1, 1), 2)], [(Resource(1, 1), 1)] * 3, 2)
@example(21, [(Resource(1, 1), 1), (Resource(1, 3), 3), (Resource(1, 2), 1)],
         [(Resource(1, 1), 1), (Resource(1, 3), 1), (Resource(1, 2), 1)], 3)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_each_victim_is_needed_and_its_queue_was_above_its_share(
    capacity: int, of_b: list[tuple[Resource, int]], of_a: list[tuple[Resource, int]], number: int
) -> None:
    cluster = Cluster(queues=two(capacity), capacity=preempting(), am_expiry_interval_ms=10_000_000,
                      nm_expiry_interval_ms=10_000_000)  # fmt: skip
    nodes = [cluster.node(f"h{index}:1", Resource(1000, 4)) for index in range(number)]
    b, a = cluster.master(queue="b"), cluster.master(queue="a")
    requests = [asks(count, size, priority=index) for index, (size, count) in enumerate(of_b)]
    granted = {one.id: one for one in b.allocate(*requests).allocated}
    got = a.allocate(
        *(asks(count, size, priority=index) for index, (size, count) in enumerate(of_a))
    ).allocated
    for node in nodes:
        node.beat(*(status(one) for one in (*granted.values(), *got) if one.node_id == node.name))
    scheduler = cluster.context.scheduler
    leaf = scheduler.queues.leaves["root.b"]
    before = leaf.used
    cluster.at(INTERVAL)
    told = b.allocate().preempting
    mine = a.allocate().preempting
    assert not (told and mine), "one queue at most is below its share"
    if not told:
        return
    assert not before.fits_in(leaf.guaranteed), f"{before} was within {leaf.guaranteed}"
    cluster.at(INTERVAL + WAIT)
    for node in nodes:
        node.beat(
            *(done(granted[name], -106) for name in node.beat().containers_to_cleanup if name in granted)
        )
    new = a.allocate().allocated
    assert new, "in vain"
    for node in nodes:
        here = [one for one in new if one.node_id == node.name]
        gone = [granted[name] for name in told if granted[name].node_id == node.name]
        # Room is not kept for the ask it was made for: with several sizes another one may be first there.
        if gone and len({size for size, _ in of_a}) == 1:
            assert here, f"in vain on {node.name}"
