"""The estimate of waiting times (yarn-gaps G6), the age that a container brings along (G11), and shedding."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from executor.core.estimates import Running, Waiting, WaitStatistics, expected_starts, remaining
from executor.core.events import QueuingLimitReceived
from executor.records import ContainerQueuingLimit, ExecutionType, Resource

from .world import EPOCH, World

G = ExecutionType.GUARANTEED


def one(seconds: float, vcores: int = 1) -> Waiting:
    size = Resource(100, vcores)
    return Waiting(seconds, size, size)


@pytest.mark.parametrize(
    ("ends", "free", "line", "starts"),
    [
        ([6.0], 0, [one(10)], [6.0]),
        ([6.0], 0, [one(10), one(10)], [6.0, 16.0]),
        ([6.0, 1.0], 0, [one(10), one(10), one(10)], [1.0, 6.0, 11.0]),
        ([5.0], 1, [one(10), one(1)], [0.0, 5.0]),
        ([5.0, 7.0], 0, [one(3, vcores=2), one(1)], [7.0, 10.0]),
        ([], 0, [one(1)], [math.inf]),
        ([5.0], 0, [one(3, vcores=2), one(1)], [math.inf, math.inf]),
    ],
)
def test_who_waits_starts_as_soon_as_there_is_room(
    ends: list[float], free: int, line: list[Waiting], starts: list[float]
) -> None:
    running = [Running(seconds, Resource(100, 1)) for seconds in ends]
    assert list(expected_starts(Resource(100 * free, free), running, line)) == starts


def test_one_that_outlived_its_expectation_twice_is_not_expected_to_end_now() -> None:
    assert [remaining(10.0, ran) for ran in (0, 4, 10, 15, 20, 25, 100)] == [10, 6, 0, 0, 0, 5, 80]


def test_the_error_of_the_estimates_is_that_of_the_last_hundred() -> None:
    waits = WaitStatistics()
    assert (waits.errors.mean, waits.waits.mean, waits.count) == (None, None, 0)
    for _ in range(100):
        waits.add(5.0, 500.0)
    for _ in range(100):
        waits.add(3.0, 4.0)
    assert (waits.errors.mean, waits.waits.mean, waits.count) == (1.0, 4.0, 200)


def learned(world: World, seconds: float) -> None:
    """Let it have measured one container."""
    world.schedule("first")
    world.now += seconds
    world.exit("first")


def test_g6_the_wait_is_estimated_and_its_error_reported() -> None:
    world = World(vcores=1, memory=100_000, max_queue_length=100)
    learned(world, 2.0)
    for number in range(5):
        world.schedule(f"c{number}")
    status = world.machine.opportunistic_status()
    assert status.estimated_queue_wait_ms == 10_000
    assert (status.wait_estimates, status.wait_error_ms, status.mean_wait_ms) == (0, -1, -1)
    for number in range(5):
        world.now += 3.0  # half as long again as the estimates had it
        world.exit(f"c{number}")
    status = world.machine.opportunistic_status()
    # expected 2, 4, 6, 8 seconds, waited 3, 6, 9, 12
    assert (status.wait_estimates, status.wait_error_ms, status.mean_wait_ms) == (4, 2500, 7500)
    assert status.estimated_queue_wait_ms == 0


def test_g6_what_has_begun_of_an_application_says_more_than_others_did() -> None:
    world = World(vcores=1, memory=100_000, max_queue_length=100)
    learned(world, 0.1)
    for number in range(4):
        world.schedule(f"c{number}", application_id="application_1_0002")
    world.now += 2.0
    # 0.1 s was expected and 2 s are over: 1.8 s more, and 3.8 s for each of the three that wait
    assert world.machine.opportunistic_status(world.now).estimated_queue_wait_ms == 1800 + 3 * 3800
    world.exit("c0")
    assert world.machine.opportunistic_status(world.now).estimated_queue_wait_ms == 3 * 2000


def test_g6_guaranteed_containers_are_waited_for_too_and_the_masters_word_counts() -> None:
    world = World(vcores=1, memory=100_000, max_queue_length=100)
    world.schedule("g", G, duration_hint_ms=30_000)
    world.now += 10.0
    world.schedule("o", duration_hint_ms=5_000)
    assert world.machine.opportunistic_status().estimated_queue_wait_ms == 25_000


def test_g6_nothing_is_known_before_anything_was_measured() -> None:
    world = World(vcores=1, max_queue_length=100)
    world.schedule("a")
    world.schedule("b")
    assert world.machine.opportunistic_status().estimated_queue_wait_ms == -1


@pytest.mark.parametrize("seed", range(5))
def test_g6_the_estimates_are_good_where_durations_scatter(seed: int) -> None:
    """Durations scatter by half; on 4 vcores the mean error stays below a quarter of the mean wait."""
    rng = random.Random(seed)
    world = World(vcores=4, memory=100_000, max_queue_length=100)
    ends: dict[str, float] = {}

    def note() -> None:
        for status in world.machine.statuses():
            if status.state.value == "RUNNING" and status.container_id not in ends:
                ends[status.container_id] = world.now + rng.uniform(1.0, 3.0)

    for number in range(200):
        world.schedule(f"c{number}")
        note()
        while number % 40 == 39 and world.machine.allocated.vcores:
            name = min(ends, key=ends.__getitem__)
            world.now = max(world.now, ends.pop(name))
            ends[name] = math.inf
            world.exit(name)
            note()
            ends[name] = math.inf
            if all(end == math.inf for end in ends.values()):
                break
    status = world.machine.opportunistic_status()
    assert status.wait_estimates > 100
    assert 0 < status.wait_error_ms < status.mean_wait_ms / 4


def test_the_estimate_for_a_long_queue_is_extrapolated() -> None:
    world = World(vcores=1, memory=1_000_000, max_queue_length=10_000)
    learned(world, 2.0)
    for number in range(301):
        world.schedule(f"c{number}")
    wait = world.machine.opportunistic_status().estimated_queue_wait_ms
    assert wait == pytest.approx(602_000, rel=0.05)


def limited(world: World, **limit: Any) -> list[str]:
    """Who is shed by a limit."""
    world.tell(QueuingLimitReceived(ContainerQueuingLimit(**limit)))
    return [s.container_id for s in world.machine.statuses() if s.exit_status == -108]


@pytest.mark.parametrize(
    ("limit", "shed"),
    [
        ({"max_queue_length": 3}, ["c4", "c5"]),
        ({"max_queue_wait_time_ms": 6_000}, ["c4", "c5"]),
        ({"max_queue_wait_time_ms": 5_999}, ["c3", "c4", "c5"]),
        ({"max_queue_wait_time_ms": 0}, ["c1", "c2", "c3", "c4", "c5"]),
        ({"max_queue_wait_time_ms": 0, "max_queue_length": 4}, ["c5"]),
        ({"max_queue_wait_time_ms": 8_000, "max_queue_length": 1}, ["c5"]),
        ({}, []),
    ],
)
def test_shed_are_the_newest_beyond_the_limit(limit: dict[str, int], shed: list[str]) -> None:
    world = World(vcores=1, memory=100_000, max_queue_length=100)
    learned(world, 2.0)
    for number in range(6):  # c0 runs; c1 is expected to start in 2 s, c2 in 4 s, and so on
        world.schedule(f"c{number}")
    assert sorted(limited(world, **limit)) == shed


def test_no_limit_of_the_wait_sheds_where_nothing_is_known_of_it() -> None:
    world = World(vcores=1, memory=100_000, max_queue_length=100)
    for number in range(6):
        world.schedule(f"c{number}")
    assert limited(world, max_queue_wait_time_ms=0) == []


def test_g11_a_container_that_was_moved_keeps_its_age() -> None:
    world = World(vcores=1, memory=100_000, max_queue_length=100)
    world.schedule("runs")
    for number in range(3):
        world.now = 10.0 + number
        world.schedule(f"c{number}")
    world.now = 20.0
    world.schedule("moved", waiting_since_ms=round((10.5 + EPOCH) * 1000))
    world.schedule("older", waiting_since_ms=round((5.0 + EPOCH) * 1000))
    world.schedule("last")
    order = ["older", "c0", "moved", "c1", "c2", "last"]
    positions = {name: world.status(name).position for name in order}
    assert sorted(order, key=positions.__getitem__) == order
    assert world.status("moved").waiting_since_ms == round((10.5 + EPOCH) * 1000)
    assert world.status("moved").queued_at_ms == round((20.0 + EPOCH) * 1000)
    shed = set(limited(world, max_queue_length=2))
    assert shed == {"c0", "c1", "c2", "last"}, "the newest that were not moved before"
    assert limited(world, max_queue_length=1)[-1] == "moved", "then the newest of those that were"


def test_g11_two_of_the_same_age_stand_one_behind_the_other_and_a_claim_on_the_future_is_none() -> None:
    world = World(vcores=1, memory=100_000, max_queue_length=100)
    world.schedule("runs")
    world.now = 20.0
    world.schedule("now")
    since = round((7.0 + EPOCH) * 1000)
    world.schedule("a", waiting_since_ms=since)
    world.schedule("b", waiting_since_ms=since)
    world.schedule("liar", waiting_since_ms=round((99.0 + EPOCH) * 1000))
    assert [world.status(name).position for name in ("a", "b", "now", "liar")] == [1, 2, 3, 4]


def test_g11_overtakes_count_from_the_arrival_and_the_bound_holds_for_all() -> None:
    """Four later ones start before c0, which does not fit, when an older one comes that does not fit either."""
    world = World(vcores=4, memory=100_000, max_queue_length=100, max_overtakes=5)
    world.schedule("half", vcores=2)
    world.now = 10.0
    world.schedule("c0", vcores=4)
    for number in range(4):
        world.now += 1.0
        world.schedule(f"s{number}", vcores=2)
        world.exit(f"s{number}")
    world.schedule("older", vcores=3, waiting_since_ms=round((5.0 + EPOCH) * 1000))
    world.schedule("s4", vcores=2)
    assert world.states("c0", "older", "s4") == ["SCHEDULED", "SCHEDULED", "RUNNING"]
    world.exit("s4")
    world.schedule("s5", vcores=2)
    assert world.states("c0", "older", "s5") == ["SCHEDULED"] * 3, "c0 was overtaken five times"
    world.exit("half")
    assert world.states("older", "c0", "s5") == ["RUNNING", "SCHEDULED", "SCHEDULED"]


@pytest.mark.parametrize(("priority", "seconds"), [(0, 308.0), (20, 8.0)])
def test_a_newcomer_is_told_the_wait_in_its_own_place(priority: int, seconds: float) -> None:
    """Its application goes before another one that waits: it waits for what runs, and not for that."""
    world = World(vcores=2)
    world.schedule("runs", vcores=2, duration_hint_ms=8000)
    world.schedule("long", vcores=2, duration_hint_ms=300_000, application_id="a")
    world.schedule("new", vcores=2, duration_hint_ms=3000, application_id="b", application_priority=priority)
    assert world.machine._live["new"].expected_wait == seconds
    assert world.machine.opportunistic_status(world.now).estimated_queue_wait_ms == 1000 * seconds + 3000
