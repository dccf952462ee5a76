"""Which opportunistic containers make room for a guaranteed one, and how (YARN-5887); and what a pause frees.

A policy gets the candidates with the resources they can free, newest first, and the shortage; it returns a plan, or
nothing. All but YARN's take only containers that are needed, and none at all where even all would not suffice. YARN
takes the newest one after the other until it is enough, even where it never will be. The search is in ``victims.py``.

Decisions: minimal-preemption.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..light import Record, replace
from ..records import MIB, Resource
from ..settings import ExecutorSettings
from .applications import Applications
from .commands import KillContainer, PauseContainer
from .container import KILLING, LAUNCHING, NOTHING, PAUSED, PAUSING, RESUMING, RUNNING, Container
from .victims import cheapest, fewest, newest_first

PAUSED_SLACK = 4
"""MiB that a paused container keeps beyond what it was last seen to use."""


class PausedMemory:
    """The memory of a paused container. Here it keeps all of it."""

    takes_back = False
    """Whether the kernel is told to take back what it can."""

    def expected(self, container: Container) -> int:
        """The memory, in MiB, that a pause would free."""
        return 0

    def counted(self, container: Container, expected: int) -> int:
        """How much counts as on its way back while a container is being paused from which ``expected`` is wanted."""
        return expected

    def kept(self, held: int, left: int) -> int:
        """How much a paused container counts with that held ``held`` and was left with ``left``, -1 for all."""
        return left if 0 <= left < held else held


class ReclaimedMemory(PausedMemory):
    """The kernel reclaims the memory that the container did not use at the last measurement."""

    takes_back = True

    def expected(self, container: Container) -> int:
        """The memory that a container holds and does not use."""
        if container.unreclaimable or container.usage.memory_bytes <= 0:
            return 0
        used = -(-container.usage.memory_bytes // MIB)
        return max(0, container.allocated.memory - used - PAUSED_SLACK)


class ReleasedMemory(PausedMemory):
    """YARN's rule: all of it counts as given back, although nothing was freed."""

    def expected(self, container: Container) -> int:
        """All."""
        return container.allocated.memory

    def counted(self, container: Container, expected: int) -> int:
        """All, even where none is wanted."""
        return container.allocated.memory

    def kept(self, held: int, left: int) -> int:
        """None."""
        return 0


def paused_memory_of(settings: ExecutorSettings, *, cgroups_limit_memory: bool) -> PausedMemory:
    """The policy of ``paused-memory``. Without a memory cgroup, none is reclaimed."""
    if settings.paused_memory == "release":
        return ReleasedMemory()
    reclaims = settings.paused_memory == "reclaim" and cgroups_limit_memory
    return ReclaimedMemory() if reclaims else PausedMemory()


class Reclaimable(Record):
    """An opportunistic container that could make room.

    ``by_kill`` is what its end would free beyond what it is already freeing. ``by_pause`` is what a pause would free:
    its vcores, and the memory that is expected to be reclaimed, because a stopped process keeps its pages; no
    countable resource; nothing if it cannot be paused. ``stands``: it is paused, or about to be. ``kill_cost`` and
    ``pause_cost`` are its costs by the policy.
    """

    container_id: str
    by_kill: Resource
    by_pause: Resource = NOTHING
    stands: bool = False
    kill_cost: float = 0.0
    pause_cost: float = 0.0


def reclaimable(
    container: Container,
    memory_by_pause: int = 0,
    costs: tuple[float, float] = (0.0, 0.0),
    *,
    keeps_others: bool = False,
) -> Reclaimable:
    """The resources that an opportunistic container could free beyond those that it is already freeing.

    ``memory_by_pause`` is how much memory, in MiB, pausing it is expected to give back; ``costs`` come from the policy.
    ``keeps_others``: it is not ended for its countable resources.
    """
    if container.state is KILLING:
        return Reclaimable(container.container_id, by_kill=NOTHING)
    by_pause = NOTHING
    may_pause = not container.unpausable and not container.pause_pending
    if may_pause and container.state in (LAUNCHING, RUNNING, RESUMING):
        by_pause = Resource(memory_by_pause, container.allocated.vcores)
    by_kill = container.allocated - container.is_giving_back
    return Reclaimable(
        container.container_id,
        replace(by_kill, others=()) if keeps_others and by_kill.others else by_kill,
        by_pause,
        container.state in (PAUSING, PAUSED) or container.pause_pending,
        *costs,
    )


Steps = list[PauseContainer | KillContainer]


class PreemptionPolicy:
    """MINIMAL: the fewest that suffice, the newest of those. The base of the other policies."""

    goes_by_start = False
    """Whether a resumed container counts as the last to have started."""
    is_in_vain = False
    """Whether containers are taken although they do not suffice."""

    def __init__(self, settings: ExecutorSettings, applications: Applications) -> None:
        self._settings = settings
        self._applications = applications

    def costs(self, container: Container, now: float) -> tuple[float, float]:
        """The costs of killing a container, and of pausing it."""
        return 0.0, 0.0

    def plan(self, running: Sequence[Reclaimable], short: Resource, *, can_pause: bool) -> Steps:
        """The plan to free ``short``: nothing if nothing is short, or if all would not suffice.

        ``running`` is in order of start, newest first. Where pausing is allowed, containers are killed only if pausing
        all does not suffice. Where memory is short and pausing gives too little of it back, those whose memory is
        needed are killed, and the others paused.
        """
        if short == NOTHING:
            return []
        if can_pause:
            paused = _cheapest([one.by_pause for one in running], [one.pause_cost for one in running], short)
            if paused:
                return [PauseContainer(running[index].container_id) for index in paused]
        killed = _cheapest([one.by_kill for one in running], [one.kill_cost for one in running], short)
        victims = [running[index] for index in killed]
        spared = _spared(victims, short) if can_pause else set()
        names = [victim.container_id for victim in victims]
        return [PauseContainer(name) if name in spared else KillContainer(name) for name in names]


class LeastWorkLost(PreemptionPolicy):
    """The policy that chooses the containers whose end loses the fewest vcore-seconds. A pause loses no work."""

    def costs(self, container: Container, now: float) -> tuple[float, float]:
        """The vcore-seconds that a container has run."""
        return container.ran_seconds(now) * max(container.resource.vcores, 1), 0.0


class SpareNearlyDone(PreemptionPolicy):
    """The policy MINIMAL, but containers of jobs that are nearly done only if the others do not suffice."""

    def costs(self, container: Container, now: float) -> tuple[float, float]:
        """1 for a container of a job that is nearly done."""
        share = self._applications.share_done(container.spec.application_id, now)
        spare = float(100 * share >= self._settings.nearly_done_percentage)
        return spare, spare


class NewestFirst(PreemptionPolicy):
    """YARN's rule: the newest first, whatever each frees and whether all suffice."""

    goes_by_start = True
    is_in_vain = True

    def plan(self, running: Sequence[Reclaimable], short: Resource, *, can_pause: bool) -> Steps:
        """One after the other until it is enough. Paused ones are passed over unless what they keep is short.

        No container is preempted for a countable resource that all together do not free: a paused one would keep its
        own, and never resume.
        """
        if not replace(short, memory=0, vcores=0).fits_in(sum((one.by_kill for one in running), NOTHING)):
            return []
        walked = [c for c in running if _kept_when_paused(short) or not c.stands]
        steps: Steps = []
        for index in newest_first([candidate.by_kill for candidate in walked], short):
            taken = walked[index]
            pause_does = taken.by_pause == taken.by_kill or not _kept_when_paused(short)
            if can_pause and pause_does and taken.by_pause != NOTHING:
                steps.append(PauseContainer(taken.container_id))
            else:
                steps.append(KillContainer(taken.container_id))
        return steps


POLICIES: Mapping[str, type[PreemptionPolicy]] = {
    "MINIMAL": PreemptionPolicy,
    "NEWEST_FIRST": NewestFirst,
    "LEAST_WORK_LOST": LeastWorkLost,
    "SPARE_NEARLY_DONE": SpareNearlyDone,
}
"""By the values of ``yopp.nodemanager.preemption-policy``."""


def _kept_when_paused(short: Resource) -> bool:
    """Whether any of what is short is such that a paused container may keep it."""
    return short.memory > 0 or bool(short.others)


def _cheapest(gains: Sequence[Resource], costs: Sequence[float], short: Resource) -> list[int]:
    return cheapest(gains, costs, short) if any(costs) else fewest(gains, short)


def _spared(victims: Sequence[Reclaimable], short: Resource) -> set[str]:
    """The victims for which a pause is enough, as what they keep is not needed. The oldest are spared first."""
    spared: set[str] = set()
    excess = sum((victim.by_kill for victim in victims), NOTHING) - short
    for victim in reversed(victims):
        if victim.by_pause == victim.by_kill != Resource():
            spared.add(victim.container_id)
        elif 0 < victim.by_pause.vcores == victim.by_kill.vcores:
            keeps = replace(victim.by_kill, vcores=0)
            if keeps.fits_in(excess):
                spared.add(victim.container_id)
                excess -= keeps
    return spared
