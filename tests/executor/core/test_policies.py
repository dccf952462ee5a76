"""Who starts next and who gives way, by each policy, and that nobody starves under any of them."""

from __future__ import annotations

from itertools import combinations
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executor.core import applications
from executor.core.applications import Applications
from executor.core.commands import KillContainer, LaunchContainer, PauseContainer
from executor.core.container import Container
from executor.core.events import (
    ApplicationPriorityChanged,
    ContainerPauseRequested,
    ContainerResumeRequested,
    QueuingLimitReceived,
)
from executor.core.queues import ORDERS
from executor.core.reclaim import POLICIES, NewestFirst, Reclaimable
from executor.core.victims import EXACT_EFFORT, cheapest
from executor.records import ContainerExitStatus, ContainerQueuingLimit, Resource
from executor.settings import ExecutorSettings, properties_of

from .world import G, O, World, a_spec


def test_the_choices_that_are_declared_are_those_that_there_are() -> None:
    declared = {item.attribute: item for item in properties_of(ExecutorSettings)}
    assert set(declared["queue_policy"].choices) == set(ORDERS)
    assert set(declared["preemption_policy"].choices) == set(POLICIES)


def launched(world: World) -> list[str]:
    """Who was started, in order, the first ("busy") left out."""
    return [c.spec.container_id for c in world.commands if isinstance(c, LaunchContainer)][1:]


def busy(**node: Any) -> World:
    """One vcore, taken, and room for fifty in the queue."""
    world = World(**{"vcores": 1, "max_queue_length": 50, **node})
    world.schedule("busy", G, 256)
    return world


def run_dry(world: World, seconds: float = 1.0) -> None:
    """Let what runs end, one after the other, until nothing does."""
    while running := [s.container_id for s in world.machine.statuses() if s.state.value == "RUNNING"]:
        world.now += seconds
        world.exit(running[0])


class TestApplicationPriority:
    """Larger numbers go first, whatever the policy, except for YARN's own."""

    PLACES: ClassVar[dict[str, dict[str, int]]] = {
        "FIFO_BACKFILL": {"low1": 3, "low2": 4, "high1": 1, "high2": 2},
        "SHORTEST_FIRST": {"low1": 4, "low2": 3, "high1": 2, "high2": 1},
        "FIFO": {"low1": 1, "low2": 2, "high1": 3, "high2": 4},
    }

    @staticmethod
    def queued(policy: str, **node: Any) -> World:
        world = busy(queue_policy=policy, **node)
        for name, hint in (("low1", 9000), ("low2", 1000), ("high1", 9000), ("high2", 1000)):
            priority = 9 if name.startswith("high") else 0
            world.schedule(
                name, O, 256, duration_hint_ms=hint, application_id=name[:-1], application_priority=priority
            )
        return world

    @pytest.mark.parametrize("policy", PLACES)
    def test_who_goes_first(self, policy: str) -> None:
        world = self.queued(policy)
        expected = self.PLACES[policy]
        assert {name: world.status(name).position for name in expected} == expected
        run_dry(world)
        assert launched(world) == sorted(expected, key=expected.__getitem__)

    def test_a_change_reaches_what_waits(self) -> None:
        world = self.queued("FIFO_BACKFILL")
        world.tell(ApplicationPriorityChanged("low", 10), ApplicationPriorityChanged("nobody", 99))
        run_dry(world)
        assert launched(world) == ["low1", "low2", "high1", "high2"]

    def test_overtaking_stays_bounded(self) -> None:
        world = self.queued("FIFO_BACKFILL", max_overtakes=1)
        run_dry(world)
        assert launched(world) == ["high1", "low1", "low2", "high2"]

    def test_the_lower_one_is_shed_first(self) -> None:
        world = self.queued("FIFO_BACKFILL")
        world.tell(QueuingLimitReceived(ContainerQueuingLimit(max_queue_length=2)))
        assert [world.status(name).state.value for name in ("high1", "high2")] == ["SCHEDULED"] * 2
        assert {world.status(name).exit_status for name in ("low1", "low2")} == {
            ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER
        }


class TestShortestFirst:
    def test_by_the_masters_word(self) -> None:
        world = busy(queue_policy="SHORTEST_FIRST")
        for name, hint in (("c1", 9000), ("c2", 1000), ("c3", 5000), ("c4", 1000)):
            world.schedule(name, O, 256, duration_hint_ms=hint)
        places = {s.container_id: s.position for s in world.machine.statuses() if s.position}
        assert places == {"c2": 1, "c4": 2, "c3": 3, "c1": 4}
        assert [world.status(name).position for name in ("c1", "c2", "c3", "c4")] == [4, 1, 3, 2]
        run_dry(world)
        assert launched(world) == ["c2", "c4", "c3", "c1"]

    def test_by_what_the_application_needed_before(self) -> None:
        world = World(vcores=1, queue_policy="SHORTEST_FIRST")
        for name, application, seconds in (("long", "a", 10.0), ("short", "b", 0.5)):
            world.schedule(name, O, 256, application_id=application)
            world.now += seconds
            world.exit(name)
        world.schedule("busy", O, 256, application_id="a")
        world.schedule("c1", O, 256, application_id="a")
        world.schedule("c2", O, 256, application_id="b")
        # of an application that is not known yet: as long as all did on average, 5.25 s
        world.schedule("c3", O, 256, application_id="c")
        world.schedule("c4", O, 256, application_id="a", duration_hint_ms=100)
        run_dry(world)
        assert launched(world)[-4:] == ["c4", "c2", "c3", "c1"]

    def test_failed_ones_teach_nothing(self) -> None:
        world = World(vcores=1, queue_policy="SHORTEST_FIRST")
        world.schedule("bad", O, 256, application_id="a")
        world.exit("bad", 1)
        world.schedule("busy", O, 256, application_id="b")
        world.schedule("c1", O, 256, application_id="a")
        world.schedule("c2", O, 256, application_id="b", duration_hint_ms=60_000)
        world.exit("busy", 1)
        run_dry(world)
        assert launched(world)[-2:] == ["c2", "c1"], "of which nothing is known goes last"

    @pytest.mark.parametrize("bound", [{"max_overtakes": 5}, {"max_wait_ms": 5000}])
    def test_nobody_starves(self, bound: dict[str, int]) -> None:
        world = busy(queue_policy="SHORTEST_FIRST", **bound)
        world.schedule("long", O, 256, duration_hint_ms=60_000)
        for number in range(20):
            world.schedule(f"c{number}", O, 256, duration_hint_ms=100)
        run_dry(world)
        # c0 starts at 1 s, c5 would at 6 s
        assert launched(world).index("long") == 5 if "max_overtakes" in bound else 4
        assert launched(world)[-1] == "c19"

    def test_without_a_bound_it_would(self) -> None:
        world = busy(queue_policy="SHORTEST_FIRST", max_overtakes=1000)
        world.schedule("long", O, 256, duration_hint_ms=60_000)
        for number in range(20):
            world.schedule(f"c{number}", O, 256, duration_hint_ms=100)
        run_dry(world)
        assert launched(world)[-1] == "long"

    def test_a_paused_one_goes_before_shorter_ones_that_came_later(self) -> None:
        world = World(vcores=1, queue_policy="SHORTEST_FIRST", use_pause_for_preemption=True)
        world.schedule("c0", O, 256, duration_hint_ms=60_000)
        world.schedule("g", G, 256)
        world.schedule("c1", O, 256, duration_hint_ms=100)
        world.exit("g")
        assert world.states("c0", "c1") == ["RUNNING", "SCHEDULED"]


class TestLeastRemainingTasks:
    def test_the_application_with_the_fewest_left_goes_first(self) -> None:
        world = busy(queue_policy="LEAST_REMAINING_TASKS")
        for name, application in (
            ("a1", "a"),
            ("a2", "a"),
            ("a3", "a"),
            ("b1", "b"),
            ("b2", "b"),
            ("c1", "c"),
        ):
            world.schedule(name, O, 256, application_id=application)
        assert [world.status(name).position for name in ("a1", "b1", "c1")] == [4, 2, 1]
        run_dry(world)
        assert launched(world) == ["c1", "b1", "b2", "a1", "a2", "a3"]

    def test_what_has_ended_is_no_longer_left(self) -> None:
        world = busy(queue_policy="LEAST_REMAINING_TASKS")
        for name, application in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b")):
            world.schedule(name, O, 256, application_id=application)
        world.stop("a1")
        world.stop("a2")
        run_dry(world)
        assert launched(world) == ["a3", "b1", "b2"]

    def test_nobody_starves(self) -> None:
        world = busy(queue_policy="LEAST_REMAINING_TASKS", max_overtakes=3)
        for name in ("a1", "a2"):
            world.schedule(name, O, 256, application_id="a")
        for number in range(8):
            world.schedule(f"c{number}", O, 256, application_id=f"application_{number}")
        run_dry(world)
        assert launched(world)[3] == "a1"


class TestFifo:
    @pytest.mark.parametrize(("policy", "second"), [("FIFO", "SCHEDULED"), ("FIFO_BACKFILL", "RUNNING")])
    def test_the_head_blocks_or_does_not(self, policy: str, second: str) -> None:
        world = World(queue_policy=policy)
        world.schedule("c0", O, 1536)
        world.schedule("c1", O, 1024)
        world.schedule("c2", O, 256)
        assert world.states("c1", "c2") == ["SCHEDULED", second]

    @pytest.mark.parametrize(("policy", "state"), [("FIFO", "SCHEDULED"), ("FIFO_BACKFILL", "RUNNING")])
    def test_beside_a_guaranteed_one_that_waits(self, policy: str, state: str) -> None:
        """What it needs is not touched; strictly first in, first out nothing starts before it at all."""
        world = World(queue_policy=policy)
        world.schedule("g0", G, 512, 3)
        world.schedule("g1", G, 512, 2)
        world.schedule("c0", O, 512, 0)
        assert world.states("g1", "c0") == ["SCHEDULED", state]


class TestAdmission:
    def test_by_resources(self) -> None:
        world = World(admission="BY_RESOURCES")
        world.schedule("c0", O, 1536)
        world.schedule("c1", O, 1024)
        world.schedule("c2", O, 512)
        assert world.states("c0", "c1", "c2") == ["RUNNING", "DONE", "RUNNING"]
        assert world.status("c1").exit_status == ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER

    @pytest.mark.parametrize(("through", "state"), [(False, "RUNNING"), (True, "DONE")])
    def test_whether_what_starts_at_once_needs_a_place(self, through: bool, state: str) -> None:
        world = World(max_queue_length=0, all_pass_through_queue=through)
        world.schedule("c0", O, 128)
        assert world.states("c0") == [state]

    @pytest.mark.parametrize(("forced", "state"), [(False, "SCHEDULED"), (True, "RUNNING")])
    def test_whether_guaranteed_ones_are_forced(self, forced: bool, state: str) -> None:
        world = World(max_queue_length=0, force_start_guaranteed=forced)
        world.schedule("g0", G, 2048)
        world.schedule("g1", G, 512)
        assert world.states("g0", "g1") == ["RUNNING", state]

    def test_they_are_not_where_there_is_a_queue(self) -> None:
        world = World(max_queue_length=1, force_start_guaranteed=True)
        world.schedule("g0", G, 2048)
        world.schedule("g1", G, 512)
        assert world.states("g1") == ["SCHEDULED"]

    @pytest.mark.parametrize(("refuse", "state"), [(True, "DONE"), (False, "SCHEDULED")])
    def test_what_is_larger_than_the_node(self, refuse: bool, state: str) -> None:
        world = World(refuse_oversized=refuse)
        world.schedule("c0", G, 4096)
        assert world.states("c0") == [state]


class TestPausing:
    @pytest.mark.parametrize(("place", "first"), [("ARRIVAL", "c0"), ("TAIL", "c1")])
    def test_where_a_paused_one_waits(self, place: str, first: str) -> None:
        world = World(vcores=1, use_pause_for_preemption=True, paused_place=place)
        world.schedule("c0", O, 256)
        world.schedule("c1", O, 256)
        world.schedule("g", G, 256)
        assert world.machine.opportunistic_status().queued == (2 if place == "TAIL" else 1)
        world.exit("g")
        assert [s.container_id for s in world.machine.statuses() if s.state.value == "RUNNING"] == [first]

    def test_who_is_paused_goes_on_before_those_that_wait_for_what_it_keeps(self) -> None:
        world = World(vcores=2, queue_policy="FIFO", paused_place="TAIL", paused_memory="keep")
        world.schedule("paused", O, 2048)
        world.schedule("later", O, 256)
        world.tell(ContainerPauseRequested("paused"))
        world.tell(ContainerResumeRequested("paused"))
        assert world.states("paused", "later") == ["RUNNING", "SCHEDULED"], "else neither could ever start"
        world.exit("paused")
        assert world.states("later") == ["RUNNING"]

    def test_who_keeps_nothing_that_others_wait_for_goes_on_in_its_turn(self) -> None:
        world = World(vcores=2, queue_policy="FIFO", paused_place="TAIL", paused_memory="keep")
        world.schedule("runs", O, 256)
        world.schedule("paused", O, 256)
        world.schedule("later", O, 256, 2)
        world.tell(ContainerPauseRequested("paused"))
        world.tell(ContainerResumeRequested("paused"))
        assert world.states("runs", "paused", "later") == ["RUNNING", "PAUSED", "SCHEDULED"]
        world.exit("runs")
        assert world.states("later", "paused") == ["RUNNING", "PAUSED"]

    @pytest.mark.parametrize(("releases", "state"), [(True, "PAUSED"), (False, "DONE")])
    def test_whether_a_pause_gives_memory(self, releases: bool, state: str) -> None:
        memory = "release" if releases else "keep"
        world = World(use_pause_for_preemption=True, paused_memory=memory)
        world.schedule("c0", O, 2048)
        world.schedule("g", G, 2048)
        assert world.states("c0", "g") == [state, "RUNNING"]
        world.exit("g")
        assert world.machine.allocated == Resource(2048 if releases else 0, 1 if releases else 0)


def killed(world: World) -> list[str]:
    return [command.container_id for command in world.commands if isinstance(command, KillContainer)]


class TestPreemption:
    def test_least_work_lost(self) -> None:
        victims = {}
        for policy in ("MINIMAL", "LEAST_WORK_LOST"):
            world = World(preemption_policy=policy)
            world.schedule("old", O, 1024)
            world.now = 100.0
            world.schedule("young", O, 512)
            world.schedule("younger", O, 512)
            world.now = 110.0
            world.schedule("g", G, 1024)
            victims[policy] = killed(world)
        assert victims == {"MINIMAL": ["old"], "LEAST_WORK_LOST": ["younger", "young"]}

    def test_work_is_counted_in_vcores(self) -> None:
        world = World(preemption_policy="LEAST_WORK_LOST", vcores=8)
        world.schedule("wide", O, 512, 7)
        world.now = 20.0
        world.schedule("narrow", O, 1536, 1)
        world.now = 50.0
        world.schedule("g", G, 512, 0)
        assert killed(world) == ["narrow"]

    def test_a_container_that_was_paused_has_lost_nothing_by_it(self) -> None:
        world = World(preemption_policy="LEAST_WORK_LOST", use_pause_for_preemption=True, vcores=2)
        world.schedule("c0", O, 512)
        world.schedule("c1", O, 512)
        world.now = 5.0
        world.schedule("g", G, 512)
        assert [c.container_id for c in world.commands if isinstance(c, PauseContainer)] == ["c1"]

    @pytest.mark.parametrize(("percentage", "victim"), [(75, "c0"), (90, "d0")])
    def test_jobs_that_are_nearly_done_are_spared(self, percentage: int, victim: str) -> None:
        world = World(preemption_policy="SPARE_NEARLY_DONE", nearly_done_percentage=percentage)
        world.schedule("c0", O, 1024, application_id="c")
        for number in (3, 2, 1):
            world.schedule(f"d{number}", O, 256, application_id="d")
            world.exit(f"d{number}")
        world.schedule("d0", O, 1024, application_id="d")  # the last of four: three quarters are done
        world.schedule("g", G, 512)
        assert killed(world) == [victim]

    def test_the_time_that_has_passed_counts(self) -> None:
        world = World(preemption_policy="SPARE_NEARLY_DONE")
        world.schedule("c0", O, 1024, application_id="c", duration_hint_ms=100_000)
        world.schedule("d0", O, 1024, application_id="d", duration_hint_ms=10_000)
        world.now = 8.0
        world.schedule("g", G, 512)
        assert killed(world) == ["c0"]

    def test_they_are_not_spared_at_the_cost_of_the_guaranteed_one(self) -> None:
        world = World(preemption_policy="SPARE_NEARLY_DONE")
        world.schedule("d0", O, 2048, application_id="d", duration_hint_ms=10_000)
        world.now = 9.9
        world.schedule("g", G, 512)
        assert killed(world) == ["d0"]

    @pytest.mark.parametrize("policy", ["MINIMAL", "LEAST_WORK_LOST", "SPARE_NEARLY_DONE"])
    def test_never_in_vain_and_never_more_than_needed_of_what_is_short(self, policy: str) -> None:
        world = World(preemption_policy=policy)
        world.schedule("busy", G, 1024, 1)
        world.schedule("memory", O, 1024, 0)
        world.schedule("vcores", O, 0, 3)
        world.schedule("large", G, 1536, 1)
        assert killed(world) == [], "all together would not do"
        world.stop("large")
        world.schedule("g", G, 0, 2)
        assert killed(world) == ["vcores"]


def candidates(*sizes: tuple[int, int], work: tuple[float, ...] = ()) -> list[Reclaimable]:
    """Named a, b, c, … from the newest on."""
    return [
        Reclaimable(chr(97 + i), Resource(*size), Resource(0, size[1]), kill_cost=work[i] if work else 0.0)
        for i, size in enumerate(sizes)
    ]


def test_yarns_walk_pauses_what_pausing_does_and_kills_the_rest() -> None:
    both = candidates((512, 1), (512, 1), (512, 1))
    walk = NewestFirst(ExecutorSettings(), Applications())
    assert walk.plan(both, Resource(0, 2), can_pause=True) == [
        PauseContainer("a"),
        PauseContainer("b"),
    ]
    assert walk.plan(both, Resource(600, 0), can_pause=True) == [
        KillContainer("a"),
        KillContainer("b"),
    ]
    assert len(walk.plan(both, Resource(9000, 0), can_pause=False)) == 3


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(0, 5)), max_size=7),
    st.tuples(st.integers(0, 14), st.integers(0, 8)),
)
def test_no_set_would_have_been_cheaper(sizes: list[tuple[int, int, int]], shortage: tuple[int, int]) -> None:
    """Against all subsets: at least cost, then the smallest, then the newest."""
    short = Resource(*shortage)
    if short == Resource():
        return
    gains = [Resource(memory, vcores) for memory, vcores, _ in sizes]
    costs = [float(cost) for _, _, cost in sizes]
    useful = [
        i for i, gain in enumerate(gains) if min(gain.memory, short.memory) + min(gain.vcores, short.vcores)
    ]
    groups = (group for count in range(1, len(useful) + 1) for group in combinations(useful, count))
    fitting = [g for g in groups if short.fits_in(sum((gains[i] for i in g), Resource()))]
    expected = min(fitting, key=lambda g: (sum(costs[i] for i in g), len(g), g), default=())
    assert tuple(cheapest(gains, costs, short)) == expected


def test_a_hundred_of_many_sizes_are_chosen_among_quickly_and_none_in_vain() -> None:
    """Too many sums to look at each: a bargain, of which every member is needed."""
    gains = [Resource(97 * i % 1009 + 1, i % 5) for i in range(300)]
    costs = [float(31 * i % 101) for i in range(300)]
    short = Resource(60_000, 50)
    assert len(gains) ** 2 > EXACT_EFFORT
    chosen = cheapest(gains, costs, short)
    assert short.fits_in(sum((gains[i] for i in chosen), Resource()))
    for left_out in chosen:
        assert not short.fits_in(sum((gains[i] for i in chosen if i != left_out), Resource()))


def test_applications_are_forgotten_but_for_those_that_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applications, "REMEMBERED", 3)
    known = Applications()
    stays = Container(a_spec("stays", application_id="stays"), 0)
    known.arrived(stays)
    for number in range(10):
        container = Container(a_spec(f"c{number}", application_id=f"a{number}"), number)
        known.arrived(container)
        known.ended(container, 2.0)
    assert known.unfinished("stays") == 1
    assert known.share_done("a9", 0.0) == 1.0
    assert known.share_done("a0", 0.0) == 0.0, "forgotten"
