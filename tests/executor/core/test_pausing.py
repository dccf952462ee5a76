"""What a pause gives back, by ``yopp.nodemanager.paused-memory``, and what that means for who is paused or killed."""

from __future__ import annotations

from typing import Any

import pytest

from executor.core.commands import KillContainer, PauseContainer, ResumeContainer, SetLimits
from executor.core.events import (
    ContainerPaused,
    ContainerPauseFailed,
    ContainerPauseRequested,
    ContainerRecovered,
    ContainerResumed,
    ContainerResumeRequested,
    RecoveryCompleted,
    UsageSampled,
)
from executor.core.outcome import PAUSED_TO_MAKE_ROOM, RESUMED
from executor.core.scheduler import PAUSE_AGAIN_SECONDS
from executor.records import ContainerExitStatus, ContainerState, ContainerUsage, Resource

from .world import EPOCH, G, O, World, a_scheduler

MIB = 1 << 20


def full(**settings: Any) -> World:
    """A node of 2048 MB and 2 vcores; o1 and o2 of 1024 MB run and use 100 MB each."""
    world = World(memory=2048, vcores=2, use_pause_for_preemption=True, **settings)
    for name in ("o1", "o2"):
        world.schedule(name, O, memory=1024)
    world.tell(UsageSampled({name: ContainerUsage(memory_bytes=100 * MIB) for name in ("o1", "o2")}))
    return world


def test_memory_that_is_short_is_reclaimed_and_comes_back_before_it_goes_on() -> None:
    world = full()
    world.answers = False
    world.schedule("g", G, memory=700)
    assert world.given(PauseContainer) == [PauseContainer("o2", reclaim_memory=True)]
    assert not world.given(KillContainer)
    world.answers = True
    world.tell(ContainerPaused("o2", memory=102))
    assert world.states("o1", "o2", "g") == ["RUNNING", "PAUSED", "RUNNING"]
    assert world.machine.allocated == Resource(1024 + 102 + 700, 2)
    assert "922 MB of its 1024 MB of memory were reclaimed" in world.status("o2").diagnostics
    assert world.records["o2"].paused_memory == 102
    world.exit("g")
    order = [type(c) for c in world.last if isinstance(c, SetLimits | ResumeContainer)]
    assert order == [SetLimits, ResumeContainer], "it has its memory again before it runs"
    assert world.machine.allocated == Resource(2048, 2)


def test_too_little_that_is_reclaimed_leads_to_a_kill() -> None:
    world = full()
    world.answers = False
    world.schedule("g", G, memory=700)
    world.tell(ContainerPaused("o2", memory=900))
    assert world.given(PauseContainer) == [PauseContainer("o1", reclaim_memory=True)], "the next is tried"
    world.tell(ContainerPaused("o1", memory=1024))
    assert world.given(KillContainer), "and where that was in vain, one has to go"
    assert world.machine.allocated.memory <= 2048


def test_where_pausing_cannot_free_enough_it_says_so() -> None:
    world = full()
    world.schedule("g", G, memory=2000)
    ended = [world.status(name) for name in ("o1", "o2")]
    assert {one.exit_status for one in ended} == {ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER}
    assert all("pausing would not have freed enough" in one.diagnostics for one in ended)


def test_only_vcores_short_reclaims_nothing() -> None:
    world = full()
    world.exit("o1")
    world.schedule("g", G, memory=500, vcores=2)
    assert world.given(PauseContainer) == [PauseContainer("o2")]
    assert world.state("g") == "RUNNING"


@pytest.mark.parametrize("how", [{"paused_memory": "keep"}, {"memory_enforced": False}])
def test_memory_that_is_kept_costs_a_life(how: dict[str, Any]) -> None:
    world = full(**how)
    world.schedule("g", G, memory=700)
    assert world.status("o2").exit_status == ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER


def test_yarns_rule_gives_all_of_it_back() -> None:
    world = full(paused_memory="release")
    world.schedule("g", G, memory=2048)
    assert world.states("o1", "o2", "g") == ["PAUSED", "PAUSED", "RUNNING"]
    assert world.machine.allocated == Resource(2048, 1)
    world.exit("g")
    assert world.states("o1", "o2") == ["RUNNING", "RUNNING"]


def test_a_lowered_one_is_found_again_with_what_it_kept() -> None:
    world = full()
    world.answers = False
    world.schedule("g", G, memory=700)
    world.tell(ContainerPaused("o2", memory=102))
    later = World(a_scheduler(2048, 2, use_pause_for_preemption=True))
    later.tell(ContainerRecovered(world.records["o1"], alive=True))
    later.tell(ContainerRecovered(world.records["o2"], alive=True, stopped=True), RecoveryCompleted())
    assert later.state("o2") == "RUNNING", "there was room for it"
    assert later.machine.allocated == Resource(2048, 2)


def test_the_hundredth_pause_is_like_the_first_and_its_time_does_not_count() -> None:
    world = World(memory=2048, vcores=2)
    world.schedule("c", G, timeout_ms=60_000)
    for _ in range(100):
        world.advance(0.1)
        world.tell(ContainerPauseRequested("c", "by hand"))
        assert world.state("c") is ContainerState.PAUSED
        world.advance(3600)
        world.tell(ContainerResumeRequested("c"))
        assert world.state("c") is ContainerState.RUNNING
    world.advance(49.9)
    assert world.state("c") is ContainerState.RUNNING
    world.advance(0.2)
    assert world.status("c").exit_status == 124


def test_a_pause_that_does_not_take_becomes_a_kill() -> None:
    world = full()
    world.answers = False
    world.exit("o1")
    world.schedule("g", G, memory=100, vcores=2)
    world.tell(ContainerPauseFailed("o2", "it would not stop"))
    assert world.given(KillContainer, "o2")
    assert "could not be paused: it would not stop" in world.status("o2").diagnostics


def test_a_paused_and_lowered_one_can_be_promoted() -> None:
    world = full()
    world.answers = False
    world.schedule("g", G, memory=700)
    world.tell(ContainerPaused("o2", memory=102))
    world.update("o2", G)
    assert world.status("o2").execution_type is G
    assert not world.given(SetLimits, "o2"), "what it has been lowered to holds until it goes on"
    world.exit("o1")
    assert [type(c) for c in world.last if isinstance(c, SetLimits | ResumeContainer)] == [
        SetLimits,
        ResumeContainer,
    ]
    assert world.machine.allocated == Resource(1024 + 700, 2)


def test_why_it_stood_still_is_not_why_it_ended_and_it_says_since_when_it_goes_on() -> None:
    world = World(memory=2048, vcores=1)
    world.schedule("c", O)
    for other in ("o1", "o2"):
        world.advance(1)
        world.tell(ContainerPauseRequested("c", "by hand"))
        world.schedule(other, O)
        world.advance(1)
        world.tell(ContainerResumeRequested("c"))
        assert world.state("c") is ContainerState.PAUSED
        assert world.status("c").diagnostics == RESUMED, "what it waits for now is room"
        assert world.status("c").resumed_at_ms == 0
        world.exit(other)
        status = world.status("c")
        assert (status.state, status.diagnostics) == (ContainerState.RUNNING, "")
        assert status.resumed_at_ms == round(EPOCH * 1000) + round(world.now * 1000)
    world.exit("c")
    assert world.status("c").diagnostics == ""


def test_who_made_room_twice_and_ended_well_has_nothing_to_explain() -> None:
    world = World(memory=2048, vcores=1, use_pause_for_preemption=True)
    world.schedule("o", O)
    for guaranteed in ("g1", "g2"):
        world.schedule(guaranteed, G)
        assert world.status("o").diagnostics == PAUSED_TO_MAKE_ROOM, "once"
        world.exit(guaranteed)
    assert world.state("o") is ContainerState.RUNNING
    world.exit("o")
    assert (world.status("o").exit_status, world.status("o").diagnostics) == (0, "")


def test_it_is_told_how_long_it_stood_and_for_what() -> None:
    world = full()
    world.advance(5)
    world.schedule("g", G, memory=0)
    assert (world.status("o2").stood_for, world.status("o2").stood_ms) == ("GUARANTEED", 0)
    world.advance(30)
    world.exit("g")
    assert world.status("o2").stood_ms == 30_000
    world.tell(ContainerPauseRequested("o2", "Container paused by root."))
    world.advance(10)
    assert world.status("o2").stood_ms == 30_000, "what it stands now is counted when it goes on"
    world.stop("o2")
    ended = world.status("o2")
    assert (ended.state, ended.stood_for, ended.stood_ms) == (ContainerState.DONE, "PERSON", 40_000)
    world.exit("o1")
    assert (world.status("o1").stood_for, world.status("o1").stood_ms) == ("", 0)


@pytest.mark.parametrize(("after", "paused"), [(PAUSE_AGAIN_SECONDS - 1, "o1"), (PAUSE_AGAIN_SECONDS, "o2")])
def test_one_whose_pause_failed_is_paused_again_later(after: float, paused: str) -> None:
    """What refused it may have passed by then."""
    world = full()
    world.answers = False
    world.tell(
        ContainerPauseRequested("o2", by="ann"), ContainerPauseFailed("o2", "cgroup.freeze: no memory")
    )
    world.advance(after)
    world.schedule("g", G, memory=500)
    assert world.given(PauseContainer) == [PauseContainer(paused, reclaim_memory=True)]


def test_a_pause_that_a_person_asked_for_shows_that_it_can_be_paused() -> None:
    world = full()
    world.answers = False
    world.tell(
        ContainerPauseRequested("o2", by="ann"), ContainerPauseFailed("o2", "cgroup.freeze: no memory")
    )
    world.answers = True
    world.tell(ContainerPauseRequested("o2", by="ann"))
    world.tell(ContainerResumeRequested("o2", by="ann"))
    world.answers = False
    world.schedule("g", G, memory=500)
    assert world.states("o1", "o2", "g") == ["RUNNING", "PAUSING", "SCHEDULED"]


def test_what_was_stopped_before_is_recorded_until_it_runs_again() -> None:
    world = World(memory=2048, vcores=2)
    world.schedule("c", G)
    world.answers = False
    left = ((7, 70), (8, 80))
    world.tell(ContainerPauseRequested("c", "by hand"), ContainerPaused("c", left=left))
    record = world.records["c"]
    assert (record.state, record.left) == (ContainerState.PAUSED, left)
    later = World(memory=2048, vcores=2)
    later.answers = False
    later.tell(ContainerRecovered(record, alive=True, stopped=True), RecoveryCompleted())
    later.tell(ContainerResumeRequested("c"))
    assert (later.records["c"].state, later.records["c"].left) == (ContainerState.RESUMING, left)
    later.tell(ContainerResumed("c"))
    assert (later.records["c"].state, later.records["c"].left) == (ContainerState.RUNNING, ())
