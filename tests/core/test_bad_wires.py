"""Whatever becomes of connections between the RM, its nodes and masters, no task is lost, none runs again that had
ended well, each job has succeeded where all of its tasks have, and nothing is left running.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from executor.light import replace
from executor.records import ExecutionType, Resource
from executor.settings import ExecutorSettings
from yarnopp_cli.errors import ConnectionFailedError, InvalidStateError
from yarnopp_cli.masters import messages as m
from yarnopp_cli.masters.ends import PATIENCE_SECONDS
from yarnopp_cli.masters.jobmaster import JobMaster
from yarnopp_cli.records.jobs import TaskSpec
from yarnopp_cli.records.master_protocol import (
    FinishApplicationMasterRequest,
    FinishApplicationMasterResponse,
)
from yarnopp_cli.records.reports import FinalApplicationStatus

from .faulty_wire import BadCluster, Faults
from .masters.driver import ATTEMPT, TOKEN, World, job, only, rm_answered
from .rm_harness import SETTINGS, Cluster

pytestmark = pytest.mark.pure

KINDS = {
    "late messages": Faults(late=0.5),
    "connections cut, messages late": Faults(late=0.5, cuts=0.3),
    "connections cut all the time": Faults(cuts=0.1, half_open=0.3),
    "half-open connections": Faults(cuts=1.0, half_open=3.0),
    "all of it": Faults(late=1.0, cuts=2.0, half_open=8.0),
}
SEEDS = 8
LIMIT = 1500
"""Virtual seconds for 40 tasks: a node whose registrations are all lost is given up after 600."""


@pytest.mark.parametrize("hosted", [True, False], ids=["masters in the RM", "masters in clients"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_task_is_lost_or_done_twice_whatever_the_wires_do(kind: str, hosted: bool) -> None:
    cuts = 0
    for seed in range(SEEDS):
        settings = replace(SETTINGS, client_am_grace_ms=20_000)  # longer than a connection is half-open
        cluster = BadCluster(KINDS[kind], settings, seed=seed)
        pausing = ExecutorSettings(max_queue_length=10, use_pause_for_preemption=bool(seed % 2))
        cluster.add_bad_nodes(2, Resource(2048, 2), pausing)
        for number, memory, execution_type in (
            (30, 100, ExecutionType.OPPORTUNISTIC),
            (10, 800, ExecutionType.GUARANTEED),
        ):
            cluster.submit_job(number, TaskSpec(1, Resource(memory, 1), execution_type), hosted=hosted)
        cluster.run(LIMIT)
        assert not cluster.problems(), f"seed {seed}"
        assert all(end.exit_code == 0 for end in cluster.ends.values()), f"seed {seed}"
        cuts += cluster.cuts
    assert (cuts >= 2 * SEEDS) is bool(KINDS[kind].cuts)


def test_a_node_whose_last_connection_still_seems_to_be_there_is_no_other_node() -> None:
    """It was told to end itself, and all of its containers with it."""
    cluster = Cluster()
    node = cluster.node("h1:1", pid=7)
    assert node.register().action == "NORMAL"
    node.pid = 8
    refused = node.register()
    assert refused.action == "SHUTDOWN"
    assert refused.diagnostics == "another NodeManager (pid 7) is registered as h1:1 and alive"


def test_a_registration_whose_answer_was_lost_is_made_again() -> None:
    cluster = Cluster()
    master = cluster.master()
    cluster.lose(master.connection)
    master.connection = cluster.connection()
    assert master.register().queue == "default"
    master.allocate()
    master.connection = cluster.connection()
    with pytest.raises(InvalidStateError, match="registered already"):
        master.register()


def finishing() -> tuple[JobMaster, m.CallRM]:
    """A master whose tasks have all ended well, and its call that says so."""
    master = JobMaster(job(2), ATTEMPT, TOKEN)
    world = World(master, random.Random(1), lambda _: (0, None))
    calls: list[Any] = []
    take = world._do

    def until_finish(commands: list[m.Command]) -> None:
        calls.extend(only(FinishApplicationMasterRequest, commands))
        if not calls:
            take(commands)

    world._do = until_finish  # type: ignore[method-assign]
    world._do(master.handle(m.MasterStarted(), 0.0))
    while not calls:
        world._step()
    return master, calls[0]


LOST = ConnectionFailedError("the connection was lost")


def test_an_end_that_the_rm_may_not_have_heard_is_told_again() -> None:
    master, call = finishing()
    assert only(m.EndMaster, master.handle(m.CallFailed(call, LOST), 10.0)) == []
    due = master.next_deadline()
    assert due is not None and 10.0 < due < 11.0
    assert [one.request for one in only(FinishApplicationMasterRequest, master.advance(due))] == [
        call.request
    ]
    (end,) = only(m.EndMaster, master.handle(rm_answered(FinishApplicationMasterResponse(True)), due))
    assert (end.exit_code, end.final_status) == (0, FinalApplicationStatus.SUCCEEDED)


def test_it_is_not_told_for_ever_and_who_wants_the_job_to_stop_does_not_wait() -> None:
    master, call = finishing()
    for seconds in range(10, 30, 5):
        assert not only(m.EndMaster, master.handle(m.CallFailed(call, LOST), float(seconds)))
        master.advance(seconds + 0.5)
    ended = master.handle(m.CallFailed(call, LOST), 10.0 + PATIENCE_SECONDS)
    assert [one.exit_code for one in only(m.EndMaster, ended)] == [0]
    assert any("the job's end could not be reported" in one.text for one in only(m.Notice, ended))
    master, call = finishing()
    master.handle(m.CallFailed(call, LOST), 10.0)
    assert len(only(m.EndMaster, master.handle(m.StopRequested("interrupted", 130), 10.1))) == 1
    assert master.next_deadline() is None
