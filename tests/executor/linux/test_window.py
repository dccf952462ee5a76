"""The clock of a host is looked at, and each change is told once."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from executor.core.events import OpportunisticWindowChanged
from executor.linux.watching.window import WindowKeeper


def test_each_change_is_told_once_at_its_time() -> None:
    told: list[OpportunisticWindowChanged] = []
    opens = datetime(2026, 11, 23, 19, 0)
    seen = [opens - timedelta(milliseconds=20)]

    async def body() -> None:
        keeper = WindowKeeper("19:00-19:01", told.append, lambda: seen[0])
        keeper.start()
        closed = round(opens.timestamp() * 1000)
        assert told == [OpportunisticWindowChanged(closed)]
        seen[0] = opens  # the timer that the keeper has set looks again
        deadline = asyncio.get_running_loop().time() + 10
        while len(told) < 2:
            assert asyncio.get_running_loop().time() < deadline, "the window has not opened"
            await asyncio.sleep(0.005)
        assert told[1] == OpportunisticWindowChanged(0)
        seen[0] = opens + timedelta(minutes=3)  # as after a suspend
        keeper.start()
        keeper.start()
        assert told[2:] == [OpportunisticWindowChanged(closed + 24 * 3600 * 1000)]
        keeper.stop()

    asyncio.run(body())


def test_without_a_window_nothing_is_told_or_looked_at() -> None:
    told: list[OpportunisticWindowChanged] = []
    keeper = WindowKeeper("", told.append)
    keeper.start()  # there is no loop that could have a timer
    keeper.stop()
    assert told == []
