"""Who begins in the moment in which another one ends: decided ahead where nothing else has a claim, and taken back."""

from __future__ import annotations

from typing import Any

import pytest

from executor.core.commands import (
    KillContainer,
    LaunchContainer,
    LaunchNext,
    PauseContainer,
    ReportStatus,
    RevokeNext,
    SetLimits,
    StoreContainer,
)
from executor.core.events import (
    ApplicationPriorityChanged,
    ContainerExited,
    ContainerKillRequested,
    ContainerLaunched,
    ContainerPauseRequested,
    NodeHealthChanged,
    NodeResized,
    OpportunisticWindowChanged,
    QueuingLimitReceived,
)
from executor.records import (
    ContainerExitStatus,
    ContainerQueuingLimit,
    ContainerState,
    ExecutionType,
    Resource,
)

from .world import World

G = ExecutionType.GUARANTEED


def pairs(world: World) -> dict[str, str]:
    """Who follows whom, by the commands that were given in all."""
    found: dict[str, str] = {}
    for command in world.commands:
        match command:
            case LaunchNext(spec, _, after):
                assert after not in found and spec.container_id not in found.values(), (after, found)
                found[after] = spec.container_id
            case RevokeNext(container_id):
                found = {first: one for first, one in found.items() if one != container_id}
            case LaunchContainer(spec):
                found = {first: one for first, one in found.items() if one != spec.container_id}
            case StoreContainer(record) if record.state is ContainerState.DONE:
                found.pop(record.spec.container_id, None)
    return found


def full(**node: Any) -> World:
    """Two run, three wait."""
    world = World(memory=2048, vcores=2, use_pause_for_preemption=True, **node)
    for name in "abcde":
        world.schedule(name)
    assert world.states(*"abcde") == ["RUNNING", "RUNNING", "SCHEDULED", "SCHEDULED", "SCHEDULED"]
    return world


def test_the_first_that_wait_follow_those_that_run_and_wait_on() -> None:
    world = full()
    assert pairs(world) == {"a": "c", "b": "d"}
    assert [world.status(name).position for name in "cde"] == [1, 2, 3]
    (next_one,) = [one for one in world.commands if isinstance(one, LaunchNext) and one.after == "a"]
    (first,) = [
        one for one in world.commands if isinstance(one, LaunchContainer) and one.spec.container_id == "a"
    ]
    assert next_one.limits == first.limits
    assert next_one.queued_at_ms == world.records["c"].queued_at_ms > 0


def test_one_that_has_begun_is_launching_and_another_one_follows_it() -> None:
    world = full()
    commands = world.exit("a", following="c")
    assert not world.given(LaunchContainer)
    assert [one.record.state for one in commands if isinstance(one, StoreContainer)] == [
        ContainerState.LAUNCHING,
        ContainerState.DONE,
    ]
    assert world.states(*"abcde") == ["DONE", "RUNNING", "LAUNCHING", "SCHEDULED", "SCHEDULED"]
    assert pairs(world) == {"b": "d", "c": "e"}
    world.tell(ContainerLaunched("c", pid=5, process_start=6))
    assert world.state("c") is ContainerState.RUNNING and not world.given(SetLimits)


def test_where_nobody_has_begun_the_first_is_started_as_ever() -> None:
    world = full()
    world.exit("b")
    assert [one.spec.container_id for one in world.given(LaunchContainer)] == ["c"], "in order of arrival"
    assert pairs(world) == {"a": "d", "c": "e"}


@pytest.mark.parametrize(
    ("what", "again"),
    [
        (NodeHealthChanged("the disk is full"), NodeHealthChanged("")),
        (OpportunisticWindowChanged(10**15), None),
        (NodeResized(Resource(2048, 2)), None),
    ],
)
def test_it_is_taken_back_when_it_is_certain_no_more(what: Any, again: Any) -> None:
    world = full()
    world.tell(what)
    assert {one.container_id for one in world.given(RevokeNext)} == {"c", "d"}
    assert not any(one.ends for one in world.given(RevokeNext))
    if again is not None:
        assert not pairs(world)
        world.tell(again)
        assert pairs(world) == {"a": "c", "b": "d"}


def test_a_guaranteed_one_that_waits_has_the_room_of_the_next_that_ends() -> None:
    world = full()
    world.answers = False
    world.schedule("g", G)
    assert world.given(PauseContainer, "b") and not pairs(world)
    commands = [type(one) for one in world.last]
    assert commands.index(RevokeNext) < commands.index(PauseContainer), (
        "nobody is stopped in another one's place"
    )
    world.exit("a")
    assert [one.spec.container_id for one in world.given(LaunchContainer)] == ["g"]


def test_one_that_was_taken_back_too_late_gives_way() -> None:
    """It has begun, and the guaranteed one has its room: it is the next to be paused."""
    world = full()
    world.answers = False
    world.schedule("g", G)
    world.exit("a", following="c")
    assert world.states("c", "g") == ["LAUNCHING", "SCHEDULED"]
    world.exit("b", following="d")
    assert world.state("d") is ContainerState.LAUNCHING
    world.tell(ContainerLaunched("c", pid=5, process_start=6), ContainerLaunched("d", pid=7, process_start=8))
    states = world.states("c", "d")
    assert sorted(states) == ["PAUSING", "RUNNING"], states
    assert world.last


def test_room_that_was_given_away_meanwhile_is_overdrawn_for_a_moment() -> None:
    world = full()
    world.exit("a", following="")  # c is started in its place
    world.exit("b", following="c")
    assert world.state("c") is ContainerState.RUNNING, "it has been started once"
    assert (
        len(
            [
                one
                for one in world.commands
                if isinstance(one, LaunchContainer) and one.spec.container_id == "c"
            ]
        )
        == 1
    )


def test_one_that_is_told_to_end_while_it_waits_has_ended_when_it_is_known_not_to_have_begun() -> None:
    world = full()
    world.stop("c")
    (revoked,) = world.given(RevokeNext)
    assert revoked.container_id == "c" and revoked.ends
    assert world.state("c") is ContainerState.DONE and world.status("c").exit_status == -105
    assert pairs(world) == {"b": "d", "a": "e"}


def test_one_that_is_told_to_end_when_it_has_begun_ends_like_any_that_runs() -> None:
    """It is a task that may have done its work: what it ends with is told."""
    world = full()
    world.answers = False
    world.tell(ContainerKillRequested("c", ContainerExitStatus.PREEMPTED, "Container preempted."))
    assert world.given(RevokeNext, "c") and world.state("c") is ContainerState.KILLING
    assert world.machine.allocated == Resource(1024, 2), "it holds nothing yet"
    world.exit("a", following="c")
    assert world.machine.allocated == Resource(1024, 2) and world.state("c") is ContainerState.KILLING
    world.tell(ContainerLaunched("c", pid=5, process_start=6))
    assert not world.given(KillContainer, "c")[0].force
    world.exit("c", 0)
    assert world.status("c").exit_status == 0, "it has ended well"
    assert world.machine.allocated == Resource(1024, 2)


def test_one_that_is_shed_is_known_not_to_have_begun() -> None:
    world = full()
    world.tell(QueuingLimitReceived(ContainerQueuingLimit(1)))
    assert [(one.container_id, one.ends) for one in world.given(RevokeNext)] == [("d", True)]
    assert world.states(*"cde") == ["SCHEDULED", "DONE", "DONE"] and pairs(world) == {"a": "c"}


def test_one_that_changes_is_taken_back_and_gets_its_own_limits() -> None:
    world = full()
    world.update("c", memory=256, vcores=1)
    assert not world.given(RevokeNext, "c")[0].ends
    world.exit("a", following="c")
    world.tell(ContainerLaunched("c", pid=5, process_start=6))
    (limits,) = world.given(SetLimits, "c")
    assert limits.limits.memory_max == 256 << 20


@pytest.mark.parametrize("what", ["pause", "kill", "promote"])
def test_nobody_follows_one_that_stops_or_is_promoted(what: str) -> None:
    world = full()
    world.answers = False
    match what:
        case "pause":
            world.tell(ContainerPauseRequested("a", "stop"))
        case "kill":
            world.stop("a")
        case _:
            world.update("a", G)
    assert world.given(RevokeNext, "c") and "a" not in pairs(world)


def test_where_there_is_a_choice_nothing_is_decided_ahead() -> None:
    world = full()
    world.schedule("f", memory=256)
    assert {one.container_id for one in world.given(RevokeNext)} == {"c", "d"} and not pairs(world)
    world.stop("f")
    assert pairs(world) == {"a": "c", "b": "d"}
    world.tell(ApplicationPriorityChanged("", 5))
    assert pairs(world) == {"a": "c", "b": "d"}, "all of them have it"


def test_one_of_another_size_does_not_follow() -> None:
    world = World(memory=2048, vcores=2)
    world.schedule("a", memory=1024, vcores=2)
    world.schedule("b")
    world.schedule("c")
    assert not pairs(world)
    world.exit("a")
    world.schedule("d")
    assert pairs(world) == {"b": "d"}


def test_guaranteed_ones_are_followed_by_nobody() -> None:
    world = World(memory=2048, vcores=1)
    world.schedule("g", G)
    world.schedule("o")
    assert not pairs(world) and world.state("o") is ContainerState.SCHEDULED


def test_a_stranger_that_follows_changes_nothing() -> None:
    world = full()
    world.tell(ContainerExited("a", 0, following="nobody"))
    assert [one.spec.container_id for one in world.given(LaunchContainer)] == ["c"]
    assert {one.status.container_id for one in world.given(ReportStatus)} == {"a", "c"}


def test_one_that_is_told_to_end_after_it_was_taken_back_too_late() -> None:
    world = full()
    world.tell(NodeHealthChanged("the disk is full"))
    world.stop("c")
    assert [(one.container_id, one.ends) for one in world.given(RevokeNext)] == [("c", True)]
    world.stop("e")
    assert not world.given(RevokeNext), "it has never been sent"
