"""G3, G4 and G5 of what is wrong in YARN's node: each does not happen here, and does under YARN's rules."""

from __future__ import annotations

from typing import Any

from executor.core.commands import KillContainer
from tests.executor.core.world import G, O, World

from .yarn_node import FULL, yarn_node


def paused_then_full(world: World) -> None:
    """c0 was paused for g while c1 was queued, another arrived, and g has ended."""
    world.schedule("c0", O, 512)
    world.schedule("c1", O, 512)
    world.schedule("g", G, 512)
    world.schedule("c2", O, 512)
    world.exit("g")


def test_g3_a_paused_one_is_resumed_first_and_takes_no_place() -> None:
    node: dict[str, Any] = {"vcores": 1, "max_queue_length": 2, "use_pause_for_preemption": True}
    ours = World(**node)
    paused_then_full(ours)
    assert ours.states("c0", "c1", "c2") == ["RUNNING", "SCHEDULED", "SCHEDULED"]
    yarns = yarn_node(**node)
    paused_then_full(yarns)
    assert yarns.states("c0", "c1", "c2") == ["PAUSED", "RUNNING", "DONE"]
    assert yarns.status("c2").diagnostics == FULL


def large_before_small(world: World) -> None:
    """c1 needs more than is free, those behind it do not."""
    world.schedule("c0", O, 512, 1)
    world.schedule("c1", O, 512, 4)
    for number in range(2, 5):
        world.schedule(f"c{number}", O, 256, 1)


def test_g4_one_that_does_not_fit_yet_does_not_idle_the_node_and_does_not_starve() -> None:
    ours = World()
    large_before_small(ours)
    assert ours.states("c1", "c2", "c3", "c4") == ["SCHEDULED", "RUNNING", "RUNNING", "RUNNING"]
    yarns = yarn_node()
    large_before_small(yarns)
    assert yarns.states("c1", "c2", "c3", "c4") == ["SCHEDULED"] * 4


def test_g4_by_number_and_by_time_overtaking_has_an_end() -> None:
    for bound in ({"max_overtakes": 3}, {"max_wait_ms": 3000}):
        world = World(**bound)
        large_before_small(world)
        for number in range(5, 50):
            world.now += 1
            world.schedule(f"c{number}", O, 256, 1)
            running = [s.container_id for s in world.machine.statuses() if s.state.value == "RUNNING"]
            if "c1" in running:
                break
            world.exit(running[0])
        else:
            raise AssertionError(f"it starves with {bound}")


def killed(world: World) -> list[str]:
    return [command.container_id for command in world.commands if isinstance(command, KillContainer)]


def test_g5_nobody_is_killed_in_vain() -> None:
    for world, victims in ((World(), []), (yarn_node(), ["c0"])):
        world.schedule("busy", G, 1024)
        world.schedule("c0", O, 1024)
        world.schedule("g", G, 2048)
        assert killed(world) == victims


def test_g5_the_fewest_are_killed() -> None:
    for world, victims in ((World(), ["c0"]), (yarn_node(), ["c2", "c1", "c0"])):
        world.schedule("c0", O, 1024)
        world.schedule("c1", O, 512)
        world.schedule("c2", O, 256)
        world.schedule("g", G, 1280)
        assert killed(world) == victims


def test_g5_none_that_gives_nothing_of_what_is_short() -> None:
    for world, victims in ((World(), ["c0"]), (yarn_node(), ["c1", "c0"])):
        world.schedule("c0", O, 1920, 1)
        world.schedule("c1", O, 0, 1)
        world.schedule("g", G, 1024, 1)
        assert killed(world) == victims
