"""Why a container stands still or has ended is a value: set where it is decided, told and stored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from executor.causes import Cause, CauseKind, paused_for
from executor.core.commands import KillContainer, PauseContainer
from executor.core.events import (
    ContainerKillRequested,
    ContainerLaunchFailed,
    ContainerPaused,
    ContainerPauseFailed,
    ContainerPauseRequested,
    ContainerRecovered,
    ContainerResumeRequested,
    RecoveryCompleted,
    UsageSampled,
)
from executor.linux import store
from executor.records import ContainerExitStatus, ContainerState, ContainerUsage, Resource

from .pressed_world import PressedWorld
from .test_pressure import fill, idle_guaranteed, low_memory_world
from .world import G, O, World, a_scheduler

MIB = 1 << 20
ROOM_FOR_G = Cause(CauseKind.MAKE_ROOM, for_container="g")


def kind_of(world: World, container_id: str) -> CauseKind | None:
    cause = world.status(container_id).cause
    return None if cause is None else cause.kind


def test_what_queues_runs_or_ends_by_itself_has_no_cause() -> None:
    world = World(memory=1024, vcores=1)
    world.schedule("a", O)
    world.schedule("b", O)
    assert [world.status(name).cause for name in ("a", "b")] == [None, None]
    world.exit("a", 3)
    assert (world.status("a").cause, world.status("a").diagnostics) == (None, "Exit code 3")


def test_a_pause_and_a_kill_name_the_container_that_they_make_room_for() -> None:
    world = World(memory=1024, vcores=1)
    world.schedule("o", O)
    world.schedule("g", G)
    assert world.status("o").cause == ROOM_FOR_G
    pausing = World(memory=1024, vcores=1, use_pause_for_preemption=True)
    pausing.schedule("o", O)
    pausing.schedule("g", G)
    assert (pausing.state("o"), pausing.status("o").cause) == (ContainerState.PAUSED, ROOM_FOR_G)
    assert pausing.status("o").stood_for == "GUARANTEED"
    pausing.exit("g")
    assert pausing.status("o").cause is None, "it runs"
    assert pausing.status("o").stood_for == "GUARANTEED", "and that is remembered"


def test_where_memory_is_short_and_a_pause_would_not_do_the_cause_says_so() -> None:
    world = World(memory=1024, vcores=2, use_pause_for_preemption=True, paused_memory="keep")
    world.schedule("o", O, memory=1024)
    world.schedule("g", G, memory=700)
    assert world.status("o").cause == replace(ROOM_FOR_G, for_memory=True)


def test_a_pause_that_does_not_take_ends_it_for_the_same_cause() -> None:
    world = World(memory=1024, vcores=1, use_pause_for_preemption=True)
    world.schedule("o", O)
    world.answers = False
    world.schedule("g", G)
    world.advance(3)
    assert world.given(KillContainer, "o")
    assert (world.state("o"), world.status("o").cause) == (ContainerState.KILLING, ROOM_FOR_G)


def test_a_person_pauses_and_resumes_and_both_are_told_by_name() -> None:
    world = World(memory=2048, vcores=1)
    world.schedule("c", O)
    world.tell(ContainerPauseRequested("c", "Container paused by the user.", by="ann"))
    assert world.status("c").cause == Cause(CauseKind.PERSON, by="ann")
    world.schedule("o", O)
    world.tell(ContainerResumeRequested("c", by="bob"))
    assert world.status("c").cause == Cause(CauseKind.RESUMED, by="bob"), "it waits for room"
    world.exit("o")
    assert (world.state("c"), world.status("c").cause) == (ContainerState.RUNNING, None)


def test_what_a_person_pauses_and_resumes_as_it_makes_room_still_makes_room() -> None:
    world = World(memory=1024, vcores=1, use_pause_for_preemption=True)
    world.schedule("o", O)
    world.answers = False
    world.schedule("g", G)
    world.tell(ContainerPauseRequested("o", by="ann"))
    assert kind_of(world, "o") is CauseKind.PERSON
    world.tell(ContainerResumeRequested("o", by="ann"))
    assert (world.state("o"), world.status("o").cause) == (ContainerState.PAUSING, ROOM_FOR_G)
    world.tell(ContainerPaused("o"))
    assert (world.state("o"), world.status("o").cause) == (ContainerState.PAUSED, ROOM_FOR_G)


def test_a_pause_that_was_only_planned_leaves_no_cause() -> None:
    world = World(memory=1024, vcores=1)
    world.answers = False
    world.schedule("c", O)
    world.tell(ContainerPauseRequested("c", by="ann"))
    assert kind_of(world, "c") is CauseKind.PERSON
    world.tell(ContainerResumeRequested("c", by="ann"))
    assert world.status("c").cause is None


def test_what_cannot_be_paused_says_why_and_runs_on() -> None:
    world = World(memory=1024, vcores=1)
    world.schedule("c", O)
    world.answers = False
    world.tell(ContainerPauseRequested("c", by="ann"), ContainerPauseFailed("c", "it would not stop"))
    status = world.status("c")
    assert (status.state, status.cause) == (ContainerState.RUNNING, None)
    assert status.refusal == Cause(CauseKind.PAUSE_FAILED, text="it would not stop")


def test_a_refused_update_names_its_version_and_keeps_the_cause_of_a_pause() -> None:
    world = World(memory=1024, vcores=1)
    world.schedule("c", O)
    world.tell(ContainerPauseRequested("c", by="ann"))
    world.update("c", memory=4096, vcores=1, version=2)
    assert kind_of(world, "c") is CauseKind.PERSON
    assert world.status("c").refusal == Cause(CauseKind.UPDATE_REFUSED, version=2)
    world.update("c", G, version=3)
    assert world.status("c").refusal is None


def test_processes_outside_that_want_the_cpu_are_told_with_their_cores() -> None:
    world = PressedWorld(cores=2, memory=4096, pressure_enabled=True)
    world.wants = {"o": 1.0}
    world.schedule("o", O)
    world.outside = [1.0, 1.0]
    world.tick(4)
    assert world.status("o").cause == Cause(CauseKind.OUTSIDE_CPU, cores=2)
    assert world.status("o").stood_for == "LOAD"


def test_memory_pressure_with_swap_pauses_for_memory_and_not_for_room() -> None:
    world = low_memory_world()
    world.swap = 4096
    world.other_memory = 2048 - 850 - 256 + 90
    world.answers = False
    world.tick()
    assert world.given(PauseContainer, "o2")
    cause = world.status("o2").cause
    assert cause is not None and cause.kind is CauseKind.MACHINE_MEMORY
    assert 0 < cause.measured < cause.limit
    world.tell(ContainerPaused("o2", memory=10))
    assert world.status("o2").cause == cause, "what was reclaimed does not change why"
    assert world.status("o2").stood_for == "MEMORY"


def test_memory_pressure_without_swap_ends_one_for_memory() -> None:
    world = low_memory_world()
    world.other_memory = 2048 - 850 - 256 + 90
    world.tick()
    assert (world.state("o2"), kind_of(world, "o2")) == (ContainerState.DONE, CauseKind.MACHINE_MEMORY)


def test_a_pause_for_cpu_on_loan_is_for_guaranteed_ones_and_is_told_as_that() -> None:
    world = idle_guaranteed()
    fill(world, 1)
    world.tick(10)
    assert world.state("o1") is ContainerState.RUNNING, "on loan"
    world.wants["g"] = 4.0
    world.tick(2)
    assert world.state("o1") is ContainerState.PAUSED
    assert (kind_of(world, "o1"), world.status("o1").stood_for) == (CauseKind.LENT_CPU, "GUARANTEED")
    assert "borrowed" in world.status("o1").diagnostics


def test_ends_that_the_node_decides_say_which_limit_and_by_how_much() -> None:
    world = World(memory=4096, vcores=4, polling=True)
    world.schedule("large", O, memory=100, timeout_ms=0)
    world.tell(UsageSampled({"large": ContainerUsage(memory_bytes=300 * MIB)}))
    assert world.status("large").cause == Cause(CauseKind.OVER_MEMORY, measured=300 * MIB, limit=100 * MIB)
    world.schedule("slow", O, timeout_ms=5000)
    world.advance(6)
    world.schedule("chatty", O)
    world.tell(UsageSampled({"chatty": ContainerUsage(log_bytes=10**9)}))
    assert world.state("chatty") is ContainerState.RUNNING, "the limit itself is allowed"
    world.tell(UsageSampled({"chatty": ContainerUsage(log_bytes=10**9 + 1)}))
    chatty = world.status("chatty")
    assert (chatty.exit_status, chatty.cause) == (
        ContainerExitStatus.KILLED_FOR_EXCESS_LOGS,
        Cause(CauseKind.EXCESS_LOGS, measured=10**9 + 1, limit=10**9),
    )
    assert f"{10**9 + 1} bytes of logs" in chatty.diagnostics and "Hint: " in chatty.diagnostics
    bounded = World(work_dir_size_limit_bytes=1000)
    bounded.schedule("c0", O)
    bounded.tell(UsageSampled({"c0": ContainerUsage(disk_bytes=1000)}))
    assert bounded.state("c0") is ContainerState.RUNNING
    bounded.tell(UsageSampled({"c0": ContainerUsage(disk_bytes=1001)}))
    assert bounded.status("c0").cause == Cause(CauseKind.EXCESS_DISK, measured=1001, limit=1000)
    assert world.status("slow").cause == Cause(CauseKind.TIMED_OUT, limit=5000)
    world.schedule("huge", O, memory=10_000)
    assert kind_of(world, "huge") is CauseKind.TOO_LARGE
    world.schedule("killed", O, memory=200)
    world.exit("killed", 137, ContainerUsage(oom_kills=1, memory_peak_bytes=200 * MIB))
    assert world.status("killed").cause == Cause(CauseKind.OOM_KILLED, measured=200 * MIB, limit=200 * MIB)
    world.schedule("lost", O)
    world.exit("lost", None)
    assert kind_of(world, "lost") is CauseKind.LOST
    world.answers = False
    world.schedule("broken", O)
    world.tell(ContainerLaunchFailed("broken", "no such directory"))
    assert world.status("broken").cause == Cause(CauseKind.LAUNCH_FAILED, text="no such directory")


def test_who_asks_for_an_end_says_why() -> None:
    world = World(memory=4096, vcores=4)
    world.schedule("c", O)
    cause = Cause(CauseKind.PERSON, by="ann")
    world.tell(ContainerKillRequested("c", -105, "Container killed by the user.", cause=cause))
    assert (world.state("c"), world.status("c").cause) == (ContainerState.DONE, cause)


def test_the_cause_survives_a_crash() -> None:
    world = World(memory=1024, vcores=1)
    world.schedule("c", O)
    world.tell(ContainerPauseRequested("c", "Container paused by the user.", by="ann"))
    written = store.decode(store.encode(world.records["c"]))
    assert written == world.records["c"]
    later = World(a_scheduler(1024, 1))
    later.tell(ContainerRecovered(written, alive=True, stopped=True), RecoveryCompleted())
    assert later.status("c").cause == Cause(CauseKind.PERSON, by="ann")
    assert later.status("c").stood_for == "PERSON"
    later.tell(ContainerResumeRequested("c"))
    later.exit("c")
    assert later.status("c").diagnostics == "", "why it stood still is no reason for how it ended"


def test_a_record_of_a_version_that_knew_no_causes_is_read() -> None:
    world = World(memory=1024, vcores=1)
    world.schedule("c", O)
    world.tell(ContainerPauseRequested("c", by="ann"))
    text = store.encode(world.records["c"]).replace(b'"cause":{', b'"unknown":{')
    written = store.decode(text)
    assert (written.held, written.cause) == (True, None)
    later = World(a_scheduler(1024, 1))
    later.tell(ContainerRecovered(written, alive=True, stopped=True), RecoveryCompleted())
    assert (later.state("c"), kind_of(later, "c")) == (ContainerState.PAUSED, CauseKind.PERSON)
    assert later.machine.allocated == Resource(512, 0)


@pytest.mark.parametrize("kind", CauseKind)
def test_paused_time_is_counted_by_six_words(kind: CauseKind) -> None:
    assert paused_for(Cause(kind)) in ("", "PERSON", "GUARANTEED", "LOAD", "MEMORY", "RESIZE", "WINDOW")
