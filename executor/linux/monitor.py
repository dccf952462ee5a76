"""Measure all containers and the machine, once an interval, in one pass.

About 0.1 ms a container from cgroup files; a pass that took long the last time is made in a worker thread. While
somebody has to give way to real pressure it is done more often, and the machine is looked at more closely.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from ..core.events import NodeUtilizationSampled, UsageSampled
from ..records import ContainerUsage, ResourceUtilization
from . import procfs
from .cgroups.base import CgroupDriver
from .host import HostReader
from .procfs import runnable_threads

INLINE_SECONDS = 0.003
"""Passes shorter than this are made on the loop."""


OFTEN_SECONDS = 0.005
"""Passes over the containers that take longer keep to their interval while the machine is watched."""


class Monitor:
    """Posts a UsageSampled each ``interval_ms`` until it is stopped, and with ``watch`` the machine's figures.

    ``host`` makes what reads them; it is given the containers' CPU time so far, where no group counts that.
    """

    def __init__(
        self,
        cgroups: CgroupDriver,
        containers: Callable[[], Iterable[str]],
        post: Callable[[UsageSampled | NodeUtilizationSampled], None],
        *,
        interval_ms: int,
        virtual_memory: bool = False,
        clock: Callable[[], float] = time.monotonic,
        host: Callable[[Callable[[], float]], HostReader] = HostReader,
    ) -> None:
        self._make_host = host
        self._watching: asyncio.Task[None] | None = None
        self._counted: dict[str, float] = {}
        self._cpu_seconds = 0.0
        self._sampled_at = 0.0
        self._cgroups = cgroups
        self._containers = containers
        self._post = post
        self._interval = interval_ms / 1000
        self._clock = clock
        self._virtual_memory = virtual_memory  # measured only where asked: it costs a file a process
        self._task: asyncio.Task[None] | None = None
        self._last_seconds = 0.0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin; the first sample comes after one interval."""
        node_utilization()  # the first reading of psutil's CPU counters only sets their zero
        self._task = loop.create_task(self._run())

    async def stop(self) -> None:
        """Measure no more."""
        for task in (self._task, self._watching):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._task = self._watching = None

    def watch(self, interval_ms: int, loop: asyncio.AbstractEventLoop) -> None:
        """Measure containers and machine that often from now on; 0 for no more often than else."""
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        if interval_ms > 0:
            host = self._make_host(lambda: self._cpu_seconds)
            self._watching = loop.create_task(self._watch(interval_ms / 1000, host))

    async def _watch(self, interval: float, host: HostReader) -> None:
        host.read()  # the first only sets the zero of its counters
        while True:
            await asyncio.sleep(interval)
            names = list(self._containers())
            due = self._clock() - self._sampled_at >= self._interval
            sampled = None
            if self._last_seconds < INLINE_SECONDS:
                sampled = self.sample(names)
            elif due or self._last_seconds < OFTEN_SECONDS:
                sampled = await asyncio.to_thread(self.sample, names)
            if sampled is not None:
                self._count(sampled)
                self._post(sampled)
            utilization = await asyncio.to_thread(host.read)
            if utilization is not None:
                self._post(NodeUtilizationSampled(utilization))

    def _count(self, sampled: UsageSampled) -> None:
        """Sum up what containers used, those that have ended since included."""
        before, self._counted = self._counted, {}
        for name, usage in sampled.usages.items():
            self._counted[name] = usage.cpu_seconds
            self._cpu_seconds += max(0.0, usage.cpu_seconds - before.get(name, usage.cpu_seconds))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            if self._watching is not None:
                continue
            # The list of containers is the loop's: it is taken here, and only the reading may be elsewhere.
            names = list(self._containers())
            if self._last_seconds < INLINE_SECONDS:
                sampled = self.sample(names)
            else:
                sampled = await asyncio.to_thread(self.sample, names)
            self._post(sampled)

    def sample(self, names: Iterable[str]) -> UsageSampled:
        """One pass over these containers and the machine."""
        begun = time.perf_counter()
        now = self._sampled_at = self._clock()
        usages: dict[str, ContainerUsage] = {name: self._cgroups.usage(name, now) for name in names}
        if self._virtual_memory:
            usages = {
                name: replace(usage, virtual_bytes=procfs.virtual_bytes(self._cgroups.processes(name)))
                for name, usage in usages.items()
            }
        if (
            self._watching is not None and self._cgroups.mode != "none"
        ):  # only there a weight makes anybody wait
            usages = {
                name: replace(usage, runnable=runnable_threads(self._cgroups.processes(name)))
                for name, usage in usages.items()
            }
        node = node_utilization()
        self._last_seconds = time.perf_counter() - begun
        return UsageSampled(usages, node)


def node_utilization() -> ResourceUtilization:
    """The whole machine: memory that is not available, and cores busy since the last call."""
    import psutil

    memory = psutil.virtual_memory()
    busy = psutil.cpu_percent(interval=None) / 100 * (psutil.cpu_count() or 1)
    used = int(memory.total - memory.available)
    return ResourceUtilization(used, busy, os.getloadavg()[0], int(memory.total), os.cpu_count() or 0)
