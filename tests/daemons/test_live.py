"""Real daemons, driven through their sockets: a job's whole life, the ends of both daemons, and kill -9."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from executor.linux.procfs import read_stat
from executor.linux.store import StateStore
from executor.records import ContainerExitStatus, ContainerState, ExecutionType
from yarnopp_cli.cluster.processes import process_figures
from yarnopp_cli.errors import ConnectionFailedError
from yarnopp_cli.records.client_protocol import (
    GetClusterInfoRequest,
    GetClusterNodesRequest,
    SetLifetimeRequest,
    ShutdownClusterRequest,
    WaitForNodesRequest,
)
from yarnopp_cli.records.container_protocol import (
    GetContainerStatusesRequest,
    GetNodeInfoRequest,
    SignalContainerRequest,
    StopContainersRequest,
)
from yarnopp_cli.records.job_protocol import GetApplicationsRequest, SubmitApplicationRequest
from yarnopp_cli.records.reports import NodeState, YarnApplicationState
from yarnopp_cli.records.requests import ApplicationSubmissionContext, ContainerLaunchContext

from .conftest import NM, PORT, Cluster, Job, started_at, status_of, until_running, wait_for

pytestmark = pytest.mark.live

OPPORTUNISTIC, GUARANTEED = ExecutionType.OPPORTUNISTIC, ExecutionType.GUARANTEED


def test_a_job_from_submission_to_shutdown(cluster: Cluster) -> None:
    rm, nm = cluster.up()
    job = Job(cluster)
    containers = job.grant(4, OPPORTUNISTIC)
    script = 'echo out-$CONTAINER_ID; until [ -e "$RUN_DIR/go" ]; do sleep 0.02; done; exit 3'
    ids = job.launch(containers, "sh", "-c", script)
    node = cluster.node()
    statuses = node.call(GetContainerStatusesRequest(tuple(ids))).statuses
    assert sorted(status.position for status in statuses) == [0, 0, 1, 2]
    Path(cluster.run_dir.path, "go").touch()
    ends = job.until_completed(ids)
    assert [end.exit_status for end in ends] == [3, 3, 3, 3]
    assert all(end.started_at_ms >= end.queued_at_ms > 0 for end in ends)
    output = Path(ends[0].log_directory) / "stdout"
    assert output.read_text() == f"out-{ids[0]}\n"
    assert output.parent.parent.name == job.id
    # The RM acknowledged the ends, so the node's records of them go.
    records = Path(cluster.run_dir.nm_state_dir(PORT)) / "containers"
    wait_for(lambda: not StateStore(records).load_all(tidy=False))
    job.finish()
    info = node.call(GetNodeInfoRequest())
    assert info.pid == nm.process.pid
    assert info.rm_connected
    response = job.rm.call(ShutdownClusterRequest())
    assert set(response.pids) == {rm.process.pid, nm.process.pid}
    assert (rm.wait(), nm.wait()) == (0, 0)
    assert not {name for name in cluster.files() if name.endswith((".sock", ".pid"))}
    assert not os.path.exists(cluster.run_dir.nm_state_dir(PORT))
    assert output.exists()


def test_a_guaranteed_container_takes_the_place_of_an_opportunistic_one(cluster: Cluster) -> None:
    cluster.up()
    job = Job(cluster)
    low = job.launch(job.grant(2, OPPORTUNISTIC), "sleep", "60")
    node = cluster.node()
    for container_id in low:
        until_running(node, container_id)
    (high,) = job.launch(job.grant(1, GUARANTEED), "true")
    (end,) = job.until_completed([high])
    assert end.exit_status == 0
    statuses = [status_of(node, container_id) for container_id in low]
    (victim,) = [status for status in statuses if status.state is ContainerState.DONE]
    assert victim.exit_status == ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER
    node.call(SignalContainerRequest(_other(low, victim.container_id), signal.SIGINT))
    job.until_completed(low)
    assert job.completed[_other(low, victim.container_id)].exit_status == 130
    job.finish()


def _other(ids: list[str], one: str) -> str:
    (other,) = set(ids) - {one}
    return other


def test_a_container_outlives_its_nm_that_was_killed_and_is_found_again(cluster: Cluster) -> None:
    _, nm = cluster.up()
    job = Job(cluster)
    script = 'until [ -e "$RUN_DIR/go-$CONTAINER_ID" ]; do sleep 0.02; done; exit 9'
    lives, dies = job.launch(job.grant(2, GUARANTEED), "sh", "-c", script)
    node = cluster.node()
    before = until_running(node, lives)
    other = until_running(node, dies).pid
    nm.send(signal.SIGKILL)
    nm.wait()
    assert alive(before.pid)
    # One ends while nobody looks. Its exit code waits for the next NM.
    Path(cluster.run_dir.path, f"go-{dies}").touch()
    wait_for(lambda: not alive(other))
    again = cluster.nm().ready()
    after = status_of(cluster.node(), lives)
    assert (after.state, after.pid) == (ContainerState.RUNNING, before.pid)
    assert after.started_at_ms == before.started_at_ms
    (end,) = job.until_completed([dies])
    assert end.exit_status == 9
    Path(cluster.run_dir.path, f"go-{lives}").touch()
    (end,) = job.until_completed([lives])
    assert end.exit_status == 9
    job.finish()
    again.send(signal.SIGTERM)
    assert again.wait() == 0


def alive(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.state not in "ZX"


def test_sigterm_of_an_nm_leaves_its_containers_to_its_next_life(cluster: Cluster) -> None:
    _, nm = cluster.up()
    job = Job(cluster)
    (container_id,) = job.launch(job.grant(1, GUARANTEED), "sleep", "60")
    pid = until_running(cluster.node(), container_id).pid
    nm.send(signal.SIGTERM)
    assert nm.wait() == 0
    assert alive(pid)
    assert f"{NM}.sock" not in cluster.files()
    cluster.nm().ready()
    node = cluster.node()
    assert status_of(node, container_id).pid == pid
    stop = StopContainersRequest((container_id,), -105, "Container killed by the user")
    node.call(stop)
    (end,) = job.until_completed([container_id])
    assert end.exit_status == -105
    assert "by the user" in end.diagnostics
    job.finish()


@pytest.mark.parametrize("missing", ["enabled", "supervised"])
def test_without_recovery_sigterm_ends_the_containers_first(cluster: Cluster, missing: str) -> None:
    cluster.write_site(f"yarn.nodemanager.recovery.{missing}=false")
    _, nm = cluster.up()
    job = Job(cluster)
    (container_id,) = job.launch(job.grant(1, GUARANTEED), "sleep", "60")
    pid = until_running(cluster.node(), container_id).pid
    nm.send(signal.SIGTERM)
    assert nm.wait() == 0
    assert not alive(pid)
    (end,) = job.until_completed([container_id])
    assert end.exit_status == ContainerExitStatus.ABORTED
    job.finish()


def test_a_restarted_rm_finds_the_node_and_clears_what_belongs_to_nobody(cluster: Cluster) -> None:
    rm, _ = cluster.up()
    job = Job(cluster)
    (container_id,) = job.launch(job.grant(1, GUARANTEED), "sleep", "60")
    pid = until_running(cluster.node(), container_id).pid
    first = started_at(job.rm)
    rm.send(signal.SIGKILL)
    rm.wait()
    assert alive(pid)
    cluster.rm().ready()
    client = cluster.connect()
    assert started_at(client) > first
    assert client.call(WaitForNodesRequest(1)).satisfied
    wait_for(lambda: not alive(pid), what="a container of the RM before goes")


def test_a_managed_master_is_started_by_the_heartbeat_and_its_end_fails_the_attempt(cluster: Cluster) -> None:
    cluster.up()
    client = cluster.connect()
    spec = ContainerLaunchContext(("sh", "-c", "ls am-token.json; echo $APPLICATION_ATTEMPT_ID; exit 4"))
    context = ApplicationSubmissionContext("", "managed", am_container_spec=spec, max_attempts=1)
    submitted = client.call(SubmitApplicationRequest(context))

    def ended() -> str | None:
        request = GetApplicationsRequest((submitted.application_id,))
        (report,) = client.call(request).applications
        return report.diagnostics if report.state is YarnApplicationState.FAILED else None

    assert "4" in (wait_for(ended) or "")
    (output,) = Path(submitted.log_directory).glob("*/stdout")
    lines = output.read_text().split()
    assert lines[0] == "am-token.json"
    assert lines[1].startswith("appattempt_")


def test_an_on_demand_cluster_ends_with_its_last_job(cluster: Cluster) -> None:
    rm, nm = cluster.up("on-demand")
    job = Job(cluster)
    (container_id,) = job.launch(job.grant(1, OPPORTUNISTIC), "true")
    job.until_completed([container_id])
    job.finish()
    assert (rm.wait(), nm.wait()) == (0, 0)
    assert not {name for name in cluster.files() if name.endswith((".sock", ".pid"))}


def test_a_cluster_that_was_made_to_stay_stays(cluster: Cluster) -> None:
    rm, nm = cluster.up("on-demand")
    job = Job(cluster)
    assert job.rm.call(SetLifetimeRequest("stay")).info.lifetime == "stay"
    job.finish()
    nodes = cluster.connect().call(GetClusterNodesRequest()).nodes
    assert [(node.state, node.pid) for node in nodes] == [(NodeState.RUNNING, nm.process.pid)]
    rm.send(signal.SIGTERM)
    assert rm.wait() == 0
    assert nm.process.poll() is None
    cluster.rm().ready()
    assert cluster.connect().call(WaitForNodesRequest(1)).satisfied


def test_several_nodes_have_groups_of_their_own(cluster: Cluster) -> None:
    starting = [cluster.rm(), cluster.nm(port=45454, vcores=1), cluster.nm(port=45455, vcores=1)]
    for daemon in starting:
        daemon.ready()
    client = cluster.connect()
    assert client.call(WaitForNodesRequest(2)).satisfied
    job = Job(cluster)
    containers = job.grant(2, GUARANTEED)
    assert {container.node_id for container in containers} == {
        f"{socket.gethostname()}:45454",
        f"{socket.gethostname()}:45455",
    }
    places = set()
    for container in containers:
        (container_id,) = job.launch([container], "sleep", "60")
        node = cluster.connect(container.node_address)
        places.add(until_running(node, container_id).cgroup.rpartition("/")[0])
    assert len(places) == (2 if places != {""} else 1)
    job.finish()
    client.call(ShutdownClusterRequest())
    assert [daemon.wait() for daemon in starting] == [0, 0, 0]


def test_an_rm_listens_on_loopback_where_it_is_told_to(cluster: Cluster) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        cluster.write_site(f"yarn.resourcemanager.address=localhost:{port}")
        refusal = cluster.rm()
        error = json.loads(refusal.word())
        assert error["error"] == f"port {port} is taken"
        assert str(os.getpid()) in error["because"]
        assert refusal.wait() == error["exit"] == 1
        assert not {name for name in cluster.files() if name.endswith((".sock", ".pid"))}
    cluster.rm().ready()
    client = cluster.connect(f"localhost:{port}")
    assert client.call(GetClusterInfoRequest()).lifetime == "stay"


def test_daemons_are_small_and_quick(cluster: Cluster) -> None:
    """Bounds far beyond what they take (35 MB; 0.3 s of CPU)."""
    rm, nm = cluster.up()
    for daemon in (rm, nm):
        status = Path(f"/proc/{daemon.process.pid}/status").read_text()
        resident_kb = int(status.split("VmRSS:")[1].split()[0])
        assert resident_kb < 45 * 1024
        assert process_figures(daemon.process.pid)["cpu_seconds"] < 5
    maps = Path(f"/proc/{nm.process.pid}/maps").read_text()
    assert "aiohttp" not in maps


def test_nothing_listens_where_nothing_runs(cluster: Cluster) -> None:
    with pytest.raises(ConnectionFailedError):
        cluster.connect()
