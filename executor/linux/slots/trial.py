"""Tries once how containers are started on this host, for people who ask."""

from __future__ import annotations

import asyncio
import time

from ...light import Record
from ...records import CgroupLimits, ContainerUsage
from ..cgroups.base import CgroupDriver
from ..confining import kept_from_containers
from ..context import ExecutorContext, LiveContainer
from ..directories import Directories
from ..requests import LaunchRequest
from .pool import Pool

NAME = "trial"
SECONDS = 5.0
_UNCONFINED = 3
_TRY = f'for one; do [ ! -w "$one" ] || exit {_UNCONFINED}; done'


class Tried(Record):
    """The result of a trial: ``trouble`` is why no container can be started so, "" if one can;
    ``confined`` whether the container was kept from writing its own cgroups and the node's records."""

    trouble: str = ""
    confined: bool = False


def try_slot(cgroups: CgroupDriver, directory: str, most: int) -> Tried:
    """Start a command below the cgroups of ``cgroups``, as a node does that confines its containers: in a slot, or by a
    launcher outside if ``most`` is 0.

    ``directory`` is for its files, and is all that remains. Blocks, usually for some 50 ms.
    """
    trouble = asyncio.run(_try(cgroups, directory, most))
    if trouble is None:
        return Tried(confined=False)
    return Tried(trouble, confined=not trouble)


async def _try(cgroups: CgroupDriver, directory: str, most: int) -> str | None:
    """Why the trial fails, "" if it works, None if it works but the command could write what it must not."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[str | None] = loop.create_future()

    def tell(why: str | None) -> None:
        if not told.done():
            told.set_result(why)

    def ended(held: LiveContainer, settle: object, code: int, following: str, clean: bool) -> None:
        assert callable(settle)
        usage: ContainerUsage = settle()
        if code == _UNCONFINED:
            tell(None)
            return
        tell("" if code == 0 else f"a command ended with {code} after {usage.cpu_seconds} s of CPU")

    places = Directories(directory, directory, directory)
    context = ExecutorContext(cgroups, places, loop=loop, post=lambda event: None, clock=time.monotonic)
    pool = Pool(
        context,
        most,
        began=lambda held, begun, over: None,
        ended=ended,
        failed=lambda held, request, code, why, *more: tell(why),
        quiet=True,
        read_only=kept_from_containers(directory),
    )
    kept = (*cgroups.describe().locations.values(), directory)
    request = LaunchRequest(
        NAME, ("sh", "-c", _TRY, "sh", *kept), {"PATH": "/usr/bin:/bin"}, "/", "/dev/null", "/dev/null"
    )
    held = LiveContainer(NAME, 0, 0)
    try:
        pool.launch(held, request, CgroupLimits())
        await asyncio.wait([told], timeout=SECONDS)
        if told.done():
            return (
                told.result() if held.inside or not most else pool.trouble or "its limits cannot be written"
            )
        await asyncio.to_thread(context.kill, NAME)
        return f"a command has not ended after {SECONDS:g} s"
    finally:
        await pool.close()
        await context.finish()
        if not (told.done() and held.inside):
            await asyncio.to_thread(cgroups.remove, NAME, 1.0)
