"""Starts containers by launchers, and hears from these: in slots with a cgroup, or in cgroups of their own by a
launcher outside, where there are no slots, or the container does not fit into one.

While a container runs, its launcher can be sent the one that follows: it begins in the moment in which the first has
ended and has left nothing. Until then the node can take it back (``launcher.py`` says how).

Decisions: launchers.
"""

from __future__ import annotations

import asyncio
import logging
import marshal
import re
from collections import deque
from collections.abc import Callable

from ...core.machine import beat
from ...errors import CgroupError
from ...light import replace
from ...records import MIB, CgroupLimits, ContainerUsage
from ..cgroups.slots import Figures
from ..context import ExecutorContext, LiveContainer
from ..launcher import LEFT_BYTES, receiver_of, sender_of
from ..processes import kill_identified
from ..requests import LaunchRequest
from ..threads import beside
from .losses import Losses
from .making import Slots
from .slot import LARGEST_MESSAGE, Occupant, Slot, continue_reporter, message_of

LOG = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
"""The interval of checks on launchers that should be doing something."""

SELDOM = 5
"""While all slots are idle, checks are so many times further apart."""

MOST_LOOKS = 100
"""How many adopted containers one check covers, in turn: each takes 11 us, and there may be thousands."""

START_SECONDS = 60.0
"""How long a launcher may take to start a container: with the least weight it waits long on a busy host."""

READY_SECONDS = 10.0
"""How long a new launcher may take to join its cgroup; one outside, for which there is no other way, takes
START_SECONDS at most."""

LEAST_MEMORY_BYTES = 16 * MIB
"""A container with a lower memory limit gets a cgroup of its own: a launcher uses about 1 MiB of a slot's."""

USUAL_SLOTS = 100
QUICK_KERNEL = (6, 6)
"""The first Linux whose scheduler (EEVDF) makes a process of the least weight wait for no more than its own
share."""


def most_slots(wanted: int, release: str) -> int:
    """How many slots there may be: ``wanted``, or for -1 what suits the kernel of this ``release`` ("6.1.0-9")."""
    if wanted >= 0:
        return wanted
    version = re.match(r"(\d+)\.(\d+)", release)
    return USUAL_SLOTS if version and (int(version[1]), int(version[2])) >= QUICK_KERNEL else 0


class Pool:
    """Up to ``limit`` slots with a cgroup; none if that is 0, or without cgroups.

    ``began`` is called when a container runs, with its pid set, since when, by the clock, and whether ``ended`` is
    called at once; ``ended`` when its process has ended, with a function that frees the slot and returns the figures,
    the exit code, the container that follows and begins ("" for none), and whether it is known to have left no process;
    ``failed`` when it cannot be started, with its request, exit code, reason, errno, and whether the node is at fault.
    All are called from the loop, never from ``launch``. ``Slots`` has the rest.
    """

    def __init__(
        self,
        context: ExecutorContext,
        limit: int,
        *,
        began: Callable[[LiveContainer, float, bool], None],
        ended: Callable[[LiveContainer, Callable[[], ContainerUsage], int, str, bool], None],
        failed: Callable[..., None],
        read_only: tuple[str, ...] = (),
        quiet: bool = False,
    ) -> None:
        self._context = context
        self._cgroups = context.cgroups
        self._loop = context.loop
        self._began, self._ended, self._failed = began, ended, failed
        self._slots = Slots(context, limit, self._readable, read_only=read_only, quiet=quiet)
        self._losses = Losses(
            context,
            began=began,
            ended=ended,
            remove=self._slots.remove,
            elsewhere=self._begin_outside,
            take_next=self._take_next,
        )
        #: the slots of containers, and of those that follow
        self._slot_of: dict[str, Slot] = {}
        self._adopted = deque[LiveContainer]()
        self._checking: asyncio.TimerHandle | None = None
        if limit and self._cgroups.mode == "none":
            self._slots.never("no cgroups can be used here")

    @property
    def used(self) -> bool:
        """Whether containers are started in slots with a cgroup, as long as there are enough."""
        return self._slots.used

    @property
    def trouble(self) -> str:
        """Why no slot can be made, "" if there was no failure."""
        return self._slots.trouble

    def launch(self, held: LiveContainer, request: LaunchRequest, limits: CgroupLimits) -> None:
        """Begin to start a container within its limits. Raises CgroupError or OSError."""
        fits = limits.memory_max is None or limits.memory_max >= LEAST_MEMORY_BYTES
        # A launcher cannot put the container that it starts into the cgroup of the container's GPUs.
        slot = self._slots.inside() if fits and not request.join else None
        if slot is None:
            self._launch_outside(held, request, limits)
            return
        self._cgroups.lend(held.container_id, slot.group)
        try:
            self._cgroups.set_limits(held.container_id, limits)
        except (CgroupError, OSError) as error:
            # The kernel may accept these limits for a cgroup that has never been used.
            LOG.debug("%s is not used again: %s", slot.group.name, error)
            self._cgroups.give_back(held.container_id)
            self._slots.retire(slot)
            self._launch_outside(held, request, limits)
            return
        held.inside = True
        self._begin(slot, Occupant(held, request, limits))

    def _launch_outside(self, held: LiveContainer, request: LaunchRequest, limits: CgroupLimits) -> None:
        """Begin to start a container in a cgroup of its own."""
        held.inside = False
        joins = self._cgroups.create(held.container_id, limits)
        try:
            slot = self._slots.outside()
        except (CgroupError, OSError) as error:
            why, number = f"no launcher can be started: {error}", getattr(error, "errno", None) or 0
            self._loop.call_soon(self._failed, held, request, 125, why, number, True)
            return
        self._begin(slot, Occupant(held, replace(request, join=(*joins, *request.join)), limits))

    def _begin(self, slot: Slot, one: Occupant) -> None:
        slot.message = message_of(one.held, one.request, idle_cpu=self._cgroups.mode == "none")
        slot.now = one
        self._slot_of[one.held.container_id] = slot
        self._slots.needed(slot)
        if slot.ready:
            self._send(slot)
        self._check_soon()

    def follow(self, first: LiveContainer, following: Occupant) -> bool:
        """Have a container begin in the moment in which another one ends; False if that is not possible."""
        held = following.held
        assert held.container_id not in self._slot_of
        slot = self._slot_of.get(first.container_id)
        if slot is None or slot.now is None or slot.now.held is not first or slot.next is not None:
            return False
        usable = self.used and slot.ready and slot.group.confined and self._slots.sees_all(slot)
        leaves = first.over or first.ending or first.pausing or first.frozen
        if not usable or leaves or slot.group.limits != following.limits:
            return False
        message = message_of(held, following.request, queued=True)
        if len(message) > LARGEST_MESSAGE:
            return False
        try:
            sender_of(slot.ahead, slot.generation).send(message)
        except OSError as error:
            LOG.debug("%s does not follow: %s", held.container_id, error)
            return False
        held.inside = True
        slot.next = following
        self._slot_of[held.container_id] = slot
        return True

    def take_back(self, container_id: str) -> bool:
        """Take back the container that follows this one, or this one if it follows another one. Returns False if
        it has been taken by the launcher: the one before it has ended."""
        slot = self._slot_of.get(container_id)
        if slot is None or slot.next is None:
            return True
        try:
            receiver_of(slot.ahead, slot.generation).recv(1)
        except OSError:
            # It is not there any more; or the launcher has died, and what it has done is being read.
            if slot.now is not None:
                slot.now.held.over = True
            return False
        if (following := self._take_next(slot)) is not None:
            following.waits_on()
        return True

    def follows(self, container_id: str) -> Occupant | None:
        """The container, if it follows another one."""
        slot = self._slot_of.get(container_id)
        following = None if slot is None else slot.next
        return following if following is not None and following.held.container_id == container_id else None

    def _take_next(self, slot: Slot) -> Occupant | None:
        following, slot.next = slot.next, None
        if following is not None:
            del self._slot_of[following.held.container_id]
        return following

    def warm(self) -> None:
        """Begin to make a first slot for a container that will come soon."""
        if self._slots.warm():
            self._check_soon()

    def adopt(self, held: LiveContainer) -> None:
        """Check regularly that the container's launcher, of an earlier run, is not left stopped."""
        self._adopted.append(held)
        self._check_soon()

    async def close(self, is_open: Callable[[str], bool] = lambda container_id: False) -> None:
        """End idle slots. Launchers of running containers end with them. A journal stays if it has a
        container which ``is_open``: its end was reported here and is recorded nowhere else."""
        if self._checking is not None:
            self._checking.cancel()
        for slot in self._slots.all:
            if slot.next is not None:
                self.take_back(slot.next.held.container_id)
        await self._slots.close(is_open)

    def _vacate(self, slot: Slot) -> None:
        """The container in the slot is not there any more."""
        if slot.now is not None:
            self._cgroups.give_back(slot.now.held.container_id)
            del self._slot_of[slot.now.held.container_id]
            slot.now = None

    def _free(self, slot: Slot) -> None:
        self._vacate(slot)
        self._slots.free(slot)

    def _check_soon(self) -> None:
        if self._checking is not None and self._checking.when() > self._loop.time() + CHECK_SECONDS:
            self._checking.cancel()
            self._checking = None
        if self._checking is None:
            self._check_in(CHECK_SECONDS)

    def _check_in(self, seconds: float) -> None:
        self._checking = self._loop.call_at(beat(self._loop.time(), seconds), self._check)

    def _check(self) -> None:
        """Check on what should have happened, and remove idle slots."""
        now = self._loop.time()
        for slot in list(self._slots.all):
            if not slot.ready:
                if now - slot.since > (START_SECONDS if slot.outside else READY_SECONDS):
                    slot.refusal = "a launcher did not start", 0
                    if not slot.outside:
                        self._slots.cannot(slot.refusal[0])
                    self._lost(slot)
                    self._slots.end_zygote()
                continue
            if slot.now is not None:
                continue_reporter(slot.now.held)
                if not slot.now.held.pid and now - slot.since > START_SECONDS:
                    kill_identified(slot.group.launcher, slot.start)
        for held in [self._adopted.popleft() for _ in range(min(len(self._adopted), MOST_LOOKS))]:
            if not held.ended:
                continue_reporter(held)
                self._adopted.append(held)
        self._checking = None
        if self._slots.remove_idle() or self._adopted:
            at_rest = len(self._slots.idle) == len(self._slots.all) and not self._adopted
            self._check_in(CHECK_SECONDS * (SELDOM if at_rest else 1))

    # ---- what launchers say

    def _send(self, slot: Slot) -> None:
        assert slot.now is not None
        slot.now.held.launcher = slot.group.launcher, slot.start
        try:
            slot.send()
        except ConnectionError as error:
            LOG.debug("the launcher of %s is gone: %s", slot.group.name, error)
            # The socket reports the launcher's end.
        except OSError as error:
            self._loop.call_soon(self._unsent, slot, slot.now, error)

    def _unsent(self, slot: Slot, unsent: Occupant, error: OSError) -> None:
        """Handle a live launcher whose socket does not take the request: it is too large, or memory is short."""
        if slot in self._slots.all and slot.now is unsent:
            LOG.debug("the launcher of %s cannot be reached: %s", slot.group.name, error)
            self._give_up(slot)

    def _give_up(self, slot: Slot) -> None:
        """Start the slot's container, which has not begun, by another launcher outside, and remove the slot."""
        self._none_follows(slot)
        gone = slot.now
        self._vacate(slot)
        self._slots.retire(slot)
        if gone is not None:
            self._begin_outside(gone)

    def _none_follows(self, slot: Slot) -> None:
        """Take back the container that was to follow: the launcher has nothing to wait for."""
        if slot.next is not None and not self.take_back(slot.next.held.container_id):
            raise AssertionError(f"{slot.next.held.container_id} follows nothing")

    def _readable(self, slot: Slot) -> None:
        """Read all messages of the launcher: a short container has often ended by the time its start is received."""
        while slot.sock.fileno() >= 0:
            try:
                data = slot.sock.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._lost(slot)
                return
            self._handle(slot, data)

    def _handle(self, slot: Slot, data: bytes) -> None:
        kind, *rest = marshal.loads(data)
        match kind:
            case "ready":
                slot.group.launcher, slot.start, slot.group.confined, *counted = rest
                slot.base_bytes, slot.group.resets_peak = counted
                slot.ready = True
                if slot.message:
                    self._send(slot)
                else:
                    self._free(slot)
            case "refused":
                slot.refusal = rest[0], rest[1]
                if not slot.outside:
                    self._slots.cannot(rest[0])
            case "crowded":
                self._slots.cannot(self._cgroups.crowded(rest[1]))
                self._give_up(slot)
            case "started":
                self._started(slot, *rest[1:], over=False)
            case "failed":
                self._none_follows(slot)
                if (gone := slot.now) is not None:
                    self._free(slot)
                    self._failed(gone.held, gone.request, *rest[1:])
            case "ended":
                self._has_ended(slot, *rest[1:])
            case "ran":
                _, pid, start, base, seconds, *end = rest
                self._started(slot, pid, start, base, self._context.clock() - seconds, over=True)
                self._has_ended(slot, *end)

    def _has_ended(self, slot: Slot, code: int, figures: Figures, following: str, silent: bool) -> None:
        if not following and slot.next is not None and not self.take_back(slot.next.held.container_id):
            following = slot.next.held.container_id  # its launcher has found it a moment later
        if (gone := slot.now) is not None:
            gone.held.over, gone.held.silent = True, silent
            if changed := int(figures[-1]):
                slot.group.changed, slot.group.limits = changed, None
            clean = figures[5] == 1 and slot.group.confined
            settle = self._pass_on if following else self._settle
            self._ended(gone.held, lambda: settle(slot, gone.held, figures), code, following, clean)

    def _started(self, slot: Slot, pid: int, start: int, base: Figures, begun: float, *, over: bool) -> None:
        """It has begun then, by the clock; ``over``: and has ended."""
        if slot.now is None:
            return
        slot.group.begin(base)
        held = slot.now.held
        held.pid, held.start = pid, start
        self._began(held, begun, over)
        self._slots.spare_one()

    def _settle(self, slot: Slot, held: LiveContainer, figures: Figures) -> ContainerUsage:
        """Return the figures of a container of which nothing is left. The slot is freed if it is as it was."""
        if held.frozen:
            self._cgroups.thaw(held.container_id)
        usage = slot.group.usage_of(figures, self._context.clock())
        if slot.outside:
            usage = self._cgroups.usage(held.container_id, self._context.clock())
            usage = replace(usage, cpu_seconds=max(usage.cpu_seconds, figures[0]))
        elif figures[5] != 1:  # the node had to look, and perhaps to end what was left
            usage = slot.group.usage(self._context.clock(), 0)
        if slot not in self._slots.all:
            self._cgroups.give_back(held.container_id)
            slot.group.close()  # reading the figures has opened files again
        elif (
            held.pausing and held.inside
        ) or slot.group.is_spoilt():  # a late pause would hit the next container
            self._vacate(slot)
            self._slots.retire(slot)
        elif held.inside and usage.memory_bytes > slot.base_bytes + LEFT_BYTES:
            self._vacate(slot)
            self._context.spawn(self._empty(slot))
        else:
            self._free(slot)
        return usage

    def _pass_on(self, slot: Slot, held: LiveContainer, figures: Figures) -> ContainerUsage:
        """Return the figures of a container; its slot belongs to the one that follows."""
        usage = slot.group.usage_of(figures, self._context.clock())
        following, slot.next = slot.next, None
        assert following is not None
        name = following.held.container_id
        self._vacate(slot)
        slot.now = following
        self._slots.needed(slot)
        following.held.launcher = slot.group.launcher, slot.start
        self._cgroups.lend(name, slot.group)
        try:
            self._cgroups.set_limits(name, following.limits)
        except (CgroupError, OSError) as error:
            LOG.warning("the limits of %s did not change: %s", name, error)
        return usage

    async def _empty(self, slot: Slot) -> None:
        """Let the kernel reclaim the memory that the last container has left, mostly page cache.

        If much stays, such as files on a tmpfs, the slot is removed: the memory would count against the next
        container, and would have to be reclaimed again soon.
        """
        slot.group.limits = None
        try:
            await beside(None, self._cgroups.reclaim, slot.group.name)
        except (CgroupError, OSError) as error:
            LOG.debug("the memory of %s is not reclaimed: %s", slot.group.name, error)
        if slot in self._slots.all and slot.group.memory() > slot.base_bytes + LEFT_BYTES // 2:
            self._slots.retire(slot)
        else:
            self._free(slot)

    def _lost(self, slot: Slot) -> None:
        """Handle the end of a launcher, or its failure to start."""
        if slot not in self._slots.all:
            return
        if slot.next is not None:
            self.take_back(slot.next.held.container_id)
        self._slots.forget(slot)
        gone, slot.now = slot.now, None
        if gone is not None:
            del self._slot_of[gone.held.container_id]
        self._context.spawn(self._losses.clear(slot, gone))

    def _begin_outside(
        self, one: Occupant, why: str = "its launcher ended before it began", number: int = 0
    ) -> None:
        """Start by a launcher outside a container that has not begun, and never will where it is; if that was outside
        already, it has failed."""
        held = one.held
        self._cgroups.give_back(held.container_id)
        if not held.inside:
            self._failed(held, one.request, 125, why, number, True)
            return
        try:
            self._launch_outside(held, one.request, one.limits)
        except (CgroupError, OSError) as error:
            self._failed(held, one.request, 125, str(error), getattr(error, "errno", None) or 0, True)
