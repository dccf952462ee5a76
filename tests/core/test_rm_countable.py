"""Countable resources, such as GPUs, in the RM: nodes, asks, both kinds of allocation, queues, tokens, records."""

from __future__ import annotations

import json

import pytest

from executor.records import ExecutionType, Resource, counted
from yarnopp_cli.errors import InvalidResourceRequestError
from yarnopp_cli.machine.tokens import CONTAINER_TOKEN, resource_of, verify
from yarnopp_cli.records.admin_protocol import UpdateNodeResourceRequest
from yarnopp_cli.records.requests import ResourceRequest
from yarnopp_cli.resourcemanager.scheduler.capacity_scheduler import MAX_OVERTAKES
from yarnopp_cli.resourcemanager.scheduler.queues import Queue, dominant_share, total_of
from yarnopp_cli.rpc import codec, plain
from yarnopp_cli.settings.queues import QueueSettings

from .rm_harness import GUARANTEED, OPPORTUNISTIC, Cluster, asks, done, status
from .test_rm_preemption import INTERVAL, WAIT, preempting
from .test_rm_queues import two

GPU, LICENCE = "yarn.io/gpu", "license"


def of(memory: int = 100, vcores: int = 1, gpus: int = 0, licences: int = 0) -> Resource:
    return Resource(memory, vcores, counted({GPU: gpus, LICENCE: licences}))


def a_cluster(**settings: object) -> Cluster:
    return Cluster(resource_types=f"{GPU}, {LICENCE}", **settings)


@pytest.mark.parametrize("kind", [GUARANTEED, OPPORTUNISTIC])
def test_a_gpu_is_found_where_it_is(kind: ExecutionType) -> None:
    cluster = a_cluster()
    cluster.node("plain:1", of(8192, 8))
    cluster.node("gpus:1", of(1024, 2, gpus=2))
    found = cluster.master().allocate(asks(2, of(gpus=1), kind))
    assert [(one.node_id, one.resource) for one in found.allocated] == [("gpus:1", of(gpus=1))] * 2


def test_a_guaranteed_one_waits_for_a_gpu_and_not_for_vcores() -> None:
    cluster = a_cluster()
    node = cluster.node("h1:1", of(4096, 8, gpus=1))
    master = cluster.master()
    (first,) = master.allocate(asks(2, of(gpus=1), GUARANTEED)).allocated
    node.beat(status(first))
    assert [one.resource for one in master.allocate(asks(1, of(), GUARANTEED)).allocated] == [of()]
    node.beat(done(first))
    assert [one.resource for one in master.allocate().allocated] == [of(gpus=1)]


def test_who_takes_no_gpu_may_overtake_one_that_waits_for_it_for_ever() -> None:
    cluster = a_cluster()
    node = cluster.node("h1:1", of(4096, 8, gpus=1))
    master = cluster.master()
    (holder,) = master.allocate(asks(2, of(gpus=1), GUARANTEED)).allocated
    node.beat(status(holder))
    for _ in range(MAX_OVERTAKES + 5):
        (plain,) = master.allocate(asks(1, of(), GUARANTEED)).allocated
        node.beat(status(holder), done(plain))
    assert cluster.app(master.app_id).pending_containers == 1, "the GPU is what it waits for"


def test_an_opportunistic_one_is_not_free_to_run_where_the_gpu_is_taken() -> None:
    cluster = a_cluster()
    node = cluster.node("h1:1", of(4096, 8, gpus=1), queue_capacity=1)
    master = cluster.master()
    first, second = master.allocate(asks(3, of(gpus=1), OPPORTUNISTIC)).allocated
    free = cluster.context.nodes["h1:1"].load.free
    assert free == of(3996, 7), "one runs, one has the place in the queue, one waits here"
    node.beat(status(first))
    assert cluster.context.nodes["h1:1"].load.free == of(3996, 7)
    assert second.resource == of(gpus=1)


def test_a_guaranteed_one_may_take_the_gpu_of_an_opportunistic_one() -> None:
    cluster = a_cluster()
    node = cluster.node("h1:1", of(4096, 8, gpus=1))
    master = cluster.master()
    (opportunistic,) = master.allocate(asks(1, of(gpus=1), OPPORTUNISTIC)).allocated
    node.beat(status(opportunistic))
    (guaranteed,) = master.allocate(asks(1, of(gpus=1), GUARANTEED)).allocated
    assert guaranteed.resource == of(gpus=1)


@pytest.mark.parametrize(
    ("size", "says"),
    [
        (Resource(100, 1, counted({"fpga": 1})), "fpga, which is not a resource type of this cluster"),
        (of(gpus=-1), "is not valid"),
        (of(gpus=3), "larger than any node"),
        (Resource(100, 1, of(gpus=1).others * 2), "is not valid"),
    ],
)
def test_what_can_never_be_had_is_refused(size: Resource, says: str) -> None:
    cluster = a_cluster()
    cluster.node("h1:1", of(4096, 8, gpus=2))
    master = cluster.master()
    for kind in (GUARANTEED, OPPORTUNISTIC):
        with pytest.raises(InvalidResourceRequestError, match=says) as refused:
            master.allocate(asks(1, size, kind))
        assert refused.value.because
    if "fpga" in says:
        assert refused.value.hint == (
            "name it in yarn.resource-types, and in yarn.nodemanager.resource-type.fpga how many a node has"
        )


def test_gpus_are_declared_by_the_property_that_identifies_them() -> None:
    """Else a container would not learn which ones it has."""
    for cluster, begins in (
        (Cluster(), "name it in yarn.resource-types, and in "),
        (a_cluster(), "name in "),
    ):
        cluster.node("h1:1", of(4096, 8))
        with pytest.raises(InvalidResourceRequestError) as refused:
            cluster.master().allocate(asks(1, of(512, 1, gpus=1), GUARANTEED))
        assert refused.value.hint == (
            f"{begins}yarn.nodemanager.resource-plugins.gpu.allowed-gpu-devices which GPUs a node has"
        )


def test_a_type_that_no_node_has_is_refused_by_its_name() -> None:
    cluster = a_cluster()
    cluster.node("h1:1", of(4096, 8, gpus=2))
    with pytest.raises(InvalidResourceRequestError) as refused:
        cluster.master().allocate(asks(1, of(licences=1), GUARANTEED))
    assert refused.value.because == "no node has any license"


def test_asks_of_other_types_are_other_asks() -> None:
    cluster = a_cluster()
    cluster.node("h1:1", of(4096, 8, gpus=2, licences=1))
    master = cluster.master()
    found = master.allocate(asks(1, of(), GUARANTEED), asks(1, of(gpus=1), GUARANTEED)).allocated
    assert {one.resource for one in found} == {of(), of(gpus=1)}


def test_the_token_says_what_the_node_is_to_give() -> None:
    cluster = a_cluster()
    cluster.node("h1:1", of(4096, 8, gpus=2))
    (container,) = cluster.master().allocate(asks(1, of(gpus=2), GUARANTEED)).allocated
    assert container.token is not None
    payload = verify(cluster.context.container_key, container.token, CONTAINER_TOKEN, now_ms=0)
    assert resource_of(payload) == of(gpus=2)


def test_a_resized_node_keeps_its_gpus() -> None:
    cluster = a_cluster()
    cluster.node("h1:1", of(4096, 8, gpus=2))
    (report,) = cluster.ask(UpdateNodeResourceRequest({"h1:1": Resource(2048, 4)})).nodes
    assert report.total == of(2048, 4, gpus=2)


def test_the_dominant_share_may_be_that_of_gpus() -> None:
    total = of(4096, 8, gpus=2)
    assert dominant_share(of(512, 1, gpus=1), total) == 0.5
    assert dominant_share(of(512, 1, licences=1), total) == 0.125, (
        "of what there is none, no part can be told"
    )
    assert total_of([of(gpus=1), of(), of(gpus=1)]) == of(300, 3, gpus=2)


def test_queues_are_guaranteed_whole_gpus() -> None:
    children = tuple(
        QueueSettings(name=name, path=f"root.{name}", capacity=capacity, maximum_capacity=50)
        for name, capacity in (("a", 70), ("b", 30))
    )
    root = Queue(
        QueueSettings(name="root", path="root", capacity=100, maximum_capacity=100, children=children), None
    )
    root.children = tuple(Queue(one, root) for one in children)
    root.resize(of(1000, 10, gpus=4), of(1000, 10, gpus=4))
    assert [one.guaranteed for one in root.children] == [of(700, 7, gpus=3), of(300, 3, gpus=1)]
    assert root.children[1].maximum == of(500, 5, gpus=2)


def test_it_crosses_the_wire_and_an_older_line_has_none() -> None:
    request = ResourceRequest(1, of(gpus=2))
    line = codec.encode(request)
    assert codec._decoder(ResourceRequest).decode(line) == request
    assert plain.decode(ResourceRequest, json.loads(line)) == request
    older = json.loads(line)
    del older["capability"]["others"]
    for read in (
        codec._decoder(ResourceRequest).decode(json.dumps(older)),
        plain.decode(ResourceRequest, older),
    ):
        assert read.capability == of()


def test_a_queue_gets_its_gpus_back_from_one_that_has_more_than_its_share() -> None:
    cluster = a_cluster(queues=two(), capacity=preempting(), am_expiry_interval_ms=10_000_000)
    node = cluster.node("h1:1", of(8000, 16, gpus=2))
    b = cluster.master(queue="b")
    plain = list(b.allocate(asks(1, of(), GUARANTEED)).allocated)
    holders = list(b.allocate(asks(2, of(gpus=1), GUARANTEED)).allocated)
    node.beat(*map(status, plain + holders))
    a = cluster.master(queue="a")
    a.allocate(asks(2, of(gpus=1), GUARANTEED))
    cluster.at(INTERVAL)
    assert b.allocate().preempting == (holders[1].id,), "one GPU is a's, and who has none gives none"
    cluster.at(INTERVAL + WAIT)
    node.beat(status(plain[0]), status(holders[0]), done(holders[1]))
    (served,) = a.allocate().allocated
    assert served.resource == of(gpus=1)


def test_who_holds_gpus_waits_behind_who_holds_none() -> None:
    """Opportunistic containers go by the dominant share of their users, which may be that of the GPUs."""
    cluster = a_cluster()
    node = cluster.node("h1:1", of(8000, 80, gpus=2), queue_capacity=1)
    rich, poor = cluster.master("ada"), cluster.master("bob")
    held = list(rich.allocate(asks(2, of(gpus=1), OPPORTUNISTIC)).allocated)
    held += poor.allocate(asks(10, of(), OPPORTUNISTIC)).allocated
    assert len(held) == 12
    node.beat(*map(status, held))
    shares = cluster.context.shares
    total = of(8000, 80, gpus=2)
    assert shares.of_user("ada", total) > shares.of_user("bob", total), "2 of 2 GPUs against 10 of 80 vcores"


def test_who_has_more_gpus_than_his_share_may_have_a_container_without() -> None:
    cluster = a_cluster(queues=two(30, user_limit_factor=1.0, maximum_capacity=90.0))
    node = cluster.node("h1:1", of(8000, 16, gpus=2))
    master = cluster.master(queue="a")
    (holder,) = master.allocate(asks(2, of(gpus=1), GUARANTEED)).allocated
    node.beat(status(holder))
    assert [one.resource for one in master.allocate(asks(1, of(), GUARANTEED)).allocated] == [of()]
