"""Real pressure, in virtual time: who gives way, how soon, and that nobody dances (yarn-gaps G14; 5 rows 1, 7, 8)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from executor.core.commands import KillContainer, PauseContainer, SetLimits, WatchHost
from executor.core.events import ContainerPauseRequested, ContainerResumeRequested
from executor.core.pressure import TOLD_SECONDS, CpuPressure, Demand, MemoryPressure
from executor.core.pressure_actions import TURN_WEIGHT, overallocation
from executor.light import replace
from executor.records import ContainerState, ContainerUsage, ExecutionType, HostUtilization, Resource
from executor.settings import ExecutorSettings

from .pressed_world import MIB, PressedWorld, divided
from .world import G, O

RUNNING, PAUSED, SCHEDULED, DONE = (
    ContainerState.RUNNING,
    ContainerState.PAUSED,
    ContainerState.SCHEDULED,
    ContainerState.DONE,
)


def a_watched_world(**node: object) -> PressedWorld:
    node.setdefault("pressure_enabled", True)
    return PressedWorld(**node)  # type: ignore[arg-type]


def with_spinners(count: int = 2, **node: object) -> PressedWorld:
    world = a_watched_world(**node)
    for number in range(1, count + 1):
        world.wants[f"o{number}"] = 1.0
        world.schedule(f"o{number}", O, 100, 1)
    world.tick(3)
    return world


# -- processes outside yopp


def test_two_busy_processes_outside_pause_both_spinners_within_two_seconds() -> None:
    world = with_spinners()
    assert world.states("o1", "o2") == ["RUNNING", "RUNNING"]
    world.outside = [1.0, 1.0]
    world.tick(1.5)
    assert world.states("o1", "o2") == ["PAUSED", "PAUSED"]
    assert "processes outside yopp need 2 of this machine's cores" in world.status("o1").diagnostics
    world.tick(30)
    assert world.states("o1", "o2") == ["PAUSED", "PAUSED"]
    world.outside = []
    world.tick(2)
    assert world.states("o1", "o2") == ["RUNNING", "RUNNING"]
    assert world.changes("o1", PAUSED) == world.changes("o2", PAUSED) == 1


def test_they_are_paused_and_not_killed_where_preemption_kills() -> None:
    world = with_spinners(use_pause_for_preemption=False)
    world.outside = [1.0, 1.0]
    world.tick(2)
    assert world.states("o1", "o2") == ["PAUSED", "PAUSED"]


def test_without_the_property_nobody_looks_and_nobody_gives_way() -> None:
    world = with_spinners(pressure_enabled=False)
    world.outside = [1.0, 1.0]
    world.tick(10)
    assert world.states("o1", "o2") == ["RUNNING", "RUNNING"] and world.watched_ms == 0


def test_one_busy_process_outside_takes_one_core_and_nothing_dances() -> None:
    world = with_spinners()
    world.outside = [1.0]
    world.tick(60)
    assert world.states("o1", "o2") == ["RUNNING", "PAUSED"], "the newest gives way, the other has its core"
    assert world.changes("o1", PAUSED) == 0 and world.changes("o2", PAUSED) == 1
    world.outside = []
    world.tick(2)
    assert world.states("o1", "o2") == ["RUNNING", "RUNNING"]


def test_a_burst_of_less_than_half_a_second_moves_nobody() -> None:
    world = with_spinners(tick=0.125, pressure_sampling_ms=125)
    for _ in range(20):
        world.outside = [1.0, 1.0]
        world.tick(0.375)
        world.outside = []
        world.tick(0.75)
    assert world.changes("o1", PAUSED) == world.changes("o2", PAUSED) == 0


def test_little_use_outside_moves_nobody() -> None:
    world = with_spinners()
    world.outside = [0.2, 0.2]
    world.tick(60)
    assert world.changes("o1", PAUSED) == world.changes("o2", PAUSED) == 0


def test_work_outside_on_an_otherwise_idle_machine_is_no_pressure() -> None:
    world = a_watched_world(cores=8)
    world.wants = {"o1": 1.0, "o2": 1.0}
    world.schedule("o1", O, 100, 1)
    world.schedule("o2", O, 100, 1)
    world.outside = [1.0] * 5
    world.tick(20)
    assert world.states("o1", "o2") == ["RUNNING", "RUNNING"]


def test_a_guaranteed_container_is_not_touched_and_keeps_its_share() -> None:
    world = a_watched_world(vcores=3)
    world.wants = {"g": 1.0, "o1": 1.0, "o2": 1.0}
    world.schedule("g", G, 100, 1)
    world.schedule("o1", O, 100, 1)
    world.schedule("o2", O, 100, 1)
    world.tick(3)
    world.outside = [1.0, 1.0]
    world.tick(2)
    assert world.states("g", "o1", "o2") == ["RUNNING", "PAUSED", "PAUSED"]
    world.tick()
    assert world.got["g"] == pytest.approx(2 / 3), "what its weight gives it among three"
    world.tick(30)
    assert world.changes("g", PAUSED) == 0


def test_a_container_that_uses_no_cpu_is_not_paused_in_vain() -> None:
    world = with_spinners(1)
    world.wants["sleeper"] = 0.01
    world.schedule("sleeper", O, 100, 1)
    world.tick(10)
    world.outside = [1.0, 1.0]
    world.tick(5)
    assert world.states("o1", "sleeper") == ["PAUSED", "RUNNING"]


def test_nothing_opportunistic_starts_while_others_want_the_cores_but_guaranteed_ones_do() -> None:
    world = with_spinners(1)
    world.outside = [1.0, 1.0]
    world.tick(2)
    world.schedule("o9", O, 100, 1)
    world.schedule("g", G, 100, 1)
    assert world.states("o1", "o9", "g") == ["PAUSED", "SCHEDULED", "RUNNING"]
    told = world.machine.opportunistic_status()
    assert told.lent_vcores < 0 == told.lent_memory, "the ResourceManager is told what lacks"
    world.outside = []
    world.tick(2)
    assert world.states("o1", "g") == ["RUNNING", "RUNNING"]


def test_what_uses_little_or_ends_soon_gets_on_under_pressure_that_never_ends() -> None:
    world = a_watched_world(vcores=16)
    world.outside = [1.0, 1.0]
    names = [f"sleeper{number}" for number in range(4)]
    for name in names:
        world.wants[name] = 0.02
        world.schedule(name, O, 100, 1)
    world.tick(8)
    assert running(world, names) == 4
    for number in range(5):
        world.wants[f"short{number}"] = 1.0
        world.schedule(f"short{number}", O, 100, 1)
    for _ in range(5):
        world.tick(0.5)
        assert world.machine.opportunistic_status().running <= 5, "one at a time"
        live = [name for name in world.statuses_live() if name.startswith("short")]
        started = [name for name in live if world.state(name) is RUNNING]
        for name in started:
            world.exit(name)
    assert not [name for name in world.statuses_live() if name.startswith("short")]
    for number in range(5):
        world.wants[f"long{number}"] = 1.0
        world.schedule(f"long{number}", O, 100, 1)
    world.tick(30)
    longs = [world.state(f"long{number}") for number in range(5)]
    assert longs == [PAUSED] + [SCHEDULED] * 4, "one had to give way, and none was tried after it"


def test_who_gave_way_may_be_promoted_held_and_killed() -> None:
    world = with_spinners(2, cores=4, vcores=4)
    world.schedule("o3", O, 100, 1)
    world.schedule("o4", O, 100, 1)
    world.wants |= {"o3": 1.0, "o4": 1.0}
    world.tick(3)
    world.outside = [1.0] * 4
    world.tick(2)
    assert world.states("o1", "o2", "o3", "o4") == ["PAUSED"] * 4
    world.update("o1", G)
    assert world.state("o1") is RUNNING, "it is guaranteed now, and gives way to nobody"
    world.tell(ContainerPauseRequested("o2"))
    world.tell(ContainerResumeRequested("o2"))
    assert world.state("o2") is PAUSED, "a person's resume does not end what others want"
    world.tell(ContainerPauseRequested("o3"))
    world.stop("o4")
    assert world.state("o4") is DONE
    world.outside = []
    world.tick(2)
    assert world.states("o2", "o3") == ["RUNNING", "PAUSED"], "the person has not resumed it"


def test_pressure_that_returns_at_once_is_taken_for_longer_each_time() -> None:
    world = with_spinners()
    for _ in range(30):
        world.outside = [1.0, 1.0]
        world.tick(2)
        world.outside = []
        world.tick(2)
    assert world.changes("o1", PAUSED) <= 5, "doubled each time: 1.5, 3, 6, 12, 24 s"
    world.tick(35)
    assert world.state("o1") is RUNNING


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 24), st.sampled_from([0.3, 1.0])), max_size=25))
@example(  # a burst shortly before its end made the quiet time that followed worthless
    [
        (1, 4, 1.0),
        (0, 5, 0.3),
        (1, 5, 1.0),
        (0, 11, 0.3),
        (1, 22, 1.0),
        (0, 24, 0.3),
        (2, 1, 1.0),
        (1, 7, 1.0),
    ]
)
@settings(max_examples=40, deadline=None)
def test_no_oscillation_over_random_loads(trace: list[tuple[int, int, float]]) -> None:
    """Whatever comes and goes outside: no state is left within a reaction time of being reached, guaranteed
    containers run throughout, and all come back."""
    world = a_watched_world(vcores=4)
    world.wants = {"g": 0.5, "o1": 1.0, "o2": 0.7, "o3": 0.2}
    world.schedule("g", G, 100, 1)
    for name in ("o1", "o2", "o3"):
        world.schedule(name, O, 100, 1)
    world.tick(2)
    seen: dict[str, list[tuple[float, ContainerState]]] = {name: [] for name in world.wants}
    for threads, ticks, each in trace:
        world.outside = [each] * threads
        for _ in range(ticks):
            world.tick()
            for name, changes in seen.items():
                if not changes or changes[-1][1] is not world.state(name):
                    changes.append((world.now, world.state(name)))
    assert {state for _, state in seen["g"]} <= {RUNNING}
    for changes in seen.values():
        for (before, state), (after, _) in pairwise(changes):
            if state is PAUSED:
                assert after - before >= 1.0, f"paused for {after - before} s only: {changes}"
            elif before > 2.25:
                assert after - before >= 0.75, f"ran for {after - before} s only: {changes}"
    elapsed = sum(ticks for _, ticks, _ in trace) * world.tick_seconds
    for changes in seen.values():
        pauses = sum(state is PAUSED for _, state in changes)
        assert pauses <= 2 + elapsed / 4, changes
    world.outside = []
    world.tick(40)
    assert world.states("g", "o1", "o2", "o3") == ["RUNNING"] * 4


def test_the_machine_is_watched_only_while_it_could_matter() -> None:
    world = a_watched_world()
    assert [c.interval_ms for c in world.schedule("g", G) if isinstance(c, WatchHost)] == []
    assert [c.interval_ms for c in world.schedule("o", O) if isinstance(c, WatchHost)] == [250]
    assert [c.interval_ms for c in world.exit("o") if isinstance(c, WatchHost)] == [0]
    world = yielding()
    world.outside = [1.0, 1.0]
    world.tick(4)
    assert world.states("o1", "o2") == ["PAUSED", "PAUSED"] and world.watched_ms == 500
    world.outside = []
    world.tick(4)
    assert world.states("o1", "o2") == ["RUNNING", "RUNNING"] and world.watched_ms == 250


# -- where the kernel's weights make them yield


def test_what_takes_nothing_is_watched_less_often() -> None:
    world = a_watched_world()
    world.yields, world.wants["o1"] = True, 0.01
    world.schedule("o1", O, 100, 1)
    world.outside = [1.0, 1.0]
    world.tick(6)
    assert world.states("o1") == ["RUNNING"] and world.watched_ms == 500
    world.outside = [1.0]
    world.tick(2)
    assert world.watched_ms == 250, "it may take the other core, and must give it back in time"


@pytest.mark.parametrize(("others", "watched_ms"), [(0, 250), (1, 500)])
def test_the_nodes_of_a_host_share_what_measurements_may_take(others: int, watched_ms: int) -> None:
    world = a_watched_world()
    world.cost, world.others, world.wants["o"] = 0.02, others, 1.0
    world.schedule("o", O, 100, 1)
    world.tick(3)
    assert world.got["o"] > 0 and world.watched_ms == watched_ms


@pytest.mark.parametrize(("wanted", "weight", "hurries"), [(1.0, 0, 1), (0.01, TURN_WEIGHT * 2, 2)])
def test_those_in_their_turn_are_measured_soon_until_they_are_known_to_keep_to_their_share(
    wanted: float, weight: float, hurries: int
) -> None:
    world = a_watched_world()
    world.yields, world.cost, world.outside, world.wants["o"] = True, 0.2, [1.0, 1.0], wanted
    world.tick(1)
    world.schedule("o", O, 100, 1)
    assert world.weight == TURN_WEIGHT * 2, "before the first reading"
    world.tick(0.5)
    assert world.weight == weight and world.hurried == hurries
    world.tick(2)
    assert world.weight == weight and world.hurried == hurries, "whatever readings cost"
    assert world.watched_ms == 8 * 250


def test_each_that_begins_a_watch_is_measured_soon() -> None:
    world = a_watched_world()
    for name in ("o1", "o2", "o3"):
        assert [c.next_ms for c in world.schedule(name, O) if isinstance(c, WatchHost)] == [125]
        world.exit(name)


def yielding(**node: object) -> PressedWorld:
    """Two spinners on two cores, whose node knows that its weights count."""
    world = with_spinners(**node)  # type: ignore[arg-type]
    world.yields = True
    return world


def test_what_yields_by_its_weight_is_not_paused_while_something_is_left() -> None:
    world = yielding()
    world.outside = [1.0]
    world.tick(60)
    assert world.changes("o1", PAUSED) == world.changes("o2", PAUSED) == 0
    assert world.got["outside 0"] > 0.97 and world.got["o1"] + world.got["o2"] > 0.97


@pytest.mark.parametrize(("yields", "weight"), [(True, TURN_WEIGHT * 2), (False, 1.0)])
def test_who_is_about_to_be_paused_for_others_does_not_take_their_cpu_where_weights_make_it_yield(
    yields: bool, weight: float
) -> None:
    world = with_spinners()
    world.yields = yields
    world.answers = False
    world.outside, world.waiting = (
        [1.0, 1.0],
        1.0,
    )  # in the second in which they begin, they lose more than they may
    for _ in range(8):
        world.tick()
        if "PAUSING" in world.states("o1", "o2"):
            break
    assert "PAUSING" in world.states("o1", "o2") and world.weight == weight
    world.schedule("g", G, 100, 2)
    assert world.state("g") is SCHEDULED and world.weight == 1.0, "somebody waits for it"


def test_gaps_that_others_leave_are_used_and_nobody_dances() -> None:
    world = yielding(tick=0.125, pressure_sampling_ms=125)
    before = world.used["o1"] + world.used["o2"]
    for _ in range(60):
        world.outside = [1.0, 1.0]
        world.tick(0.75)
        world.outside = [1.0]
        world.tick(0.25)
    assert world.changes("o1", PAUSED) == world.changes("o2", PAUSED) == 0
    assert world.used["o1"] + world.used["o2"] - before > 0.97 * 60 * 0.25


def test_who_would_get_nothing_is_paused_and_says_why_and_is_back_soon() -> None:
    world = yielding()
    for _ in range(5):
        world.outside = [1.0, 1.0]
        world.tick(3)
        assert world.states("o1", "o2") == ["PAUSED", "PAUSED"]
        assert "processes outside yopp need 2 of this machine's cores" in world.status("o1").diagnostics
        world.outside = [1.0]
        world.tick(3)
        assert world.states("o1", "o2") == ["RUNNING", "RUNNING"], "one core is left, each time as soon"


def test_short_ones_fill_what_is_left_side_by_side() -> None:
    world = yielding()
    world.outside = [1.0]
    world.tick(3)
    world.exit("o1")
    world.exit("o2")
    ended = 0
    for number in range(80):
        world.wants[f"s{number}"] = 0.1
        world.schedule(f"s{number}", O, 10, 1)
        live = [name for name in world.statuses_live() if world.state(name) is RUNNING]
        assert live, "one starts at once"
        if len(live) == 2:
            world.tick()
            world.exit(live[0])
            ended += 1
    assert ended == 79


def outside_got(world: PressedWorld, begun: dict[str, float], seconds: float) -> float:
    """The part of what two loops outside want that they got since ``begun``."""
    return sum(world.used[name] - begun.get(name, 0.0) for name in ("outside 0", "outside 1")) / (2 * seconds)


def test_beside_a_full_load_what_only_sleeps_is_never_paused_and_begins_and_ends_soon() -> None:
    world = yielding(count=0)
    world.outside = [1.0, 1.0]
    world.wants["sleeper"] = 1.0
    world.schedule("sleeper", O, 100, 1)
    world.tick(0.5)
    assert world.used["sleeper"] > 0.015, "it begins"
    for _ in range(3):
        world.wants["sleeper"] = 0.0
        world.tick(60)
        before = world.used["sleeper"]
        world.wants["sleeper"] = 1.0
        world.tick(0.5)
        assert world.used["sleeper"] - before > 0.01, "it wakes up"
    assert world.changes("sleeper", PAUSED) == 0


def test_beside_a_full_load_what_needs_the_cpu_is_paused_and_has_turns_that_cost_nobody_much() -> None:
    world = yielding(count=0, vcores=4)
    world.outside = [1.0, 1.0]
    names = [f"o{number}" for number in range(8)]
    for name in names:
        world.wants[name] = 1.0
        world.schedule(name, O, 100, 1)
    worst = 1.0
    for _ in range(40):
        begun = dict(world.used)
        world.tick(3)
        worst = min(worst, outside_got(world, begun, 3))
    assert worst > 0.975
    states = world.states(*names)
    assert states.count("SCHEDULED") == 4, "those that were paused keep their places"
    for name in names[:4]:
        assert 3 <= world.changes(name, PAUSED) <= 6, "after 5, 10, 20, 40, 60 s"


@pytest.mark.parametrize(("daemons", "left"), [(0.01, 0.98), (0.04, 0.99), (0.2, 0.99)])
def test_where_daemons_take_much_turns_take_less(daemons: float, left: float) -> None:
    """On a slow machine both together would take more than others are promised; turns do not end altogether."""
    world = yielding(count=1)
    world.outside, world.daemons = [1.0, 1.0], daemons
    world.tick(5)
    begun, until, number = dict(world.used), world.now + 120, 0
    while world.now < until:
        number += 1
        name = f"s{number}"
        world.wants[name] = 1.0
        world.schedule(name, O, 10, 1)
        while world.used.get(name, 0.0) < 0.01 and world.now < until:
            world.tick()
        world.exit(name)
    assert outside_got(world, begun, 120) == pytest.approx(left, abs=0.002)


@pytest.mark.parametrize("lasts", [0.02, 0.1])
def test_those_that_end_before_they_are_measured_cost_no_more_than_turns(lasts: float) -> None:
    """One after the other, so that nothing is measured between them."""
    world = a_watched_world()
    world.yields, world.outside = True, [1.0, 1.0]
    begun, until, number = dict(world.used), world.now + 15, 0
    while world.now < until:
        number += 1
        name = f"s{number}"
        world.wants[name] = 1.0
        world.schedule(name, O, 10, 1)
        world.pass_unread(lasts)
        world.exit(name, usage=ContainerUsage(cpu_seconds=world.used[name]))
        world.pass_unread(0.005)
    assert 0.97 < outside_got(world, begun, 15) < 0.99


def test_who_was_paused_and_needs_little_now_shows_it_and_goes_on() -> None:
    world = yielding()
    world.outside = [1.0, 1.0]
    world.tick(3)
    assert world.states("o1", "o2") == ["PAUSED", "PAUSED"]
    world.wants["o2"] = 0.0
    world.tick(12)
    assert world.state("o2") is RUNNING
    world.tick(60)
    assert world.changes("o2", PAUSED) == 1 and world.changes("o1", PAUSED) >= 3
    world.tell(ContainerPauseRequested("o1"))
    held = world.changes("o1", RUNNING)
    world.tick(120)
    assert world.state("o1") is PAUSED and world.changes("o1", RUNNING) == held, (
        "a person's pause is no turn's"
    )


def test_beside_a_full_load_short_ones_pass_by_one_that_is_paused() -> None:
    world = yielding(count=1)
    world.outside = [1.0, 1.0]
    world.tick(3)
    assert world.state("o1") is PAUSED
    begun, ended = dict(world.used), 0
    for number in range(40):
        name = f"s{number}"
        world.wants[name] = 1.0
        world.schedule(name, O, 10, 1)
        assert world.state(name) is RUNNING, "it starts at once"
        for _ in range(8):
            if world.used.get(name, 0.0) < 0.01:
                world.tick()
        if world.used[name] >= 0.01:
            world.exit(name)
            ended += 1
    assert ended == 40
    assert outside_got(world, begun, world.now - 6) > 0.97


def test_what_does_not_yield_although_it_should_is_paused() -> None:
    world = yielding(group_weights=False)
    world.outside = [1.0, 1.0]
    world.tick(2)
    assert world.states("o1", "o2") == ["PAUSED", "PAUSED"], "they had half of what the others want"


def test_many_short_processes_outside_are_not_kept_from_the_processors() -> None:
    """They end before anybody could ask how long they waited; that they can run is seen, and that they use less."""
    watch = CpuPressure(outside=0.5, saturated=0.96, sustained=0.75, quiet=1.5)
    compiling = HostUtilization(2, 2.0, 0.0, yopp_cpu=0.7, runnable=4, outside_waiting=0.05, yields=True)
    asked = [watch.sampled(compiling, Demand(0.0, 2.0, 0.7, 2), at / 4) > 0 for at in range(5)]
    assert asked[3] and watch.wanted_outside == 2
    stands = HostUtilization(2, 1.98, 0.02, runnable=2, outside_waiting=0.0, yields=True)
    for at in range(5, 60):
        watch.sampled(stands, Demand(), at / 4)
    assert watch.is_on, "they leave nothing"
    spinning = HostUtilization(2, 2.0, 0.0, yopp_cpu=1.0, runnable=3, outside_waiting=0.0, yields=True)
    calm = CpuPressure(outside=0.5, saturated=0.96, sustained=0.75, quiet=1.5)
    for at in range(40):
        assert calm.sampled(spinning, Demand(0.0, 2.0, 1.0, 2.04), at / 4) == 0.0
    assert not calm.is_on, "one that has what it wants leaves the other core"


def test_threads_that_are_counted_wrongly_starve_no_process_that_lasts() -> None:
    """Daemons of three nodes that run at the moment of the count are not known to be yopp's; what the process outside
    has used, and has waited for, is."""
    counted = HostUtilization(2, 2.0, 0.0, 0.98, runnable=5, outside_waiting=0.01, yields=True)
    loop, compiler = replace(counted, outside_lasting=1.0), replace(counted, outside_lasting=0.3)
    for host, starved in ((counted, True), (compiler, True), (loop, False)):
        watch = CpuPressure(outside=0.5, saturated=0.96, sustained=0.5, quiet=1.0)
        asked = [watch.sampled(host, Demand(0.0, 2.0, 0.98, 3), at / 4) > 0 for at in range(8)]
        assert any(asked) is watch.is_on is starved, host


def test_what_several_nodes_take_together_counts_with_each() -> None:
    """Three nodes, a third of a core each: no one of them takes a tenth of what the compiler wants, and all do."""
    watch = CpuPressure(outside=0.5, saturated=0.96, sustained=0.75, quiet=1.5)
    compiling = HostUtilization(2, 2.0, 0.0, yopp_cpu=0.6, runnable=8, outside_waiting=0.05, yields=True)
    alone = Demand(rest=0.35, opportunistic=2.0, used=0.25, runnable=6.3)
    together = replace(alone, runnable=6, elsewhere=0.35, others=4)
    assert not any(watch.sampled(compiling, alone, at / 4) > 0 for at in range(8)), "that is its own part"
    asked = [watch.sampled(compiling, together, at / 4) > 0 for at in range(8, 14)]
    assert any(asked) and watch.wanted_outside == 2


def test_containers_of_another_node_are_neither_load_nor_threads_outside() -> None:
    """Beside one loop, and beside none: each node takes its part of what is left, and neither stands."""
    for outside in ([1.0], []):
        world = yielding()
        world.others, world.outside = 2, outside
        world.tick(30)
        assert world.changes("o1", PAUSED) == world.changes("o2", PAUSED) == 0, outside
        left = 2 - sum(outside)
        assert world.got["o1"] + world.got["o2"] == pytest.approx(left / 2, abs=0.05)


def test_beside_another_node_those_that_would_get_nothing_stand_as_well() -> None:
    world = yielding()
    world.others, world.outside = 2, [1.0, 1.0]
    world.tick(3)
    assert world.states("o1", "o2") == ["PAUSED", "PAUSED"]


def test_a_late_reading_from_before_the_pause_resumes_nobody() -> None:
    """What they used until they stood counts in the first reading after it, however late that comes."""
    watch = CpuPressure(outside=0.5, saturated=0.96, sustained=0.5, quiet=1.0)
    equal = HostUtilization(2, 2.0, 0.0, yopp_cpu=1.0, runnable=4, yields=True)
    asked = [watch.sampled(equal, Demand(0, 2.0, 1.0, 2), at / 4) > 0 for at in range(3)]
    assert asked == [False, False, True] and watch.is_on
    late = HostUtilization(2, 2.0, 0.0, yopp_cpu=0.15, runnable=2, yields=True)
    watch.sampled(late, Demand(used=0.15), 2.5)
    assert watch.is_on
    left = HostUtilization(2, 1.5, 0.5, runnable=1, yields=True)
    for at in (2.75, 3.0, 3.25, 3.5, 3.75):
        watch.sampled(left, Demand(), at)
    assert not watch.is_on, "something has been left for a while"


def compiling(watch: CpuPressure, begun: float, until: float, *, stands: bool = False) -> list[float]:
    """Readings each quarter of a second beside a compiler, which loses what containers of two nodes take, or which has
    the machine for itself; the cores that it asked for."""
    took = HostUtilization(2, 2.0, 0.0, yopp_cpu=0.6, runnable=4, outside_lasting=0.03, yields=True)
    alone = HostUtilization(2, 1.97, 0.03, runnable=2, outside_lasting=0.03, yields=True)
    host, demand = (
        (alone, Demand())
        if stands
        else (took, Demand(opportunistic=2.0, used=0.2, elsewhere=0.4, runnable=2))
    )
    steps = round((until - begun) * 4)
    return [watch.sampled(host, demand, begun + at / 4) for at in range(steps)]


def test_what_was_lost_beside_containers_is_believed_while_they_stand() -> None:
    """While none runs nobody loses anything, which shows nothing about what would be lost."""
    watch = CpuPressure(outside=0.5, saturated=0.96, sustained=0.5, quiet=1.0)
    assert compiling(watch, 0.0, 0.75)[-1] > 0 and not watch.protects
    compiling(watch, 0.75, TOLD_SECONDS, stands=True)
    assert not watch.protects and not watch.leaves and watch.is_on
    compiling(watch, TOLD_SECONDS, TOLD_SECONDS + 1, stands=True)
    assert watch.protects, "it may be another load by now, which is tried with one container in its turn"


def test_cores_that_containers_have_taken_from_others_were_not_left() -> None:
    watch = CpuPressure(outside=0.5, saturated=0.96, sustained=0.5, quiet=1.0)
    compiling(watch, 0.0, 2.0)
    assert not watch.leaves
    beside_one = HostUtilization(2, 2.0, 0.0, yopp_cpu=1.0, runnable=3, outside_lasting=1.0, yields=True)
    for at in range(8, 20):
        watch.sampled(beside_one, Demand(opportunistic=2.0, used=1.0, runnable=2), at / 4)
    assert watch.leaves and watch.protects


def test_what_others_lose_counts_from_the_first_reading_on() -> None:
    """In the moment in which containers begin, a compiler has used less than counts; threads of it wait."""
    watch = CpuPressure(outside=0.5, saturated=0.96, sustained=0.5, quiet=1.0)
    begin = HostUtilization(2, 2.0, 0.0, yopp_cpu=1.6, runnable=4, yields=True)
    assert watch.decides_at == float("inf")
    watch.sampled(begin, Demand(opportunistic=2.0, used=1.6, runnable=2), 1.0)
    assert watch.decides_at == 1.5
    watch.forget()
    assert watch.decides_at == float("inf") and watch.leaves


def test_the_reading_that_decides_comes_in_time() -> None:
    """And not up to a whole interval later."""
    world = with_spinners()
    world.outside = [1.0, 1.0]
    told: list[WatchHost] = []
    for _ in range(8):
        world.tick()
        told += [command for command in world.commands if isinstance(command, WatchHost)]
        if PAUSED in (world.status("o1").state, world.status("o2").state):
            break
    assert [command.next_ms for command in told if command.next_ms] == [251]


@pytest.mark.parametrize(
    ("cost", "running", "paused"),
    [(0.001, 250, 500), (0.006, 250, 750), (0.012, 250, 1250), (0.03, 500, 2000), (5.0, 2000, 2000)],
)
def test_a_machine_on_which_measuring_costs_much_is_measured_less_often(
    cost: float, running: int, paused: int
) -> None:
    """4 % of its CPU is for that, 0.5 % while nothing runs that could disturb others."""
    world = with_spinners()
    world.cost = cost
    world.tick(0.5)
    assert world.watched_ms == running
    world.outside = [1.0, 1.0]
    world.tick(5)
    assert world.states("o1", "o2") == ["PAUSED", "PAUSED"]
    assert world.watched_ms == paused


def test_who_is_kept_from_the_processors_counts_with_what_it_waits_for() -> None:
    watch = CpuPressure(outside=0.5, saturated=0.96, sustained=0.5, quiet=1.0)
    starved = HostUtilization(2, 2.0, 0.0, yopp_cpu=1.8, runnable=4, outside_waiting=1.8)
    asked = [watch.sampled(starved, Demand(opportunistic=2.0, used=1.8), at / 4) for at in range(3)]
    assert asked[:2] == [0.0, 0.0] and asked[2] > 1.5, "0.2 cores used, 1.8 waited for"
    light = HostUtilization(2, 2.0, 0.0, yopp_cpu=1.8, runnable=4, outside_waiting=0.1)
    calm = CpuPressure(outside=0.5, saturated=0.96, sustained=0.5, quiet=1.0)
    assert not any(calm.sampled(light, Demand(opportunistic=2.0, used=1.8), at / 4) for at in range(8))


# -- memory


def low_memory_world(**node: object) -> PressedWorld:
    """A guaranteed container of 400 MiB within its limit, and three opportunistic ones; 256 MiB are to stay."""
    world = a_watched_world(
        vcores=8, cores=4, machine_memory=2048, memory=2048, pressure_memory_available_mb=256, **node
    )
    world.holds = {"g": 400, "o1": 300, "o2": 100, "o3": 50}
    world.schedule("g", G, 500, 1)
    for name in ("o1", "o2", "o3"):
        world.schedule(name, O, 400, 1)
    world.tick(1)
    return world


def test_the_newest_that_is_enough_ends_and_the_guaranteed_one_never() -> None:
    world = low_memory_world()
    world.other_memory = 2048 - 850 - 256 + 90  # 90 MiB too much
    world.tick()
    assert world.states("g", "o1", "o2", "o3") == ["RUNNING", "RUNNING", "DONE", "RUNNING"]
    status = world.status("o2")
    assert status.exit_status == -108 and "166 MB are available, and 256 MB must stay" in status.diagnostics
    world.tick(5)
    assert world.states("o1", "o3") == ["RUNNING", "RUNNING"], "one was enough"


def test_one_at_a_time_the_largest_where_none_is_enough_and_never_a_guaranteed_one() -> None:
    world = low_memory_world()
    world.other_memory = 2048 - 850
    ends: list[str] = []
    for _ in range(40):
        world.tick()
        gone = [name for name in ("o1", "o2", "o3") if world.state(name) is DONE and name not in ends]
        assert len(gone) <= 1, "each is looked at before the next"
        ends += gone
    assert ends == ["o1"], "300 MiB are more than the 256"
    world.other_memory = 2048 - 400
    world.tick(10)
    assert world.states("g", "o1", "o2", "o3") == ["RUNNING", "DONE", "DONE", "DONE"]


def test_nothing_opportunistic_starts_before_there_is_half_as_much_again() -> None:
    world = low_memory_world()
    world.other_memory = 2048 - 850 - 250
    world.tick()
    victim = [name for name in ("o1", "o2", "o3") if world.state(name) is DONE]
    assert victim == ["o3"]
    world.schedule("late", O, 100, 1)
    world.tick(10)
    assert world.state("late") is SCHEDULED, "306 MiB are not 384"
    told = world.machine.opportunistic_status()
    assert told.lent_memory < 0 == told.lent_vcores, "the ResourceManager is told what lacks"
    world.schedule("g2", G, 100, 1)
    assert world.state("g2") is RUNNING
    world.other_memory -= 200
    world.tick(2)
    assert world.state("late") is RUNNING


def test_with_swap_one_is_paused_and_its_memory_taken_back() -> None:
    world = low_memory_world()
    world.swap = 4096
    world.other_memory = 2048 - 850 - 256 + 90
    world.answers = False
    world.tick()
    pauses = [c for c in world.last if isinstance(c, PauseContainer)]
    assert [(c.container_id, c.reclaim_memory) for c in pauses] == [("o2", True)]
    assert not [c for c in world.last if isinstance(c, KillContainer | SetLimits)]


def test_a_stalling_kernel_counts_before_the_floor_is_reached() -> None:
    watch = MemoryPressure(available=100 * MIB, stalled=0.2, quiet=1.0)
    reading = HostUtilization(2, 0, 2, memory_total=4096 * MIB, memory_available=150 * MIB)
    assert watch.sampled(reading, 0.0) == 0
    stalls = HostUtilization(2, 0, 2, memory_total=4096 * MIB, memory_available=150 * MIB, memory_stalled=0.5)
    assert watch.sampled(stalls, 0.25) > 0 and watch.is_on
    plenty = HostUtilization(2, 0, 2, memory_total=4096 * MIB, memory_available=250 * MIB, memory_stalled=0.5)
    assert MemoryPressure(available=100 * MIB, stalled=0.2, quiet=1.0).sampled(plenty, 0.0) == 0


# -- the utilization-based tracker


def lending(**node: object) -> PressedWorld:
    node.setdefault("utilization_tracker", "UTILIZATION")
    node.setdefault("cores", 4)
    node.setdefault("max_queue_length", 100)
    return PressedWorld(**node)  # type: ignore[arg-type]


def idle_guaranteed(**node: object) -> PressedWorld:
    """All that the node has is promised to a guaranteed container that does nothing."""
    world = lending(**node)
    world.holds = {"g": 100}
    world.schedule("g", G, 2048, 4)
    world.tick(3)
    return world


def fill(
    world: PressedWorld, count: int, memory: int = 100, cores: float = 1.0, holds: int = 50
) -> list[str]:
    names = [f"o{number}" for number in range(1, count + 1)]
    for name in names:
        world.wants[name] = cores
        world.holds[name] = holds
        world.schedule(name, O, memory, 1)
    return names


def running(world: PressedWorld, names: list[str]) -> int:
    return sum(world.state(name) is RUNNING for name in names)


def test_g14_what_is_promised_and_idle_is_lent() -> None:
    allocation = idle_guaranteed(utilization_tracker="ALLOCATION")
    names = fill(allocation, 6)
    allocation.tick(20)
    assert running(allocation, names) == 0, "YARN's only tracker lets the machine stand idle"
    world = idle_guaranteed()
    names = fill(world, 6)
    world.tick(20)
    assert running(world, names) == 4, "four idle cores carry four spinners"
    assert world.machine.allocated == Resource(2448, 8)


def test_g14_the_lent_is_taken_back_when_its_owner_uses_it() -> None:
    world = idle_guaranteed()
    names = fill(world, 4)
    world.tick(10)
    assert running(world, names) == 4
    world.wants["g"] = 4.0
    world.tick(1.5)
    assert running(world, names) == 0 and world.state("g") is RUNNING
    assert "guaranteed containers use the CPU that it had borrowed" in world.status("o1").diagnostics
    world.tick(1)
    assert world.got["g"] == pytest.approx(4.0)
    world.wants["g"] = 0.0
    world.tick(30)
    assert running(world, names) == 4
    assert world.changes("o4", PAUSED) == 1


def test_g14_half_used_half_lent_and_no_dance() -> None:
    world = idle_guaranteed()
    world.wants["g"] = 2.0
    world.tick(10)
    names = fill(world, 8)
    world.tick(60)
    assert running(world, names) == 2
    assert sum(world.changes(name, PAUSED) for name in names) == 0


def test_not_everything_starts_on_one_reading() -> None:
    world = idle_guaranteed(overallocation_factor=100)
    names = fill(world, 40, cores=0.1)
    started = []
    for _ in range(48):
        before = running(world, names)
        world.tick()
        started.append(running(world, names) - before)
    assert max(started) <= 4, "what has just started counts with what it was promised"
    assert 4 < running(world, names) <= 38, "and later with what it uses"


def test_the_factor_bounds_what_is_promised_in_all() -> None:
    world = idle_guaranteed(overallocation_factor=1.5)
    names = fill(world, 20, cores=0.01)
    world.tick(30)
    assert running(world, names) == 2 and world.machine.allocated.vcores == 6


def test_memory_and_cpu_are_lent_separately() -> None:
    world = idle_guaranteed(overallocation_memory=0.0)
    names = fill(world, 4)
    world.tick(20)
    assert running(world, names) == 0, "no memory is lent, and none is left"
    world = lending(overallocation_memory=0.0)
    world.schedule("g", G, 1024, 4)
    names = fill(world, 4)
    world.tick(20)
    assert running(world, names) == 4, "memory is left, and vcores are lent"


def test_lent_memory_is_taken_back_by_ending_one_after_the_other() -> None:
    world = idle_guaranteed()
    names = fill(world, 4, memory=400, cores=0.0, holds=400)
    world.tick(30)
    assert running(world, names) == 4, "100 and 1600 MiB are used of 2048"
    world.holds["g"] = 900
    world.tick()
    ended = [name for name in names if world.state(name) is DONE]
    assert ended == ["o4"], "the newest; the rest is looked at again without it"
    world.tick(10)
    assert running(world, names) == 2 and world.state("g") is RUNNING
    assert "memory that it had borrowed" in world.status("o4").diagnostics


def test_a_guaranteed_container_never_waits_for_vcores_on_loan() -> None:
    world = lending()
    world.schedule("g1", G, 1024, 2)
    names = fill(world, 4)
    world.tick(20)
    assert running(world, names) >= 3
    commands = world.schedule("g2", G, 100, 2)
    assert world.state("g2") is RUNNING and not [c for c in commands if isinstance(c, KillContainer)]
    world.wants |= {"g1": 2.0, "g2": 2.0}
    world.tick(2)
    assert running(world, names) == 0


def test_a_guaranteed_container_gets_the_memory_it_was_promised() -> None:
    world = lending()
    world.schedule("g1", G, 1024, 2)
    names = fill(world, 4, memory=400)
    world.tick(20)
    assert running(world, names) == 4, "1600 MiB beside 1024 of 2048"
    world.schedule("g2", G, 1024, 1)
    assert world.state("g2") is RUNNING
    assert world.machine.allocated.memory <= world.machine.total.memory


@pytest.mark.parametrize(
    ("given", "memory", "cpu"),
    [
        ({}, 0.95, 0.95),
        ({"overallocation_general": 0.5}, 0.5, 0.5),
        ({"overallocation_general": 0.99}, 0.95, 0.95),
        ({"overallocation_general": 0.5, "overallocation_cpu": 0.8}, 0.5, 0.8),
        ({"overallocation_general": 0.0}, 0.0, 0.0),
        ({"overallocation_general": 0.9, "overallocation_preemption": 0.9}, 0.0, 0.0),
    ],
)
def test_the_thresholds_follow_yarn_1011(given: dict[str, float], memory: float, cpu: float) -> None:
    found = overallocation(ExecutorSettings(**given))  # type: ignore[arg-type]
    assert (found.memory, found.cpu) == (memory, cpu)


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.5, 2.0, 4.0]), st.integers(0, 4), st.integers(4, 40)), max_size=12
    )
)
@settings(max_examples=25, deadline=None)
def test_lending_never_takes_from_its_owner_for_long(trace: list[tuple[float, int, int]]) -> None:
    """Whatever owner and outside do: two seconds later the owner has what the kernel owes it."""
    world = idle_guaranteed()
    names = fill(world, 6)
    for wanted, threads, ticks in trace:
        world.wants["g"] = wanted
        world.outside = [1.0] * threads
        world.tick(ticks * world.tick_seconds)
        if ticks * world.tick_seconds >= 2.5:
            alone = {f"outside {number}": (1024.0, 1.0) for number in range(threads)}
            entitled = divided(4.0, alone | {"g": (1024.0, wanted)})["g"]
            assert world.got["g"] >= entitled - 0.15, (wanted, threads, world.got)
        assert world.state("g") is RUNNING
        assert world.machine.allocated.fits_in(Resource(2 * 2048, 2 * 4))
    world.wants["g"], world.outside = 0.0, []
    world.tick(60)
    assert running(world, names) == 4


def test_the_cpu_watch_asks_once_and_gives_time() -> None:
    watch = CpuPressure(outside=0.5, saturated=0.96, sustained=0.5, quiet=1.0)
    reading = HostUtilization(2, 2.0, 0.0, yopp_cpu=1.0, runnable=3)
    asked = [watch.sampled(reading, Demand(opportunistic=2.0), at / 4) > 0 for at in range(6)]
    assert asked == [False, False, True, False, False, True]


def test_g15_memory_used_is_told_to_the_megabyte() -> None:
    world = a_watched_world()
    world.schedule("o1", O, 100, 1)
    world.schedule("o2", O, 28, 0)
    assert world.machine.opportunistic_status().memory_used == 128, "YARN's whole GB would say 0"
    assert world.status("o1").execution_type is ExecutionType.OPPORTUNISTIC
