"""ContainerScheduler: the machine of one node. It decides which containers run, wait, pause and end there.

Events in, commands out, time an argument (YARN's ``ContainerScheduler``, with the parts of ``ContainerImpl`` and
``ContainersMonitorImpl`` that decide). It performs no actions, and knows neither the cluster nor the network. Read
``executor/core/__init__.py`` first. Five layers: the containers (``book.py``), the actions (``actions.py``), the
reactions to measurements (``pressure_actions.py``), what readers are told of waiting containers (``waiting.py``), and
the events (this module, one method for each event).
"""

from __future__ import annotations

from typing import assert_never

from ..causes import STANDS_BACK, Cause, CauseKind
from ..light import replace
from ..records import MIB, ContainerExitStatus, ContainerUsage, ExecutionType, Resource
from . import events, outcome, recovery
from .actions import BY_SCHEDULER
from .commands import CleanUpContainer, Command, KillContainer, SetLimits, SignalContainer
from .container import (
    KILLING,
    LAUNCHING,
    PAUSED,
    PAUSING,
    RESUMING,
    RUNNING,
    SCHEDULED,
    Container,
    DeadlineKind,
    Pause,
)
from .invariants import check
from .machine import earliest
from .reclaim import reclaimable
from .waiting import WaitingContainers

PAUSE_AGAIN_SECONDS = 30.0
"""How long after a failed pause none is chosen for that container: what refused it may have passed by then."""


class ContainerScheduler(WaitingContainers):
    """The machine of one node (``Machine[Event, Command]``).

    Its arguments: ``total``, the resources of the node; ``settings``; ``physical_cores``, the cores that the node's
    vcores represent; ``wall_offset``, the epoch seconds at the machine's time 0; ``enforce_memory_by_polling``: end
    containers that a measurement finds over their memory, on hosts where no cgroup does that; and ``devices``: the
    identified GPUs of the node.
    """

    def handle(self, event: events.Event, now: float) -> list[Command]:
        """Handle an event; return the commands in the order in which they must be performed.

        Raises InvalidTransitionError if an event contradicts a container's state, which is a bug.
        """
        commands = self._begin(now)
        match event:
            case events.ContainerScheduled():
                self._on_scheduled(event)
            case events.QueuingLimitReceived():
                self._on_queuing_limit(event)
            case events.NodeResized():
                self._on_resized(event.total)
            case events.GuaranteedAwaited():
                self._handover.expects = event.waiting
            case events.ApplicationPriorityChanged():
                self._on_priority_changed(event)
            case events.UsageSampled():
                self._on_usage(event)
            case events.NodeUtilizationSampled():
                self._on_host_sampled(event)
            case events.ContainerRecovered():
                self._on_recovered(event)
            case events.RecoveryCompleted():
                self._on_recovery_completed()
            case events.OpportunisticWindowChanged():
                self._on_window_changed(event)
            case events.WallClockStepped():
                self._wall_offset = event.offset
            case events.NodeHealthChanged():
                self.health_report = event.report
                self._start_pending()
            case _:
                container = self._live.get(event.container_id)
                if container is not None:  # else it has ended, and this was still under way
                    self._on_container_event(container, event)
        self._finish()
        return commands

    def _on_container_event(self, container: Container, event: events.ContainerEvent) -> None:
        match event:
            case events.ContainerExited():
                self._on_exited(container, event)
            case events.ContainerLaunched():
                self._on_launched(container, event)
            case events.ContainerLaunchFailed():
                self._on_launch_failed(container, event)
            case events.ContainerPaused():
                self._on_paused(container, event)
            case events.ContainerPauseFailed():
                self._on_pause_failed(container, event)
            case events.ContainerResumed():
                self._on_resumed(container)
            case events.ContainerChangeFailed():
                container.refusal = Cause(CauseKind.CHANGE_FAILED, text=event.reason)
                self._say(container, outcome.diagnostics_of(container.refusal, container))
                self._report(container)
            case events.ContainerKillRequested():
                self._kill(container, event.exit_status, event.cause, event.diagnostics, force=event.force)
                self._start_pending()
            case events.ContainerSignalRequested():
                if container.state not in (SCHEDULED, LAUNCHING):
                    self._emit(SignalContainer(container.container_id, event.signal))
            case events.ContainerPauseRequested():
                self._on_pause_requested(container, event)
            case events.ContainerResumeRequested():
                self._on_resume_requested(container, event)
            case events.ContainerUpdated():
                self._on_updated(container, event)
            case _:
                assert_never(event)

    def next_deadline(self) -> float | None:
        """The time at which ``advance`` must be called, None for never."""
        return earliest((self._deadlines.next(), self._handover.next_deadline()))

    def advance(self, now: float) -> list[Command]:
        """Perform what is due by ``now``: SIGKILL after SIGTERM, overdue pauses, time limits."""
        commands = self._begin(now)
        while (due := self._deadlines.pop_due(now)) is not None:
            self._on_deadline(self._live[due.container_id], due.kind)
        if self._handover.expired(now):
            self._start_pending()
        self._finish()
        return commands

    def _begin(self, now: float) -> list[Command]:
        self._now = now
        self._commands = []
        return self._commands

    def _finish(self) -> None:
        self._keep_to_window()
        self._decide_ahead()
        self._settle_weight()
        self._settle_watch()

    def validate(self) -> None:
        """Assert every invariant. Raises AssertionError."""
        check(
            self._tracker,
            live=self._live,
            active=self._active,
            ended=(self._finished, self._forgotten),
            guaranteed=self._guaranteed,
            opportunistic=self._opportunistic,
            deadlines=self._deadlines,
        )
        self._succession.validate()
        for one in self._succession.followers():
            assert one.state is SCHEDULED and one.is_opportunistic, f"{one.container_id} follows"
        for one in self._succession.open.values():
            assert one.container_id in self._active and one.state not in (KILLING, PAUSING, PAUSED)
        held = {device: one.container_id for one in self._active.values() for device in one.spec.devices}
        assert held == self._devices.holders, f"{held} is not {self._devices.holders}"
        idle = self._next_to_start()
        assert not isinstance(idle, Container), f"{idle.container_id} waits although it could start"

    def _on_scheduled(self, event: events.ContainerScheduled) -> None:
        spec = event.spec
        known = (self._live, self._finished, self._forgotten)
        if any(spec.container_id in containers for containers in known):
            return
        container = Container(
            spec,
            self._take_sequence(spec.waiting_since_ms),
            queued_at_ms=self._epoch_ms,
            state_since_ms=self._epoch_ms,
        )
        self._add_live(container)
        if self._end_if_impossible(container):
            return
        if container.is_opportunistic:
            self._last_asked = container
            if self._is_turned_away(container):
                self._kill(container, BY_SCHEDULER, Cause(CauseKind.QUEUE_FULL))
                return
            if not spec.waiting_since_ms:  # else it does not wait in its turn, and proves nothing
                container.expected_wait = self._rough_wait(self._now)
        else:
            self._handover.arrived(spec.resource)
        self._enqueue(container)
        self._start_fitting()
        if container.state is SCHEDULED:
            if self._finds_no_place(container):
                self._kill(container, BY_SCHEDULER, Cause(CauseKind.QUEUE_FULL))
                return
            self._store(container)
            self._report(container)
            self._reclaim()

    def _is_turned_away(self, container: Container) -> bool:
        """Whether an opportunistic container is refused whatever is free."""
        if self._recovering:
            return False
        promised = self.allocated + self._guaranteed.needed + self._opportunistic.needed
        return self._admission.refuses(len(self._opportunistic), promised + container.needed, self.total)

    def _finds_no_place(self, container: Container) -> bool:
        """Whether the queue is too long for a new container that does not start. Guaranteed ones always wait.

        The limit that the RM sent does not count here, as in YARN: it takes effect at the next heartbeat.
        """
        return (
            container.is_opportunistic
            and not self._recovering
            and len(self._opportunistic) > self._admission.capacity
        )

    def _on_queuing_limit(self, event: events.QueuingLimitReceived) -> None:
        """Shed what is beyond the limit: those that have waited for the shortest time (as in YARN), but those that were
        shed elsewhere before last of all, so that none is moved to and fro; and applications with a lower priority
        first."""
        queued = list(self._opportunistic)
        limit = event.limit
        kept = limit.max_queue_length if limit.max_queue_length >= 0 else 0
        if limit.max_queue_wait_time_ms >= 0:
            line = [*self._guaranteed, *self._opportunistic.by_rank()] if queued else []
            starts = self._expected_starts(self._now, line)
            within = sum(
                start * 1000 <= limit.max_queue_wait_time_ms
                and one.is_opportunistic
                and one.state is SCHEDULED
                for start, one in zip(starts, line, strict=False)
            )
            kept = max(kept, within if starts else len(queued))
        elif limit.max_queue_length < 0:
            return
        newest = sorted(
            queued,
            key=lambda one: (one.spec.application_priority, one.spec.waiting_since_ms > 0, -one.sequence),
        )
        for container in sorted(newest[: max(0, len(queued) - kept)], key=lambda one: one.sequence):
            self._shed += 1
            self._kill(container, BY_SCHEDULER, Cause(CauseKind.SHED))
        if kept < len(queued):
            self._start_pending()

    def _on_priority_changed(self, event: events.ApplicationPriorityChanged) -> None:
        for container in list(self._live.values()):
            spec = container.spec
            if spec.application_id == event.application_id and spec.application_priority != event.priority:
                self._opportunistic.reprioritise(container, event.priority)
                self._store(container)
        self._start_pending()

    def _on_launched(self, container: Container, event: events.ContainerLaunched) -> None:
        self._has_begun(container, event)
        self._store(container)
        if container.state is KILLING:
            # the first kill may have come too early
            forced = container.kill is not None and container.kill.forced
            self._emit(KillContainer(container.container_id, force=forced))
        elif container.limits_stale:
            self._emit(SetLimits(container.container_id, self._limits(container)))
        container.limits_stale = False
        self._report(container)
        self._on_running(container)

    def _has_begun(self, container: Container, event: events.ContainerLaunched) -> None:
        self._move(container, events.ContainerLaunched)
        container.pid = event.pid
        container.process_start = event.process_start
        container.cgroup = event.cgroup
        began = self._now if event.began is None else event.began
        container.started_at_ms = self._epoch_ms_of(began)
        if container.running_since is not None:
            container.running_since = began

    def _on_resumed(self, container: Container) -> None:
        self._move(container, events.ContainerResumed)
        if container.state is RUNNING:
            container.unsay(outcome.RESUMED)
            container.left = ()
            if not container.pause_pending:
                container.cause = None
            self._store(container)
            self._report(container)
            self._on_running(container)

    def _on_launch_failed(self, container: Container, event: events.ContainerLaunchFailed) -> None:
        self._move(container, events.ContainerLaunchFailed)
        end = outcome.Outcome(
            event.exit_code, event.exit_code, event.reason, Cause(CauseKind.LAUNCH_FAILED, text=event.reason)
        )
        if event.node_status:
            end = self._fault_of_node(event.node_status, event.reason)
        if container.killed_as is not None:
            end = replace(end, exit_status=container.killed_as, cause=container.cause)
        self._settle(container, end)
        self._start_pending()
        self._tell_end(container)

    def _fault_of_node(self, exit_status: int, reason: str) -> outcome.Outcome:
        """The outcome of a container that the node could not start; the node is unhealthy from now on."""
        if self._settings.disk_health_enabled:
            self.health_report = self.health_report or reason
        return outcome.Outcome(exit_status, None, reason, Cause(CauseKind.NODE_FAULT, text=reason))

    def _on_exited(self, container: Container, event: events.ContainerExited) -> None:
        if event.launched is not None:
            self._has_begun(container, event.launched)
        ran = container.ran_seconds(self._now)
        self._dequeue(container)
        limits_of_next = self._succession.close(container)
        self._move(container, events.ContainerExited)
        self._charge(container, event.usage)
        container.usage = event.usage
        if event.by_itself and event.exit_code is not None:
            container.kill = None
        if container.killed_as is None and event.exit_code is not None and container.is_opportunistic:
            self._durations.add(ran)
        end = self._outcome_of(container, event)
        if event.node_fault:
            fault = self._fault_of_node(int(ContainerExitStatus.ABORTED), event.node_fault)
            end = end if container.killed_as is not None else fault
        self._settle(container, end)
        if event.following:
            self._begin_next(event.following, limits_of_next)
        self._start_pending()
        self._tell_end(container)

    def _outcome_of(
        self, container: Container, event: events.ContainerExited | events.ContainerRecovered
    ) -> outcome.Outcome:
        return outcome.outcome_of_exit(
            *(container, event.exit_code, event.usage),
            self._limits(container).memory_max if event.usage.oom_kills else None,
            output_lost=event.output_lost,
            rebooted=isinstance(event, events.ContainerRecovered) and event.rebooted,
        )

    def _on_deadline(self, container: Container, kind: DeadlineKind) -> None:
        match kind:
            case DeadlineKind.FORCE_KILL:
                self._force_kill(container)
            case DeadlineKind.TIMEOUT:
                cause = Cause(CauseKind.TIMED_OUT, limit=container.spec.timeout_ms)
                self._kill(container, outcome.TIMED_OUT, cause)
            case DeadlineKind.PAUSE:
                pause = container.pause or Pause()
                if pause.makes_room:
                    self._kill(container, BY_SCHEDULER, pause.gives_way_to, force=True)
                else:  # nobody waits for it, so it may take longer
                    container.pause = replace(pause, overdue=True)
            case DeadlineKind.PAUSE_AGAIN:
                container.unpausable = False
            case _:
                assert_never(kind)
        self._start_pending()

    def _on_paused(self, container: Container, event: events.ContainerPaused) -> None:
        self._move(container, events.ContainerPaused)
        if container.state is KILLING:
            return
        self._clear_deadlines(container)
        container.unpausable = False
        container.left = event.left
        pause = container.pause or Pause()
        held, expected = container.allocated, pause.gives_memory
        container.pause = Pause(
            pause.held_by, None if pause.makes_room else pause.gives_way_to, said=pause.said
        )
        kept = self._paused_memory.kept(held.memory, event.memory)
        if kept == event.memory != held.memory:
            self._say(container, outcome.memory_reclaimed(kept, held.memory))
        container.unreclaimable = container.unreclaimable or held.memory - kept < expected
        self._release(container, Resource(held.memory - kept, held.vcores))
        if self._paused_go_last:
            container.sequence = self._take_sequence()
        self._enqueue(container)
        self._store(container)
        self._start_pending()
        if container.state is PAUSED:
            self._report(container)

    def _on_pause_failed(self, container: Container, event: events.ContainerPauseFailed) -> None:
        self._move(container, events.ContainerPauseFailed)
        if container.state is KILLING:
            return
        self._clear_deadlines(container, DeadlineKind.PAUSE)
        container.unpausable = True
        self._set_deadline(container, DeadlineKind.PAUSE_AGAIN, self._now + PAUSE_AGAIN_SECONDS)
        container.pause = container.cause = None
        container.refusal = Cause(CauseKind.PAUSE_FAILED, text=event.reason)
        self._say(container, outcome.diagnostics_of(container.refusal, container))
        self._store(container)
        self._report(container)
        self._start_pending()

    def _on_pause_requested(self, container: Container, event: events.ContainerPauseRequested) -> None:
        if container.state in (SCHEDULED, KILLING):
            return  # it does not run, or is about to end
        self._dequeue(container)
        cause = Cause(CauseKind.PERSON, by=event.by)
        begins = container.state in (LAUNCHING, RUNNING, RESUMING) and container.pause is None
        container.refusal = None
        container.pause = replace(container.pause or Pause(), held_by=cause, said=event.diagnostics)
        container.unsay(outcome.RESUMED)
        if begins:
            self._pause(container, cause, event.diagnostics)
            return
        container.unsay(event.diagnostics)  # as the last line, and once
        self._say(container, event.diagnostics, passing=True)
        container.cause = cause
        self._store(container)
        self._start_pending()
        if container.state is PAUSED:
            self._report(container)

    def _on_resume_requested(self, container: Container, event: events.ContainerResumeRequested) -> None:
        """End a person's pause: the container stays paused only for lack of room, or for what it gives way to."""
        pause = container.pause
        if pause is None or pause.held_by is None:
            return
        container.unsay(pause.said)
        if pause.pending and not pause.makes_room:
            self._drop_pause(container)
        else:
            container.pause = replace(pause, held_by=None, said="")
            container.cause = pause.gives_way_to or Cause(CauseKind.RESUMED, by=event.by)
            if container.state is PAUSED and not container.gives_way_to(STANDS_BACK):
                self._say(container, outcome.RESUMED, passing=True)
        self._enqueue(container)
        self._store(container)
        self._start_pending()
        if container.state is PAUSED:
            self._report(container)

    def _on_updated(self, container: Container, event: events.ContainerUpdated) -> None:
        """Apply an update that is newer than what is known. One that is impossible is told in the diagnostics; then the
        version does not change, by which the requester can see it."""
        if event.version <= container.spec.version or container.state is KILLING:
            return
        resource = container.resource if event.resource is None else event.resource
        execution_type = event.execution_type or container.execution_type
        if not self._can_become(container, execution_type, resource):
            container.refusal = Cause(CauseKind.UPDATE_REFUSED, version=event.version)
            self._say(
                container,
                f"Container cannot become {execution_type.value} {resource}: this node has no room for it.",
            )
            self._report(container)
            return
        container.refusal = None
        self._revoke_next(container)
        self._end_succession(container)
        self._dequeue(container)
        if execution_type is not container.execution_type:
            self._change_type(container, execution_type)
        gave_memory, kept = container.gave_memory, container.allocated.memory
        container.change(version=event.version, resource=resource)
        if container.state is not SCHEDULED:
            holds = resource
            if container.state is PAUSED:
                memory = min(kept, resource.memory) if gave_memory else resource.memory
                holds = Resource(memory, 0, resource.others)
            if not holds.fits_in(container.allocated):
                self._too_small = False  # what is beyond the total now, this container takes
            self._release(container, container.allocated)
            self._acquire(container, holds)
        self._enqueue(container)
        self._store(container)
        if container.state is LAUNCHING:
            container.limits_stale = True
        elif container.state is not SCHEDULED and not gave_memory:  # else when it resumes
            self._emit(SetLimits(container.container_id, self._limits(container)))
        self._start_pending()
        self._report(container)

    def _can_become(self, container: Container, execution_type: ExecutionType, resource: Resource) -> bool:
        """Whether there is room for its growth, or can be made: for a guaranteed container, by preemption."""
        if not resource.fits_in(self.total) or resource.is_negative:
            return False
        growth = (resource - container.resource).at_least_zero()
        if container.state is SCHEDULED or growth == Resource():
            return True
        if container.state is PAUSED:
            growth = Resource(0 if container.gave_memory else growth.memory, 0, growth.others)
        if self._tracker.fits(growth):
            return True
        if execution_type is ExecutionType.OPPORTUNISTIC:
            return False
        others = [c for c in self._active.values() if c.is_opportunistic and c is not container]
        gainable = sum((reclaimable(c).by_kill + c.is_giving_back for c in others), Resource())
        return growth.fits_in((self._tracker.unallocated + gainable).at_least_zero())

    def _change_type(self, container: Container, execution_type: ExecutionType) -> None:
        """Count it under its new type. If it waits, it goes to the end of the other queue, as in YARN."""
        self._tracker.transfer(container.allocated, container.execution_type, execution_type)
        container.change(execution_type=execution_type)
        if not container.is_opportunistic:
            self._handover.arrived(container.resource)
        if container.is_waiting:
            container.sequence = self._take_sequence()
        pause = container.pause
        if pause is not None and pause.gives_way_to is not None:
            # it need not give way any more, unless its pause is under way already
            if pause.pending and pause.held_by is None:
                self._drop_pause(container)
            else:
                container.pause = replace(pause, gives_way_to=None)

    def _on_resized(self, total: Resource) -> None:
        """The node has another size: room for some that wait, or too little for opportunistic ones that run."""
        self._tracker.total = total
        self._too_small = self._tracker.overdrawn != Resource()
        for following in self._succession.followers():
            self._revoke_next(following)
        for container in list(self._active.values()):
            # A strict CPU limit is a share of the node's vcores. A container that gave memory gets it when it resumes.
            if container.state is RUNNING or (container.state is PAUSED and not container.gave_memory):
                self._emit(SetLimits(container.container_id, self._limits(container)))
        for container in [*self._guaranteed, *self._opportunistic]:
            if container.state is SCHEDULED and not container.resource.fits_in(total):
                # It can never start here: its master asks again, and gets a container elsewhere.
                sentence = outcome.larger_than_node(container.resource, total)
                self._kill(container, BY_SCHEDULER, Cause(CauseKind.TOO_LARGE), sentence)
        self._start_pending()

    def _on_usage(self, event: events.UsageSampled) -> None:
        for container_id, usage in event.usages.items():
            container = self._active.get(container_id)
            if container is not None:
                self._measure(container, usage)
                container.usage = usage
                if container.state is not KILLING:
                    self._enforce_memory(container, usage)
                    self._enforce_disk(container, usage)
        if self._commands:
            self._start_pending()  # under pressure, one starts while no other runs, and now some end

    def _enforce_memory(self, container: Container, usage: ContainerUsage) -> None:
        """End a container beyond its memory where the kernel does not: virtual memory is checked first, as in YARN."""
        limit = container.resource.memory * MIB
        if self._settings.vmem_check_enabled:
            virtual = int(limit * self._settings.vmem_pmem_ratio)
            if outcome.must_end_for_memory(usage.virtual_bytes, virtual, container.over_virtual):
                cause = Cause(CauseKind.OVER_VIRTUAL_MEMORY, measured=usage.virtual_bytes, limit=virtual)
                self._kill(container, int(ContainerExitStatus.KILLED_EXCEEDED_VMEM), cause, force=True)
            container.over_virtual = 0 < virtual < usage.virtual_bytes
        if not self._polls_memory or container.state is KILLING:
            return
        if outcome.must_end_for_memory(usage.memory_bytes, limit, container.over_memory):
            cause = Cause(CauseKind.OVER_MEMORY, measured=usage.memory_bytes, limit=limit)
            self._kill(container, int(ContainerExitStatus.KILLED_EXCEEDED_PMEM), cause, force=True)
        container.over_memory = 0 < limit < usage.memory_bytes

    def _enforce_disk(self, container: Container, usage: ContainerUsage) -> None:
        limit = min(self._settings.log_dir_size_limit_bytes, self._settings.log_total_size_limit_bytes)
        if usage.log_bytes > limit and container.state is not KILLING:
            cause = Cause(CauseKind.EXCESS_LOGS, measured=usage.log_bytes, limit=limit)
            self._kill(container, int(ContainerExitStatus.KILLED_FOR_EXCESS_LOGS), cause, force=True)
        limit = self._settings.work_dir_size_limit_bytes
        if 0 < limit < usage.disk_bytes and container.state is not KILLING:
            cause = Cause(CauseKind.EXCESS_DISK, measured=usage.disk_bytes, limit=limit)
            self._kill(container, int(ContainerExitStatus.KILLED_FOR_EXCESS_LOGS), cause, force=True)

    def _on_recovered(self, event: events.ContainerRecovered) -> None:
        """Take a container back. Nothing is started before RecoveryCompleted."""
        container = recovery.restore(event, self._now, self._epoch_ms)
        container_id = container.container_id
        if container_id in self._live or container_id in self._finished:
            return
        self._recovering = True
        self._next_sequence = max(self._next_sequence, container.sequence + 1)
        where = recovery.standing(event)
        if where is recovery.Standing.FINISHED:
            self._finished[container_id] = container
            self._emit(CleanUpContainer(container_id))  # the crash may have come before this
            self._report(container)
            return
        self._add_live(container)
        if where is recovery.Standing.ENDED:
            self._settle(container, self._outcome_of(container, event))
            self._tell_end(container)
            return
        if where is not recovery.Standing.QUEUED:
            self._active[container_id] = container
            holds = recovery.holding(event)
            if container.state is PAUSED:
                holds = replace(holds, memory=self._paused_memory.kept(holds.memory, -1))
            self._acquire(container, holds)
            self._devices.hold(container_id, container.spec.devices)
            if event.record.state is PAUSING:  # its memory limit may have been lowered just before the crash
                self._emit(SetLimits(container_id, self._limits(container)))
        if where is recovery.Standing.KILLING:
            self._order_kill(container, container.killed_as, force=False)
            return
        if where is not recovery.Standing.RUNNING and self._end_if_impossible(container):
            return
        self._enqueue(container)
        if container.record() != event.record:
            self._store(container)
        self._report(container)
        self._on_running(container)

    def _on_recovery_completed(self) -> None:
        self._recovering = False
        started = sorted(self._active.values(), key=lambda container: container.started_at_ms)
        self._active = {container.container_id: container for container in started}
        for container in started:
            if container.is_opportunistic and container.state is not PAUSED:
                self._opportunistic.started(container)
        self._too_small = self._tracker.overdrawn != Resource()
        self._start_pending()
