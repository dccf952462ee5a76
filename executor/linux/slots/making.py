"""Makes slots when they are needed, one to spare, and removes those that have been idle for a while.

A slot is a launcher in a cgroup, which are made together, or a launcher outside (``outside``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable

from ...errors import CgroupError
from .. import launcher
from ..cgroups.gauges import Gauges
from ..cgroups.slots import SLOT_PREFIX, SlotGroup
from ..context import ExecutorContext
from ..keeping import KeptProgram
from ..threads import beside
from .journals import journal_path, read_journal, remove_journal
from .mounts import MountChanges
from .slot import Slot
from .zygotes import Zygote

LOG = logging.getLogger(__name__)

IDLE_SECONDS = 10.0
"""How long an idle slot stays that is not the last one."""

LAST_SECONDS = 600.0
"""How long the last one stays, and the zygote with it: without them a container starts 10 to 25 ms later."""

UNUSABLE_SECONDS = 60.0
"""How long no slot is made after a failure to make one."""


class Slots:
    """Up to ``limit`` slots with a cgroup, and as many outside as are needed. ``readable`` is called when a launcher
    has sent something, or has ended.

    ``trouble`` is why no slot with a cgroup can be made, "" if there was no failure; it is logged once, unless
    ``quiet``. Containers can only read the directories ``read_only``, as far as the kernel can enforce that.
    """

    def __init__(
        self,
        context: ExecutorContext,
        limit: int,
        readable: Callable[[Slot], None],
        *,
        read_only: tuple[str, ...],
        quiet: bool,
    ) -> None:
        self._context = context
        self._cgroups = context.cgroups
        self._loop = context.loop
        self._limit = limit
        self._readable = readable
        self._read_only = read_only
        self.all: list[Slot] = []
        self.idle: list[Slot] = []
        self._zygote: Zygote | None = None
        self._program = KeptProgram(launcher.__file__)
        self._mounts = MountChanges()
        #: how often mounts have changed unseen by slots
        self._view = 0
        self._number = 0
        self._needed_at = 0.0
        self._unusable_until = 0.0
        self.trouble = ""
        self._said = quiet

    @property
    def used(self) -> bool:
        """Whether containers are started in slots with a cgroup, as long as there are enough."""
        return self._limit > 0 and self._loop.time() >= self._unusable_until

    def needed(self, slot: Slot) -> None:
        """A slot gets a container now."""
        self._needed_at = slot.since = self._loop.time()

    def warm(self) -> bool:
        """Begin to make a first slot for a container that will come soon. If none comes, it is removed like any idle
        slot. Returns whether one is being made."""
        if self.all:
            return False
        try:
            slot = self.inside() if self.used else self.outside()
        except OSError as error:
            LOG.debug("no launcher can be started yet: %s", error)
            return False
        if slot is not None:
            self.needed(slot)
        return slot is not None

    def inside(self) -> Slot | None:
        """A slot with a cgroup and without a container, whose launcher may still be starting; None if there are enough,
        or none can be made."""
        if not self.used:
            return None
        if (slot := self._vacant(outside=False)) is not None or self._are_enough():
            return slot
        try:
            return self._make(outside=False)
        except (CgroupError, OSError) as error:
            self.cannot(str(error))
            return None

    def outside(self) -> Slot:
        """A slot outside that has no container, whose launcher may still be starting. Raises OSError."""
        return self._vacant(outside=True) or self._make(outside=True)

    def _vacant(self, *, outside: bool) -> Slot | None:
        """A slot without a container: an idle one with no process in it but its launcher, or one that is being made."""
        self._follow_mounts()
        for slot in [one for one in reversed(self.idle) if one.outside is outside]:
            self.idle.remove(slot)
            with contextlib.suppress(OSError):  # then there is none for a container either
                if not slot.group.strangers():
                    return slot
            self.retire(slot)
        return next(
            (
                one
                for one in self.all
                if not one.ready and one.now is None and one.view == self._view and one.outside is outside
            ),
            None,
        )

    def _are_enough(self) -> bool:
        return sum(not one.outside for one in self.all) >= self._limit

    def _make(self, *, outside: bool) -> Slot:
        self._follow_mounts()
        if self._zygote is None or not self._zygote.alive():
            state = self._context.directories.state
            self._zygote = Zygote(self._read_only, self._program.at(state), state)
        group, joins = self._name_outside() if outside else self._make_group()
        journal = journal_path(self._context.directories.state, group.name)
        with contextlib.ExitStack() as undo:
            if not outside:
                undo.callback(self._cgroups.remove, group.name)
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            undo.callback(ours.close)
            with theirs:
                ahead = [] if outside else list(socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
                for one in ahead:
                    undo.callback(one.close)
                reaps = self._cgroups.mode == "none"
                self._zygote.fork([theirs, *ahead], journal, joins, group.gauges, reaps)
            undo.pop_all()
        for one in (ours, *ahead):
            one.setblocking(False)
        slot = Slot(group, journal, ours, ahead, self._loop.time(), view=self._view)
        self.all.append(slot)
        self._loop.add_reader(ours.fileno(), self._readable, slot)
        return slot

    def sees_all(self, slot: Slot) -> bool:
        """Whether a launcher sees what is mounted now."""
        self._follow_mounts()
        return slot.view == self._view

    def _follow_mounts(self) -> None:
        """If mounts have changed unseen, remove idle slots, and those in use as soon as they are idle: what is mounted
        there would be missing, and what was unmounted stay in use."""
        if self._mounts.happened():
            self._view += 1
            for slot in list(self.idle):
                self.retire(slot)
            self.end_zygote()

    def spare_one(self) -> None:
        """Have one slot to spare, soon: a container for which others are paused or killed should not have to wait
        for one."""
        if not self.idle and not (self.used and self._are_enough()):
            self._loop.call_soon(self._grow)

    def _grow(self) -> None:
        if self.all and not self.idle:
            with contextlib.suppress(OSError):
                slot = self.inside() if self.used else self.outside()
                if slot is not None and slot.ready:
                    self.idle.append(slot)

    def _name_outside(self) -> tuple[SlotGroup, tuple[str, ...]]:
        while True:
            self._number += 1
            name = f"{SLOT_PREFIX}outside-{self._number}"
            if not os.path.lexists(journal_path(self._context.directories.state, name)):
                return SlotGroup(name, (), Gauges()), ()

    def _make_group(self) -> tuple[SlotGroup, tuple[str, ...]]:
        while True:
            self._number += 1
            name = f"{SLOT_PREFIX}{self._number}"
            if os.path.lexists(journal_path(self._context.directories.state, name)):
                continue  # it is an earlier run's, and still needed
            with contextlib.suppress(FileExistsError):
                made = self._cgroups.make_slot(name)
                if made is None:
                    raise CgroupError("no cgroups can be used here")
                return made

    def never(self, why: str) -> None:
        """No slot can be made on this host."""
        self._limit = 0
        self.cannot(why)

    def cannot(self, why: str) -> None:
        """No slot can be made at present."""
        self.trouble = why
        self._unusable_until = self._loop.time() + UNUSABLE_SECONDS
        (LOG.debug if self._said else LOG.warning)(
            "no slot can be created, so each container gets a cgroup of its own, if any: %s", why
        )
        self._said = True

    # ---- slots go

    def free(self, slot: Slot) -> None:
        """The slot has no container."""
        slot.since = self._loop.time()
        if slot.ready and slot in self.all:
            if slot.view == self._view:
                self.idle.append(slot)
            else:
                self.retire(slot)

    def forget(self, slot: Slot) -> None:
        """Stop using a slot, whose launcher ends as soon as it is idle."""
        if slot in self.idle:
            self.idle.remove(slot)
        if slot in self.all:
            self.all.remove(slot)
            self._loop.remove_reader(slot.sock.fileno())
            slot.close()

    def retire(self, slot: Slot) -> None:
        """Stop using a slot that holds no container, and remove it."""
        self.forget(slot)
        self._context.spawn(self.remove(slot))

    async def remove(self, slot: Slot, is_open: Callable[[str], bool] = lambda container_id: False) -> None:
        """Remove a slot whose launcher has ended, or is about to. Its journal stays if it has a container which
        ``is_open``.

        Processes that somebody else has put into it are not ended; then the slot's cgroup stays.
        """
        await beside(None, self._remove, slot, is_open)

    def _remove(self, slot: Slot, is_open: Callable[[str], bool]) -> None:
        if not slot.outside and not self._cgroups.remove(slot.group.name, 1.0):
            strangers: list[int] = []
            if slot.ready:
                with contextlib.suppress(OSError):
                    strangers = slot.group.processes()
            if strangers:
                LOG.warning(
                    "the cgroup %s is kept: it contains processes that are not yopp's: %s",
                    slot.group.name,
                    strangers,
                )
            else:
                self._context.kill(slot.group.name)
                if not self._cgroups.remove(slot.group.name, 1.0):
                    LOG.warning("the cgroup %s cannot be removed", slot.group.name)
        try:
            if not any(is_open(one.container_id) for one in read_journal(slot.journal).begun):
                remove_journal(slot.journal)
        except OSError as error:
            LOG.warning("%s cannot be removed: %s", slot.journal, error.strerror)

    def remove_idle(self) -> bool:
        """Remove what has not been needed for long. Returns whether anything is left."""
        self._follow_mounts()
        now = self._loop.time()
        unneeded = now - self._needed_at
        for slot in [one for one in self.idle if now - one.since > IDLE_SECONDS]:
            if unneeded > (LAST_SECONDS if len(self.all) == 1 else IDLE_SECONDS):
                self.retire(slot)
        if self._zygote is not None and not self.all and unneeded > LAST_SECONDS:
            self.end_zygote()
        return bool(self.all) or self._zygote is not None

    def end_zygote(self) -> None:
        """End it; the next slot gets a new one."""
        zygote, self._zygote = self._zygote, None
        if zygote is not None:
            self._context.spawn(beside(None, zygote.close))

    async def close(self, is_open: Callable[[str], bool]) -> None:
        """Make no more slots, and remove those without a container. Launchers of running containers end with them."""
        self._limit = 0
        self._mounts.close()
        vacant = [slot for slot in self.all if slot.now is None]
        for slot in list(self.all):
            self.forget(slot)
        await asyncio.gather(*(self.remove(slot, is_open) for slot in vacant))
        if self._zygote is not None:
            await beside(None, self._zygote.close)
