"""A cluster in virtual time whose wire is bad: calls and answers are late, and connections are cut with some of them on
the way; one end learns of it long before the other, or after it.

``bench.world`` has the machines that the daemons run and the time; here is what lies between them. What goes over one
connection keeps its order, as on a socket. Calls of an older connection may arrive after those of a newer one, and a
call that was lost with its connection is made again, although it may have been taken.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

from bench.world import Actor, Cluster, Node, World
from executor.core import commands as ec
from executor.core import events as ee
from executor.light import Record
from executor.records import Resource
from executor.settings import ExecutorSettings
from yarnopp_cli.errors import ConnectionFailedError
from yarnopp_cli.machine.calls import CallReceived, ConnectionLost
from yarnopp_cli.masters import messages as m
from yarnopp_cli.masters.commands import NUMBER_VARIABLE, plan_run
from yarnopp_cli.masters.jobmaster import JobMaster
from yarnopp_cli.nodemanager import events as ne
from yarnopp_cli.records.job_protocol import SubmitApplicationRequest, SubmitJobRequest
from yarnopp_cli.records.jobs import JobSpec, TaskSpec
from yarnopp_cli.records.requests import ApplicationSubmissionContext
from yarnopp_cli.settings.declarations import ResourceManagerSettings

Answered = Callable[[Any, Any], None]
Task = tuple[str, int]
"""An application and a number."""


class Faults(Record, kw_only=True):
    """``late`` seconds at most for a message; ``cuts`` seconds pass between two cuts of a connection, 0 for none;
    ``half_open`` seconds at most pass before an end learns of it."""

    late: float = 0.05
    cuts: float = 0.0
    half_open: float = 0.0


class Wire:
    """One connection to ``target``; ``lost`` is called when the end that made it learns that it has ended."""

    def __init__(self, cluster: BadCluster, target: Actor, lost: Callable[[], None]) -> None:
        self.number = next(cluster.connections)
        self.cut = False
        self._cluster = cluster
        self._target = target
        self._tell_lost = lost
        self._ended: set[str] = set()
        """Of "calls", "answers", "caller" and "target": what arrives no more, which end knows it."""
        self._arrives = {"calls": 0.0, "answers": 0.0}
        cluster.wires.append(self)

    def call(self, request: Any, answered: Answered) -> None:
        """The one end sends a call; ``answered`` is told the response and the error, of which one is None."""

        def back(response: Any, error: Any) -> None:
            self._send("answers", lambda: answered(response, error))

        def arrive() -> None:
            call = CallReceived(self._cluster.expect(back), self.number, request, 1000, "ada")
            self._target.tell(call)

        self._send("calls", arrive)

    def _send(self, way: str, what: Callable[[], None]) -> None:
        world = self._cluster.world
        reader = "target" if way == "calls" else "caller"

        def arrive() -> None:
            # Of what was on its way when it was cut, some had arrived, and all that came after it is lost.
            if self.cut and world.random.random() < 0.5:
                self._ended.add(way)
            if not self._ended & {way, reader}:
                what()

        self._arrives[way] = max(self._arrives[way], world.now + self._cluster.late())
        world.at(self._arrives[way], arrive)

    def cut_off(self) -> None:
        """Nothing more is sent; each end learns of it at its own time."""
        self.cut = True
        cluster, world = self._cluster, self._cluster.world
        cluster.wires.remove(self)
        cluster.cuts += 1

        def caller_learns() -> None:
            self._ended.add("caller")
            self._tell_lost()

        def target_learns() -> None:
            self._ended.add("target")
            self._target.tell(ConnectionLost(self.number))

        for learns in (caller_learns, target_learns):
            world.at(world.now + world.random.uniform(0, cluster.faults.half_open), learns)


class BadNode(Node):
    """A node behind such wires. It knows which task each container has, and tells how it ended."""

    def __init__(self, cluster: BadCluster, number: int, size: Resource, settings: ExecutorSettings) -> None:
        self.wire: Wire | None = None
        self.tasks: dict[str, Task] = {}
        self._bad = cluster
        super().__init__(cluster, number, size, settings)

    def _perform(self, command: Any) -> None:
        match command:
            case ec.LaunchContainer(spec=spec):
                task = (spec.application_id, int(spec.environment[NUMBER_VARIABLE]))
                self.tasks[spec.container_id] = task
                self._bad.begun(task)
            case ne.ConnectUpstream():
                self._world.at(self._world.now + self._bad.late(), self._connected)
                return
            case ne.CallUpstream():
                self._call_rm(command)
                return
        super()._perform(command)

    def _connected(self) -> None:
        self.wire = wire = Wire(self._bad, self._bad.rm, lambda: self._lose(wire))
        self.actor.tell(ne.UpstreamConnected())

    def _lose(self, wire: Wire) -> None:
        if self.wire is wire:
            self.wire = None
            self.actor.tell(ne.UpstreamLost("", "cut"))

    def _call_rm(self, command: ne.CallUpstream) -> None:
        if (wire := self.wire) is None:
            return

        def answered(response: Any, error: Any) -> None:
            if self.wire is wire:
                done = ne.UpstreamAnswered(command, response)
                self.actor.tell(done if error is None else ne.UpstreamRefused(command, error))

        wire.call(command.request, answered)

    def _exit(self, container_id: str, end: float, code: int) -> None:
        if self._ends.get(container_id) == end and code == 0:
            self._bad.ended_well(self.tasks[container_id])
        super()._exit(container_id, end, code)

    @property
    def has_processes(self) -> bool:
        """Whether something runs here, or is paused."""
        return bool(self._ends or self._left)


class BadCluster(Cluster):
    """One RM, and nodes and masters behind bad wires. It counts what became of each task."""

    def __init__(self, faults: Faults, settings: ResourceManagerSettings, *, seed: int) -> None:
        world = World(seed=seed)
        super().__init__(world, settings, seconds=lambda: world.random.uniform(0.01, 0.5))
        self.faults = faults
        self.wires: list[Wire] = []
        self.cuts = 0
        self.began: Counter[Task] = Counter()
        self.well: Counter[Task] = Counter()
        self.jobs: dict[str, int] = {}
        """How many tasks each has."""
        self.ends: dict[str, m.EndMaster] = {}
        """Of the masters in clients."""
        self._submitted = 0
        self._expected: dict[int, Answered] = {}
        self._numbers = itertools.count(1 << 40)
        self._next_cut()

    def late(self) -> float:
        """How long the next message takes: mostly a little."""
        return self.world.delay + self.world.random.random() ** 3 * self.faults.late

    def _next_cut(self) -> None:
        if self.faults.cuts:
            pause = self.world.random.expovariate(1 / self.faults.cuts)
            self.world.at(self.world.now + pause, self._cut)

    def _cut(self) -> None:
        if self.wires and self.faults.cuts:
            self.world.random.choice(self.wires).cut_off()
        self._next_cut()

    def expect(self, answered: Answered) -> int:
        """The number of a call whose answer goes there."""
        number = next(self._numbers)
        self._expected[number] = answered
        return number

    def answer(self, number: int, response: Any, error: Any) -> None:
        """Send the answer of a call back."""
        if (expected := self._expected.pop(number, None)) is not None:
            expected(response, error)
        else:
            super().answer(number, response, error)

    def begun(self, task: Task) -> None:
        """A container of that task begins."""
        assert not self.well[task], f"{task} runs again although it had ended well"
        self.began[task] += 1

    def ended_well(self, task: Task) -> None:
        """A container of that task has ended with 0."""
        self.well[task] += 1
        assert self.well[task] == 1, f"{task} has ended well twice"

    # -- nodes and jobs

    def add_bad_nodes(self, number: int, size: Resource, settings: ExecutorSettings) -> None:
        """So many nodes."""
        for index in range(number):
            node = BadNode(self, index, size, settings)
            self.nodes[node.address] = node
            node.actor.tell(ee.RecoveryCompleted())

    def submit_job(self, tasks: int, task: TaskSpec, *, hosted: bool = True) -> None:
        """A job whose master lives in the RM, or in a client."""
        spec = plan_run(("true",), task, tasks, max_preemptions=1_000_000)
        self._submitted += 1

        def submitted(response: Any, error: Any) -> None:
            assert error is None, error
            self.jobs[response.application_id] = tasks
            if not hosted:
                BadClient(self, spec, response)

        context = ApplicationSubmissionContext("", "job", unmanaged=not hosted)
        request = SubmitJobRequest(context, spec, False) if hosted else SubmitApplicationRequest(context)
        self.call(self.rm, next(self.connections), request, submitted)

    @property
    def goes_on(self) -> bool:
        """Whether a job has not ended."""
        known = self.context.applications
        return len(self.jobs) < self._submitted or any(not known[one].ended for one in self.jobs)

    def run(self, seconds: float) -> None:
        """Until all jobs have ended, for so many virtual seconds at most; then no more faults, and time to settle."""
        limit = self.world.now + seconds
        while self.goes_on and self.world.now < limit:
            self.world.step()
        self.faults = Faults(late=0.0)
        limit = self.world.now + 30
        while self.world.now < limit and self.world.step():
            pass

    def problems(self) -> list[str]:
        """What is not as it is to be."""
        found = [f"{one} goes on" for one in self.jobs if not self.context.applications[one].ended]
        for application_id, tasks in self.jobs.items():
            status = self.context.applications[application_id].final_status.value
            found += [f"{application_id} is {status}"] if status != "SUCCEEDED" else []
            lost = [number for number in range(1, tasks + 1) if not self.well[application_id, number]]
            found += [f"tasks {lost} of {application_id} are lost"] if lost else []
        for node in self.nodes.values():
            assert isinstance(node, BadNode)
            found += [f"processes are left at {node.address}"] if node.has_processes else []
        for machine in self.machines():
            machine.validate()
        return found


class BadClient:
    """A master in a client, which makes a new connection when it needs one."""

    def __init__(self, cluster: BadCluster, spec: JobSpec, submitted: Any) -> None:
        self._cluster = cluster
        self._id = submitted.application_id
        self._wires: dict[str, Wire] = {}
        self._open: dict[Wire, list[Any]] = {}
        master = JobMaster(spec, submitted.attempt_id, submitted.am_token)
        self.actor = Actor(cluster.world, master, self._perform, cluster.meters["master"])
        self.actor.tell(m.MasterStarted())

    def _perform(self, command: Any) -> None:
        if isinstance(command, m.EndMaster):
            self._cluster.ends[self._id] = command
        if not isinstance(command, m.CallRM | m.CallNode):
            return
        address = "" if isinstance(command, m.CallRM) else command.node_address
        if (wire := self._wires.get(address)) is None:
            target = self._cluster.nodes[address].actor if address else self._cluster.rm
            wire = self._wires[address] = Wire(self._cluster, target, lambda: self._lose(address))
            self._open[wire] = []
        wire_open = self._open[wire]
        wire_open.append(command)

        def answered(response: Any, error: Any) -> None:
            if command in wire_open:
                wire_open.remove(command)
                done = m.Answered(command, response)
                self.actor.tell(done if error is None else m.CallFailed(command, error))

        wire.call(command.request, answered)

    def _lose(self, address: str) -> None:
        wire = self._wires.pop(address)
        for command in self._open.pop(wire):
            self.actor.tell(m.CallFailed(command, ConnectionFailedError("the connection was lost")))
