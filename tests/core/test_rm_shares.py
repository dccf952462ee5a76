"""Weighted shares of opportunistic room (yarn-gaps G12): users first, then the applications of each."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executor.records import ContainerExitStatus, Resource
from yarnopp_cli.records.requests import Container
from yarnopp_cli.settings.queues import CapacitySchedulerSettings

from .rm_harness import OPPORTUNISTIC, Cluster, Master, Node, asks, done, queued, status

ONE = Resource(100, 1)


def turns(
    cluster: Cluster, node: Node, held: dict[str, list[Container]], masters: dict[str, Master], number: int
) -> None:
    """Again and again the oldest container ends, and whoever gets its place is entered in ``held``."""
    order = [one for mine in held.values() for one in mine]
    for _ in range(number):
        ended = order.pop(0)
        for mine in held.values():
            if ended in mine:
                mine.remove(ended)
        node.beat(done(ended))
        for name, master in masters.items():
            new = list(master.allocate().allocated)
            held[name] += new
            order += new
            node.beat(*map(status, new))


def full(
    cluster: Cluster, masters: dict[str, Master], vcores: int
) -> tuple[Node, dict[str, list[Container]]]:
    """A node that the first master has filled; then all want more."""
    node = cluster.node(total=Resource(10_000, vcores), queue_capacity=0)
    first = next(iter(masters))
    held: dict[str, list[Container]] = {name: [] for name in masters}
    for name, master in masters.items():
        granted = master.allocate(asks(1000, ONE, OPPORTUNISTIC)).allocated
        held[name] += granted
        node.beat(*map(status, granted))
    assert len(held[first]) == vcores, "who is alone gets everything"
    return node, held


def test_g12_one_user_does_not_keep_all_places() -> None:
    """YARN serves whoever asks: ada, who came first with three applications, would keep three quarters."""
    cluster = Cluster()
    masters = {
        "ada 1": cluster.master(),
        "ada 2": cluster.master(),
        "ada 3": cluster.master(),
        "bob": cluster.master(as_user="bob"),
    }
    node, held = full(cluster, masters, 12)
    turns(cluster, node, held, masters, 40)
    assert {name: len(mine) for name, mine in held.items()} == {"ada 1": 2, "ada 2": 2, "ada 3": 2, "bob": 6}


def test_g12_users_share_by_their_weights() -> None:
    cluster = Cluster(capacity=CapacitySchedulerSettings(user_weights="ada=3"))
    masters = {"ada": cluster.master(), "bob": cluster.master(as_user="bob")}
    node, held = full(cluster, masters, 12)
    turns(cluster, node, held, masters, 40)
    assert {name: len(mine) for name, mine in held.items()} == {"ada": 9, "bob": 3}


def test_g12_applications_of_one_user_share_by_one_plus_their_priority() -> None:
    cluster = Cluster()
    masters = {"plain": cluster.master(), "urgent": cluster.master(priority=2)}
    node, held = full(cluster, masters, 12)
    turns(cluster, node, held, masters, 40)
    assert {name: len(mine) for name, mine in held.items()} == {"plain": 3, "urgent": 9}


def test_g12_where_nothing_is_held_the_greater_priority_goes_first() -> None:
    """One place that becomes free again and again, as while a guaranteed container waits for more."""
    cluster = Cluster()
    masters = {"plain": cluster.master(), "urgent": cluster.master(priority=9)}
    for master in masters.values():
        master.allocate(asks(3, ONE, OPPORTUNISTIC))
    waiting, total = cluster.context.opportunistic_waiting, Resource(1000, 2)
    order = []
    for _ in range(3):
        attempt = waiting.begin(total).take()
        assert attempt is not None
        waiting.served(attempt)
        order.append(attempt.app.id)
    assert order == [masters["urgent"].app_id] * 3


def test_g12_places_in_queues_are_shared_too() -> None:
    cluster = Cluster()
    masters = {"ada": cluster.master(), "bob": cluster.master(as_user="bob")}
    for master in masters.values():
        master.allocate(asks(100, ONE, OPPORTUNISTIC))
    cluster.node(total=Resource(1000, 2), queue_capacity=10)
    counts = {name: len(master.allocate().allocated) for name, master in masters.items()}
    assert counts == {"ada": 6, "bob": 6}


def crowded(**more: Any) -> tuple[Cluster, Node, Master, dict[str, Container], Master]:
    """ada has two running and ten queued; bob comes and wants twenty."""
    cluster = Cluster(capacity=CapacitySchedulerSettings(**more))
    node = cluster.node(total=Resource(1000, 2), queue_capacity=10)
    ada = cluster.master()
    granted = {one.id: one for one in ada.allocate(asks(12, ONE, OPPORTUNISTIC)).allocated}
    names = list(granted)
    node.beat(*(status(granted[name]) for name in names[:2]), *(queued(granted[name]) for name in names[2:]))
    bob = cluster.master(as_user="bob")
    bob.allocate(asks(20, ONE, OPPORTUNISTIC))
    return cluster, node, ada, granted, bob


def test_g12_a_full_queue_makes_room_for_another_user_up_to_his_share() -> None:
    cluster, node, ada, granted, bob = crowded()
    out = node.beat().containers_to_cleanup
    assert set(out) == set(list(granted)[-6:]), "the newest that wait, until both hold six"
    bob.allocate()
    assert node.beat().containers_to_cleanup == (), "and not more while they are on their way"
    node.beat(*(done(granted[name], int(ContainerExitStatus.KILLED_BY_RESOURCEMANAGER)) for name in out))
    ended = ada.allocate().completed
    assert {one.exit_status for one in ended} == {-108}
    assert "ada uses more than a fair share" in ended[0].diagnostics
    got = bob.allocate().allocated
    assert len(got) == 6
    node.beat(*map(queued, got))
    ada.allocate(asks(18, ONE, OPPORTUNISTIC))
    cluster.at(100)
    assert node.beat().containers_to_cleanup == (), "it does not go back"


def test_g12_places_are_taken_by_weight_not_from_who_is_alone_and_not_where_that_is_switched_off() -> None:
    assert len(crowded(user_weights="ada=3")[1].beat().containers_to_cleanup) == 3
    assert crowded(shed_queued=False)[1].beat().containers_to_cleanup == ()
    cluster, node, ada, _, _ = crowded(user_weights="ada=12")
    assert len(node.beat().containers_to_cleanup) == 0
    ada.allocate(asks(50, ONE, OPPORTUNISTIC), asks(5, ONE, OPPORTUNISTIC, priority=3))
    cluster.master().allocate(asks(50, ONE, OPPORTUNISTIC))
    assert node.beat().containers_to_cleanup == (), "ada has nothing to take from ada"


def test_g12_no_place_is_taken_that_is_of_no_use() -> None:
    for more in ({}, {"resource_name": "h9", "relax_locality": True}):
        cluster = Cluster()
        node = cluster.node(total=Resource(1000, 2), queue_capacity=10)
        ada, bob = cluster.master(), cluster.master(as_user="bob")
        granted = ada.allocate(asks(12, ONE, OPPORTUNISTIC)).allocated
        node.beat(*map(status, granted[:2]), *map(queued, granted[2:]))
        bob.allocate(asks(3, ONE, OPPORTUNISTIC, **more), blacklist_additions=("h1",))
        assert node.beat().containers_to_cleanup == ()


def test_g12_large_containers_count_as_what_they_are() -> None:
    cluster = Cluster()
    masters = {"ada": cluster.master(), "bob": cluster.master(as_user="bob")}
    masters["ada"].allocate(asks(100, Resource(100, 3), OPPORTUNISTIC))
    masters["bob"].allocate(asks(100, Resource(100, 1), OPPORTUNISTIC))
    cluster.node(total=Resource(10_000, 24), queue_capacity=0)
    granted = {name: master.allocate().allocated for name, master in masters.items()}
    assert {name: len(mine) for name, mine in granted.items()} == {"ada": 4, "bob": 12}


def test_g12_guaranteed_work_does_not_count_nor_opportunistic_work_against_it() -> None:
    """cBio#280: who uses low priority must not be punished for being nice."""
    cluster = Cluster()
    nice, plain = cluster.master(), cluster.master(as_user="bob")
    node = cluster.node(total=Resource(1000, 4), queue_capacity=10)
    filled = nice.allocate(asks(14, ONE, OPPORTUNISTIC)).allocated
    node.beat(*map(status, filled[:4]), *map(queued, filled[4:]))
    for master in (nice, plain):
        master.allocate(asks(2, ONE))
    everything = cluster.containers().values()
    guaranteed = Counter(one.user for one in everything if one.execution_type is not OPPORTUNISTIC)
    assert guaranteed == {"ada": 2, "bob": 2}
    [leaf] = cluster.context.scheduler.queues.leaves.values()
    assert leaf.used == Resource(400, 4)


def test_the_last_turn_was_anothers() -> None:
    """Among equals who waited longest is next, over many calls: nobody is always the second."""
    cluster = Cluster()
    masters = {name: cluster.master(as_user=name) for name in ("ada", "bob", "eve")}
    node = cluster.node(total=Resource(1000, 1), queue_capacity=0)
    held: dict[str, list[Container]] = {name: [] for name in masters}
    got: Counter[str] = Counter()
    for name, master in masters.items():
        held[name] += master.allocate(asks(100, ONE, OPPORTUNISTIC)).allocated
    for _ in range(30):
        [(name, [one])] = [(name, mine) for name, mine in held.items() if mine]
        node.beat(status(one))
        node.beat(done(one))
        held[name] = []
        for other, master in masters.items():
            held[other] += master.allocate().allocated
            got[other] += len(held[other])
    assert got == {"ada": 10, "bob": 10, "eve": 10}


@given(
    st.lists(st.sampled_from(("ada", "bob", "eve")), min_size=1, max_size=5),
    st.integers(1, 12),
    st.integers(0, 5),
)
@settings(max_examples=60, deadline=None)
def test_nothing_lies_idle_and_no_user_is_more_than_one_ahead(
    users: list[str], vcores: int, places: int
) -> None:
    cluster = Cluster()
    masters = [cluster.master(as_user=user) for user in users]
    for master in masters:
        master.allocate(asks(20, ONE, OPPORTUNISTIC))
    cluster.node(total=Resource(10_000, vcores), queue_capacity=places)
    got = [len(master.allocate().allocated) for master in masters]
    assert sum(got) == min(vcores + places, 20 * len(users))
    of_user: Counter[str] = Counter()
    for user, number in zip(users, got, strict=True):
        of_user[user] += number
    unsatisfied = {user for user, number in zip(users, got, strict=True) if number < 20}
    for user in unsatisfied:
        assert max(of_user.values()) <= of_user[user] + 1
        mine = [number for other, number in zip(users, got, strict=True) if other == user]
        assert max(mine) - min(mine) <= 1


@pytest.mark.parametrize("number", [2, 200])
def test_a_rotation_of_many_serves_each(number: int) -> None:
    cluster = Cluster()
    masters = [cluster.master(as_user=f"u{index % 7}") for index in range(number)]
    for master in masters:
        master.allocate(asks(1, ONE, OPPORTUNISTIC))
    cluster.node(total=Resource(100_000, 1000), queue_capacity=0)
    assert [len(master.allocate().allocated) for master in masters] == [1] * number
