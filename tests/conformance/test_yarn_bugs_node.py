"""Bugs that YARN's node had, one test each, named by their issues: none of them happens here."""

from __future__ import annotations

from typing import Any

import pytest

from executor.core.commands import KillContainer, LaunchContainer, ReportStatus, ResumeContainer
from executor.core.events import (
    ContainerExited,
    ContainerKillRequested,
    ContainerLaunched,
    ContainerLaunchFailed,
    ContainerPaused,
    ContainerPauseFailed,
    ContainerRecovered,
    ContainerResumed,
    RecoveryCompleted,
    UsageSampled,
)
from executor.records import ContainerRecord, ContainerState, ContainerUsage, Resource
from tests.core.test_nodemanager import World as NodeWorld
from tests.core.test_nodemanager import beats, cid, of, to_start
from tests.executor.core.world import G, O, World, a_spec
from yarnopp_cli.machine.calls import StopDaemon

from .yarn_node import FULL, KILLED, PAUSED, yarn_node

WORLDS = [World, yarn_node]
RULES = pytest.mark.parametrize("world_of", WORLDS, ids=["ours", "yarns"])


def killed(world: World) -> list[str]:
    return [command.container_id for command in world.commands if isinstance(command, KillContainer)]


# -- guaranteed containers that did not start ----------------------------------------------------------------


@RULES
def test_yarn_5117_a_guaranteed_one_starts_where_resources_are_free(world_of: Any) -> None:
    """It waited in the queue although nothing but it was there, once opportunistic ones had come and gone."""
    world = world_of()
    world.schedule("o0", O, 1024)
    world.schedule("g0", G, 1024)
    assert world.states("o0", "g0") == ["RUNNING", "RUNNING"]
    world.schedule("g1", G, 1024)
    assert world.states("o0", "g1") == ["DONE", "RUNNING"]
    for name in ("g0", "g1"):
        world.exit(name)
    assert world.machine.allocated == Resource()
    world.schedule("g2", G, 2048, 4)
    assert world.state("g2") is ContainerState.RUNNING
    world.schedule("g3", G, 2048)
    assert world.state("g3") is ContainerState.SCHEDULED
    world.exit("g2")
    assert world.state("g3") is ContainerState.RUNNING


def test_yarn_7185_without_queuing_the_rms_book_decides_under_yarns_rules() -> None:
    """With opportunistic queuing off the node looked at its own resources, and guaranteed ones waited for ever."""
    world = yarn_node(memory=2048, vcores=1, max_queue_length=0)
    for number in range(3):
        world.schedule(f"g{number}", G, 2048, 4)
    assert world.states("g0", "g1", "g2") == ["RUNNING"] * 3
    assert world.queued() == (0, 0)
    ours = World(vcores=4, max_queue_length=0)
    for number in range(4):
        ours.schedule(f"g{number}", G, 512, 1)
    assert ours.states("g0", "g1", "g2", "g3") == ["RUNNING"] * 4, "and what the RM has counted fits"


# -- upgrade and restart -------------------------------------------------------------------------------------


def recovered(world: World, *records: ContainerRecord) -> None:
    for record in records:
        alive = record.state is not ContainerState.SCHEDULED
        world.tell(ContainerRecovered(record, alive=alive, stopped=record.state is ContainerState.PAUSED))
    world.tell(RecoveryCompleted())


def record(name: str, kind: Any, state: str, sequence: int, memory: int = 512) -> ContainerRecord:
    pid = 0 if state == "SCHEDULED" else 40 + sequence
    spec = a_spec(name, kind, memory)
    return ContainerRecord(spec, ContainerState(state), pid=pid, sequence=sequence, started_at_ms=sequence)


@RULES
def test_yarn_8346_an_upgrade_kills_nobody_for_a_full_queue(world_of: Any) -> None:
    """What ran before the restart was refused after it: 'Opportunistic container queue is full'."""
    world = world_of(max_queue_length=0)
    recovered(
        world,
        record("g0", G, "RUNNING", 1),
        record("o0", O, "RUNNING", 2),
        record("o1", O, "RUNNING", 3),
        record("o2", O, "SCHEDULED", 4, memory=2048),
    )
    assert killed(world) == []
    assert world.states("g0", "o0", "o1", "o2") == ["RUNNING", "RUNNING", "RUNNING", "SCHEDULED"]
    for name in ("g0", "o0", "o1"):
        world.exit(name)
    assert world.state("o2") is ContainerState.RUNNING


@RULES
def test_yarn_7542_what_runs_is_not_recovered_as_paused(world_of: Any) -> None:
    """The mark of a pause stayed after the resume, and a running container came back as a paused one."""
    world = world_of(use_pause_for_preemption=True, vcores=1)
    world.schedule("o0", O, 512)
    world.schedule("g0", G, 512)
    assert world.state("o0") is ContainerState.PAUSED
    assert world.records["o0"].state is ContainerState.PAUSED
    world.exit("g0")
    assert world.state("o0") is ContainerState.RUNNING
    assert world.records["o0"].state in (ContainerState.RESUMING, ContainerState.RUNNING)
    after = world_of(use_pause_for_preemption=True, vcores=1)
    after.tell(ContainerRecovered(world.records["o0"], alive=True, stopped=False))
    after.tell(RecoveryCompleted())
    assert after.state("o0") is ContainerState.RUNNING
    assert not [command for command in after.commands if isinstance(command, ResumeContainer)]


# -- reporting -----------------------------------------------------------------------------------------------


def test_yarn_5204_the_end_of_a_killed_queued_container_is_told_until_it_is_acknowledged() -> None:
    node = NodeWorld(queue=10)
    node.register()
    node.run_one(1, memory=4096, vcores=2, execution_type="GUARANTEED")
    node.start(to_start(2))
    assert node.status(2).state is ContainerState.SCHEDULED
    node.tell(ContainerKillRequested(cid(2), -105, "Container killed by the ApplicationMaster."))
    status = node.status(2)
    assert (status.state, status.exit_status, status.pid) == (ContainerState.DONE, -105, 0)
    told = [s for beat in beats(node.commands) for s in beat.containers if s.container_id == cid(2)]
    if not told:  # both heartbeats may be under way; the next one has it
        node.answer()
        told = [s for beat in beats(node.commands) for s in beat.containers if s.container_id == cid(2)]
    assert told[-1].exit_status == -105
    assert cid(2) in {status.container_id for status in node.machine.scheduler.statuses()}


@RULES
def test_yarn_9166_who_is_preempted_is_told_so_and_nobody_else(world_of: Any) -> None:
    world = world_of()
    world.schedule("o0", O, 1024)
    world.schedule("o1", O, 1024)
    world.schedule("g0", G, 1024)
    said = {name: world.status(name).diagnostics for name in ("o0", "o1", "g0")}
    assert {name for name, text in said.items() if KILLED in text} == {"o1"}
    assert said["o0"] == said["g0"] == ""


@RULES
def test_yarn_9382_pauses_and_resumes_are_reported_as_they_happen(world_of: Any) -> None:
    world = world_of(use_pause_for_preemption=True, vcores=1)
    world.schedule("o0", O, 512)
    world.schedule("g0", G, 512)
    world.exit("g0")
    world.stop("o0")
    reported = [
        (c.status.container_id, c.status.state.value) for c in world.commands if isinstance(c, ReportStatus)
    ]
    mine = [state for name, state in reported if name == "o0"]
    for state in ("PAUSING", "PAUSED", "RESUMING", "RUNNING", "KILLING", "DONE"):
        assert state in mine, state
    assert mine.index("PAUSED") < mine.index("RESUMING") < mine.index("DONE")
    assert PAUSED in world.status("o0").diagnostics


# -- crashes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [False, True])
def test_yarn_9164_the_end_of_a_node_with_queued_and_paused_containers(keep: bool) -> None:
    """The scheduler was asked about containers after its parts were gone: a NullPointerException."""
    node = NodeWorld(queue=10)
    node.register()
    node.run_one(1, memory=2048, vcores=2)
    for number in (2, 3):
        node.start(to_start(number, memory=4096, vcores=2))
    node.answer(action="SHUTDOWN", keep_containers=keep)
    for late in (
        UsageSampled({cid(1): ContainerUsage(), cid(2): ContainerUsage()}),
        ContainerKillRequested(cid(2), -105, "late"),
        ContainerExited(cid(1), 143),
        ContainerExited(cid(1), 143),
        ContainerExited("container_9_9999_01_000009", 1),
        ContainerLaunchFailed(cid(1), "late"),
    ):
        node.tell(late)
    node.until(node.now + 60)
    assert of(StopDaemon, node.commands)
    assert node.machine.next_deadline() is None


def test_yarn_9594_an_event_has_its_own_effect_and_no_other_ones() -> None:
    """A missing ``break`` let RECOVERY_COMPLETED fall through to the next case."""
    world = World()
    world.schedule("c0", O, 512)
    world.schedule("c1", O, 4096 // 2)
    before = [(s.container_id, s.state, s.diagnostics) for s in world.machine.statuses()]
    for event in (
        RecoveryCompleted(),
        UsageSampled({}),
        ContainerLaunched("nobody", 1, 1),
        ContainerPaused("nobody"),
        ContainerPauseFailed("nobody", "why"),
        ContainerResumed("nobody"),
        ContainerExited("nobody", 1),
        ContainerKillRequested("nobody", -105, "why"),
    ):
        assert world.tell(event) == [], event
    assert [(s.container_id, s.state, s.diagnostics) for s in world.machine.statuses()] == before


@RULES
def test_yarn_10760_the_figures_of_opportunistic_containers_never_go_below_zero(world_of: Any) -> None:
    """After a restart ends were counted down that had never been counted up."""
    world = world_of(use_pause_for_preemption=True, vcores=1)
    recovered(
        world, record("o0", O, "RUNNING", 1), record("o1", O, "PAUSED", 2), record("o2", O, "SCHEDULED", 3)
    )
    assert world.states("o0", "o1", "o2") == ["RUNNING", "PAUSED", "SCHEDULED"]
    for name in ("o1", "o2", "o0"):
        world.stop(name) if name == "o2" else world.exit(name)
        seen = world.machine.opportunistic_status()
        assert min(seen.running, seen.queued, seen.paused, seen.memory_used, seen.vcores_used) >= 0
        world.tell(ContainerExited(name, 0))
    seen = world.machine.opportunistic_status()
    assert (seen.running, seen.queued, seen.paused, seen.memory_used, seen.vcores_used) == (0,) * 5


def test_yarn_8346_a_refusal_is_still_what_a_newcomer_gets() -> None:
    world = yarn_node(max_queue_length=1)
    world.schedule("g0", G, 2048)
    world.schedule("o0", O, 512)
    world.schedule("o1", O, 512)
    assert world.status("o1").diagnostics == FULL
    assert not world.given(LaunchContainer)
