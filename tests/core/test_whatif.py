"""What copies of machines say of the future is what the machines do then."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.world import Cluster
from bench.world import World as Virtual
from executor.core import events
from executor.core.commands import KillContainer, LaunchContainer, PauseContainer, ResumeContainer, RevokeNext
from executor.core.container import Container
from executor.core.machine import earliest
from executor.records import ContainerState, ExecutionType, Resource
from executor.settings import ExecutorSettings
from tests.executor.core.test_waiting import NODES, STEPS, AtMostTwo, filled, started
from tests.executor.core.world import G, World
from yarnopp_cli.masters.commands import plan_run
from yarnopp_cli.records.explanation import Expected, ForeseeJobRequest
from yarnopp_cli.records.job_protocol import SubmitJobRequest
from yarnopp_cli.records.jobs import JobSpec, TaskSpec
from yarnopp_cli.records.requests import ApplicationSubmissionContext
from yarnopp_cli.records.tracker_protocol import ExpectedTimes, NodeQuestion
from yarnopp_cli.whatif.foresight import Foresight
from yarnopp_cli.whatif.node import answer

from .rm_harness import SETTINGS

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


@settings(max_examples=200, deadline=None)
@given(
    NODES, STEPS, st.lists(st.sampled_from(["promote", "pause", "kill"]), min_size=1, max_size=3), st.data()
)
def test_what_is_told_of_changes_is_what_they_then_do(
    node: dict[str, Any], steps: list[tuple[str, int, int, int]], changes: list[str], data: st.DataObject
) -> None:
    world = filled(steps, **node)
    before = {one.container_id: one.state for one in world.machine.statuses(finished=False)}
    told: list[Any] = []
    for change in changes if before else ():
        name = data.draw(st.sampled_from(sorted(before)))
        told.append(
            {
                "promote": events.ContainerUpdated(name, 9, G, None),
                "pause": events.ContainerPauseRequested(name, by="ada"),
                "kill": events.ContainerKillRequested(name, -105, "by its master"),
            }[change]
        )
    copy = pickle.loads(pickle.dumps(world.machine))
    found = Foresight(copy, copy.live.get, list(copy.live.values()), world.now, lambda one, now: None)
    world.commands.clear()
    for event in told:
        found.tell(event)
        world.tell(event)
    done = world.commands
    killed = [
        one for one in done if isinstance(one, KillContainer) or (isinstance(one, RevokeNext) and one.ends)
    ]
    assert found.killed == [one.container_id for one in killed]
    assert found.paused == [one.container_id for one in done if isinstance(one, PauseContainer)]
    assert [one.container_id for one in found.started] == started(world)


# -- dry runs ----------------------------------------------------------------------------------------------------

JOBS = st.tuples(
    st.integers(1, 7),
    st.sampled_from(list(ExecutionType)),
    st.integers(1, 3),
    st.sampled_from([64, 64, 700]),
    st.integers(0, 2),
    st.integers(0, 3),
    st.integers(0, 2),
)
"""How many tasks, of which type, vcores and memory, the application's priority, the seconds declared, --max-running."""


class Scene:
    """A cluster in virtual time on which nothing ends by itself."""

    def __init__(
        self, nodes: int, node: dict[str, Any], seed: int, size: Resource = Resource(2048, 4), **settings: Any
    ) -> None:
        self.world = Virtual(seed=seed)
        rm = replace(SETTINGS, minimum_allocation_mb=64, minimum_allocation_vcores=1, **settings)
        self.cluster = Cluster(self.world, rm, seconds=lambda: 1e6)
        own = ExecutorSettings(**{"max_queue_length": 6, **node})
        self.cluster.add_nodes(nodes, size, own)

    def wait(self, seconds: float) -> None:
        until = self.world.now + seconds
        while self.world.now < until and self.world.step():
            pass

    def ask(self, request: Any, seconds: float = 0.5) -> Any:
        """The answer to a call, or its error, and what follows from it."""
        found: list[Any] = []
        connection = next(self.cluster.connections)
        self.cluster.call(self.cluster.rm, connection, request, lambda *answer: found.append(answer))
        self.wait(seconds)
        ((response, error),) = found
        return response if error is None else error

    def live(self) -> dict[str, dict[str, Container]]:
        machines = (node.actor.machine for node in self.cluster.nodes.values())
        return {machine.node_id: dict(machine.scheduler.live) for machine in machines}


def job_of(number: int, kind: ExecutionType, vcores: int, memory: int, seconds: int, most: int) -> JobSpec:
    task = TaskSpec(1, Resource(memory, vcores), kind, duration_hint_ms=seconds * 1000)
    return plan_run(("true",), task, number, max_preemptions=1_000_000, max_running=most)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 3), NODES, st.lists(JOBS, max_size=5), JOBS, st.integers(0, 99), st.booleans())
def test_a_dry_run_says_what_the_real_run_then_does(
    nodes: int, node: dict[str, Any], earlier: list[Any], last: Any, seed: int, pauses: bool
) -> None:
    scene = Scene(nodes, node, seed, opportunistic_enabled=True)
    for number, kind, vcores, memory, priority, seconds, most in earlier:
        context = ApplicationSubmissionContext("", "job", priority=priority)
        scene.ask(
            SubmitJobRequest(context, job_of(number, kind, vcores, memory, seconds, most), attached=False)
        )
    if pauses:
        name, one = next(((n, one) for n, every in scene.live().items() for one in every), ("", ""))
        for found in scene.cluster.nodes.values():
            if one and found.actor.machine.node_id == name:
                found.actor.tell(events.ContainerPauseRequested(one, by="ada"))
        scene.wait(0.5)
    number, kind, vcores, memory, priority, seconds, most = last
    context = ApplicationSubmissionContext("", "job", priority=priority)
    job = job_of(number, kind, vcores, memory, seconds, most)
    before, known = scene.live(), set(scene.cluster.context.applications)
    told = scene.ask(ForeseeJobRequest(context, job))
    assert scene.live().keys() == before.keys() and set(scene.cluster.context.applications) == known
    assert [list(every) for every in scene.live().values()] == [list(every) for every in before.values()]
    states = {name: one.state for every in before.values() for name, one in every.items()}
    app_id = scene.ask(SubmitJobRequest(context, job, attached=False)).application_id
    after = scene.live()
    counts = {
        name: sum(one.spec.application_id == app_id for one in here.values()) for name, here in after.items()
    }
    mine = sum(counts.values())
    placed = {at.node_id: at.starts + at.queued for at in told.nodes}
    assert sum(placed.values()) == mine
    assert placed == counts or nodes > 1, "among equal nodes the ResourceManager chooses at random"
    for at in told.nodes if placed == counts else ():
        here = after[at.node_id]
        own = [one for one in here.values() if one.spec.application_id == app_id]
        waiting = [one for one in own if one.state is ContainerState.SCHEDULED]
        assert (len(own) - len(waiting), len(waiting), 0) == (at.starts, at.queued, at.unknown)
        paused = {n for n, one in here.items() if one.state is ContainerState.PAUSED and n in states}
        assert set(at.paused) == {n for n in paused if states[n] is not ContainerState.PAUSED}
        killed = {n for n in before[at.node_id] if n not in here}
        assert set(at.killed) == killed
        if waiting and not killed:
            machines = (one.actor.machine for one in scene.cluster.nodes.values())
            machine = next(one for one in machines if one.node_id == at.node_id)
            known_there = machine.scheduler.statuses([one.container_id for one in waiting])
            places = [one.position for one in known_there]
            assert min(places) - 1 == at.ahead
    attempt = scene.cluster.context.applications[app_id].attempt
    assert told.waiting + told.impossible == attempt.outstanding
    assert mine + attempt.outstanding + told.later == number
