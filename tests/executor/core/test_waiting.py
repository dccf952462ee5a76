"""The order in which containers start, and why each waits, are what the decisions say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executor.core import events
from executor.core.commands import LaunchContainer, ResumeContainer
from executor.core.container import Container
from executor.core.queues import ORDERS
from executor.core.reclaim import POLICIES
from executor.core.scheduler import ContainerScheduler
from executor.core.tracker import Room
from executor.reasons import Reason, ReasonCode, ReasonKind, by_rule
from executor.records import GPU, ContainerRecord, ContainerState, Resource, counted
from executor.settings import ExecutorSettings

from .pressed_world import PressedWorld
from .world import G, O, World, a_scheduler, a_spec, id_of

HUGE = Resource(1 << 30, 1 << 20, counted({GPU: 1 << 20}))
NODES = st.fixed_dictionaries(
    {
        "queue_policy": st.sampled_from(list(ORDERS)),
        "preemption_policy": st.sampled_from(list(POLICIES)),
        "max_overtakes": st.integers(0, 4),
        "use_pause_for_preemption": st.booleans(),
        "paused_place": st.sampled_from(["ARRIVAL", "TAIL"]),
        "paused_resources": st.sampled_from(["keep", "release"]),
        "hold_for_guaranteed_ms": st.sampled_from([0, 100]),
    }
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["o", "o", "o", "o", "g", "exit", "pause", "resume", "raise", "wait"]),
        st.integers(0, 9),
        st.integers(1, 3),
        st.integers(0, 2),
    ),
    max_size=25,
)


def filled(steps: list[tuple[str, int, int, int]], **node: Any) -> World:
    """A node in a state to which these steps have led."""
    gpus = node.pop("gpus", 2)
    world = World(memory=4096, vcores=4, max_queue_length=50, **node)
    world.tell(events.NodeResized(Resource(4096, 4, counted({GPU: gpus}))))
    world.tell(events.GuaranteedAwaited(True))
    for number, (step, which, vcores, more) in enumerate(steps):
        world.now += 0.01
        live = [
            one for one in world.machine.statuses(finished=False) if one.state is not ContainerState.KILLING
        ]
        name, app = f"c{number:02}", f"app{which % 3}"
        if step in ("o", "g"):
            world.schedule(
                name, O if step == "o" else G, vcores=vcores, gpus=more % 2, application_id=app,
                application_priority=which % 3, duration_hint_ms=1000 * (which % 4),
            )  # fmt: skip
        elif step == "wait":
            world.advance(0.2)
        elif live:
            one = live[which % len(live)]
            match step:
                case "exit" if one.state is not ContainerState.SCHEDULED:
                    world.exit(one.container_id)
                case "pause":
                    world.tell(events.ContainerPauseRequested(one.container_id, by="ada"))
                case "resume":
                    world.tell(events.ContainerResumeRequested(one.container_id))
                case "raise":
                    world.tell(events.ApplicationPriorityChanged(one.application_id, more))
    return world


def line(world: World) -> list[str]:
    """Those that wait, by their places."""
    placed = [one for one in world.machine.statuses() if one.position]
    assert sorted(one.position for one in placed) == list(range(1, len(placed) + 1))
    return [one.container_id for one in sorted(placed, key=lambda one: one.position)]


def started(world: World) -> list[str]:
    return [id_of(one) for one in world.commands if isinstance(one, LaunchContainer | ResumeContainer)]


@settings(max_examples=400, deadline=None)
@given(NODES, STEPS)
def test_the_kth_of_those_that_wait_starts_kth_when_there_is_room(
    node: dict[str, Any], steps: list[tuple[str, int, int, int]]
) -> None:
    world = filled(steps, **node)
    expected = line(world)
    world.commands.clear()
    world.tell(events.NodeResized(HUGE))
    world.advance(1.0)  # for what was held for guaranteed ones
    assert started(world) == expected


@settings(max_examples=400, deadline=None)
@given(NODES, STEPS)
def test_each_that_waits_says_why_and_no_other(
    node: dict[str, Any], steps: list[tuple[str, int, int, int]]
) -> None:
    for one in filled(steps, **node).machine.statuses():
        waits = one.state in (ContainerState.SCHEDULED, ContainerState.PAUSED, ContainerState.PAUSING)
        assert bool(one.why) == waits, one
        assert not one.position or waits
        behind = [reason.number for reason in one.why if reason.kind is ReasonKind.BEHIND]
        assert behind == ([one.position - 1] if one.position > 1 else [])
        assert one.position != 1 or any(reason.kind is not ReasonKind.NEXT for reason in one.why), (
            "it would start"
        )


def why(world: World, container_id: str) -> list[Reason]:
    return [one for one in world.status(container_id).why if one.kind is not ReasonKind.BEHIND]


def only(world: World, container_id: str) -> Reason:
    (reason,) = why(world, container_id)
    return reason


class AtMostTwo(ContainerScheduler):
    """A node with a rule that nobody has heard of."""

    def _room_for_opportunistic(self) -> Room | Reason:
        running = sum(
            one.is_opportunistic and one.state is not ContainerState.PAUSED for one in self._active.values()
        )
        if running >= 2:
            return by_rule("AT_MOST_TWO", "at most 2 opportunistic containers run here")
        return super()._room_for_opportunistic()


class NobodyOfBob(ContainerScheduler):
    """One with a rule about single containers, which leaves a vcore to nobody."""

    def _next_to_start(self, of: Container | None = None) -> Container | Reason:
        found = super()._next_to_start(of)
        if isinstance(found, Container) and found.spec.user == "bob":
            return by_rule("NOT_BOB", "bob has had enough")
        return found


@pytest.mark.parametrize(("node", "code"), [(AtMostTwo, "AT_MOST_TWO"), (NobodyOfBob, "NOT_BOB")])
def test_a_rule_that_nobody_has_heard_of_is_explained_by_the_reason_that_it_returns(
    node: type[ContainerScheduler], code: str
) -> None:
    settings = ExecutorSettings(max_queue_length=10)
    world = World(node(Resource(4096, 4), settings, physical_cores=4))
    for number in range(4):
        world.schedule(f"c{number}", user="ada" if number < 2 else "bob")
    assert world.states("c0", "c1", "c2", "c3") == ["RUNNING", "RUNNING", "SCHEDULED", "SCHEDULED"]
    assert only(world, "c2").code == only(world, "c3").code == code
    assert [one.position for one in world.machine.statuses(("c2", "c3"))] == [1, 2]


def test_what_is_short_and_who_holds_it() -> None:
    world = World(vcores=2)
    world.schedule("a", G)
    world.now = 1.0
    world.schedule("b")
    world.schedule("c", memory=1536)
    vcores, memory = why(world, "c")
    assert (vcores.code, vcores.needs, vcores.free, vcores.total, vcores.by) == (
        "NO_VCORES",
        1,
        0,
        2,
        ("a", "b"),
    )
    assert (memory.code, memory.needs, memory.free) == ("NO_MEMORY", 1536, 1024)
    held = vcores.holders
    assert (held.guaranteed, held.opportunistic, held.oldest) == (1, 1, "a")
    world.tell(events.ContainerPauseRequested("b", by="ada"))
    assert [one.code for one in world.status("c").why] == ["NO_MEMORY"], "its vcores are free"
    assert only(world, "b") == Reason(ReasonKind.BY_PERSON, detail="ada", by=("b",))


def test_guaranteed_ones_that_wait_and_what_is_held_for_them() -> None:
    world = World(vcores=4, use_pause_for_preemption=False)
    for name in "abc":
        world.schedule(name, G)
    world.schedule("big", G, vcores=2)
    world.schedule("o")
    reason = only(world, "o")
    assert (reason.kind, reason.by, reason.number) == (ReasonKind.RESERVED, ("big",), 1)
    assert [one.kind for one in world.status("big").why] == [ReasonKind.SHORT]
    strict = World(vcores=4, queue_policy="FIFO")
    strict.schedule("a", G, vcores=3)
    strict.schedule("big", G, vcores=2)
    strict.schedule("o")
    assert (only(strict, "o").kind, only(strict, "o").by) == (ReasonKind.BARRED, ("big",))
    held = World(vcores=1, use_pause_for_preemption=False, hold_for_guaranteed_ms=500)
    held.tell(events.GuaranteedAwaited(True))
    held.schedule("a", G)
    held.schedule("o")
    held.exit("a")
    assert only(held, "o").kind is ReasonKind.EXPECTED
    held.advance(0.6)
    assert held.state("o") is ContainerState.RUNNING


def test_one_that_is_overtaken_no_more_keeps_what_is_free() -> None:
    world = World(vcores=4, max_overtakes=1)
    world.schedule("a", vcores=3)
    world.schedule("big", vcores=4)
    world.schedule("one")
    world.exit("one")
    world.schedule("two")
    reason = only(world, "two")
    assert (reason.kind, reason.by, reason.number) == (ReasonKind.OVERTAKEN, ("big",), 1)


def test_the_time_of_day_health_and_recovery() -> None:
    world = World()
    world.tell(events.OpportunisticWindowChanged(1_800_000_000_000))
    world.schedule("o")
    assert only(world, "o") == Reason(ReasonKind.WINDOW_CLOSED, at_ms=1_800_000_000_000)
    world.tell(events.OpportunisticWindowChanged(0), events.NodeHealthChanged("no space left"))
    world.schedule("p")
    assert only(world, "p") == Reason(ReasonKind.UNHEALTHY, detail="no space left")
    assert only(World(machine=recovering()), "c") == Reason(ReasonKind.RECOVERING)


def recovering() -> ContainerScheduler:
    machine = a_scheduler()
    record = ContainerRecord(a_spec("c"), ContainerState.SCHEDULED)
    machine.handle(events.ContainerRecovered(record, alive=False), 0.0)
    return machine


def test_the_load_of_the_machine() -> None:
    world = PressedWorld(pressure_enabled=True)
    world.wants = {"a": 1.0, "b": 1.0}
    world.schedule("a")
    world.schedule("b")
    world.tick(2.0)
    world.outside = [1.0, 1.0, 1.0, 1.0]
    world.tick(2.0)
    world.schedule("c")
    paused = next(name for name in "ab" if world.state(name) is ContainerState.PAUSED)
    assert only(world, paused).kind is ReasonKind.OUTSIDE_CPU
    assert {only(world, paused).code, only(world, "c").code} == {ReasonCode.PRESSURE}
    world.outside, world.other_memory = [], 8000
    world.tick(2.0)
    short = only(world, "c")
    assert (short.kind, short.code, short.free) == (ReasonKind.MACHINE_MEMORY, "PRESSURE", 8192 - 8000)


def test_a_paused_one_says_for_whom_it_made_room_and_what_it_waits_for_now() -> None:
    world = World(vcores=1, use_pause_for_preemption=True)
    world.schedule("o")
    world.schedule("g", G)
    assert world.state("o") is ContainerState.PAUSED
    reason = only(world, "o")
    assert (reason.kind, reason.needs, reason.free, reason.by) == (ReasonKind.MADE_ROOM, 1, 0, ("g",))
    assert world.status("o").position == 1
    world.tell(events.ContainerPauseRequested("o", by="ada"), events.ContainerResumeRequested("o", by="bob"))
    reason = only(world, "o")
    assert (reason.kind, reason.resumed, reason.detail) == (ReasonKind.SHORT, True, "bob")


def test_what_can_never_start_here() -> None:
    world = World(refuse_oversized=False)
    world.schedule("master", G, memory=512, vcores=0, application_id="app", least_vcores=1)
    world.schedule("large", vcores=9)
    assert (only(world, "large").kind, only(world, "large").limit) == (
        ReasonKind.TOO_BIG_HERE,
        Resource(2048, 4),
    )
    world.schedule("beside", memory=2048, application_id="app")
    assert only(world, "beside").kind is ReasonKind.BESIDE_MASTER
