"""Tries once whether containers can be started in slots on this host, for people who ask why they are not."""

from __future__ import annotations

import asyncio
import marshal
import os
import subprocess
import sys
import tempfile
import time

from ...light import Record
from ...records import CgroupLimits, ContainerUsage
from .. import launcher
from ..cgroups.base import CgroupDriver
from ..confining import kept_from_containers
from ..context import ExecutorContext, LiveContainer
from ..directories import Directories
from ..shim import LaunchRequest
from .pool import Pool

NAME = "trial"
SECONDS = 5.0
_UNCONFINED = 3
_TRY = f'for one; do [ ! -w "$one" ] || exit {_UNCONFINED}; done'


class Tried(Record):
    """The result of a trial: ``trouble`` is why no container can be started in a slot, "" if one can;
    ``confined`` whether the container was kept from writing its own cgroups and the node's records."""

    trouble: str = ""
    confined: bool = False


def try_without_slot(cgroups: CgroupDriver, directory: str) -> bool:
    """Whether a command without a slot, confined as root's node does it, is kept from writing the cgroups of
    ``cgroups`` and ``directory``. Raises OSError if it cannot be started. Blocks, usually for some 20 ms."""
    kept = (*dict.fromkeys(cgroups.describe().locations.values()), directory)
    command = ["/bin/sh", "-c", _TRY, "sh", *(path for path in kept if os.path.exists(path))]
    variables = {"PATH": "/usr/bin:/bin"}
    request = (list(kept_from_containers(directory)), None, command, variables, "/", "", "", -1)
    with tempfile.TemporaryFile() as told:
        told.write(marshal.dumps(request))
        told.flush()
        words = [sys.executable, "-I", "-S", "-Xutf8", launcher.__file__, launcher.ENTER, str(told.fileno())]
        ended = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(told.fileno(),),
            timeout=SECONDS,
            check=False,
        )
    return ended.returncode == 0


def try_slot(cgroups: CgroupDriver, directory: str) -> Tried:
    """Start a command in a slot below the cgroups of ``cgroups``, as a node does that confines its containers.

    ``directory`` is for its files, and is all that remains. Blocks, usually for some 50 ms.
    """
    trouble = asyncio.run(_try(cgroups, directory))
    if trouble is None:
        return Tried(confined=False)
    return Tried(trouble, confined=not trouble)


async def _try(cgroups: CgroupDriver, directory: str) -> str | None:
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
        1,
        began=lambda held, begun, over: None,
        ended=ended,
        failed=lambda held, request, code, why, *more: tell(why),
        refused=lambda held, request, limits: tell(pool.trouble),
        quiet=True,
        read_only=kept_from_containers(directory),
    )
    kept = (*cgroups.describe().locations.values(), directory)
    request = LaunchRequest(
        NAME, ("sh", "-c", _TRY, "sh", *kept), {"PATH": "/usr/bin:/bin"}, "/", "/dev/null", "/dev/null", ""
    )
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
