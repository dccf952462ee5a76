"""Where the containers of a job would go, before it is submitted."""

from __future__ import annotations

from dataclasses import replace

from executor.records import OpportunisticContainersStatus, Resource
from yarnopp_cli.core.dry_run import forecast
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
