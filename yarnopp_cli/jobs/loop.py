"""The shell of a master: one ``poll`` over the RM, the nodes and signals. No asyncio, no threads.

It performs a ``JobMaster``'s commands, passes it the answers, and gives an observer its turns. It reconnects
when the master sends another call, and decides nothing itself. ``MachineRunner`` keeps the order of events,
the deadlines, and the record of a crash.
"""

from __future__ import annotations

import time
from collections import deque

from executor.runner import MachineRunner

from ..errors import ConnectionFailedError, YoppError
from ..masters import messages as m
from ..masters.jobmaster import JobMaster
from ..records.client_protocol import KillApplicationRequest
from ..records.jobs import TaskReport
from ..rpc.blocking import Connection
from .taskrecords import TaskRecords
from .watching import Observer, SignalWatch, Stops, readable

_LONGEST_WAIT = 60.0
_PROXY = "yopp -D yarn.nodemanager.distributed-scheduling.enabled=true up"
"""The command that starts a cluster whose nodes have an AMRMProxy."""


class MasterLoop:
    """Runs one master to its end. ``rm`` is the connection over which the application was submitted, or the address of
    the RM, which need not be running yet.

    ``scheduler_address`` is the address of its scheduler, "" for the RM itself. ``records`` has the records of earlier
    attempts, and gets those of this one. ``crash_dir`` and ``validate`` are as in ``MachineRunner``.
    """

    def __init__(
        self,
        master: JobMaster,
        rm: Connection | str,
        observer: Observer,
        signals: SignalWatch | None = None,
        scheduler_address: str = "",
        *,
        records: TaskRecords | None = None,
        crash_dir: str | None = None,
        validate: bool = False,
    ) -> None:
        self.rm: Connection | None = None if isinstance(rm, str) else rm
        self._rm_address = rm if isinstance(rm, str) else rm.address
        self._scheduler_address = scheduler_address
        self._scheduler: Connection | None = None
        self._observer = observer
        self._signals = signals
        self._records = records
        self._nodes: dict[str, Connection] = {}
        self._calls: dict[tuple[Connection, int], m.Call] = {}
        self._runner: MachineRunner[m.Event, m.Command] = MachineRunner(
            master, self._perform, crash_dir=crash_dir, validate=validate
        )
        self._news: deque[TaskReport | str] = deque()
        self._end: m.EndMaster | None = None
        self._stops = Stops(observer, signals)

    def run(self) -> m.EndMaster:
        """Run the master to its end. Raises Left when the user asks a second time to stop."""
        self._runner.post(m.MasterStarted(() if self._records is None else self._records.read()))
        try:
            while self._end is None:
                self._step()
            self._tell()
            return self._end
        finally:
            for connection in self._nodes.values():
                connection.close()
            if self._scheduler is not None:
                self._scheduler.close()

    def _tell(self) -> None:
        """Pass the news to the observer. An error there is not a bug of the machine."""
        while self._news:
            news = self._news.popleft()
            if isinstance(news, str):
                self._observer.notice(news)
            else:
                self._observer.task_changed(news)

    def _step(self) -> None:
        self._tell()
        wanted = self._observer.stop_wanted()
        if wanted is not None:
            self._runner.post(wanted)
        now = time.monotonic()
        times = [self._observer.tick(now), self._runner.next_deadline(), now + _LONGEST_WAIT]
        if self._end is None:
            self._wait(max(0.0, min(t for t in times if t is not None) - time.monotonic()))
            deadline = self._runner.next_deadline()
            if deadline is not None and deadline <= time.monotonic():
                self._runner.advance()

    def _wait(self, seconds: float) -> None:
        connections = [c for c in (self.rm, self._scheduler, *self._nodes.values()) if c is not None]
        if any(connection.has_answers for connection in connections):
            seconds = 0
        by_descriptor = {connection.fileno(): connection for connection in connections}
        signals = () if self._signals is None else (self._signals.fileno(),)
        for descriptor in readable((*by_descriptor, *signals), seconds):
            if descriptor in by_descriptor:
                self._receive(by_descriptor[descriptor])
            else:
                for stop in self._stops.received():
                    self._runner.post(stop)
        for connection in connections:
            if connection.has_answers:
                self._receive(connection)

    def _receive(self, connection: Connection) -> None:
        try:
            answers = connection.receive()
        except ConnectionFailedError as error:
            self._lose(connection, error)
            return
        for call_id, answer in answers:
            call = self._calls.pop((connection, call_id), None)
            if call is not None and isinstance(answer, YoppError):
                self._runner.post(m.CallFailed(call, answer))
            elif call is not None:
                self._runner.post(m.Answered(call, answer))

    def _lose(self, connection: Connection, error: YoppError) -> None:
        """Close a lost connection, and fail every call over it."""
        connection.close()
        if connection is self.rm:
            self.rm = None
        elif connection is self._scheduler:
            self._scheduler = None
        else:
            self._nodes = {address: c for address, c in self._nodes.items() if c is not connection}
        lost = [key for key in self._calls if key[0] is connection]
        for command in [self._calls.pop(key) for key in lost]:
            self._runner.post(m.CallFailed(command, error))

    def _perform(self, command: m.Command) -> None:
        match command:
            case m.TaskChanged(task, TaskReport() as report):
                if self._records is not None:
                    self._records.note(task)
                self._news.append(report)
            case m.Notice(text=text):
                self._news.append(text)
            case m.EndMaster():
                self._end = command
                self._runner.close()
            case m.CallRM() | m.CallNode():
                self._call(command)
            case _:
                raise AssertionError(f"only a hosted master returns {command}")

    def _call(self, call: m.Call) -> None:
        connection: Connection | None = None
        try:
            connection = self._connection_for(call)
            self._calls[connection, connection.send(call.request)] = call
        except YoppError as error:
            self._runner.post(m.CallFailed(call, error))
            if connection is not None and isinstance(error, ConnectionFailedError):
                self._lose(connection, error)

    def _connection_for(self, call: m.Call) -> Connection:
        if isinstance(call, m.CallNode):
            if call.node_address not in self._nodes:
                self._nodes[call.node_address] = Connection(call.node_address, peer=f"node {call.node_id}")
            return self._nodes[call.node_address]
        if self._scheduler_address and not isinstance(call.request, KillApplicationRequest):
            if self._scheduler is None:
                self._scheduler = Connection(self._scheduler_address, peer="the AMRMProxy", hint=_PROXY)
            return self._scheduler
        if self.rm is None:
            self.rm = Connection(self._rm_address)
        return self.rm
