"""The search for containers that together free a shortage. Pure functions.

The functions get what each container would free, newest first, and return indices of that list. ``fewest`` and
``cheapest`` are all or nothing, and select no unnecessary container; ``newest_first`` is YARN's rule, and is neither.

Decisions: minimal-preemption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ..records import Resource

EXACT_EFFORT = 40_000
"""Table cells up to which the best set is searched exactly, some ten milliseconds; beyond that, greedily."""

_NOTHING = Resource()
Sum = TypeVar("Sum")
"""A sum of gains: memory and vcores, which takes a third of the time, or all types of resources."""


def newest_first(gains: Sequence[Resource], short: Resource) -> list[int]:
    """One after the other until the sum suffices or none is left, even those that free nothing of the shortage
    (``ContainerScheduler.pickOpportunisticContainersToReclaimResources``)."""
    chosen: list[int] = []
    missing = short
    for index, gain in enumerate(gains):
        if missing.fits_in(_NOTHING):
            break
        if gain != Resource():
            chosen.append(index)
            missing = missing - gain
    return chosen


def cheapest(gains: Sequence[Resource], costs: Sequence[float], short: Resource) -> list[int]:
    """The indices of the gains that sum up to ``short`` at the least cost; among equally cheap sets the smallest,
    then the earliest; none if all do not suffice."""
    useful, capped = _useful(gains, short)
    if not short.fits_in(sum(capped, Resource())):
        return []
    price = [costs[index] for index in useful]
    chosen = _cheap(capped, price, short)
    better = _cheapest_of_all(capped, price, short, chosen)
    return [useful[index] for index in (chosen if better is None else better)]


Found = tuple[float, int, tuple[int, ...]]
"""A set of gains: what it costs, how many they are, and which."""


def _cheapest_of_all(
    gains: Sequence[Resource], costs: Sequence[float], short: Resource, known: Sequence[int]
) -> list[int] | None:
    """Do as ``cheapest``, by the best set for each possible sum; None if there are too many sums.

    ``known`` is a set that suffices: what costs more is not pursued. What exceeds ``short`` does not count, so that
    many containers of few sizes have few sums.
    """
    if short.others:
        return _by_sums(gains, costs, known, _NOTHING, short, _sum, EXACT_EFFORT // 10)
    return _by_sums(gains, costs, known, (0, 0), (short.memory, short.vcores), _sum_of_two, EXACT_EFFORT)


def _by_sums(
    gains: Sequence[Resource],
    costs: Sequence[float],
    known: Sequence[int],
    nothing: Sum,
    wanted: Sum,
    add: Callable[[Sum, Resource, Sum], Sum],
    most: int,
) -> list[int] | None:
    """The best set for the sum ``wanted``; None if that takes more than ``most`` cells. ``add`` makes the sums."""
    best: dict[Sum, Found] = {nothing: (0.0, 0, ())}
    # sums of the same costs in another order may differ by a rounding
    limit = sum(costs[index] for index in known) * (1 + 1e-9)
    effort = 0
    for index, gain in enumerate(gains):
        effort += len(best) * len(known)
        if effort > most:
            return None
        more = costs[index]
        for had, (cost, count, members) in list(best.items()):
            if had == wanted or cost + more > limit:
                continue
            total = add(had, gain, wanted)
            found: Found = (cost + more, count + 1, (*members, index))
            if total not in best or found < best[total]:
                best[total] = found
    return list(best[wanted][2])


def _sum_of_two(had: tuple[int, int], gain: Resource, most: tuple[int, int]) -> tuple[int, int]:
    """Memory and vcores together with a gain, of each at most what is wanted."""
    memory, vcores = had[0] + gain.memory, had[1] + gain.vcores
    return memory if memory < most[0] else most[0], vcores if vcores < most[1] else most[1]


def _sum(had: Resource, gain: Resource, most: Resource) -> Resource:
    """The same of all types of resources."""
    return (had + gain).lesser(most)


def _cheap(gains: Sequence[Resource], costs: Sequence[float], short: Resource) -> list[int]:
    """A cheap set that suffices: the best bargains first, then without those not needed after all."""
    bargains = sorted(
        range(len(gains)), key=lambda index: (costs[index] + 1e-9) / _usefulness(gains[index], short)
    )
    return _needed_of(bargains, gains, short, sorted(bargains, key=lambda index: (-costs[index], -index)))


def _useful(gains: Sequence[Resource], short: Resource) -> tuple[list[int], list[Resource]]:
    """The indices of the gains that contain something of what is short, and what each contains of it."""
    useful = [
        index
        for index, gain in enumerate(gains)
        if (short.memory > 0 < gain.memory)
        or (short.vcores > 0 < gain.vcores)
        or any(one.value > 0 < gain.amount(one.name) for one in short.others)
    ]
    return useful, [gains[index].lesser(short) for index in useful]


def fewest(gains: Sequence[Resource], short: Resource) -> list[int]:
    """The indices of the fewest gains that sum up to ``short``; among sets of one size the earliest; none if all do
    not suffice."""
    if short.others:
        return cheapest(gains, [1.0] * len(gains), short)
    useful, capped = _useful(gains, short)
    if not short.fits_in(sum(capped, Resource())):
        return []
    enough = _greedy(capped, short)
    if len(enough) > 1 and len(capped) * len(enough) * (short.vcores + 1) <= EXACT_EFFORT:
        enough = _exact(capped, short, at_most=len(enough))
    return [useful[index] for index in enough]


def _greedy(gains: Sequence[Resource], short: Resource) -> list[int]:
    """A small set that suffices: the largest gains first, then without those that are not needed after all.

    All together must suffice. If all gains are equal, this is the smallest set, and the earliest.
    """
    largest = sorted(range(len(gains)), key=lambda index: _usefulness(gains[index], short), reverse=True)
    return _needed_of(largest, gains, short, range(len(gains) - 1, -1, -1))


def _usefulness(gain: Resource, short: Resource) -> float:
    of_others = sum(gain.amount(one.name) / max(one.value, 1) for one in short.others)
    return gain.memory / max(short.memory, 1) + gain.vcores / max(short.vcores, 1) + of_others


def _needed_of(
    order: Sequence[int], gains: Sequence[Resource], short: Resource, spare_in: Iterable[int]
) -> list[int]:
    """The first in ``order`` that suffice, without those not needed; the first in ``spare_in`` are spared first."""
    chosen: set[int] = set()
    missing = short
    for index in order:
        chosen.add(index)
        missing = missing - gains[index]
        if missing.fits_in(_NOTHING):
            break
    for index in spare_in:
        if index in chosen:
            without = missing + gains[index]
            if without.fits_in(_NOTHING):
                chosen.remove(index)
                missing = without
    return sorted(chosen)


def _exact(gains: Sequence[Resource], short: Resource, *, at_most: int) -> list[int]:
    """The smallest set that suffices, and of several the one with the earliest members.

    ``best[i][n][v]`` is the most memory that ``n`` of the gains from the i-th on give together with ``v`` vcores, -1 if
    they cannot give those. The set is read from it front to back: a gain is taken if the rest can still suffice.
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
