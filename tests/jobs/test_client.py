"""Why a job that no node takes has to wait, and the end of one that is interrupted twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from executor.linux.procfs import boot_id
from yarnopp_cli.cli.jobs.running import killed_at_once
from yarnopp_cli.cluster.rundir import RunDir
from yarnopp_cli.cluster.watched import write_watched
from yarnopp_cli.errors import NoAnswerError
from yarnopp_cli.jobs.client import JobClient, why_no_node
from yarnopp_cli.machine.restarts import Watched
from yarnopp_cli.records.client_protocol import SubmitApplicationRequest
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


@pytest.mark.parametrize("nodes_running", [1, 0])
def test_a_job_that_an_rm_may_have_taken_before_it_died_is_not_submitted_again(
    tmp_path: Path, nodes_running: int
) -> None:
    run_dir = RunDir.of(str(tmp_path))
    cluster = FakeCluster(tmp_path, [], hang_up_after=1 if nodes_running else 2)
    cluster.nodes_running = nodes_running
    write_watched(run_dir, "rm", Watched(1 << 22, 1, boot_id()))  # it died, and is to be restarted
    notes = list[str]()
    client = JobClient(run_dir, load([], [], environ={}, state_dir=str(tmp_path)), notes.append)
    request = SubmitApplicationRequest(ApplicationSubmissionContext("", "job"))
    if nodes_running:  # it dies before it answers
        with pytest.raises(NoAnswerError, match="while it took the job"):
            client.submit(None, lambda: request)
    else:  # it has answered, and dies while the client waits for a node
        assert client.submit(None, lambda: request).application_id == APPLICATION
    client.close()
    cluster.close()
    assert cluster.calls.count("submitApplication") == 1


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
