"""Requests leave the loop to others, in proportion to what they take, and nobody waits for long. Time is a number."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from yarnopp_cli.web.pacing import LONGEST_PAUSE, SHARE, RequestPacing

pytestmark = pytest.mark.pure


class Clock(selectors.DefaultSelector):
    """The loop's clock: it goes on by what the loop would wait for, and by what handlers take."""

    seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nothing will ever happen"
        self.seconds += timeout
        return super().select(0)


def play(scene: Callable[[Clock], Coroutine[Any, Any, None]]) -> None:
    """A scene on a loop whose time is the clock's."""
    clock = Clock()
    loop = asyncio.SelectorEventLoop(clock)
    loop.time = lambda: clock.seconds  # type: ignore[method-assign]
    try:
        loop.run_until_complete(scene(clock))
    finally:
        loop.close()


async def request(clock: Clock, cost: float) -> str:
    """It keeps the loop twice, for half of that each time."""
    clock.seconds += cost / 2
    await asyncio.sleep(0)
    clock.seconds += cost / 2
    return "answer"


def test_a_crowd_of_requests_leaves_the_loop_to_others() -> None:
    """Twenty callers ask without a pause; others have the rest of the time, and turns between any two of them."""

    async def scene(clock: Clock) -> None:
        pace, taken, turns = RequestPacing(), 0, 0

        async def caller() -> None:
            nonlocal taken
            while clock.seconds < 0.5:
                assert await pace.run(request(clock, 0.002)) == "answer"
                taken += clock.seconds < 0.5

        async def other() -> None:
            nonlocal turns
            while clock.seconds < 0.5:
                turns += 1
                await asyncio.sleep(0.0001)

        await asyncio.gather(other(), *(caller() for _ in range(20)))
        assert taken * 0.002 / 0.5 == pytest.approx(SHARE, rel=0.1)
        assert turns > 3 * taken

    play(scene)


def test_what_is_waited_for_takes_nothing() -> None:
    async def scene(clock: Clock) -> None:
        pace, never = RequestPacing(), asyncio.Event()

        async def waits() -> None:
            await never.wait()

        slow = asyncio.ensure_future(pace.run(waits()))
        for _ in range(20):
            await pace.run(request(clock, 0.0))
        assert clock.seconds == 0
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow

    play(scene)


def test_after_a_long_one_the_next_waits_no_longer_than_is_said() -> None:
    async def scene(clock: Clock) -> None:
        pace = RequestPacing()
        await pace.run(request(clock, 0.4))
        begun = clock.seconds
        await pace.run(request(clock, 0.0))
        assert clock.seconds - begun == pytest.approx(LONGEST_PAUSE)

    play(scene)


def test_errors_and_callers_that_go_leave_the_turn_to_the_next() -> None:
    async def fails() -> None:
        raise ValueError("no")

    async def scene(clock: Clock) -> None:
        pace = RequestPacing()
        with pytest.raises(ValueError, match="no"):
            await pace.run(fails())
        pace.took(1.0)
        gone = asyncio.ensure_future(pace.run(request(clock, 0.0)))
        waits = asyncio.ensure_future(pace.run(request(clock, 0.0)))
        await asyncio.sleep(0)
        gone.cancel()
        assert await asyncio.wait_for(waits, 5) == "answer"

    play(scene)
