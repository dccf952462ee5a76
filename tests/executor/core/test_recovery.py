"""What records and processes mean after a crash."""

from __future__ import annotations

from dataclasses import replace

import pytest

from executor.core.commands import (
    CleanUpContainer,
    ForgetContainer,
    KillContainer,
    LaunchContainer,
    ReportStatus,
    ResumeContainer,
    StoreContainer,
)
from executor.core.events import (
    ContainerPauseRequested,
    ContainerRecovered,
    ContainerResumeRequested,
    RecoveryCompleted,
)
from executor.core.recovery import Standing, standing
from executor.records import ContainerRecord, ContainerState, ContainerUsage, Resource

from .recovering import Finding, reconcile
from .world import EPOCH, G, O, World, a_spec

NOTHING = Finding()
ALIVE = Finding(alive=True, cgroup="/yopp/c")
STOPPED = Finding(alive=True, stopped=True)


def a_record(state: str, container_id: str = "c", sequence: int = 1, **rest: object) -> ContainerRecord:
    spec = rest.pop("spec", None) or a_spec(container_id)
    pid = 0 if state in ("SCHEDULED", "LAUNCHING") else 41
    return ContainerRecord(spec, ContainerState(state), pid=pid, sequence=sequence, **rest)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "nothing", "alive", "stopped"),
    [
        ("SCHEDULED", "QUEUED", "RUNNING", "PAUSED"),
        ("LAUNCHING", "QUEUED", "RUNNING", "PAUSED"),
        ("RUNNING", "ENDED", "RUNNING", "PAUSED"),
        ("PAUSING", "ENDED", "RUNNING", "PAUSED"),
        ("PAUSED", "ENDED", "RUNNING", "PAUSED"),
        ("RESUMING", "ENDED", "RUNNING", "PAUSED"),
        ("KILLING", "ENDED", "KILLING", "KILLING"),
        ("DONE", "FINISHED", "FINISHED", "FINISHED"),
    ],
)
def test_the_processes_are_right(state: str, nothing: str, alive: str, stopped: str) -> None:
    seen = [
        standing(reconcile([a_record(state)], {"c": found})[0])  # type: ignore[arg-type]
        for found in (NOTHING, ALIVE, STOPPED)
    ]
    assert seen == [Standing(nothing), Standing(alive), Standing(stopped)]
    exited = ContainerRecovered(a_record(state), alive=False, exit_code=3)
    assert standing(exited) is (Standing.FINISHED if state == "DONE" else Standing.ENDED)


def test_events_come_in_order_of_arrival_and_end() -> None:
    records = [a_record("SCHEDULED", name, sequence) for name, sequence in (("b", 7), ("c", 9), ("a", 2))]
    events = reconcile(records, {})
    assert [e.record.spec.container_id for e in events if isinstance(e, ContainerRecovered)] == [
        "a",
        "b",
        "c",
    ]
    assert events[-1] == RecoveryCompleted()
    assert reconcile([], {}) == [RecoveryCompleted()]


def test_queued_ones_stay_in_their_places_and_new_ones_come_after() -> None:
    world = World(memory=512)
    records = [a_record("SCHEDULED", f"c{number}", number) for number in (5, 3, 4)]
    world.tell(*reconcile([*records, a_record("RUNNING", "busy", 1)], {"busy": ALIVE}))
    world.schedule("new")
    assert [world.status(c).position for c in ("c3", "c4", "c5", "new")] == [1, 2, 3, 4]
    for ending, starting in (("busy", "c3"), ("c3", "c4"), ("c4", "c5"), ("c5", "new")):
        world.exit(ending)
        assert world.state(starting) is ContainerState.RUNNING


def test_one_that_queues_has_used_nothing_whatever_was_measured() -> None:
    found = Finding(usage=ContainerUsage(memory_bytes=200_000, cpu_seconds=0.01))
    world = World(memory=512)
    records = [a_record("RUNNING", "busy", 1), a_record("SCHEDULED", "c", 2)]
    world.tell(*reconcile(records, {"busy": ALIVE, "c": found}))
    assert world.state("c") is ContainerState.SCHEDULED
    assert world.status("c").usage == ContainerUsage()


def test_a_running_one_runs_on_and_its_end_is_seen() -> None:
    world = World()
    started = round(EPOCH * 1000) - 5000
    record = a_record("RUNNING", started_at_ms=started, state_since_ms=started)
    world.tell(*reconcile([record], {"c": ALIVE}))
    assert not world.given(LaunchContainer)
    seen = world.status("c")
    assert (seen.state, seen.pid, seen.started_at_ms, seen.cgroup) == (
        ContainerState.RUNNING, 41, started, "/yopp/c",
    )  # fmt: skip
    assert not world.given(StoreContainer), "nothing about it has changed"
    world.exit("c", 7)
    assert world.status("c").exit_status == 7


@pytest.mark.parametrize("state", ["RUNNING", "PAUSING", "PAUSED", "RESUMING", "KILLING"])
def test_an_exit_code_that_was_left_is_reported(state: str) -> None:
    world = World()
    usage = ContainerUsage(cpu_seconds=2.0)
    world.tell(*reconcile([a_record(state)], {"c": Finding(exit_code=5, usage=usage)}))
    seen = world.status("c")
    assert (seen.state, seen.exit_status, seen.exit_code, seen.usage) == (ContainerState.DONE, 5, 5, usage)
    assert [type(c) for c in world.last] == [StoreContainer, CleanUpContainer, ReportStatus]
    assert world.machine.forget(["c"]) == [ForgetContainer("c")]


def test_what_is_gone_without_a_word_is_lost() -> None:
    world = World()
    world.tell(*reconcile([a_record("RUNNING")], {}))
    assert (world.status("c").exit_status, world.status("c").exit_code) == (-100, None)
    assert "without an exit code" in world.status("c").diagnostics


def test_what_ran_before_a_reboot_is_lost_with_it() -> None:
    world = World()
    found, completed = reconcile([a_record("RUNNING")], {})
    world.tell(replace(found, rebooted=True), completed)
    assert world.status("c").exit_status == -100
    assert "the machine was restarted while it ran" in world.status("c").diagnostics


def test_what_was_being_killed_is_killed_again_and_says_why() -> None:
    world = World(answers=False)
    record = a_record("KILLING", exit_status=-105, diagnostics="Container killed by its AM.")
    world.tell(*reconcile([record], {"c": ALIVE}))
    assert world.given(KillContainer) == [KillContainer("c")]
    assert world.advance(1.0) == [KillContainer("c", force=True)]
    world.exit("c", 137)
    seen = world.status("c")
    assert (seen.exit_status, seen.exit_code, seen.diagnostics) == (-105, 137, "Container killed by its AM.")


def test_what_was_killed_and_is_gone_says_who_killed_it() -> None:
    world = World()
    world.tell(*reconcile([a_record("KILLING", exit_status=-108)], {}))
    assert world.status("c").exit_status == -108


def test_a_launch_that_never_was_is_done_again_once_everything_is_told() -> None:
    world = World(answers=False)
    recovered, completed = reconcile([a_record("LAUNCHING")], {})
    assert not any(isinstance(c, LaunchContainer) for c in world.tell(recovered))
    assert [c.spec.container_id for c in world.tell(completed) if isinstance(c, LaunchContainer)] == ["c"]


def test_a_paused_one_is_resumed_before_later_ones() -> None:
    world = World(answers=False, vcores=1)
    records = [a_record("SCHEDULED", "later", 2), a_record("PAUSED", "c", 1)]
    world.tell(*reconcile(records, {"c": STOPPED}))
    assert world.given(ResumeContainer) == [ResumeContainer("c")]
    assert world.states("c", "later") == ["RESUMING", "SCHEDULED"]


def test_what_a_person_paused_stays_paused() -> None:
    world = World()
    world.tell(*reconcile([a_record("PAUSED", held=True)], {"c": STOPPED}))
    assert world.state("c") is ContainerState.PAUSED
    assert not world.given(ResumeContainer)


def test_an_end_that_was_not_reported_is_kept_and_told() -> None:
    world = World()
    record = a_record("DONE", exit_status=3, exit_code=3, finished_at_ms=77, diagnostics="Exit code 3")
    world.tell(*reconcile([record], {}))
    seen = world.status("c")
    assert (seen.exit_status, seen.exit_code, seen.finished_at_ms) == (3, 3, 77)
    assert [type(c) for c in world.last] == [CleanUpContainer, ReportStatus]
    assert world.schedule("c") == [], "it is known"


def test_promotion_survives() -> None:
    world = World()
    world.schedule("c")
    world.update("c", G)
    again = World()
    again.tell(*reconcile(world.records.values(), {"c": ALIVE}))
    assert (again.status("c").execution_type, again.status("c").version) == (G, 1)
    assert again.allocated_guaranteed() == Resource(512, 1)


def test_paused_time_does_not_count_across_a_crash() -> None:
    world = World()
    world.schedule("c", timeout_ms=10_000)
    world.advance(4.0)
    world.tell(ContainerPauseRequested("c"))
    world.advance(100.0)
    again = World()
    again.now = world.now + 50.0
    again.tell(*reconcile(world.records.values(), {"c": STOPPED}))
    again.tell(ContainerResumeRequested("c"))
    again.advance(5.9)
    assert again.state("c") is ContainerState.RUNNING
    again.advance(0.2)
    assert again.status("c").exit_status == 124


def test_running_time_is_counted_once_over_several_crashes() -> None:
    world = World()
    world.schedule("c", timeout_ms=10_000)
    world.advance(2.0)
    world.update("c", G)  # written again in the middle of its run
    records = world.records
    for now in (4.0, 6.0, 8.0):
        again = World()
        again.now = now
        again.records = dict(records)
        again.tell(*reconcile(records.values(), {"c": ALIVE}))
        records = again.records
    again.advance(1.9)
    assert again.state("c") is ContainerState.RUNNING
    again.advance(0.2)
    assert again.status("c").exit_status == 124


def test_time_without_us_counts_for_what_ran_on() -> None:
    world = World()
    world.schedule("c", timeout_ms=10_000)
    again = World()
    again.now = 9.0
    again.tell(*reconcile(world.records.values(), {"c": ALIVE}))
    again.advance(0.9)
    assert again.state("c") is ContainerState.RUNNING
    again.advance(0.2)
    assert again.status("c").exit_status == 124


def test_a_node_that_shrank() -> None:
    """What runs goes on; what waits and can never run here ends; opportunistic ones make up for it."""
    world = World(memory=1024)
    big = a_spec("big", G, 1024)
    records = [
        replace(a_record("RUNNING", "big", 1), spec=big),
        a_record("RUNNING", "o", 2),
        replace(a_record("SCHEDULED", "huge", 3), spec=a_spec("huge", O, 2048)),
    ]
    world.tell(*reconcile(records, {"big": ALIVE, "o": ALIVE}))
    assert world.states("big", "o", "huge") == ["RUNNING", "DONE", "DONE"]
    assert (world.status("o").exit_status, world.status("huge").exit_status) == (-108, 125)


def test_a_paused_one_that_can_never_run_on_a_node_that_shrank_ends() -> None:
    world = World(vcores=1)
    record = replace(a_record("PAUSED"), spec=a_spec("c", O, 512, 2))
    world.tell(*reconcile([record], {"c": STOPPED}))
    assert world.status("c").exit_status == 125


def test_overdrawn_memory_does_not_keep_vcores_from_who_needs_those_alone() -> None:
    world = World(memory=1024, vcores=2)
    records = [
        replace(a_record("RUNNING", "big", 1), spec=a_spec("big", G, 2048)),
        replace(a_record("RUNNING", "o", 2), spec=a_spec("o", O, 0)),
    ]
    world.tell(*reconcile(records, {"big": ALIVE, "o": ALIVE}))
    assert world.states("big", "o") == ["RUNNING", "RUNNING"], "there is nothing to be gained"
    world.schedule("g", G, 0, 1)
    assert world.states("o", "g") == ["DONE", "RUNNING"]


def test_who_was_overtaken_before_the_crash_is_not_overtaken_for_ever() -> None:
    world = World(vcores=4, max_overtakes=1)
    records = [
        replace(a_record("SCHEDULED", "large", 1), spec=a_spec("large", O, 512, 4)),
        a_record("RUNNING", "overtaker", 2),
    ]
    world.tell(*reconcile(records, {"overtaker": ALIVE}))
    world.schedule("small")
    assert world.states("large", "small") == ["SCHEDULED", "SCHEDULED"]


def test_what_arrives_before_everything_is_told_waits_even_where_there_is_no_queue() -> None:
    world = World(max_queue_length=0)
    world.tell(reconcile([a_record("RUNNING")], {"c": ALIVE})[0])
    world.schedule("early")
    assert world.state("early") is ContainerState.SCHEDULED
    world.tell(RecoveryCompleted())
    assert world.state("early") is ContainerState.RUNNING


def test_the_newest_is_known_by_its_start() -> None:
    world = World(memory=1024)
    records = [
        a_record("RUNNING", "early", 2, started_at_ms=1000),
        a_record("RUNNING", "late", 1, started_at_ms=2000),
    ]
    world.tell(*reconcile(records, {"early": ALIVE, "late": ALIVE}))
    world.schedule("g", G)
    assert world.states("early", "late") == ["RUNNING", "DONE"]


def test_being_told_twice_changes_nothing() -> None:
    world = World()
    event = reconcile([a_record("RUNNING")], {"c": ALIVE})[0]
    world.tell(event)
    assert world.tell(event) == []
    assert world.machine.allocated == Resource(512, 1)
