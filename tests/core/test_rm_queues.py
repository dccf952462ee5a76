"""Queues of guaranteed containers: shares, elasticity, limits of users and masters, order, moves, reports."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executor.records import Resource
from yarnopp_cli.errors import AccessDeniedError, InvalidResourceRequestError, InvalidStateError, RemoteError
from yarnopp_cli.records.client_protocol import (
    GetQueueInfoRequest,
    MoveApplicationRequest,
    UpdateApplicationPriorityRequest,
)
from yarnopp_cli.records.job_protocol import SubmitApplicationRequest
from yarnopp_cli.records.reports import QueueReport
from yarnopp_cli.records.requests import (
    ApplicationSubmissionContext,
    ContainerUpdateType,
    UpdateContainerRequest,
)
from yarnopp_cli.resourcemanager.scheduler.capacity_scheduler import MAX_OVERTAKES
from yarnopp_cli.resourcemanager.scheduler.queues import QueueTree, apportion
from yarnopp_cli.settings.queue_properties import KEYS, queue_tree
from yarnopp_cli.settings.queues import QUEUE_PREFIX as PREFIX
from yarnopp_cli.settings.queues import CapacitySchedulerSettings, QueueSettings

from .rm_harness import GUARANTEED, OPPORTUNISTIC, Cluster, Master, asks, done, status

ONE = Resource(100, 1)


def tree(**given: dict[str, Any] | str) -> QueueSettings:
    """Queues by path with underscores ("root_a"), with their keys ("user_limit_factor")."""
    values: dict[str, Any] = {}
    for path, keys in given.items():
        for key, value in (keys if isinstance(keys, dict) else {"queues": keys}).items():
            name = key if key in KEYS else key.replace("_", "-")
            assert name in KEYS
            values[f"{PREFIX}{path.replace('_', '.')}.{name}"] = value
    found, problems = queue_tree(values)
    assert not problems, problems
    return found


def two(capacity: float = 50, **more: Any) -> QueueSettings:
    """Queues a and b; ``more`` holds for both."""
    keys: dict[str, Any] = {"user_limit_factor": -1.0, **more}
    return tree(
        root="a,b", root_a={"capacity": capacity, **keys}, root_b={"capacity": 100 - capacity, **keys}
    )


def report(cluster: Cluster, name: str) -> QueueReport:
    return cluster.ask(GetQueueInfoRequest(name)).queues[0]  # type: ignore[no-any-return]


def used(cluster: Cluster) -> dict[str, int]:
    """vcores used, by queue."""
    return {one.path: one.used.vcores for one in cluster.ask(GetQueueInfoRequest()).queues}


# -- shares --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "percents", "parts"),
    [
        (2, [70, 30], [1, 1]),
        (2, [90, 10], [2, 0]),
        (3, [50, 50], [2, 1]),
        (10, [33.3, 33.3, 33.4], [3, 3, 4]),
        (0, [50, 50], [0, 0]),
        (7, [100], [7]),
        (100, [12.5, 87.5], [13, 87]),
    ],
)
def test_shares_are_whole_and_sum_to_what_there_is(
    total: int, percents: list[float], parts: list[int]
) -> None:
    assert apportion(total, percents) == parts


@given(st.integers(0, 10_000), st.lists(st.integers(0, 100), min_size=1, max_size=8))
def test_no_more_is_promised_than_there_is(total: int, weights: list[int]) -> None:
    if not sum(weights):
        return
    percents = [100 * weight / sum(weights) for weight in weights]
    parts = apportion(total, percents)
    assert sum(parts) == total
    assert all(abs(part - total * percent / 100) <= 1 for part, percent in zip(parts, percents, strict=True))


def test_shares_below_shares() -> None:
    queues = QueueTree(
        tree(
            root="a,b",
            root_a={"capacity": 60.0, "maximum_capacity": 80.0, "queues": "x,y"},
            root_b={"capacity": 40.0},
            root_a_x={"capacity": 25.0, "maximum_capacity": 50.0},
            root_a_y={"capacity": 75.0},
        )
    )
    queues.resize(Resource(1000, 20))
    shown = {path: (queue.guaranteed, queue.maximum) for path, queue in queues.by_path.items()}
    assert shown == {
        "root": (Resource(1000, 20), Resource(1000, 20)),
        "root.a": (Resource(600, 12), Resource(800, 16)),
        "root.a.x": (Resource(150, 3), Resource(400, 8)),
        "root.a.y": (Resource(450, 9), Resource(800, 16)),
        "root.b": (Resource(400, 8), Resource(1000, 20)),
    }


def test_queues_share_by_capacity_and_what_one_leaves_the_other_takes() -> None:
    cluster = Cluster(queues=two(75))
    node = cluster.node(total=Resource(4000, 8))
    a, b = cluster.master(queue="a"), cluster.master(queue="b")
    alone = b.allocate(asks(20, ONE)).allocated
    assert len(alone) == 8, "b takes what a leaves idle"
    a.allocate(asks(20, ONE))
    node.beat(*map(status, alone))
    for container in alone:
        node.beat(done(container))
    assert used(cluster) == {"root": 8, "root.a": 6, "root.b": 2}


def test_a_maximum_holds_even_where_nothing_else_runs() -> None:
    cluster = Cluster(queues=two(25, maximum_capacity=75))
    cluster.node(total=Resource(4000, 8))
    assert len(cluster.master(queue="a").allocate(asks(20, ONE)).allocated) == 6
    shown = report(cluster, "a")
    assert (shown.guaranteed.vcores, shown.maximum.vcores, shown.used_capacity) == (2, 6, 300.0)
    assert (shown.absolute_capacity, shown.absolute_maximum_capacity) == (25.0, 75.0)


def test_a_parents_maximum_holds_for_all_below_it() -> None:
    queues = tree(
        root="a,b",
        root_a={"capacity": 50.0, "maximum_capacity": 50.0, "queues": "x,y"},
        root_b={"capacity": 50.0},
        root_a_x={"capacity": 50.0, "user_limit_factor": -1.0},
        root_a_y={"capacity": 50.0, "user_limit_factor": -1.0},
    )
    cluster = Cluster(queues=queues)
    cluster.node(total=Resource(4000, 8))
    assert len(cluster.master(queue="x").allocate(asks(3, ONE)).allocated) == 3
    assert len(cluster.master(queue="y").allocate(asks(3, ONE)).allocated) == 1


def test_a_promotion_is_held_to_the_maximum() -> None:
    cluster = Cluster(queues=two(50, maximum_capacity=50), auto_update_containers=True)
    node = cluster.node(total=Resource(4000, 2))
    master = cluster.master(queue="a")
    [guaranteed] = master.allocate(asks(2, ONE)).allocated
    [free] = master.allocate(asks(1, ONE, OPPORTUNISTIC)).allocated
    node.beat(status(guaranteed), status(free))
    wish = UpdateContainerRequest(
        free.id, 0, ContainerUpdateType.PROMOTE_EXECUTION_TYPE, execution_type=GUARANTEED
    )
    assert master.allocate(asks(0, ONE), updates=(wish,)).updated == ()
    node.beat(done(guaranteed))
    assert [update.container.execution_type for update in master.allocate().updated] == [GUARANTEED]


def test_an_ask_that_its_queue_may_never_have_is_refused() -> None:
    cluster = Cluster(queues=two(25, maximum_capacity=75))
    early = cluster.master(queue="a")
    early.allocate(asks(1, Resource(100, 7)))
    cluster.node(total=Resource(4000, 8))
    master = cluster.master(queue="a")
    with pytest.raises(InvalidResourceRequestError, match=r"larger than queue root\.a may ever be") as raised:
        master.allocate(asks(1, Resource(100, 7)))
    assert "<memory:3000, vCores:6>" in raised.value.because
    assert master.allocate(asks(1, Resource(100, 7), OPPORTUNISTIC)).allocated, "no queue bounds these"
    cluster.at(5)
    with pytest.raises(InvalidResourceRequestError):
        early.allocate()
    with pytest.raises(InvalidResourceRequestError):
        cluster.submit(queue="a", am_resource=Resource(3001, 0))


def test_an_ask_that_its_full_queue_keeps_waiting_is_not_overtaken_for_ever() -> None:
    cluster = Cluster(queues=two(50, maximum_capacity=50))
    node = cluster.node(total=Resource(100_000, 8))
    small, large = cluster.master(queue="a", priority=0), cluster.master(queue="a", priority=1)
    running = list(small.allocate(asks(4, ONE)).allocated)
    node.beat(*map(status, running))
    large.allocate(asks(1, Resource(100, 4)))
    small.allocate(asks(1000, ONE))
    overtaken = 0
    while running and overtaken < MAX_OVERTAKES + 20:
        overtaken += 1
        node.beat(done(running.pop(0)))
        running += small.allocate().allocated
        if running:
            node.beat(status(running[-1]))
    assert MAX_OVERTAKES < overtaken <= MAX_OVERTAKES + 4
    assert len(large.allocate().allocated) == 1


# -- users ---------------------------------------------------------------------------------------------------


def test_one_user_gets_the_capacity_times_the_factor() -> None:
    for factor, expected in ((1.0, 4), (1.5, 6), (0.25, 1), (-1.0, 8)):
        cluster = Cluster(queues=two(50, user_limit_factor=factor))
        cluster.node(total=Resource(4000, 8))
        assert len(cluster.master(queue="a").allocate(asks(20, ONE)).allocated) == expected, factor


def test_users_share_a_queue_down_to_the_minimum_percentage() -> None:
    """YARN's example: with 25 two users get 50 % each, three 33.3 %, and a fifth waits."""
    for users, expected in ((1, [12]), (2, [6, 6]), (3, [4, 4, 4]), (4, [3] * 4), (5, [3, 3, 3, 3, 0])):
        queues = two(50, maximum_capacity=50, minimum_user_limit_percent=25)
        cluster = Cluster(queues=queues)
        masters = [cluster.master(as_user=f"u{number}", queue="a") for number in range(users)]
        for master in masters:
            master.allocate(asks(20, ONE))
        cluster.node(total=Resource(100_000, 24))
        assert [len(master.allocate().allocated) for master in masters] == expected


def test_a_user_grows_beyond_the_capacity_of_one_dimension_while_within_that_of_the_other() -> None:
    cluster = Cluster(queues=two(70))
    cluster.node(total=Resource(1024, 2))
    assert len(cluster.master(queue="b").allocate(asks(2, Resource(200, 1))).allocated) == 2, (
        "of 307 MB and 1 vcore"
    )


def test_a_user_always_may_have_one_container() -> None:
    cluster = Cluster(queues=two(10, user_limit_factor=1.0))
    cluster.node(total=Resource(4000, 2))
    assert report(cluster, "a").guaranteed.vcores == 0
    assert len(cluster.master(queue="a").allocate(asks(5, ONE)).allocated) == 1


def test_masters_take_no_more_than_their_part_and_one_always_starts() -> None:
    cluster = Cluster(queues=two(50, maximum_capacity=50, maximum_am_resource_percent=0.5))
    node = cluster.node(total=Resource(800, 100))
    apps = [cluster.submit(queue="a", am_resource=Resource(100, 0)) for _ in range(4)]
    masters = [one for one in cluster.containers().values() if one.is_am]
    assert len(masters) == 2, "half of half of 800 MB"
    node.beat(*map(status, masters))
    assert [bool(cluster.app(app).am_container_id) for app in apps] == [True, True, False, False]
    tiny = Cluster(capacity=CapacitySchedulerSettings(maximum_am_resource_percent=0.01))
    tiny.node(total=Resource(800, 100))
    tiny.submit(am_resource=Resource(100, 0))
    tiny.submit(am_resource=Resource(100, 0))
    assert len(tiny.containers()) == 1


def test_what_a_queue_without_capacity_uses_is_in_percent_of_the_cluster() -> None:
    cluster = Cluster(queues=two(100))
    cluster.node(total=Resource(1024, 2))
    master = cluster.master(queue="b")
    assert len(master.allocate(asks(2, ONE)).allocated) == 2
    b, app = report(cluster, "b"), cluster.app(master.app_id)
    assert (b.absolute_capacity, b.used_capacity, b.absolute_used_capacity) == (0, 100, 100)
    assert (app.usage.queue_percent, app.usage.cluster_percent) == (100, 100)
    assert report(cluster, "root").used_capacity == 100 and report(cluster, "a").used_capacity == 0


# -- order ---------------------------------------------------------------------------------------------------


def test_dominant_resource_fairness_has_the_papers_figures() -> None:
    """Ghodsi et al., NSDI 2011, section 4.1: 9 CPUs and 18 GB, tasks of <1 CPU, 4 GB> and <3 CPU, 1 GB>: 3 and 2."""
    queues = tree(root_default={"ordering_policy": "fair"})
    cluster = Cluster(queues=queues)
    a, b = cluster.master(), cluster.master()
    a.allocate(asks(20, Resource(4096, 1)))
    b.allocate(asks(20, Resource(1024, 3)))
    cluster.node(total=Resource(18 * 1024, 9))
    assert (len(a.allocate().allocated), len(b.allocate().allocated)) == (3, 2)


def test_fifo_serves_in_order_of_submission_and_fair_shares_and_priority_is_before_both() -> None:
    for policy, priorities, expected in (
        ("fifo", (0, 0), (6, 0)),
        ("fair", (0, 0), (3, 3)),
        ("fair", (0, 1), (0, 6)),
    ):
        cluster = Cluster(queues=two(50, ordering_policy=policy))
        masters = [cluster.master(queue="a", priority=priority) for priority in priorities]
        for master in masters:
            master.allocate(asks(20, ONE))
        cluster.node(total=Resource(4000, 6))
        assert tuple(len(master.allocate().allocated) for master in masters) == expected


def test_users_take_turns_and_one_users_thousand_tasks_wait_behind_anothers_one() -> None:
    """YARN serves all users in one order; so does a queue with limits for users, and one where that was chosen."""
    yarns = CapacitySchedulerSettings(users_in_turn=False)
    for more, capacity, expected in (
        ({}, None, [4, 1, 3]),
        ({"ordering_policy": "fair"}, None, [4, 1, 3]),
        ({}, yarns, [8, 0, 0]),
        ({"minimum_user_limit_percent": 50}, None, [4, 1, 3]),
    ):
        cluster = Cluster(queues=two(100, **more), capacity=capacity)
        many, own, other = (cluster.master(as_user=user, queue="a") for user in ("bob", "ada", "ada"))
        for master, number in ((many, 1000), (own, 1), (other, 1000)):
            master.allocate(asks(number, ONE))
        cluster.node(total=Resource(4000, 8))
        assert [len(master.allocate().allocated) for master in (many, own, other)] == expected, more
    cluster = Cluster()
    node = cluster.node(total=Resource(4000, 2))
    many = cluster.master(as_user="bob")
    running = many.allocate(asks(1000, ONE)).allocated
    late = cluster.master(as_user="ada")
    assert len(running) == 2 and not late.allocate(asks(1, ONE)).allocated
    node.beat(done(running[0]))
    assert len(late.allocate().allocated) == 1, "with the default queue, too"


def test_a_guest_has_no_priority_unless_the_queue_gives_it() -> None:
    acl = "[user=ada max_priority=4 default_priority=1], [user=* max_priority=2]"
    a = {"capacity": 40, "default-application-priority": 3}
    parent = {"capacity": 30, "queues": "b", "acl_application_max_priority": acl}
    queues = tree(root="a,p,z", root_a=a, root_p=parent, root_p_b={}, root_z={"capacity": 30})
    cluster = Cluster(queues=queues)
    cases = (
        (9, True, "z", "ada", 0), (-9, True, "z", "ada", -9), (9, False, "z", "ada", 9), (99, False, "z", "ada", 10),
        (9, True, "a", "ada", 3), (0, True, "a", "ada", 3), (9, True, "b", "ada", 4), (0, True, "b", "ada", 1),
        (9, True, "b", "bob", 2), (0, True, "b", "bob", 0),
    )  # fmt: skip
    for asked, guest, queue, user, expected in cases:
        context = ApplicationSubmissionContext("", "job", queue=queue, priority=asked, unmanaged=True)
        submitted = cluster.ask(SubmitApplicationRequest(context), user=user, guest=guest)
        assert cluster.app(submitted.application_id).priority == expected, (asked, guest, queue, user)
    change = UpdateApplicationPriorityRequest(submitted.application_id, 9)
    assert cluster.ask(change, user="bob", guest=True).application.priority == 2


# -- entry ---------------------------------------------------------------------------------------------------


def test_a_queue_that_is_not_there_is_refused_with_the_nearest() -> None:
    cluster = Cluster(queues=two())
    with pytest.raises(RemoteError) as raised:
        cluster.master(queue="aa")
    assert raised.value.exit_code == 66
    assert (raised.value.message, raised.value.hint) == ("unknown queue: aa", "did you mean a?")
    assert raised.value.because == "the queues of this cluster are: a, b"
    with pytest.raises(RemoteError) as raised:
        cluster.master(queue="root")
    assert "does not accept applications" in raised.value.message and "a, b" in raised.value.because


def test_a_queue_is_named_by_its_path_too_and_by_its_name_where_only_one_has_it() -> None:
    queues = tree(
        root="p,q",
        root_p={"capacity": 50.0, "queues": "x,y"},
        root_q={"capacity": 50.0, "queues": "x"},
        root_p_x={"capacity": 50.0},
        root_p_y={"capacity": 50.0},
    )
    cluster = Cluster(queues=queues)
    assert cluster.app(cluster.master(queue="root.p.y").app_id).queue == "y"
    assert cluster.app(cluster.master(queue="root.q.x").app_id).queue == "root.q.x"
    with pytest.raises(RemoteError, match="unknown queue: x"):
        cluster.master(queue="x")


def test_a_stopped_queue_takes_none_and_keeps_what_it_has() -> None:
    cluster = Cluster(queues=two())
    cluster.node()
    master = cluster.master(queue="a")
    stopped = tree(root="a,b", root_a={"capacity": 50.0, "state": "STOPPED"}, root_b={"capacity": 50.0})
    cluster.replace_queues(stopped)
    assert report(cluster, "a").state == "DRAINING"
    assert len(master.allocate(asks(1, ONE)).allocated) == 1
    with pytest.raises(InvalidStateError, match="STOPPED"):
        cluster.master(queue="a")
    master.finish()
    assert report(cluster, "a").state == "STOPPED"


def test_a_full_queue_takes_no_more_applications() -> None:
    cluster = Cluster(
        queues=two(maximum_applications=2), capacity=CapacitySchedulerSettings(maximum_applications=3)
    )
    masters = [cluster.master(queue="a"), cluster.master(queue="a")]
    with pytest.raises(InvalidStateError, match=r"Queue root\.a already has 2 applications"):
        cluster.master(queue="a")
    cluster.master(queue="b")
    with pytest.raises(InvalidStateError) as raised:
        cluster.master(queue="b")
    assert "the cluster's maximum is 3" in raised.value.because
    masters[0].finish()
    cluster.master(queue="b")


def test_acls_hold_where_they_are_switched_on() -> None:
    queues = tree(
        root={"queues": "a,b", "acl_submit_applications": "root_user", "acl_administer_queue": "eve"},
        root_a={"capacity": 50.0, "acl_submit_applications": "ada,bob"},
        root_b={"capacity": 50.0},
    )
    cluster = Cluster(queues=queues, capacity=CapacitySchedulerSettings(acl_enable=True))
    cluster.node()
    mine = cluster.master(queue="a")
    cluster.master(queue="b", as_user="root_user")
    with pytest.raises(AccessDeniedError) as raised:
        cluster.master(queue="b")
    assert raised.value.exit_code == 77
    assert raised.value.message == "User ada does not have permission to submit to queue b"
    priority = UpdateApplicationPriorityRequest(mine.app_id, 3)
    with pytest.raises(AccessDeniedError):
        cluster.ask(priority, user="bob")
    for user, uid in (("eve", 1000), ("ada", 1000), ("root", 0)):
        assert cluster.ask(priority, user=user, uid=uid).application.priority == 3
    # Root submitting for somebody is held to what that one may.
    context = ApplicationSubmissionContext(application_id="", name="x", unmanaged=True, queue="b", user="bob")
    with pytest.raises(AccessDeniedError):
        cluster.ask(SubmitApplicationRequest(context), user="root", uid=0)
    cluster.ask(SubmitApplicationRequest(replace(context, user="")), user="root", uid=0)
    Cluster(queues=queues).master(queue="b")


def test_whom_the_kernel_does_not_know_is_not_whom_he_says() -> None:
    cluster = Cluster(queues=tree(root={"queues": "a"}, root_a={"capacity": 100.0}))
    cluster.node()
    context = ApplicationSubmissionContext(application_id="", name="x", unmanaged=True, queue="a", user="ada")
    for submitted in (context, replace(context, user="")):
        with pytest.raises(AccessDeniedError, match="the submitter of"):
            cluster.ask(SubmitApplicationRequest(submitted), user="", uid=-1)


def test_mappings_send_users_to_queues() -> None:
    mapped = CapacitySchedulerSettings(queue_mappings="u:bob:b,u:%user:%user")
    cluster = Cluster(
        queues=tree(root="ada,b", root_ada={"capacity": 50.0}, root_b={"capacity": 50.0}), capacity=mapped
    )
    assert cluster.app(cluster.master().app_id).queue == "ada"
    assert cluster.app(cluster.master(as_user="bob").app_id).queue == "b"
    assert cluster.app(cluster.master(queue="b").app_id).queue == "b", "who names a queue gets it"
    always = Cluster(queues=cluster.context.scheduler.queues.settings,
                     capacity=replace(mapped, queue_mappings_override=True))  # fmt: skip
    assert always.app(always.master(queue="b").app_id).queue == "ada"


def test_lifetimes_and_priorities_of_a_queue() -> None:
    keys = {
        "default_application_lifetime": 10,
        "maximum_application_lifetime": 60,
        "default_application_priority": 4,
    }
    cluster = Cluster(queues=two(**keys), am_expiry_interval_ms=1_000_000)
    apps = [cluster.master(queue="a", timeout_ms=ms).app_id for ms in (0, 30_000, 90_000)]
    assert cluster.app(apps[0]).priority == 4
    ends = []
    for second in (9, 11, 29, 31, 59, 61):
        cluster.at(second)
        ends.append([cluster.app(app).finished_at_ms > 0 for app in apps])
    assert [sum(one) for one in ends] == [0, 1, 1, 2, 2, 3]


# -- changes -------------------------------------------------------------------------------------------------


def test_an_application_moves_with_all_that_it_has() -> None:
    cluster = Cluster(queues=two(50, maximum_capacity=50))
    node = cluster.node(total=Resource(4000, 4))
    master = cluster.master(queue="a")
    granted = master.allocate(asks(4, ONE)).allocated
    node.beat(*map(status, granted))
    assert used(cluster) == {"root": 2, "root.a": 2, "root.b": 0}
    moved = cluster.ask(MoveApplicationRequest(master.app_id, "root.b")).application
    assert moved.queue == "b"
    assert used(cluster) == {"root": 2, "root.a": 0, "root.b": 2}
    assert cluster.master(queue="a").allocate(asks(4, ONE)).allocated
    master.finish()
    with pytest.raises(InvalidStateError, match="has ended"):
        cluster.ask(MoveApplicationRequest(master.app_id, "a"))


def test_a_priority_can_be_changed_and_changes_the_order() -> None:
    cluster = Cluster()
    first, second = cluster.master(), cluster.master()
    for master in (first, second):
        master.allocate(asks(2, ONE))
    cluster.ask(UpdateApplicationPriorityRequest(second.app_id, 5))
    cluster.node(total=Resource(4000, 2))
    assert len(second.allocate().allocated) == 2
    with pytest.raises(InvalidStateError):
        cluster.ask(UpdateApplicationPriorityRequest(second.app_id, -1))


def test_queues_are_replaced_under_living_applications() -> None:
    cluster = Cluster(queues=two())
    node = cluster.node(total=Resource(4000, 4))
    a = cluster.master(queue="a")
    granted = a.allocate(asks(1, ONE)).allocated
    node.beat(*map(status, granted))
    with pytest.raises(InvalidStateError, match=r"queue root\.a cannot be removed: it has applications"):
        cluster.replace_queues(tree(root="b"))
    assert used(cluster)["root.a"] == 1
    other = tree(root="a,c", root_a={"capacity": 20.0, "maximum_capacity": 50.0}, root_c={"capacity": 80.0})
    cluster.replace_queues(other)
    cluster.rm.validate()
    assert used(cluster) == {"root": 1, "root.a": 1, "root.c": 0}
    assert report(cluster, "a").guaranteed.vcores == 1
    assert a.allocate(asks(9, ONE)).allocated == (), "its user limit is one vcore now"
    node.beat(done(granted[0]))
    assert used(cluster)["root.a"] == 1


def test_the_report_of_a_queue_and_its_users() -> None:
    cluster = Cluster(queues=two(75))
    node = cluster.node(total=Resource(4000, 4))
    ada, bob = cluster.master(queue="a"), cluster.master(queue="a", as_user="bob")
    granted = ada.allocate(asks(2, ONE)).allocated + bob.allocate(asks(2, ONE, OPPORTUNISTIC)).allocated
    bob.allocate(asks(1, Resource(4000, 4), priority=2))
    node.beat(*map(status, granted))
    shown = report(cluster, "root.a")
    assert (shown.name, shown.path, shown.parent, shown.leaf) == ("a", "root.a", "root", True)
    assert (shown.used, shown.opportunistic, shown.opportunistic_containers) == (
        Resource(200, 2),
        Resource(200, 2),
        2,
    )
    assert (shown.applications, shown.running_applications, shown.pending_guaranteed) == (2, 2, 1)
    assert (shown.maximum_applications, shown.preemption_disabled) == (7500, True)
    assert [(one.user, one.used.vcores, one.opportunistic.vcores) for one in shown.users] == [
        ("ada", 2, 0),
        ("bob", 0, 2),
    ]
    assert shown.used_capacity == pytest.approx(100 * 0.5 / 0.75)
    assert [one.path for one in cluster.ask(GetQueueInfoRequest()).queues] == ["root", "root.a", "root.b"]


# -- whatever happens ----------------------------------------------------------------------------------------


@st.composite
def worlds(draw: st.DrawFn) -> QueueSettings:
    first = draw(st.integers(1, 99))
    inner = draw(st.integers(1, 99))
    maximum = st.integers(0, 100)

    def keys(capacity: int, **more: Any) -> dict[str, Any]:
        return {
            "capacity": float(capacity),
            "maximum_capacity": float(max(capacity, draw(maximum))),
            "ordering_policy": draw(st.sampled_from(("fifo", "fair"))) if "queues" not in more else "fifo",
            "user_limit_factor": draw(st.sampled_from((-1.0, 1.0, 2.0))),
            "minimum_user_limit_percent": draw(st.sampled_from((25, 50, 100))),
            **more,
        }

    return tree(
        root="a,b",
        root_a=keys(first, queues="x,y"),
        root_b=keys(100 - first),
        root_a_x=keys(inner),
        root_a_y=keys(100 - inner),
    )


sizes = st.builds(Resource, st.integers(1, 400), st.integers(0, 3))
demands = st.lists(
    st.tuples(st.sampled_from(("x", "y", "b")), st.sampled_from(("ada", "bob")), sizes, st.integers(1, 8)),
    min_size=1,
    max_size=6,
)


@given(worlds(), demands, st.lists(st.integers(0, 30), max_size=12), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_never_over_the_maximum_and_nothing_lies_idle_that_a_queue_may_have(
    queues: QueueSettings, wanted: list[tuple[str, str, Resource, int]], ends: list[int], nodes: int
) -> None:
    cluster = Cluster(queues=queues)
    hosts = [cluster.node(f"h{number}:1", Resource(1000, 4)) for number in range(nodes)]
    masters: list[tuple[Master, Resource]] = []
    for queue, user, size, number in wanted:
        master = cluster.master(queue=queue, as_user=user)
        with contextlib.suppress(InvalidResourceRequestError):  # larger than its queue may ever be
            master.allocate(asks(number, size))
        masters.append((master, size))
    running = [container for master, _ in masters for container in master.allocate().allocated]
    for host in hosts:
        host.beat(*(status(one) for one in running if one.node_id == host.name))
    for index in ends:
        if not running:
            break
        ended = running.pop(index % len(running))
        next(host for host in hosts if host.name == ended.node_id).beat(done(ended))
        for master, _ in masters:
            for host in hosts:
                new = [one for one in master.allocate().allocated if one.node_id == host.name]
                running += new
                host.beat(*map(status, new))
        _check_limits(cluster)
    scheduler = cluster.context.scheduler
    for leaf in scheduler.queues.leaves.values():
        for attempt in leaf.waiting():
            for ask in attempt.guaranteed_asks:
                room = any(node.fits_guaranteed(ask.resource) for node in scheduler.nodes.values())
                refused = leaf.refuses(attempt.app.user, ask.resource, master=False)
                assert refused or not room, f"{ask.resource} could run in {leaf.path}"


def _check_limits(cluster: Cluster) -> None:
    for one in cluster.ask(GetQueueInfoRequest()).queues:
        assert one.used.fits_in(one.maximum), f"{one.path} has {one.used} of {one.maximum}"
        assert one.guaranteed.fits_in(one.maximum)


def test_a_tree_of_one_queue_without_limits_costs_no_turns() -> None:
    assert QueueTree().plain
    assert QueueTree(tree(root="only")).plain
    assert not QueueTree(two()).plain
    assert not QueueTree(tree(root_default={"ordering_policy": "fair"})).plain
    assert not QueueTree(tree(root_default={"user_limit_factor": 0.5})).plain
    limited = CapacitySchedulerSettings(maximum_am_resource_percent=0.5)
    assert not QueueTree(tree(root="only"), limited).plain


def test_a_node_knows_of_successors_also_where_a_limit_keeps_them_waiting() -> None:
    """There is room, and opportunistic containers may be queued; but what ends here is followed."""
    bounded = {"capacity": 50.0, "maximum_capacity": 50.0, "user_limit_factor": -1.0}
    cluster = Cluster(queues=tree(root="a,b", root_a=bounded, root_b={"capacity": 50.0}))
    node = cluster.node(total=Resource(4096, 4))
    master = cluster.master(queue="a")
    granted = master.allocate(asks(5, ONE)).allocated
    assert len(granted) == 2
    assert node.beat(*map(status, granted)).guaranteed_awaited is True
    others = master.allocate(asks(3, ONE, OPPORTUNISTIC)).allocated
    assert len(others) == 3, "two on the free vcores, one in the queue"
