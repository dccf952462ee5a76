"""What surrounds a ContainerScheduler in these tests: it takes commands, and answers when told to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from executor.core.commands import (
    Command,
    KillContainer,
    LaunchContainer,
    LaunchNext,
    PauseContainer,
    ReportStatus,
    ResumeContainer,
    RevokeNext,
    SetNodeWeight,
    StoreContainer,
    WatchHost,
)
from executor.core.events import (
    ContainerExited,
    ContainerKillRequested,
    ContainerLaunched,
    ContainerPaused,
    ContainerResumed,
    ContainerScheduled,
    ContainerUpdated,
    Event,
)
from executor.core.scheduler import ContainerScheduler
from executor.records import (
    GPU,
    ContainerExitStatus,
    ContainerRecord,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    ContainerUsage,
    ExecutionType,
    Resource,
    counted,
)
from executor.settings import ExecutorSettings

G, O = ExecutionType.GUARANTEED, ExecutionType.OPPORTUNISTIC  # noqa: E741 - the letters of the conformance cases
COMMAND = TypeVar("COMMAND", bound=Command)
EPOCH = 1_700_000_000.0


def a_spec(
    container_id: str,
    execution_type: ExecutionType = O,
    memory: int = 512,
    vcores: int = 1,
    gpus: int = 0,
    **rest: Any,
) -> ContainerSpec:
    """A container that sleeps."""
    size = Resource(memory, vcores, counted({GPU: gpus}))
    return ContainerSpec(container_id, ("sleep", "10"), size, execution_type, **rest)


def a_scheduler(
    memory: int = 2048,
    vcores: int = 4,
    *,
    polling: bool = False,
    cores: int = 0,
    devices: tuple[str, ...] = (),
    **settings: Any,
) -> ContainerScheduler:
    """The node of YARN's own queuing tests, unless told otherwise: 2048 MB, 4 vcores, queue of 10."""
    settings.setdefault("max_queue_length", 10)
    return ContainerScheduler(
        Resource(memory, vcores, counted({GPU: len(devices)})),
        ExecutorSettings(**settings),
        physical_cores=cores or vcores,
        wall_offset=EPOCH,
        enforce_memory_by_polling=polling,
        devices=devices,
    )


class World:
    """A scheduler and its surroundings; every step is validated.

    ``now`` is the time of the next step. ``answers`` lets launches, pauses, resumes and kills succeed at
    once; otherwise nothing happens but what the test says. All commands are in ``commands``, the last step's
    in ``last``, what a store would hold in ``records``, and what the node's group weighs in ``weight`` alone.
    """

    def __init__(
        self, machine: ContainerScheduler | None = None, *, answers: bool = True, **node: Any
    ) -> None:
        self.machine = machine or a_scheduler(**node)
        self.answers = answers
        self.now = 0.0
        self.commands: list[Command] = []
        self.last: list[Command] = []
        self.records: dict[str, ContainerRecord] = {}
        self.history: dict[str, list[ContainerState]] = {}
        self.weight: int | None = None

    def tell(self, *events: Event) -> list[Command]:
        """Hand over events, and the answers to what they lead to; returns the commands of all of that."""
        self.last = []
        inbox = list(events)
        while inbox:
            commands = self.machine.handle(inbox.pop(0), self.now)
            self.machine.validate()
            inbox += self._take(commands)
        return self.last

    def advance(self, seconds: float) -> list[Command]:
        """Let time pass, doing what is due on the way."""
        self.last = []
        until = self.now + seconds
        while (due := self.machine.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            commands = self.machine.advance(self.now)
            self.machine.validate()
            for event in self._take(commands):
                self.tell_more(event)
        self.now = until
        return self.last

    def tell_more(self, event: Event) -> None:
        """As ``tell``, with its commands added to ``last``."""
        before = self.last
        self.tell(event)
        self.last = before + self.last

    def _take(self, commands: Iterable[Command]) -> list[Event]:
        answers: list[Event] = []
        for command in commands:
            if isinstance(command, SetNodeWeight):
                self.weight = command.vcores
                continue
            self.commands.append(command)
            self.last.append(command)
            match command:
                case StoreContainer(record):
                    self.records[record.spec.container_id] = record
                case ReportStatus(status):
                    seen = self.history.setdefault(status.container_id, [])
                    if not seen or seen[-1] is not status.state:
                        seen.append(status.state)
                case LaunchContainer(spec):
                    answers.append(ContainerLaunched(spec.container_id, pid=100, process_start=7))
                case RevokeNext(container_id, True):
                    answers.append(ContainerExited(container_id, None))
                case PauseContainer(container_id):
                    answers.append(ContainerPaused(container_id))
                case ResumeContainer(container_id):
                    answers.append(ContainerResumed(container_id))
                case KillContainer(container_id, force):
                    status = self.machine.status(container_id)
                    if status is not None and status.pid:
                        answers.append(ContainerExited(container_id, 137 if force else 143))
        return answers if self.answers else []

    def schedule(
        self,
        container_id: str,
        execution_type: ExecutionType = O,
        memory: int = 512,
        vcores: int = 1,
        **rest: Any,
    ) -> list[Command]:
        """A container arrives."""
        return self.tell(ContainerScheduled(a_spec(container_id, execution_type, memory, vcores, **rest)))

    def exit(
        self,
        container_id: str,
        code: int | None = 0,
        usage: ContainerUsage | None = None,
        following: str = "",
    ) -> list[Command]:
        """A container ends by itself, and another one begins in its place."""
        return self.tell(ContainerExited(container_id, code, usage or ContainerUsage(), following=following))

    def stop(self, container_id: str, status: int = ContainerExitStatus.KILLED_BY_APPMASTER) -> list[Command]:
        """Its application master stops a container."""
        return self.tell(ContainerKillRequested(container_id, int(status), "Container killed by its AM."))

    def update(
        self,
        container_id: str,
        execution_type: ExecutionType | None = None,
        memory: int = 0,
        vcores: int = 0,
        version: int = 0,
    ) -> list[Command]:
        """A container is promoted, demoted or resized, to the next version unless told otherwise."""
        resource = Resource(memory, vcores) if memory or vcores else None
        version = version or self.status(container_id).version + 1
        return self.tell(ContainerUpdated(container_id, version, execution_type, resource))

    def status(self, container_id: str) -> ContainerStatus:
        """Its status, which must be known."""
        [status] = self.machine.statuses((container_id,))
        return status

    def state(self, container_id: str) -> ContainerState:
        """Its state."""
        return self.status(container_id).state

    def states(self, *container_ids: str) -> list[str]:
        """Their states, by name."""
        return [self.state(container_id).value for container_id in container_ids]

    def queued(self) -> tuple[int, int]:
        """The number of queued guaranteed and opportunistic containers."""
        seen = self.machine.opportunistic_status()
        return seen.wait_queue_length - seen.queued, seen.queued

    def allocated_guaranteed(self) -> Resource:
        """What guaranteed containers hold."""
        others = self.machine.opportunistic_status()
        return self.machine.allocated - Resource(others.memory_used, others.vcores_used)

    def given(self, kind: type[COMMAND], container_id: str = "") -> list[COMMAND]:
        """The commands of a kind in the last step, of one container if named."""
        return [c for c in self.last if isinstance(c, kind) and container_id in ("", id_of(c))]


def id_of(command: Command) -> str:
    """The container that a command is about."""
    match command:
        case StoreContainer(record):
            return record.spec.container_id
        case LaunchContainer(spec) | LaunchNext(spec):
            return spec.container_id
        case ReportStatus(status):
            return status.container_id
        case WatchHost() | SetNodeWeight():
            return ""
        case _:
            return command.container_id
