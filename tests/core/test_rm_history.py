"""The event history: what is told, how it is asked for, that it is bounded and costs little."""

from __future__ import annotations

from typing import Any

import pytest

from executor.records import ContainerState, ExecutionType, Resource
from yarnopp_cli.records.client_protocol import ChangeContainerRequest, KillApplicationRequest
from yarnopp_cli.records.history import EventKind, GetEventsRequest, GetEventsResponse
from yarnopp_cli.records.requests import ContainerUpdateType, UpdateContainerRequest
from yarnopp_cli.resourcemanager.event_history import EventHistory, Subject

from ..steps import steps
from .rm_harness import OPPORTUNISTIC, TIMESTAMP, Cluster, asks, done, queued, status

ONE = Resource(100, 1)
RUNNING, PAUSED, RESUMING = ContainerState.RUNNING, ContainerState.PAUSED, ContainerState.RESUMING


def events(cluster: Cluster, **filters: object) -> GetEventsResponse:
    answer: GetEventsResponse = cluster.ask(GetEventsRequest(**filters))  # type: ignore[arg-type]
    return answer


def kinds(cluster: Cluster, **filters: object) -> list[str]:
    return [event.kind.value for event in events(cluster, **filters).events]


def test_the_life_of_a_container_that_waits_runs_pauses_and_ends() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    [one] = master.allocate(asks(1, ONE, OPPORTUNISTIC)).allocated
    node.beat(queued(one))
    cluster.at(2.0)
    started = {"queued_at_ms": 1, "started_at_ms": 2001, "pid": 7}
    node.beat(status(one, RUNNING, **started))
    node.beat(status(one, PAUSED, paused_at_ms=2500, diagnostics="makes room", **started))
    node.beat(status(one, RESUMING, **started))
    node.beat(status(one, RUNNING, **started))
    node.beat(done(one, 3, exit_code=3, finished_at_ms=5001, stood_ms=500, **started))
    found = events(cluster, container_id=one.id).events
    assert [event.kind.value for event in found] == [
        "ContainerAllocated",
        "ContainerAcquired",
        "ContainerQueued",
        "ContainerStarted",
        "ContainerPaused",
        "ContainerResumed",
        "ContainerCompleted",
    ]
    assert all(event.app == master.app_id and event.node == node.name for event in found)
    assert [event.seq for event in found] == sorted(event.seq for event in found)
    allocated, start, pause, end = found[0], found[3], found[4], found[-1]
    assert (allocated.t, start.t) == (TIMESTAMP, TIMESTAMP + 2000)
    assert allocated.words == {"executionType": "OPPORTUNISTIC"}
    assert allocated.numbers == {
        "memoryMB": 100, "vcores": 1, "submittedAt": TIMESTAMP, "eligibleAt": TIMESTAMP,
    }  # fmt: skip
    assert start.numbers == {"at": 2001, "waitedMs": 2000, "pid": 7}
    assert pause.why == "makes room"
    assert (end.numbers["exitStatus"], end.numbers["exitCode"], end.numbers["ranMs"]) == (3, 3, 2500)
    assert end.numbers["pausedMs"] == 500
    report = cluster.containers(container_ids=(one.id,))[one.id]
    assert report.preemptions == 1, "it was paused once"


@pytest.mark.parametrize(
    ("exit_status", "kind"),
    [(-102, "ContainerPreempted"), (-108, "ContainerPreempted"), (-100, "ContainerAborted"), (0, "ContainerCompleted"),
     (-104, "ContainerCompleted"), (-4711, "ContainerCompleted")],
)  # fmt: skip
def test_ends_are_told_apart_and_a_run_between_two_beats_is_not_lost(exit_status: int, kind: str) -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    [one] = master.allocate(asks(1, ONE, OPPORTUNISTIC)).allocated
    node.beat(done(one, exit_status, started_at_ms=10, finished_at_ms=20, diagnostics="why\nand more"))
    assert kinds(cluster, container_id=one.id)[-2:] == ["ContainerStarted", kind]
    assert events(cluster, container_id=one.id).events[-1].why == "why"


def test_who_is_ended_in_the_queue_was_shed() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    [one] = master.allocate(asks(1, ONE, OPPORTUNISTIC)).allocated
    node.beat(queued(one))
    node.beat(done(one, -108))
    assert kinds(cluster, container_id=one.id)[-2:] == ["ContainerQueued", "ContainerShed"]


@pytest.mark.parametrize("first", [ContainerState.PAUSING, ContainerState.KILLING])
def test_who_is_first_seen_on_its_way_elsewhere_has_started(first: ContainerState) -> None:
    cluster = Cluster()
    node = cluster.node()
    [one] = cluster.master().allocate(asks(1, ONE, OPPORTUNISTIC)).allocated
    node.beat(status(one, first, started_at_ms=1))
    node.beat(done(one, started_at_ms=1, finished_at_ms=2))
    assert kinds(cluster, container_id=one.id)[-2:] == ["ContainerStarted", "ContainerCompleted"]


def test_promotion_is_told_and_dated() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    [one] = master.allocate(asks(1, ONE, OPPORTUNISTIC)).allocated
    node.beat(status(one))
    cluster.at(3.0)
    update = UpdateContainerRequest(one.id, -1, ContainerUpdateType.PROMOTE_EXECUTION_TYPE)
    cluster.ask(ChangeContainerRequest(update))
    [event] = events(cluster, kinds=(EventKind.CONTAINER_PROMOTED,)).events
    assert event.words == {"executionType": "GUARANTEED"}
    assert cluster.containers()[one.id].promoted_at_ms == TIMESTAMP + 3000


def test_applications_and_their_ends() -> None:
    cluster = Cluster()
    node = cluster.node()
    finished, killed = cluster.master(), cluster.master()
    finished.finish()
    cluster.ask(KillApplicationRequest(killed.app_id, "no need"))
    assert kinds(cluster, application_id=finished.app_id) == [
        "ApplicationSubmitted",
        "ApplicationAccepted",
        "AttemptStarted",
        "ApplicationRunning",
        "ApplicationFinished",
        "AttemptEnded",
    ]
    assert kinds(cluster, application_id=killed.app_id)[-2:] == ["ApplicationKilled", "AttemptEnded"]
    [end] = events(cluster, kinds=(EventKind.APPLICATION_KILLED,)).events
    assert end.why == "no need"
    submitted = cluster.submit()
    answer = node.beat()
    assert answer.containers_to_start
    assert "ContainerAllocated" in kinds(cluster, application_id=submitted), "its master's container"


def test_nodes_come_fall_silent_return_and_go() -> None:
    cluster = Cluster()
    node = cluster.node()
    cluster.lose(node.connection)
    node.register()
    node.beat(healthy=False, health_report="disk full")
    node.beat(healthy=True, health_report="")
    node.unregister()
    assert kinds(cluster, node_id=node.name) == [
        "NodeAdded",
        "NodeSilent",
        "NodeReturned",
        "NodeUnhealthy",
        "NodeHealthy",
        "NodeRemoved",
    ]
    other = cluster.node("h2:2")
    cluster.at(10_000.0)
    assert kinds(cluster, node_id=other.name)[-1] == "NodeLost"


def test_reading_goes_on_where_it_left_off() -> None:
    cluster = Cluster()
    cluster.node()
    for _ in range(5):
        cluster.master()
    everything = events(cluster).events
    seen: list[int] = []
    following, rounds = 0, 0
    while True:
        answer = events(cluster, since=following, limit=4)
        seen += [event.seq for event in answer.events]
        rounds += 1
        if not answer.events:
            break
        following = answer.next
    assert seen == [event.seq for event in everything] and rounds > 4
    assert [event.seq for event in events(cluster, newest=True, limit=3).events] == seen[-3:]
    assert events(cluster, since_ms=TIMESTAMP + 1).events == ()


def test_a_filtered_reader_goes_on_behind_what_it_did_not_want() -> None:
    cluster = Cluster()
    node = cluster.node()
    cluster.master()
    answer = events(cluster, node_id=node.name)
    assert len(answer.events) == 1
    assert answer.next == events(cluster).events[-1].seq


def test_a_follower_is_answered_when_its_event_comes_and_not_before() -> None:
    cluster = Cluster()
    node = cluster.node()
    call = cluster.send(GetEventsRequest(since=-1, node_id=node.name, wait_ms=5000), 55)
    gone = cluster.send(GetEventsRequest(since=-1, wait_ms=5000), 56)
    cluster.lose(56)
    cluster.master()
    assert not cluster.answered(call) and not cluster.answered(gone)
    cluster.lose(node.connection)
    assert [event.kind for event in cluster.take(call).events] == [EventKind.NODE_SILENT]
    late = cluster.send(GetEventsRequest(since=-1, wait_ms=1000), 55)
    cluster.at(0.9)
    assert not cluster.answered(late)
    cluster.at(1.0)
    assert cluster.take(late).events == ()


def test_an_ending_cluster_keeps_no_follower() -> None:
    cluster = Cluster(lifetime="on-demand")
    cluster.node()
    master = cluster.master()
    call = cluster.send(GetEventsRequest(since=-1, node_id="h9:9", wait_ms=60_000), 55)
    master.finish()
    assert cluster.answered(call)


@pytest.mark.parametrize("size", [0, 1, 7, 100])
def test_the_ring_is_bounded_and_its_index_with_it(size: int) -> None:
    history = EventHistory(size)
    for number in range(1000):
        app = f"a{number % 5}" if number % 3 else ""
        history.add(EventKind.NODE_ADDED, app=app)
        assert len(history) == min(size, number + 1)
    remembered, _ = history.select(GetEventsRequest(limit=10_000))
    assert [event.seq for event in remembered] == list(range(1001 - size, 1001))
    for number in range(5):
        found = history.of_application(f"a{number}")
        assert found == tuple(event for event in remembered if event.app == f"a{number}")
    for since in (0, 1, 990, 998, 999, 1000, 2000):
        answer, _ = history.select(GetEventsRequest(since=since))
        assert answer == tuple(event for event in remembered if event.seq > since)[:1000]


def test_an_event_costs_little() -> None:
    """Against the price of the whole life of a container in the same run."""
    cluster = Cluster()
    cluster.rm.validate = lambda: None  # type: ignore[method-assign]
    node = cluster.node(total=Resource(100_000, 1000))
    master = cluster.master()
    number = 100
    granted: list[Any] = []

    def lives() -> None:
        granted.extend(
            master.allocate(*(asks(1, ONE, allocation_request_id=i) for i in range(number))).allocated
        )
        for one in granted:
            node.beat(status(one, started_at_ms=1))
            node.beat(done(one, started_at_ms=1, finished_at_ms=2))

    life = steps(lives) / number
    history = EventHistory(20_000)

    def remembered() -> None:
        for one in granted:
            running = status(one, started_at_ms=1)
            subject = Subject(node.name, master.app_id, one.id)
            history.allocated(subject, ExecutionType.GUARANTEED, ONE)
            history.acquired(subject)
            history.observed(subject, None, running)
            history.ended(subject, running, running)

    cost = steps(remembered) / number
    assert cost < life / 4, f"{cost:.0f} of {life:.0f} lines a container"


def test_what_is_remembered_is_kept_when_the_last_container_has_ended() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    [one] = master.allocate(asks(1, ONE)).allocated
    node.beat(status(one))
    master.finish()
    assert not cluster.kept, "one of its containers lives"
    node.beat(done(one, started_at_ms=1, finished_at_ms=2))
    [history] = cluster.kept
    assert history.application.application_id == master.app_id
    assert [report.node_id for report in history.nodes] == [node.name]
    assert history.events[0].kind is EventKind.APPLICATION_SUBMITTED
    assert history.events[-1].kind is EventKind.CONTAINER_COMPLETED


def test_an_ending_cluster_keeps_what_there_is_before_it_stops() -> None:
    cluster = Cluster(lifetime="on-demand")
    node = cluster.node()
    master = cluster.master()
    [one] = master.allocate(asks(1, ONE)).allocated
    node.beat(status(one))
    master.finish()
    cluster.at(60.0)
    assert cluster.stopped is not None
    assert [history.application.application_id for history in cluster.kept] == [master.app_id]


def test_nothing_is_kept_where_nothing_is_wanted() -> None:
    cluster = Cluster(retained_histories=0)
    cluster.node()
    cluster.master().finish()
    assert not cluster.kept
