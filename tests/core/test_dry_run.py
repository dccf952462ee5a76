"""Where the containers of a job would go, before it is submitted."""

from __future__ import annotations

from dataclasses import replace

from executor.causes import Cause, CauseKind
from executor.records import ContainerState, ExecutionType, OpportunisticContainersStatus, Resource
from yarnopp_cli.explain.forecast import Forecast, forecast
from yarnopp_cli.records.explanation import ReasonCode
from yarnopp_cli.records.jobs import JobSpec, PhaseSpec, TaskSpec
from yarnopp_cli.records.reports import ContainerReport, NodeReport, NodeState
from yarnopp_cli.records.requests import ApplicationSubmissionContext
from yarnopp_cli.views.explain.consequences import job_lines, later_document, later_lines
from yarnopp_cli.views.explain.reasons import text

from .rm_harness import GUARANTEED, OPPORTUNISTIC

LEAST = Resource(100, 1)


def node(
    name: str = "h1:1", total: Resource = Resource(1000, 2), room: int = 10, **more: object
) -> NodeReport:
    return NodeReport(
        name,
        NodeState.RUNNING,
        "unix:/x",
        total=total,
        opportunistic=OpportunisticContainersStatus(queue_capacity=room),
        **more,  # type: ignore[arg-type]
    )


def job(guaranteed: int = 0, opportunistic: int = 0, size: Resource = LEAST, **phase: object) -> JobSpec:
    kinds = [GUARANTEED] * guaranteed + [OPPORTUNISTIC] * opportunistic
    tasks = tuple(TaskSpec(number, size, kind) for number, kind in enumerate(kinds, 1))
    return JobSpec("j", "YARN", (PhaseSpec("p", tasks, ("true",), **phase),))  # type: ignore[arg-type]


def told(found: object) -> list[tuple[int, int, int]]:
    return [(one.starts, one.preempting, one.queued) for one in found.places]  # type: ignore[attr-defined]


def test_room_then_queues_then_waiting() -> None:
    found = forecast(job(opportunistic=15), [node()], [], opportunistic=True, minimum=LEAST)
    assert told(found) == [(2, 0, 10)] and found.waiting == 3
    found = forecast(job(guaranteed=5), [node(), node("h2:2")], [], opportunistic=True, minimum=LEAST)
    assert told(found) == [(2, 0, 0), (2, 0, 0)] and found.waiting == 1


def test_guaranteed_ones_take_room_from_opportunistic_ones() -> None:
    busy = node()
    busy = replace(
        busy,
        opportunistic=OpportunisticContainersStatus(
            running=2, memory_used=200, vcores_used=2, queue_capacity=10
        ),
    )
    live = [waiter(number, ContainerState.RUNNING) for number in (1, 2)]
    found = forecast(job(guaranteed=1, opportunistic=1), [busy], live, opportunistic=True, minimum=LEAST)
    assert told(found) == [(1, 1, 1)]
    assert list(job_lines(job(1, 1), "", found))[2] == (
        "  h1:1: 1 would start at once (it would preempt opportunistic containers), 1 would queue"
    )


def test_what_can_never_be() -> None:
    found = forecast(job(1, size=Resource(5000, 1)), [node()], [], opportunistic=True, minimum=LEAST)
    assert found.impossible == 1 and told(found) == [(0, 0, 0)]
    found = forecast(job(1, resource_name="h9"), [node()], [], opportunistic=True, minimum=LEAST)
    assert found.impossible == 1
    found = forecast(job(0, 1), [node()], [], opportunistic=False, minimum=LEAST)
    assert found.refused
    lost = replace(node(), state=NodeState.DECOMMISSIONING)
    assert forecast(job(1), [lost], [], opportunistic=True, minimum=LEAST).places == []


def test_sizes_are_rounded_as_the_cluster_rounds_them() -> None:
    found = forecast(job(3, size=Resource(10, 0)), [node()], [], opportunistic=True, minimum=Resource(512, 1))
    assert told(found) == [(1, 0, 0)] and found.waiting == 2


def test_the_queue_limit_of_the_resourcemanager_counts() -> None:
    found = forecast(job(0, 9), [node(queue_limit=5)], [], opportunistic=True, minimum=LEAST)
    assert told(found) == [(2, 0, 5)] and found.waiting == 2


def test_a_detached_jobs_master_takes_its_part_of_a_node_to_the_end() -> None:
    def found(memory: int, nodes: int = 1) -> Forecast:
        size = Resource(memory, 1)
        every = [node("h1:1"), node("h2:2")][:nodes]
        return forecast(
            job(1, size=size), every, [], opportunistic=True, minimum=LEAST, master=Resource(100, 0)
        )

    vain = found(1000)
    assert vain.impossible == 1 and told(vain) == [(0, 0, 0)]
    assert vain.because is not None and text(vain.because) == (
        "its own master holds 100 MB of the 1000 MB of h1:1: ask for at most 900 MB, or run without -d"
    )
    assert found(900).impossible == 0 and told(found(900)) == [(1, 0, 0)]
    assert found(1000, nodes=2).impossible == 0, "any other node that is large enough will do"
    full = replace(node(), used=Resource(1000, 2))
    waits = forecast(job(1), [full], [], opportunistic=True, minimum=LEAST, master=Resource(100, 0))
    assert waits.waiting == 1, "with its master"


def waiter(number: int, state: ContainerState, cause: Cause | None = None) -> ContainerReport:
    return ContainerReport(
        f"container_1_0001_01_{number:06d}",
        "application_1_0001",
        "h1:1",
        ExecutionType.OPPORTUNISTIC,
        LEAST,
        state=state,
        cause=cause,
        queued_at_ms=number,
    )


PAUSED = [waiter(number, ContainerState.PAUSED, Cause(CauseKind.OUTSIDE_CPU, cores=2)) for number in (1, 2)]
QUEUED = [waiter(number, ContainerState.SCHEDULED) for number in (3, 4)]


def test_what_waits_there_already_goes_first_and_the_machine_may_be_busy() -> None:
    status = OpportunisticContainersStatus(queued=2, paused=2, queue_capacity=10, lent_vcores=-2)
    busy = replace(node(), opportunistic=status)
    found = forecast(job(opportunistic=3), [busy], [*PAUSED, *QUEUED], opportunistic=True, minimum=LEAST)
    assert told(found) == [(0, 0, 3)] and found.places[0].ahead == 2
    codes = [one.code for one in found.places[0].reasons]
    assert codes == [ReasonCode.PRESSURE, ReasonCode.BEHIND]
    # the machine is quiet again: those that had to give way go on before what comes now
    quiet = replace(busy, opportunistic=replace(status, lent_vcores=0))
    found = forecast(job(opportunistic=3), [quiet], [*PAUSED, *QUEUED], opportunistic=True, minimum=LEAST)
    assert told(found) == [(0, 0, 3)]
    # and so do those that queue
    found = forecast(job(opportunistic=3), [quiet], [PAUSED[0], QUEUED[0]], opportunistic=True, minimum=LEAST)
    assert told(found) == [(0, 0, 3)]
    found = forecast(job(opportunistic=3), [quiet], [QUEUED[0]], opportunistic=True, minimum=LEAST)
    assert told(found) == [(1, 0, 2)] and found.places[0].reasons == ()


def test_paused_ones_keep_their_memory_and_what_is_lent_is_room() -> None:
    kept = replace(
        node(total=Resource(200, 2)), opportunistic=OpportunisticContainersStatus(queue_capacity=1)
    )
    found = forecast(job(opportunistic=1), [kept], PAUSED, opportunistic=True, minimum=LEAST)
    assert told(found) == [(0, 0, 1)] and found.places[0].reasons[0].code == ReasonCode.NO_MEMORY
    lent = replace(node(), opportunistic=OpportunisticContainersStatus(queue_capacity=1, lent_vcores=1))
    found = forecast(job(opportunistic=4), [lent], [], opportunistic=True, minimum=LEAST)
    assert told(found) == [(3, 0, 1)]


def test_a_drained_node_is_not_one_that_is_too_small() -> None:
    drained = replace(node(), state=NodeState.DECOMMISSIONED)
    found = forecast(job(2), [drained], [], opportunistic=True, minimum=LEAST)
    assert (found.impossible, found.waiting, found.held) == (0, 2, 2)
    assert text(found.unusable[0]) == "h1:1 is drained: nothing new is scheduled there"
    assert found.unusable[0].code == ReasonCode.NODE_DRAINING
    large = forecast(job(1, size=Resource(5000, 1)), [drained], [], opportunistic=True, minimum=LEAST)
    assert large.impossible == 1 and not large.held
    lost = replace(node(), state=NodeState.LOST)
    assert forecast(job(1), [lost], [], opportunistic=True, minimum=LEAST).impossible == 1


def test_what_a_job_would_wait_for_and_what_it_waits_for_in_vain() -> None:
    later = ApplicationSubmissionContext("a_3", "j", after=("a_1:ok", "a_2:any"), begin_at_ms=3_600_000)
    begin, first, second = later_lines(later, {"a_1": "", "a_2": ""})
    assert begin.endswith("; the placement above is as of now"), "it is printed after the placement"
    assert (first, second) == (
        "  it would wait for a_1 (ok) before it begins",
        "  it would wait for a_2 (any) before it begins",
    )
    assert list(later_lines(later, {"a_1": "ok", "a_2": "failed"})) == [begin]
    why = "a_1 has failed, and it waited for that to succeed"
    assert list(later_lines(later, {"a_1": "failed", "a_2": ""})) == [
        f"  it would end at once with exit code 125, because it can never begin: {why}"
    ]
    assert later_document(later, {"a_1": "failed"})["never"] == why
    assert later_document(later, {"a_1": "ok"})["never"] == ""
