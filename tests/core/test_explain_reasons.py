"""Every reason why something waits, provoked at a ResourceManager: is what it says true, does what it suggests help?

The codes are a promise to programs; the sentences are read here as a person would.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from executor.causes import Cause, CauseKind
from executor.reasons import by_rule
from executor.records import ContainerState, ExecutionType, OpportunisticContainersStatus, Resource
from yarnopp_cli.allocation.opportunistic import OpportunisticContainerAllocator
from yarnopp_cli.records.admin_protocol import (
    DrainNodesRequest,
    ResumeNodesRequest,
    UpdateNodeResourceRequest,
)
from yarnopp_cli.records.client_protocol import ChangeContainerRequest
from yarnopp_cli.records.explanation import ExplainRequest, Explanation, Reason, ReasonCode
from yarnopp_cli.records.reports import NodeState
from yarnopp_cli.records.requests import ContainerUpdateType, UpdateContainerRequest
from yarnopp_cli.records.scheduler_protocol import GetActivitiesRequest
from yarnopp_cli.records.tracker_protocol import NodeAnswer
from yarnopp_cli.resourcemanager.entities import RMApp, RMAppAttempt
from yarnopp_cli.resourcemanager.scheduler.capacity_scheduler import CapacityScheduler
from yarnopp_cli.views.explain.reasons import text

from .node_words import Sight, explain_container, explain_node
from .rm_harness import OPPORTUNISTIC, TIMESTAMP, Cluster, Master, Node, asks, done, queued, status
from .test_explain import NODE, NOW, codes, commands, run, said, told, wait
from .test_rm_queues import tree, two

ONE = Resource(100, 1)


def explain(cluster: Cluster, identifier: str) -> Explanation:
    return cluster.explain(identifier)


def only(found: Explanation, code: ReasonCode) -> Reason:
    assert codes(found) == [code.value], told(found)
    return found.reasons[0]


def test_no_vcores_for_a_guaranteed_ask_says_who_has_them_and_when() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(1000, 2))
    other = cluster.master()
    held = other.allocate(asks(2, ONE, duration_hint_ms=10_000)).allocated
    node.beat(
        *(status(one, started_at_ms=TIMESTAMP, duration_hint_ms=10_000) for one in held),
    )
    cluster.at(4)
    master = cluster.master()
    master.allocate(asks(3, ONE, duration_hint_ms=2000))
    cluster.at(5)
    found = explain(cluster, master.app_id)
    reason = only(found, ReasonCode.NO_VCORES)
    assert (reason.resource, reason.needs, reason.free, reason.total) == ("vcores", 1, 0, 2)
    assert reason.by == tuple(one.id for one in held)
    assert "h1:1 has promised 2 of 2 vcores to 2 guaranteed containers (oldest 1.c1, for 5.0 s)" in (
        told(found)
    )
    # The two end after 5 s more; of the three, two start then and the last 2 s later.
    assert found.estimated_start_ms == TIMESTAMP + 10_000 and found.estimated_last_ms == TIMESTAMP + 12_000
    assert found.estimate == "declared"
    assert "The first may start in about 5.0 s, the last of the 3 in about 7.0 s (declared" in told(found)
    assert found.waited_since_submit_ms == 1000 and found.waited_since_eligible_ms == 1000


def test_asks_of_earlier_applications_come_first() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(1000, 1))
    first = cluster.master()
    [held] = first.allocate(asks(1, ONE, duration_hint_ms=4000)).allocated
    node.beat(status(held, started_at_ms=TIMESTAMP, duration_hint_ms=4000))
    second, third = cluster.master(), cluster.master()
    second.allocate(asks(2, ONE, duration_hint_ms=1000))
    third.allocate(asks(1, ONE, duration_hint_ms=1000))
    assert explain(cluster, third.app_id).estimated_start_ms == TIMESTAMP + 6000
    assert explain(cluster, second.app_id).estimated_start_ms == TIMESTAMP + 4000
    urgent = cluster.master(priority=9)
    urgent.allocate(asks(1, ONE, duration_hint_ms=1000))
    assert explain(cluster, urgent.app_id).estimated_start_ms == TIMESTAMP + 4000
    assert explain(cluster, second.app_id).estimated_start_ms == TIMESTAMP + 5000
    assert explain(cluster, third.app_id).estimated_start_ms == TIMESTAMP + 7000


def test_requests_start_in_the_order_of_the_node_and_at_more_than_one_node() -> None:
    cluster = Cluster()
    nodes = [cluster.node(f"h{number}:1", total=Resource(1000, 1)) for number in (1, 2)]
    first = cluster.master()
    held = first.allocate(asks(2, ONE, duration_hint_ms=4000)).allocated
    for node, one in zip(nodes, held, strict=True):
        node.beat(status(one, started_at_ms=TIMESTAMP, duration_hint_ms=4000))
    second = cluster.master()
    second.allocate(asks(3, ONE, duration_hint_ms=1000))
    found = explain(cluster, second.app_id)
    assert (found.estimated_start_ms, found.estimated_last_ms) == (TIMESTAMP + 4000, TIMESTAMP + 5000)


def test_no_memory() -> None:
    cluster = Cluster()
    cluster.node(total=Resource(1000, 8))
    master = cluster.master()
    [held] = master.allocate(asks(1, Resource(800, 1))).allocated
    master.allocate(asks(1, Resource(400, 1)))
    reason = only(explain(cluster, master.app_id), ReasonCode.NO_MEMORY)
    assert (reason.resource, reason.needs, reason.free, reason.total) == ("memoryMB", 400, 200, 1000)
    assert reason.by == (held.id,) and "needs 400 MB of memory" in text(reason)


def test_behind_others_in_the_queue_of_a_node() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(1000, 1))
    first, second = cluster.master(), cluster.master()
    granted = first.allocate(asks(2, ONE, OPPORTUNISTIC, duration_hint_ms=3000)).allocated
    mine = second.allocate(asks(2, ONE, OPPORTUNISTIC, duration_hint_ms=3000)).allocated
    hint = {"duration_hint_ms": 3000}
    node.beat(
        replace(status(granted[0], started_at_ms=TIMESTAMP), **hint),
        *(replace(queued(one), queued_at_ms=TIMESTAMP, **hint) for one in (granted[1], *mine)),
    )
    found = explain(cluster, second.app_id)
    assert codes(found) == ["NO_VCORES", "BEHIND"]
    assert found.reasons[1].by == (granted[1].id,)
    assert (found.position, found.queue_length) == (2, 3)
    assert (found.estimated_start_ms, found.estimated_last_ms) == (TIMESTAMP + 6000, TIMESTAMP + 9000)
    assert f"2 queue on h1:1; the first, …_{mine[0].id[-6:]}, is 2nd of 3" in told(found)
    # What it suggests first helps: promoted, it is the first in the queue.
    assert commands(found)[0] == f"yopp container promote {mine[0].id}"
    kind = ContainerUpdateType.PROMOTE_EXECUTION_TYPE
    wish = UpdateContainerRequest(mine[0].id, -1, kind, None, ExecutionType.GUARANTEED)
    assert not cluster.ask(ChangeContainerRequest(wish)).pending


def test_places_in_a_queue_are_by_arrival_where_the_node_told_them_long_ago() -> None:
    """A queue moves on, and its node tells nobody: who came later with a smaller number is not before."""
    cluster = Cluster()
    node = cluster.node(total=Resource(1000, 1))
    master = cluster.master()
    a, b, c, d = master.allocate(asks(4, ONE, OPPORTUNISTIC)).allocated
    node.beat(
        status(a),
        *(replace(queued(one), queued_at_ms=1000 + n, position=n) for n, one in enumerate((b, c), 1)),
    )
    node.beat(done(a), status(b), replace(queued(d), queued_at_ms=2000, position=2))
    assert explain(cluster, c.id).position == 1 and explain(cluster, d.id).position == 2
    node.beat(done(b), status(c))
    assert explain(cluster, d.id).position == 1


def test_paused_for_guaranteed_ones() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(1000, 1))
    master = cluster.master()
    [soft] = master.allocate(asks(1, ONE, OPPORTUNISTIC)).allocated
    node.beat(status(soft))
    [hard] = master.allocate(asks(1, ONE, duration_hint_ms=8000)).allocated
    paused = status(
        soft, ContainerState.PAUSED, started_at_ms=TIMESTAMP - 1000, paused_at_ms=TIMESTAMP,
        cause=Cause(CauseKind.MAKE_ROOM), duration_hint_ms=5000,
    )  # fmt: skip
    node.beat(paused, status(hard, started_at_ms=TIMESTAMP, duration_hint_ms=8000))
    reason = only(explain(cluster, master.app_id), ReasonCode.PAUSED_FOR)
    assert reason.by == (hard.id,) and (reason.needs, reason.free, reason.total) == (1, 0, 1)
    found = explain(cluster, soft.id)
    assert only(found, ReasonCode.PAUSED_FOR).by == (hard.id,)
    assert found.estimated_start_ms == TIMESTAMP + 8000 and "It resumes in about 8.0 s (declared" in told(
        found
    )
    assert commands(found) == [f"yopp container kill {soft.id}"], "there is nothing to promise it"


def test_paused_by_a_person() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(1000, 2))
    master = cluster.master()
    [one] = master.allocate(asks(1, ONE)).allocated
    node.beat(status(one, ContainerState.PAUSED, cause=Cause(CauseKind.PERSON, by="ada"), paused_at_ms=1))
    found = explain(cluster, master.app_id)
    only(found, ReasonCode.PAUSED_BY_PERSON)
    assert commands(found)[0] == f"yopp container resume {one.id}"


def test_queue_capacity_of_a_queue_and_of_its_parent() -> None:
    cluster = Cluster(queues=two(maximum_capacity=50))
    cluster.node(total=Resource(1000, 4))
    master = cluster.master(queue="a")
    assert len(master.allocate(asks(4, ONE)).allocated) == 2
    found = explain(cluster, master.app_id)
    reason = only(found, ReasonCode.QUEUE_CAPACITY)
    assert (reason.resource, reason.needs, reason.free, reason.total) == ("vcores", 1, 0, 2)
    assert "queue root.a uses 2 vcores, 200 MB of its maximum-capacity, 2 vcores, 500 MB" in said(
        found, reason
    )
    assert not found.estimated_start_ms, "room on a node would not help"
    assert commands(found)[:2] == ["yopp queue status root.a", f"yopp app queue {master.app_id} QUEUE"]


def test_user_limit() -> None:
    queues = tree(root="a", root_a={"capacity": 100.0, "user_limit_factor": 0.5})
    cluster = Cluster(queues=queues)
    cluster.node(total=Resource(1000, 4))
    master = cluster.master("ada", queue="a")
    assert len(master.allocate(asks(4, ONE)).allocated) == 2
    reason = only(explain(cluster, master.app_id), ReasonCode.USER_LIMIT)
    assert (reason.needs, reason.free, reason.total) == (1, 0, 2)
    assert "user ada uses 2 vcores, 200 MB of the 2 vcores" in text(reason) and "queue root.a" in text(reason)


def test_no_node_for_a_label_a_blacklist_a_place() -> None:
    cluster = Cluster()
    gone = cluster.node("h2:1", labels=("gpu",))
    cluster.node("h1:1")
    master = cluster.master()
    master.allocate(asks(1, ONE, node_label_expression="gpu"), blacklist_additions=("h2",))
    reason = only(explain(cluster, master.app_id), ReasonCode.NO_NODE)
    assert text(reason) == "its master has blacklisted h2:1, and there is no other node"
    gone.unregister()
    found = explain(cluster, master.app_id)
    assert "No node has the requested label gpu: no node has a label." in told(found)
    assert not found.satisfiable and "yopp node list -a" in commands(found)
    cluster.node("h3:1", labels=("gpu",))
    assert explain(cluster, master.app_id).satisfiable
    strict = cluster.master()
    leaves = cluster.node("h9:1", total=Resource(1000, 1))
    strict.allocate(asks(2, ONE, resource_name="h9", relax_locality=False))
    leaves.unregister()
    reason = only(explain(cluster, strict.app_id), ReasonCode.NO_NODE)
    assert said(found, reason) == "it may run on h9 only, and the nodes are h1:1"


@pytest.mark.parametrize("kind", list(ExecutionType))
def test_a_drained_node_and_what_is_suggested_helps(kind: ExecutionType) -> None:
    cluster = Cluster()
    cluster.node("h1:1")
    master = cluster.master()
    cluster.ask(DrainNodesRequest(("h1:1",), -1))
    master.allocate(asks(1, ONE, kind))
    found = explain(cluster, master.app_id)
    reason = only(found, ReasonCode.NODE_DRAINING)
    assert said(found, reason) == "h1:1 is drained: nothing new is scheduled there" and found.satisfiable
    assert commands(found)[0] == "yopp node resume h1:1"
    node = explain(cluster, "h1:1")
    assert codes(node) == ["NODE_DRAINING"] and commands(node)[0] == "yopp node resume h1:1"
    cluster.ask(ResumeNodesRequest(("h1:1",)))
    cluster.node("h1:1")
    assert len(master.allocate().allocated) == 1


def test_what_is_too_big_for_every_node_and_a_larger_node_helps() -> None:
    cluster = Cluster()
    large = cluster.node("h2:2", total=Resource(4000, 4))
    master, other = cluster.master(), cluster.master()
    master.allocate(asks(1, Resource(100, 4)))
    other.allocate(asks(1, Resource(100, 4)))
    small = cluster.node("h1:1", total=Resource(1000, 1))
    large.unregister()
    found = explain(cluster, other.app_id)
    reason = only(found, ReasonCode.TOO_BIG)
    assert (reason.resource, reason.needs, reason.total) == ("vcores", 4, 1) and not found.satisfiable
    assert "it needs 4 vcores, 100 MB, and the only node for it, h1:1, has 1 vcore, 1000 MB in all" in said(
        found, reason
    )
    [command] = [one for one in commands(found) if "resize" in one]
    assert command == "yopp node resize --memory 1000 --vcores 4 h1:1"
    cluster.ask(UpdateNodeResourceRequest({"h1:1": Resource(1000, 4)}))
    small.beat()
    assert len(master.allocate().allocated) + len(other.allocate().allocated) == 1


def test_a_master_that_has_no_container_or_does_not_speak() -> None:
    cluster = Cluster()
    app_id = cluster.submit()
    found = explain(cluster, app_id)
    assert codes(found) == ["AM_PENDING", "NO_NODE"] and "there is no node" in said(found, found.reasons[1])
    node = cluster.node()
    found = explain(cluster, app_id)
    assert codes(found) == ["AM_PENDING"] and "container is on h1:1" in told(found)
    [master] = found.reasons[0].by
    pending = explain(cluster, master)
    assert codes(pending) == ["AM_PENDING"] and "its node has not started it yet" in told(pending)
    node.beat(status(next(one for one in cluster.containers().values())))
    assert "is not waiting" in told(explain(cluster, master))


def test_granted_and_never_started_is_its_masters_matter() -> None:
    cluster = Cluster(heard=False)
    node = cluster.node()
    master = cluster.master()
    [one] = master.allocate(asks(1, ONE)).allocated
    cluster.at(5)
    silent = only(explain(cluster, master.app_id), ReasonCode.NODE_UNUSABLE)
    assert text(silent) == "h1:1 is silent: no heartbeat for 5 s", "nobody knows what its master has started"
    assert commands(explain(cluster, master.app_id))[0] == "yopp nm start 1"
    granted = explain(cluster, one.id)
    assert commands(granted) == ["yopp nm start 1", f"yopp app kill {master.app_id}"]
    node.beat()
    found = explain(cluster, master.app_id)
    assert only(found, ReasonCode.AM_PENDING).by == (one.id,) and "its master has to start them" in told(
        found
    )


def test_a_node_that_is_unhealthy_silent_or_gone() -> None:
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master()
    [one] = master.allocate(asks(1, ONE, OPPORTUNISTIC)).allocated
    node.beat(status(one), healthy=False, health_report="no space left on /var")
    found = explain(cluster, "h1:1")
    assert text(only(found, ReasonCode.NODE_UNUSABLE)) == "h1:1 is UNHEALTHY: no space left on /var"
    assert commands(found)[0] == "yopp doctor"
    master.allocate(asks(1, ONE))
    reason = only(explain(cluster, master.app_id), ReasonCode.NODE_UNUSABLE)
    assert "no space left" in said(found, reason)
    cluster.lose(node.connection)
    assert "h1:1 is UNHEALTHY" in told(explain(cluster, "h1:1"))
    node.beat(status(one), healthy=True)
    lost = explain_container(run(1), Sight(replace(NODE, state=NodeState.LOST), []), NOW)
    assert only(lost, ReasonCode.NODE_LOST) and commands(lost) == ["yopp up"] and not lost.satisfiable


def test_the_start_of_a_silent_node_is_offered_to_what_waits_there() -> None:
    silent = replace(NODE, connected=False)
    paused = run(2, state=ContainerState.PAUSED, paused_at_ms=NOW - 3000, cause=Cause(CauseKind.MAKE_ROOM))
    for one in (wait(1, 1), paused):
        assert commands(explain_container(one, Sight(silent, [one]), NOW))[0] == "yopp nm start 1"
        assert "yopp nm start 1" not in commands(explain_container(one, Sight(NODE, [one]), NOW))


def test_the_rest_of_the_machine_is_busy() -> None:
    """The kernel's figures say so: nobody has the vcores, and yet nothing opportunistic may start on them."""
    pressed = replace(
        NODE, opportunistic=OpportunisticContainersStatus(queue_capacity=10, queued=1, lent_vcores=-2)
    )
    one = wait(1, 1)
    sight = Sight(pressed, [one])
    found = explain_container(one, sight, NOW)
    reason = only(found, ReasonCode.PRESSURE)
    assert (reason.needs, reason.free, reason.total) == (1, 0, 2) and not found.estimated_start_ms
    assert "busy: 0 vcores are left to opportunistic containers." in told(found)
    assert "Start time unknown: it depends on other programs." in told(found)
    assert commands(found)[0].startswith("yopp container promote"), "pressure pauses no guaranteed one"
    assert codes(explain_node(sight, NOW)) == ["PRESSURE"]
    assert "First in its queue is 1.c1: it waits until that is over." in told(explain_node(sight, NOW))
    stalls = replace(pressed, opportunistic=replace(pressed.opportunistic, lent_vcores=0, lent_memory=-4096))
    only_memory = "busy: 0 MB of memory are left to opportunistic containers."
    assert only_memory in told(explain_container(one, Sight(stalls, [one]), NOW))
    assert only_memory in told(explain_node(Sight(stalls, [one]), NOW))
    yields = run(2, paused_at_ms=NOW - 3000, cause=Cause(CauseKind.OUTSIDE_CPU, cores=2))
    yields = replace(yields, state=ContainerState.PAUSED)
    found = explain_container(yields, Sight(pressed, [yields]), NOW)
    assert codes(found) == ["PRESSURE"] and "It resumes by itself when that is over." in told(found)


def test_it_is_not_the_time_of_day_for_opportunistic_containers() -> None:
    status = OpportunisticContainersStatus(
        queue_capacity=10, queued=1, lent_vcores=-2, closed_until_ms=NOW + 3_600_000
    )
    closed = replace(NODE, opportunistic=status)
    one = wait(1, 1)
    sight = Sight(closed, [one])
    found = explain_container(one, sight, NOW)
    assert only(found, ReasonCode.WINDOW).at_ms == NOW + 3_600_000 and not found.estimated_start_ms
    assert "do not run before 2" in told(found) and ": yopp.nodemanager.opportunistic.window" in told(found)
    assert "Start time unknown: the window for opportunistic containers is closed." in told(found)
    assert commands(found)[0].startswith("yopp container promote"), "guaranteed ones may run"
    assert codes(explain_node(sight, NOW)) == ["WINDOW"]
    stands = run(2, paused_at_ms=NOW - 3000, cause=Cause(CauseKind.OUTSIDE_WINDOW, until_ms=NOW + 60_000))
    stands = replace(stands, state=ContainerState.PAUSED)
    found = explain_container(stands, Sight(closed, [stands]), NOW)
    assert codes(found) == ["WINDOW"] and "It resumes by itself when that is over." in told(found)
    guaranteed = replace(wait(3, 1), execution_type=ExecutionType.GUARANTEED)
    assert codes(explain_container(guaranteed, Sight(closed, [guaranteed]), NOW)) != ["WINDOW"]


def test_a_node_that_is_full_of_guaranteed_ones_or_of_waiting_ones() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(1000, 1), queue_capacity=1)
    master = cluster.master()
    hard = master.allocate(asks(1, ONE)).allocated
    soft = master.allocate(asks(1, ONE, OPPORTUNISTIC)).allocated
    node.beat(*map(status, hard), *map(queued, soft))
    found = explain(cluster, "h1:1")
    assert codes(found) == ["QUEUE_CAPACITY", "NO_VCORES", "NO_VCORES"]
    assert "its queue is full: 1 of 1" in said(found, found.reasons[0]) and found.reasons[1].by == (
        hard[0].id,
    )
    assert f"yopp explain {soft[0].id}" in commands(found)


def test_eligible_is_when_it_was_asked_for_and_not_when_its_application_came() -> None:
    cluster = Cluster()
    node = cluster.node(total=Resource(1000, 1))
    master = cluster.master()
    cluster.at(7)
    [first] = master.allocate(asks(1, ONE)).allocated
    node.beat(status(first, started_at_ms=TIMESTAMP + 7000))
    master.allocate(asks(1, ONE))
    cluster.at(9)
    node.beat(done(first, started_at_ms=TIMESTAMP + 7000, finished_at_ms=TIMESTAMP + 9000))
    [second] = master.allocate().allocated
    report = cluster.containers()[second.id]
    assert report.submitted_at_ms == TIMESTAMP and report.eligible_at_ms == TIMESTAMP + 7000
    assert report.allocated_at_ms == TIMESTAMP + 9000
    cluster.at(10)
    found = explain(cluster, second.id)
    assert (found.waited_since_eligible_ms, found.waited_since_submit_ms) == (3000, 10_000)
    node.beat(status(second, started_at_ms=TIMESTAMP + 10_000))
    cluster.at(20)
    found = explain(cluster, second.id)
    assert (found.waited_since_eligible_ms, found.waited_since_submit_ms) == (3000, 10_000), (
        "it waits no more"
    )


@pytest.mark.parametrize("kind", list(ExecutionType))
def test_a_rule_nobody_has_heard_of_is_explained_by_the_reason_that_it_returns(
    kind: ExecutionType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cap of containers by application, added to the decision of either scheduler."""
    rule = by_rule("MAX_CONTAINERS", "an application may have one container")

    def of_queues(self: CapacityScheduler, app: RMApp, need: Resource, **more: object) -> Reason | None:
        return rule if app.attempt.containers else None

    def of_nodes(self: OpportunisticContainerAllocator[RMAppAttempt], attempt: RMAppAttempt) -> Reason | None:
        return rule if attempt.containers else None

    monkeypatch.setattr(CapacityScheduler, "refuses", of_queues)
    monkeypatch.setattr(OpportunisticContainerAllocator, "refuses", of_nodes)
    cluster = Cluster()
    node = cluster.node(total=Resource(1000, 4))
    master = cluster.master()
    [granted] = master.allocate(asks(3, ONE, kind)).allocated
    node.beat(status(granted))
    found = explain(cluster, master.app_id)
    assert codes(found) == ["MAX_CONTAINERS"] and "n application may have one container" in told(found)
    (activity,) = cluster.ask(GetActivitiesRequest(master.app_id)).applications
    (request,) = activity.requests
    assert rule in (request.limit, request.nodes[0].reason)


def waiting_behind_one() -> tuple[Cluster, Node, Master]:
    """One container runs, one queues."""
    cluster = Cluster()
    node = cluster.node(total=Resource(1000, 1))
    master = cluster.master()
    first, second = master.allocate(asks(2, ONE, OPPORTUNISTIC)).allocated
    node.beat(status(first), queued(second))
    return cluster, node, master


def test_a_node_that_does_not_answer_in_time_is_unknown_and_nothing_else_waits_for_it() -> None:
    cluster, node, master = waiting_behind_one()
    held = node.send(wait_ms=10_000)
    asked = cluster.send(ExplainRequest(master.app_id))
    response = node.take(held)
    assert response is not None and len(response.questions) == 1, "it hears of the question at once"
    assert cluster.ask(GetActivitiesRequest(master.app_id)).applications
    cluster.at(1.9)
    assert not cluster.answered(asked)
    cluster.at(2.0)
    found = cluster.take(asked)
    assert codes(found) == ["UNKNOWN"] and "its node has not said why within 2 s" in told(found)
    assert not found.start and found.satisfiable
    node.beat(answers=(NodeAnswer(response.questions[0].number, waiting=9),))  # too late, and heard by nobody
    failed = cluster.send(ExplainRequest(master.app_id))
    (question,) = node.beat().questions
    node.beat(answers=(NodeAnswer(question.number, failed="no more processes"),))
    assert codes(cluster.take(failed)) == ["UNKNOWN"], "it is not concluded from what it lacks"


def test_who_has_gone_is_not_answered_and_another_node_answers_for_nobody() -> None:
    cluster, node, master = waiting_behind_one()
    other = cluster.node("h2:1")
    asked = cluster.send(ExplainRequest(master.app_id), connection=77)
    (question,) = node.beat().questions
    other.beat(answers=(NodeAnswer(question.number, waiting=9),))
    assert not cluster.answered(asked)
    cluster.lose(77)
    node.beat(answers=(node.answer(question),))
    cluster.at(3.0)
    assert not cluster.answered(asked)


@pytest.mark.parametrize("place", [1, 2])
def test_the_order_and_a_rule_of_the_node_are_those_that_the_node_says(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ResourceManager knows neither: it tells what it is told."""
    cluster, node, _ = waiting_behind_one()
    rule = by_rule("MAX_RUNNING", "at most 1 opportunistic container runs here")
    (second,) = (one for one in cluster.containers().values() if one.state is ContainerState.SCHEDULED)
    asked = cluster.send(ExplainRequest(second.container_id))
    (question,) = node.beat().questions
    status_of = replace(queued(second), position=place, why=(rule,))
    node.beat(answers=(NodeAnswer(question.number, (status_of,), 2),))
    found = cluster.take(asked)
    assert codes(found) == ["MAX_RUNNING"] and (found.position, found.queue_length) == (place, 2)
    assert "but at most 1 opportunistic container runs here" in told(found) and "any moment" not in told(
        found
    )


@pytest.mark.parametrize("state", [one for one in ContainerState if one is not ContainerState.DONE])
def test_a_container_in_any_state_is_explained_whether_its_node_answers_or_not(state: ContainerState) -> None:
    for answers in (False, True):
        cluster, node, master = waiting_behind_one()
        (second,) = (one for one in cluster.containers().values() if one.state is ContainerState.SCHEDULED)
        node.beat(status(second, state))
        for name in (second.container_id, master.app_id, node.name):
            if answers:
                found = explain(cluster, name)
            else:
                asked = cluster.send(ExplainRequest(name))
                cluster.at(cluster.now + 2.0)
                found = cluster.take(asked)
            assert told(found) and found.id == name
            if name == second.container_id and state in (ContainerState.SCHEDULED, ContainerState.PAUSED):
                assert ("UNKNOWN" in codes(found)) is not answers


def test_what_has_started_since_is_no_container_that_waits_without_a_reason() -> None:
    cluster, node, master = waiting_behind_one()
    (second,) = (one for one in cluster.containers().values() if one.state is ContainerState.SCHEDULED)
    asked = cluster.send(ExplainRequest(master.app_id))
    (question,) = node.beat().questions
    node.beat(status(second), answers=(NodeAnswer(question.number),))
    found = cluster.take(asked)
    assert not found.waits and "2 running" in told(found), told(found)
