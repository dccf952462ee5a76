"""The RM's indices choose as a look at everything would, and a step costs what changes in it, not what there is."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executor.records import Resource
from yarnopp_cli.allocation.sorted_items import SortedItems
from yarnopp_cli.errors import InvalidTokenError
from yarnopp_cli.records.master_protocol import AllocateRequest
from yarnopp_cli.records.requests import Token
from yarnopp_cli.records.tracker_protocol import RegisterNodeManagerRequest
from yarnopp_cli.resourcemanager.entities import RMAppAttempt, RMNode, new_node
from yarnopp_cli.resourcemanager.scheduler.node_index import NodeIndex
from yarnopp_cli.resourcemanager.scheduler.opportunistic_shares import OpportunisticShares

from ..steps import steps
from .rm_harness import GUARANTEED, OPPORTUNISTIC, Cluster, Master, Node, asks, done, status

ONE = Resource(10, 1)

pytestmark = pytest.mark.pure


# -- they agree with a look at everything ----------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-1, 99), st.booleans()), max_size=60))
def test_items_stand_in_the_order_of_their_keys(changes: list[tuple[int, int, bool]]) -> None:
    keys: dict[str, int] = {}
    ordered: SortedItems[str] = SortedItems(lambda name: (keys[name], name) if keys[name] >= 0 else None)
    for number, key, looked_at in changes:
        name = str(number)
        if key == 99:
            ordered.drop(name)
            keys.pop(name, None)
        elif name in keys:
            keys[name] = key
            ordered.changed[name] = None
        else:
            keys[name] = key
            ordered.put(name, name)
        if looked_at:
            expected = sorted((key, name) for name, key in keys.items() if key >= 0)
            assert list(ordered) == [name for _, name in expected]
            ordered.validate()


def a_node(number: int, total: Resource) -> RMNode:
    request = RegisterNodeManagerRequest(f"h{number}:1", f"unix:/h{number}", total)
    return new_node(request)


sizes = st.builds(Resource, st.integers(0, 5), st.integers(0, 5))


@settings(deadline=None)
@given(
    st.lists(st.builds(Resource, st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), sizes, st.integers(0, 3), st.booleans()), max_size=30),
    sizes,
)
def test_the_best_node_is_that_of_a_look_at_all(
    totals: list[Resource], changes: list[tuple[int, Resource, int, bool]], wanted: Resource
) -> None:
    index, nodes = NodeIndex(), [a_node(number, total) for number, total in enumerate(totals)]
    for node in nodes:
        index.add(node)

    def cost(node: RMNode) -> tuple[bool, float, int]:
        return (not node.load.fits_free(wanted), -node.load.free_share, node.guaranteed_containers)

    for number, used, containers, removed in changes:
        node = nodes[number % len(nodes)]
        node.load.guaranteed, node.guaranteed_containers = used, containers
        node.load.recompute()
        if removed and index.remove(node):
            index.add(node)
            nodes.remove(node)
            nodes.append(node)
        index.validate()
        fitting = [one for one in nodes if one.fits_guaranteed(wanted)]
        assert index.best(wanted, lambda one: True) is min(fitting, key=cost, default=None)
        odd = [one for one in fitting if one is not node]
        assert index.best(wanted, lambda one, node=node: one is not node) is min(odd, key=cost, default=None)
        assert index.has_room(wanted) == bool(fitting)
        near = [one for one in fitting if one.load.host == node.load.host]
        assert index.best(wanted, lambda one: True, node.load.host) is min(near, key=cost, default=None)


class Rebuilt:
    """The rotation as its definition has it: everything is looked at when a round begins."""

    def __init__(
        self, shares: OpportunisticShares, total: Resource, attempts: Iterable[RMAppAttempt]
    ) -> None:
        self._shares, self._total, self._turn = shares, total, 0
        self._users: list[tuple[float, int, str]] = []
        self._turn_of: dict[str, int] = {}
        self._of: dict[str, list[tuple[tuple[float, int], int, RMAppAttempt]]] = {}
        for attempt in attempts:
            self._enter(attempt)
            if attempt.app.user not in self._turn_of:
                self._enter_user(attempt.app.user)

    def take(self) -> RMAppAttempt | None:
        while self._users:
            _, turn, user = heapq.heappop(self._users)
            if turn == self._turn_of[user] and self._of[user]:
                attempt = heapq.heappop(self._of[user])[2]
                self._enter_user(user)
                return attempt
        return None

    def put_back(self, attempt: RMAppAttempt) -> None:
        self._enter(attempt)
        self._enter_user(attempt.app.user)

    def _enter(self, attempt: RMAppAttempt) -> None:
        self._turn += 1
        share = self._shares.of_application(attempt.app, self._total)
        heapq.heappush(self._of.setdefault(attempt.app.user, []), (share, self._turn, attempt))

    def _enter_user(self, user: str) -> None:
        self._turn += 1
        self._turn_of[user] = self._turn
        heapq.heappush(self._users, (self._shares.of_user(user, self._total), self._turn, user))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=7),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.booleans()), max_size=25),
)
def test_turns_are_those_of_a_rotation_made_anew(
    users: list[str], rounds: list[tuple[int, int, bool]]
) -> None:
    cluster, attempts = Cluster(), []  # without a node all of them wait
    for number, user in enumerate(users):
        master = cluster.master(as_user=user, priority=number % 3)
        master.allocate(asks(3, ONE, OPPORTUNISTIC))
        attempts.append(cluster.context.live[master.app_id].attempt)
    waiting, shares, total = cluster.context.opportunistic_waiting, cluster.context.shares, Resource(1000, 9)
    for who, turns, gives_back in rounds:
        mine, theirs = waiting.begin(total), Rebuilt(shares, total, list(waiting))
        for _ in range(turns):
            attempt, expected = mine.take(), theirs.take()
            assert attempt is expected
            if attempt is None:
                break
            shares.change(attempt.app, ONE, 1)
            waiting.served(attempt)
            if not gives_back:
                mine.put_back(attempt)
                theirs.put_back(attempt)
        chosen = attempts[who % len(attempts)]
        if gives_back and chosen.app.opportunistic_held != Resource():
            shares.change(chosen.app, ONE, -1)
        waiting.validate()


# -- a step costs what changes in it ---------------------------------------------------------------------------


def turns(cluster: Cluster, nodes: list[Node], masters: list[Master], running: list[Any], number: int) -> int:
    """Lines executed while ``number`` containers end, each with a successor that starts."""
    by_name = {node.name: node for node in nodes}

    def work() -> None:
        for _ in range(number):
            ended = running.pop(0)
            by_name[ended.node_id].beat(done(ended))
            for master in masters:
                for new in master.allocate().allocated:
                    by_name[new.node_id].beat(status(new))
                    running.append(new)

    return steps(work)


@pytest.mark.parametrize("kind", [GUARANTEED, OPPORTUNISTIC])
def test_a_turn_costs_the_same_on_four_nodes_and_on_two_hundred(kind: Any) -> None:
    costs = []
    for number in (4, 200):
        cluster = Cluster()
        # memory is left over everywhere: such nodes are no candidates for anything
        nodes = [cluster.node(f"h{one}:1", total=Resource(100, 2), queue_capacity=0) for one in range(number)]
        cluster.rm.validate = lambda: None  # type: ignore[method-assign]
        master = cluster.master()
        running = list(master.allocate(asks(10_000, ONE, kind)).allocated)
        assert len(running) == 2 * number
        for node in nodes:
            node.beat(*(status(one) for one in running if one.node_id == node.name))
        turns(cluster, nodes, [master], running, 20)
        costs.append(turns(cluster, nodes, [master], running, 50))
    assert costs[1] < 1.2 * costs[0], f"50 turns: {costs[0]} lines on 4 nodes, {costs[1]} on 200"


@pytest.mark.parametrize("kind", [GUARANTEED, OPPORTUNISTIC])
def test_a_turn_costs_the_same_beside_two_waiting_jobs_and_beside_a_hundred(kind: Any) -> None:
    costs = []
    for number in (2, 100):
        cluster = Cluster()
        node = cluster.node(total=Resource(1000, 4), queue_capacity=0)
        cluster.rm.validate = lambda: None  # type: ignore[method-assign]
        for _ in range(number):
            cluster.master().allocate(asks(10_000, ONE, kind))
        ends(cluster, node, 20)
        costs.append(steps(partial(ends, cluster, node, 50)))
    assert costs[1] < 1.2 * costs[0], f"50 turns: {costs[0]} lines beside 2 jobs, {costs[1]} beside 100"


def ends(cluster: Cluster, node: Node, number: int) -> None:
    """``number`` times the container that was allocated first starts and ends."""
    for _ in range(number):
        first = next(iter(cluster.context.live_containers.values()))
        node.beat(status(first.container()))
        node.beat(done(first.container()))


# -- what is remembered of tokens ------------------------------------------------------------------------------


def test_a_token_that_was_shown_once_does_not_speak_for_another() -> None:
    cluster = Cluster()
    master, other = cluster.master(), cluster.master()
    master.allocate()
    forged = Token(master.token.kind, master.token.identifier, "0" * 64)
    for token in (forged, other.token, Token("", "", "")):
        with pytest.raises(InvalidTokenError):
            cluster.ask(AllocateRequest(master.attempt_id, token, 0), master.connection)
    master.allocate()
