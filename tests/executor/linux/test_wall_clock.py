"""The wall clock is looked at beside the one that machines count by."""

from __future__ import annotations

import asyncio
import time

import pytest

from executor.core.events import WallClockStepped
from executor.linux.watching import wall_clock
from executor.linux.watching.wall_clock import WallClock, wall_offset


def test_each_step_is_told_once_and_a_drift_never() -> None:
    told: list[WallClockStepped] = []
    offsets = iter([1000.0, 1000.4, 1000.6, 1000.6, 997.0])

    async def body() -> None:
        clock = WallClock(1000.0, told.append, lambda: next(offsets))
        for _ in range(5):
            clock.start()
            clock.stop()

    asyncio.run(body())
    assert told == [WallClockStepped(1000.6), WallClockStepped(997.0)]


def test_it_looks_again_by_itself_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wall_clock, "LOOK_SECONDS", 0.001)
    told: list[WallClockStepped] = []
    offset = 0.0

    async def body() -> None:
        nonlocal offset
        clock = WallClock(offset, told.append, lambda: offset)
        clock.start()
        offset = 28_800.0  # a night asleep
        deadline = asyncio.get_running_loop().time() + 10
        while not told:
            assert asyncio.get_running_loop().time() < deadline, "nobody has looked"
            await asyncio.sleep(0.001)
        clock.stop()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(body())
    assert told == [WallClockStepped(28_800.0)]


def test_the_offset_lies_between_the_two_clocks() -> None:
    """Whatever time passes between the looks: never a clock since the boot instead of the epoch's."""
    earliest = time.time() - time.monotonic()
    offset = wall_offset()
    latest = time.time() - time.monotonic()
    assert min(earliest, latest) - 1 <= offset <= max(earliest, latest) + 1
