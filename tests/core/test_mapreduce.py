"""The tasks of MapReduce jobs: what the RM takes a master's word for, what it keeps, and how it is told."""

from __future__ import annotations

from typing import Any

import pytest

from executor.records import ContainerExitStatus, ContainerState, ContainerUsage
from yarnopp_cli.errors import ConnectionFailedError
from yarnopp_cli.masters import messages as m
from yarnopp_cli.masters.pi import plan
from yarnopp_cli.records.history import GetMapReduceJobRequest, MapReduceReport, TaskAttempt
from yarnopp_cli.records.jobs import JobSpec
from yarnopp_cli.records.master_protocol import AllocateRequest
from yarnopp_cli.records.reports import FinalApplicationStatus
from yarnopp_cli.records.requests import Container, MapReduceJob, TaskAssignment
from yarnopp_cli.settings.declarations import ApplicationSettings
from yarnopp_cli.views.rest.mapreduce import JobView

from .masters.driver import only
from .masters.test_common import Script, asks_of
from .rm_harness import Cluster, Master, Node, asks, done, status

JOB = MapReduceJob(2, outputs_per_map=2)


def running(job: MapReduceJob = JOB) -> tuple[Cluster, Node, Master, list[Container]]:
    """A job whose first containers have been granted."""
    cluster = Cluster()
    node = cluster.node()
    master = cluster.master(application_type="MAPREDUCE", map_reduce=job)
    granted = list(master.allocate(asks(3)).allocated)
    assert len(granted) == 3
    return cluster, node, master, granted


def attempts(cluster: Cluster, app_id: str) -> tuple[TaskAttempt, ...]:
    report = cluster.ask(GetMapReduceJobRequest(app_id)).report
    assert isinstance(report, MapReduceReport)
    return report.attempts


def view(cluster: Cluster, app_id: str) -> JobView:
    answer = cluster.ask(GetMapReduceJobRequest(app_id))
    return JobView(answer.application, answer.report, answer.application.started_at_ms + 60_000)


def test_a_masters_word_is_taken_for_its_own_containers_and_tasks_alone() -> None:
    cluster, _, master, (first, second, third) = running()
    stranger = cluster.master(map_reduce=JOB)
    (foreign,) = stranger.allocate(asks(1)).allocated
    word = (
        TaskAssignment(first.id, 1),
        TaskAssignment(second.id, 2),  # there are two maps
        TaskAssignment(third.id, -1),
        TaskAssignment(third.id, 1, is_reduce=True),  # there is one reduce
        TaskAssignment(foreign.id, 0),
        TaskAssignment("container_1_0001_01_000001", 0),
    )
    master.allocate(tasks=word)
    master.allocate(tasks=word)
    (known,) = attempts(cluster, master.app_id)
    assert (known.container_id, known.index, known.is_reduce, known.number) == (first.id, 1, False, 0)
    assert attempts(cluster, stranger.app_id) == ()


def test_an_application_that_is_no_such_job_has_no_tasks() -> None:
    cluster = Cluster()
    cluster.node()
    master = cluster.master()
    (granted,) = master.allocate(asks(1)).allocated
    master.allocate(tasks=(TaskAssignment(granted.id, 0),))
    assert cluster.ask(GetMapReduceJobRequest(master.app_id)).report is None


def test_attempts_live_end_and_are_kept_with_what_was_measured() -> None:
    cluster, node, master, (first, second, third) = running()
    master.allocate(tasks=(TaskAssignment(first.id, 0), TaskAssignment(second.id, 1)))
    assert [one.state for one in view(cluster, master.app_id).tasks] == ["SCHEDULED", "SCHEDULED", "NEW"]
    node.beat(status(first, started_at_ms=1000), status(second, started_at_ms=1000))
    assert [one.state for one in view(cluster, master.app_id).tasks] == ["RUNNING", "RUNNING", "NEW"]
    usage = ContainerUsage(cpu_seconds=1.5, memory_bytes=10, memory_peak_bytes=4096)
    node.beat(
        done(first, started_at_ms=1000, finished_at_ms=3000, usage=usage),
        done(second, int(ContainerExitStatus.ABORTED), started_at_ms=1000, finished_at_ms=2000),
    )
    # A word that comes after the end, as from a master that was slow, is as good.
    master.allocate(tasks=(TaskAssignment(third.id, 1),))
    node.beat(done(third, 1, started_at_ms=2000, finished_at_ms=2500, diagnostics="no"))
    found = view(cluster, master.app_id)
    assert [one.state for one in found.tasks] == ["SUCCEEDED", "SCHEDULED", "NEW"]
    assert [(one.number, found.attempt_state(one)) for one in found.tasks[1].attempts] == [
        (0, "KILLED"),
        (1, "FAILED"),
    ]
    counters = found.task_counters(found.tasks[0])
    assert counters == {
        "MAP_INPUT_RECORDS": 1,
        "MAP_OUTPUT_RECORDS": 2,
        "CPU_MILLISECONDS": 1500,
        "MAP_PHYSICAL_MEMORY_BYTES_MAX": 4096,
    }
    master.finish(FinalApplicationStatus.FAILED)
    (kept,) = cluster.kept
    assert [one.container_id for one in kept.map_reduce.attempts] == [first.id, second.id, third.id]
    assert kept.map_reduce.job == JOB and len(kept.map_reduce.masters) == 1
    assert cluster.ask(GetMapReduceJobRequest(master.app_id)).report is None  # it is read from there now
    last = JobView(kept.application, kept.map_reduce, 0)
    assert [one.state for one in last.tasks] == ["SUCCEEDED", "FAILED", "KILLED"]
    assert last.job()["state"] == "FAILED" and last.history_job()["failedMapAttempts"] == 1


def test_what_ended_before_the_word_came_is_known_by_its_last_state() -> None:
    cluster, node, master, (first, _, _) = running()
    node.beat(done(first, started_at_ms=1000, finished_at_ms=3000))
    master.allocate(tasks=(TaskAssignment(first.id, 0),))
    (known,) = attempts(cluster, master.app_id)
    assert (known.state, known.exit_status, known.finished_at_ms) == (ContainerState.DONE, 0, 3000)


@pytest.mark.parametrize(
    ("exit_status", "final", "expected"),
    [
        (int(ContainerExitStatus.PREEMPTED), FinalApplicationStatus.SUCCEEDED, "KILLED"),
        (int(ContainerExitStatus.KILLED_BY_APPMASTER), FinalApplicationStatus.SUCCEEDED, "FAILED"),
        (int(ContainerExitStatus.KILLED_BY_APPMASTER), FinalApplicationStatus.FAILED, "KILLED"),
        (int(ContainerExitStatus.KILLED_EXCEEDED_PMEM), FinalApplicationStatus.FAILED, "FAILED"),
        (3, FinalApplicationStatus.FAILED, "FAILED"),
    ],
)
def test_states_of_attempts_that_did_not_succeed(
    exit_status: int, final: FinalApplicationStatus, expected: str
) -> None:
    cluster, node, master, (first, second, third) = running()
    master.allocate(tasks=(TaskAssignment(first.id, 0),))
    ends = [done(one, started_at_ms=1, finished_at_ms=2) for one in (second, third)]
    node.beat(done(first, exit_status, started_at_ms=1, finished_at_ms=2), *ends)
    master.finish(final)
    (kept,) = cluster.kept
    found = JobView(kept.application, kept.map_reduce, 0)
    assert found.attempt_state(found.tasks[0].attempts[0]) == expected


def test_counters_of_a_job_add_up_and_the_largest_memory_is_the_largest() -> None:
    cluster, node, master, (first, second, third) = running()
    master.allocate(
        tasks=(TaskAssignment(first.id, 0), TaskAssignment(second.id, 1), TaskAssignment(third.id, 0, True))
    )
    for one, peak in ((first, 100), (second, 300), (third, 200)):
        usage = ContainerUsage(cpu_seconds=1, memory_peak_bytes=peak)
        node.beat(done(one, started_at_ms=1000, finished_at_ms=2000, usage=usage))
    groups = view(cluster, master.app_id).job_counters_document()["jobCounters"]["counterGroup"]
    found: dict[str, Any] = {one["name"]: one for group in groups for one in group["counter"]}
    cpu = found["CPU_MILLISECONDS"]
    assert (cpu["mapCounterValue"], cpu["reduceCounterValue"], cpu["totalCounterValue"]) == (2000, 1000, 3000)
    assert found["MAP_PHYSICAL_MEMORY_BYTES_MAX"]["totalCounterValue"] == 300
    assert found["REDUCE_INPUT_RECORDS"]["totalCounterValue"] == 4
    assert found["MB_MILLIS_MAPS"]["totalCounterValue"] == 2 * 1000 * first.resource.memory


def pi_job() -> JobSpec:
    return plan(3, 10, "/d", ("halton",), ApplicationSettings())


def words(commands: list[m.Command]) -> list[tuple[TaskAssignment, ...]]:
    return [command.request.tasks for command in only(AllocateRequest, commands)]


def test_a_pi_master_says_with_its_next_call_which_task_a_container_is_for() -> None:
    script = Script(pi_job())
    ids, commands = script.grant(asks_of(script.first))
    expected = tuple(TaskAssignment(name, index) for index, name in enumerate(ids))
    assert words(commands) == [expected]
    assert words(script.news()) == [()]  # once


def test_a_word_that_a_lost_rm_may_not_have_heard_is_said_again() -> None:
    script = Script(pi_job())
    ids, commands = script.grant(asks_of(script.first))
    (call,) = only(AllocateRequest, commands)
    script.tell(m.CallFailed(call, ConnectionFailedError("it has gone")))
    (said,) = words(script.at(script.now + 5))
    assert sorted(one.container_id for one in said) == sorted(ids)


def test_other_masters_say_it_too() -> None:
    spec = pi_job()
    script = Script(JobSpec(spec.name, spec.application_type, spec.phases))
    ids, commands = script.grant(asks_of(script.first))
    assert words(commands) == [tuple(TaskAssignment(name, index) for index, name in enumerate(ids))]
