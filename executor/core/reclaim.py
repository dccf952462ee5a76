"""Which opportunistic containers make room for a guaranteed one, and how (YARN-5887). Pure functions.

They are told who could give what, newest first, and what is short; they answer with what is to be done, or
with nothing. MINIMAL is ours (design decision 8): the fewest containers that suffice, the newest of them, and
none at all where even all would not suffice. YARN takes the newest one after the other until it is enough,
also where it will never be. The search for each is in ``victims.py``.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from ..records import Resource
from .commands import KillContainer, PauseContainer
from .container import KILLING, LAUNCHING, NOTHING, PAUSED, PAUSING, RESUMING, RUNNING, Container
from .victims import cheapest, fewest, newest_first


class PreemptionPolicy(enum.StrEnum):
    """The values of ``yopp.nodemanager.preemption-policy``."""

    MINIMAL = "MINIMAL"
    NEWEST_FIRST = "NEWEST_FIRST"
    LEAST_WORK_LOST = "LEAST_WORK_LOST"
    SPARE_NEARLY_DONE = "SPARE_NEARLY_DONE"


@dataclass(frozen=True, slots=True)
class Reclaimable:
    """An opportunistic container that could make room.

    ``by_kill`` is what its end would give back beyond what it is giving back already. ``by_pause`` is what
    pausing it would: vcores, and of its memory only what is expected to be reclaimed, for a stopped process
    keeps its pages (design decision 1); nothing if it cannot be paused. ``stands`` is set for one that is
    paused or about to be. ``work`` is what its end would lose, in vcore-seconds; ``spare`` asks for it to be
    spared if possible. They are looked at by the policies that are about them alone.
    """

    container_id: str
    by_kill: Resource
    by_pause: Resource = NOTHING
    stands: bool = False
    work: float = 0.0
    spare: bool = False


def reclaimable(
    container: Container, memory_by_pause: int = 0, *, work: float = 0.0, spare: bool = False
) -> Reclaimable:
    """What an opportunistic container that holds resources could give beyond what is on its way back.

    ``memory_by_pause`` is how much memory, in MiB, a pause of it is expected to give back. ``work`` and
    ``spare`` are as in Reclaimable.
    """
    coming = container.is_giving_back
    if container.state is KILLING:
        return Reclaimable(container.container_id, by_kill=Resource())
    by_pause = Resource()
    if (
        container.state in (LAUNCHING, RUNNING, RESUMING)
        and not container.unpausable
        and not container.pause_pending
    ):
        by_pause = Resource(memory_by_pause, container.allocated.vcores)
    return Reclaimable(
        container.container_id,
        by_kill=container.allocated - coming,
        by_pause=by_pause,
        stands=container.state in (PAUSING, PAUSED) or container.pause_pending,
        work=work,
        spare=spare,
    )


Steps = list[PauseContainer | KillContainer]


def plan(
    running: Sequence[Reclaimable],
    short: Resource,
    *,
    can_pause: bool,
    policy: PreemptionPolicy = PreemptionPolicy.MINIMAL,
) -> Steps:
    """What to do to gain ``short``: empty if nothing is short or, but for NEWEST_FIRST, if all would not do.

    ``running`` is in order of start, newest first. Where pausing is allowed containers are paused, and killed
    only if pausing all does not suffice. Where memory is short and pausing gives too little of it back, those
    whose memory is needed are killed, and the others are paused.
    """
    if short == Resource():
        return []
    if policy is PreemptionPolicy.NEWEST_FIRST:
        return _yarns_walk(running, short, can_pause=can_pause)
    if can_pause:
        gains = [candidate.by_pause for candidate in running]
        # whoever is paused loses no work: those are chosen as if all had cost the same
        costs = [float(candidate.spare) for candidate in running]
        if chosen := cheapest(gains, costs, short) if any(costs) else fewest(gains, short):
            return [PauseContainer(running[index].container_id) for index in chosen]
    victims = [running[index] for index in _to_kill(running, short, policy)]
    spared = _spared(victims, short) if can_pause else set()
    return [
        PauseContainer(victim.container_id)
        if victim.container_id in spared
        else KillContainer(victim.container_id)
        for victim in victims
    ]


def _to_kill(running: Sequence[Reclaimable], short: Resource, policy: PreemptionPolicy) -> list[int]:
    gains = [candidate.by_kill for candidate in running]
    match policy:
        case PreemptionPolicy.LEAST_WORK_LOST:
            return cheapest(gains, [candidate.work for candidate in running], short)
        case PreemptionPolicy.SPARE_NEARLY_DONE if any(candidate.spare for candidate in running):
            return cheapest(gains, [float(candidate.spare) for candidate in running], short)
        case _:
            return fewest(gains, short)


def _yarns_walk(running: Sequence[Reclaimable], short: Resource, *, can_pause: bool) -> Steps:
    """Newest first, whatever it gives and whether it suffices. Paused ones no longer run, and are passed over
    unless it is their memory that is short."""
    walked = [c for c in running if not (c.stands and short.memory <= 0)]
    steps: Steps = []
    for index in newest_first([candidate.by_kill for candidate in walked], short):
        taken = walked[index]
        pause_does = taken.by_pause == taken.by_kill or short.memory <= 0
        if can_pause and pause_does and taken.by_pause != Resource():
            steps.append(PauseContainer(taken.container_id))
        else:
            steps.append(KillContainer(taken.container_id))
    return steps


def _spared(victims: Sequence[Reclaimable], short: Resource) -> set[str]:
    """Those of the victims for which a pause is enough: their memory is not needed. The oldest are spared
    first."""
    spared: set[str] = set()
    excess = sum(victim.by_kill.memory for victim in victims) - short.memory
    for victim in reversed(victims):
        if victim.by_pause == victim.by_kill != Resource():
            spared.add(victim.container_id)
        elif 0 < victim.by_pause.vcores == victim.by_kill.vcores and victim.by_kill.memory <= excess:
            spared.add(victim.container_id)
            excess -= victim.by_kill.memory
    return spared
