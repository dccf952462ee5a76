"""Reactions to measurements: which containers pressure pauses or kills, and which start on idle resources
(YARN-1011).

Opportunistic containers are paused while processes outside yopp, or guaranteed containers that lent them vcores, need
the CPU. While memory is short, they are killed one at a time, or paused and swapped out if there is enough swap.
``pressure.py`` detects pressure and its amount. A guaranteed container is never touched.

Decisions: pressure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..causes import CPU_PRESSURE, MEMORY_PRESSURE, STANDS_BACK, WINDOW, Cause, CauseKind
from ..light import Record, replace
from ..reasons import MEMORY, Reason, ReasonKind
from ..records import ContainerUsage, HostUtilization, Resource
from ..settings import ExecutorSettings
from .actions import BY_SCHEDULER, ContainerActions
from .commands import WatchHost
from .container import KILLING, PAUSED, PAUSING, RUNNING, Container
from .events import NodeUtilizationSampled, OpportunisticWindowChanged
from .pressure import (
    LEAST_TURN_SHARE,
    MIB,
    ROUNDING,
    TAKEN_SHARE,
    TOLERANCE,
    TURN_SHARE,
    CpuPressure,
    Demand,
    MemoryPressure,
)
from .tracker import Room
from .victims import fewest

HALF_LIFE_SECONDS = 5.0
"""A container's appetite for CPU is what it was seen to use; while it uses less, it halves in this time."""

LEAST_CORES = 0.05
"""Pausing a container that uses less gives nothing."""

LEAST_MEMORY = 4 * MIB
"""Ending a container that uses less gives nothing."""

VERIFY_SECONDS = 0.5
"""How long after one victim is gone the next may be chosen: a measurement without it must come first."""

STEPS_OF_WEIGHT = 4
"""In parts of a vcore the use of a guaranteed container counts in the weight of its node's group, rounded up."""

TURN_CPU = 0.05
"""How many core-seconds a container may use in its turn: enough to start and end a program."""

TURN_SECONDS = 3.0
"""How long a turn lasts at most."""

TURN_WEIGHT = 0.1
"""The weight of containers in their turn, in parts of a process on each core, while they keep to their share: so what
needs a few milliseconds gets them soon."""

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 5.0, 60.0
"""After how long a paused container gets a turn; doubled each time that it has to be paused again."""

TURN_DEBT = 3.0
"""For how many seconds at most no turn has weight, after all nodes together have used more than the share."""

SELDOM = 2
"""While no opportunistic container takes anything from others, the time between two measurements of the machine is so
many times longer."""

COST, SELDOM_COST = 0.04, 0.005
"""What measurements of the machine may take of its CPU: where they take more, there are fewer. The second while no
opportunistic container takes anything from others."""

FEWEST = 8
"""The time between two measurements is never more than so many times longer, whatever they take."""

UNITS = 20
"""Into how many units a core is divided when victims are chosen."""

MAXIMUM_THRESHOLD = 0.95
"""YARN-1011's bound on the thresholds of overallocation."""

BUSY = Reason(ReasonKind.MACHINE_BUSY)
ONE_BY_ONE = Reason(ReasonKind.ONE_BY_ONE)


class Use(Record):
    """Cores that a container used when last measured, its appetite for them, and its memory in bytes.

    ``settled``: it has run for long enough to count with what it uses. ``needs``: it used the CPU, or waited for it.
    """

    cores: float
    appetite: float
    memory_bytes: int
    settled: bool
    needs: bool = True


class Turn(Record):
    """Where the kernel makes opportunistic containers yield, and others leave nothing, a container shows what it needs
    before it is paused: after its start, after it was idle, and now and then after a pause.

    ``cpu`` and ``ran`` are the CPU time and the seconds that it had when its turn began. Its next one, if it is paused,
    is ``due`` then; if it is paused once more, after ``wait`` seconds.
    """

    cpu: float = 0.0
    ran: float = 0.0
    due: float = 0.0
    wait: float = FIRST_WAIT_SECONDS


FIRST_TURN = Turn()


class Overallocation(Record):
    """The utilization up to which resources are lent; 0 for not at all."""

    memory: float
    cpu: float


def overallocation(settings: ExecutorSettings) -> Overallocation:
    """The thresholds by YARN-1011's rules: capped, and nothing is lent above the threshold of preemption.

    There, either dimension switches off both; here each counts for itself.
    """
    general = settings.overallocation_general
    if general < 0:
        general = MAXIMUM_THRESHOLD

    def threshold(own: float) -> float:
        chosen = min(general if own < 0 else own, MAXIMUM_THRESHOLD)
        return chosen if chosen < settings.overallocation_preemption else 0.0

    return Overallocation(threshold(settings.overallocation_memory), threshold(settings.overallocation_cpu))


class PressureActions(ContainerActions):
    """The layer above ContainerActions: reactions to measurements."""

    def __init__(self, total: Resource, settings: ExecutorSettings, **rest: Any) -> None:
        super().__init__(total, settings, **rest)
        self._watches = settings.pressure_enabled or self._lends
        self._watched_ms = self._next_ms = 0
        self._thresholds = overallocation(settings)
        self._cpu = CpuPressure(
            outside=settings.pressure_outside_cpu,
            saturated=settings.overallocation_preemption,
            sustained=settings.pressure_sustained_ms / 1000,
            quiet=settings.pressure_quiet_ms / 1000,
            lends=self._lends,
        )
        available = settings.pressure_memory_available_mb
        self._memory = MemoryPressure(
            available=None if available < 0 else available * MIB,
            stalled=settings.pressure_memory_stall / 100,
            quiet=settings.pressure_quiet_ms / 1000,
        )
        #: the last reading, None while the machine is not watched
        self._host: HostUtilization | None = None
        self._demand = Demand()
        self._cores = 0
        #: the CPU time that a measurement of the machine takes, as of late
        self._cost = 0.0
        #: what containers used at the last reading; later measurements wait for the machine's own figures
        self._use: dict[str, Use] = {}
        self._measured: dict[str, Use] = {}
        #: the turns of containers that are not in their first one
        self._turns: dict[str, Turn] = {}
        #: the core-seconds that those in their turn may use now
        self._turn_credit = 0.0
        #: whether they had more weight since the last reading
        self._lifted = False
        #: whether they had, when others left nothing, and kept to their share
        self._modest = False
        self._sampled_at = self._turn_given_at = self._memory_given_at = float("-inf")
        #: guaranteed containers that used less than they have when last measured, and how many vcores less
        self._idle: dict[str, float] = {}

    # -- what is measured

    def _settle_watch(self) -> None:
        """After each step: have the machine watched while there are opportunistic containers, less often while none of
        them takes anything from others: none runs, or the kernel makes them yield to those that leave nothing."""
        interval_ms = 0
        if self._watches:
            often, active = self._settings.pressure_sampling_ms, self._active.values()
            yields = self._host is not None and self._cpu.protects and not self._cpu.leaves
            if not yields and any(one.is_opportunistic and one.state is not PAUSED for one in active):
                interval_ms = often * self._times_longer(1, self._measuring_share())
            elif len(self._opportunistic) > 0 or any(one.is_opportunistic for one in active):
                interval_ms = often * self._times_longer(SELDOM, SELDOM_COST)
        next_ms, self._next_ms = self._next_ms, 0
        if interval_ms == self._watched_ms and not next_ms:
            return
        self._watched_ms = interval_ms
        if not interval_ms:
            self._host = None  # it says nothing about later
            self._cpu.forget()
            self._idle = {}
            self._lifted = self._modest = False
        self._emit(WatchHost(interval_ms, next_ms))

    def _measuring_share(self) -> float:
        """What measurements may take of the CPU. The nodes of a host share it, by what their containers use."""
        used, elsewhere = self._demand.used, self._demand.elsewhere
        if self._host is None or self._host.runnable_others <= 0 or elsewhere <= 0:
            return COST  # what new containers of this node use is not told from that of others yet
        return max(COST * used / (used + elsewhere), SELDOM_COST)

    def _times_longer(self, least: int, share: float) -> int:
        """How many times longer than the least time between two measurements the next one is."""
        affordable = share * max(self._cores, 1) * self._settings.pressure_sampling_ms / 1000
        return max(least, min(math.ceil(self._cost / affordable), FEWEST))

    def _measure(self, container: Container, usage: ContainerUsage) -> None:
        """A container was measured; ``container.usage`` is still the previous measurement."""
        seconds = usage.sampled_at - container.usage.sampled_at
        if not self._watches or container.usage.sampled_at <= 0 or seconds <= 0:
            return
        cores = max(0.0, usage.cpu_seconds - container.usage.cpu_seconds) / seconds
        known = self._use.get(container.container_id)
        stands = container.state in (PAUSED, PAUSING)
        if stands and known is None:
            return  # what it would use is not known yet
        appetite = known.appetite if known is not None else 0.0
        needs = known is not None and known.needs
        if not stands:
            appetite *= 0.5 ** (seconds / HALF_LIFE_SECONDS)
            # A container with the least weight may get next to nothing, and so use nothing while it waits for the CPU.
            # If it waits in two measurements in a row, that is no accident. A guaranteed one need not wait that long.
            before = container.usage.runnable if container.is_opportunistic else usage.runnable
            waits = min(usage.runnable, before, self._physical_cores)
            appetite = max(appetite, float(waits))
            needs = cores >= LEAST_CORES or waits > 0
        settled = container.ran_seconds(self._now) >= self._settings.overallocation_ramp_ms / 1000
        self._measured[container.container_id] = Use(
            cores,
            max(cores, appetite),
            usage.memory_bytes,
            settled or (known is not None and known.settled),
            needs,
        )
        if not needs and not usage.runnable and container.state is RUNNING:
            self._turns[container.container_id] = Turn(usage.cpu_seconds, container.ran_seconds(self._now))

    def _take_measurements(self) -> None:
        for one, use in self._use.items():
            if one in self._active and self._active[one].state is PAUSED:
                self._measured.setdefault(one, replace(use, cores=0.0))  # these are measured seldom
        self._use = {one: use for one, use in (self._use | self._measured).items() if one in self._active}
        self._measured.clear()
        self._turns = {one: turn for one, turn in self._turns.items() if one in self._active}

    def _look_who_idles(self) -> None:
        """A guaranteed container that has started lately, or that this is not known of, does not idle."""
        self._idle = {}
        for container in self._active.values():
            use = self._use.get(container.container_id)
            if container.is_opportunistic or container.state is not RUNNING or use is None or not use.settled:
                continue
            used = use.appetite * self.total.vcores / max(self._physical_cores, 1)
            counted = 0.0 if use.appetite < LEAST_CORES else -(-used * STEPS_OF_WEIGHT // 1) / STEPS_OF_WEIGHT
            if counted <= 0 or counted < container.resource.vcores:
                self._idle[container.container_id] = max(0.0, container.resource.vcores - counted)

    def _idle_guaranteed(self) -> Mapping[str, float]:
        """While an opportunistic container runs beside them: else nobody here uses what they leave."""
        beside = (one.is_opportunistic and one.state is not PAUSED for one in self._active.values())
        if not self._idle or not any(beside):
            return {}
        live = (one for one in self._idle if one in self._active)
        return {
            one: self._idle[one]
            for one in live
            if self._active[one].state is RUNNING and not self._active[one].is_opportunistic
        }

    def _appetite(self, container: Container) -> float:
        """Cores that it needs: what was measured, else what it was promised."""
        known = self._use.get(container.container_id)
        return known.appetite if known is not None else self._promised(container)

    def _promised(self, container: Container) -> float:
        return container.resource.vcores * self._physical_cores / max(self.total.vcores, 1)

    def _counted_cores(self, container: Container) -> float:
        if container.state is PAUSED:
            return 0.0
        use = self._use.get(container.container_id)
        return use.appetite if use is not None and use.settled else self._promised(container)

    def _counted_memory(self, container: Container) -> int:
        """MiB that it is assumed to use."""
        use = self._use.get(container.container_id)
        return -(-use.memory_bytes // MIB) if use is not None and use.settled else container.allocated.memory

    def _on_host_sampled(self, event: NodeUtilizationSampled) -> None:
        if not self._watched_ms:
            return  # it was still under way when watching ended
        known = self._host is not None
        self._host = host = event.host
        self._cores = host.cores
        self._cost += (host.cost - self._cost) / (4 if self._cost else 1)
        self._take_measurements()
        self._look_who_idles()
        mine = [c for c in self._active.values() if c.is_opportunistic]
        used = sum(use.cores for c in mine if (use := self._use.get(c.container_id)) is not None)
        going = [c for c in mine if c.state is not PAUSED]
        turn = sum(self._appetite(c) for c in going if self._has_turn(c))
        wanted = sum(map(self._appetite, going)) - turn
        elsewhere = max(0.0, host.yopp_cpu - host.daemons_cpu - sum(use.cores for use in self._use.values()))
        others = host.runnable_others if host.runnable_others >= 0 else elsewhere
        runnable = (
            others
            + host.daemons_cpu
            + sum(
                c.usage.runnable if c.usage.sampled_at > 0 else 1  # it has just begun
                for c in self._active.values()
                if c.state is not PAUSED
            )
        )
        self._demand = Demand(
            rest=max(0.0, host.yopp_cpu - used),
            opportunistic=wanted,
            used=used,
            runnable=runnable,
            elsewhere=elsewhere,
            others=others,
            turn=turn,
            lifted=self._lifted,
        )
        surplus = self._cpu.sampled(host, self._demand, self._now)
        left_ms = (self._cpu.decides_at - self._now) * 1000
        if 0 < left_ms < self._watched_ms * 1.25:
            self._next_ms = int(left_ms) + 1
        guaranteed = sum(
            use.cores for one, use in self._use.items() if not self._active[one].is_opportunistic
        )
        self._settle_turns(host.yopp_cpu - host.daemons_cpu - guaranteed, host.daemons_cpu)
        self._modest = self._lifted and known and self._turn_credit > 0
        self._lifted = False
        if surplus > 0:
            self._give_cpu(surplus)
        else:
            self._take_cpu()
        self._balance_memory(host)
        self._start_pending()

    # -- who gives way

    def _give_cpu(self, surplus: float) -> None:
        """Pause the fewest, the newest of those, that give so many cores; or all that use CPU if they do not
        suffice."""
        at_least = self._settings.pressure_sustained_ms / 2000  # a shorter one is only a burst itself
        candidates = [
            container
            for container in reversed(self._active.values())
            if container.is_opportunistic
            and container.state is RUNNING
            and not container.unpausable
            and container.ran_seconds(self._now) >= at_least
            and ((use := self._use.get(container.container_id)) is None or use.needs)
            and not self._has_turn(container)
        ]
        gains = [Resource(0, max(1, round(self._appetite(c) * UNITS))) for c in candidates]
        short = Resource(0, max(1, int(surplus * UNITS)))
        chosen = fewest(gains, short) or range(len(candidates))
        outside = self._cpu.wanted_outside
        cause = Cause(CauseKind.OUTSIDE_CPU, cores=outside) if outside else Cause(CauseKind.LENT_CPU)
        for index in chosen:
            turn = self._turn(candidates[index])
            longer = min(2 * turn.wait, LONGEST_WAIT_SECONDS)
            turn = replace(turn, due=self._now + turn.wait, wait=longer)
            self._turns[candidates[index].container_id] = turn
            self._give_way(candidates[index], cause)

    def _turn(self, container: Container) -> Turn:
        return self._turns.get(container.container_id, FIRST_TURN)

    def _has_turn(self, container: Container) -> bool:
        """Whether it is not paused for the CPU, because it has not shown yet what it needs."""
        turn = self._turn(container)
        return (
            self._cpu.protects
            and container.usage.cpu_seconds - turn.cpu < TURN_CPU
            and container.ran_seconds(self._now) - turn.ran < TURN_SECONDS
        )

    def _settle_turns(self, used: float, daemons: float) -> None:
        """Opportunistic containers used so many cores, of which the share of those in their turn is paid for; what
        daemons use beyond their part of what yopp may take comes off it."""
        part = min(TURN_SHARE, TAKEN_SHARE - daemons / self._cores)
        share = max(LEAST_TURN_SHARE, part) * self._cores
        credit = self._turn_credit + (share - used) * min(self._now - self._sampled_at, 1.0)
        self._turn_credit = share if self._cpu.leaves else min(max(credit, -TURN_DEBT * share), share)
        self._sampled_at = self._now

    def _charge(self, container: Container, usage: ContainerUsage) -> None:
        """A container has ended. If no reading has shown what it used, it is paid for now: those that are short, one
        after the other, end before the first."""
        if self._host is None and container.is_opportunistic:
            share = TURN_SHARE * self._physical_cores
            credit = min(self._unread_credit(), share) - usage.cpu_seconds
            self._turn_credit, self._sampled_at = max(credit, -TURN_DEBT * share), self._now

    def _unread_credit(self) -> float:
        """The credit while there are no readings: it grows by the share."""
        return self._turn_credit + TURN_SHARE * self._physical_cores * (self._now - self._sampled_at)

    def _least_weight(self, container: Container, idle: Mapping[str, float]) -> float:
        """Where others leave nothing, those in their turn get some CPU, and what they used is measured soon, unless
        they kept to their share before. Before the first reading it is not known what others leave."""
        least = super()._least_weight(container, idle)
        if container.state is PAUSING and container.gives_way_to(CPU_PRESSURE) and self._may_dawdle:
            return min(least, TURN_WEIGHT * self._physical_cores)
        if least or not container.is_opportunistic or container.state is PAUSED or not self._watches:
            return least
        if self._host is None and not self._lends:
            if self._unread_credit() <= 0:
                return 0.0
        elif self._cpu.leaves or self._turn_credit <= 0 or not self._has_turn(container):
            return 0.0
        if not self._lifted:
            self._lifted = True
            if not self._modest:
                soon = self._settings.pressure_sampling_ms // 2
                self._next_ms = min(self._next_ms or soon, soon)
        return TURN_WEIGHT * self._physical_cores

    @property
    def _may_dawdle(self) -> bool:
        """Whether nobody waits for a pause: weights make containers yield meanwhile. With more weight, others would use
        it: also containers of other nodes, by the group above both."""
        yields = self._host is not None and self._host.yields and not self._lends
        return yields and not len(self._guaranteed)

    def _take_cpu(self) -> None:
        """Let those resume for which there is room again, in order of arrival."""
        room = self._room_in_cores()
        for container in self._giving_way_to(CPU_PRESSURE):
            appetite = self._appetite(container)
            if not self._cpu.is_on or appetite <= room + TOLERANCE:
                self._come_back(container)
                room -= appetite
            elif self._may_have_turn(container):
                self._turn_given_at = self._now
                cpu, ran = container.usage.cpu_seconds, container.ran_seconds(self._now)
                self._turns[container.container_id] = replace(self._turn(container), cpu=cpu, ran=ran)
                self._come_back(container)

    def _may_have_turn(self, container: Container) -> bool:
        """Whether a paused container may show what it needs now: one after the other."""
        one_by_one = self._now - self._turn_given_at >= TURN_SECONDS
        able = container.state is PAUSED and not container.held
        return self._cpu.protects and able and one_by_one and self._now >= self._turn(container).due

    def _room_in_cores(self) -> float:
        """Cores that are left for opportunistic containers, less what processes outside need."""
        running = (c for c in self._active.values() if c.is_opportunistic and c.state is not PAUSED)
        wanted = sum(self._appetite(container) for container in running)
        return self._cores - self._cpu.wanted_outside - self._demand.rest - wanted

    def _giving_way_to(self, kinds: frozenset[CauseKind]) -> list[Container]:
        """Those that are paused for a cause of these kinds, or about to be, in order of arrival."""
        found = (container for container in self._active.values() if container.gives_way_to(kinds))
        return sorted(found, key=lambda container: container.sequence)

    def _come_back(self, container: Container) -> None:
        """What it was paused for is over: from now on it waits for room."""
        if container.pause is not None:
            container.pause = replace(container.pause, gives_way_to=None)
            if container.pause.held_by is None:
                container.cause = Cause(CauseKind.RESUMED)
        self._enqueue(container)

    def _balance_memory(self, host: HostUtilization) -> None:
        missing, floor = self._memory.sampled(host, self._now), self._memory.floor(host)
        cause = Cause(CauseKind.MACHINE_MEMORY, measured=host.memory_available, limit=floor)
        if missing <= 0:
            missing = self._lent_memory_in_use()
            cause = Cause(CauseKind.LENT_MEMORY)
        if missing > 0:
            self._give_memory(missing, host, cause)
        elif not self._memory.is_on:
            for container in self._giving_way_to(MEMORY_PRESSURE):
                self._come_back(container)

    def _lent_memory_in_use(self) -> int:
        """Bytes that containers use beyond the node's threshold of preemption; 0 if no memory is lent."""
        if not self._lends or self.allocated.memory <= self.total.memory:
            return 0
        used = sum(container.usage.memory_bytes for container in self._active.values())
        return max(0, used - int(self.total.memory * MIB * self._settings.overallocation_preemption))

    def _give_memory(self, missing: int, host: HostUtilization, cause: Cause) -> None:
        """One container at a time: the newest that suffices, else the largest. The next only after a measurement
        without it."""
        mine = [c for c in self._active.values() if c.is_opportunistic]
        if any(c.state is KILLING or (c.state is PAUSING and c.gives_way_to(MEMORY_PRESSURE)) for c in mine):
            self._memory_given_at = self._now
            return
        candidates = [c for c in reversed(mine) if c.usage.memory_bytes >= LEAST_MEMORY]
        if not candidates or self._now - self._memory_given_at < VERIFY_SECONDS:
            return
        self._memory_given_at = self._now
        enough = (c for c in candidates if c.usage.memory_bytes >= missing)
        victim = next(enough, max(candidates, key=lambda c: c.usage.memory_bytes))
        if self._can_swap_out(victim, host):
            self._give_way(victim, cause, victim.usage.memory_bytes // MIB)
        else:
            self._kill(victim, BY_SCHEDULER, cause, force=True)

    def _can_swap_out(self, container: Container, host: HostUtilization) -> bool:
        """Whether the kernel can swap its memory out while it is paused."""
        return (
            self._paused_memory.takes_back
            and container.state is RUNNING
            and not container.unpausable
            and not container.unreclaimable
            and host.swap_free >= container.usage.memory_bytes
        )

    # -- the time of day

    def _on_window_changed(self, event: OpportunisticWindowChanged) -> None:
        self.closed_until_ms = event.closed_until_ms
        if not self.closed_until_ms:
            for container in self._giving_way_to(WINDOW):
                self._come_back(container)
        self._start_pending()

    def _keep_to_window(self) -> None:
        """After each step: while the window is closed, what runs and may not is paused."""
        if not self.closed_until_ms:
            return
        cause = Cause(CauseKind.OUTSIDE_WINDOW, until_ms=self.closed_until_ms)
        for container in [*self._active.values()]:
            if container.is_opportunistic and container.state is RUNNING and not container.unpausable:
                self._give_way(container, cause)

    # -- what may start

    def _room_for_opportunistic(self) -> Room | Reason:
        if self.closed_until_ms:
            return Reason(ReasonKind.WINDOW_CLOSED, at_ms=self.closed_until_ms)
        if self._memory.is_on:
            return self._short_of_memory()
        room = super()._room_for_opportunistic()
        if isinstance(room, Reason):
            return room
        if self._lends:
            room = Room(room.left.greater(self._lendable()), room.because, room.before)
        if self._cpu.wanted_outside and self._cpu.protects:
            # Who starts has a turn; who has had it, and was paused, keeps its place.
            kept = sum(c.resource.vcores for c in self._active.values() if c.gives_way_to(CPU_PRESSURE))
            return room.less(Resource(0, kept), BUSY)
        if self._cpu.wanted_outside:
            cores = self._room_in_cores()
            if cores < ROUNDING:
                return room if self._may_try_one() else ONE_BY_ONE
            vcores = int((cores + TOLERANCE) * self.total.vcores / self._physical_cores)
            return room.less(Resource(0, max(0, room.left.vcores - vcores)), BUSY)
        return room

    def _short_of_memory(self) -> Reason:
        if (host := self._host) is None:
            return Reason(ReasonKind.MACHINE_MEMORY, MEMORY)
        enough, total = self._memory.floor(host) * 3 // 2 // MIB, host.memory_total // MIB
        return Reason(ReasonKind.MACHINE_MEMORY, MEMORY, enough, host.memory_available // MIB, total)

    def _may_try_one(self) -> bool:
        """Whether one may start although others need all cores: so what uses little, or ends soon, makes progress even
        if that lasts forever. The next waits until this one was measured, or for as long as it has to give way."""
        active = [c for c in self._active.values() if c.is_opportunistic and c.state is not KILLING]
        if any(container.gives_way_to(STANDS_BACK) for container in active):
            return False
        running = [container for container in active if container.state is not PAUSED]
        if any(container.container_id not in self._use for container in running):
            return False
        return sum(map(self._appetite, running)) < TOLERANCE

    def _lendable(self) -> Resource:
        """What is idle by measurement, up to the thresholds and the factor.

        A container that started since then counts with what it was promised, so that not everything starts on one
        reading.
        """
        host = self._host
        if host is None:
            return Resource()
        active = self._active.values()
        bound = self._settings.overallocation_factor
        vcores = 0
        if not self._cpu.is_on:
            own = sum(self._counted_cores(container) for container in active)
            measured = sum(use.cores for use in self._use.values())
            others = self._cpu.mean_outside + max(0.0, host.yopp_cpu - measured)
            idle = min(
                self._thresholds.cpu * host.cores - others - own,
                self._thresholds.cpu * self._physical_cores - own,
            )
            # rounded: on a small machine the threshold is less than a vcore below the whole
            vcores = int(idle * self.total.vcores / self._physical_cores + 0.5) if idle > 0 else 0
            vcores = min(vcores, int(bound * self.total.vcores) - self.allocated.vcores)
        memory = int(self._thresholds.memory * self.total.memory) - sum(map(self._counted_memory, active))
        if host.memory_total > 0:
            unmeasured = sum(c.allocated.memory for c in active if c.container_id not in self._use)
            free = host.memory_available - self._memory.floor(host) * 3 // 2
            memory = min(memory, free // MIB - unmeasured)
        memory = min(memory, int(bound * self.total.memory) - self.allocated.memory)
        return Resource(memory, vcores).at_least_zero()

    @property
    def _lent(self) -> Resource:
        if not self._watches and not self.closed_until_ms:
            return Resource()
        room, unallocated = self._room_for_opportunistic(), self._tracker.unallocated
        if isinstance(room, Room):
            return Resource() if room.left == self._tracker.available else room.left - unallocated
        # Users are told which of the two lacks. At least 1, so that they are told also where none is unallocated.
        memory = self._memory.is_on or self.closed_until_ms > 0
        vcores = not self._memory.is_on or self.closed_until_ms > 0
        return Resource(-max(1, unallocated.memory) * memory, -max(1, unallocated.vcores) * vcores)
