"""What copies of machines say of the future is what the machines do then."""

from __future__ import annotations

import pickle
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from executor.core.commands import LaunchContainer, ResumeContainer
from executor.core.machine import earliest
from executor.records import ContainerState, Resource
from executor.settings import ExecutorSettings
from tests.executor.core.test_waiting import NODES, STEPS, AtMostTwo, filled
from tests.executor.core.world import World
from yarnopp_cli.records.explanation import Expected
from yarnopp_cli.records.tracker_protocol import ExpectedTimes, NodeQuestion
from yarnopp_cli.whatif.node import answer

SECONDS = 1.7
"""How long containers run that do not declare it."""
TIMES = (ExpectedTimes("", Expected(1700, "median-cluster-time"), Expected(1700, "median-cluster-time")),)


def starts_of(world: World) -> dict[str, float]:
    """When each container that waits starts, in the seconds from now, if each runs for as long as it declares."""
    begun, found, seen = world.now, dict[str, float](), len(world.commands)
    while True:
        for command in world.commands[seen:]:
            match command:
                case LaunchContainer(spec):
                    found.setdefault(spec.container_id, world.now - begun)
                case ResumeContainer(name):
                    found.setdefault(name, world.now - begun)
        seen = len(world.commands)
        ends = {
            name: world.now + max(0.0, (one.spec.duration_hint_ms / 1000 or SECONDS) - one.ran_seconds(world.now))
            for name, one in world.machine.live.items()
            if one.state is ContainerState.RUNNING
        }  # fmt: skip
        due = world.machine.next_deadline()
        moment = earliest((due, min(ends.values(), default=None)))
        if moment is None or world.now - begun > 1000:
            return found
        if ends and moment == min(ends.values()):
            world.now = max(moment, world.now)
            world.exit(next(name for name, end in ends.items() if end == moment))
        else:
            world.advance(max(0.0, moment - world.now))


@settings(max_examples=300, deadline=None)
@given(NODES, STEPS)
def test_with_exact_durations_an_estimate_is_exact(
    node: dict[str, Any], steps: list[tuple[str, int, int, int]]
) -> None:
    world = filled(steps, **node)
    waiting = [one for one in world.machine.statuses(finished=False) if one.position]
    told = {}
    for one in waiting:
        copy = pickle.loads(pickle.dumps(world.machine))
        found = answer(copy, NodeQuestion(1, one.container_id, TIMES), world.now)
        (status, *_) = found.statuses
        assert (status.container_id, status.position, status.why) == (one.container_id, one.position, one.why)
        assert found.waiting == len(waiting) and (found.unknown is None) == bool(found.starts)
        told |= {name: start.in_ms for name, start in found.starts.items()}
    happened = starts_of(world)
    assert told.keys() == {one.container_id for one in waiting} & happened.keys()
    for name, in_ms in told.items():
        assert abs(in_ms - happened[name] * 1000) <= 2, f"{name} was to start in {in_ms} ms"


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 8))
def test_a_rule_nobody_has_heard_of_is_in_the_answer_and_in_the_estimates(number: int) -> None:
    """At most two run at a time, whatever is free: a rule of this test's node."""
    world = World(AtMostTwo(Resource(1 << 20, 9), ExecutorSettings(max_queue_length=10), physical_cores=9))
    for each in range(number + 2):
        world.schedule(f"c{each}", duration_hint_ms=1000)
    last = f"c{number + 1}"
    found = answer(pickle.loads(pickle.dumps(world.machine)), NodeQuestion(1, last), world.now)
    assert "AT_MOST_TWO" in [one.code for one in found.statuses[0].why]
    assert found.starts[last].in_ms == 1000 * ((number + 1) // 2)
