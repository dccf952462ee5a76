"""The containers of one node: their queues, allocations and status.

The lowest layer of the ContainerScheduler. It keeps collections and sums consistent, and makes no decisions.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice

from ..causes import STANDS_BACK
from ..records import (
    CgroupLimits,
    ContainerStatus,
    ExecutionType,
    OpportunisticContainersStatus,
    Resource,
)
from ..settings import ExecutorSettings
from .applications import Applications
from .commands import Command, ForgetContainer, ReportStatus, SetNodeWeight, StoreContainer
from .container import KILLING, NOTHING, PAUSED, PAUSING, Container, ContainerDeadline, DeadlineKind
from .devices import Devices
from .estimates import (
    LOOKED_AT,
    RecentMean,
    Running,
    Waiting,
    WaitStatistics,
    expected_starts,
    remaining,
    whole,
)
from .limits import cgroup_limits
from .machine import Deadlines
from .queues import ORDERS, ContainerQueue, OpportunisticQueue, admission_of
from .reclaim import POLICIES, paused_memory_of
from .succession import Succession
from .tracker import Handover, ResourceUtilizationTracker, UtilizationBasedTracker

ESTIMATE_HOLDS = 0.05
"""Seconds for which heartbeats tell an estimate of the wait before it is made anew."""


class ContainerBook:
    """The containers of one node and their allocations. ContainerScheduler explains the arguments."""

    def __init__(
        self,
        total: Resource,
        settings: ExecutorSettings,
        *,
        physical_cores: int,
        wall_offset: float = 0.0,
        enforce_memory_by_polling: bool = False,
        devices: Sequence[str] = (),
    ) -> None:
        self._settings = settings
        self._devices = Devices(devices)
        self._physical_cores = physical_cores
        self._wall_offset = wall_offset
        enforce_memory_by_polling = enforce_memory_by_polling or not settings.memory_enabled
        self._polls_memory = (
            enforce_memory_by_polling and settings.memory_enforced and settings.pmem_check_enabled
        )
        self._paused_memory = paused_memory_of(
            settings, cgroups_limit_memory=settings.memory_enforced and not enforce_memory_by_polling
        )
        self._lends = settings.utilization_tracker == "UTILIZATION"
        self._tracker = (UtilizationBasedTracker if self._lends else ResourceUtilizationTracker)(total)
        #: why no container can be started here, "" if they can
        self.health_report = ""
        #: until when no opportunistic container may run (epoch), 0 while they may
        self.closed_until_ms = 0
        #: all containers that have not ended, in order of arrival
        self._live: dict[str, Container] = {}
        #: those that hold resources, in order of start
        self._active: dict[str, Container] = {}
        #: those that ended, and whose end is not acknowledged yet
        self._finished: dict[str, Container] = {}
        #: the last of those whose end was acknowledged
        self._forgotten: OrderedDict[str, Container] = OrderedDict()
        self._guaranteed = ContainerQueue()
        self._applications = Applications()
        order = ORDERS[settings.queue_policy](self._applications)
        self._preemption = POLICIES[settings.preemption_policy](settings, self._applications)
        self._admission = admission_of(settings)
        self._paused_go_last = settings.paused_place == "TAIL"
        self._opportunistic = OpportunisticQueue(
            settings.max_overtakes if order.overtakes else 0,
            order,
            max_wait_ms=settings.max_wait_ms,
            counts_paused=self._paused_go_last,
        )
        #: nothing opportunistic starts while a guaranteed container waits
        self._guaranteed_bar = not order.overtakes or self._preemption.is_in_vain
        #: guaranteed containers start whether they fit or not
        self._forces_guaranteed = (
            settings.force_start_guaranteed
            and settings.admission == "BY_QUEUE_LEN"
            and settings.max_queue_length == 0
        )
        self._succession = Succession()
        self._deadlines: Deadlines[ContainerDeadline] = Deadlines()
        # Where containers are paused, one that starts in a gap loses nothing, and the gap is used.
        hold_ms = 0 if settings.use_pause_for_preemption else settings.hold_for_guaranteed_ms
        self._handover = Handover(hold_ms / 1000)
        self._durations = RecentMean()
        self._waits = WaitStatistics()
        self._shed = 0
        #: the opportunistic container that came last
        self._last_asked: Container | None = None
        #: the last estimate: when it was made, how many were before such a container then, and the seconds
        self._estimate: tuple[float, int, Container | None, float] | None = None
        self._next_sequence = 1
        self._recovering = False
        self._too_small = False
        """Whether containers hold more than the node has because it was made smaller, not because one of them grew."""
        self._now = 0.0
        self._commands: list[Command] = []
        #: the guaranteed vcores whose weight this node's group was last given
        self._weighed: float | None = None

    def forget(self, container_ids: Iterable[str]) -> list[Command]:
        """Remove the records of these containers, whose ends were reported.

        The last ``retain_finished`` of them stay in ``statuses()``. Containers that are unknown or have not ended are
        ignored.
        """
        commands: list[Command] = []
        for container_id in container_ids:
            container = self._finished.pop(container_id, None)
            if container is not None:
                self._forgotten[container_id] = container
                commands.append(ForgetContainer(container_id))
        while len(self._forgotten) > self._settings.retain_finished:
            self._forgotten.popitem(last=False)
        return commands

    def is_held(self, container_id: str) -> bool:
        """Whether a user has paused this container, or has requested a pause."""
        container = self._live.get(container_id)
        return container is not None and container.held

    def gives_way(self, container_id: str) -> bool:
        """Whether it is paused for pressure that is not over, or until a time."""
        container = self._live.get(container_id)
        return container is not None and container.gives_way_to(STANDS_BACK)

    @property
    def total(self) -> Resource:
        """The resources of the node."""
        return self._tracker.total

    @property
    def awaits_guaranteed(self) -> bool:
        """Whether guaranteed containers are known to wait for this node."""
        return self._handover.expects

    @property
    def allocated(self) -> Resource:
        """The allocated resources, including the memory of paused containers."""
        return self._tracker.allocated

    @property
    def devices(self) -> tuple[str, ...]:
        """The identified GPUs of the node."""
        return self._devices.ids

    @property
    def available(self) -> Resource:
        """The resources that can still be allocated."""
        return self._tracker.available

    def status(self, container_id: str) -> ContainerStatus | None:
        """The status of one container, without its place; None if it is not known (any more)."""
        for containers in (self._live, self._finished, self._forgotten):
            container = containers.get(container_id)
            if container is not None:
                return container.status()
        return None

    @property
    def live(self) -> Mapping[str, Container]:
        """The containers that have not ended, in order of arrival, to look at."""
        return self._live

    def usual_seconds(self, container: Container) -> float | None:
        """How long containers of its application have run here, else all containers; None for unknown."""
        return self._applications.expected_seconds(container)

    @property
    def is_idle(self) -> bool:
        """Whether no container runs or waits."""
        return not self._live

    @property
    def queue_length(self) -> int:
        """How many containers of both types are queued."""
        return len(self._guaranteed) + len(self._opportunistic)

    def opportunistic_status(
        self, now: float | None = None, *, roughly: bool = False
    ) -> OpportunisticContainersStatus:
        """The status of opportunistic containers for a heartbeat. ``now`` is by default that of the last ``handle``.

        ``roughly``: a recent estimate of the waiting time suffices, for the present number of waiting containers.
        """
        held = self._tracker.allocated_to(ExecutionType.OPPORTUNISTIC)
        active = paused = 0
        for container in self._active.values():
            if container.is_opportunistic:
                active += 1
                paused += container.state is PAUSED
        wait = (self._rough_wait if roughly else self._estimated_wait)(self._now if now is None else now)
        lent = self._lent
        queued = self._opportunistic.queued_needed
        return OpportunisticContainersStatus(
            running=active - paused,
            memory_used=held.memory,
            vcores_used=held.vcores,
            queued=len(self._opportunistic),
            wait_queue_length=self.queue_length,
            estimated_queue_wait_ms=_ms(wait),
            queue_capacity=self._admission.capacity,
            paused=paused,
            lent_memory=lent.memory,
            lent_vcores=lent.vcores,
            queued_memory=queued.memory,
            queued_vcores=queued.vcores,
            wait_estimates=self._waits.count,
            wait_error_ms=_ms(self._waits.errors.mean),
            mean_wait_ms=_ms(self._waits.waits.mean),
            closed_until_ms=self.closed_until_ms,
            shed=self._shed,
            others_used=held.others,
            queued_others=queued.others,
        )

    @property
    def _lent(self) -> Resource:
        """The resources on which opportunistic containers may start in addition to those that are not allocated."""
        return Resource()

    def _estimated_wait(self, now: float) -> float | None:
        """How many seconds the next opportunistic container waits that is like the last one that came; None if nothing
        is known of how long containers run."""
        last = self._last_asked
        size = Resource() if last is None else last.resource
        ahead = self._ahead()
        if ahead == 0 and size.fits_in(self._tracker.available):
            return 0.0
        self._estimate = None
        before = chain(self._guaranteed, self._opportunistic.before(last))
        starts = self._expected_starts(now, list(islice(before, LOOKED_AT)), Waiting(0.0, size, size))
        if not starts or math.isinf(starts[-1]):
            return None
        looked_at = len(starts) - 1
        seconds = starts[-1] * max(ahead / looked_at, 1.0) if looked_at else starts[-1]
        self._estimate = (now, ahead, last, seconds)
        return seconds

    def _rough_wait(self, now: float) -> float | None:
        """The same of a moment ago, in proportion to how many are before it now. A busy node sends hundreds of
        heartbeats in a second, and the seconds that containers wait do not change so fast."""
        if self._estimate is not None:
            made_at, ahead, like, seconds = self._estimate
            before = self._ahead()
            if now - made_at < ESTIMATE_HOLDS and self._is_like_last(like) and 0 < before <= 2 * ahead:
                return seconds * (before + 1) / (ahead + 1)
        return self._estimated_wait(now)

    def _is_like_last(self, like: Container | None) -> bool:
        last = self._last_asked
        if like is last or like is None or last is None:
            return like is last
        same = like.spec.resource is last.spec.resource or like.spec.resource == last.spec.resource
        return same and self._opportunistic.are_equally_urgent(like, last)

    def _ahead(self) -> int:
        """How many waiting containers would be before one that is like the last one that came."""
        return len(self._guaranteed) + self._opportunistic.ahead_of(self._last_asked)

    def _expected_starts(
        self, now: float, line: Sequence[Container], last: Waiting | None = None
    ) -> list[float]:
        """The seconds until each container of ``line`` starts, one after the other, and until ``last`` does behind
        them.

        Empty if nothing is known.
        """
        running = [container for container in self._active.values() if container.state is not PAUSED]
        # those of one application last equally long, except where their master told how long
        learned: dict[str, float | None] = {}
        for container in chain(running, line):
            name = container.spec.application_id
            if container.spec.duration_hint_ms <= 0 and name not in learned:
                expected = self._applications.expected_seconds(container)
                learned[name] = self._durations.mean if expected is None else expected
        begun: dict[str, float] = {}
        for container in running:
            name = container.spec.application_id
            seconds = learned.get(name) if container.spec.duration_hint_ms <= 0 else None
            if seconds is not None and not self._applications.is_measured(name):
                begun[name] = max(begun.get(name, 0.0), whole(seconds, container.ran_seconds(now)))
        known = [
            container.spec.duration_hint_ms / 1000
            if container.spec.duration_hint_ms > 0
            else begun.get(container.spec.application_id, learned[container.spec.application_id])
            for container in chain(running, line)
        ]
        measured = [seconds for seconds in known if seconds is not None]
        if not measured:
            return []
        mean = sum(measured) / len(measured)
        ends = []
        for container, seconds in zip(running, known, strict=False):
            given_back = container.is_giving_back
            if given_back is not NOTHING and given_back != NOTHING:
                ends.append(Running(0.0, given_back))
            else:
                left = remaining(mean if seconds is None else seconds, container.ran_seconds(now))
                ends.append(Running(left, container.allocated))
        waiting = []
        for container, seconds in zip(line, known[len(running) :], strict=True):
            left = remaining(mean if seconds is None else seconds, container.ran)
            waiting.append(Waiting(left, container.needed, container.resource))
        if last is not None:
            waiting.append(last)
        return expected_starts(self._tracker.available, ends, waiting)

    @property
    def _epoch_ms(self) -> int:
        return self._epoch_ms_of(self._now)

    def _epoch_ms_of(self, seconds: float) -> int:
        """Always rounded down: so no time between two is shortened by more than what is less than a millisecond."""
        return int((seconds + self._wall_offset) * 1000)

    def _take_sequence(self, since_ms: int = 0) -> int:
        """The next place in the order of arrival; with ``since_ms`` that of a container that has waited since then.

        Places are microseconds, so that there is a place between any two arrivals.
        """
        if 0 < since_ms < self._epoch_ms:
            taken = {container.sequence for container in self._live.values()}
            sequence = since_ms * 1000
            while sequence in taken:
                sequence += 1
            if sequence < self._next_sequence:
                return sequence
        sequence = max(self._next_sequence, self._epoch_ms * 1000)
        self._next_sequence = sequence + 1
        return sequence

    def _emit(self, command: Command) -> None:
        self._commands.append(command)

    def _settle_weight(self) -> None:
        """After each step: this node's group weighs as much as the guaranteed containers that run. A pause gives it
        back, and so does idling beside opportunistic containers, which would use that weight.

        A process stops and ends only when it is given a processor, so one that is to stop or end does not wait for
        lack of weight; nor does a master, for whose few milliseconds its whole job waits.
        """
        if self._recovering or not self._settings.group_weights:
            return
        idle = self._idle_guaranteed()
        vcores: float = self._tracker.allocated_to(ExecutionType.GUARANTEED).vcores - sum(idle.values())
        if vcores < 1:
            least = (self._least_weight(one, idle) for one in self._active.values())
            vcores = max(vcores, max(least, default=0.0))
        if vcores != self._weighed:
            self._weighed = vcores
            self._emit(SetNodeWeight(vcores))

    def _least_weight(self, container: Container, idle: Mapping[str, float]) -> float:
        """The weight of the group for this container alone, in vcores, even if it is accounted with fewer."""
        if container.state in (PAUSING, KILLING):
            return 1.0
        is_master = container.spec.least_vcores and container.state is not PAUSED
        return 1.0 if is_master and container.container_id not in idle else 0.0

    def _idle_guaranteed(self) -> Mapping[str, float]:
        """Guaranteed containers that use less than they have, and how many vcores less; those that were not measured
        are not known to be idle."""
        return {}

    def _store(self, container: Container) -> None:
        self._emit(StoreContainer(container.record()))

    def _report(self, container: Container) -> None:
        self._emit(ReportStatus(container.status()))

    def _move(self, container: Container, trigger: type) -> None:
        container.move(trigger, self._now, self._epoch_ms)

    def _add_live(self, container: Container) -> None:
        self._live[container.container_id] = container
        self._applications.arrived(container)

    def _acquire(self, container: Container, resource: Resource) -> None:
        container.allocated += resource
        self._tracker.acquire(container.execution_type, resource)

    def _release(self, container: Container, resource: Resource) -> None:
        container.allocated -= resource
        self._tracker.release(container.execution_type, resource)

    def _queue_of(self, container: Container) -> ContainerQueue | OpportunisticQueue:
        return self._opportunistic if container.is_opportunistic else self._guaranteed

    def _enqueue(self, container: Container) -> None:
        if container.is_waiting and container not in (queue := self._queue_of(container)):
            queue.add(container)

    def _dequeue(self, container: Container) -> None:
        if container in (queue := self._queue_of(container)):
            queue.remove(container)

    def _limits(self, container: Container) -> CgroupLimits:
        return cgroup_limits(
            container.resource,
            container.execution_type,
            self._settings,
            node_vcores=self.total.vcores,
            physical_cores=self._physical_cores,
            least_vcores=container.spec.least_vcores,
        )

    def _set_deadline(self, container: Container, kind: DeadlineKind, at: float) -> None:
        self._deadlines.set(ContainerDeadline(container.container_id, kind), at)

    def _clear_deadlines(self, container: Container, *kinds: DeadlineKind) -> None:
        for kind in kinds or DeadlineKind:
            self._deadlines.clear(ContainerDeadline(container.container_id, kind))

    def _say(self, container: Container, sentence: str, *, passing: bool = False) -> None:
        container.say(sentence, self._settings.diagnostics_maximum_size, passing=passing)


def _ms(seconds: float | None) -> int:
    """Whole milliseconds, -1 for unknown."""
    return -1 if seconds is None else round(seconds * 1000)
