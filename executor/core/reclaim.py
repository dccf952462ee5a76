"""Which opportunistic containers make room for a guaranteed one, and how. Pure functions of one shape.

A policy is told who could give what, newest first, and what is short; it answers with what is to be done, or
with nothing. ``plan`` is ours (design decision 8): the fewest containers that suffice, the newest of them,
and none at all where even all would not suffice. YARN takes the newest one after the other until it is
enough, also where it will never be (``ContainerScheduler.pickOpportunisticContainersToReclaimResources``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..records import Resource
from .commands import KillContainer, PauseContainer
from .container import KILLING, LAUNCHING, NOTHING, RESUMING, RUNNING, Container

EXACT_EFFORT = 40_000
"""Table cells up to which the fewest containers are found exactly, some ten milliseconds; beyond that,
greedily."""


@dataclass(frozen=True, slots=True)
class Reclaimable:
    """An opportunistic container that could make room.

    ``by_kill`` is what its end would give back beyond what it is giving back already. ``by_pause`` is what
    pausing it would: vcores, and of its memory only what is expected to be reclaimed, for a stopped process
    keeps its pages (design decision 1); nothing if it cannot be paused.
    """

    container_id: str
    by_kill: Resource
    by_pause: Resource = NOTHING


def reclaimable(container: Container, memory_by_pause: int = 0) -> Reclaimable:
    """What an opportunistic container that holds resources could give beyond what is on its way back.

    ``memory_by_pause`` is how much memory, in MiB, a pause of it is expected to give back.
    """
    coming = container.is_giving_back
    if container.state is KILLING:
        return Reclaimable(container.container_id, by_kill=Resource())
    by_pause = Resource()
    if (
        container.state in (LAUNCHING, RUNNING, RESUMING)
        and not container.unpausable
        and not container.pause_wanted
    ):
        by_pause = Resource(memory_by_pause, container.allocated.vcores)
    return Reclaimable(container.container_id, by_kill=container.allocated - coming, by_pause=by_pause)


class ReclaimPolicy(Protocol):
    """The shape of every policy."""

    def __call__(
        self, running: Sequence[Reclaimable], short: Resource, *, can_pause: bool
    ) -> list[PauseContainer | KillContainer]:
        """What to do to gain at least ``short``. ``running`` is in order of start, newest first."""


def plan(
    running: Sequence[Reclaimable], short: Resource, *, can_pause: bool
) -> list[PauseContainer | KillContainer]:
    """The smallest set that suffices, newest first among equals; empty if none does or nothing is short.

    Where pausing is allowed containers are paused, and killed only if pausing all does not suffice. Where
    memory is short and pausing gives too little of it back, those whose memory is needed are killed, and the
    others are paused.
    """
    if short == Resource():
        return []
    if can_pause:
        chosen = _fewest([candidate.by_pause for candidate in running], short)
        if chosen:
            return [PauseContainer(running[index].container_id) for index in chosen]
    chosen = _fewest([candidate.by_kill for candidate in running], short)
    victims = [running[index] for index in chosen]
    spared = _spared(victims, short) if can_pause else set()
    return [
        PauseContainer(victim.container_id)
        if victim.container_id in spared
        else KillContainer(victim.container_id)
        for victim in victims
    ]


def _spared(victims: Sequence[Reclaimable], short: Resource) -> set[str]:
    """Those of the victims for which a pause is enough: their memory is not needed. The oldest are spared
    first."""
    spared: set[str] = set()
    excess = sum(victim.by_kill.memory for victim in victims) - short.memory
    for victim in reversed(victims):
        if 0 < victim.by_pause.vcores == victim.by_kill.vcores and victim.by_kill.memory <= excess:
            spared.add(victim.container_id)
            excess -= victim.by_kill.memory
    return spared


def _fewest(gains: Sequence[Resource], short: Resource) -> list[int]:
    """The indices of the fewest gains that sum up to ``short``; the earliest among sets of one size; else
    none."""
    useful = [
        index
        for index, gain in enumerate(gains)
        if (short.memory > 0 < gain.memory) or (short.vcores > 0 < gain.vcores)
    ]
    capped = [
        Resource(min(gains[index].memory, short.memory), min(gains[index].vcores, short.vcores))
        for index in useful
    ]
    if not short.fits_in(sum(capped, Resource())):
        return []
    enough = _greedy(capped, short)
    if len(enough) > 1 and len(capped) * len(enough) * (short.vcores + 1) <= EXACT_EFFORT:
        enough = _exact(capped, short, at_most=len(enough))
    return [useful[index] for index in enough]


def _greedy(gains: Sequence[Resource], short: Resource) -> list[int]:
    """A small set that suffices: the largest gains first, then without those that were not needed after all.

    The caller knows that all together suffice. Where all gains are alike this is the smallest set, and the
    earliest.
    """

    def usefulness(index: int) -> float:
        gain = gains[index]
        return gain.memory / max(short.memory, 1) + gain.vcores / max(short.vcores, 1)

    chosen: list[int] = []
    missing = short
    for index in sorted(range(len(gains)), key=usefulness, reverse=True):
        chosen.append(index)
        missing = missing - gains[index]
        if missing.memory <= 0 and missing.vcores <= 0:
            break
    for index in sorted(chosen, reverse=True):
        without = missing + gains[index]
        if without.memory <= 0 and without.vcores <= 0:
            chosen.remove(index)
            missing = without
    return sorted(chosen)


def _exact(gains: Sequence[Resource], short: Resource, *, at_most: int) -> list[int]:
    """The smallest set that suffices, and of several the one with the earliest members.

    ``best[i][n][v]`` is the most memory that ``n`` of the gains from the i-th on give together with ``v``
    vcores, -1 if they cannot give those. From it the set is read off front to back: a gain is taken if the
    rest can still do it.
    """
    vcores = range(short.vcores + 1)
    nothing = [[0 if v == 0 else -1 for v in vcores] for _ in range(at_most + 1)]
    best = [nothing]
    for gain in reversed(gains):
        after = best[-1]
        row = [after[0]]
        for count in range(1, at_most + 1):
            fewer = after[count - 1]
            with_it = [fewer[max(0, v - gain.vcores)] for v in vcores]
            row.append(
                [
                    max(without, gain.memory + rest) if rest >= 0 else without
                    for without, rest in zip(after[count], with_it, strict=True)
                ]
            )
        best.append(row)
    best.reverse()
    count = next(n for n in range(at_most + 1) if best[0][n][short.vcores] >= short.memory)
    chosen: list[int] = []
    missing = short
    for index, gain in enumerate(gains):
        if count == 0:
            break
        rest = (missing - gain).at_least_zero()
        if best[index + 1][count - 1][rest.vcores] >= rest.memory:
            chosen.append(index)
            missing, count = rest, count - 1
    return chosen
