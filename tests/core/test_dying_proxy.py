"""A job's master behind an AMRMProxy whose node dies again and again. What the master has given back, and what it has
asked to be changed, reaches the RM, although a proxy that died before it told the RM had answered the call.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from executor.records import ExecutionType, Resource
from yarnopp_cli.errors import ConnectionFailedError
from yarnopp_cli.masters import messages as m
from yarnopp_cli.masters.jobmaster import JobMaster
from yarnopp_cli.records.container_protocol import (
    FailedContainer,
    StartContainersRequest,
    StartContainersResponse,
    UpdateContainersRequest,
    UpdateContainersResponse,
)
from yarnopp_cli.records.jobs import JobSpec, PhaseSpec, TaskSpec

from .rm_harness import GUARANTEED, OPPORTUNISTIC, status
from .test_amrmproxy import World

pytestmark = pytest.mark.pure

TASKS = 12
SIZE = Resource(10, 0)


class Job:
    """A master whose containers run for ever, and are promoted when they begin. Nodes refuse some starts."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world, self.rng = world, rng
        self.refused = set[int]()
        self.running: dict[str, Any] = {}
        self.open: dict[int, m.CallRM] = {}
        self.said: list[m.Event] = []
        """What nodes have answered, and the master has not heard."""
        self.notices: list[str] = []
        kinds = [rng.choice((OPPORTUNISTIC, GUARANTEED)) for _ in range(TASKS)]
        tasks = tuple(TaskSpec(number, SIZE, kind) for number, kind in enumerate(kinds, 1))
        phase = PhaseSpec("run", tasks, ("true",), promote=True)
        self.master = JobMaster(JobSpec("job", "YARN", (phase,)), world.attempt, world.token)
        self.perform(self.master.handle(m.MasterStarted(), world.cluster.now))

    def refuses(self, container_id: str) -> bool:
        """A node refuses to start it, which happens to each task once at most."""
        number = self.master._by_container[container_id].number
        if number in self.refused or self.rng.random() < 0.5:
            return False
        self.refused.add(number)
        return True

    def tell(self, event: Any) -> None:
        self.perform(self.master.handle(event, self.world.cluster.now))
        self.master.validate()

    def perform(self, commands: list[m.Command]) -> None:
        for command in commands:
            match command:
                case m.CallRM(request):
                    self.open[self.world.send(request)] = command
                case m.CallNode(request=StartContainersRequest()):
                    refused = {one for one in command.container_ids if self.refuses(one)}
                    for name in set(command.container_ids) - refused:
                        self.running[name] = self.master._by_container[name].container
                    failed = tuple(FailedContainer(name, "InvalidToken", "no") for name in sorted(refused))
                    started = tuple(name for name in command.container_ids if name not in refused)
                    self.said.append(m.Answered(command, StartContainersResponse(started, failed)))
                case m.CallNode(request=UpdateContainersRequest()):
                    for name in command.container_ids:
                        self.running[name] = self.master._by_container[name].container
                    self.said.append(m.Answered(command, UpdateContainersResponse(command.container_ids)))
                case m.Notice(text):
                    self.notices.append(text)
                case m.EndMaster():
                    raise AssertionError(command.diagnostics)

    def hear(self) -> None:
        """The answers that have come, of nodes and of the proxy."""
        while self.said:
            self.tell(self.said.pop(0))
        while ready := [number for number in self.open if number in self.world.answers]:
            call, answer = self.open.pop(ready[0]), self.world.answers.pop(ready[0])
            failed = isinstance(answer, Exception)
            self.tell(m.CallFailed(call, answer) if failed else m.Answered(call, answer))  # type: ignore[arg-type]

    def pass_on(self, seconds: float) -> None:
        world = self.world
        world.at(world.cluster.now + seconds)
        due = self.master.next_deadline()
        if due is not None and due <= world.cluster.now:
            self.perform(self.master.advance(world.cluster.now))

    def beat(self) -> None:
        """The nodes tell what runs."""
        for node in self.world.nodes:
            here = [one for one in self.running.values() if one.node_id == node.name]
            node.beat(*(status(one) for one in here))
        self.world.deliver()

    def die(self) -> None:
        """The node of the proxy, with all that it knew; the master's connection ends."""
        world = self.world
        world.waiting.clear()
        world.answers.clear()
        for attempt in list(world.open):
            world.cluster.lose(world.open.pop(attempt))
        world.proxy = world.new_proxy()
        world.perform(
            world.proxy.nodes_changed(world.cluster.context.nodes_for_scheduling(), world.cluster.now)
        )
        world.connection += 1
        calls, self.open = list(self.open.values()), {}
        for call in calls:
            self.tell(m.CallFailed(call, ConnectionFailedError("the connection was lost")))


@pytest.mark.parametrize("seed", range(20))
def test_what_was_given_back_or_changed_is_so_whenever_the_node_dies(seed: int) -> None:
    rng = random.Random(seed)
    world = World(nodes=3, grace_ms=1_000_000)
    job = Job(world, rng)
    for _ in range(80):
        match rng.randrange(7):
            case 0 if rng.random() < 0.7:
                job.die()
            case 1:
                world.up = not world.up
                if not world.up:
                    world.cut()
            case 2 | 3:
                job.beat()
            case 4 | 5:
                job.hear()
            case _:
                job.pass_on(rng.random())
    world.up = True
    for _ in range(12):
        job.pass_on(1.5)
        job.beat()
        job.hear()
    held = set(job.master._by_container)
    assert len(held) == TASKS
    live = {one.id: one for one in world.cluster.context.live_containers.values()}
    assert set(live) == held, "the RM has no container that was given back"
    assert {one.execution_type for one in live.values()} == {ExecutionType.GUARANTEED}
    assert not [text for text in job.notices if "update of a container was refused" in text]
