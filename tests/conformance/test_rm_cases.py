"""Conformance cases J2, J4, J5, J6, K3 and K4: promotion of what runs, nodes that go, both protocols, mixed asks."""

from __future__ import annotations

from executor.records import ContainerState, Resource
from tests.core.rm_harness import GUARANTEED, OPPORTUNISTIC, Cluster, Master, asks, done, status
from tests.core.test_amrmproxy import World as ProxyWorld
from yarnopp_cli.records.client_protocol import GetClusterInfoRequest
from yarnopp_cli.records.distributed_protocol import (
    DistributedSchedulingAllocateRequest,
    RegisterDistributedSchedulingAMRequest,
)
from yarnopp_cli.records.job_protocol import SubmitApplicationRequest
from yarnopp_cli.records.master_protocol import (
    AllocateRequest,
    FinishApplicationMasterRequest,
    RegisterApplicationMasterRequest,
)
from yarnopp_cli.records.reports import FinalApplicationStatus
from yarnopp_cli.records.requests import (
    ApplicationSubmissionContext,
    ContainerUpdateType,
    UpdateContainerRequest,
)

from .test_rm_updates import DEMOTE, PROMOTE, SIZE, beaten, metrics, wish


def test_j2_container_promote_after_container_start() -> None:
    cluster, master, nodes = beaten("h1:1234", "h2:1234")
    assert metrics(cluster) == (7168, 7, 1024, 1, 1)
    [one] = master.allocate(asks(1, SIZE, OPPORTUNISTIC)).allocated
    nodes[one.node_id].beat(status(one))
    assert cluster.containers()[one.id].state is ContainerState.RUNNING
    assert metrics(cluster) == (7168, 7, 1024, 1, 1)
    master.allocate(updates=(wish(one, PROMOTE),))
    assert metrics(cluster) == (7168, 7, 1024, 1, 1)
    nodes[one.node_id].beat()
    [updated] = master.allocate().updated
    assert (updated.container.id, updated.container.execution_type, updated.container.version) == (
        one.id, GUARANTEED, 1,
    )  # fmt: skip
    assert metrics(cluster) == (6144, 6, 2048, 2, 2)
    assert cluster.containers()[one.id].state is ContainerState.RUNNING, "it runs on meanwhile"
    [updated] = master.allocate(updates=(wish(updated.container, DEMOTE),)).updated
    assert (updated.container.execution_type, updated.container.version) == (OPPORTUNISTIC, 2)
    assert metrics(cluster) == (7168, 7, 1024, 1, 1)


def test_j4_container_auto_update_container() -> None:
    for automatic in (False, True):
        fresh = Cluster(auto_update_containers=automatic)
        node = fresh.node("h1:1234", Resource(4096, 4))
        master = fresh.master()
        [one] = master.allocate(asks(1, SIZE)).allocated
        node.beat(status(one))
        smaller = UpdateContainerRequest(
            one.id, one.version, ContainerUpdateType.DECREASE_RESOURCE, Resource(512, 1)
        )
        [updated] = master.allocate(updates=(smaller,)).updated
        assert (updated.container.resource, updated.container.version) == (Resource(512, 1), 1)
        delivered = node.beat().containers_to_update
        assert [(d.container_id, d.version, d.resource) for d in delivered] == (
            [(one.id, 1, Resource(512, 1))] if automatic else []
        )


def test_j5_node_removal_during_allocate() -> None:
    cluster = Cluster(heartbeat_wait=False)
    nodes = [cluster.node(name, Resource(4096, 4)) for name in ("h1:1234", "h2:1234")]
    master = cluster.master()
    seen = set()
    for turn in range(10):
        cluster.at(turn * 0.05)
        master.allocate(asks(2, SIZE, allocation_request_id=turn))
        seen = {load.node_id for load in cluster.context.monitor.sorted_nodes()}
        if len(seen) == 2:
            break
    assert seen == {"h1:1234", "h2:1234"}
    cluster.lose(nodes[0].connection)
    for turn in range(10, 20):
        cluster.at(turn * 0.05)
        response = master.allocate(asks(1, SIZE, OPPORTUNISTIC, allocation_request_id=turn))
        assert {container.node_id for container in response.allocated} <= {"h2:1234"}
    assert [load.node_id for load in cluster.context.monitor.sorted_nodes()] == ["h2:1234"]


def test_j6_one_server_answers_both_protocols() -> None:
    world = ProxyWorld()
    cluster = world.cluster
    plain = cluster.master()
    response = plain.allocate(asks(1, execution_type=OPPORTUNISTIC))
    assert [one.execution_type for one in response.allocated] == [OPPORTUNISTIC]
    assert response.num_nodes == 2
    plain.finish()
    connection = cluster.connection()
    registration = RegisterApplicationMasterRequest(world.attempt, world.rm_token)
    terms = cluster.ask(RegisterDistributedSchedulingAMRequest(registration), connection)
    assert terms.response.opportunistic_enabled and terms.response.queue == "default"
    assert terms.container_id_start > 54321 and terms.increment.vcores >= 0
    assert [node.node_id for node in terms.nodes_for_scheduling] != []
    enforced = asks(1, execution_type=GUARANTEED)
    request = AllocateRequest(world.attempt, world.rm_token, asks=(enforced,))
    answer = cluster.ask(DistributedSchedulingAllocateRequest(request), connection)
    assert [one.execution_type for one in answer.response.allocated] == [GUARANTEED]
    assert {node.node_id for node in answer.nodes_for_scheduling} == {"h1:1", "h2:2"}


def completed(master: Master) -> list[tuple[str, int]]:
    return [(ended.container_id, ended.exit_status) for ended in master.allocate().completed]


def test_k3_mixed_allocation_and_release() -> None:
    """4 G and 2 O asked for, all but 2 G and 1 O withdrawn; what came is released and ends with -100."""
    cluster = Cluster(minimum_allocation_mb=512)
    size = Resource(512, 1)
    connection = cluster.connection()  # asked before there is a node that could serve it
    context = ApplicationSubmissionContext("", "job", unmanaged=True)
    submitted = cluster.ask(SubmitApplicationRequest(context), connection)
    assert submitted.am_token is not None
    master = Master(cluster, submitted.application_id, submitted.attempt_id, submitted.am_token, connection)
    master.register()
    assert (
        master.allocate(asks(4, size, priority=1), asks(2, size, OPPORTUNISTIC, priority=2)).allocated == ()
    )
    assert cluster.app(master.app_id).pending_containers == 6
    master.allocate(asks(2, size, priority=1), asks(1, size, OPPORTUNISTIC, priority=2))
    assert cluster.app(master.app_id).pending_containers == 3
    node = cluster.node("h1:1234", Resource(4096, 8))
    granted = list(master.allocate().allocated)
    assert sorted(one.execution_type for one in granted) == [GUARANTEED, GUARANTEED, OPPORTUNISTIC]
    node.beat(*(status(one) for one in granted))
    master.allocate(releases=tuple(one.id for one in granted))
    node.beat(*(done(one, -106) for one in granted))
    assert sorted(completed(master)) == sorted((one.id, -100) for one in granted)
    assert [master.allocate().allocated for _ in range(3)] == [(), (), ()]
    assert cluster.app(master.app_id).pending_containers == 0


def test_k4_opportunistic_allocation() -> None:
    """Two containers on one node. YARN gives one NMToken a node; here each container's own token opens it."""
    cluster = Cluster()
    node = cluster.node("h1:1234", Resource(4096, 8))
    master = cluster.master()
    response = master.allocate(asks(2, Resource(512, 1), OPPORTUNISTIC, priority=3))
    assert len(response.allocated) == 2
    assert {one.node_address for one in response.allocated} == {"unix:/run/yopp/nm-h1:1234.sock"}
    assert len({one.token.password for one in response.allocated}) == 2
    assert cluster.app(master.app_id).pending_containers == 0
    assert cluster.ask(GetClusterInfoRequest()).used == Resource()
    node.beat(*(status(one) for one in response.allocated))
    cluster.ask(
        FinishApplicationMasterRequest(master.attempt_id, master.token, FinalApplicationStatus.SUCCEEDED),
        master.connection,
    )
