"""Where the containers of a job would go, before it is submitted."""

from __future__ import annotations

from dataclasses import replace

from executor.records import OpportunisticContainersStatus, Resource
from yarnopp_cli.core.dry_run import Forecast, forecast
from yarnopp_cli.records.jobs import JobSpec, PhaseSpec, TaskSpec
from yarnopp_cli.records.reports import NodeReport, NodeState

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
    found = forecast(job(opportunistic=15), [node()], opportunistic=True, minimum=LEAST)
    assert told(found) == [(2, 0, 10)] and found.waiting == 3
    found = forecast(job(guaranteed=5), [node(), node("h2:2")], opportunistic=True, minimum=LEAST)
    assert told(found) == [(2, 0, 0), (2, 0, 0)] and found.waiting == 1


def test_guaranteed_ones_take_room_from_opportunistic_ones() -> None:
    busy = node()
    busy = replace(
        busy,
        opportunistic=OpportunisticContainersStatus(
            running=2, memory_used=200, vcores_used=2, queue_capacity=10
        ),
    )
    found = forecast(job(guaranteed=1, opportunistic=1), [busy], opportunistic=True, minimum=LEAST)
    assert told(found) == [(1, 1, 1)]


def test_what_can_never_be() -> None:
    found = forecast(job(1, size=Resource(5000, 1)), [node()], opportunistic=True, minimum=LEAST)
    assert found.impossible == 1 and told(found) == [(0, 0, 0)]
    found = forecast(job(1, resource_name="h9"), [node()], opportunistic=True, minimum=LEAST)
    assert found.impossible == 1
    found = forecast(job(0, 1), [node()], opportunistic=False, minimum=LEAST)
    assert "switched off" in found.refused
    lost = replace(node(), state=NodeState.DECOMMISSIONING)
    assert forecast(job(1), [lost], opportunistic=True, minimum=LEAST).places == []


def test_sizes_are_rounded_as_the_cluster_rounds_them() -> None:
    found = forecast(job(3, size=Resource(10, 0)), [node()], opportunistic=True, minimum=Resource(512, 1))
    assert told(found) == [(1, 0, 0)] and found.waiting == 2


def test_the_queue_limit_of_the_resourcemanager_counts() -> None:
    found = forecast(job(0, 9), [node(queue_limit=5)], opportunistic=True, minimum=LEAST)
    assert told(found) == [(2, 0, 5)] and found.waiting == 2


def test_a_detached_jobs_master_takes_its_part_of_a_node_to_the_end() -> None:
    def found(memory: int, nodes: int = 1) -> Forecast:
        size = Resource(memory, 1)
        every = [node("h1:1"), node("h2:2")][:nodes]
        return forecast(job(1, size=size), every, opportunistic=True, minimum=LEAST, master=Resource(100, 0))

    vain = found(1000)
    assert vain.impossible == 1 and told(vain) == [(0, 0, 0)]
    assert vain.because == (
        "its own master holds 100 MB of the 1000 MB of h1:1: ask for at most 900 MB, or run without -d"
    )
    assert found(900).impossible == 0 and told(found(900)) == [(1, 0, 0)]
    assert found(1000, nodes=2).impossible == 0, "any other node that is large enough will do"
    full = replace(node(), used=Resource(1000, 2))
    waits = forecast(job(1), [full], opportunistic=True, minimum=LEAST, master=Resource(100, 0))
    assert waits.waiting == 1, "with its master"
