"""A cluster in virtual time: the machines that the daemons run, and a heap of future events, without any I/O.

Messages travel as objects and arrive ``delay`` seconds later; a process is represented by the time at which it ends.
``World`` knows time and order, ``Actor`` drives one machine, ``Cluster`` connects a ResourceManager, NodeManagers
and masters as their daemons do. What a machine costs is measured around its calls alone (``Meter``).
"""

from __future__ import annotations

import heapq
import itertools
import os
import pickle
import random
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from executor.core import commands as ec
from executor.core import events as ee
from executor.records import Resource
from executor.settings import ExecutorSettings
from yarnopp_cli.machine.calls import CallReceived, Reply, ReplyError
from yarnopp_cli.masters import messages as m
from yarnopp_cli.masters.commands import plan_run
from yarnopp_cli.masters.jobmaster import JobMaster
from yarnopp_cli.nodemanager import events as ne
from yarnopp_cli.nodemanager.machine import NodeManager
from yarnopp_cli.nodemanager.reports import NodeDescription
from yarnopp_cli.records.job_protocol import SubmitApplicationRequest
from yarnopp_cli.records.jobs import TaskSpec
from yarnopp_cli.records.requests import ApplicationSubmissionContext
from yarnopp_cli.resourcemanager.commands import JobPlaced, PlaceByCopy
from yarnopp_cli.resourcemanager.context import Identity, RMContext
from yarnopp_cli.resourcemanager.machine import ResourceManager
from yarnopp_cli.settings.declarations import NodeManagerSettings, ResourceManagerSettings
from yarnopp_cli.whatif import cluster as cluster_copies
from yarnopp_cli.whatif import node as node_copies

TIMESTAMP = 1_765_400_000_000
"""When the cluster starts, in epoch milliseconds: the virtual time 0."""
IDENTITY = Identity(
    cluster_timestamp=TIMESTAMP,
    wall_offset=TIMESTAMP / 1000,
    run_dir="/run/yopp",
    address="unix:/run/yopp/rm.sock",
    log_dir="/var/lib/yopp/logs",
    pid=77,
    version="0.1.0",
    properties={},
)
"""The identity of an RM without a daemon, here and in the tests."""

_clock = time.process_time_ns


def reading_ns(number: int = 20_000) -> float:
    """What one reading of the CPU clock costs, in nanoseconds."""
    began = _clock()
    for _ in range(number):
        _clock()
    return (_clock() - began) / number


def in_copy(work: Callable[[], Any]) -> Any:
    """What ``work`` returns in a copy of this process, as a daemon makes one. Raises EOFError if it fails there."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            with os.fdopen(writer, "wb") as pipe:
                pickle.dump(work(), pipe)
        finally:
            os._exit(0)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as pipe:
            return pickle.load(pipe)
    finally:
        os.waitpid(pid, 0)


class Meter:
    """The CPU time, in nanoseconds, and the number of calls of all machines of one kind."""

    def __init__(self) -> None:
        self.ns = 0
        self.calls = 0

    def reset(self) -> None:
        """Set both to zero."""
        self.ns = self.calls = 0


class World:
    """Virtual time in seconds, and the events to come. Events at the same time keep the order in which they
    were set."""

    def __init__(self, *, delay: float = 0.0005, seed: int = 1) -> None:
        self.now = 0.0
        self.delay = delay
        self.random = random.Random(seed)
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = itertools.count()

    def at(self, moment: float, what: Callable[..., None], *arguments: Any) -> None:
        """Call ``what`` at ``moment``."""
        heapq.heappush(self._heap, (moment, next(self._order), what, arguments))

    def send(self, what: Callable[..., None], *arguments: Any) -> None:
        """Deliver a message after ``delay``."""
        self.at(self.now + self.delay, what, *arguments)

    def step(self) -> bool:
        """Run the next event; False if there is none."""
        if not self._heap:
            return False
        self.now, _, what, arguments = heapq.heappop(self._heap)
        what(*arguments)
        return True


class Actor:
    """Drives one machine: passes it events, performs its commands, and wakes it at its deadlines."""

    def __init__(self, world: World, machine: Any, perform: Callable[[Any], None], meter: Meter) -> None:
        self._world = world
        self.machine = machine
        self._perform = perform
        self._meter = meter
        self._inbox: deque[Any] = deque()
        self._busy = False
        self._wakes_at: float | None = None

    def tell(self, event: Any) -> None:
        """Pass an event to the machine. Events that its commands cause at once wait until all commands have
        been performed."""
        self._inbox.append(event)
        if self._busy:
            return
        self._busy = True
        while self._inbox:
            event = self._inbox.popleft()
            began = _clock()
            commands = self.machine.handle(event, self._world.now)
            self._meter.ns += _clock() - began
            self._meter.calls += 1
            for command in commands:
                self._perform(command)
        self._busy = False
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Set one alarm at a time: an alarm that fires too early is set again, as in the daemons' driver."""
        began = _clock()
        due = self.machine.next_deadline()
        self._meter.ns += _clock() - began
        if due is not None and (self._wakes_at is None or due < self._wakes_at):
            self._wakes_at = max(due, self._world.now)
            self._world.at(self._wakes_at, self._wake, self._wakes_at)

    def _wake(self, alarm: float) -> None:
        if alarm != self._wakes_at:
            return
        self._wakes_at = None
        due = self.machine.next_deadline()
        if due is not None and due <= self._world.now:
            began = _clock()
            commands = self.machine.advance(self._world.now)
            self._meter.ns += _clock() - began
            self._meter.calls += 1
            self._busy = True
            for command in commands:
                self._perform(command)
            self._busy = False
            if self._inbox:
                self.tell(self._inbox.popleft())
                return
        self._set_alarm()


class Node:
    """One NodeManager and the processes on its host."""

    def __init__(self, cluster: Cluster, number: int, size: Resource, settings: ExecutorSettings) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._connection = next(cluster.connections)
        self._number, self._size, self._settings = number, size, settings
        self.address = f"unix:/run/x/nm-{number}.sock"
        #: when each process ends, and the time left to each stopped process
        self._ends: dict[str, float] = {}
        self._left: dict[str, float] = {}
        self.actor = self._live(1000 + number)

    def _live(self, pid: int) -> Actor:
        """A life of the NodeManager."""
        machine = NodeManager(
            f"h{self._number}:45454",
            self.address,
            self._size,
            self._settings,
            self._cluster.node_settings,
            physical_cores=max(1, self._size.vcores),
            wall_offset=TIMESTAMP / 1000,
            log_dir="/var/log/x",
            facts=NodeDescription(pid=pid),
        )
        return Actor(self._world, machine, self._perform, self._cluster.meters["nm"])

    def _perform(self, command: Any) -> None:
        kind = type(command)
        if (act := _ACTS.get(kind)) is not None:
            act(self, command)

    def _launch(self, command: ec.LaunchContainer) -> None:
        container_id = command.spec.container_id
        self._cluster.launched += 1
        self.actor.tell(ee.ContainerLaunched(container_id, self._cluster.launched + 1000, 1))
        self._run(container_id, self._cluster.seconds())

    def _run(self, container_id: str, seconds: float) -> None:
        self._ends[container_id] = end = self._world.now + seconds
        self._world.at(end, self._exit, container_id, end, 0)

    def _exit(self, container_id: str, end: float, code: int) -> None:
        if self._ends.get(container_id) == end:
            del self._ends[container_id]
            self._cluster.exited += 1
            self.actor.tell(ee.ContainerExited(container_id, code))

    def _kill(self, command: ec.KillContainer) -> None:
        self._left.pop(command.container_id, None)
        self._ends[command.container_id] = self._world.now
        self._world.at(self._world.now, self._exit, command.container_id, self._world.now, 143)

    def _revoke(self, command: ec.RevokeNext) -> None:
        if command.ends:
            self.actor.tell(ee.ContainerExited(command.container_id, None))

    def _pause(self, command: ec.PauseContainer) -> None:
        end = self._ends.pop(command.container_id, None)
        if end is not None:
            self._left[command.container_id] = end - self._world.now
            self.actor.tell(ee.ContainerPaused(command.container_id))

    def _resume(self, command: ec.ResumeContainer) -> None:
        left = self._left.pop(command.container_id, None)
        if left is not None:
            self.actor.tell(ee.ContainerResumed(command.container_id))
            self._run(command.container_id, left)

    def _answer_by_copy(self, command: ne.AnswerByCopy) -> None:
        machine, now = self.actor.machine, self._world.now
        found = in_copy(lambda: node_copies.foresee(machine, command.question, now))
        self._world.send(self.actor.tell, ne.CopyAnswered(found))

    def _connect(self, command: ne.ConnectUpstream) -> None:
        self.actor.tell(ne.UpstreamConnected())

    def _call(self, command: ne.CallUpstream) -> None:
        def answered(response: Any, error: Any) -> None:
            if error is None:
                self.actor.tell(ne.UpstreamAnswered(command, response))
            else:
                self.actor.tell(ne.UpstreamRefused(command, error))

        self._cluster.call(self._cluster.rm, self._connection, command.request, answered)


_ACTS: dict[type, Callable[[Node, Any], None]] = {
    ec.LaunchContainer: Node._launch,
    ec.KillContainer: Node._kill,
    ec.RevokeNext: Node._revoke,
    ec.PauseContainer: Node._pause,
    ec.ResumeContainer: Node._resume,
    ne.AnswerByCopy: Node._answer_by_copy,
    ne.ConnectUpstream: Node._connect,
    ne.CallUpstream: Node._call,
    Reply: lambda node, command: node._cluster.answer(command.call_id, command.response, None),
    ReplyError: lambda node, command: node._cluster.answer(command.call_id, None, command.error),
}


class Cluster:
    """One ResourceManager, its nodes, and jobs whose masters run beside it, as those of a client do."""

    def __init__(
        self,
        world: World,
        settings: ResourceManagerSettings,
        *,
        seconds: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self.world = world
        self.seconds = seconds
        self.meters = {name: Meter() for name in ("rm", "nm", "master")}
        self.connections = itertools.count(1)
        self.node_settings = NodeManagerSettings()
        self.nodes: dict[str, Node] = {}
        self.launched = self.exited = self.jobs_ended = 0
        self._call_ids = itertools.count(1)
        self._answers: dict[int, Callable[[Any, Any], None]] = {}
        self.context = RMContext(
            settings,
            IDENTITY,
            rng=world.random,
            secret=b"a secret",
            lifetime="stay",
            heartbeat_wait=True,
        )
        self.rm = Actor(world, ResourceManager(self.context), self._on_rm, self.meters["rm"])

    # -- calls and answers

    def call(
        self,
        target: Actor,
        connection: int,
        request: Any,
        answered: Callable[[Any, Any], None],
        user: str = "ada",
    ) -> None:
        """Make a call; ``answered`` is called with the response and the error, of which one is None."""
        number = next(self._call_ids)
        self._answers[number] = answered
        self.world.send(target.tell, CallReceived(number, connection, request, 1000, user))

    def answer(self, number: int, response: Any, error: Any) -> None:
        """Send the answer of a call back."""
        self.world.send(self._answers.pop(number), response, error)

    def _on_rm(self, command: Any) -> None:
        if isinstance(command, Reply):
            self.answer(command.call_id, command.response, None)
        elif isinstance(command, ReplyError):
            self.answer(command.call_id, None, command.error)
        elif isinstance(command, PlaceByCopy):
            machine, call, now = self.rm.machine, command.call, self.world.now
            found = in_copy(lambda: cluster_copies.place(machine, call, now))
            self.world.send(self.rm.tell, JobPlaced(call, found))

    # -- nodes and jobs

    def add_nodes(self, number: int, size: Resource, settings: ExecutorSettings) -> None:
        """Start ``number`` nodes, each a moment after the one before, and run until all have registered."""
        for index in range(number):
            node = Node(self, len(self.nodes), size, settings)
            self.nodes[node.address] = node
            self.world.at(index / number, node.actor.tell, ee.RecoveryCompleted())
        while len(self.context.scheduler.nodes) < number or self.world.now < 2.0:
            self.world.step()

    def submit(self, tasks: int, task: TaskSpec, user: str = "ada") -> None:
        """Submit a job of equal tasks."""
        connection = next(self.connections)
        job = plan_run(("true",), task, tasks, max_preemptions=1_000_000)
        context = ApplicationSubmissionContext(application_id="", name="job", unmanaged=True)

        def submitted(response: Any, error: Any) -> None:
            assert error is None, error
            master = JobMaster(job, response.attempt_id, response.am_token)
            self._start(master, connection, user)

        self.call(self.rm, connection, SubmitApplicationRequest(context), submitted, user)

    def _start(self, master: JobMaster, connection: int, user: str) -> None:
        def perform(command: Any) -> None:
            if isinstance(command, m.CallRM | m.CallNode):

                def answered(response: Any, error: Any) -> None:
                    event = m.Answered(command, response) if error is None else m.CallFailed(command, error)
                    actor.tell(event)

                target = self.rm if isinstance(command, m.CallRM) else self.nodes[command.node_address].actor
                self.call(target, connection, command.request, answered, user)
            elif isinstance(command, m.EndMaster):
                assert command.exit_code == 0, command
                self.jobs_ended += 1

        actor = Actor(self.world, master, perform, self.meters["master"])
        actor.tell(m.MasterStarted())

    def machines(self) -> Iterable[Any]:
        """The machines of the RM and of all nodes."""
        yield self.rm.machine
        for node in self.nodes.values():
            yield node.actor.machine
