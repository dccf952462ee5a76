"""What a node's group weighs: by what runs in it, at each moment."""

from __future__ import annotations

import pytest

from executor.core.events import ContainerPauseRequested, ContainerResumeRequested, RecoveryCompleted
from executor.core.limits import SHARES, WEIGHT
from executor.records import ContainerState, ExecutionType

from .pressed_world import PressedWorld
from .recovering import Finding, reconcile
from .test_recovery import a_record
from .world import World, a_scheduler, a_spec

G, O = ExecutionType.GUARANTEED, ExecutionType.OPPORTUNISTIC  # noqa: E741 - the letters of the conformance cases


@pytest.mark.parametrize(
    ("vcores", "shares", "weight"),
    [(0, 2, 1), (1, 1024, 100), (3, 3072, 300), (100, 102_400, 10_000), (1000, 262_144, 10_000)],
)
def test_a_vcore_weighs_what_a_process_outside_does(vcores: int, shares: int, weight: int) -> None:
    assert (SHARES.of_vcores(vcores), WEIGHT.of_vcores(vcores)) == (shares, weight)


def test_a_group_of_groups_is_their_sum_and_what_yields_adds_nothing() -> None:
    assert SHARES.of_groups([1024, 2048, 2, 2]) == 3072
    assert SHARES.of_groups([2, 2, 2]) == SHARES.of_groups([]) == 2
    assert WEIGHT.of_groups([1, 1]) == 1
    assert WEIGHT.of_groups([9_000, 9_000]) == 10_000


def test_guaranteed_containers_count_from_their_start_to_their_end() -> None:
    world = World()
    world.tell(RecoveryCompleted())
    assert world.weight == 0
    world.schedule("o", O, 512, 1)
    assert world.weight == 0
    world.schedule("g1", G, 512, 1)
    world.schedule("g2", G, 512, 2)
    assert world.weight == 3
    world.schedule("g3", G, 512, 4)
    assert world.state("g3") is ContainerState.SCHEDULED and world.weight == 3, "it waits"
    world.stop("g3")
    world.exit("g1")
    assert world.weight == 2
    world.update("g2", O)
    assert world.weight == 0
    world.update("o", G)
    assert world.weight == 1
    world.tell(ContainerPauseRequested("o"))
    assert world.weight == 0, "what stands still wants nothing"
    world.tell(ContainerResumeRequested("o"))
    assert world.weight == 1
    world.exit("o")
    assert world.weight == 0


def test_who_is_to_stop_or_end_is_not_starved_meanwhile() -> None:
    world = World(answers=False)
    world.schedule("o")
    assert world.weight == 0
    world.stop("o")
    assert (world.state("o"), world.weight) == (ContainerState.KILLING, 1)
    world.exit("o", 143)
    assert world.weight == 0


def test_masters_weigh_a_vcore_together_though_they_are_accounted_with_none() -> None:
    world = World()
    for name in ("m1", "m2"):
        world.schedule(name, G, 128, 0, least_vcores=1)
    world.schedule("zero", G, 128, 0)
    assert world.weight == 1
    world.schedule("g", G, 128, 2)
    assert world.weight == 2, "who has the promise of two lets them have their milliseconds of these"
    world.exit("g")
    world.exit("m1")
    assert world.weight == 1
    world.exit("m2")
    assert world.weight == 0, "one that asks for no vcores and is no master is given none"


def test_a_guaranteed_one_that_idles_lends_its_weight_to_no_opportunistic_one() -> None:
    world = PressedWorld(4, pressure_enabled=True)
    world.wants = {"g": 0.0, "o": 1.0}
    world.schedule("m", G, 128, 0, least_vcores=1)
    world.schedule("g", G, 128, 2)
    world.tick(4)
    assert world.weight == 2, "nobody is beside them"
    world.schedule("o", O, 128, 1)
    assert world.weight == 2, "nothing is known yet"
    world.tick(1)
    assert world.weight == 0
    world.outside = [1.0] * 4
    world.wants["g"] = 2.0
    world.tick(0.75)
    assert world.weight == 2, "it has what it was promised as soon as it wants it"
    world.wants |= {"g": 0.4, "m": 0.1}
    world.outside = []
    world.tick(30)
    assert world.weight == 1, "a master that works beside it: no less than a vcore"
    world.wants["m"] = 0.0
    world.tick(30)
    assert world.weight == 0.5
    world.exit("o")
    assert world.weight == 2


def test_a_guaranteed_one_that_has_just_started_counts_as_it_was_promised() -> None:
    world = PressedWorld(pressure_enabled=True, vcores=4)
    world.wants = {"o": 1.0}
    world.schedule("o", O, 128, 1)
    world.tick(3)
    world.schedule("g", G, 128, 1)
    world.tick(1)
    assert world.weight == 1
    world.tick(2)
    assert world.weight == 0


def test_after_a_crash_it_is_told_once_when_everything_is_known() -> None:
    world = World()
    events = reconcile([a_record("RUNNING", spec=a_spec("c", G))], {"c": Finding(alive=True)})
    world.tell(*events[:-1])
    assert world.weight is None
    world.tell(events[-1])
    assert world.weight == 1


def test_it_can_be_left_alone() -> None:
    world = World(a_scheduler(group_weights=False))
    world.schedule("g", G)
    assert world.weight is None
