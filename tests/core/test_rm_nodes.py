"""Nodes: registration, heartbeats and what they are told, resync, loss, two processes of one name."""

from __future__ import annotations

import pytest

from executor.causes import Cause, CauseKind
from executor.light import replace
from executor.records import (
    ContainerExitStatus,
    ContainerState,
    ContainerStatus,
    ExecutionType,
    Resource,
    ResourceUtilization,
)
from yarnopp_cli.errors import InvalidIdError, InvalidResourceRequestError, NodeNotFoundError
from yarnopp_cli.records.client_protocol import GetClusterInfoRequest, GetClusterNodesRequest
from yarnopp_cli.records.explanation import ReasonKind
from yarnopp_cli.records.history import EventKind, GetEventsRequest
from yarnopp_cli.records.reports import FinalApplicationStatus, NodeReport, NodeState
from yarnopp_cli.records.requests import ContainerLaunchContext

from .rm_harness import GUARANTEED, OPPORTUNISTIC, TIMESTAMP, Cluster, asks, done, queued, status

ONE = Resource(100, 1)


def report(cluster: Cluster, name: str = "h1:1") -> NodeReport:
    return {node.node_id: node for node in cluster.ask(GetClusterNodesRequest()).nodes}[name]


def test_a_node_as_people_see_it() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(4096, 4), rack="/r1", pid=4711)
    master = cluster.master()
    kept, other = master.allocate(asks(1, ONE), asks(1, ONE, OPPORTUNISTIC)).allocated
    cluster.at(2.5)
    node.beat(status(kept), status(other), node_utilization=ResourceUtilization(5, 0.5))
    seen = report(cluster)
    assert (seen.state, seen.rack, seen.pid, seen.connected) == (NodeState.RUNNING, "/r1", 4711, True)
    assert (seen.used, seen.num_containers) == (ONE, 1), "guaranteed ones only, as in YARN"
    assert (seen.opportunistic.running, seen.opportunistic.vcores_used) == (1, 1)
    assert seen.last_heartbeat_ms == TIMESTAMP + 2500
    assert seen.node_utilization == ResourceUtilization(5, 0.5)
    info = cluster.ask(GetClusterInfoRequest())
    assert (info.total, info.used, info.maximum) == (Resource(4096, 4), ONE, Resource(4096, 4))
    assert (info.nodes_running, info.containers_running, info.applications_running) == (1, 2, 1)
    node.beat(status(kept, ContainerState.PAUSED))
    seen = report(cluster)
    assert (seen.guaranteed_running, seen.guaranteed_paused, seen.paused) == (0, 1, 1)
    assert (seen.used, seen.num_containers) == (ONE, 1), "a paused one keeps what it was promised"


def test_a_node_that_is_not_registered_is_told_to_register_again() -> None:
    cluster = Cluster()
    node = cluster.node()
    node.secret, right = "wrong", node.secret
    assert node.beat().action == "RESYNC"
    node.secret, node.name = right, "h2:1"
    assert node.beat().action == "RESYNC"


def test_bad_registrations_are_refused() -> None:
    cluster = Cluster(minimum_allocation_mb=1024, minimum_allocation_vcores=1)
    assert "minimum allocation" in cluster.node("h1:1", Resource(512, 4)).registered.diagnostics  # type: ignore[union-attr]
    assert cluster.node("h1:2", Resource(4096, 0)).registered.action == "SHUTDOWN"  # type: ignore[union-attr]
    with pytest.raises(InvalidIdError):
        cluster.node("no node", Resource(4096, 4))
    assert cluster.ask(GetClusterNodesRequest()).nodes == ()


def test_a_second_process_of_the_same_name_is_sent_away_while_the_first_lives() -> None:
    cluster = Cluster(heard=False)
    first = cluster.node(pid=12)
    second = cluster.node()
    assert second.registered is not None and second.registered.action == "SHUTDOWN"
    assert "pid 12" in second.registered.diagnostics and "alive" in second.registered.diagnostics
    assert first.beat().action == "NORMAL"
    cluster.lose(first.connection)
    assert second.register().action == "NORMAL"
    assert first.beat().action == "RESYNC", "its secret is no longer good"
    cluster.at(10.0)
    assert first.register().action == "NORMAL", "the second has been silent for long"


def test_ended_containers_are_acknowledged_and_counted_once() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    [one] = master.allocate(asks(1)).allocated
    node.beat(status(one))
    assert node.beat(done(one, 3)).completed_acknowledged == (one.id,)
    assert node.beat(done(one, 3)).completed_acknowledged == (one.id,), "its answer may have been lost"
    assert len(master.allocate().completed) == 1
    assert master.allocate().completed == ()
    assert cluster.app(master.app_id).containers_failed == 1
    master.finish()
    assert node.beat(done(one, 3)).completed_acknowledged == (one.id,)


@pytest.mark.parametrize("status_of_end", [ContainerExitStatus.ABORTED, ContainerExitStatus.DISKS_FAILED])
def test_a_lost_container_is_counted_as_lost_and_not_as_preempted_or_failed(status_of_end: int) -> None:
    cluster = Cluster()
    node, master = cluster.node(), cluster.master()
    [one] = master.allocate(asks(1)).allocated
    node.beat(status(one))
    node.beat(replace(done(one, int(status_of_end)), cause=Cause(CauseKind.NODE_FAULT)))
    app = cluster.app(master.app_id)
    assert (app.containers_lost, app.containers_preempted, app.containers_failed) == (1, 0, 0)
    assert (app.usage.preempted, app.usage.preempted_memory_seconds) == (Resource(), 0)
    assert cluster.ask(GetEventsRequest()).events[-1].kind is EventKind.CONTAINER_ABORTED


def test_containers_of_nobody_are_to_be_cleaned_up() -> None:
    cluster = Cluster()
    node = cluster.node()
    stray = ContainerStatus(
        f"container_{TIMESTAMP - 1}_0001_01_000001",
        ContainerState.RUNNING,
        ExecutionType.GUARANTEED,
        application_id=f"application_{TIMESTAMP - 1}_0001",
    )
    node.running_applications = (stray.application_id,)
    response = node.beat(stray)
    assert response.containers_to_cleanup == (stray.container_id,)
    assert response.applications_to_cleanup == (stray.application_id,)


def test_a_node_that_comes_again_keeps_what_belongs_to_somebody() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(4096, 4))
    master = cluster.master()
    kept, ended, lost, unspoken = master.allocate(asks(4, ONE)).allocated
    node.beat(status(kept), status(ended), status(lost))
    cluster.lose(node.connection)
    assert report(cluster).connected is False and report(cluster).state is NodeState.RUNNING
    assert report(cluster).used == Resource(400, 4)
    stray = ContainerStatus("container_1_0001_01_000001", ContainerState.RUNNING, ExecutionType.GUARANTEED)
    node.statuses = {
        kept.id: status(kept),
        ended.id: done(ended, 5),
        stray.container_id: stray,
    }
    node.running_applications = (master.app_id, "application_1_0001")
    response = node.register()
    assert response.containers_to_cleanup == (stray.container_id,)
    assert response.applications_to_cleanup == ("application_1_0001",)
    completed = {one.container_id: one.exit_status for one in master.allocate().completed}
    assert completed == {ended.id: 5, lost.id: -100}
    assert set(cluster.containers()) == {kept.id, unspoken.id}
    assert report(cluster).used == Resource(200, 2)


def test_a_node_may_come_again_with_another_size() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(4096, 4))
    master = cluster.master()
    granted = master.allocate(asks(4, ONE)).allocated
    node.beat(*map(status, granted))
    cluster.lose(node.connection)
    node.total = Resource(4096, 2)
    node.register()
    assert cluster.ask(GetClusterInfoRequest()).total == Resource(4096, 2)
    assert master.allocate(asks(1, ONE, allocation_request_id=2)).allocated == ()
    node.beat(done(granted[0]), done(granted[1]), done(granted[2]))
    assert len(master.allocate().allocated) == 1


def test_a_silent_node_is_lost_with_all_it_has() -> None:
    cluster = Cluster(nm_expiry_interval_ms=3000)
    node = cluster.node()
    master = cluster.master()
    running, unspoken = master.allocate(asks(2, ONE)).allocated
    node.beat(status(running))
    cluster.at(2.0)
    node.beat()
    cluster.at(4.9)
    assert report(cluster).state is NodeState.RUNNING
    cluster.at(5.0)
    assert report(cluster).state is NodeState.LOST
    completed = master.allocate().completed
    assert {(ended.container_id, ended.exit_status) for ended in completed} == {
        (running.id, -100),
        (unspoken.id, -100),
    }
    assert cluster.ask(GetClusterInfoRequest()).nodes_lost == 1
    assert node.beat().action == "RESYNC"
    assert node.register().containers_to_cleanup == (running.id,)
    assert report(cluster).state is NodeState.RUNNING


def test_a_held_heartbeat_never_makes_a_live_node_expire() -> None:
    cluster = Cluster(nm_expiry_interval_ms=1000)
    node = cluster.node()
    for step in range(1, 6):
        held = node.send(wait_ms=60_000)
        cluster.at(step * 0.5)
        assert node.take(held) is not None, "held for at most half the expiry interval"
    assert report(cluster).state is NodeState.RUNNING


def test_a_node_that_says_goodbye_takes_its_containers_with_it_or_not() -> None:
    for keep in (False, True):
        cluster = Cluster()
        node = cluster.node()
        master = cluster.master()
        [one] = master.allocate(asks(1, ONE)).allocated
        node.beat(status(one))
        node.unregister(keep_containers=keep)
        completed = master.allocate().completed
        if keep:
            assert completed == () and report(cluster).connected is False
            assert node.register().containers_to_cleanup == ()
            assert set(cluster.containers()) == {one.id}
        else:
            assert [(ended.container_id, ended.exit_status) for ended in completed] == [(one.id, -100)]
            assert report(cluster).state is NodeState.SHUTDOWN
            assert node.register().containers_to_cleanup == (one.id,)


def test_a_master_is_handed_over_until_its_node_speaks_of_it() -> None:
    cluster = Cluster()
    node = cluster.node()
    cluster.submit(am_container_spec=ContainerLaunchContext(("am",), {"A": "1"}))
    [first] = node.beat().containers_to_start
    assert first.launch_context.environment["A"] == "1"
    [again] = node.beat().containers_to_start
    assert again == first
    cluster.lose(node.connection)
    node.register()
    held = node.send(wait_ms=1000)
    assert [start.container.id for start in node.take(held).containers_to_start] == [first.container.id]  # type: ignore[union-attr]
    assert node.beat(queued(first.container)).containers_to_start == ()


def test_an_ended_application_is_told_until_the_node_lists_it_no_more() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    [one] = master.allocate(asks(1, ONE)).allocated
    node.running_applications = (master.app_id,)
    node.beat(status(one))
    master.finish()
    for _ in range(2):
        assert node.beat().applications_to_cleanup == (master.app_id,)
    node.beat(done(one, -107))
    node.running_applications = ()
    node.beat()
    assert node.beat().applications_to_cleanup == ()


def test_a_container_seen_on_another_node_is_not_believed() -> None:
    cluster = Cluster()
    here, there = cluster.node("h1:1"), cluster.node("h2:1")
    [one] = cluster.master().allocate(asks(1, ONE, resource_name="h1:1", relax_locality=False)).allocated
    here.beat(status(one))
    assert there.beat(status(one)).containers_to_cleanup == (one.id,)
    assert cluster.containers()[one.id].node_id == "h1:1"


def test_a_node_whose_connection_is_down_does_not_count_as_running() -> None:
    cluster = Cluster()
    node = cluster.node()
    cluster.lose(node.connection)
    assert cluster.ask(GetClusterInfoRequest()).nodes_running == 0
    node.register()
    assert cluster.ask(GetClusterInfoRequest()).nodes_running == 1


def test_an_ask_from_before_the_first_node_that_no_node_can_serve_is_refused() -> None:
    cluster = Cluster()
    master = cluster.master()
    call = master.send(asks(1, Resource(9000, 1)), asks(2, ONE), wait_ms=60_000)
    cluster.node("h1:1", Resource(4096, 4))
    assert len(master.take(call).allocated) == 2  # type: ignore[union-attr]
    call = master.send(wait_ms=60_000)
    cluster.at(2.9)
    assert not cluster.answered(call), "a larger node may be on its way"
    cluster.at(3.1)
    with pytest.raises(InvalidResourceRequestError, match="larger than any node"):
        master.take(call)
    assert cluster.app(master.app_id).pending_containers == 0
    assert master.allocate().allocated == (), "what was fine goes on"


def test_a_larger_node_that_comes_soon_serves_it() -> None:
    cluster = Cluster()
    master = cluster.master()
    call = master.send(asks(1, Resource(9000, 1), OPPORTUNISTIC), wait_ms=60_000)
    cluster.node("h1:1", Resource(4096, 4))
    assert master.take(call).allocated == ()  # type: ignore[union-attr]
    cluster.at(2.0)
    cluster.node("h2:1", Resource(16384, 4))
    cluster.at(10.0)
    [one] = master.allocate().allocated
    assert one.node_id == "h2:1"


def test_a_master_that_was_not_waiting_hears_of_hopeless_asks_at_its_next_call() -> None:
    cluster = Cluster()
    master = cluster.master()
    master.allocate(asks(1, Resource(9000, 1), OPPORTUNISTIC))
    master.allocate(asks(1, ONE, resource_name="h9", relax_locality=False, allocation_request_id=1))
    cluster.node("h1:1", Resource(4096, 4))
    cluster.at(3.1)
    with pytest.raises((InvalidResourceRequestError, NodeNotFoundError)):
        master.allocate()
    assert cluster.app(master.app_id).pending_containers == 0
    master.finish(FinalApplicationStatus.FAILED)


def test_a_master_that_can_run_nowhere_ends_its_application() -> None:
    cluster = Cluster()
    app_id = cluster.submit(am_resource=Resource(9000, 1))
    cluster.node("h1:1", Resource(4096, 4))
    cluster.at(3.1)
    app = cluster.app(app_id)
    assert (app.state.value, app.final_status) == ("FAILED", FinalApplicationStatus.FAILED)
    assert "larger than any node" in app.diagnostics


def test_an_ask_that_only_a_lost_node_could_serve_is_refused() -> None:
    cluster = Cluster()
    cluster.node("h1:1", Resource(4096, 4))
    large = cluster.node("h2:1", Resource(16384, 4))
    master = cluster.master()
    master.allocate(asks(2, Resource(9000, 1)))
    large.unregister()
    call = master.send(wait_ms=60_000)
    assert not cluster.answered(call) or master.take(call) is not None
    cluster.at(1.0)
    call = master.send(wait_ms=60_000)
    cluster.at(3.1)
    with pytest.raises(InvalidResourceRequestError, match="larger than any node"):
        master.take(call)


def test_masters_are_told_of_nodes_that_come_and_go() -> None:
    cluster = Cluster()
    first = cluster.node("h1:1")
    master = cluster.master()
    assert master.allocate().updated_nodes == ()
    cluster.node("h2:1")
    first.unregister()
    told = {node.node_id: node.state for node in master.allocate().updated_nodes}
    assert told == {"h2:1": NodeState.RUNNING, "h1:1": NodeState.SHUTDOWN}
    assert master.allocate().updated_nodes == ()


def test_masters_waiting_are_told_of_a_node_whose_connection_is_lost_and_comes_again() -> None:
    cluster = Cluster()
    node = cluster.node("h1:1")
    master = cluster.master()
    call = master.send(wait_ms=60_000)
    cluster.lose(node.connection)
    [told] = master.take(call).updated_nodes  # type: ignore[union-attr]
    assert (told.node_id, told.state, told.connected) == ("h1:1", NodeState.RUNNING, False)
    call = master.send(wait_ms=60_000)
    node.register()
    [told] = master.take(call).updated_nodes  # type: ignore[union-attr]
    assert told.connected
    call = master.send(wait_ms=60_000)
    node.register(node.connection)
    assert not cluster.answered(call), "a resync is no news"


@pytest.mark.parametrize("kind", [GUARANTEED, OPPORTUNISTIC])
def test_a_silent_node_gets_nothing_until_it_speaks_again(kind: ExecutionType) -> None:
    """A stopped process keeps its connection: containers were sent to it until it expired, ten minutes later."""
    cluster = Cluster(heard=False)
    stopped, other = cluster.node("h1:1"), cluster.node("h2:1")
    master = cluster.master()
    for second in range(1, 6):
        cluster.at(second)
        other.beat()
    granted = [master.allocate(asks(1, execution_type=kind)).allocated[0] for _ in range(4)]
    assert {one.node_id for one in granted} == {other.name}
    other.beat(*map(status, granted))
    stopped.beat()
    more = [*master.allocate(asks(4, execution_type=kind)).allocated, *master.allocate().allocated]
    assert stopped.name in {one.node_id for one in more}
    events = [one.kind for one in cluster.ask(GetEventsRequest()).events]
    assert events.count(EventKind.NODE_SILENT) == events.count(EventKind.NODE_RETURNED) == 1


def test_a_node_that_misses_heartbeats_is_told_to_be_silent_long_before_it_expires() -> None:
    cluster = Cluster(heard=False)
    node = cluster.node()
    node.beat()

    def seen() -> tuple[str, bool, str]:
        (report,) = cluster.ask(GetClusterNodesRequest()).nodes
        return report.state.value, report.connected, report.health_report

    cluster.at(cluster.now + 2.9)
    assert seen() == ("RUNNING", True, "")
    cluster.at(cluster.now + 4.1)
    assert seen() == ("RUNNING", False, "no heartbeat for 7 s")
    (reason,) = cluster.explain(node.name).reasons
    assert (reason.kind, reason.detail) == (ReasonKind.SILENT, "no heartbeat for 7 s")
    node.beat()
    assert seen() == ("RUNNING", True, "")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("heard_at", [1.35, 1.85, 2.35])
def test_a_silence_that_rounding_makes_shorter_ends_all_the_same(heard_at: float) -> None:
    cluster = Cluster(heard=False)
    node = cluster.node()
    cluster.context.silence_seconds = 3.0
    assert (heard_at + 3.0) - heard_at < 3.0, "floating point"
    cluster.at(heard_at)
    node.beat()
    cluster.at(heard_at + 10.0)
    (report,) = cluster.ask(GetClusterNodesRequest()).nodes
    assert not report.connected


def test_a_node_whose_heartbeat_was_held_is_silent_only_from_its_answer_on() -> None:
    """The RM was stopped: what it held, nobody could replace by another call."""
    cluster = Cluster(heard=False)
    node = cluster.node()
    node.send(wait_ms=1000)
    cluster.now += 60.0
    cluster._take(cluster.rm.advance(cluster.now))  # one late step, in which everything is due
    assert EventKind.NODE_SILENT not in [one.kind for one in cluster.ask(GetEventsRequest()).events]
    cluster.at(cluster.now + 3.1)
    assert EventKind.NODE_SILENT in [one.kind for one in cluster.ask(GetEventsRequest()).events]
