"""A LinuxContainerExecutor with everything it posted, and the means to wait for what it posts. Used by the
tests.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from executor.core.commands import CleanUpContainer, KillContainer, LaunchContainer
from executor.core.events import ContainerExited, ContainerLaunched, ContainerLaunchFailed, Event
from executor.linux.cgroups import CgroupDriver, discover
from executor.linux.container_executor import LinuxContainerExecutor
from executor.linux.procfs import read_stat
from executor.records import CgroupLimits, ContainerSpec, ExecutionType, Resource
from executor.settings import ExecutorSettings

from ...patience import PATIENCE

DEADLINE = 20.0
Kind = TypeVar("Kind")


def until(condition: Callable[[], Any], what: str, seconds: float = DEADLINE) -> Any:
    """Wait, blocking, until the condition gives something true."""
    deadline = time.monotonic() + seconds * PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.005)
    return found


async def soon(condition: Callable[[], Any], what: str, seconds: float = DEADLINE) -> Any:
    """Wait on the loop until the condition gives something true."""
    deadline = time.monotonic() + seconds * PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        await asyncio.sleep(0.005)
    return found


def running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    found = read_stat(pid)
    return found is not None and found.state not in "ZX"


def a_spec(container_id: str, *command: str, **fields: Any) -> ContainerSpec:
    fields.setdefault("resource", Resource(256, 1))
    fields.setdefault("execution_type", ExecutionType.GUARANTEED)
    return ContainerSpec(container_id=container_id, command=command, **fields)


class Node:
    """One node: its executor, its directories, its events in order."""

    def __init__(
        self, directory: Path, cgroups: CgroupDriver, settings: ExecutorSettings, **more: Any
    ) -> None:
        self.directory = directory
        self.cgroups = cgroups
        self.events: list[Event] = []
        self.executor = LinuxContainerExecutor(
            settings,
            post=self._post,
            work_dir=directory / "work",
            log_dir=directory / "logs",
            state_dir=directory / "state",
            cgroups=cgroups,
            **more,
        )

    def _post(self, event: Event) -> None:
        """Keep the event; a start that is told with its end comes before it."""
        if isinstance(event, ContainerExited) and event.launched is not None:
            self.events.append(event.launched)
        self.events.append(event)

    def found(self, kind: type[Kind], container_id: str) -> Kind | None:
        for event in self.events:
            if isinstance(event, kind) and event.container_id == container_id:  # type: ignore[attr-defined]
                return event
        return None

    async def told(self, kind: type[Kind], container_id: str) -> Kind:
        """The event of that kind about that container, once it was posted."""
        found: Kind = await soon(lambda: self.found(kind, container_id), f"{kind.__name__} of {container_id}")
        return found

    async def launch(self, spec: ContainerSpec, limits: CgroupLimits | None = None) -> ContainerLaunched:
        name = spec.container_id
        self.executor.perform(LaunchContainer(spec, limits or CgroupLimits(pids_max=200)))
        told = await soon(
            lambda: self.found(ContainerLaunchFailed, name) or self.found(ContainerLaunched, name),
            f"{name} is launched",
        )
        assert isinstance(told, ContainerLaunched), told
        return told

    async def run(self, spec: ContainerSpec, limits: CgroupLimits | None = None) -> ContainerExited:
        """Launch it and wait for its end."""
        await self.launch(spec, limits)
        return await self.told(ContainerExited, spec.container_id)

    async def run_again(self, spec: ContainerSpec) -> ContainerExited:
        """Launch what could not be launched before."""
        self.events.clear()
        return await self.run(spec)

    def output(self, container_id: str, stream: str = "stdout") -> bytes:
        return (self.directory / "logs" / container_id / stream).read_bytes()

    def lets_go(self) -> None:
        """Leave its records to another node, as its death would."""
        self.executor._store.close()

    def dies(self) -> None:
        """What its death does to its launchers and its records. Nothing of it is ended afterwards."""
        for slot in list(self.executor._pool._slots.all):
            self.executor._pool._slots.forget(slot)
        self.lets_go()
        self.executor._held.clear()
        self.events.clear()

    async def end_everything(self) -> None:
        for event in list(self.events):
            if (
                isinstance(event, ContainerLaunched)
                and self.found(ContainerExited, event.container_id) is None
            ):
                self.executor.perform(KillContainer(event.container_id, force=True))
        launched = [event for event in self.events if isinstance(event, ContainerLaunched)]
        for event in launched:
            await self.told(ContainerExited, event.container_id)
            self.executor.perform(CleanUpContainer(event.container_id))
        await self.executor.close()


@contextmanager
def a_group(settings: ExecutorSettings, **places: Any) -> Iterator[CgroupDriver]:
    """A driver with a group of its own name, which is gone afterwards whatever happened."""
    name = f"test-{os.getpid()}-{time.monotonic_ns():x}"
    driver = discover(settings, group=name, **places)
    driver.create_parent()
    try:
        yield driver
    finally:
        after = discover(settings, group=name, **places)  # one that knows of no slots
        for container_id in after.stale_groups():
            after.kill(container_id)
            after.remove(container_id, 2.0)
        left = after.stale_groups()
        driver.remove_parent()
        assert left == []
        assert not any(os.path.exists(path) for path in driver.describe().locations.values())


@asynccontextmanager
async def a_node(
    directory: Path, cgroups: CgroupDriver, settings: ExecutorSettings | None = None, **more: Any
) -> AsyncIterator[Node]:
    """A node that ends all its containers at the end."""
    node = Node(directory, cgroups, settings or ExecutorSettings(), **more)
    try:
        yield node
    finally:
        await node.end_everything()
