"""Why a job that no node takes has to wait."""

from __future__ import annotations

from dataclasses import replace

from yarnopp_cli.jobs.session import why_no_node
from yarnopp_cli.records.reports import NodeReport, NodeState


def test_a_drained_node_is_no_missing_one() -> None:
    lost = NodeReport("h1:1", NodeState.LOST, "unix:/x")
    gone = replace(lost, state=NodeState.DECOMMISSIONED, connected=False)
    drained = replace(lost, node_id="h2:2", state=NodeState.DECOMMISSIONED)
    draining = replace(drained, node_id="h3:3", state=NodeState.DECOMMISSIONING)
    nothing = "no NodeManager is running, so the job waits: `yopp up` starts it again"
    assert why_no_node([]) == why_no_node([lost]) == why_no_node([gone]) == nothing
    assert why_no_node([lost, drained]) == "h2:2 is drained, so the job waits: `yopp node resume h2:2`"
    assert why_no_node([drained, draining]) == (
        "h2:2, h3:3 are drained, so the job waits: `yopp node resume h2:2`"
    )
    sick = replace(lost, state=NodeState.UNHEALTHY, health_report="disk full")
    assert why_no_node([sick]) == ("h1:1 is unhealthy (disk full), so the job waits: `yopp node status h1:1`")
