"""A pool of slots: cgroups made in advance for containers, each with a resident launcher.

Making a cgroup for a container and joining it takes milliseconds, most of which the kernel waits. A slot's launcher
(``launcher.py``) has joined once. A process that it starts is born in the cgroup; the launcher reports the start and
the end over a socket: nothing is made, watched or removed for a single container. A slot holds one container at a
time. Before the next one, all that is left in its cgroup is ended, and figures start from zero.

While a container runs, its launcher can be sent the one that follows: it begins in the moment in which the first has
ended and has left nothing. Until then the node can take it back (``launcher.py`` says how).

Slots are made when they are needed, one to spare, and removed when they have been idle for a while. If this process
dies, its launchers continue until their containers have ended, and write the exit codes to a journal (``slots.py``).

Decisions: slots.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import marshal
import os
import re
import signal
import socket
import subprocess
import sys
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import CgroupError
from ..records import MIB, CgroupLimits, ContainerUsage
from . import launcher
from .cgroups.slots import SLOT_PREFIX, Figures, SlotGroup
from .context import ExecutorContext, LiveContainer
from .descriptors import limit_of_children
from .keeping import KeptProgram, compiled
from .launcher import LEFT_BYTES, receiver_of, sender_of
from .procfs import read_stat, send
from .shim import RETRY_SECONDS, LaunchRequest, kill_identified
from .slots import Begun, Journal, can_be_written, journal_path, read_journal, remove_journal
from .threads import beside
from .zygotes import marked_environment

LOG = logging.getLogger(__name__)

IDLE_SECONDS = 10.0
"""How long an idle slot stays; the zygote stays as long again without any slot."""

CHECK_SECONDS = 1.0
"""The interval of checks on launchers that should be doing something."""

MOST_LOOKS = 100
"""How many adopted containers one check covers, in turn: each takes 11 us, and there may be thousands."""

START_SECONDS = 60.0
"""How long a launcher may take to start a container: with the least weight it waits long on a busy host."""

READY_SECONDS = 10.0
"""How long a new launcher may take to join its cgroup."""

UNUSABLE_SECONDS = 60.0
"""How long no slot is made after a failure to make one."""

LARGEST_REQUEST = 100_000
"""A longer request is started without a slot: a socket takes twice that."""

LEAST_MEMORY_BYTES = 16 * MIB
"""A container with a lower memory limit gets a cgroup of its own: a launcher uses about 1 MiB of a slot's."""

KILLED = 128 + signal.SIGKILL

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


@dataclass(slots=True)
class Occupant:
    """A container in a slot, or the one that follows it. ``wanted``: the node has decided to start it meanwhile;
    ``waits_on`` is called if it was to follow and has not begun."""

    held: LiveContainer
    request: LaunchRequest
    limits: CgroupLimits
    waits_on: Callable[[], None] = lambda: None
    wanted: bool = False


@dataclass(eq=False)
class Slot:
    """One slot. ``now`` is the container in it, ``next`` the one that follows; ``message`` the request that its
    launcher is still to get. ``ahead`` are both ends of the sockets for the one that follows; ``generation`` counts the
    containers that were sent to the idle launcher."""

    group: SlotGroup
    journal: str
    sock: socket.socket
    ahead: list[socket.socket]
    now: Occupant | None = None
    next: Occupant | None = None
    message: bytes = b""
    generation: int = 0
    start: int = 0
    since: float = 0.0
    base_bytes: int = 0
    ready: bool = False


class Pool:
    """Up to ``limit`` slots; none if that is 0, or without cgroups.

    ``began`` is called when a container runs, with its pid set, and how many seconds it ran if ``ended`` is called at
    once; ``ended`` when its process has ended, with a function that frees the slot and returns the figures, the exit
    code, the container that follows and begins ("" for none), and whether it is known to have left no process;
    ``failed`` when it cannot be started, with its request, exit code, reason and errno; ``refused`` when it has to be
    started without a slot. All are called from the loop, never from ``launch``.

    ``trouble`` is why no slot can be made, "" if there was no failure; it is logged once, unless ``quiet``.
    Containers can only read the directories ``read_only``, as far as the kernel can enforce that.
    """

    def __init__(
        self,
        context: ExecutorContext,
        limit: int,
        *,
        began: Callable[[LiveContainer, float | None], None],
        ended: Callable[[LiveContainer, Callable[[], ContainerUsage], int, str, bool], None],
        failed: Callable[[LiveContainer, LaunchRequest, int, str, int], None],
        refused: Callable[[LiveContainer, LaunchRequest, CgroupLimits], None],
        read_only: tuple[str, ...] = (),
        quiet: bool = False,
    ) -> None:
        self._read_only = read_only
        self._context = context
        self._cgroups = context.cgroups
        self._loop = context.loop
        self._limit = limit
        self._began, self._ended, self._failed, self._refused = began, ended, failed, refused
        #: the slots of containers, and of those that follow
        self._slot_of: dict[str, Slot] = {}
        self._idle: list[Slot] = []
        self._slots: list[Slot] = []
        self._zygote: Zygote | None = None
        self._program = KeptProgram(launcher.__file__)
        self._adopted = deque[LiveContainer]()
        self._number = 0
        self._unusable_until = 0.0
        self.trouble = ""
        self._said = quiet
        self._checking: asyncio.TimerHandle | None = None
        self._needed_at = 0.0
        if limit and self._cgroups.mode == "none":
            self._never("this host has no cgroups")
        elif limit and sys.getfilesystemencoding() != "utf-8":
            self._never("file names are not UTF-8 here")

    @property
    def used(self) -> bool:
        """Whether containers are started in slots, as long as there are enough."""
        return self._limit > 0 and self._loop.time() >= self._unusable_until

    def launch(self, held: LiveContainer, request: LaunchRequest, limits: CgroupLimits) -> bool:
        """Begin to start a container within its limits; False if it has to be started without a slot."""
        if not self.used or not can_be_written(held.container_id):
            return False
        if limits.memory_max is not None and limits.memory_max < LEAST_MEMORY_BYTES:
            return False
        slot = self._free_one() or self._coming() or self._make()
        if slot is None:
            return False
        self._cgroups.lend(held.container_id, slot.group)
        try:
            self._cgroups.set_limits(held.container_id, limits)
            slot.message = _message(held, request)
        except CgroupError as error:
            # The kernel may accept these limits for a cgroup that has never been used.
            LOG.debug("%s is not used again: %s", slot.group.name, error)
            self._cgroups.give_back(held.container_id)
            self._retire(slot)
            return False
        if len(slot.message) > LARGEST_REQUEST:
            slot.message = b""
            self._cgroups.give_back(held.container_id)
            self._free(slot)
            return False
        held.pooled = True
        slot.now = Occupant(held, request, limits)
        self._slot_of[held.container_id] = slot
        self._needed_at = slot.since = self._loop.time()
        if slot.ready:
            self._send(slot)
        self._check_soon()
        return True

    def follow(self, first: LiveContainer, following: Occupant) -> bool:
        """Have a container begin in the moment in which another one ends; False if that is not possible."""
        held = following.held
        assert held.container_id not in self._slot_of
        slot = self._slot_of.get(first.container_id)
        if slot is None or slot.now is None or slot.now.held is not first or slot.next is not None:
            return False
        usable = self.used and slot.ready and slot.group.confined
        leaves = first.over or first.ending or first.pausing or first.frozen
        if not usable or leaves or slot.group.limits != following.limits:
            return False
        message = _message(held, following.request, queued=True)
        if len(message) > LARGEST_REQUEST or not can_be_written(held.container_id):
            return False
        try:
            sender_of(slot.ahead, slot.generation).send(message)
        except OSError as error:
            LOG.debug("%s does not follow: %s", held.container_id, error)
            return False
        held.pooled = True
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
        self._forget_next(slot)
        return True

    def follows(self, container_id: str) -> Occupant | None:
        """The container, if it follows another one."""
        slot = self._slot_of.get(container_id)
        following = None if slot is None else slot.next
        return following if following is not None and following.held.container_id == container_id else None

    def _forget_next(self, slot: Slot) -> None:
        following, slot.next = slot.next, None
        if following is not None:
            del self._slot_of[following.held.container_id]
            following.waits_on()

    def warm(self) -> None:
        """Begin to make a first slot for a container that will come soon. If none comes, it is removed like
        any idle slot."""
        if self.used and not self._slots and self._make() is not None:
            self._needed_at = self._loop.time()
            self._check_soon()

    def adopt(self, held: LiveContainer) -> None:
        """Check regularly that the container's shim, or its launcher of an earlier run, is not left stopped."""
        self._adopted.append(held)
        self._check_soon()

    async def close(self, is_open: Callable[[str], bool] = lambda container_id: False) -> None:
        """End idle slots. Launchers of running containers end with them. A journal stays if it has a
        container which ``is_open``: its end was reported here and is recorded nowhere else."""
        self._limit = 0
        if self._checking is not None:
            self._checking.cancel()
        idle, self._idle = self._idle, []
        for slot in list(self._slots):
            if slot.next is not None:
                self.take_back(slot.next.held.container_id)
            if slot.now is None and slot not in idle:
                idle.append(slot)  # it is being made
        for slot in list(self._slots):
            self._forget(slot)
        await asyncio.gather(*(beside(None, self._remove, slot, is_open) for slot in idle))
        if self._zygote is not None:
            await beside(None, self._zygote.close)

    # ---- slots come and go

    def _make(self) -> Slot | None:
        """Make a slot whose launcher is being started; None if there are enough, or none can be made."""
        if len(self._slots) >= self._limit:
            return None
        try:
            if self._zygote is None or not self._zygote.alive():
                state = self._context.directories.state
                self._zygote = Zygote(self._read_only, self._program.at(state), state)
            group, joins = self._make_group()
        except (CgroupError, OSError) as error:
            self._cannot(str(error))
            return None
        journal = journal_path(self._context.directories.state, group.name)
        ours: socket.socket | None = None
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ahead = list(socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        except OSError as error:
            if ours is not None:
                ours.close()
                theirs.close()
            self._cannot(str(error))
            self._cgroups.remove(group.name)
            return None
        for one in (ours, *ahead):
            one.setblocking(False)
        slot = Slot(group, journal, ours, ahead)
        slot.since = self._loop.time()
        self._slots.append(slot)
        self._loop.add_reader(ours.fileno(), self._readable, slot)
        with theirs:
            try:
                self._zygote.fork([theirs, *ahead], journal, joins, group.gauges)
            except OSError as error:
                self._cannot(str(error))
                self._retire(slot)
                return None
        return slot

    def _free_one(self) -> Slot | None:
        """An idle slot with no process in it but its launcher."""
        while self._idle:
            slot = self._idle.pop()
            with contextlib.suppress(OSError):  # then there is none for a container either
                if not slot.group.strangers():
                    return slot
            self._retire(slot)
        return None

    def _coming(self) -> Slot | None:
        """A slot whose launcher is being started, and that no container has yet."""
        return next((slot for slot in self._slots if not slot.ready and slot.now is None), None)

    def _make_group(self) -> tuple[SlotGroup, tuple[str, ...]]:
        while True:
            self._number += 1
            name = f"{SLOT_PREFIX}{self._number}"
            if os.path.exists(journal_path(self._context.directories.state, name)):
                continue  # it is an earlier run's, and still needed
            with contextlib.suppress(FileExistsError):
                made = self._cgroups.make_slot(name)
                if made is None:
                    raise CgroupError("this host has no cgroups")
                return made

    def _never(self, why: str) -> None:
        self._limit = 0
        self._cannot(why)

    def _cannot(self, why: str) -> None:
        self.trouble = why
        self._unusable_until = self._loop.time() + UNUSABLE_SECONDS
        (LOG.debug if self._said else LOG.warning)(
            "no slot can be created, so each container is started by a shim: %s", why
        )
        self._said = True

    def _grow(self) -> None:
        """Have one slot to spare: a container for which others are paused or killed should not have to wait
        for one."""
        if self._slots and not self._idle and self.used and self._coming() is None:
            self._make()

    def _vacate(self, slot: Slot) -> None:
        """The container in the slot is not there any more."""
        if slot.now is not None:
            self._cgroups.give_back(slot.now.held.container_id)
            del self._slot_of[slot.now.held.container_id]
            slot.now = None

    def _free(self, slot: Slot) -> None:
        self._vacate(slot)
        slot.since = self._loop.time()
        if slot.ready and slot in self._slots:
            self._idle.append(slot)

    def _forget(self, slot: Slot) -> None:
        """Close the connection to the slot's launcher, which ends as soon as it is idle."""
        if slot in self._slots:
            self._slots.remove(slot)
            self._loop.remove_reader(slot.sock.fileno())
            for one in (slot.sock, *slot.ahead):
                one.close()
            slot.group.close()

    def _retire(self, slot: Slot) -> None:
        """Stop using a slot that holds no container, and remove it."""
        if slot in self._idle:
            self._idle.remove(slot)
        self._forget(slot)
        self._context.spawn(beside(None, self._remove, slot))

    def _remove(self, slot: Slot, is_open: Callable[[str], bool] = lambda container_id: False) -> None:
        """Remove a slot whose launcher has ended, or is about to. Blocks.

        Processes that somebody else has put into it are not ended; then the slot's cgroup stays.
        """
        if not self._cgroups.remove(slot.group.name, 1.0):
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

    def _check_soon(self) -> None:
        if self._checking is None:
            self._checking = self._loop.call_later(CHECK_SECONDS, self._check)

    def _check(self) -> None:
        """Check on what should have happened, and remove idle slots."""
        now = self._loop.time()
        for slot in [one for one in self._idle if now - one.since > IDLE_SECONDS]:
            if now - self._needed_at > IDLE_SECONDS:
                self._retire(slot)
        for slot in list(self._slots):
            if not slot.ready:
                if now - slot.since > READY_SECONDS:
                    self._cannot("a launcher did not start")
                    self._lost(slot)
                    self._end_zygote()
                continue
            if slot.now is not None:
                _continue(slot.now.held)
                if not slot.now.held.pid and now - slot.since > START_SECONDS:
                    kill_identified(slot.group.launcher, slot.start)
        for held in [self._adopted.popleft() for _ in range(min(len(self._adopted), MOST_LOOKS))]:
            if not held.ended:
                _continue(held)
                self._adopted.append(held)
        if self._zygote is not None and not self._slots and now - self._needed_at > 2 * IDLE_SECONDS:
            self._end_zygote()
        self._checking = None
        if self._slots or self._adopted or self._zygote is not None:
            self._check_soon()

    def _end_zygote(self) -> None:
        zygote, self._zygote = self._zygote, None
        if zygote is not None:
            self._context.spawn(beside(None, zygote.close))

    # ---- what launchers say

    def _send(self, slot: Slot) -> None:
        message, slot.message = slot.message, b""
        slot.generation += 1
        assert slot.now is not None
        slot.now.held.launcher = slot.group.launcher, slot.start
        try:
            slot.sock.send(message)
        except ConnectionError as error:
            LOG.debug("the launcher of %s is gone: %s", slot.group.name, error)
            # The socket reports the launcher's end.
        except OSError as error:
            self._loop.call_soon(self._unsent, slot, slot.now, error)

    def _unsent(self, slot: Slot, unsent: Occupant, error: OSError) -> None:
        """Handle a live launcher whose socket does not take the request: it is too large, or memory is short."""
        if slot in self._slots and slot.now is unsent:
            LOG.debug("the launcher of %s cannot be reached: %s", slot.group.name, error)
            self._give_up(slot)

    def _give_up(self, slot: Slot) -> None:
        """Start the slot's container, which has not begun, without a slot, and remove the slot."""
        self._none_follows(slot)
        gone = slot.now
        self._vacate(slot)
        self._retire(slot)
        if gone is not None:
            self._begin_elsewhere(gone)

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
                self._cannot(rest[0])
            case "crowded":
                self._cannot(self._cgroups.crowded(rest[1]))
                self._give_up(slot)
            case "started":
                self._started(slot, *rest[1:])
            case "failed":
                self._none_follows(slot)
                if (gone := slot.now) is not None:
                    self._free(slot)
                    self._failed(gone.held, gone.request, *rest[1:])
            case "ended":
                self._has_ended(slot, *rest[1:])
            case "ran":
                self._started(slot, *rest[1:5])
                self._has_ended(slot, *rest[5:])

    def _has_ended(self, slot: Slot, code: int, figures: Figures, following: str) -> None:
        if not following and slot.next is not None and not self.take_back(slot.next.held.container_id):
            following = slot.next.held.container_id  # its launcher has found it a moment later
        if (gone := slot.now) is not None:
            gone.held.over = True
            clean = figures[5] == 1 and slot.group.confined
            settle = self._pass_on if following else self._settle
            self._ended(gone.held, lambda: settle(slot, gone.held, figures), code, following, clean)

    def _started(self, slot: Slot, pid: int, start: int, base: Figures, ran: float | None = None) -> None:
        """``ran``: it has ended after so many seconds."""
        if slot.now is None:
            return
        slot.group.begin(base)
        held = slot.now.held
        held.pid, held.start = pid, start
        self._began(held, ran)
        if not self._idle and len(self._slots) < self._limit:
            self._loop.call_soon(self._grow)

    def _settle(self, slot: Slot, held: LiveContainer, figures: Figures) -> ContainerUsage:
        """Return the figures of a container of which nothing is left. The slot is freed if it is as it was."""
        if held.frozen:
            self._cgroups.thaw(held.container_id)
        usage = slot.group.usage_of(figures, self._context.clock())
        if figures[5] != 1:  # the node had to look, and perhaps to end what was left
            usage = slot.group.usage(self._context.clock(), 0)
        if slot not in self._slots:
            self._cgroups.give_back(held.container_id)
            slot.group.close()  # reading the figures has opened files again
        elif held.pausing or slot.group.is_spoilt():  # a late pause would hit the next container
            self._vacate(slot)
            self._retire(slot)
        elif usage.memory_bytes > slot.base_bytes + LEFT_BYTES:
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
        self._needed_at = slot.since = self._loop.time()
        following.held.launcher = slot.group.launcher, slot.start
        self._cgroups.lend(name, slot.group)
        try:
            self._cgroups.set_limits(name, following.limits)
        except CgroupError as error:
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
        if slot in self._slots and slot.group.memory() > slot.base_bytes + LEFT_BYTES // 2:
            self._retire(slot)
        else:
            self._free(slot)

    def _lost(self, slot: Slot) -> None:
        """Handle the end of a launcher, or its failure to start."""
        if slot not in self._slots:
            return
        if slot in self._idle:
            self._idle.remove(slot)
        if slot.next is not None:
            self.take_back(slot.next.held.container_id)
        self._forget(slot)
        gone, slot.now = slot.now, None
        if gone is not None:
            del self._slot_of[gone.held.container_id]
        self._context.spawn(self._clear(slot, gone))

    async def _clear(self, slot: Slot, gone: Occupant | None) -> None:
        """End what outlived a launcher and find out what became of its containers: report their ends, or start
        one without a slot if it never began."""
        if gone is None:
            await beside(None, self._remove, slot)
            return
        held = gone.held
        self._cgroups.give_back(held.container_id)
        journal = await self._journal_of_ended(slot)
        if journal is None:
            return
        following, slot.next = slot.next, None
        if following is not None:
            del self._slot_of[following.held.container_id]
        last = _last_of(journal, held)
        begun = None if following is None else _last_of(journal, following.held)
        # A missing journal, removed by somebody, does not prove that nothing has begun.
        if last is None and not held.pid and (journal.launcher or not slot.ready):
            await beside(None, self._remove, slot)
            self._begin_elsewhere(gone)
            return
        self._tell_lost(slot, held, last, following.held.container_id if following and begun else "")
        if following is not None and begun is not None:
            slot.group.baseline = begun.baseline
            self._tell_lost(slot, following.held, begun, "")
        slot.group.close()
        await beside(None, self._remove, slot)
        if following is None or begun is not None:
            return
        if following.wanted:
            self._begin_elsewhere(following)
        else:
            following.waits_on()

    def _tell_lost(self, slot: Slot, held: LiveContainer, begun: Begun | None, following: str) -> None:
        """Report a container whose launcher has died, by what that has written."""
        if not held.pid:
            pid, held.start = (begun.pid, begun.start) if begun is not None else (0, 0)
            held.pid = pid or slot.group.launcher
            if begun is not None:
                slot.group.baseline = begun.baseline
            self._began(held, None)
        usage = slot.group.usage(self._context.clock(), 0)
        code = KILLED if begun is None or begun.code is None else begun.code
        self._ended(held, lambda: usage, code, following, False)

    async def _journal_of_ended(self, slot: Slot) -> Journal | None:
        """End everything in the slot's cgroup, until nothing is left; then read what its launcher has
        written. None if this node ends before: its next run handles it."""
        while not self._context.in_a_hurry:
            await beside(None, self._context.kill, slot.group.name)
            try:
                if not await beside(None, slot.group.processes):
                    return await beside(None, read_journal, slot.journal)
            except OSError as error:
                LOG.warning(
                    "what became of the container in %s cannot be read yet: %s", slot.group.name, error
                )
            await asyncio.sleep(RETRY_SECONDS)
        return None

    def _begin_elsewhere(self, one: Occupant) -> None:
        """Start without a slot a container that has not begun in this one, and never will."""
        self._cgroups.give_back(one.held.container_id)
        one.held.pooled = False
        self._refused(one.held, one.request, one.limits)


def _message(held: LiveContainer, request: LaunchRequest, *, queued: bool = False) -> bytes:
    """The request for a launcher; ``queued`` if the container follows another one."""
    return marshal.dumps(
        (
            held.container_id,
            held.queued_at_ms if queued else 0,
            list(request.command),
            request.environment,
            request.working_directory,
            request.stdout,
            request.stderr,
            request.account,
        )
    )


def _last_of(journal: Journal, held: LiveContainer) -> Begun | None:
    return next((one for one in reversed(journal.begun) if one.container_id == held.container_id), None)


def _continue(held: LiveContainer) -> None:
    """Send SIGCONT to the process that reports a container's end, if it is stopped: the container itself may
    have done that."""
    pid, start = held.launcher if held.pooled else (held.pid, held.start)
    found = read_stat(pid) if pid else None
    if found is not None and found.state == "T" and found.start == start:
        send(pid, signal.SIGCONT)


class Zygote:
    """The process that forks launchers."""

    def __init__(self, read_only: tuple[str, ...], program: str, state: str) -> None:
        """Start it. ``state`` is the node's directory of records, by which later runs find the zygote. Raises
        OSError if that fails."""
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)
        with theirs:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", compiled(launcher, program), str(theirs.fileno())),
                    *(str(limit_of_children()), *read_only),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                cwd="/",
                env=marked_environment(state),
                start_new_session=True,
            )

    def alive(self) -> bool:
        """Whether it can fork."""
        return self._process.poll() is None

    def fork(
        self,
        sockets: list[socket.socket],
        journal: str,
        joins: tuple[str, ...],
        gauges: tuple[tuple[str, str, float] | None, ...],
    ) -> None:
        """Begin to fork a launcher that gets these three sockets. Raises OSError."""
        message = marshal.dumps((journal, list(joins), gauges))
        rights = array("i", [one.fileno() for one in sockets])
        self._ours.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

    def close(self) -> None:
        """End the zygote; its launchers continue. Blocks."""
        self._ours.close()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
