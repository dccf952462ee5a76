"""Conformance cases J1, J3 (YARN's RM on its plain beat) and K1, K2: promotion and demotion, with exact figures."""

from __future__ import annotations

import pytest

from executor.records import Resource
from tests.core.rm_harness import GUARANTEED, OPPORTUNISTIC, Cluster, Master, Node, asks, done, status
from yarnopp_cli.errors import UsageError
from yarnopp_cli.masters.amrmclient import update_request
from yarnopp_cli.records.client_protocol import ChangeContainerRequest, GetClusterInfoRequest
from yarnopp_cli.records.job_protocol import SubmitApplicationRequest
from yarnopp_cli.records.requests import (
    ApplicationSubmissionContext,
    Container,
    ContainerLaunchContext,
    ContainerUpdateType,
    UpdateContainerRequest,
)

PROMOTE, DEMOTE = ContainerUpdateType.PROMOTE_EXECUTION_TYPE, ContainerUpdateType.DEMOTE_EXECUTION_TYPE
SIZE = Resource(1024, 1)


def metrics(cluster: Cluster) -> tuple[int, int, int, int, int]:
    """Available MB and vcores, allocated MB and vcores, allocated containers: all of them guaranteed."""
    info = cluster.ask(GetClusterInfoRequest())
    free = info.total - info.used
    guaranteed = [c for c in cluster.containers().values() if c.execution_type is GUARANTEED]
    return free.memory, free.vcores, info.used.memory, info.used.vcores, len(guaranteed)


def wish(
    container: Container, kind: ContainerUpdateType, version: int | None = None
) -> UpdateContainerRequest:
    return UpdateContainerRequest(container.id, container.version if version is None else version, kind)


def beaten(*names: str) -> tuple[Cluster, Master, dict[str, Node]]:
    """YARN's fixture: nodes of 4096 MB and 4 vcores, a master of 1024 MB and 1 vcore on the second, the plain beat."""
    cluster = Cluster(heartbeat_wait=False)
    nodes = {name: cluster.node(name, Resource(4096, 4)) for name in names}
    spec = ContainerLaunchContext(("am",))
    context = ApplicationSubmissionContext("", "job", am_container_spec=spec, am_resource=SIZE)
    app_id = cluster.ask(SubmitApplicationRequest(context)).application_id
    [start] = nodes[names[1 % len(names)]].beat().containers_to_start
    nodes[start.container.node_id].beat(status(start.container))
    [report] = cluster.containers(application_id=app_id).values()
    assert report.is_am
    attempt = cluster.context.live[app_id].attempt
    master = Master(cluster, app_id, attempt.id, attempt.token, cluster.connection())
    master.register()
    return cluster, master, nodes


def test_j1_container_promote_and_demote_before_container_start() -> None:
    cluster, master, nodes = beaten("h1:1234", "h1:4321", "h2:1234", "h2:4321")
    assert metrics(cluster) == (15360, 15, 1024, 1, 1)
    allocated = master.allocate(asks(2, SIZE, OPPORTUNISTIC)).allocated
    assert len(allocated) == 2 and metrics(cluster) == (15360, 15, 1024, 1, 1)
    first = allocated[0]
    host, port = first.node_id.split(":")
    other = f"{host}:{'4321' if port == '1234' else '1234'}"
    master.allocate(updates=(wish(first, PROMOTE),))
    nodes[other].beat()
    assert master.allocate().updated == () and metrics(cluster) == (15360, 15, 1024, 1, 1)
    response = master.allocate(updates=(wish(first, PROMOTE),))
    [error] = response.update_errors
    assert (response.updated, error.reason, error.request.container_id) == (
        (), "UPDATE_OUTSTANDING_ERROR", first.id,
    )  # fmt: skip
    [error] = master.allocate(updates=(wish(first, PROMOTE, 1),)).update_errors
    assert (error.reason, error.current_version) == ("INCORRECT_CONTAINER_VERSION_ERROR", 0)
    nodes[first.node_id].beat()
    [updated] = master.allocate().updated
    promoted = updated.container
    assert (promoted.id, promoted.execution_type, promoted.version) == (first.id, GUARANTEED, 1)
    assert metrics(cluster) == (14336, 14, 2048, 2, 2)
    assert cluster.containers()[first.id].state is None, "no node has spoken of it: YARN's ACQUIRED"
    [updated] = master.allocate(updates=(wish(promoted, DEMOTE),)).updated
    assert (updated.container.execution_type, updated.container.version) == (OPPORTUNISTIC, 2)
    assert metrics(cluster) == (15360, 15, 1024, 1, 1)


def test_j3_container_promote_after_container_complete() -> None:
    cluster, master, nodes = beaten("h1:1234", "h2:1234")
    assert metrics(cluster) == (7168, 7, 1024, 1, 1)
    [one] = master.allocate(asks(1, SIZE, OPPORTUNISTIC)).allocated
    nodes[one.node_id].beat(status(one))
    nodes[one.node_id].beat(done(one))
    assert one.id not in cluster.containers()
    assert metrics(cluster) == (7168, 7, 1024, 1, 1)
    response = master.allocate(updates=(wish(one, PROMOTE),))
    assert [ended.container_id for ended in response.completed] == [one.id] and response.updated == ()
    [error] = response.update_errors
    assert (error.reason, error.current_version) == ("INVALID_CONTAINER_ID", -1)
    assert metrics(cluster) == (7168, 7, 1024, 1, 1)


@pytest.mark.parametrize(
    ("case", "kind", "asked", "target"),
    [("K1", PROMOTE, OPPORTUNISTIC, GUARANTEED), ("K2", DEMOTE, GUARANTEED, OPPORTUNISTIC)],
)
def test_k1_k2_promotion_and_demotion_from_acquired(
    case: str, kind: ContainerUpdateType, asked: object, target: object
) -> None:
    cluster = Cluster()
    cluster.node()
    master = cluster.master()
    priority = 2 if case == "K1" else 3
    [one] = master.allocate(asks(1, Resource(512, 1), asked, priority=priority)).allocated
    assert one.execution_type is asked
    sentence = f"target should be {target} and original should be {asked}"
    with pytest.raises(UsageError, match=sentence):
        update_request(one, kind, execution_type=asked)
    request = update_request(one, kind, execution_type=target)
    [updated] = master.allocate(updates=(request,)).updated
    after = updated.container
    assert (after.execution_type, after.version) == (target, one.version + 1)
    assert (after.resource, after.node_id) == (one.resource, one.node_id)
    with pytest.raises(UsageError, match=sentence):
        update_request(after, kind)
    response = master.allocate()
    assert (response.allocated, response.updated, response.update_errors) == ((), (), ())


def test_j1_by_a_person_waits_for_the_beat_of_its_own_node() -> None:
    cluster, master, nodes = beaten("h1:1234", "h1:4321")
    [one] = master.allocate(asks(1, SIZE, OPPORTUNISTIC)).allocated
    nodes[one.node_id].beat(status(one))
    answer = cluster.ask(ChangeContainerRequest(UpdateContainerRequest(one.id, -1, PROMOTE)))
    assert (answer.pending, answer.version) == (True, 1)
    [delivered] = nodes[one.node_id].beat().containers_to_update
    assert (delivered.container_id, delivered.version, delivered.execution_type) == (one.id, 1, GUARANTEED)
    assert [u.container.version for u in master.allocate().updated] == [1]
