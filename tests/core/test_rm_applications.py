"""Applications: masters in containers and in clients, retries, ends, expiry."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from executor.records import Resource
from yarnopp_cli.errors import (
    ApplicationNotFoundError,
    InvalidResourceRequestError,
    InvalidStateError,
    InvalidTokenError,
    UsageError,
    YoppError,
)
from yarnopp_cli.records.client_protocol import (
    GetApplicationAttemptsRequest,
    GetNewApplicationRequest,
    KillApplicationRequest,
)
from yarnopp_cli.records.job_protocol import SubmitApplicationRequest
from yarnopp_cli.records.master_protocol import RegisterApplicationMasterRequest
from yarnopp_cli.records.reports import FinalApplicationStatus, JobSummary, YarnApplicationState
from yarnopp_cli.records.requests import (
    ApplicationSubmissionContext,
    ContainerLaunchContext,
    Token,
)
from yarnopp_cli.records.tracker_protocol import ContainerToStart

from .rm_harness import OPPORTUNISTIC, TIMESTAMP, Cluster, Master, Node, asks, done, status

APP1 = f"application_{TIMESTAMP}_0001"


def start_master(cluster: Cluster, node: Node) -> tuple[ContainerToStart, Master]:
    """Take the master's container over at its node, run it, register it."""
    response = node.beat()
    [to_start] = response.containers_to_start
    node.running_applications = (to_start.application_id,)
    node.beat(status(to_start.container))
    token = Token(**json.loads(to_start.launch_context.files["am-token.json"]))
    attempt_id = to_start.launch_context.environment["APPLICATION_ATTEMPT_ID"]
    master = Master(cluster, to_start.application_id, attempt_id, token, cluster.connection())
    master.register()
    return to_start, master


def attempts(cluster: Cluster, app_id: str) -> list[str]:
    found = cluster.ask(GetApplicationAttemptsRequest(app_id)).attempts
    return [attempt.state for attempt in found]


def test_a_masters_life_in_a_container() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(4096, 2))
    app_id = cluster.submit(am_resource=Resource(256, 0), command_line="yopp pi 2 2")
    assert app_id == APP1
    assert cluster.app(app_id).state is YarnApplicationState.ACCEPTED
    to_start, master = start_master(cluster, node)
    assert to_start.container.id == f"container_{TIMESTAMP}_0001_01_000001"
    assert to_start.launch_context.environment["APP_SUBMIT_TIME_ENV"] == str(TIMESTAMP)
    assert to_start.container.resource == Resource(256, 0)
    report = cluster.app(app_id)
    assert report.state is YarnApplicationState.RUNNING
    assert report.am_container_id == to_start.container.id and report.am_node_id == "h1:1"
    assert report.log_directory == f"/var/lib/yopp/logs/{app_id}"
    master.allocate(progress=0.5, summary=JobSummary(total=4))
    assert cluster.app(app_id).progress == 0.5
    master.finish(diagnostics="all well", summary=JobSummary(total=4, completed=4, exit_code=0))
    report = cluster.app(app_id)
    assert (report.state, report.final_status) == (
        YarnApplicationState.FINISHED,
        FinalApplicationStatus.SUCCEEDED,
    )
    assert report.summary is not None and report.summary.exit_code == 0
    assert attempts(cluster, app_id) == ["FINISHING"]
    assert node.beat().applications_to_cleanup == (), "its master may end by itself"
    node.beat(done(to_start.container))
    assert attempts(cluster, app_id) == ["FINISHED"]
    assert node.beat().applications_to_cleanup == (app_id,)
    node.running_applications = ()
    node.beat()
    assert node.beat().applications_to_cleanup == ()


def test_a_finished_master_that_lingers_is_ended_after_its_grace() -> None:
    cluster = Cluster()
    node = cluster.node()
    app_id = cluster.submit()
    _, master = start_master(cluster, node)
    master.finish()
    cluster.at(4.9)
    assert node.beat().applications_to_cleanup == ()
    cluster.at(5.0)
    assert node.beat().applications_to_cleanup == (app_id,)


def test_a_master_that_exits_unannounced_is_tried_again_and_then_the_application_has_failed() -> None:
    cluster = Cluster(max_attempts=2)
    node = cluster.node()
    app_id = cluster.submit()
    to_start, first = start_master(cluster, node)
    node.beat(done(to_start.container, 1, diagnostics="Traceback"))
    assert cluster.app(app_id).state is YarnApplicationState.ACCEPTED
    to_start, _ = start_master(cluster, node)
    assert to_start.container.id == f"container_{TIMESTAMP}_0001_02_000001"
    assert first.allocate().command == "AM_SHUTDOWN"
    node.beat(done(to_start.container, 137))
    report = cluster.app(app_id)
    assert (report.state, report.final_status, report.attempts) == (
        YarnApplicationState.FAILED,
        FinalApplicationStatus.FAILED,
        2,
    )
    assert "failed 2 times" in report.diagnostics and "137 (SIGKILL)" in report.diagnostics
    assert attempts(cluster, app_id) == ["FAILED", "FAILED"]


def test_the_next_attempt_is_told_how_long_ago_the_first_began() -> None:
    cluster = Cluster()
    node = cluster.node()
    cluster.submit()
    cluster.at(5.0)
    to_start, _ = start_master(cluster, node)
    cluster.at(7.0)
    (to_start,) = node.beat(done(to_start.container, 1)).containers_to_start
    token = Token(**json.loads(to_start.launch_context.files["am-token.json"]))
    attempt_id = to_start.launch_context.environment["APPLICATION_ATTEMPT_ID"]
    request = RegisterApplicationMasterRequest(attempt_id, token)
    assert cluster.ask(request, cluster.connection()).elapsed_ms == 7000


def test_the_first_attempt_has_its_whole_time() -> None:
    cluster = Cluster()
    node = cluster.node()
    app_id = cluster.submit()
    cluster.at(5.0)
    (to_start,) = node.beat().containers_to_start
    token = Token(**json.loads(to_start.launch_context.files["am-token.json"]))
    attempt_id = to_start.launch_context.environment["APPLICATION_ATTEMPT_ID"]
    assert Master(cluster, app_id, attempt_id, token, cluster.connection()).register().elapsed_ms == 0


def test_a_lost_or_preempted_master_costs_no_attempt() -> None:
    cluster = Cluster(max_attempts=1, nm_expiry_interval_ms=1000)
    node = cluster.node()
    app_id = cluster.submit()
    to_start, _ = start_master(cluster, node)
    node.beat(done(to_start.container, -102))
    to_start, _ = start_master(cluster, node)
    cluster.lose(node.connection)
    cluster.at(1.0)
    assert cluster.app(app_id).state is YarnApplicationState.ACCEPTED
    assert attempts(cluster, app_id) == ["FAILED", "FAILED", "SCHEDULED"]
    node.statuses.clear()
    node.running_applications = ()
    node.register()
    assert len(node.beat().containers_to_start) == 1


def test_the_containers_of_a_failed_attempt_end_or_are_handed_on() -> None:
    for keep in (False, True):
        cluster = Cluster()
        node = cluster.node()
        cluster.submit(keep_containers_across_attempts=keep)
        to_start, master = start_master(cluster, node)
        [work] = master.allocate(asks(1)).allocated
        node.beat(status(work))
        response = node.beat(done(to_start.container, 1))
        assert response.containers_to_cleanup == (() if keep else (work.id,))
        [to_start] = response.containers_to_start
        token = Token(**json.loads(to_start.launch_context.files["am-token.json"]))
        attempt_id = to_start.launch_context.environment["APPLICATION_ATTEMPT_ID"]
        handed_on = cluster.ask(
            RegisterApplicationMasterRequest(attempt_id, token), cluster.connection()
        ).containers_from_previous_attempts
        assert [container.id for container in handed_on] == ([work.id] if keep else [])


def test_the_next_attempt_is_told_which_containers_ended_well_that_its_predecessor_had_not_heard_of() -> None:
    cluster = Cluster()
    node = cluster.node()
    cluster.submit()
    to_start, master = start_master(cluster, node)
    before, after, failed, killed = master.allocate(asks(4, Resource(10, 0))).allocated
    node.beat(status(before), status(after), status(failed), status(killed))
    node.beat(done(before, exit_code=0))
    response = node.beat(done(to_start.container, 137), done(failed, 1, exit_code=1))
    assert set(response.containers_to_cleanup) == {after.id, killed.id}
    node.beat(done(after, -105, exit_code=0), done(killed, -105, exit_code=137))
    [to_start] = response.containers_to_start
    token = Token(**json.loads(to_start.launch_context.files["am-token.json"]))
    attempt_id = to_start.launch_context.environment["APPLICATION_ATTEMPT_ID"]
    told = cluster.ask(RegisterApplicationMasterRequest(attempt_id, token), cluster.connection())
    assert set(told.ended_well) == {before.id, after.id}


def test_a_silent_master_expires() -> None:
    cluster = Cluster(am_expiry_interval_ms=2000, max_attempts=1)
    node = cluster.node()
    app_id = cluster.submit()
    to_start, master = start_master(cluster, node)
    cluster.at(1.5)
    master.allocate()
    cluster.at(3.4)
    assert cluster.app(app_id).state is YarnApplicationState.RUNNING
    held = master.send(wait_ms=1900)
    cluster.at(5.3)
    assert master.take(held) is not None
    cluster.at(7.2)
    assert cluster.app(app_id).state is YarnApplicationState.RUNNING, "a held call counts as being alive"
    cluster.at(7.31)
    assert cluster.app(app_id).state is YarnApplicationState.FAILED
    assert "timed out" in cluster.app(app_id).diagnostics
    assert node.beat().applications_to_cleanup == (app_id,)
    node.beat(done(to_start.container, -107))


def test_a_clients_job_outlives_a_lost_connection_for_its_grace() -> None:
    cluster = Cluster(client_am_grace_ms=2000)
    node = cluster.node()
    master = cluster.master()
    [work] = master.allocate(asks(1)).allocated
    node.beat(status(work))
    master.send(wait_ms=60_000)  # its answer, with that news, is lost with the connection
    cluster.lose(master.connection)
    cluster.at(1.9)
    master.connection = cluster.connection()
    again = master.allocate()
    assert again.started == (work.id,)
    cluster.at(10.0)
    assert cluster.app(master.app_id).state is YarnApplicationState.RUNNING
    cluster.lose(master.connection)
    cluster.at(12.0)
    report = cluster.app(master.app_id)
    assert report.state is YarnApplicationState.FAILED
    assert "its client is gone" in report.diagnostics
    node.running_applications = (master.app_id,)
    assert node.beat().applications_to_cleanup == (master.app_id,)


def test_a_client_that_goes_before_it_registers_leaves_nothing() -> None:
    cluster = Cluster()
    context = ApplicationSubmissionContext("", "job", unmanaged=True)
    app_id = cluster.ask(SubmitApplicationRequest(context), 5).application_id
    cluster.lose(5)
    cluster.at(2.0)
    assert cluster.app(app_id).state is YarnApplicationState.FAILED


def test_kill_ends_an_application_in_every_state() -> None:
    cluster = Cluster()
    waiting = cluster.submit()
    node = cluster.node()
    assert cluster.ask(KillApplicationRequest(waiting)).application.state is YarnApplicationState.KILLED
    second = cluster.submit()
    to_start, master = start_master(cluster, node)
    held = master.send(wait_ms=60_000)
    report = cluster.ask(KillApplicationRequest(second, "enough"), user="eve").application
    assert (report.state, report.diagnostics) == (YarnApplicationState.KILLED, "enough")
    assert master.take(held).command == "AM_SHUTDOWN"  # type: ignore[union-attr]
    response = node.beat()
    assert second in response.applications_to_cleanup
    node.beat(done(to_start.container, -107))
    assert cluster.ask(KillApplicationRequest(second, "again")).application.diagnostics == "enough"
    third = cluster.master()
    cluster.ask(KillApplicationRequest(third.app_id), user="eve")
    assert cluster.app(third.app_id).diagnostics == "Application killed by eve."
    with pytest.raises(ApplicationNotFoundError):
        cluster.ask(KillApplicationRequest(f"application_{TIMESTAMP}_0099"))


def test_a_job_may_have_a_time_limit() -> None:
    cluster = Cluster()
    master = cluster.master(timeout_ms=1500)
    cluster.at(1.4)
    assert cluster.app(master.app_id).state is YarnApplicationState.RUNNING
    cluster.at(1.5)
    report = cluster.app(master.app_id)
    assert report.state is YarnApplicationState.KILLED
    assert report.diagnostics == "Application timed out after 1500 ms."


def test_submissions_that_make_no_sense_are_refused() -> None:
    cluster = Cluster()
    cluster.node(total=Resource(1000, 2))
    with pytest.raises(YoppError, match="unknown queue: gold") as caught:
        cluster.submit(queue="gold")
    assert caught.value.exit_code == 66 and "default" in caught.value.because
    with pytest.raises(InvalidResourceRequestError, match="larger than any node"):
        cluster.submit(am_resource=Resource(1001, 1))
    with pytest.raises(InvalidResourceRequestError, match="negative"):
        cluster.submit(am_resource=Resource(-1, 1))
    with pytest.raises(UsageError, match="no master"):
        cluster.submit(am_container_spec=None)
    with pytest.raises(UsageError, match="no master"):
        cluster.submit(am_container_spec=ContainerLaunchContext(()))
    with pytest.raises(UsageError, match="timeout"):
        cluster.submit(timeout_ms=-1)
    with pytest.raises(InvalidStateError, match="not given out"):
        cluster.submit(application_id=f"application_{TIMESTAMP}_0007")


def test_a_repeated_submission_is_the_same_application() -> None:
    cluster = Cluster()
    app_id = cluster.ask(GetNewApplicationRequest()).application_id
    assert cluster.submit(application_id=app_id) == app_id
    assert cluster.submit(application_id=app_id) == app_id
    cluster.ask(KillApplicationRequest(app_id))
    assert cluster.submit(application_id=app_id) == app_id, "as in YARN"
    assert cluster.app(app_id).state is YarnApplicationState.KILLED


def test_tokens_speak_for_their_own_attempt_only() -> None:
    cluster = Cluster()
    one, two = cluster.master(), cluster.master()
    stolen = Master(cluster, two.app_id, two.attempt_id, one.token, 9)
    with pytest.raises(InvalidTokenError):
        stolen.allocate()
    forged = Token(**{**asdict(one.token), "password": "0" * 64})
    with pytest.raises(InvalidTokenError):
        Master(cluster, one.app_id, one.attempt_id, forged, 9).finish()
    with pytest.raises(InvalidStateError, match="registered already"):
        one.register()


def test_a_master_of_an_rms_earlier_life_hears_what_happened() -> None:
    before = Cluster().master()
    attempt_id = before.attempt_id.replace(str(TIMESTAMP), str(TIMESTAMP - 1))
    with pytest.raises(ApplicationNotFoundError) as refused:
        Master(before.cluster, before.app_id, attempt_id, before.token, 9).register()
    assert "was restarted" in refused.value.because


def test_finishing_twice_does_no_harm_and_allocating_after_it_tells_to_end() -> None:
    cluster = Cluster()
    master = cluster.master()
    master.finish(FinalApplicationStatus.FAILED, diagnostics="no luck")
    master.finish()
    report = cluster.app(master.app_id)
    assert (report.state, report.final_status) == (
        YarnApplicationState.FINISHED,
        FinalApplicationStatus.FAILED,
    )
    assert master.allocate().command == "AM_SHUTDOWN"


def test_what_an_ended_application_leaves_running_is_ended_by_its_nodes() -> None:
    cluster = Cluster()
    here, there = cluster.node("h1:1", Resource(1000, 1)), cluster.node("h2:1", Resource(1000, 1))
    master = cluster.master()
    one, two, unclaimed = master.allocate(asks(2), asks(1, execution_type=OPPORTUNISTIC)).allocated
    by_node = {one.node_id: one, two.node_id: two}
    here.beat(status(by_node["h1:1"]))
    there.beat(status(by_node["h2:1"]))
    waiting = here.send(wait_ms=1000)
    master.finish()
    assert here.take(waiting).applications_to_cleanup == (master.app_id,)  # type: ignore[union-attr]
    assert there.beat().applications_to_cleanup == (master.app_id,)
    assert unclaimed.id not in cluster.containers(), "nobody can start it any more"
    assert set(cluster.containers()) == {one.id, two.id}, "they run until their nodes say otherwise"
    late = here.beat(status(unclaimed))
    assert late.containers_to_cleanup == (unclaimed.id,)
    here.beat(done(by_node["h1:1"], -107))
    there.beat(done(by_node["h2:1"], -107))
    assert cluster.containers() == {}


def test_memory_and_vcore_seconds_are_of_what_ran() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    one, two = master.allocate(asks(2, Resource(100, 1))).allocated
    cluster.at(10.0)
    node.beat(status(one))
    cluster.at(13.0)
    node.beat(done(one))
    times = {"started_at_ms": TIMESTAMP + 12_000, "finished_at_ms": TIMESTAMP + 13_000}
    node.beat(done(two, 0, **times))
    report = cluster.app(master.app_id)
    assert (report.memory_seconds, report.vcore_seconds) == (400, 4)


def test_the_history_is_bounded() -> None:
    cluster = Cluster(max_completed_applications=2, max_retained_containers=3)
    node = cluster.node()
    for _ in range(4):
        master = cluster.master()
        for container in master.allocate(asks(2)).allocated:
            node.beat(done(container))
        master.finish()
    assert len(cluster.containers(finished=True)) == 3
    with pytest.raises(ApplicationNotFoundError):
        cluster.app(APP1)
    assert cluster.app(master.app_id).state is YarnApplicationState.FINISHED
