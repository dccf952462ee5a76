"""Where the containers of a job would go, before it is submitted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench import world
from executor.records import Resource
from yarnopp_cli.errors import UsageError
from yarnopp_cli.nodemanager.events import AnswerByCopy
from yarnopp_cli.records.admin_protocol import DrainNodesRequest
from yarnopp_cli.records.explanation import ForeseeJobRequest, JobForecast, ReasonCode
from yarnopp_cli.records.job_protocol import SubmitJobRequest
from yarnopp_cli.records.jobs import JobSpec, PhaseSpec, PiSpec, TaskSpec
from yarnopp_cli.records.requests import ApplicationSubmissionContext
from yarnopp_cli.views.explain.consequences import job_document, job_lines, later_document, later_lines
from yarnopp_cli.views.explain.reasons import text

from .rm_harness import GUARANTEED, OPPORTUNISTIC
from .test_whatif import Scene

LEAST = Resource(64, 1)


def scene(
    nodes: int = 1, size: Resource = Resource(1000, 2), *, opportunistic: bool = True, **node: Any
) -> Scene:
    return Scene(nodes, {"max_queue_length": 10, **node}, 1, size, opportunistic_enabled=opportunistic)


def job(guaranteed: int = 0, opportunistic: int = 0, size: Resource = LEAST, **phase: Any) -> JobSpec:
    kinds = [GUARANTEED] * guaranteed + [OPPORTUNISTIC] * opportunistic
    tasks = tuple(TaskSpec(number, size, kind) for number, kind in enumerate(kinds, 1))
    return JobSpec("j", "YARN", (PhaseSpec("p", tasks, ("true",), **phase),))


def foreseen(there: Scene, spec: JobSpec, *, detached: bool = False, **context: Any) -> JobForecast:
    found = there.ask(ForeseeJobRequest(ApplicationSubmissionContext("", "j", **context), spec, detached))
    assert isinstance(found, JobForecast), found
    return found


def submit(there: Scene, spec: JobSpec, **context: Any) -> None:
    there.ask(SubmitJobRequest(ApplicationSubmissionContext("", "j", **context), spec, attached=False))


def told(found: JobForecast) -> list[tuple[int, int, int]]:
    return [(one.starts, one.preempting, one.queued) for one in found.nodes]


def test_room_then_queues_then_waiting() -> None:
    found = foreseen(scene(), job(opportunistic=15))
    assert told(found) == [(2, 0, 10)] and found.waiting == 3
    assert [one.code for one in found.why] == [ReasonCode.QUEUE_CAPACITY]
    found = foreseen(scene(2), job(guaranteed=5))
    assert told(found) == [(2, 0, 0), (2, 0, 0)] and found.waiting == 1
    (why,) = found.why
    assert why.code == ReasonCode.NO_VCORES and not why.by, "its own containers exist in the copy only"


@pytest.mark.parametrize("pauses", [True, False])
def test_guaranteed_ones_take_room_from_opportunistic_ones(pauses: bool) -> None:
    there = scene(use_pause_for_preemption=pauses)
    submit(there, job(opportunistic=2))
    spec = job(guaranteed=1, opportunistic=1)
    found = foreseen(there, spec)
    assert told(found) == [(1, 1, 1)]
    assert list(job_lines(spec, "", found))[2] == (
        "  h0:45454: 1 would start at once (it would preempt opportunistic containers), 1 would queue"
        + (", behind 1 there" if pauses else "")
    )
    (victim,) = job_document(spec, found)["nodes"][0]["preempts"]
    assert victim["how"] == ("pause" if pauses else "kill") and victim["id"].startswith("container_")


def test_the_order_of_the_node_and_the_priority_of_the_application_are_those_of_the_real_run() -> None:
    for settings, context, hints, ahead in (
        ({}, {"priority": 20}, 3, 0),
        ({}, {}, 3, 1),
        ({"queue_policy": "SHORTEST_FIRST"}, {}, 3, 0),
        ({"queue_policy": "FIFO"}, {"priority": 20}, 3, 1),
    ):
        there = scene(**settings)
        for seconds in (15, 300):
            task = TaskSpec(1, Resource(64, 2), OPPORTUNISTIC, duration_hint_ms=seconds * 1000)
            submit(there, JobSpec("j", "YARN", (PhaseSpec("p", (task,), ("true",)),)))
        task = TaskSpec(1, Resource(64, 2), OPPORTUNISTIC, duration_hint_ms=hints * 1000)
        found = foreseen(there, JobSpec("j", "YARN", (PhaseSpec("p", (task,), ("true",)),)), **context)
        assert told(found) == [(0, 0, 1)] and found.nodes[0].ahead == ahead, (settings, context)


def test_what_can_never_be() -> None:
    found = foreseen(scene(), job(1, size=Resource(5000, 1)))
    assert found.impossible == 1 and told(found) == [(0, 0, 0)]
    assert "is larger than any node" in list(job_lines(job(1), "", found))[-1]
    assert "there is no node h9" in foreseen(scene(), job(1, resource_name="h9")).refused
    found = foreseen(scene(opportunistic=False), job(0, 1))
    assert found.refused and "would be refused: " in list(job_lines(job(0, 1), "", found))[-1]
    assert "queue" in foreseen(scene(), job(1), queue="nope").refused
    refused = scene().ask(ForeseeJobRequest(ApplicationSubmissionContext("", "j"), JobSpec("j", "YARN", ())))
    assert isinstance(refused, UsageError), "as a submission is"


def test_sizes_are_rounded_as_the_cluster_rounds_them() -> None:
    found = foreseen(scene(size=Resource(150, 4)), job(3, size=Resource(10, 0)))
    assert told(found) == [(2, 0, 0)] and found.waiting == 1
    assert found.rounded == ((Resource(10, 0), Resource(64, 1)),)


def test_tasks_that_ask_for_no_container_yet_are_later() -> None:
    found = foreseen(scene(), replace(job(opportunistic=9), max_running=3))
    assert told(found) == [(2, 0, 1)] and (found.waiting, found.later) == (0, 6)


def test_a_detached_jobs_master_takes_its_part_of_a_node_to_the_end() -> None:
    def found(memory: int, nodes: int = 1) -> JobForecast:
        spec = replace(job(1, size=Resource(memory, 1)), pi=PiSpec(1, 1, ""))
        return foreseen(scene(nodes), spec, detached=True, am_resource=Resource(64, 1))

    vain = found(960)
    assert vain.impossible == 1 and told(vain) == [(0, 0, 0)]
    assert vain.because is not None and text(vain.because) == (
        "its own master holds 64 MB of the 1000 MB of h0:45454: ask for at most 936 MB, or run without -d"
    )
    assert found(896).impossible == 0 and told(found(896)) == [(1, 0, 0)]
    assert found(960, nodes=2).impossible == 0, "any other node that is large enough will do"


def test_a_job_whose_master_finds_no_room_waits_with_it() -> None:
    there = scene()
    submit(there, job(2))
    spec = replace(job(1), pi=PiSpec(1, 1, ""))
    found = foreseen(there, spec, detached=True, am_resource=Resource(64, 1))
    assert told(found) == [(0, 0, 0)] and (found.waiting, found.later) == (1, 1)


def test_a_drained_node_is_not_one_that_is_too_small() -> None:
    there = scene()
    (node,) = there.cluster.context.nodes
    there.ask(DrainNodesRequest((node,)))
    found = foreseen(there, job(2))
    assert (found.impossible, found.waiting, found.held) == (0, 2, 2)
    assert text(found.unusable[0]) == f"{node} is drained: nothing new is scheduled there"
    assert found.unusable[0].code == ReasonCode.NODE_DRAINING
    assert foreseen(there, job(1, size=Resource(5000, 1))).impossible == 1


def test_a_node_that_does_not_answer_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    there = scene()
    monkeypatch.setitem(world._ACTS, AnswerByCopy, lambda node, command: None)
    found = there.ask(ForeseeJobRequest(ApplicationSubmissionContext("", "j"), job(1)), seconds=3.0)
    assert [(one.starts, one.queued, one.unknown) for one in found.nodes] == [(0, 0, 1)]
    assert (
        "1 would go there, and the node has not said what would become of them"
        in (list(job_lines(job(1), "", found))[2])
    )
    assert not there.live()["h0:45454"] and not there.cluster.context.applications


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
