"""A copy of a node's machine in virtual time: its reactions to events, and the starts of its waiting containers.

The machine decides by its own rules. Its surroundings here carry out each command at once, and let a container run for
its expected time. A question about the future therefore needs no separate rules. The copy changes nothing outside
itself; measurements do not change.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple, Protocol

from executor.core import events
from executor.core.commands import KillContainer, LaunchContainer, PauseContainer, ResumeContainer, RevokeNext
from executor.core.container import KILLING, LAUNCHING, PAUSING, RESUMING, RUNNING, Container
from executor.core.machine import earliest

MOST_STEPS = 20_000
"""The maximum number of events for a copy. A container that has not started by then has no estimate."""

Left = Callable[[Container, float], float | None]
"""The remaining seconds of a container, at a time of its machine; None for ever."""


class NodeMachine(Protocol):
    """A ContainerScheduler, or a machine that embeds one."""

    def handle(self, event: Any, now: float, /) -> list[Any]:
        """Handle an event; return commands."""

    def next_deadline(self) -> float | None:
        """The time of the next call of ``advance``."""

    def advance(self, now: float, /) -> list[Any]:
        """Perform everything that is due."""


class Started(NamedTuple):
    """A container has started or resumed at ``at``, after the first ``ended`` of the containers that end."""

    container_id: str
    at: float
    ended: int


class Foresight:
    """Runs ``machine`` from ``now`` on, with the live containers that ``find`` returns by their ids; ``left`` returns
    the remaining time of each. Commands that are not the executor's are passed to ``other``."""

    def __init__(
        self,
        machine: NodeMachine,
        find: Callable[[str], Container | None],
        live: Iterable[Container],
        now: float,
        left: Left,
        other: Callable[[Any], None] = lambda command: None,
    ) -> None:
        self.now = now
        self.started: list[Started] = []
        self.ended: list[str] = []
        self.paused: list[str] = []
        self.killed: list[str] = []
        self._machine, self._find, self._left, self._other = machine, find, left, other
        self._ends: dict[str, float] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._inbox: deque[Any] = deque()
        self._steps = 0
        self._wanted: set[str] = set()
        for one in live:
            self._take_over(one)
        self.tell()

    def _take_over(self, one: Container) -> None:
        """Complete at once all commands that are under way for this container."""
        name = one.container_id
        match one.state:
            case state if state is LAUNCHING:
                self._inbox.append(events.ContainerLaunched(name, 1, 1))
                self._run(name)
            case state if state is RESUMING:
                self._inbox.append(events.ContainerResumed(name))
                self._run(name)
            case state if state is PAUSING:
                self._inbox.append(events.ContainerPaused(name))
            case state if state is KILLING:
                self._inbox.append(events.ContainerExited(name, 143))
            case state if state is RUNNING:
                self._run(name)

    def tell(self, *told: Any) -> None:
        """Pass events to the machine, and the events that follow from its commands."""
        self._inbox.extend(told)
        while self._inbox and self._steps < MOST_STEPS:
            self._steps += 1
            self._perform(self._machine.handle(self._inbox.popleft(), self.now))

    def perform(self, commands: Iterable[Any]) -> None:
        """Carry out commands that the machine returned without an event."""
        self._perform(commands)
        self.tell()

    def run(self, wanted: Collection[str], arrives: Callable[[], Any] = lambda: None) -> None:
        """Let time pass until these containers have started, no event follows, or MOST_STEPS are made. ``arrives``
        returns the container that arrives now, None for no more."""
        self._wanted = set(wanted) - {one.container_id for one in self.started}
        while self._wanted and self._steps < MOST_STEPS:
            while (event := arrives()) is not None:
                self.tell(event)
            due, end = self._machine.next_deadline(), self._next_end()
            moment = earliest((due, end))
            if moment is None:
                return
            self.now = max(self.now, moment)
            self._steps += 1
            if end is not None and end <= self.now:
                name = heapq.heappop(self._heap)[2]
                del self._ends[name]
                self._inbox.append(events.ContainerExited(name, 0))
                self.ended.append(name)
            else:
                self._perform(self._machine.advance(self.now))
            self.tell()

    def _next_end(self) -> float | None:
        while self._heap and self._ends.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _run(self, container_id: str) -> None:
        one = self._find(container_id)
        left = None if one is None else self._left(one, self.now)
        if left is not None:
            self._ends[container_id] = end = self.now + left
            heapq.heappush(self._heap, (end, self._steps, container_id))

    def _perform(self, commands: Iterable[Any]) -> None:
        for command in commands:
            match command:
                case LaunchContainer(spec):
                    self._begin(events.ContainerLaunched(spec.container_id, 1, 1))
                case ResumeContainer(name):
                    self._begin(events.ContainerResumed(name))
                case PauseContainer(name):
                    self.paused.append(name)
                    self._ends.pop(name, None)
                    self._inbox.append(events.ContainerPaused(name))
                case KillContainer(name) | RevokeNext(name, True):
                    self.killed.append(name)
                    self._ends.pop(name, None)
                    self._inbox.append(events.ContainerExited(name, 143))
                case _:
                    self._other(command)

    def _begin(self, event: events.ContainerLaunched | events.ContainerResumed) -> None:
        self.started.append(Started(event.container_id, self.now, len(self.ended)))
        self._wanted.discard(event.container_id)
        self._run(event.container_id)
        self._inbox.append(event)
