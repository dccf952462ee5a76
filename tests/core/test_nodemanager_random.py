"""A node in a random world: callers, an RM that answers, forgets and goes away, containers that do what they
like.

Everything is validated after each step; at the end the world becomes calm, and all that arrived has ended,
was told to the RM, and is forgotten.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from executor.core import commands as do
from executor.core import events as happened
from executor.records import ContainerState, ContainerUsage, ExecutionType, Resource
from executor.settings import ExecutorSettings
from yarnopp_cli.machine import tokens
from yarnopp_cli.machine.calls import CallReceived, ConnectionLost, Reply, ReplyError, StopDaemon
from yarnopp_cli.nodemanager.events import (
    AnnounceReady,
    CallUpstream,
    ConnectUpstream,
    NodeStopRequested,
)
from yarnopp_cli.nodemanager.machine import NodeManager
from yarnopp_cli.records.container_protocol import (
    GetNodeInfoRequest,
    StartContainerRequest,
    StartContainersRequest,
    StopContainersRequest,
    UpdateContainersRequest,
)
from yarnopp_cli.records.requests import ContainerLaunchContext, Token
from yarnopp_cli.records.tracker_protocol import (
    NodeHeartbeatRequest,
    NodeHeartbeatResponse,
    RegisterNodeManagerRequest,
    RegisterNodeManagerResponse,
    UnRegisterNodeManagerRequest,
)
from yarnopp_cli.settings.declarations import NodeManagerSettings

from .node_harness import CONNECTED, UNREGISTERED, answered, lost

KEY = b"k"
NODE = "host1:45454"
DONE = ContainerState.DONE
numbers = st.integers(1, 30)


def cid(number: int) -> str:
    return f"container_1_{number % 3 + 1:04d}_01_{number:06d}"


def app(number: int) -> str:
    return f"application_1_{number % 3 + 1:04d}"


def token(number: int, execution_type: ExecutionType, memory: int, version: int = 0) -> Token:
    payload = {
        "container_id": cid(number),
        "node_id": NODE,
        "application_id": app(number),
        "memory": memory,
        "vcores": 1,
        "execution_type": execution_type.value,
        "version": version,
    }
    return tokens.sign(KEY, tokens.CONTAINER_TOKEN, payload)


class NodeInARandomWorld(RuleBasedStateMachine):
    """The world keeps what it was asked to do and has not done, and does it in an order of its own."""

    @initialize(pause=st.booleans(), periodic=st.booleans(), gap_ms=st.sampled_from((0, 4, 300)))
    def begin(self, pause: bool, periodic: bool, gap_ms: int) -> None:
        self.now = 100.0
        self.machine = NodeManager(
            NODE,
            "unix:/nm.sock",
            Resource(2048, 2),
            ExecutorSettings(max_queue_length=4, use_pause_for_preemption=pause),
            NodeManagerSettings(
                heartbeat_mode="periodic" if periodic else "event-driven", heartbeat_gap_ms=gap_ms
            ),
            physical_cores=2,
            log_dir="/logs",
        )
        self.processes: dict[str, str] = {}  # container -> starting, running, stopping, stopped, dying
        self.connected = self.connecting = self.registering = self.unregistering = False
        self.beats: list[CallUpstream] = []
        self.gap = 0.0 if periodic else gap_ms / 1000
        self.beaten_at = 0.0
        self.ends = False
        self.unheard: set[str] = set()
        self.arrived: set[str] = set()
        self.forgotten: set[str] = set()
        self.calls: set[int] = set()
        self.answer: Any = None
        self.next_call = 1
        self.ready = 0
        self.stopped = False
        self.tell(happened.RecoveryCompleted())

    # -- the world obeys -------------------------------------------------------------------------------------

    def tell(self, event: Any) -> None:
        self.take(self.machine.handle(event, self.now))

    def take(self, commands: list[Any]) -> None:
        for command in commands:
            assert not self.stopped, command
            self.obey(command)
        self.machine.validate()

    def obey(self, command: Any) -> None:
        match command:
            case do.LaunchContainer(spec=spec):
                assert self.processes.setdefault(spec.container_id, "starting") == "starting"
            case do.PauseContainer(container_id):
                self.processes[container_id] = "stopping"
            case do.ResumeContainer(container_id):
                self.processes[container_id] = "resuming"
            case do.KillContainer(container_id):
                if self.processes.get(container_id) != "starting":
                    self.processes[container_id] = "dying"
            case do.ForgetContainer(container_id):
                assert container_id not in self.processes
                self.forgotten.add(container_id)
            case ConnectUpstream():
                assert not self.connected
                self.connecting = True
            case CallUpstream(request=RegisterNodeManagerRequest()):
                assert self.connected
                self.registering = True
                self.beats.clear()
                self.hear(command.request.containers)
            case CallUpstream(request=NodeHeartbeatRequest()):
                assert self.connected
                queues = self.machine.scheduler.queue_length > 0 and not self.ends
                assert not queues or self.now >= self.beaten_at + self.gap, "too soon after the last one"
                self.beaten_at = self.now
                self.beats.append(command)
                self.hear(command.request.containers)
            case CallUpstream(request=UnRegisterNodeManagerRequest()):
                self.unregistering = True
            case AnnounceReady():
                self.ready += 1
                assert self.ready == 1
            case Reply() | ReplyError():
                self.calls.remove(command.call_id)
                self.answer = command
            case StopDaemon():
                self.stopped = True

    def hear(self, statuses: Any) -> None:
        self.unheard |= {status.container_id for status in statuses if status.state is DONE}

    def call(self, request: Any) -> None:
        self.calls.add(self.next_call)
        self.next_call += 1
        self.tell(CallReceived(self.next_call - 1, 1, request))

    # -- what may happen -------------------------------------------------------------------------------------

    @rule(
        number=numbers,
        execution_type=st.sampled_from(ExecutionType),
        memory=st.sampled_from((128, 512, 1024, 4096)),
    )
    def start(self, number: int, execution_type: ExecutionType, memory: int) -> None:
        context = ContainerLaunchContext(("x",))
        request = StartContainerRequest(token(number, execution_type, memory), context)
        self.call(StartContainersRequest((request,)))

    @rule(number=numbers)
    def stop(self, number: int) -> None:
        self.call(StopContainersRequest((cid(number),)))

    @rule(number=numbers, execution_type=st.sampled_from(ExecutionType), version=st.integers(0, 3))
    def update(self, number: int, execution_type: ExecutionType, version: int) -> None:
        self.call(UpdateContainersRequest((token(number, execution_type, 512, version),)))

    @rule()
    def caller_goes(self) -> None:
        before = self.calls
        self.tell(ConnectionLost(1))
        before.clear()

    @rule(data=st.data(), code=st.sampled_from((0, 1, None)))
    def process_does_something(self, data: st.DataObject, code: int | None) -> None:
        if self.processes:
            container_id = data.draw(st.sampled_from(sorted(self.processes)))
            self.move(container_id, data.draw(st.booleans()), code)

    def move(self, container_id: str, well: bool, code: int | None) -> None:
        """What was asked of a process comes to pass, or it fails, or it ends."""
        state = self.processes[container_id]
        if state == "starting":
            if well:
                self.processes[container_id] = "running"
                self.tell(happened.ContainerLaunched(container_id, 1, 1))
            else:
                del self.processes[container_id]
                self.tell(happened.ContainerLaunchFailed(container_id, "no"))
        elif state == "stopping" and well:
            self.processes[container_id] = "stopped"
            self.tell(happened.ContainerPaused(container_id))
        elif state == "resuming" and well:
            self.processes[container_id] = "running"
            self.tell(happened.ContainerResumed(container_id))
        else:
            del self.processes[container_id]
            self.tell(happened.ContainerExited(container_id, code))

    @rule()
    def measured(self) -> None:
        usage = {one: ContainerUsage(self.now, 5, sampled_at=self.now) for one in self.processes}
        self.tell(happened.UsageSampled(usage))

    @rule(well=st.booleans())
    def connection_comes_or_not(self, well: bool) -> None:
        if self.connecting:
            self.connecting, self.connected = False, well
            self.tell(CONNECTED if well else lost("refused"))

    @rule()
    def connection_breaks(self) -> None:
        if self.connected:
            self.connected = self.registering = False
            self.beats.clear()
            unregistering, self.unregistering = self.unregistering, False
            self.tell(lost("closed"))
            assert self.stopped or not unregistering

    @rule(cleanup=st.lists(numbers, max_size=2))
    def registered(self, cleanup: list[int]) -> None:
        if self.registering:
            self.registering = False
            ids = tuple(cid(number) for number in cleanup)
            response = RegisterNodeManagerResponse("NORMAL", 1, KEY.hex(), "s", containers_to_cleanup=ids)
            self.tell(answered(response))

    @rule(
        action=st.sampled_from(("NORMAL",) * 9 + ("RESYNC",)),
        acknowledge=st.booleans(),
        cleanup=st.lists(numbers, max_size=1),
        ended=st.lists(st.just(1), max_size=1),
    )
    def heartbeat_answered(
        self, action: str, acknowledge: bool, cleanup: list[int], ended: list[int]
    ) -> None:
        if self.beats:
            beat = self.beats.pop(0)
            heard = [one.container_id for one in beat.request.containers if one.state is DONE]
            response = NodeHeartbeatResponse(
                beat.sequence,
                action,
                containers_to_cleanup=tuple(cid(number) for number in cleanup),
                applications_to_cleanup=tuple(app(number) for number in ended),
                completed_acknowledged=tuple(heard) if acknowledge else (),
            )
            self.tell(answered(response, beat.sequence))

    @rule(seconds=st.sampled_from((0.001, 0.1, 1.0, 5.0)))
    def time_passes(self, seconds: float) -> None:
        # A node that never reached its RM gives up after a while; that has a test of its own.
        self.until(self.now + (seconds if self.ready else min(seconds, 0.1)))

    def until(self, at: float) -> None:
        while (due := self.machine.next_deadline()) is not None and due <= at:
            self.now = max(due, self.now)
            self.take(self.machine.advance(self.now))
        self.now = at

    @invariant()
    def what_lives_is_known(self) -> None:
        if hasattr(self, "machine"):
            self.arrived |= {status.container_id for status in self.machine.scheduler.statuses()}
            assert self.processes.keys() <= self.arrived

    # -- the world becomes calm ------------------------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "machine"):
            return
        self.calm_down()
        assert self.ready == 1
        assert not self.calls
        statuses = self.machine.scheduler.statuses()
        assert not self.processes
        assert {status.state for status in statuses} <= {DONE}
        ended = {status.container_id for status in statuses}
        assert ended >= self.arrived  # what was held arrives when the node has registered
        assert ended <= self.unheard
        assert ended <= self.forgotten
        self.ends = True
        self.tell(NodeStopRequested("enough"))
        assert self.unregistering
        self.tell(UNREGISTERED)
        assert self.stopped
        assert self.machine.next_deadline() is None

    def calm_down(self) -> None:
        """Everything that was asked comes to pass, and every process ends, until nothing is left to do."""
        for _ in range(400):
            for container_id in sorted(self.processes):
                if container_id in self.processes and self.processes[container_id] != "stopped":
                    self.move(container_id, True, 0)
            if self.connecting:
                self.connection_comes_or_not(True)
            if self.registering:
                self.registered([])
            while len(self.beats) > 1:
                self.heartbeat_answered("NORMAL", True, [], [])
            self.until(self.now + 0.5)
            if self.beats:
                self.heartbeat_answered("NORMAL", True, [], [])
            self.call(GetNodeInfoRequest())
            registered = self.answer.response.rm_connected
            if not self.processes and not self.machine.has_containers and registered:
                return
        raise AssertionError("it never comes to rest")


NodeInARandomWorld.TestCase.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)
TestNodeInARandomWorld = NodeInARandomWorld.TestCase
