"""Other queues while the cluster runs, the limits that ``explain`` tells of, lifetimes, and the rest of AppInfo."""

from __future__ import annotations

from typing import Any

import pytest

from executor.records import ContainerExitStatus, ExecutionType, Resource
from yarnopp_cli.errors import InvalidStateError, RemoteError
from yarnopp_cli.records.admin_protocol import (
    QueueProperty,
    RefreshQueuesRequest,
    RefreshQueuesResponse,
)
from yarnopp_cli.records.client_protocol import (
    GetClusterInfoRequest,
    GetQueueInfoRequest,
    UpdateApplicationTimeoutsRequest,
)
from yarnopp_cli.records.explanation import Explanation, ReasonCode
from yarnopp_cli.records.history import EventKind, GetEventsRequest
from yarnopp_cli.settings.queues import QUEUE_PREFIX as PREFIX
from yarnopp_cli.settings.queues import CapacitySchedulerSettings
from yarnopp_cli.views import applications as view
from yarnopp_cli.views.explain.explanations import sentences

from .rm_harness import TIMESTAMP, Cluster, asks, done, status
from .test_rm_queues import two

ONE = Resource(100, 1)
HALVES = {"root.queues": "a,b", "root.a.capacity": "50", "root.b.capacity": "50"}


def refresh(cluster: Cluster, *, dry_run: bool = False, **given: str) -> RefreshQueuesResponse:
    """Ask for queues; ``given`` is added to a and b with half of the cluster each ("root.a.state": …)."""
    properties = tuple(QueueProperty(PREFIX + name, value) for name, value in (HALVES | given).items())
    return cluster.ask(RefreshQueuesRequest(properties, dry_run))  # type: ignore[no-any-return]


def paths(cluster: Cluster) -> list[str]:
    return [one.path for one in cluster.ask(GetQueueInfoRequest()).queues]


def explained(cluster: Cluster, name: str) -> Explanation:
    return cluster.explain(name)  # type: ignore[no-any-return]


def test_queues_come_and_go_and_applications_stay_where_they_are() -> None:
    cluster = Cluster(queues=two(70))
    node = cluster.node(total=Resource(4000, 4))
    master = cluster.master(queue="a")
    [one] = master.allocate(asks(1, ONE)).allocated
    node.beat(status(one))
    thirds = {
        "root.queues": "a,b,c",
        "root.a.capacity": "25",
        "root.b.capacity": "25",
        "root.c.capacity": "50",
    }
    before = paths(cluster)
    would = refresh(cluster, dry_run=True, **thirds)
    assert (would.added, would.removed, would.changed) == (("root.c",), (), ("root.a", "root.b"))
    assert paths(cluster) == before and not cluster.ask(GetClusterInfoRequest()).properties
    assert refresh(cluster, **thirds).added == ("root.c",)
    queues = {one.path: one for one in cluster.ask(GetQueueInfoRequest()).queues}
    assert list(queues) == ["root", "root.a", "root.b", "root.c"]
    assert (queues["root.a"].used, queues["root.a"].guaranteed) == (ONE, Resource(1000, 1))
    assert cluster.ask(GetClusterInfoRequest()).properties[f"{PREFIX}root.queues"] == "a,b,c"
    [event] = [
        event for event in cluster.ask(GetEventsRequest()).events if event.kind is EventKind.QUEUES_REFRESHED
    ]
    assert event.words == {"added": "root.c", "changed": "root.a, root.b"}
    node.beat(done(one))
    assert cluster.ask(GetQueueInfoRequest("a")).queues[0].used == Resource()
    assert refresh(cluster, **thirds).changed == ()
    assert len([one for one in cluster.ask(GetEventsRequest()).events if one.kind == event.kind]) == 1


def test_a_queue_with_applications_does_not_go_and_nothing_changes() -> None:
    cluster = Cluster(queues=two(50))
    cluster.node()
    app = cluster.master(queue="b").app_id
    for dry_run in (True, False):
        with pytest.raises(InvalidStateError, match=r"root\.b cannot be removed") as refused:
            cluster.ask(RefreshQueuesRequest((QueueProperty(f"{PREFIX}root.queues", "a"),), dry_run))
        assert app in refused.value.because and "yopp app queue" in refused.value.hint
    assert paths(cluster) == ["root", "root.a", "root.b"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("yarn.nodemanager.resource.memory-mb", "5", "not a property of the queues"),
        (f"{PREFIX}root.a.capacity", "many", "wrong value"),
        (f"{PREFIX}root.a.capacity", "60", "sum to 110"),
        (f"{PREFIX}root.nobody.state", "STOPPED", "no queue root.nobody"),
        (f"{PREFIX}queue-mappings", "x:y", "queue-mappings"),
        (f"{PREFIX}nonsense" + "x" * 5000, "1", "not a property of the queues"),
    ],
)
def test_what_cannot_be_read_is_refused_whole(name: str, value: str, said: str) -> None:
    cluster = Cluster(queues=two(50))
    given = {PREFIX + one: text for one, text in HALVES.items()} | {name: value}
    with pytest.raises(RemoteError, match=said) as refused:
        cluster.ask(RefreshQueuesRequest(tuple(QueueProperty(*pair) for pair in given.items())))
    assert refused.value.exit_code == 78 and len(str(refused.value)) < 600
    assert paths(cluster) == ["root", "root.a", "root.b"]


def test_mappings_and_bounds_of_the_scheduler_are_read_again_and_forgotten_again() -> None:
    cluster = Cluster(queues=two(50))
    cluster.node()
    refresh(cluster, **{"queue-mappings": "u:ada:b", "maximum-applications": "1"})
    app = cluster.submit()
    assert cluster.app(app).queue == "b"
    with pytest.raises(InvalidStateError, match="already has 1 applications"):
        cluster.submit(queue="b")
    refresh(cluster)
    cluster.submit(queue="b")


# -- explain --------------------------------------------------------------------------------------------------


def reasons(cluster: Cluster, app: str) -> list[tuple[ReasonCode, str, int, int, int]]:
    return [
        (one.code, one.resource, one.needs, one.free, one.total) for one in explained(cluster, app).reasons
    ]


def test_a_users_limit_a_queues_maximum_and_the_part_of_masters_are_told() -> None:
    cluster = Cluster(queues=two(50, user_limit_factor=1.0))
    cluster.node(total=Resource(4000, 8))
    master = cluster.master(queue="a")
    assert len(master.allocate(asks(20, ONE)).allocated) == 4
    assert reasons(cluster, master.app_id) == [(ReasonCode.USER_LIMIT, "vcores", 1, 0, 4)]
    assert "User ada uses" in " ".join(sentences(explained(cluster, master.app_id)))

    full = Cluster(queues=two(50, maximum_capacity=50))
    full.node(total=Resource(4000, 8))
    master = full.master(queue="a")
    assert len(master.allocate(asks(20, ONE)).allocated) == 4
    assert reasons(full, master.app_id) == [(ReasonCode.QUEUE_CAPACITY, "vcores", 1, 0, 4)]

    tiny = Cluster(capacity=CapacitySchedulerSettings(maximum_am_resource_percent=0.01))
    tiny.node(total=Resource(800, 100))
    tiny.submit(am_resource=Resource(100, 0))
    second = tiny.submit(am_resource=Resource(100, 0))
    assert (ReasonCode.AM_PENDING, "memoryMB", 100, 0, 8) in reasons(tiny, second)


# -- lifetimes and reports ------------------------------------------------------------------------------------


def test_a_lifetime_is_set_lifted_and_only_spoken_of() -> None:
    cluster = Cluster()
    cluster.node()
    app = cluster.master().app_id

    def limit(seconds: float, **more: Any) -> int:
        expires = TIMESTAMP + round(1000 * (cluster.now + seconds)) if seconds else 0
        answer = cluster.ask(UpdateApplicationTimeoutsRequest(app, expires, **more))
        return int(answer.application.timeout_at_ms)

    assert limit(10, dry_run=True) == TIMESTAMP + 10_000
    assert cluster.app(app).timeout_at_ms == 0
    limit(5)
    assert cluster.app(app).timeout_at_ms == TIMESTAMP + 5000
    with pytest.raises(InvalidStateError, match="in the past"):
        limit(-1, dry_run=True)
    assert limit(0) == 0
    assert cluster.app(app).timeout_at_ms == 0


def test_an_application_says_what_it_wants_has_and_lost() -> None:
    cluster = Cluster(queues=two(50))
    node = cluster.node(total=Resource(4000, 8))
    master = cluster.master(queue="a")
    [one, two_] = master.allocate(asks(2, ONE)).allocated
    node.beat(status(one), status(two_))
    master.allocate(asks(3, Resource(4000, 8), allocation_request_id=7))
    usage = cluster.app(master.app_id).usage
    assert (usage.guaranteed, usage.queue_percent, usage.cluster_percent) == (Resource(200, 2), 50.0, 25.0)
    [ask] = usage.requests
    assert (ask.num_containers, ask.capability) == (3, Resource(4000, 8))
    assert ask.execution_type_request.execution_type is ExecutionType.GUARANTEED
    begun, ended = TIMESTAMP + 1000, TIMESTAMP + 4000
    node.beat(
        done(
            one,
            exit_status=int(ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER),
            started_at_ms=begun,
            finished_at_ms=ended,
        )
    )
    document = view.document(cluster.app(master.app_id), TIMESTAMP)
    assert (document["preemptedResourceMB"], document["preemptedResourceVCores"]) == (100, 1)
    assert (document["preemptedMemorySeconds"], document["preemptedVcoreSeconds"]) == (300, 3)
    assert (document["numNonAMContainerPreempted"], document["numAMContainerPreempted"]) == (1, 0)
    [partition] = document["resourceInfo"]["resourceUsagesByPartition"]
    assert partition["used"]["memory"] == 100 and partition["pending"]["vCores"] == 24
    assert document["timeouts"]["timeout"][0]["expiryTime"] == "UNLIMITED"
