"""Held calls: who is answered when, and what a superseded one says."""

from __future__ import annotations

import pytest

from executor.records import Resource
from yarnopp_cli.errors import ApplicationNotFoundError
from yarnopp_cli.records.client_protocol import (
    KillApplicationRequest,
    WaitForApplicationsRequest,
    WaitForNodesRequest,
)
from yarnopp_cli.records.history import GetEventsRequest
from yarnopp_cli.records.reports import YarnApplicationState

from .rm_harness import Cluster, asks, done, status

ONE = Resource(100, 1)


def test_an_allocate_call_without_news_is_held_for_its_time() -> None:
    cluster = Cluster()
    master = cluster.master()
    held = master.send(wait_ms=1000)
    cluster.at(0.999)
    assert not cluster.answered(held)
    cluster.at(1.0)
    response = master.take(held)
    assert response is not None and response.allocated == ()


def test_a_newer_allocate_answers_the_older_without_news() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    first = master.send(wait_ms=60_000)
    second = master.send(asks(1, ONE), wait_ms=60_000)
    empty, full = cluster.take(first), cluster.take(second)
    assert (empty.response_id, empty.allocated) == (0, ())
    assert full.response_id == 1 and len(full.allocated) == 1
    node.beat(status(full.allocated[0]))
    third = master.send(wait_ms=60_000)
    assert len(cluster.take(third).allocated) == 1, "the second's answer was not acknowledged"


def test_what_was_sent_on_a_living_connection_is_no_news_but_is_repeated() -> None:
    cluster = Cluster()
    cluster.node()
    master = cluster.master()
    lost = cluster.take(master.send(asks(1, ONE)))
    held = master.send(wait_ms=1000)
    assert not cluster.answered(held), "the answer is on its way"
    cluster.at(1.0)
    assert cluster.take(held).allocated == lost.allocated
    held = master.send(wait_ms=1000)
    cluster.lose(master.connection)
    master.connection = cluster.connection()
    assert cluster.take(master.send(wait_ms=1000)).allocated == lost.allocated, "now it may be lost"
    assert not cluster.answered(held)


def test_a_heartbeat_waits_until_there_is_something_for_its_node() -> None:
    cluster = Cluster()
    node = cluster.node()
    held = node.send(wait_ms=1000)
    assert not cluster.answered(held)
    cluster.submit()
    response = node.take(held)
    assert response is not None and len(response.containers_to_start) == 1
    held = node.send(status(response.containers_to_start[0].container), wait_ms=1000)
    cluster.at(0.9)
    assert not cluster.answered(held)
    cluster.at(1.0)
    assert node.take(held) is not None


def test_a_newer_heartbeat_answers_the_older_without_news() -> None:
    cluster = Cluster()
    node = cluster.node()
    first = node.send(wait_ms=1000)
    second = node.send(wait_ms=1000)
    assert cluster.take(first).response_id == 0
    assert not cluster.answered(second)
    cluster.at(1.0)
    assert cluster.take(second).response_id == 1
    cluster.at(5.0)


def test_a_heartbeat_with_ended_containers_is_answered_at_once() -> None:
    cluster = Cluster()
    node = cluster.node()
    [one] = cluster.master().allocate(asks(1, ONE)).allocated
    held = node.send(done(one), wait_ms=60_000)
    assert node.take(held).completed_acknowledged == (one.id,)  # type: ignore[union-attr]


def test_nobody_is_answered_over_a_lost_connection() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    calls = [
        node.send(wait_ms=1000),
        master.send(wait_ms=1000),
        cluster.send(WaitForApplicationsRequest((master.app_id,)), 55),
        cluster.send(WaitForNodesRequest(2), 55),
    ]
    for connection in (master.connection, 55, node.connection):  # a node's loss is news for a master
        cluster.lose(connection)
    cluster.at(100.0)
    assert not any(cluster.answered(call) for call in calls)


def test_waiting_for_the_end_of_applications() -> None:
    cluster = Cluster()
    one, two = cluster.master(), cluster.master()
    ids = (one.app_id, two.app_id)
    both = cluster.send(WaitForApplicationsRequest(ids))
    either = cluster.send(WaitForApplicationsRequest(ids, any=True))
    one.finish()
    answer = cluster.take(either)
    assert answer.satisfied and [app.state.value for app in answer.applications] == ["FINISHED", "RUNNING"]
    assert not cluster.answered(both)
    cluster.ask(KillApplicationRequest(two.app_id))
    assert cluster.take(both).satisfied
    assert cluster.ask(WaitForApplicationsRequest(ids)).satisfied, "they have ended already"


def test_waiting_for_a_state_is_satisfied_by_a_later_one() -> None:
    cluster = Cluster()
    cluster.node(total=Resource(4096, 4))
    app_id = cluster.submit()
    running = cluster.send(WaitForApplicationsRequest((app_id,), (YarnApplicationState.RUNNING,)))
    accepted = cluster.ask(WaitForApplicationsRequest((app_id,), (YarnApplicationState.ACCEPTED,)))
    assert accepted.satisfied and not cluster.answered(running)
    cluster.ask(KillApplicationRequest(app_id))
    assert cluster.take(running).satisfied


def test_waits_end_with_their_time_and_unknown_ids_are_refused() -> None:
    cluster = Cluster()
    master = cluster.master()
    waiting = cluster.send(WaitForApplicationsRequest((master.app_id,), wait_ms=500))
    cluster.at(0.5)
    answer = cluster.take(waiting)
    assert not answer.satisfied and answer.applications[0].state is YarnApplicationState.RUNNING
    assert not cluster.ask(WaitForApplicationsRequest((master.app_id,), wait_ms=0)).satisfied
    with pytest.raises(ApplicationNotFoundError):
        cluster.ask(WaitForApplicationsRequest(("application_1_0001",)))


def test_waiting_for_nodes() -> None:
    cluster = Cluster()
    waiting = cluster.send(WaitForNodesRequest(2))
    first = cluster.node("h1:1")
    assert not cluster.answered(waiting)
    cluster.lose(first.connection)
    cluster.node("h2:1")
    assert not cluster.answered(waiting), "one of them is out of reach"
    first.register()
    answer = cluster.take(waiting)
    assert answer.satisfied and [node.node_id for node in answer.nodes] == ["h1:1", "h2:1"]


@pytest.mark.parametrize("wait_ms", [5_001, 2**31, 2**63 - 1])
def test_a_call_is_answered_after_five_seconds_whatever_it_asks_for(wait_ms: int) -> None:
    cluster = Cluster()
    master = cluster.master()
    waits = [
        cluster.send(WaitForNodesRequest(2**31, wait_ms)),
        cluster.send(WaitForApplicationsRequest((master.app_id,), wait_ms=wait_ms)),
        cluster.send(GetEventsRequest(since=2**31, wait_ms=wait_ms)),
    ]
    cluster.at(4.9)
    assert not any(map(cluster.answered, waits))
    cluster.at(5.0)
    assert all(map(cluster.answered, waits))
