"""Tries once whether containers can be started in slots here, for people who ask why they are not."""

from __future__ import annotations

import asyncio
import time

from ..records import CgroupLimits, ContainerUsage
from .cgroups.base import CgroupDriver
from .context import ExecutorContext, LiveContainer
from .directories import Directories
from .pool import Pool
from .shim import LaunchRequest

NAME = "trial"
SECONDS = 5.0


def try_slot(cgroups: CgroupDriver, directory: str) -> str:
    """Start a command in a slot below the groups of ``cgroups``, as a node does; "" or why that does not work.

    ``directory`` is for its files. Nothing of it is left but that. Blocks, mostly for some 50 ms.
    """
    return asyncio.run(_try(cgroups, directory))


async def _try(cgroups: CgroupDriver, directory: str) -> str:
    loop = asyncio.get_running_loop()
    told: asyncio.Future[str] = loop.create_future()

    def tell(why: str) -> None:
        if not told.done():
            told.set_result(why)

    def ended(held: LiveContainer, settle: object, code: int) -> None:
        assert callable(settle)
        usage: ContainerUsage = settle()
        tell("" if code == 0 else f"a command ended with {code} after {usage.cpu_seconds} s of CPU")

    places = Directories(directory, directory, directory)
    context = ExecutorContext(cgroups, places, loop=loop, post=lambda event: None, clock=time.monotonic)
    pool = Pool(
        context,
        1,
        began=lambda held: None,
        ended=ended,
        failed=lambda held, request, code, why, number: tell(why),
        refused=lambda held, request, limits: tell(pool.trouble),
        quiet=True,
    )
    request = LaunchRequest(NAME, ("true",), {"PATH": "/usr/bin:/bin"}, "/", "/dev/null", "/dev/null", "")
    try:
        if not pool.launch(LiveContainer(NAME, 0, 0, ""), request, CgroupLimits()):
            return pool.trouble or "its limits cannot be written"
        await asyncio.wait([told], timeout=SECONDS)
        if told.done():
            return told.result()
        await asyncio.to_thread(context.kill, NAME)
        return f"a command has not ended after {SECONDS:g} s"
    finally:
        await pool.close()
        await context.finish()
        if not told.done():
            await asyncio.to_thread(cgroups.remove, NAME, 1.0)
