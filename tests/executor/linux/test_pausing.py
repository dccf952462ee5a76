"""A container to which others leave no processor is paused all the same, on the real kernel."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from executor import ContainerState

from .node import soon
from .test_weights import G, O, an_executor, driver_of, outside, spinner, used, weight

RELEASE = tuple(int(part) for part in os.uname().release.split(".")[:2])


@pytest.mark.skipif(
    RELEASE < (6, 6), reason="before Linux 6.6 who waits already is not helped by a greater weight"
)
@pytest.mark.parametrize("mechanism", ["signal", "freezer"])
def test_one_that_is_left_nothing_stops_in_time_each_time(tmp_path: Path, mechanism: str) -> None:
    async def scenario() -> None:
        async with an_executor(tmp_path, pause_mechanism=mechanism) as (executor, groups):
            # Each has the one processor for itself but for a five-hundredth, for which the next waits.
            guaranteed, starved = spinner(executor, G), spinner(executor, O)
            await soon(lambda: starved.status.state is ContainerState.RUNNING, "it runs", 20)
            with outside(2) as others:
                group = Path(groups[0], os.path.basename(driver_of(executor).path(starved.container_id)))
                for _ in range(6):
                    begun = used(others[0])
                    await soon(lambda begun=begun: used(others[0]) > begun + 0.2, "the others run", 20)
                    starved.pause()
                    await soon(lambda: starved.status.state is not ContainerState.RUNNING, "it is told", 20)
                    await soon(lambda: starved.status.state is not ContainerState.PAUSING, "it was tried", 20)
                    assert starved.status.state is ContainerState.PAUSED, starved.status
                    assert weight(str(group)) == 0 and weight(groups[0]) == 1, "for as long as it takes only"
                    starved.resume()
                    await soon(lambda: starved.status.state is ContainerState.RUNNING, "it goes on", 20)
                guaranteed.kill(force=True)
                await soon(lambda: weight(groups[0]) == 0, "the node weighs nothing", 5)
                starved.pause()  # now the whole node waits
                await soon(lambda: starved.status.state is ContainerState.PAUSED, "it stands", 5)
                await soon(lambda: weight(groups[0]) == 0, "the node weighs nothing again", 5)
            starved.kill(force=True)

    asyncio.run(scenario())
