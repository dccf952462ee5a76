"""Measure all containers and the machine, once an interval, in one pass.

About 0.1 ms a container from cgroup files; a pass that took long the last time is made in a worker thread.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable

from ..core.events import UsageSampled
from ..records import ContainerUsage, ResourceUtilization
from .cgroups.base import CgroupDriver

INLINE_SECONDS = 0.003
"""Passes shorter than this are made on the loop."""


class Monitor:
    """Posts a UsageSampled each ``interval_ms`` until it is stopped."""

    def __init__(
        self,
        cgroups: CgroupDriver,
        containers: Callable[[], Iterable[str]],
        post: Callable[[UsageSampled], None],
        *,
        interval_ms: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cgroups = cgroups
        self._containers = containers
        self._post = post
        self._interval = interval_ms / 1000
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._last_seconds = 0.0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin; the first sample comes after one interval."""
        node_utilization()  # the first reading of psutil's CPU counters only sets their zero
        self._task = loop.create_task(self._run())

    async def stop(self) -> None:
        """Measure no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
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
        now = self._clock()
        usages: dict[str, ContainerUsage] = {name: self._cgroups.usage(name, now) for name in names}
        node = node_utilization()
        self._last_seconds = time.perf_counter() - begun
        return UsageSampled(usages, node)


def node_utilization() -> ResourceUtilization:
    """The whole machine: memory that is not available, and cores busy since the last call."""
    import psutil

    memory = psutil.virtual_memory()
    busy = psutil.cpu_percent(interval=None) / 100 * (psutil.cpu_count() or 1)
    return ResourceUtilization(int(memory.total - memory.available), busy, os.getloadavg()[0])
