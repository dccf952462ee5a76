"""Work beside the loop on a host that has no room for another thread."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import pytest

from executor.core.events import NodeUtilizationSampled, UsageSampled
from executor.linux.context import ExecutorContext
from executor.linux.threads import beside
from executor.linux.watching import monitor as watching
from executor.linux.watching.monitor import PART, Monitor, Seldom
from executor.records import ContainerUsage

from .node import soon

FULL = mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread"))


def test_work_is_done_on_the_loop_once_where_there_is_no_thread() -> None:
    done: list[int] = []

    async def scenario() -> None:
        with FULL, ThreadPoolExecutor(1) as threads:
            assert await beside(threads, threading.get_ident) == threading.get_ident()
        with ThreadPoolExecutor(1) as threads:
            with FULL:
                await beside(threads, done.append, 2)
            await beside(threads, done.append, 3)
        assert done == [2, 3], "what was left in the queue is not done again"

    asyncio.run(scenario())


def test_a_thread_that_there_is_does_it() -> None:
    async def scenario() -> None:
        with ThreadPoolExecutor(2) as threads:
            free = threading.Event()
            first = asyncio.ensure_future(beside(threads, free.wait, 10))
            await asyncio.sleep(0)  # its thread is started
            with FULL:
                asyncio.get_running_loop().call_later(0.01, free.set)
                assert await beside(threads, threading.get_ident) != threading.get_ident()
            assert await first

    asyncio.run(scenario())


@pytest.mark.parametrize("full", [False, True], ids=["thread", "loop"])
def test_who_waits_gets_what_is_raised(full: bool) -> None:
    async def scenario() -> None:
        with (
            ThreadPoolExecutor(1) as threads,
            FULL if full else contextlib.nullcontext(),
            pytest.raises(RuntimeError, match="the work's own"),
        ):
            await beside(threads, mock.Mock(side_effect=RuntimeError("the work's own")))

    asyncio.run(scenario())


def a_monitor(
    told: list[Any],
    *,
    interval_ms: int = 20,
    containers: Callable[[], Mapping[str, bool]] = dict,
    **more: Any,
) -> Monitor:
    """One that measures what ``more`` says, of ``cgroups`` and of the ``host``."""
    context = mock.Mock(
        spec=ExecutorContext, loop=asyncio.get_running_loop(), clock=more.get("clock", time.monotonic)
    )
    context.cgroups = more.get("cgroups", mock.Mock(mode="none"))
    return Monitor(
        context,
        containers=containers,
        post=told.append,
        interval_ms=interval_ms,
        virtual_memory=False,
        make_host=lambda _: more.get("host", mock.Mock()),
        seldom=more.get("seldom"),
    )


def test_the_machine_is_measured_all_the_same() -> None:
    told: list[object] = []
    read = mock.Mock(side_effect=itertools.chain([OSError(24, "no descriptor")], itertools.repeat("read")))

    async def scenario() -> None:
        monitor = a_monitor(told, clock=lambda: 1.0, host=mock.Mock(read=read))
        with FULL:
            monitor.watch(20)
            await soon(lambda: len(told) >= 2, "both are measured")
        await monitor.stop()

    asyncio.run(scenario())
    assert [type(one) for one in told[:2]] == [UsageSampled, NodeUtilizationSampled]


def test_threads_that_were_not_read_before_are_not_read_on_the_loop() -> None:
    """Neither at the beginning of a watch nor after a pause is it known how many a container has."""
    paused, read = {"c1": False}, list[bool]()

    def processes(name: str) -> list[int]:
        read.append(threading.current_thread() is threading.main_thread())
        return []

    async def scenario() -> None:
        usage = ContainerUsage(0.0, 0, 0, 0.0, 0, 0, 0.0)
        cgroups = mock.Mock(mode="v1", usage=lambda name, now, processes: usage, processes=processes)
        told: list[object] = []
        monitor = a_monitor(told, interval_ms=10_000, containers=lambda: dict(paused), cgroups=cgroups)

        async def looks(count: int) -> list[bool]:
            read.clear()
            told.clear()
            await soon(
                lambda: sum(isinstance(one, UsageSampled) for one in told) >= count, "samples are taken"
            )
            return read[:count]

        with mock.patch.multiple(
            watching, INLINE_SECONDS=10.0, OFTEN_SECONDS=20.0, node_utilization=mock.Mock()
        ):
            monitor.watch(1)
            assert await looks(3) == [False, True, True]
            paused["c1"] = True
            assert await looks(1) == []
            paused["c1"] = False
            assert await looks(3) == [False, True, True]
            await monitor.stop()

    asyncio.run(scenario())


def test_a_directory_with_any_number_of_files_holds_up_no_measurement_and_takes_a_part_of_the_time() -> None:
    """A container's files, counted with each third sample, kept the node from measuring anything else."""
    go_on, asked = threading.Event(), list[float]()

    def measure(name: str, processes: list[int]) -> int:
        asked.append(time.monotonic())
        assert go_on.wait(20)
        return 7

    async def scenario() -> None:
        usage = ContainerUsage(0.0, 0, 0, 0.0, 0, 0, 0.0)
        cgroups = mock.Mock(mode="none", usage=lambda name, now, processes: usage)
        told: list[UsageSampled] = []
        seldom = Seldom(measure, 20)
        monitor = a_monitor(
            told, containers=lambda: {"c1": False}, cgroups=cgroups, seldom={"log_bytes": seldom}
        )
        monitor.start()
        await soon(lambda: asked, "it is being measured")
        seen = len(told)
        await soon(lambda: len(told) >= seen + 5, "everything else is measured meanwhile")
        assert {one.usages["c1"].log_bytes for one in told} == {0} and len(asked) == 1
        go_on.set()
        took = time.monotonic() - asked[0]
        await soon(lambda: any(one.usages["c1"].log_bytes == 7 for one in told), "then it is told")
        await soon(lambda: len(asked) == 2, "and measured again")
        assert asked[1] - asked[0] >= took / PART
        with FULL:
            seen = len(told)
            await soon(lambda: len(told) >= seen + 5, "without a thread it is later")
        await soon(lambda: len(asked) == 3, "and is made again")
        await monitor.stop()

    asyncio.run(scenario())


def test_a_measurement_that_is_wanted_soon_does_not_wait_for_the_next_one() -> None:
    async def scenario() -> None:
        told: list[object] = []
        monitor = a_monitor(told)
        monitor.watch(600_000)
        await asyncio.sleep(0)
        begun = time.monotonic()
        monitor.watch(600_000, 50)
        await soon(lambda: len(told) >= 2, "both are measured")
        assert time.monotonic() - begun >= 0.05
        await monitor.stop()

    asyncio.run(scenario())
