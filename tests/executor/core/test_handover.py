"""What a guaranteed container leaves is kept for its successor, for a moment (no literal of YARN: ours)."""

from __future__ import annotations

from typing import Any

from executor.core.commands import KillContainer, LaunchContainer, PauseContainer, ResumeContainer
from executor.core.events import ContainerUpdated, GuaranteedAwaited
from executor.core.tracker import Handover
from executor.records import ContainerState, Resource

from .world import G, World

ONE = Resource(512, 1)


def full(**settings: Any) -> World:
    """Two guaranteed containers on 2 vcores, three opportunistic ones in the queue."""
    world = World(memory=2048, vcores=2, **settings)
    world.schedule("g1", G)
    world.schedule("g2", G)
    for number in range(1, 4):
        world.schedule(f"o{number}")
    return world


def started(world: World) -> list[str]:
    return [c.spec.container_id for c in world.last if isinstance(c, LaunchContainer)]


def test_nothing_opportunistic_starts_in_the_gap_between_two_guaranteed_ones() -> None:
    world = full()
    world.tell(GuaranteedAwaited(True))
    for number in range(3, 20):
        world.exit(f"g{number - 2}")
        assert started(world) == []
        world.advance(0.004)
        world.schedule(f"g{number}", G)
        assert started(world) == [f"g{number}"]
    assert not [c for c in world.commands if isinstance(c, KillContainer | PauseContainer)]
    assert world.machine.opportunistic_status().queued == 3


def test_it_is_kept_no_longer_than_that() -> None:
    world = full()
    world.tell(GuaranteedAwaited(True))
    world.exit("g1")
    world.advance(0.099)
    assert started(world) == []
    world.advance(0.002)
    assert started(world) == ["o1"], "nobody came for it"
    assert world.machine.next_deadline() is None


def test_without_successors_nothing_is_kept() -> None:
    world = full()
    world.exit("g1")
    assert started(world) == ["o1"]
    world.tell(GuaranteedAwaited(True))
    world.tell(GuaranteedAwaited(False))
    world.exit("g2")
    assert started(world) == ["o2"]


def test_yarns_rule_can_be_had() -> None:
    world = full(hold_for_guaranteed_ms=0)
    world.tell(GuaranteedAwaited(True))
    world.exit("g1")
    assert started(world) == ["o1"]
    world.schedule("g3", G)
    assert any(isinstance(c, KillContainer) and c.container_id == "o1" for c in world.last)


def test_what_others_leave_or_what_was_free_is_not_kept() -> None:
    world = World(memory=4096, vcores=3)
    world.tell(GuaranteedAwaited(True))
    world.schedule("g1", G)
    world.schedule("g2", G)
    world.schedule("o1")
    assert started(world) == ["o1"], "a vcore is free, and no guaranteed container left it"
    world.schedule("o2")
    world.schedule("o3")
    world.exit("g1")
    assert started(world) == []
    world.exit("o1")
    assert started(world) == ["o2"]
    world.schedule("g3", G)
    assert started(world) == ["g3"]


def test_where_preemption_pauses_the_gap_is_used() -> None:
    world = World(memory=4096, vcores=1, use_pause_for_preemption=True)
    world.schedule("o1")
    world.schedule("g1", G)
    world.tell(GuaranteedAwaited(True))
    for number in range(2, 6):
        world.exit(f"g{number - 1}")
        assert [c.container_id for c in world.last if isinstance(c, ResumeContainer)] == ["o1"]
        world.schedule(f"g{number}", G)
        assert world.state("o1") is ContainerState.PAUSED
    world.exit("g5")
    assert world.state("o1") is ContainerState.RUNNING
    assert len([c for c in world.commands if isinstance(c, PauseContainer)]) == 5


def test_a_smaller_successor_and_a_promoted_one_take_their_part() -> None:
    handover = Handover(0.1)
    handover.expects = True
    handover.left(Resource(1024, 2), 0.0)
    handover.left(Resource(512, 1), 0.05)
    handover.arrived(Resource(1200, 1))
    assert handover.kept == Resource(336, 2)
    assert handover.next_deadline() == 0.1
    assert handover.expired(0.1) and handover.kept == Resource(336, 1)
    handover.arrived(Resource(2048, 4))
    assert handover.kept == Resource() and handover.next_deadline() is None
    world = full()
    world.tell(GuaranteedAwaited(True))
    world.exit("g1")
    world.tell(ContainerUpdated("o1", 1, G))
    assert started(world) == ["o1"], "what is kept is for guaranteed containers, and that is one now"
