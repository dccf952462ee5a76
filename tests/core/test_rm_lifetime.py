"""The cluster's end: on demand, by order, and never by itself."""

from __future__ import annotations

import pytest

from executor.records import Resource
from yarnopp_cli.errors import InvalidStateError, ShuttingDownError
from yarnopp_cli.records.client_protocol import (
    GetClusterInfoRequest,
    GetNewApplicationRequest,
    SetLifetimeRequest,
    ShutdownClusterRequest,
    WaitForApplicationsRequest,
)
from yarnopp_cli.records.reports import YarnApplicationState

from .rm_harness import Cluster, asks, done, status


def test_an_on_demand_cluster_ends_with_its_last_job() -> None:
    cluster = Cluster(lifetime="on-demand")
    node = cluster.node()
    one, two = cluster.master(), cluster.master()
    one.finish()
    response = node.beat()
    assert (response.action, response.lifetime) == ("NORMAL", "on-demand")
    held = node.send(wait_ms=60_000)
    two.finish()
    response = node.take(held)
    assert response is not None and response.action == "SHUTDOWN" and not response.keep_containers
    assert cluster.stopped is None, "it waits for its node"
    for request in (GetNewApplicationRequest(), SetLifetimeRequest("stay")):
        with pytest.raises(ShuttingDownError):
            cluster.ask(request)
    with pytest.raises(ShuttingDownError):
        cluster.submit()
    assert cluster.node("h2:1").registered.action == "SHUTDOWN"  # type: ignore[union-attr]
    held = node.send(wait_ms=1000)
    assert not cluster.answered(held), "it knows; no reason to hurry"
    node.unregister()
    assert cluster.stopped == "its last job has ended"


def test_nodes_that_do_not_go_are_not_waited_for_longer_than_five_seconds() -> None:
    cluster = Cluster(lifetime="on-demand")
    node = cluster.node()
    cluster.master().finish()
    assert node.beat().action == "SHUTDOWN"
    cluster.at(4.9)
    assert cluster.stopped is None
    cluster.at(5.0)
    assert cluster.stopped is not None


def test_nodes_out_of_reach_are_not_waited_for() -> None:
    cluster = Cluster(lifetime="on-demand")
    node = cluster.node()
    master = cluster.master()
    cluster.lose(node.connection)
    master.finish()
    assert cluster.stopped is not None


def test_an_on_demand_cluster_may_linger() -> None:
    cluster = Cluster(lifetime="on-demand", on_demand_linger_ms=2000)
    cluster.master().finish()
    cluster.at(1.9)
    master = cluster.master()
    cluster.at(8.0)
    assert cluster.stopped is None
    master.finish()
    cluster.at(9.9)
    assert cluster.stopped is None
    cluster.at(10.0)
    assert cluster.stopped is not None


def test_an_on_demand_cluster_that_nobody_uses_ends_after_ten_seconds() -> None:
    cluster = Cluster(lifetime="on-demand")
    cluster.at(9.9)
    assert cluster.stopped is None
    cluster.at(10.0)
    assert cluster.stopped == "no job was submitted"


def test_a_masters_container_is_waited_for() -> None:
    cluster = Cluster(lifetime="on-demand")
    node = cluster.node()
    app_id = cluster.submit()
    [start] = node.beat().containers_to_start
    node.beat(done(start.container, 1))
    [start] = node.beat().containers_to_start
    node.beat(done(start.container, 1))
    assert cluster.app(app_id).state is YarnApplicationState.FAILED
    assert node.beat().action == "SHUTDOWN"


def test_a_cluster_that_stays_stays_and_may_be_told_to_end_with_its_jobs() -> None:
    cluster = Cluster()
    cluster.master().finish()
    cluster.at(1000.0)
    assert cluster.stopped is None
    with pytest.raises(InvalidStateError):
        cluster.ask(SetLifetimeRequest("sometimes"))
    assert cluster.ask(SetLifetimeRequest("on-demand")).info.lifetime == "on-demand"
    assert cluster.stopped is not None

    cluster = Cluster(lifetime="on-demand")
    assert cluster.ask(SetLifetimeRequest("stay")).info.lifetime == "stay"
    assert cluster.node().beat().lifetime == "stay"
    cluster.master().finish()
    cluster.at(1000.0)
    assert cluster.stopped is None


def test_shutdown_kills_what_lives_and_names_who_is_ending() -> None:
    cluster = Cluster()
    node = cluster.node(pid=4711)
    master = cluster.master()
    [one] = master.allocate(asks(1, Resource(100, 1))).allocated
    node.beat(status(one))
    held = master.send(wait_ms=60_000)
    waiting = cluster.send(WaitForApplicationsRequest((master.app_id,)))
    assert master.take(held).started == (one.id,)  # type: ignore[union-attr]
    held = master.send(wait_ms=60_000)
    assert cluster.ask(ShutdownClusterRequest()).pids == (77, 4711)
    assert master.take(held).command == "AM_SHUTDOWN"  # type: ignore[union-attr]
    assert cluster.take(waiting).applications[0].state is YarnApplicationState.KILLED
    assert cluster.ask(ShutdownClusterRequest()).pids == (77, 4711)
    assert node.beat().action == "SHUTDOWN"
    node.beat(done(one, -107))
    node.unregister()
    assert cluster.stopped == "it was asked to end"


def test_shutdown_may_leave_containers_running() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    [one] = master.allocate(asks(1)).allocated
    node.beat(status(one))
    held = node.send(wait_ms=1000)
    waiting = master.send(wait_ms=60_000)
    master.take(waiting)
    waiting = master.send(wait_ms=60_000)
    cluster.ask(ShutdownClusterRequest(keep_containers=True))
    response = node.take(held)
    assert response is not None
    assert (response.action, response.keep_containers) == ("SHUTDOWN", True)
    assert response.applications_to_cleanup == ()
    node.unregister(keep_containers=True)
    assert cluster.stopped is not None
    with pytest.raises(ShuttingDownError):
        cluster.take(waiting)


def test_a_cluster_says_what_it_is() -> None:
    cluster = Cluster(lifetime="on-demand")
    info = cluster.ask(GetClusterInfoRequest())
    assert (info.lifetime, info.pid, info.run_dir, info.version) == ("on-demand", 77, "/run/yopp", "0.1.0")
    assert info.opportunistic_enabled and info.maximum == Resource()
