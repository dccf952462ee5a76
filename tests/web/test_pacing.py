"""Requests leave the loop to others, in proportion to what they take, and nobody waits for long."""

from __future__ import annotations

import asyncio
import time

import pytest

from yarnopp_cli.web.pacing import LONGEST_PAUSE, SHARE, Pace


def spend(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


async def request(cost: float) -> str:
    spend(cost / 2)
    await asyncio.sleep(0)
    spend(cost / 2)
    return "answer"


def test_a_crowd_of_requests_leaves_the_loop_to_others() -> None:
    """Twenty callers ask without a pause; what else the loop has to do is done between any two of them."""

    async def test() -> None:
        pace, loop = Pace(), asyncio.get_running_loop()
        begun = loop.time()
        taken = 0

        async def caller() -> None:
            nonlocal taken
            while loop.time() - begun < 0.5:
                assert await pace.run(request(0.002)) == "answer"
                taken += 1

        turns: list[int] = []

        async def other() -> None:
            while loop.time() - begun < 0.5:
                turns.append(taken)
                await asyncio.sleep(0)

        await asyncio.gather(other(), *(caller() for _ in range(20)))
        assert taken * 0.002 <= (loop.time() - begun) * SHARE + 0.12, "their share"
        assert len(turns) > 3 * taken, "others had their turns meanwhile"

    asyncio.run(test())


def test_what_is_waited_for_takes_nothing() -> None:
    async def test() -> None:
        pace, loop = Pace(), asyncio.get_running_loop()
        never = asyncio.Event()

        async def waits() -> None:
            await never.wait()

        slow = asyncio.create_task(pace.run(waits()))
        begun = loop.time()
        for _ in range(20):
            await pace.run(request(0.0))
        assert loop.time() - begun < 1.0
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow

    asyncio.run(test())


def test_after_a_long_one_the_next_waits_no_longer_than_is_said() -> None:
    async def test() -> None:
        pace, loop = Pace(), asyncio.get_running_loop()
        await pace.run(request(0.4))
        begun = loop.time()
        await pace.run(request(0.0))
        assert LONGEST_PAUSE * 0.9 <= loop.time() - begun < LONGEST_PAUSE + 0.2

    asyncio.run(test())


def test_errors_and_callers_that_go_leave_the_turn_to_the_next() -> None:
    async def fails() -> None:
        raise ValueError("no")

    async def test() -> None:
        pace = Pace()
        with pytest.raises(ValueError, match="no"):
            await pace.run(fails())
        pace.took(1.0)
        gone = asyncio.create_task(pace.run(request(0.0)))
        waits = asyncio.create_task(pace.run(request(0.0)))
        await asyncio.sleep(0)
        gone.cancel()
        assert await asyncio.wait_for(waits, 5) == "answer"

    asyncio.run(test())
