"""CPU and memory pressure of the machine (YARN's ``CGroupElasticMemoryController``). Pure; it knows no containers.

``CpuPressure`` computes how many cores opportunistic containers must give up, and when they may resume;
``MemoryPressure``, whether memory is short. Both get each measurement with its time, and have hysteresis: pressure
must last for a while, its end for longer, and longer each time it returns, so that containers are not paused and
resumed repeatedly.

Decisions: pressure.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable

from ..light import Record
from ..records import HostUtilization

RELEASE_FACTOR = 0.6
"""Pressure is over when processes outside yopp use less than this part of the threshold."""

ROUNDING = 0.25
"""Processes outside that use up to so much more than n cores need n, else n + 1: while no core is idle they get less
than they need."""

TOLERANCE = 0.25
"""Cores by which demand may exceed the machine before containers have to give way."""

RELAPSE_SECONDS = 10.0
"""Pressure that returns so soon after containers resumed was not over."""

LONGEST_QUIET_SECONDS = 30.0

LEAST_LEFT = 0.1
"""Where the kernel makes opportunistic containers yield, they run as long as others leave them so many cores."""

LEAST_TURN_SHARE, TURN_SHARE = 0.01, 0.02
"""The part of the machine that opportunistic containers in their turn may take from others, in the mean."""

TAKEN_SHARE = 0.03
"""The part that they and yopp's daemons may take together: others are promised the rest."""

LOSS = 0.1
"""The kernel does not make them yield if processes outside go without so great a part of what they want."""

UNSURE = 0.2
"""Cores by which the mean of a few counts of threads that can run may be wrong."""

MOST_LOST = 2.0
"""How many times what short processes use they may lose: a core that they share with two containers."""

RECENT_SECONDS = 1.0
"""Over which time what is left, and what is lost, is averaged."""

TOLD_SECONDS = 10.0
"""How long what was lost beside containers is believed after they were paused."""

MIB = 1 << 20


class Demand(Record):
    """What yopp's containers need of the machine, in cores.

    ``rest`` is used by those that do not have to give way: guaranteed containers, and those of other nodes.
    ``opportunistic`` is the demand of this node's running opportunistic containers, ``used`` their usage;
    ``elsewhere`` is the part of ``rest`` that other nodes' containers used. ``runnable`` threads of containers ran or
    waited, ``others`` of them of other nodes; of yopp's own processes those are counted that ran, on average.
    ``turn`` is the demand of those in their turn, which is not part of ``opportunistic``. ``lifted``: because of them,
    opportunistic containers had more than the least weight, so their use does not show that others left it.
    """

    rest: float = 0.0
    opportunistic: float = 0.0
    used: float = 0.0
    runnable: float = 0.0
    elsewhere: float = 0.0
    others: float = 0.0
    turn: float = 0.0
    lifted: bool = False


class _Share(Record):
    """A reading, in cores: what all ``left``, what opportunistic containers ``used``, if that shows what others left,
    what they and other nodes have ``taken``, what processes ``outside`` used and ``waited`` for, how much of that was
    used by ``short`` ones, if known, and how many of their ``threads`` could run, no more than there are cores."""

    at: float
    left: float
    used: float
    outside: float
    waited: float
    short: float | None
    threads: float
    taken: float


def _share(host: HostUtilization, demand: Demand, now: float) -> _Share:
    return _Share(
        at=now,
        left=host.idle,
        used=0.0 if demand.lifted else demand.used,
        outside=host.outside_cpu,
        waited=host.outside_waiting,
        short=max(0.0, host.outside_cpu - host.outside_lasting) if host.outside_lasting >= 0 else None,
        threads=min(max(0.0, host.runnable - demand.runnable), float(host.cores)),
        taken=demand.used + demand.elsewhere,
    )


def _mean(figures: Iterable[float]) -> float:
    known = list(figures)
    return sum(known) / len(known)


def _lost(shares: Collection[_Share]) -> float:
    """The cores that processes outside waited for in vain.

    That is known of those that live long enough. Of short ones, as of a compiler, it is told by counting: so many
    threads can run, and all of them together have used less. Counts are uncertain, so short ones are not thought to
    lose more than ``MOST_LOST`` times what they use. They lose no more than containers take; those of other nodes
    count, as each node would blame the others else, and none would pause.
    """
    waited = _mean(max(0.0, one.waited) for one in shares)
    counted = _mean(one.threads for one in shares) - _mean(one.outside for one in shares) - UNSURE
    known = [one.short for one in shares if one.short is not None]
    counted = min(counted, MOST_LOST * _mean(known or [one.outside for one in shares]))
    return min(max(waited, counted), _mean(one.taken for one in shares))


class CpuPressure:
    """Detects CPU pressure. Processes outside yopp count from ``outside`` cores on; ``saturated`` is the utilization
    from which on the machine is full. With ``lends``, guaranteed containers that use what is lent are pressure, too.
    Times in seconds.
    """

    def __init__(
        self, *, outside: float, saturated: float, sustained: float, quiet: float, lends: bool = False
    ) -> None:
        self._threshold = outside
        self._saturated = saturated
        self._sustained = sustained
        self._shortest_quiet = quiet
        self._lends = lends
        self._quiet = quiet
        #: time, cores used outside, threads outside that ran or waited for a processor
        self._readings: deque[tuple[float, float, float]] = deque()
        self._shares: deque[_Share] = deque()
        self._sufficed_since: float | None = None
        self._since: float | None = None
        self._too_much_since: float | None = None
        self._changed_at = -math.inf
        self._came_back_at = -math.inf
        self._held = 0
        self._asked = False
        self.protects = False
        """Whether the kernel makes opportunistic containers yield: they have no weight, and others lose nothing."""
        self.leaves = True
        """Whether others leave some of the machine."""

    @property
    def wanted_outside(self) -> int:
        """Whole cores to leave to processes outside yopp, 0 without pressure."""
        return self._held

    @property
    def is_on(self) -> bool:
        """Whether pressure has paused containers or prevents starts, and is not over."""
        return self._held > 0 or self._asked

    @property
    def mean_outside(self) -> float:
        """Mean cores used by processes outside yopp, over the last measurements."""
        return sum(cores for _, cores, _ in self._readings) / max(len(self._readings), 1)

    def sampled(self, host: HostUtilization, demand: Demand, now: float) -> float:
        """Add a measurement; return the cores that opportunistic containers must give up now, 0.0 for none."""
        share = _share(host, demand, now)
        self._add_share(share, runs=demand.opportunistic + demand.turn > 0)
        if self._kernel_suffices(host):
            self._since = self._too_much_since = None
            if self._sufficed_since is None:
                self._sufficed_since = now
            elif now - self._sufficed_since >= self._shortest_quiet:
                self._held, self._asked = 0, False
            return 0.0
        self._sufficed_since = None
        # What they want: also what they wait for in vain.
        lost = max(0.0, host.outside_waiting, _lost([share]) if host.yields else 0.0)
        outside = min(host.outside_cpu + lost, float(host.cores))
        waiting = host.runnable - demand.opportunistic - demand.turn
        waiting -= round(demand.rest - demand.elsewhere + demand.others)
        self._readings.append((now, outside, waiting))
        while self._readings[0][0] < now - self._quiet:
            self._readings.popleft()
        wanted = self._wanted(outside, self._threshold)
        excess = wanted + demand.rest + demand.opportunistic - host.cores - TOLERANCE
        if excess <= 0:
            self._too_much_since = None
        elif self._too_much_since is None:
            self._too_much_since = now
        full = host.idle <= (1 - self._saturated) * host.cores
        pressed = full and (wanted > 0 or (self._lends and excess > 0))
        if not pressed:
            if self._is_relieved(host, outside, excess):
                self._since = None
            self._calm_down(now)
            return 0.0
        if self._since is None:
            self._since = now
        if not self._has_lasted(self._since, now):
            return 0.0
        return self._insist(host, demand, now)

    def _add_share(self, share: _Share, *, runs: bool) -> None:
        """While none of the containers ``runs``, others lose nothing by them: that shows nothing, for a while."""
        if runs or share.left >= LEAST_LEFT:
            while self._shares and self._shares[0].at < share.at - RECENT_SECONDS:
                self._shares.popleft()
        elif self._shares and share.at - self._shares[-1].at < TOLD_SECONDS:
            return
        else:
            self._shares.clear()
        self._shares.append(share)

    def _kernel_suffices(self, host: HostUtilization) -> bool:
        """Whether opportunistic containers get but what processes outside leave, and these leave something: then
        pausing would protect nobody, and leave cores idle."""
        self.protects = False
        if not host.yields or self._lends:
            return False
        lost = _lost(self._shares)
        self.protects = lost <= LOSS * (_mean(one.outside for one in self._shares) + lost)
        left, taken = _mean(one.left for one in self._shares), _mean(one.taken for one in self._shares)
        if taken > 0:
            left += _mean(one.used for one in self._shares) * (1 - lost / taken)
        self.leaves = left >= LEAST_LEFT
        return self.protects and self.leaves

    def forget(self) -> None:
        """The machine is not watched any more: what was measured says nothing about later, except that pressure may
        return."""
        self._shares.clear()
        self._since = self._too_much_since = self._sufficed_since = None
        self.protects, self.leaves = False, True

    @property
    def decides_at(self) -> float:
        """When present pressure will have lasted for long enough; never, without."""
        return math.inf if self._since is None else self._since + self._sustained

    def _has_lasted(self, since: float | None, now: float) -> bool:
        return since is not None and now - since >= self._sustained

    def _insist(self, host: HostUtilization, demand: Demand, now: float) -> float:
        """It has lasted. Containers that have to give way are given time to do so."""
        recent = [reading for reading in self._readings if self._since is None or reading[0] >= self._since]
        bound = self._threshold * (RELEASE_FACTOR if self.is_on else 1)
        wanted = self._wanted(sum(cores for _, cores, _ in recent) / len(recent), bound)
        if wanted:
            # On a full machine they get their share, not what they need: those that wait count, too.
            threads = sum(waiting for _, _, waiting in recent) / len(recent)
            wanted = min(max(wanted, int(threads + ROUNDING)), host.cores)
        excess = wanted + demand.rest + demand.opportunistic - host.cores - TOLERANCE
        asks = excess > 0 and (wanted > self._held or self._has_lasted(self._too_much_since, now))
        if now - self._came_back_at < RELAPSE_SECONDS and (asks or not self.is_on):
            self._quiet = min(2 * self._quiet, LONGEST_QUIET_SECONDS)
            self._came_back_at = -math.inf  # that was one mistake
        elif not self.is_on:
            self._quiet = self._shortest_quiet
        self._held = wanted
        self._changed_at = now
        if not asks:
            return 0.0
        self._asked = True
        self._since = self._too_much_since = None
        return excess

    def _is_relieved(self, host: HostUtilization, outside: float, excess: float) -> bool:
        """Clearly below the threshold, not just for a moment."""
        if host.idle > 2 * (1 - self._saturated) * host.cores + TOLERANCE:
            return True
        quiet_outside = outside < RELEASE_FACTOR * self._threshold
        return quiet_outside and not (self._lends and excess > 0)

    def _calm_down(self, now: float) -> None:
        if not self.is_on or now - self._changed_at < self._quiet:
            return
        held = self._wanted(self.mean_outside, RELEASE_FACTOR * self._threshold)
        if held < self._held or self._asked:
            self._came_back_at = self._changed_at = now
            self._since = None  # what it was like before says nothing about it with those that resume
        self._held = min(self._held, held)
        self._asked = False

    @staticmethod
    def _wanted(outside: float, threshold: float) -> int:
        return max(1, math.ceil(outside - ROUNDING)) if outside >= threshold else 0


class MemoryPressure:
    """Detects memory pressure. ``available`` bytes must stay available: None for a part of the machine's memory, 0
    for no limit. ``stalled`` is the part of the time, 0 to 1, in which all tasks may wait for memory; 0 for no limit.
    """

    def __init__(self, *, available: int | None, stalled: float, quiet: float) -> None:
        self._available = available
        self._stalled = stalled
        self._quiet = quiet
        self._enough_since: float | None = None
        self.is_on = False
        """Whether memory was short, and that is not over."""

    def floor(self, host: HostUtilization) -> int:
        """The bytes that must stay available on this machine."""
        if self._available is not None:
            return self._available
        return min(max(host.memory_total // 40, 64 * MIB), 512 * MIB)

    def sampled(self, host: HostUtilization, now: float) -> int:
        """Add a measurement; return the missing bytes, 0 for none."""
        floor = self.floor(host)
        if floor <= 0 or host.memory_total <= 0:
            return 0
        stalls = 0 < self._stalled <= host.memory_stalled and host.memory_available < 2 * floor
        if host.memory_available < floor or stalls:
            self.is_on = True
            self._enough_since = None
            return max(floor - host.memory_available, 1)
        if self.is_on and host.memory_available >= floor + floor // 2:
            if self._enough_since is None:
                self._enough_since = now
            self.is_on = now - self._enough_since < self._quiet
        else:
            self._enough_since = None
        return 0
