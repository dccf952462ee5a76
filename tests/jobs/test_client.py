"""Why a job that no node takes has to wait, and the end of one that is interrupted twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from yarnopp_cli.cli.jobs.running import killed_at_once
from yarnopp_cli.jobs.client import why_no_node
from yarnopp_cli.records.reports import NodeReport, NodeState

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
