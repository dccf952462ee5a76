"""The actions on containers: starting, making room, pausing, killing, ending.

The middle layer of the ContainerScheduler: only its methods turn decisions into transitions and commands.
``scheduler.py`` calls them for each event.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from ..causes import Cause, CauseKind
from ..hints import Any
from ..light import replace
from ..reasons import Reason, ReasonKind, by_rule
from ..records import CgroupLimits, ContainerExitStatus, Resource
from . import outcome
from .book import ContainerBook
from .commands import (
    CleanUpContainer,
    KillContainer,
    LaunchContainer,
    LaunchNext,
    PauseContainer,
    ResumeContainer,
    RevokeNext,
    SetLimits,
)
from .container import (
    DONE,
    KILLING,
    NOTHING,
    PAUSED,
    RUNNING,
    SCHEDULED,
    Container,
    DeadlineKind,
    Kill,
    Pause,
)
from .reclaim import Reclaimable, reclaimable
from .tracker import SHORT, Room

PAUSE_PATIENCE = 2.0
"""Seconds after which a pause is no longer counted on. A SIGSTOP takes a millisecond; a process that waits for a
device in the kernel (state D) does not stop before that answers."""

BY_SCHEDULER = int(ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER)

NOBODY = Reason(ReasonKind.NEXT)
RECOVERING = Reason(ReasonKind.RECOVERING)
RESERVED = Reason(ReasonKind.RESERVED)
EXPECTED = Reason(ReasonKind.EXPECTED)
NO_DEVICE = by_rule("NO_DEVICE", "the node's devices have changed, and none that is free can be given to it")


class ContainerActions(ContainerBook):
    """The actions of a node's machine on its containers."""

    def _start_pending(self) -> None:
        """Start what fits, then make room for what does not. Called after everything that gives resources back."""
        self._start_fitting()
        self._reclaim()

    def _start_fitting(self) -> None:
        while isinstance(container := self._next_to_start(), Container):
            self._dequeue(container)
            lowered = container.gave_memory and self._paused_memory.takes_back
            self._acquire(container, container.needed)
            if container.state is SCHEDULED:
                if self._devices.needed(container.resource):
                    container.change(devices=self._devices.give(container.container_id, container.resource))
                self._launching(container)
                self._emit(LaunchContainer(container.spec, self._limits(container)))
            else:
                if self._preemption.goes_by_start:  # a resumed container has started last
                    self._active[container.container_id] = self._active.pop(container.container_id)
                self._move(container, ResumeContainer)
                container.pause = None
                self._store(container)
                if lowered:
                    self._emit(SetLimits(container.container_id, self._limits(container)))
                self._emit(ResumeContainer(container.container_id))
            self._has_started(container)

    def _launching(self, container: Container) -> None:
        if container in self._succession:
            self._succession.part(container, self._live)  # its LaunchContainer ends the LaunchNext
        self._learn_wait(container)
        self._move(container, LaunchContainer)
        self._active[container.container_id] = container
        self._store(container)

    def _has_started(self, container: Container) -> None:
        if container.is_opportunistic:
            self._opportunistic.started(container)
            self._succession.open[container.container_id] = container
        self._report(container)

    def _begin_next(self, container_id: str, limits: CgroupLimits | None) -> None:
        """A container that was to follow another one is beginning, with these limits (None for unknown ones). It holds
        its resources whether they are free or not: if somebody has a better claim to them, it gives way."""
        container = self._live.get(container_id)
        if container is not None and container.state is KILLING and container.allocated == NOTHING:
            self._acquire(container, container.needed)  # it was told to end, and is told again when it runs
        if container is None or container.state is not SCHEDULED:
            return
        self._dequeue(container)
        self._acquire(container, container.needed)
        self._launching(container)
        container.limits_stale = limits != self._limits(container)
        self._has_started(container)

    def _decide_ahead(self) -> None:
        """After each step: who follows whom. See ``succession.py``."""
        succession = self._succession
        if not succession and not (succession.open and self._opportunistic.waits):
            return
        if not self._may_decide_ahead():
            for following in succession.followers():
                self._revoke_next(following)
            return
        for first in list(succession.open.values()):
            waiting = self._opportunistic.next_alike(succession)
            if waiting is None:
                return
            if first.resource == waiting.resource and not waiting.resource.others:
                limits = self._limits(waiting)
                succession.pair(first, waiting, limits)
                waiting.sent_ahead = True
                self._emit(LaunchNext(waiting.spec, limits, first.container_id, waiting.queued_at_ms))

    def _may_decide_ahead(self) -> bool:
        """Whether the first opportunistic container that waits is certain to get the room of the next one that ends."""
        return (
            not self._recovering
            and not self.health_report
            and not self._guaranteed
            and self._opportunistic.all_alike
            and not self._handover.holds
            and isinstance(room := self._room_for_opportunistic(), Room)
            and room.left == self._tracker.available
            and self._tracker.overdrawn == NOTHING
        )

    def _revoke_next(self, following: Container) -> None:
        if following in self._succession:
            self._succession.part(following, self._live)
            self._emit(RevokeNext(following.container_id))

    def _expect_news_of(self, waiting: Container) -> bool:
        """Return whether a waiting container that is to end may have begun, even if its LaunchNext was taken back
        since: until that is known, it counts as being launched, and holds nothing."""
        if not waiting.sent_ahead or waiting.state is not SCHEDULED:
            return False
        if waiting in self._succession:
            self._succession.part(waiting, self._live)
        self._move(waiting, LaunchContainer)
        self._active[waiting.container_id] = waiting
        return True

    def _end_succession(self, first: Container) -> None:
        """Have no container follow this one."""
        if (following := self._succession.following(first)) is not None:
            self._revoke_next(following)
        self._succession.close(first)

    def _learn_wait(self, container: Container) -> None:
        """Compare its wait with the estimate. A container that was expected to start at once, and did, proves
        nothing."""
        waited = (self._epoch_ms - container.queued_at_ms) / 1000
        if container.expected_wait is not None and (container.expected_wait > 0 or waited > 0):
            self._waits.add(container.expected_wait, waited)

    def _next_to_start(self, of: Container | None = None) -> Container | Reason:
        """The container that starts next, else the reason why none does. ``of``: this one, if it might start, whoever
        is before it: so the decision itself says why a container waits.

        The first guaranteed container in turn if it fits; else an opportunistic one that takes nothing from it.
        """
        if self._recovering:
            return RECOVERING
        alone = of is not None and not of.is_opportunistic
        head = of if alone else next(iter(self._in_turn()), self._guaranteed.head)
        found: Container | Reason | None = None
        if head is not None and (self._forces_guaranteed or self._tracker.fits_guaranteed(head.needed)):
            found = head
        elif head is not None:
            resuming = () if alone else self._paused_guaranteed()
            found = next((one for one in resuming if self._tracker.fits_guaranteed(one.needed)), None)
        if found is None:
            found = SHORT if alone else self._next_opportunistic(head, of)
        if isinstance(found, Reason) or found.state is not SCHEDULED:
            return found
        if not self._devices.suffice(found.needed):
            return NO_DEVICE
        return Reason(ReasonKind.UNHEALTHY, detail=self.health_report) if self.health_report else found

    def _next_opportunistic(self, head: Container | None, of: Container | None) -> Container | Reason:
        """An opportunistic container that may start although the guaranteed one ``head`` waits.

        Where preemption may be in vain, no opportunistic container starts while a guaranteed one waits, as in YARN: it
        would be the next to be preempted in vain.
        """
        if not self._opportunistic.waits:
            return NOBODY
        room = self._room_for_opportunistic()
        if head is not None:
            keeper = self._keeper(head, room.left) if isinstance(room, Room) else None
            if keeper is not None and of in (None, keeper):
                return keeper
            if self._guaranteed_bar:
                return Reason(ReasonKind.BARRED, by=(head.container_id,))
        if isinstance(room, Reason):
            return room
        if head is not None:
            room = room.less(self._guaranteed.needed, RESERVED)
        if self._handover.holds:
            room = room.less(self._handover.kept, EXPECTED)
        return self._opportunistic.next_fitting(room, self._epoch_ms, of)

    def _keeper(self, head: Container, room: Resource) -> Container | None:
        """A paused one that fits in ``room`` and keeps a GPU or the like that a guaranteed one lacks, for which it is
        not ended: its own end is what the guaranteed one waits for."""
        if not self._keeps_others or not head.needed.others:
            return None
        short = (head.needed - self._tracker.available).at_least_zero()
        for paused in self._opportunistic.paused:
            if paused.allocated.lesser(short).others and paused.needed.fits_in(room):
                return paused
        return None

    def _room_for_opportunistic(self) -> Room | Reason:
        """The resources on which opportunistic containers may start. A reason bars even those that ask for nothing."""
        return Room(self._tracker.available)

    def _reclaim(self) -> None:
        """Preempt for the guaranteed containers that wait, in their order, until room cannot be made for one.

        What is being given back already counts. First of all comes what guaranteed containers hold beyond the total,
        after one of them grew.
        """
        if self.health_report:
            return  # nobody could start in that room
        if self._recovering:
            return
        needed = NOTHING
        for waiting in chain((None,), self._in_turn()):
            more = needed if waiting is None else needed + waiting.needed
            if not self._make_room(self._shortage(more), waiting) and waiting is not None:
                break
            needed = more
        else:
            return
        for paused in self._paused_guaranteed():
            self._make_room(self._shortage(needed + paused.needed), paused)

    def _in_turn(self) -> Iterable[Container]:
        """The guaranteed containers that wait, without those that lack a GPU or the like for which nothing is ended:
        they wait for the end of its holder, and those that need none pass them. For all else room can be made then.
        """
        if not self._keeps_others:
            return self._guaranteed
        return [
            waiting
            for waiting in self._guaranteed
            if not (waiting.needed.others and self._shortage(waiting.needed).others)
        ]

    def _paused_guaranteed(self) -> list[Container]:
        """The guaranteed containers that wait to resume.

        The head of the queue may wait for the memory that they hold: if it cannot start, they do not wait for it.
        """
        return [
            container
            for container in self._active.values()
            if container.state is PAUSED and container.is_waiting and not container.is_opportunistic
        ]

    def _shortage(self, needed: Resource) -> Resource:
        """The resources that ``needed`` lacks once everything that is being given back is free."""
        overdrawn = self._tracker.overdrawn
        if needed == NOTHING and overdrawn == NOTHING:
            return NOTHING
        returning = sum((container.is_giving_back for container in self._active.values()), NOTHING)
        if needed == NOTHING:
            return (overdrawn - returning).at_least_zero()
        short = (needed - self._tracker.free_for_guaranteed - returning).at_least_zero()
        return short.of_types_in(needed)

    def _make_room(self, short: Resource, waiting: Container | None) -> bool:
        """Preempt to gain ``short`` for ``waiting`` (None for one that grew, and for a node that became smaller).

        False, and nothing is touched, if that is impossible.
        """
        if short == NOTHING:
            return True
        can_pause = self._settings.use_pause_for_preemption
        steps = self._preemption.plan(self._reclaimable(self._now), short, can_pause=can_pause)
        resized = waiting is None and self._too_small
        cause = Cause(
            CauseKind.NODE_RESIZED if resized else CauseKind.MAKE_ROOM,
            for_container=waiting.container_id if waiting is not None else "",
        )
        for step in steps:
            victim = self._live[step.container_id]
            if isinstance(step, KillContainer):
                why = self._why_no_pause(victim, short) if can_pause else {}
                self._kill(victim, BY_SCHEDULER, replace(cause, **why) if why else cause)
            else:
                self._give_way(victim, cause, self._memory_by_pause(victim) if short.memory > 0 else 0)
        return bool(steps)

    @staticmethod
    def _why_no_pause(victim: Container, short: Resource) -> dict[str, Any]:
        """The fields of the cause that tell why a pause would not have sufficed."""
        if victim.unpausable:
            return {}
        needed = victim.allocated.of_types_in(short).others
        return ({"for_resource": needed[0].name} if needed else {}) | (
            {"for_memory": True} if short.memory > 0 else {}
        )

    def _reclaimable(self, now: float) -> list[Reclaimable]:
        """What opportunistic containers could give, in the order of the decisions to start them, newest first."""
        return [
            reclaimable(
                one,
                self._memory_by_pause(one),
                self._preemption.costs(one, now),
                keeps_others=self._keeps_others,
            )
            for one in reversed(self._active.values())
            if one.is_opportunistic
        ]

    @property
    def _keeps_others(self) -> bool:
        """Whether what may be paused is not ended for its GPUs and the like."""
        return self._settings.use_pause_for_preemption and self._settings.paused_resources == "keep"

    def _memory_by_pause(self, container: Container) -> int:
        """How much memory, in MiB, a pause that makes room is expected to give back."""
        return self._paused_memory.expected(container) if self._settings.use_pause_for_preemption else 0

    def _give_way(self, container: Container, cause: Cause, gives_memory: int = 0) -> None:
        """Pause it for what has a better claim. It is expected to give back ``gives_memory`` MiB of memory."""
        container.pause = replace(container.pause or Pause(), gives_way_to=cause, gives_memory=gives_memory)
        self._pause(container, cause, outcome.diagnostics_of(cause, container))

    def _pause(self, container: Container, cause: Cause, diagnostics: str) -> None:
        """Pause it, or as soon as it runs. ``container.pause`` says why."""
        container.unsay(diagnostics)  # as the last line, and once
        self._say(container, diagnostics, passing=True)
        container.cause = container.paused_for = cause
        self._begin_pause(container)

    def _begin_pause(self, container: Container) -> None:
        self._end_succession(container)
        pause = container.pause or Pause()
        memory = self._paused_memory.counted(container, pause.gives_memory)
        container.pause = pause = replace(pause, pending=container.state is not RUNNING, gives_memory=memory)
        self._set_deadline(container, DeadlineKind.PAUSE, self._now + PAUSE_PATIENCE)
        if not pause.pending:
            self._move(container, PauseContainer)
            self._store(container)
            reclaim = self._paused_memory.takes_back and memory > 0
            self._emit(PauseContainer(container.container_id, reclaim_memory=reclaim))
            self._report(container)

    def _drop_pause(self, container: Container) -> None:
        """Drop a pause that has not begun."""
        container.pause = container.cause = None
        self._clear_deadlines(container, DeadlineKind.PAUSE)

    def _kill(
        self,
        container: Container,
        exit_status: int,
        cause: Cause | None,
        diagnostics: str = "",
        *,
        force: bool = False,
    ) -> None:
        """End it. One that never started is done at once; the first to end it gives the reason; force may come later.

        ``diagnostics`` is the sentence of the request. The caller starts what is pending.
        """
        if container.state is KILLING:
            if force and container.kill is not None and not container.kill.forced:
                self._force_kill(container)
            return
        self._dequeue(container)
        is_awaited = self._expect_news_of(container)
        self._end_succession(container)
        self._move(container, KillContainer)
        if cause is not None and not diagnostics:
            diagnostics = outcome.diagnostics_of(cause, container)
        if container.state is DONE:
            never_ran = outcome.EXECUTOR_FAILURE if exit_status == outcome.EXECUTOR_FAILURE else None
            self._settle(container, outcome.Outcome(exit_status, never_ran, diagnostics, cause))
            self._tell_end(container, clean_up=False)
            return
        container.cause = cause
        container.pause = None
        self._clear_deadlines(container)
        self._say(container, diagnostics)
        self._order_kill(container, exit_status, force=force, is_awaited=is_awaited)

    def _order_kill(
        self, container: Container, exit_status: int | None, *, force: bool, is_awaited: bool = False
    ) -> None:
        container.kill = Kill(exit_status, force)
        self._store(container)
        name = container.container_id
        self._emit(RevokeNext(name, ends=True) if is_awaited else KillContainer(name, force=force))
        if not force:
            patience = self._settings.sleep_delay_before_sigkill_ms / 1000
            self._set_deadline(container, DeadlineKind.FORCE_KILL, self._now + patience)
        self._report(container)

    def _force_kill(self, container: Container) -> None:
        self._clear_deadlines(container, DeadlineKind.FORCE_KILL)
        if container.kill is not None:
            container.kill = replace(container.kill, forced=True)
        self._emit(KillContainer(container.container_id, force=True))

    def _settle(self, container: Container, end: outcome.Outcome) -> None:
        """Remove a container that has ended from the live ones, and free what it held."""
        container.exit_status, container.exit_code = end.exit_status, end.exit_code
        if end.cause is None and end.exit_status >= 0:
            container.forget_pauses()
        self._say(container, end.sentence)
        container.cause = end.cause
        container.finished_at_ms = self._epoch_ms
        self._clear_deadlines(container)
        container.pause = container.kill = None
        if not container.is_opportunistic:
            self._handover.left(container.allocated, self._now)
        self._succession.close(container)
        self._release(container, container.allocated)
        self._devices.release(container.container_id, container.spec.devices)
        self._active.pop(container.container_id, None)
        del self._live[container.container_id]
        did_its_work = end.exit_status == 0 and end.exit_code == 0
        self._applications.ended(container, container.ran_seconds(self._now) if did_its_work else None)
        self._finished[container.container_id] = container

    def _tell_end(self, container: Container, *, clean_up: bool = True) -> None:
        """Last of all, so that the next container starts first. Cleaning up removes its exit code, so the record comes
        before it."""
        self._store(container)
        if clean_up:
            self._emit(CleanUpContainer(container.container_id))
        self._report(container)

    def _on_running(self, container: Container) -> None:
        """Set the time limit of a container that runs (again), and begin a pause that was decided meanwhile."""
        if container.state is not RUNNING:
            return
        if container.spec.timeout_ms > 0:
            left = container.spec.timeout_ms / 1000 - container.ran_seconds(self._now)
            self._set_deadline(container, DeadlineKind.TIMEOUT, self._now + max(left, 0.0))
        if container.pause_pending:
            self._begin_pause(container)

    def _end_if_impossible(self, container: Container) -> bool:
        """End it if this node could never run it. (YARN's NodeManager lets it wait forever.)"""
        resource = container.resource
        waits = not self._settings.refuse_oversized or (
            self._forces_guaranteed and not container.is_opportunistic
        )
        if (waits or resource.fits_in(self.total)) and not resource.is_negative:
            return False
        sentence = outcome.larger_than_node(resource, self.total)
        self._kill(container, outcome.EXECUTOR_FAILURE, Cause(CauseKind.TOO_LARGE), sentence, force=True)
        return True
