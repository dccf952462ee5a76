"""Measures all containers and the host, once an interval, in one pass (YARN's ``ContainersMonitorImpl``).

Reading a container's cgroup files takes about 0.1 ms; if a pass took long, the next one runs in a worker thread.
While the host is watched for pressure, passes are more frequent, and the host is measured in more detail.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping
from functools import cache

from ...core.events import NodeUtilizationSampled, UsageSampled
from ...core.machine import beat
from ...light import replace
from ...records import ContainerUsage, ResourceUtilization
from ..context import ExecutorContext
from ..procfs import runnable_threads, virtual_bytes
from ..threads import beside
from .host import HostReader, node_utilization

LOG = logging.getLogger(__name__)

INLINE_SECONDS = 0.003
"""Passes that take less CPU time than this run on the loop."""

OFTEN_SECONDS = 0.005
"""Passes that take more keep to the normal interval while the host is watched."""

NODE_SECONDS = 1.0
"""The least time between two readings of the node's utilization; what a heartbeat tells need not be newer."""

SPREAD = 0.2
"""The part by which each interval is shorter or longer, by chance, while the host is watched: the nodes of a host that
measured it at the same time would count each other's threads as those of programs outside."""


PART = 0.1
"""The part of the time that a measurement of directories may take: a container can fill them with any number of files.
"""


class Seldom:
    """A measurement of containers, by name and processes, that may take any time: it is made in a thread for which
    nobody waits, at most once in ``interval_ms``, and in less than ``PART`` of the time. ``found`` has the results."""

    def __init__(self, measure: Callable[[str, list[int]], int], interval_ms: int) -> None:
        self._measure = measure
        self._interval = interval_ms / 1000
        self._due = time.monotonic() + self._interval
        self._thread = threading.Thread()
        self.found: dict[str, int] = {}

    def begin(self, names: Collection[str], processes: Callable[[str], list[int]]) -> None:
        """Measure these containers, if it is time for that."""
        if names and time.monotonic() >= self._due and not self._thread.is_alive():
            self.found = {}
            self._thread = threading.Thread(target=self._run, args=(tuple(names), processes), daemon=True)
            with contextlib.suppress(RuntimeError):  # there is no room for it now
                self._thread.start()

    def _run(self, names: Collection[str], processes: Callable[[str], list[int]]) -> None:
        begun = time.monotonic()
        try:
            for name in names:
                self.found[name] = self._measure(name, processes(name))
        except OSError as error:
            LOG.warning("some directories are not measured: %s", error)
        self._due = begun + max(self._interval, (time.monotonic() - begun) / PART)


class Monitor:
    """Posts a UsageSampled each ``interval_ms`` until it is stopped, and, after ``watch``, the host's figures.

    ``containers`` lists those to measure, and whether each is paused: while all are, they are measured once more
    and then each ``interval_ms``, however often the host is. ``make_host`` makes the reader of the host, given the
    CPU time of the containers so far, for hosts without a cgroup that counts it. ``seldom`` are measurements of
    fields of ContainerUsage, by name.
    """

    def __init__(
        self,
        context: ExecutorContext,
        containers: Callable[[], Mapping[str, bool]],
        post: Callable[[UsageSampled | NodeUtilizationSampled], None],
        *,
        interval_ms: int,
        virtual_memory: bool,
        make_host: Callable[[Callable[[], float]], HostReader],
        seldom: Mapping[str, Seldom] | None = None,
    ) -> None:
        self._cgroups = context.cgroups
        self._clock = context.clock
        self._loop = context.loop
        self._containers = containers
        self._post = post
        self._host = make_host(lambda: self._cpu_seconds)
        self._interval = interval_ms / 1000
        self._seldom = seldom or {}
        self._virtual_memory = virtual_memory  # only if needed: it reads one file for each process
        self._task: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._watched = self._next = 0.0
        self._rescheduled = asyncio.Event()
        self._paused: Mapping[str, bool] = {}
        self._counted: dict[str, float] = {}
        self._cpu_seconds = 0.0
        self._sampled_at = 0.0
        self._last_seconds = 0.0
        self._node, self._node_at = ResourceUtilization(), -math.inf

    def start(self) -> None:
        """Begin; the first measurement comes after one interval."""
        node_utilization()  # the first reading of psutil's CPU counters only sets their zero
        self._task = self._loop.create_task(self._run())

    async def stop(self) -> None:
        """Stop measuring."""
        for task in (self._task, self._watching):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._task = self._watching = None

    def watch(self, interval_ms: int, next_ms: int = 0) -> None:
        """Measure containers and host at this interval after the next measurement; an interval of 0 ends that. If
        ``next_ms`` is not 0 the next one is made after it; while one is due, no later than that."""
        self._watched = interval_ms / 1000
        if next_ms or not interval_ms:
            self._next = next_ms / 1000
            self._rescheduled.set()
        if self._watching is not None and interval_ms <= 0:
            self._watching.cancel()
            self._watching = None
        elif self._watching is None and interval_ms > 0:
            self._last_seconds = max(
                self._last_seconds, INLINE_SECONDS
            )  # without a watch, threads are not read
            self._watching = self._loop.create_task(self._watch())

    async def _watch(self) -> None:
        with contextlib.suppress(OSError):
            self._host.begin()
        due = self._loop.time() - self._watched / 2  # containers have just begun
        while True:
            due = max(due + self._watched * random.uniform(1 - SPREAD, 1 + SPREAD), self._loop.time())
            await self._sleep_until(due)
            try:
                await self._look()
            except OSError as error:  # e.g. no file descriptor is free
                LOG.warning("nothing is measured: %s", error)

    async def _sleep_until(self, due: float) -> None:
        """Sleep; a ``watch`` that says when the next measurement is made changes ``due``."""
        if self._next:
            due, self._next = self._loop.time() + self._next, 0.0
        while True:
            self._rescheduled.clear()
            if self._next:
                due, self._next = min(due, self._loop.time() + self._next), 0.0
            try:
                async with asyncio.timeout_at(due):
                    await self._rescheduled.wait()
            except TimeoutError:
                return

    async def _look(self) -> None:
        names = self._containers()
        due = self._clock() - self._sampled_at >= self._interval
        sampled = None
        wanted = due or names != self._paused or not all(names.values())
        if any(self._paused.get(name) and not paused for name, paused in names.items()):
            self._last_seconds = max(
                self._last_seconds, INLINE_SECONDS
            )  # while paused, its threads were not read
        if wanted and self._is_quick():
            sampled = self.sample(names)
        elif due or (wanted and self._last_seconds < OFTEN_SECONDS):
            sampled = await beside(None, self.sample, names)
        if sampled is not None:
            self._paused = names
            self._count(sampled)
            self._post(sampled)
        utilization = self._host.glance() or await beside(None, self._host.read)
        if utilization is not None:
            self._post(NodeUtilizationSampled(utilization))

    def _count(self, sampled: UsageSampled) -> None:
        """Add up the CPU time of containers, including those that have ended since."""
        before, self._counted = self._counted, {}
        for name, usage in sampled.usages.items():
            self._counted[name] = usage.cpu_seconds
            self._cpu_seconds += max(0.0, usage.cpu_seconds - before.get(name, usage.cpu_seconds))

    async def _run(self) -> None:
        while True:
            now = self._loop.time()
            await asyncio.sleep(beat(now, self._interval) - now)
            if self._watching is not None:
                continue
            # The list of containers belongs to the loop: it is made here, and only the reading may run in a thread.
            names = self._containers()
            try:
                quick = not names or self._is_quick()
                sampled = self.sample(names) if quick else await beside(None, self.sample, names)
            except OSError as error:
                LOG.warning("nothing is measured: %s", error)
                continue
            self._post(sampled)

    def sample(self, names: Mapping[str, bool]) -> UsageSampled:
        """Make one pass over these containers and the host."""
        begun = time.thread_time()
        now = self._sampled_at = self._clock()
        usages = {name: self._usage(name, paused, now) for name, paused in names.items()}
        for one in self._seldom.values():
            one.begin(names, self._cgroups.processes)
        if now - self._node_at >= min(self._interval, NODE_SECONDS):
            self._node, self._node_at = node_utilization(), now
        self._last_seconds = time.thread_time() - begun
        return UsageSampled(usages, self._node)

    def _is_quick(self) -> bool:
        """Whether a pass may run on the loop."""
        return self._last_seconds < INLINE_SECONDS

    def _usage(self, name: str, paused: bool, now: float) -> ContainerUsage:
        processes = cache(lambda: self._cgroups.processes(name))
        counts = self._watching is not None and self._cgroups.mode != "none" and not paused
        usage = self._cgroups.usage(name, now, len(processes()) if counts else -1)
        for field, one in self._seldom.items():
            if (found := one.found.pop(name, None)) is not None:
                usage = replace(usage, **{field: found})
        if self._virtual_memory:
            usage = replace(usage, virtual_bytes=virtual_bytes(processes()))
        if counts:
            usage = replace(usage, runnable=runnable_threads(processes()))
        return usage
