"""What became of the containers of a launcher that has died, or did not start: told by its journal."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable

from ...records import ContainerUsage
from ..context import ExecutorContext, LiveContainer
from ..processes import RETRY_SECONDS
from ..threads import beside
from .journals import Begun, Journal, read_journal
from .slot import Occupant, Slot

LOG = logging.getLogger(__name__)

KILLED = 128 + signal.SIGKILL


class Losses:
    """Clears slots that are lost. ``began`` and ``ended`` are those of the pool; ``remove`` removes a slot;
    ``elsewhere`` starts by another launcher a container that has not begun in this slot, and never will; ``take_next``
    takes the container that follows out of the slot."""

    def __init__(
        self,
        context: ExecutorContext,
        *,
        began: Callable[[LiveContainer, float, bool], None],
        ended: Callable[[LiveContainer, Callable[[], ContainerUsage], int, str, bool], None],
        remove: Callable[[Slot], Awaitable[None]],
        elsewhere: Callable[..., None],
        take_next: Callable[[Slot], Occupant | None],
    ) -> None:
        self._context = context
        self._began, self._ended = began, ended
        self._remove, self._elsewhere, self._take_next = remove, elsewhere, take_next

    async def clear(self, slot: Slot, gone: Occupant | None) -> None:
        """End what outlived a launcher and find out what became of its containers: report their ends, or start
        one without a slot if it never began. ``gone`` was the one in the slot."""
        if gone is None:
            await self._remove(slot)
            return
        held = gone.held
        if held.inside:
            self._context.cgroups.give_back(held.container_id)
        journal = await self._journal_of_ended(slot, held.container_id)
        if journal is None:
            return
        following = self._take_next(slot)
        last = journal.last_of(held.container_id)
        begun = None if following is None else journal.last_of(following.held.container_id)
        # A missing journal, removed by somebody, does not prove that nothing has begun.
        if last is None and not held.pid and (journal.launcher or not slot.ready):
            await self._remove(slot)
            self._elsewhere(gone, *(slot.refusal if slot.refusal[0] else ()))
            return
        self._tell(slot, held, last, following.held.container_id if following and begun else "")
        if following is not None and begun is not None:
            slot.group.baseline = begun.baseline
            self._tell(slot, following.held, begun, "")
        slot.group.close()
        await self._remove(slot)
        if following is None or begun is not None:
            return
        if following.wanted:
            self._elsewhere(following)
        else:
            following.waits_on()

    def _tell(self, slot: Slot, held: LiveContainer, begun: Begun | None, following: str) -> None:
        """Report a container by what its launcher has written."""
        if not held.pid:
            pid, held.start = (begun.pid, begun.start) if begun is not None else (0, 0)
            held.pid = pid or slot.group.launcher
            if begun is not None:
                slot.group.baseline = begun.baseline
            self._began(held, self._context.clock(), False)
        now, group = self._context.clock(), slot.group
        usage = self._context.cgroups.usage(held.container_id, now) if slot.outside else group.usage(now, 0)
        code = KILLED if begun is None or begun.code is None else begun.code
        self._ended(held, lambda: usage, code, following, False)

    async def _journal_of_ended(self, slot: Slot, container_id: str) -> Journal | None:
        """End everything in the slot's cgroup, until nothing is left; then read what its launcher has
        written. None if this node ends before: its next run handles it."""
        cgroups, name = self._context.cgroups, container_id if slot.outside else slot.group.name
        while not self._context.in_a_hurry:
            await beside(None, self._context.kill, name)
            try:
                if not await beside(None, cgroups.processes, name):
                    return await beside(None, read_journal, slot.journal)
            except OSError as error:
                LOG.warning(
                    "what became of the container in %s cannot be read yet: %s", slot.group.name, error
                )
            await asyncio.sleep(RETRY_SECONDS)
        return None
