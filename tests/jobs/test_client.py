"""Why a job that no node takes has to wait, and the end of one that is interrupted twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from executor.linux.procfs import boot_id
from executor.records import Resource
from yarnopp_cli.cli.jobs.running import killed_at_once
from yarnopp_cli.cluster import lifecycle
from yarnopp_cli.cluster.rundir import RunDir
from yarnopp_cli.cluster.state import forget_watched, write_watched
from yarnopp_cli.errors import NoAnswerError, TimedOutError, YoppError
from yarnopp_cli.jobs.client import ATTEMPTS, START_SECONDS, JobClient, why_no_node
from yarnopp_cli.machine.restarts import Watched
from yarnopp_cli.masters.commands import plan_run
from yarnopp_cli.records.job_protocol import SubmitApplicationRequest
from yarnopp_cli.records.jobs import TaskSpec
from yarnopp_cli.records.reports import NodeReport, NodeState
from yarnopp_cli.records.requests import ApplicationSubmissionContext
from yarnopp_cli.settings.loading import load

from .fake import APPLICATION, FakeCluster


def test_a_drained_node_is_no_missing_one() -> None:
    lost = NodeReport("h1:1", NodeState.LOST, "unix:/x")
    gone = replace(lost, state=NodeState.DECOMMISSIONED, connected=False)
    drained = replace(lost, node_id="h2:2", state=NodeState.DECOMMISSIONED)
    draining = replace(drained, node_id="h3:3", state=NodeState.DECOMMISSIONING)
    nothing = "no NodeManager is running, so the job waits: `yopp up` starts it again"
    assert why_no_node([]) == why_no_node([lost]) == why_no_node([gone]) == nothing
    assert why_no_node([], starting=True).startswith("the cluster is still starting")
    assert why_no_node([lost, drained]) == "h2:2 is drained, so the job waits: `yopp node resume h2:2`"
    assert why_no_node([drained, draining]) == (
        "h2:2, h3:3 are drained, so the job waits: `yopp node resume h2:2`"
    )
    sick = replace(lost, state=NodeState.UNHEALTHY, health_report="disk full")
    assert why_no_node([sick]) == ("h1:1 is unhealthy (disk full), so the job waits: `yopp node status h1:1`")


SUBMISSION = SubmitApplicationRequest(ApplicationSubmissionContext("", "job"))


def client_of_a_dead_rm(directory: Path, note: Callable[[str], None]) -> JobClient:
    """A client in a run directory whose RM has died, and is to be restarted."""
    run_dir = RunDir.of(str(directory))
    write_watched(run_dir, "rm", Watched(1 << 22, 1, boot_id()))
    return JobClient(run_dir, load([], [], environ={}, state_dir=str(directory)), note)


@pytest.mark.parametrize("next_life", ["knows", "knows nothing", "never comes"])
def test_a_submission_without_an_answer_is_repeated_to_an_rm_that_knows_of_it(
    tmp_path: Path, next_life: str
) -> None:
    cluster = FakeCluster(tmp_path, [], hang_up_after=1)
    cluster.started_at_ms = 2 if next_life == "knows" else 1
    notes = list[str]()

    def note(text: str) -> None:
        notes.append(text)
        if next_life == "never comes":
            forget_watched(client.run_dir)

    client = client_of_a_dead_rm(tmp_path, note)
    connection = client.open()
    if next_life == "never comes":
        (tmp_path / "rm.sock").unlink()
    if next_life == "knows":
        assert client.submit(None, lambda: SUBMISSION).application_id == APPLICATION
    else:
        with pytest.raises(NoAnswerError, match="while it took the job") as raised:
            client.submit(None, lambda: SUBMISSION)
        because = "has no stored state" if next_life == "knows nothing" else "the cluster has ended"
        assert because in raised.value.because and "may have been submitted" in raised.value.because
    assert client.connection is not connection
    client.close()
    cluster.close()
    assert ["the ResourceManager is available again" in text for text in notes] == [
        next_life != "never comes"
    ]
    keys = [one.context.key for one in cluster.requests if isinstance(one, SubmitApplicationRequest)]
    assert len(keys) == 1 + (next_life == "knows") and len(set(keys)) == 1 and keys[0]


def test_a_submission_that_kills_each_rm_is_given_up(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, [])
    cluster.started_at_ms, cluster.dies_of = 2, "submitApplication"
    client = client_of_a_dead_rm(tmp_path, lambda text: None)
    with pytest.raises(NoAnswerError, match="while it took the job") as raised:
        client.submit(None, lambda: SUBMISSION)
    client.close()
    cluster.close()
    assert "may have been submitted" in raised.value.because
    assert cluster.calls.count("submitApplication") == ATTEMPTS


def test_an_rm_that_dies_while_its_client_waits_for_a_node_has_the_job(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, [], hang_up_after=2)
    cluster.nodes_running = 0
    client = client_of_a_dead_rm(tmp_path, lambda text: None)
    assert client.submit(None, lambda: SUBMISSION).application_id == APPLICATION
    client.close()
    cluster.close()
    assert cluster.calls.count("submitApplication") == 1


@pytest.mark.parametrize("limit", [0.01, 3600.0, 0.0])
def test_a_jobs_time_limit_bounds_the_start_of_its_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: float
) -> None:
    given = list[float]()

    def fails(*_: object, timeout: float, **__: object) -> None:
        given.append(timeout)
        while limit == 0.01 and time.monotonic() < client.until:
            pass
        raise YoppError("rm did not become ready", because="it has not reported")

    monkeypatch.setattr(lifecycle, "ensure_cluster", fails)
    run_dir = RunDir.of(str(tmp_path))
    client = JobClient(run_dir, load([], [], environ={}, state_dir=str(tmp_path)), [].append, limit)
    with pytest.raises(YoppError) as raised:
        client.submit(None, lambda: SUBMISSION)
    assert given[0] <= limit if limit == 0.01 else given == [START_SECONDS]
    if limit == 0.01:
        assert raised.value.exit_code == 124 and isinstance(raised.value, TimedOutError)
        assert "within 0.01 s" in raised.value.message
        assert raised.value.because == "rm did not become ready: it has not reported"
    else:
        assert raised.value.exit_code == 1 and raised.value.message == "rm did not become ready"


@pytest.mark.parametrize(("limit", "passed"), [(0.0, 0), (3600.0, 2000)])
def test_what_passes_before_a_job_is_submitted_is_a_part_of_its_time(
    tmp_path: Path, limit: float, passed: int
) -> None:
    settings = load([], [], environ={}, state_dir=str(tmp_path))
    client = JobClient(RunDir.of(str(tmp_path)), settings, [].append, limit)
    client._begun -= 2
    job = plan_run(("true",), TaskSpec(1, Resource(10, 1)), 4)
    assert passed <= client.charged(replace(job, start_ms=900_000)).start_ms <= passed * 100


def test_the_second_ctrl_c_has_the_rm_kill_it(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, [None])
    said = killed_at_once(cluster.address, APPLICATION)
    cluster.close()
    assert cluster.killed is not None and cluster.killed.application_id == APPLICATION
    shows = f"`yopp app status {APPLICATION}` and `yopp logs {APPLICATION}` show how it ended"
    assert (said.exit_code, said.message, said.hint) == (130, f"killed {APPLICATION}", shows)


def test_where_the_rm_does_not_answer_it_leaves_all_the_same(tmp_path: Path) -> None:
    said = killed_at_once(f"unix:{tmp_path}/none", APPLICATION)
    assert (said.exit_code, said.message.split(":")[0]) == (130, f"left {APPLICATION}")
    assert said.because.startswith("interrupted twice, and ") and said.hint
